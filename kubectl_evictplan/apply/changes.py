"""What an operation makes of a node, and whether it may: pure rules on one node as it was read.

``spec.taints`` is one atomic list: a patch sends all of it. So every other taint goes back byte for
byte and in its place, and the patch carries the resourceVersion of the read.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from kubectl_evictplan.apply.cluster import FIELD_MANAGER, LiveNode, SpecChange
from kubectl_evictplan.apply.records import NodeImage
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.timestamps import format_rfc3339, parse_rfc3339_ns
from kubectl_evictplan.plans.document import (
    AddTaint,
    AnyOperation,
    Cordon,
    Evict,
    RemoveTaint,
    Uncordon,
)
from kubectl_evictplan.prediction.document import TaintReference

RawTaint = dict[str, Any]


class Standing(Enum):
    """How a node stands to an operation."""

    # It has to be done, and may be.
    TO_DO = "to-do"
    # It is as wanted, by us.
    OURS = "ours"
    # It is as wanted, by another, or nobody can tell.
    ALREADY = "already"
    # What the operation presupposes is not so.
    VIOLATED = "violated"


class Judgement(NamedTuple):
    """How the node stands, and what it shall be when there is something to do."""

    standing: Standing
    wanted: NodeImage | None = None


def image(node: LiveNode) -> NodeImage:
    """Return what of a node can be changed."""
    return NodeImage(node.uid, node.resource_version, node.raw_taints, node.unschedulable)


def time_added(now_ns: int) -> str:
    """Return the timeAdded that marks our taint, in the whole seconds that the API keeps."""
    return format_rfc3339(now_ns // SECOND_NS * SECOND_NS)


def judge(operation: AnyOperation, node: LiveNode, marked: str) -> Judgement:
    """Tell what is to do. ``marked`` is the timeAdded of our taint, also of earlier attempts."""
    match operation:
        case AddTaint():
            return _judge_add(operation, node, marked)
        case RemoveTaint():
            return _judge_remove(operation, node)
        case Cordon() | Uncordon():
            return _judge_cordon(isinstance(operation, Cordon), node)
        case Evict():
            raise AssertionError("an eviction changes no node")


def _judge_add(operation: AddTaint, node: LiveNode, marked: str) -> Judgement:
    index = slot(node.raw_taints, operation.taint)
    ours = own_taint(operation.taint, marked)
    if index is None:
        if operation.replaces is not None:
            return Judgement(Standing.VIOLATED)
        return _to_do(node, (*node.raw_taints, ours))
    found = node.raw_taints[index]
    if same_taint(found, ours):
        return Judgement(Standing.OURS)
    if value(found) == operation.taint.value:
        return Judgement(Standing.ALREADY)
    if operation.replaces is None or value(found) != operation.replaces.value:
        return Judgement(Standing.VIOLATED)
    return _to_do(node, (*node.raw_taints[:index], ours, *node.raw_taints[index + 1 :]))


def _judge_remove(operation: RemoveTaint, node: LiveNode) -> Judgement:
    index = slot(node.raw_taints, operation.taint)
    if index is None:
        return Judgement(Standing.OURS if owns(node, "taints") else Standing.ALREADY)
    if value(node.raw_taints[index]) != operation.taint.value:
        return Judgement(Standing.VIOLATED)
    return _to_do(node, (*node.raw_taints[:index], *node.raw_taints[index + 1 :]))


def _judge_cordon(wanted: bool, node: LiveNode) -> Judgement:
    if node.unschedulable == wanted:
        return Judgement(Standing.OURS if owns(node, "unschedulable") else Standing.ALREADY)
    return Judgement(Standing.TO_DO, msgspec.structs.replace(image(node), unschedulable=wanted))


def _to_do(node: LiveNode, taints: tuple[RawTaint, ...]) -> Judgement:
    return Judgement(Standing.TO_DO, msgspec.structs.replace(image(node), taints=taints))


def written_by(operation: AnyOperation, node: LiveNode) -> tuple[SpecChange, ...]:
    """Return who wrote the field that the operation is about; others' fields prove nothing.

    A field that was removed has no manager any more: then nobody is named.
    """
    field = "unschedulable" if isinstance(operation, Cordon | Uncordon) else "taints"
    return tuple(change for change in node.changed_by if field in change.fields)


def owns(node: LiveNode, field: str) -> bool:
    """Whether the last change of that field of the spec was ours, by managedFields.

    Whoever changes an atomic list takes it from all other managers; a list that became empty belongs
    to nobody, so then the answer is no.
    """
    return any(
        change.manager == FIELD_MANAGER and field in change.fields for change in node.changed_by
    )


def slot(taints: Sequence[RawTaint], wanted: TaintReference) -> int | None:
    """Return the place of the taint with that key and effect."""
    for index, taint in enumerate(taints):
        if (taint.get("key"), taint.get("effect")) == (wanted.key, wanted.effect):
            return index
    return None


def value(taint: RawTaint) -> str:
    """Return a taint's value; it may be left out when it is empty."""
    return str(taint.get("value") or "")


def own_taint(taint: TaintReference, marked: str) -> RawTaint:
    """Return our taint as it is sent."""
    raw = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": marked}
    return {key: part for key, part in raw.items() if part}


def same_taint(one: RawTaint, other: RawTaint) -> bool:
    """Whether two taints are identical in all that they say."""
    return _meaning(one) == _meaning(other)


def same_taints(some: Sequence[RawTaint], others: Sequence[RawTaint]) -> bool:
    """Whether two lists say the same in the same order."""
    return [_meaning(one) for one in some] == [_meaning(one) for one in others]


def made_of(wanted: NodeImage, found: LiveNode) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a node has beside what was wanted, and what it lacks: taints in words, and "unschedulable"."""
    has, lacks = (
        tuple(
            _taint_words(one) for one in some if not any(same_taint(one, other) for other in others)
        )
        for some, others in ((found.raw_taints, wanted.taints), (wanted.taints, found.raw_taints))
    )
    if found.unschedulable and not wanted.unschedulable:
        has += ("unschedulable",)
    if wanted.unschedulable and not found.unschedulable:
        lacks += ("unschedulable",)
    return has, lacks


def _taint_words(taint: RawTaint) -> str:
    text = value(taint)
    added = f" since {taint['timeAdded']}" if taint.get("timeAdded") else ""
    return f"{taint.get('key')}{f'={text}' if text else ''}:{taint.get('effect')}{added}"


def _meaning(taint: RawTaint) -> tuple[object, ...]:
    added = taint.get("timeAdded")
    instant: object = added
    if isinstance(added, str):
        try:
            instant = parse_rfc3339_ns(added)
        except ValueError:
            instant = added
    return (taint.get("key"), value(taint), taint.get("effect"), instant)
