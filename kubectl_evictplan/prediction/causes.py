"""Causal chains: why something happened, oldest link first."""

from __future__ import annotations

from collections.abc import Callable

from kubectl_evictplan.cluster.timeline import (
    CANCEL,
    DELETE,
    DELETE_FAILED,
    EVICTION_REFUSED,
    EVICTION_SCHEDULED,
    GONE,
    MASTER_DISRUPTION,
    NODE_QUEUED,
    NODE_READY,
    NODE_UNKNOWN,
    PODS_MARKED_NOT_READY,
    SCENARIO_EVENT,
    TAINT_ADDED,
    TAINT_REMOVED,
    TOLERATED_FOREVER,
    ZONE_STATE,
    Entry,
    Timeline,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.prediction.document import Because


def seconds(offset_ns: int) -> float:
    """Offset in seconds with microsecond precision."""
    return round(offset_ns / SECOND_NS, 6)


def describe(entry: Entry) -> str:
    """One entry in an operator's words."""
    words = _WORDS.get(entry.kind)
    return words(entry) if words is not None else entry.detail or entry.kind.replace("-", " ")


def _unknown(entry: Entry) -> str:
    return (
        "Ready becomes Unknown: the last sign of life was noticed at "
        f"{seconds(int(entry.detail)):+.3f}s and the grace period is over"
    )


def _scheduled(entry: Entry) -> str:
    return (
        f"toleration {entry.toleration_index} tolerates {_taint(entry)} for "
        f"{entry.toleration_seconds}s: deletion is due at {seconds(entry.due_ns or 0):+.3f}s"
    )


def _deleted(entry: Entry) -> str:
    what = f"{entry.value} deletes the pod"
    if entry.taint is not None and entry.toleration_index is None:
        what += f": no toleration meets {_taint(entry)}"
    return f"{what}: {entry.detail}" if entry.detail else what


def _taint(entry: Entry) -> str:
    return f"{entry.taint.key}:{entry.taint.effect}" if entry.taint is not None else "the taint"


_WORDS: dict[str, Callable[[Entry], str]] = {
    SCENARIO_EVENT: lambda e: f"{e.value}: {e.detail}" if e.detail else e.value,
    NODE_UNKNOWN: _unknown,
    NODE_READY: lambda e: f"the kubelet posts Ready={e.value}",
    NODE_QUEUED: lambda _: "the node is put in its zone's line for the NoExecute taint",
    TAINT_ADDED: lambda e: f"taint {e.value} is added by {e.detail}",
    TAINT_REMOVED: lambda e: f"taint {e.value} is removed by {e.detail}",
    EVICTION_SCHEDULED: _scheduled,
    DELETE: _deleted,
    CANCEL: lambda e: f"the timer is cancelled: {e.detail}",
    TOLERATED_FOREVER: lambda e: f"toleration {e.toleration_index} tolerates {_taint(e)} forever",
    PODS_MARKED_NOT_READY: lambda e: f"{e.value} pods of the node are marked not ready",
    MASTER_DISRUPTION: lambda e: f"every zone is fully disrupted: {e.value}",
    ZONE_STATE: lambda e: f"the zone becomes {e.value} ({e.detail})",
}

_POD_KINDS = {
    DELETE,
    CANCEL,
    GONE,
    EVICTION_SCHEDULED,
    EVICTION_REFUSED,
    DELETE_FAILED,
    TOLERATED_FOREVER,
}


def object_of(entry: Entry) -> str:
    """``kind/name`` of an entry's subject."""
    if entry.kind in _POD_KINDS or entry.kind in ("mark", "replacement", "pod-created"):
        return f"pod/{entry.subject}"
    if entry.kind == ZONE_STATE:
        return f"zone/{entry.subject}"
    if entry.kind == SCENARIO_EVENT and "/" in entry.subject:
        return f"pod/{entry.subject}"
    if entry.kind == MASTER_DISRUPTION or not entry.node:
        return entry.subject
    return f"node/{entry.subject}"


def link(entry: Entry) -> Because:
    """One link of a chain."""
    rule = entry.rule or ("scenario" if entry.kind == SCENARIO_EVENT else entry.kind)
    return Because(seconds(entry.at_ns), describe(entry), object_of(entry), rule)


class ChainCache:
    """Chains of one timeline; the part that a node's pods share is built once."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._prefixes: dict[tuple[int, ...], tuple[Because, ...]] = {}

    def chain(self, index: int) -> tuple[Because, ...]:
        """The entry at ``index`` and all its causes, oldest first."""
        entry = self._timeline.entries[index]
        prefix = self._prefixes.get(entry.because)
        if prefix is None:
            prefix = self._prefixes[entry.because] = self._build(entry.because)
        return (*prefix, link(entry))

    def _build(self, causes: tuple[int, ...]) -> tuple[Because, ...]:
        if len(causes) == 1:
            return self.chain(causes[0])
        seen: dict[int, Entry] = {}
        stack = list(causes)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen[index] = self._timeline.entries[index]
                stack.extend(seen[index].because)
        return tuple(link(seen[index]) for index in sorted(seen))
