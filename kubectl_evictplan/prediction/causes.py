"""Causal chains: why something happened, oldest link first.

This is the one place where an entry of the timeline becomes text; it knows the kinds that are causes of
something or the last thing that happened to a pod.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import CancelReason, DeleteFailure, GarbageReason
from kubectl_evictplan.kube.drain_filters import Reason
from kubectl_evictplan.kube.durations import (
    MICROSECOND_NS,
    MILLISECOND_NS,
    SECOND_NS,
    format_duration,
)
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.taints import key_and_effect
from kubectl_evictplan.prediction.grouped_evictions import Chain, SharedChain
from kubectl_evictplan.prediction.records import Because
from kubectl_evictplan.scenarios.actions.nodes import CreateNode, DeleteNode
from kubectl_evictplan.scenarios.actions.processes import StartManager
from kubectl_evictplan.scenarios.outages import AWAY
from kubectl_evictplan.scenarios.simulated_cluster import EventApplied
from kubectl_evictplan.windows.circumstances import (
    Circumstance,
    Moment,
    MomentKind,
    OlderCountdown,
    PlaceInLine,
    TaintedInWait,
    TickBetween,
)

CANCEL_TEXTS = {
    CancelReason.NO_TAINT_LEFT: "the node has no NoExecute taint any more",
    CancelReason.TAINT_NOT_TOLERATED: "a taint is not tolerated: deletion is due now",
    CancelReason.TOLERATED_FOREVER: "all remaining taints are tolerated forever",
    CancelReason.POD_GONE: "the pod is gone",
}
_FAILURE_TEXTS = {
    DeleteFailure.POD_NOT_FOUND: (
        "the pod does not exist any more (NotFound is retried, then dropped)"
    ),
    DeleteFailure.REFUSED_BY_API_SERVER: "the API server refused 5 deletes; nothing retries them",
    DeleteFailure.MAY_NOT_GET_PODS: (
        "1.25 with PodDisruptionConditions: the controller may not GET pods"
    ),
    DeleteFailure.CONDITION_NOT_APPLIED: (
        "server-side apply of the DisruptionTarget condition fails for this pod"
    ),
}
# The upstream function, and why.
_GARBAGE = {
    GarbageReason.TERMINATED: ("gcTerminated", "more terminated pods than the threshold"),
    GarbageReason.OUT_OF_SERVICE: ("gcTerminating", "its node is out of service and not ready"),
    GarbageReason.ORPHANED: ("gcOrphaned", "its node no longer exists"),
    GarbageReason.UNSCHEDULED_TERMINATING: (
        "gcUnscheduledTerminating",
        "terminating and never scheduled",
    ),
}


def seconds(offset_ns: int) -> float:
    """Offset in seconds with microsecond precision."""
    found = offset_ns / SECOND_NS
    # Of whole microseconds that is what rounding makes of it, which takes much longer.
    return found if offset_ns % MICROSECOND_NS == 0 else round(found, 6)


@lru_cache  # pods of one node share their instants
def _signed(offset_ns: int) -> str:
    """An offset to the millisecond, as reports print it."""
    text = format_duration(abs(offset_ns) // MILLISECOND_NS * MILLISECOND_NS)
    return ("-" if offset_ns < 0 else "+") + text


def _silent(entry: timeline.KubeletSilent) -> str:
    last_ns = entry.last_renewal_ns
    renewed = "was last renewed at " + _signed(last_ns) if last_ns is not None else "is not known"
    # Without a cause it was so at the start.
    return f"{'' if entry.because else 'the kubelet is silent: '}its Lease {renewed}"


def _deleted(entry: timeline.PodDeleted) -> str:
    text = f"{entry.controller} deletes the pod"
    if entry.taint is not None and entry.toleration_index is None:
        text += f": no toleration meets {_taint(entry.taint)}"
    return f"{text}: {_GARBAGE[entry.garbage][1]}" if entry.garbage is not None else text


_DELETED_BY = {
    timeline.NODE_LIFECYCLE: "DeletePods",
    timeline.EVICTION_API: "EvictionREST.Create",
    timeline.KUBECTL_DELETE: "deletePods",
}


def _deleted_by(entry: Any) -> str:
    if entry.garbage is not None:
        return _GARBAGE[entry.garbage][0]
    return _DELETED_BY.get(entry.controller, "deletePodHandler")


def _taint(taint: Taint | None) -> str:
    return key_and_effect(taint) if taint is not None else "the taint"


_DRAIN_ENDS = {
    timeline.DrainEnd.DRAINED: "kubectl has drained the node",
    timeline.DrainEnd.REFUSED: "kubectl refuses to drain the node because of some of its pods",
    timeline.DrainEnd.TIMEOUT: "kubectl gives the node up: --timeout is over",
    timeline.DrainEnd.ERROR: "kubectl fails to evict a pod of the node",
}
_PASSED_OVER = {
    Reason.NOT_SELECTED: "--pod-selector does not select it",
    Reason.DELETED_LONG_AGO: "it was deleted longer ago than --skip-wait-for-delete-timeout",
    Reason.MIRROR_POD: "kubectl skips mirror pods: the kubelet itself runs them",
    Reason.DAEMON_SET: "kubectl ignores the pods of DaemonSets (--ignore-daemonsets)",
}


def _not_allowed(entry: timeline.EvictionNotAllowed) -> str:
    budgets = " and ".join(entry.budgets)
    if len(entry.budgets) > 1:
        return f"the Eviction API answers {entry.code}: budgets {budgets} both cover the pod"
    if not budgets:
        namespace = entry.pod.partition("/")[0]
        return f"the Eviction API answers {entry.code}: namespace {namespace} is Terminating"
    if not entry.is_repeated:
        return f"the Eviction API answers {entry.code}: budget {budgets} allows fewer than no disruptions"
    return f"the Eviction API answers {entry.code}: budget {budgets} allows no disruption now"


def _applied(entry: EventApplied) -> str:
    event = entry.event
    if event.outage is not None and not (event.manager_up or event.kubelets_up):
        return f"{AWAY[event.outage.component]} is away"
    return event.told.format(detail=event.detail).rstrip()


# By kind of entry: the upstream function behind it, and what happened, for people.
_WORDS: dict[type[timeline.Entry], tuple[str, Callable[[Any], str]]] = {
    EventApplied: ("scenario", _applied),
    timeline.ControllerManagerStarted: ("Run", lambda _: StartManager.told),
    timeline.NodeCreated: ("CREATE", lambda _: CreateNode.told),
    timeline.NodeDeleted: ("DELETE", lambda _: DeleteNode.told),
    timeline.KubeletSilent: ("kubelet", _silent),
    timeline.NodeReadyPosted: (
        "kubelet syncNodeStatus",
        lambda e: f"the kubelet posts Ready={e.status}",
    ),
    timeline.NodeBecameUnknown: (
        "tryUpdateNodeHealth",
        lambda e: (
            "Ready becomes Unknown (the last sign of life was noticed "
            + (f"at {_signed(e.probe_ns)}, " if e.probe_ns is not None else "")
            + "a grace period ago)"
        ),
    ),
    timeline.NodePassedOver: (
        "tryUpdateNodeHealth",
        lambda _: (
            "the node is due, but its Lease was written without being renewed: the controller passes "
            "it over until the kubelet renews or kube-controller-manager restarts"
        ),
    ),
    timeline.NodeQueued: (
        "markNodeForTainting",
        lambda _: "waits in its zone's line for the NoExecute taint",
    ),
    timeline.TaintAdded: ("", lambda e: f"taint {_taint(e.taint)} is added by {e.by}"),
    timeline.TaintRemoved: ("", lambda e: f"taint {_taint(e.taint)} is removed by {e.by}"),
    timeline.ToleratedForever: (
        "getMinTolerationTime",
        lambda e: f"toleration {e.toleration_index} tolerates {_taint(e.taint)} forever",
    ),
    timeline.EvictionScheduled: (
        "processPodOnNode",
        lambda e: (
            f"a timer starts: toleration {e.toleration_index} tolerates {_taint(e.taint)} for "
            f"{e.toleration_seconds}s, deletion is due at {_signed(e.due_ns)}"
        ),
    ),
    timeline.EvictionRefused: (
        "addWork",
        lambda _: "an older key of the same pod name is still present",
    ),
    timeline.TimerCancelled: (
        "cancelWorkWithEvent",
        lambda e: f"the timer is cancelled: {CANCEL_TEXTS[e.reason]}",
    ),
    timeline.DeleteFailed: ("deletePodHandler", lambda e: _FAILURE_TEXTS[e.reason]),
    timeline.PodDeleted: ("", _deleted),
    timeline.NodeDrainStarted: ("RunDrain", lambda _: "kubectl comes to the node"),
    timeline.NodeDrainEnded: ("RunDrain", lambda e: _DRAIN_ENDS[e.reason]),
    timeline.PodPassedOver: ("filterPods", lambda e: _PASSED_OVER[e.reason]),
    timeline.PodRefused: (
        "filterPods",
        lambda e: f"kubectl refuses to drain the node: it cannot delete {e.why}",
    ),
    timeline.EvictionNotAllowed: ("EvictionREST.Create", _not_allowed),
    timeline.PodGone: ("DELETE", lambda _: "the object is gone"),
}


def link(entry: timeline.Entry, about: str | None = None) -> Because:
    """One link of a chain. ``about``: the object that it is said to be about, if not what it is about."""
    rule, describe = _WORDS[type(entry)]
    if not rule:
        rule = entry.rule if isinstance(entry, timeline.TaintChanged) else _deleted_by(entry)
    if about is None:
        about = _object(entry)
    return Because(seconds(entry.at_ns), describe(entry), about, rule)


_MAY_NAME_A_POD = (timeline.AboutPod, EventApplied)
_MAY_NAME_A_NODE = (timeline.AboutNode, EventApplied)


def _object(entry: timeline.Entry) -> str:
    """``kind/name`` of what an entry is about."""
    if isinstance(entry, _MAY_NAME_A_POD) and entry.pod:
        return f"pod/{entry.pod}"
    if isinstance(entry, _MAY_NAME_A_NODE) and entry.node:
        return f"node/{entry.node}"
    return "kube-controller-manager"


# What pods of one node share of a chain, and what follows; there the object "" is the pod itself.
CutChain = tuple[Chain, Chain]


class ChainCache:
    """Chains of one timeline; the part that a node's pods share is built once."""

    def __init__(self, run: timeline.Timeline) -> None:
        self.run = run
        self._prefixes: dict[tuple[int, ...], Chain] = {}

    def chain(self, index: int) -> Chain:
        """The entry at ``index`` and all its causes, oldest first."""
        shared, own = self.cut(index)
        return (*shared, *own)

    def cut(self, index: int, pod: str = "") -> CutChain:
        """The chain, cut before what is about the pod of the entry: pods of one node have the very same first part.

        Of what follows the object of links about ``pod`` is "".
        """
        entry = self.run.entries[index]
        own = []
        while isinstance(entry, timeline.AboutPod):
            own.append(link(entry, "" if entry.pod == pod else None))
            if len(entry.because) != 1:
                break
            before = self.run.entries[entry.because[0]]
            if not isinstance(before, timeline.AboutPod):
                break
            entry = before
        else:
            own.append(link(entry))
        prefix = self._prefixes.get(entry.because)
        if prefix is None:
            prefix = self._prefixes[entry.because] = self._build(entry.because)
        return prefix, tuple(own[::-1])

    def of_pod(self, index: int, key: str, node: str) -> Chain:
        """The chain of the entry at ``index``, told of the pod ``key`` of that node, which is alike."""
        entry = self.run.entries[index]
        if not isinstance(entry, timeline.AboutPod) or entry.pod == key:
            return self.chain(index)
        kind = ChainOfKind(entry.pod, entry.node, lambda: self.cut(index, entry.pod))
        return kind.on(node).of_pod(key)

    def _build(self, causes: tuple[int, ...]) -> Chain:
        """A line with one cause each is walked: it may be a thousand taints long."""
        links: list[Because] = []
        while len(causes) == 1 and causes not in self._prefixes:
            entry = self.run.entries[causes[0]]
            links.append(link(entry))
            causes = entry.because
        before = self._prefixes.get(causes)
        if before is None:
            before = self._prefixes[causes] = self._of_all(causes)
        return (*before, *reversed(links))

    def _of_all(self, causes: tuple[int, ...]) -> Chain:
        seen: dict[int, timeline.Entry] = {}
        stack = list(causes)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen[index] = self.run.entries[index]
                stack.extend(seen[index].because)
        return tuple(link(seen[index]) for index in sorted(seen))


class EntryInRun(msgspec.Struct, frozen=True, gc=False):
    """Where in a run the chain of a pod ends."""

    chains: ChainCache
    place: int
    pod: str

    def __call__(self) -> CutChain:
        """The chain (``ChainCache.cut``)."""
        return self.chains.cut(self.place, self.pod)


_OBJECT = attrgetter("object")


class ChainOfKind:
    """The chain of one pod, to be told of others that are alike: what is the pod's or its node's own is told anew."""

    def __init__(self, key: str, node: str, find_chain: Callable[[], CutChain]) -> None:
        """``find_chain`` is asked once, for the chain of the pod ``key`` of that node."""
        self.pod, self.node = key, node
        self.find_chain = find_chain
        self._here: SharedChain | None = None

    def on(self, node: str) -> SharedChain:
        """The chain of pods of that node: what is told of the pod's own is told of it as well."""
        if node == self.node:
            return self._here or self._own()
        # Of many nodes it is told.
        if self._here is None:
            self._here = self._own()
        here, there = f"node/{self.node}", f"node/{node}"
        return SharedChain(
            *(
                tuple([_moved(each, there) if each.object == here else each for each in part])
                for part in self._here
            )
        )

    def _own(self) -> SharedChain:
        shared, own = self.find_chain()
        pod = f"pod/{self.pod}"
        if pod in map(_OBJECT, shared):
            first = next(i for i, each in enumerate(shared) if each.object == pod)
            shared, own = shared[:first], (*shared[first:], *own)
        if pod in map(_OBJECT, own):
            own = tuple([_moved(each, "") if each.object == pod else each for each in own])
        return SharedChain(shared, own)


def _moved(each: Because, to: str) -> Because:
    return Because(each.offset_seconds, each.what, to, each.rule)


_MOMENTS: dict[MomentKind, str] = {
    MomentKind.LAST_HEARTBEAT: "the last heartbeat of {node}",
    MomentKind.EVENT: "what happens to {node}",
    MomentKind.STARTUP_DEADLINE: "the end of the startup grace period of {node}",
    MomentKind.START: "the start",
    MomentKind.PROCESS_START: "the start of kube-controller-manager",
    MomentKind.REFILL: "the first new token after the start",
    MomentKind.TIMER: "the end of a countdown on {node}",
}


def describe_circumstance(circumstance: Circumstance) -> str:
    """What leads to one of several outcomes, as a clause; "" when nothing simple does."""
    match circumstance:
        case TickBetween(after=after, before=before):
            return f"if a tick of the node monitor falls after {_moment(after)} and before {_moment(before)}"
        case TaintedInWait(number=1):
            return "if the node is tainted the first time that it is not ready"
        case TaintedInWait(number=number):
            return f"if the node is not tainted before it is not ready for time {number}"
        case PlaceInLine(first=True):
            return "if the node is tainted before others that wait in its zone"
        case PlaceInLine():
            return "if others that wait in its zone are tainted before"
        case OlderCountdown():
            return "if a countdown runs on that began for a taint which is gone"
    return ""


def _moment(moment: Moment) -> str:
    return f"{_MOMENTS[moment.kind].format(node=moment.node)} ({seconds(moment.at_ns):+.3f}s)"
