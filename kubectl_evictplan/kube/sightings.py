"""What can be seen of pods, nodes and events while or after things happen to them.

Just enough to tell when a pod was deleted, when it was gone and who did it. Instants are epoch
nanoseconds by the cluster's clocks. The API server writes most of them in whole seconds, rounded down, so
an instant that was read is an ``Interval``.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Taint

# Who writes the reason of condition DisruptionTarget (k8s.io/api/core/v1, from 1.26 on; by default from
# 1.27 on) and the reason of events about pods, by the names that predictions have for controllers.
CONTROLLER_BY_REASON = {
    "EvictionByEvictionAPI": "eviction-api",
    "DeletionByTaintManager": "taint-eviction",
    "DeletionByDeviceTaintManager": "device-taint-eviction",
    "DeletionByPodGC": "pod-gc",
    "PreemptionByScheduler": "scheduler",
    "TerminationByKubelet": "kubelet",
    "TaintManagerEviction": "taint-eviction",
    "NodeControllerEviction": "node-lifecycle",
    "Preempted": "scheduler",
    "Evicted": "kubelet",
}
TAINT_MANAGER_EVICTION = "TaintManagerEviction"
NODE_CONTROLLER_EVICTION = "NodeControllerEviction"
KILLING = "Killing"
NODE_NOT_READY = "NodeNotReady"
# Events of any other reason tell nothing of an eviction and are never kept.
EVENT_REASONS = {
    "Pod": frozenset(
        {TAINT_MANAGER_EVICTION, NODE_CONTROLLER_EVICTION, KILLING, "Preempted", "Evicted"}
    ),
    "Node": frozenset({NODE_NOT_READY}),
}


class Interval(NamedTuple):
    """Something happened not before ``earliest_ns`` and not after ``latest_ns``."""

    earliest_ns: int
    latest_ns: int

    @property
    def width_ns(self) -> int:
        """How much of it is unknown."""
        return self.latest_ns - self.earliest_ns

    def meets(self, other: Interval) -> bool:
        """Tell whether one instant can be in both."""
        return self.earliest_ns <= other.latest_ns and other.earliest_ns <= self.latest_ns

    def lies_in(self, other: Interval) -> bool:
        """Tell whether no instant of it is outside the other."""
        return other.earliest_ns <= self.earliest_ns and self.latest_ns <= other.latest_ns

    def common(self, other: Interval) -> Interval | None:
        """Return the part that both have, None without one."""
        if not self.meets(other):
            return None
        return Interval(
            max(self.earliest_ns, other.earliest_ns), min(self.latest_ns, other.latest_ns)
        )

    def later(self, ns: int) -> Interval:
        """Return it ``ns`` later."""
        return Interval(self.earliest_ns + ns, self.latest_ns + ns)


def whole_second(ns: int) -> Interval:
    """Return when something happened whose timestamp was cut to a second (``metav1.Time``)."""
    return Interval(ns, ns + SECOND_NS - 1)


class SeenPod(msgspec.Struct, frozen=True):
    """A pod as it was seen. ``disruption`` is the reason of its true condition DisruptionTarget."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    created_ns: int = 0
    deletion_timestamp_ns: int | None = None
    deletion_grace_period_seconds: int | None = None
    finished: bool = False
    disruption: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def deleted(self) -> Interval | None:
        """Return when its first DELETE was; None as long as there was none.

        deletionTimestamp less the grace period, whatever later requests made of both
        (``rest.BeforeDelete`` counts a shorter period from the same instant).
        """
        if self.deletion_timestamp_ns is None:
            return None
        if self.deletion_grace_period_seconds is None:
            return Interval(self.created_ns, self.deletion_timestamp_ns + SECOND_NS - 1)
        grace_ns = self.deletion_grace_period_seconds * SECOND_NS
        return whole_second(self.deletion_timestamp_ns - grace_ns)


class SeenNode(msgspec.Struct, frozen=True):
    """A node as it was seen: taints, the status of Ready and since when (None: not told)."""

    name: str
    uid: str = ""
    taints: tuple[Taint, ...] = ()
    ready: str = ""
    ready_since_ns: int | None = None
    taints_changed_ns: int | None = None


class SeenEvent(msgspec.Struct, frozen=True):
    """An Event about a pod or a node; ``told`` is what its message begins with, if that matters.

    ``first`` and ``last`` are those of ``count`` occurrences. ``uid`` "" when the event names none, as
    the taint manager's do.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    first: Interval
    last: Interval
    count: int = 1
    told: str = ""
    component: str = ""


MARKING, CANCELLING, STOPPING = "marking", "cancelling", "stopping"
