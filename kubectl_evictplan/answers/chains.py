"""Causal chains: why something happened, oldest link first."""

from __future__ import annotations

from kubectl_evictplan.prediction import Because
from kubectl_evictplan.timeline import (
    CANCEL,
    DELETE,
    DELETE_FAILED,
    EVICTION_REFUSED,
    EVICTION_SCHEDULED,
    GONE,
    MASTER_DISRUPTION,
    NODE_DELETED,
    NODE_QUEUED,
    NODE_READY,
    NODE_UNKNOWN,
    PODS_MARKED_NOT_READY,
    SCENARIO_EVENT,
    TAINT_ADDED,
    TAINT_REMOVED,
    TOKEN_WASTED,
    TOLERATED_FOREVER,
    ZONE_STATE,
    Entry,
    Timeline,
)

_NANO = 1_000_000_000


def seconds(offset_ns: int) -> float:
    """Offset in seconds with microsecond precision."""
    return round(offset_ns / _NANO, 6)


def describe(entry: Entry) -> str:
    """One entry in an operator's words."""
    match entry.kind:
        case "scenario-event":
            return f"{entry.value}: {entry.detail}" if entry.detail else entry.value
        case "node-unknown":
            probe = seconds(int(entry.detail))
            return (
                f"Ready becomes Unknown: last sign of life was noticed at {probe:+.3f}s "
                "and the grace period is over"
            )
        case "node-ready":
            return f"the kubelet posts Ready={entry.value}"
        case "node-queued":
            return "the node is put in its zone's line for the NoExecute taint"
        case "taint-added":
            return f"taint {entry.value} is added by {entry.detail}"
        case "taint-removed":
            return f"taint {entry.value} is removed by {entry.detail}"
        case "eviction-scheduled":
            return (
                f"toleration {entry.toleration_index} tolerates {_taint(entry)} for "
                f"{entry.toleration_seconds}s: deletion is due at {seconds(entry.due_ns or 0):+.3f}s"
            )
        case "delete":
            what = f"{entry.value} deletes the pod"
            if entry.taint is not None and entry.toleration_index is None:
                what += f": no toleration meets {_taint(entry)}"
            return f"{what}: {entry.detail}" if entry.detail else what
        case "cancel":
            return f"the timer is cancelled: {entry.detail}"
        case "tolerated-forever":
            return f"toleration {entry.toleration_index} tolerates {_taint(entry)} forever"
        case "pods-marked-not-ready":
            return f"{entry.value} pods of the node are marked not ready"
        case "master-disruption":
            return f"every zone is fully disrupted: {entry.value}"
        case "zone-state":
            return f"the zone becomes {entry.value} ({entry.detail})"
    return entry.detail or entry.kind.replace("-", " ")


def _taint(entry: Entry) -> str:
    return f"{entry.taint.key}:{entry.taint.effect}" if entry.taint is not None else "the taint"


_NODE_KINDS = {
    NODE_UNKNOWN,
    NODE_READY,
    NODE_QUEUED,
    TAINT_ADDED,
    TAINT_REMOVED,
    NODE_DELETED,
    TOKEN_WASTED,
    PODS_MARKED_NOT_READY,
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
