"""A journal for a run whose own is lost: made anew from the plan and from what the cluster shows.

The time of our taints and our name in managedFields tell what runs of this program did, and the lock in the
cluster which plan the last of them was of, and since when. What was done by another, or by nobody knows whom, is
never taken back. Nothing is sent: --resume and --rollback of the new journal do that.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.apply import journal as journals
from kubectl_evictplan.apply import preflight
from kubectl_evictplan.apply.changes import RawTaint, own_taint, slot, value, written_by
from kubectl_evictplan.apply.cluster import FIELD_MANAGER, ClusterApi, LiveNode, SpecChange
from kubectl_evictplan.apply.evictions import pod_verdict
from kubectl_evictplan.apply.files import Files
from kubectl_evictplan.apply.lock import LOCK_NAME, begun_ns, refuse_held
from kubectl_evictplan.apply.records import (
    Adopted,
    AnyRecord,
    NodeEnd,
    NodeImage,
    Verdict,
)
from kubectl_evictplan.apply.run import RunOptions, beginning
from kubectl_evictplan.apply.states import Phase, RunState, note
from kubectl_evictplan.apply.turns import turns
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.document import (
    AddTaint,
    AnyOperation,
    Cordon,
    Evict,
    NodeBefore,
    Plan,
    RemoveTaint,
)
from kubectl_evictplan.prediction.document import TaintReference


def adopt(
    plan: Plan, api: ClusterApi, journal: Path, files: Files, options: RunOptions
) -> RunState:
    """Write a new journal that says of each operation what the cluster shows, and return its state.

    Raises Ended (LOCKED) while somebody holds the lock: the run may be alive; CheckFailed for another cluster
    or user; InputError when there is a journal already; AccessError and UnreachableError of reading.
    """
    identity = api.identity()
    preflight.same_cluster(plan.cluster, identity)
    since_ns = None
    if options.lock_namespace:
        lease = refuse_held(api, options.lock_namespace, LOCK_NAME)
        since_ns = begun_ns(lease, plan.fingerprint)
    found = tuple(_found(plan, api, since_ns))
    begin = beginning(plan, api, options, options.run_id or str(uuid.uuid4()))
    opened, state = journals.create(journal, files, replace(begin, is_adopted=True))

    def add(record: AnyRecord) -> None:
        note(state, opened.append(replace(record, at=preflight.instant(api))))

    try:
        for record in found:
            add(record)
        for end in _turns_left(plan, state):
            add(end)
    except journals.JournalFailed as error:
        opened.discard(journal, files)
        raise journals.unusable(journal, error) from error
    except Exception:
        opened.close()
        raise
    opened.close()
    return state


def _found(plan: Plan, api: ClusterApi, begun: int | None) -> Iterator[Adopted]:
    """Yield what was begun, in the order of the plan. ``begun``: when its run was, None when nobody knows."""
    befores = {node.name: node for node in plan.nodes}
    by_number: dict[int, Adopted] = {}
    for name, before in befores.items():
        node = api.get_node(name)
        if node is None or node.uid != before.uid:
            # Nothing of it is ours any more; going on says so.
            continue
        mine = [one for one in plan.operations if one.node == name and not isinstance(one, Evict)]
        since_ns = parse_rfc3339_ns(plan.created_at) or 0
        for record in _of_node(_Seen(before, node, since_ns, begun), mine):
            by_number[record.number] = record
    for one in plan.operations:
        if isinstance(one, Evict):
            pod = api.get_pod(one.namespace, one.pod)
            verdict = pod_verdict(pod, one)
            if verdict is not Verdict.NOT_APPLIED:
                uid = "" if pod is None else pod.uid
                by_number[one.number] = Adopted(number=one.number, verdict=verdict, uid=uid)
    yield from (by_number[number] for number in sorted(by_number))


class _Seen(NamedTuple):
    """A node as the plan found it, and as it is now; ``since_ns``: what is older is not of this plan.

    ``begun_ns``: when the lost run began, None when nobody knows: then nothing is surely its doing.
    """

    before: NodeBefore
    node: LiveNode
    since_ns: int
    begun_ns: int | None

    def is_recent(self, change: SpecChange) -> bool:
        """Whether somebody wrote that after the plan was made."""
        return _is_since(change.time, self.since_ns)

    def is_of_run(self, time: str) -> bool:
        """Whether what was done at that time was done while the lost run had the lock."""
        return self.begun_ns is not None and _is_since(time, max(self.begun_ns, self.since_ns))


def _is_since(time: str, since_ns: int) -> bool:
    """Whether a time of the API, in whole seconds, may be later."""
    with contextlib.suppress(ValueError):
        at_ns = parse_rfc3339_ns(time)
        return at_ns is not None and at_ns + SECOND_NS > since_ns
    return False


def _of_node(seen: _Seen, operations: Iterable[AnyOperation]) -> Iterator[Adopted]:
    """Yield what of these operations was done, place by place: a taint's key and effect, or the cordon."""
    places: dict[object, list[AnyOperation]] = {}
    for one in operations:
        places.setdefault(_place(one), []).append(one)
    for steps in places.values():
        yield from _of_place(seen, steps)


def _of_place(seen: _Seen, steps: list[AnyOperation]) -> Iterator[Adopted]:
    """The place is as one of the steps leaves it, or as it was before all of them; which, evidence decides."""
    states: list[object] = [_before(seen.before, steps[0]), *map(_leaves, steps)]
    now = _now(seen.node, steps[0])
    fitting = [number for number, state in enumerate(states) if state == now]
    ours = [number for number in fitting if number and _is_a_runs(seen, steps[number - 1])]
    if ours:
        # By another run, for all that is known: done, and never taken back.
        sure = seen.is_of_run(_done_at(seen, steps[ours[-1] - 1]))
        done, verdict = ours[-1], Verdict.APPLIED if sure else Verdict.ALREADY
    elif fitting and fitting[0] and not ours:
        done, verdict = fitting[-1], Verdict.ALREADY
    elif len(fitting) > 1 and _may_have_been_written(seen, steps[0]):
        # Done and undone by the plan, or never begun: whoever goes on has to decide that.
        done, verdict = 1, Verdict.MOVED
    else:
        return
    image = NodeImage(
        seen.node.uid, "", tuple(map(_raw, seen.before.taints)), seen.before.unschedulable
    )
    for place, step in enumerate(steps[:done], start=1):
        after = _after(image, step, seen.node if place == done else None)
        begun = bool(ours) or verdict is not Verdict.ALREADY
        yield _adopted(seen, step, verdict, (image, after) if begun else (None, None))
        image = after


def _adopted(
    seen: _Seen,
    step: AnyOperation,
    verdict: Verdict,
    images: tuple[NodeImage, NodeImage] | tuple[None, None],
) -> Adopted:
    node, (before, wanted) = seen.node, images
    return Adopted(
        number=step.number,
        verdict=verdict,
        uid=node.uid,
        resource_version=node.resource_version,
        changed_by=written_by(step, node),
        before=before,
        wanted=wanted,
        time_added=_added(node, step) if isinstance(step, AddTaint) else "",
        done_at=_done_at(seen, step) if before is not None else "",
    )


def _turns_left(plan: Plan, state: RunState) -> Iterator[NodeEnd]:
    """Yield the turns that the lost run had left behind: done, and something after them was begun."""
    begun = [number for number, one in state.operations.items() if one.phase is not Phase.WAITING]
    for turn in turns(plan.operations):
        doings = [state.operations[one.number] for one in turn.operations]
        if all(one.phase is Phase.DONE for one in doings) and max(begun) > turn.number:
            yield NodeEnd(number=turn.number, node=turn.node)


# -- what a place holds: the value of a taint, None without it; or whether the node is cordoned ----------


def _place(one: AnyOperation) -> object:
    return (one.taint.key, one.taint.effect) if isinstance(one, AddTaint | RemoveTaint) else None


def _before(node: NodeBefore, one: AnyOperation) -> object:
    if not isinstance(one, AddTaint | RemoveTaint):
        return node.unschedulable
    taints = {(taint.key, taint.effect): taint.value for taint in node.taints}
    return taints.get((one.taint.key, one.taint.effect))


def _leaves(one: AnyOperation) -> object:
    match one:
        case AddTaint():
            return one.taint.value
        case RemoveTaint():
            return None
        case _:
            return isinstance(one, Cordon)


def _now(node: LiveNode, one: AnyOperation) -> object:
    if not isinstance(one, AddTaint | RemoveTaint):
        return node.unschedulable
    index = slot(node.raw_taints, one.taint)
    return None if index is None else value(node.raw_taints[index])


# -- evidence -------------------------------------------------------------------------------------------


def _field(one: AnyOperation) -> str:
    return "taints" if isinstance(one, AddTaint | RemoveTaint) else "unschedulable"


def _added(node: LiveNode, one: AddTaint) -> str:
    index = slot(node.raw_taints, one.taint)
    return "" if index is None else str(node.raw_taints[index].get("timeAdded") or "")


def _is_a_runs(seen: _Seen, one: AnyOperation) -> bool:
    """A run's taint carries the time it was added, whoever writes the list later; else our name has to be there."""
    if isinstance(one, AddTaint):
        return _is_since(_added(seen.node, one), seen.since_ns)
    return any(
        change.manager == FIELD_MANAGER and _field(one) in change.fields and seen.is_recent(change)
        for change in seen.node.changed_by
    )


def _may_have_been_written(seen: _Seen, one: AnyOperation) -> bool:
    """A field that nobody owns was emptied by somebody, or never written."""
    writers = [change for change in seen.node.changed_by if _field(one) in change.fields]
    return not writers or any(map(seen.is_recent, writers))


def _done_at(seen: _Seen, one: AnyOperation) -> str:
    if isinstance(one, AddTaint):
        return _added(seen.node, one)
    times = [
        change.time
        for change in seen.node.changed_by
        if change.manager == FIELD_MANAGER and _field(one) in change.fields
    ]
    return max(times, default="")


# -- images ---------------------------------------------------------------------------------------------


def _raw(taint: TaintReference) -> RawTaint:
    return own_taint(taint, "")


def _after(before: NodeImage, step: AnyOperation, node: LiveNode | None) -> NodeImage:
    """Return what a step leaves; ``node`` where it is the last one: then its taint is as it is there."""
    if not isinstance(step, AddTaint | RemoveTaint):
        return replace(before, unschedulable=isinstance(step, Cordon))
    index = slot(before.taints, step.taint)
    taints = [one for place, one in enumerate(before.taints) if place != index]
    if isinstance(step, AddTaint):
        there = None if node is None else slot(node.raw_taints, step.taint)
        ours = own_taint(step.taint, "")
        if node is not None and there is not None:
            ours = node.raw_taints[there]
        taints.insert(len(taints) if index is None else index, ours)
    return replace(before, taints=tuple(taints))
