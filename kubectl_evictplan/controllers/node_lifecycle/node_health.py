"""Is this node alive, as far as the controller can see? ``tryUpdateNodeHealth`` and its memory.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, 1.16-1.37. The rules here compare
what the controller saw last with what it sees now; they never look at the kubelet's own clock (probe
and transition instants are the controller's, at observation).

Every reading of the clock counts as later than the one before it, so an age is "later than the grace
period" as soon as it reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import Kubelets, LeaseVersion
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, Node, NodeCondition

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
# Reasons of a Ready=Unknown that the controller wrote itself.
STATUS_UNKNOWN, STATUS_NEVER_UPDATED = "NodeStatusUnknown", "NodeStatusNeverUpdated"
# Conditions that the controller sets to Unknown, in this order; NetworkUnavailable never.
_CONDITIONS_WRITTEN = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeHealth(msgspec.Struct, frozen=True):
    """``nodeHealthData``: probe and transition instants, last seen Ready, last accepted Lease."""

    probe_ns: int
    ready_transition_ns: int
    ready: NodeCondition | None
    lease: LeaseVersion | None


class HealthUpdate(msgspec.Struct, frozen=True):
    """Result of one ``tryUpdateNodeHealth``.

    ``observed`` is Ready as found (synthetic Unknown when missing); ``current`` after a possible write
    (None: no Ready and not expired). ``conditions`` is the status to write, or None. ``skipped``: the
    lease circuit breaker is open, this tick passes the node over.
    """

    health: NodeHealth
    grace_ns: int
    observed: NodeCondition
    current: NodeCondition | None
    conditions: tuple[NodeCondition, ...] | None = None
    skipped: bool = False


def try_update_node_health(
    node: Node,
    health: NodeHealth | None,
    lease: LeaseVersion | None,
    now_ns: int,
    configuration: ControllerConfiguration,
) -> HealthUpdate:
    """``tryUpdateNodeHealth`` for one node at one tick. Pure."""
    saved_lease = health.lease if health is not None else None
    current = node.condition(READY)
    if current is None:
        created_ns = node.creation_timestamp_ns
        observed = NodeCondition(READY, UNKNOWN, created_ns, created_ns)
        grace_ns = configuration.node_startup_grace_period_ns
        if health is None:
            health = NodeHealth(created_ns, created_ns, None, None)
        else:
            health = replace(health, ready=None)
    else:
        observed = current
        grace_ns = configuration.node_monitor_grace_period_ns
        health = _observe_ready(health, current, now_ns)
    if lease is not None and (
        saved_lease is None or saved_lease.renew_time_ns < lease.renew_time_ns
    ):
        health = replace(health, lease=lease, probe_ns=now_ns)
    if now_ns < health.probe_ns + grace_ns:
        return HealthUpdate(health, grace_ns, observed, current)
    if configuration.lease_circuit_breaker and lease is not None and lease != health.lease:
        # The live Lease is not the one that was judged: the informer may be behind.
        return HealthUpdate(health, grace_ns, observed, current, skipped=True)
    conditions = expired_conditions(node, now_ns)
    current = next(condition for condition in conditions if condition.type == READY)
    if current == observed:
        return HealthUpdate(health, grace_ns, observed, current)
    # The lease is taken as it is now; the probe instant is deliberately not moved.
    health = NodeHealth(health.probe_ns, now_ns, current, lease)
    return HealthUpdate(health, grace_ns, observed, current, conditions)


def _observe_ready(health: NodeHealth | None, ready: NodeCondition, now_ns: int) -> NodeHealth:
    """The controller's instants follow what the kubelet posted since the last look."""
    if health is None or health.ready is None:
        return NodeHealth(now_ns, now_ns, ready, None)
    saved = health.ready
    if saved.last_heartbeat_time_ns == ready.last_heartbeat_time_ns:
        return health
    moved = saved.last_transition_time_ns != ready.last_transition_time_ns
    # The Lease is dropped here: the next tick accepts it again, which probes the node once more.
    return NodeHealth(now_ns, now_ns if moved else health.ready_transition_ns, ready, None)


def expired_conditions(node: Node, now_ns: int) -> tuple[NodeCondition, ...]:
    """The node's conditions after ``tryUpdateNodeHealth`` gave it up: four of them Unknown."""
    conditions = list(node.conditions)
    for wanted in _CONDITIONS_WRITTEN:
        for index, condition in enumerate(conditions):
            if condition.type != wanted:
                continue
            if condition.status != UNKNOWN:
                conditions[index] = replace(
                    condition,
                    status=UNKNOWN,
                    reason=STATUS_UNKNOWN,
                    last_transition_time_ns=now_ns,
                )
            break
        else:
            conditions.append(
                NodeCondition(
                    wanted, UNKNOWN, node.creation_timestamp_ns, now_ns, STATUS_NEVER_UPDATED
                )
            )
    return tuple(conditions)


class NodeHealthMap:
    """``nodeHealthMap``: entries by node name; those of deleted nodes stay, as upstream.

    A healthy kubelet moves its node's entry with every renewal. Such a node is *steady*: its probe and
    its Lease follow from the renewals, and are written down (``catch_up``) only when they matter.
    """

    def __init__(
        self,
        kubelets: Kubelets,
        ticks: LoopGrid,
        configuration: ControllerConfiguration,
        process_start_ns: int | None,
    ) -> None:
        self._kubelets = kubelets
        self._ticks = ticks
        self._grace_ns = configuration.node_monitor_grace_period_ns
        self._entries: dict[str, NodeHealth] = {}
        self._steady: set[str] = set()
        # No probe is older: the process began then, or left master disruption.
        self._earliest_probe_ns: int | None = None
        if process_start_ns is not None:
            self._earliest_probe_ns = ticks.at_or_after(process_start_ns)
        self._first_tick_ns = self._earliest_probe_ns
        # When somebody looked at the cluster in which it has been running since long before, and what else is unknown of that.
        self._looked_ns = 0
        self._timing = Timing()

    def __getitem__(self, name: str) -> NodeHealth:
        return self._entries[name]

    def __setitem__(self, name: str, health: NodeHealth) -> None:
        self._entries[name] = health

    def get(self, name: str) -> NodeHealth | None:
        """The entry of a node that is not steady; None before its first tick."""
        return self._entries.get(name)

    def assume_steady(self, name: str) -> None:
        """A warm start: only renewals have moved the node's entry."""
        self._steady.add(name)

    def catch_up(self, name: str, node: Node, find_tick_ns: Callable[[], int | None]) -> None:
        """Write down a steady node's entry as that tick left it, before it changes."""
        if name in self._steady and (tick_ns := find_tick_ns()) is not None:
            self._entries[name] = self.as_of(node, tick_ns)
            self._steady.discard(name)

    def settle(self, node: Node, tick_ns: int) -> bool:
        """Whether renewals alone explain the entry after this tick; then the node is steady."""
        if self.as_of(node, tick_ns) != self._entries[node.name]:
            return False
        self._steady.add(node.name)
        return True

    def as_of(self, node: Node, tick_ns: int) -> NodeHealth:
        """What the tick at ``tick_ns`` left of a node of which it saw nothing new but renewals."""
        entry = self._entries.get(node.name)
        ready = node.condition(READY) if entry is None else entry.ready
        lease = self._kubelets.lease_at(node.name, tick_ns)
        if lease is not None:
            probe_ns = min(self._ticks.at_or_after(lease.renew_time_ns), tick_ns)
            lease = self._kubelets.lease_at(node.name, probe_ns)
            if entry is None and ready is not None and lease is not None:
                given = ready, lease, probe_ns
                ready, lease, probe_ns = self._after_status(node.name, *given, tick_ns)
        elif ready is None or (entry is None and self._given_up_by_age(ready)):
            probe_ns = node.creation_timestamp_ns
        elif entry is None and ready.status == UNKNOWN:
            probe_ns = self._probed_before(ready, tick_ns)
        else:
            probe_ns = tick_ns
        if entry is not None:
            transition_ns = entry.ready_transition_ns
        elif ready is not None and ready.last_transition_time_ns is not None:
            moved_ns = self._posted_ns(node.name, ready.last_transition_time_ns)
            transition_ns = self._ticks.at_or_after(moved_ns)
        else:
            transition_ns = probe_ns
        if self._earliest_probe_ns is not None and (
            lease is not None or not (ready is None or self._given_up_by_age(ready))
        ):
            probe_ns = max(probe_ns, self._earliest_probe_ns)
            transition_ns = max(transition_ns, self._earliest_probe_ns)
        return NodeHealth(probe_ns, transition_ns, ready, lease)

    def _after_status(
        self, name: str, ready: NodeCondition, lease: LeaseVersion, probe_ns: int, tick_ns: int
    ) -> tuple[NodeCondition, LeaseVersion | None, int]:
        """Likewise where the kubelet has posted a status after that Lease: it makes a tick forget the Lease, which the next one accepts again."""
        if ready.last_heartbeat_time_ns is None or ready.last_heartbeat_time_ns > self._looked_ns:
            return ready, lease, probe_ns
        posted_ns = self._posted_ns(name, ready.last_heartbeat_time_ns)
        seen_ns = self._ticks.at_or_after(posted_ns)
        if posted_ns <= lease.renew_time_ns or seen_ns == probe_ns:
            return ready, lease, probe_ns
        if self._first_tick_ns is not None and seen_ns <= self._first_tick_ns:
            return ready, lease, probe_ns  # A new process knows no Lease that it could forget.
        if seen_ns > tick_ns:
            return replace(ready, last_heartbeat_time_ns=None), lease, probe_ns
        again_ns = self._ticks.after(seen_ns)
        return (ready, None, seen_ns) if again_ns > tick_ns else (ready, lease, again_ns)

    def _posted_ns(self, name: str, second_ns: int) -> int:
        """When what the API tells of that second was posted."""
        late = name in self._timing.posted_late
        return max(second_ns, min(second_ns + SECOND_NS, self._looked_ns)) if late else second_ns

    def _given_up_by_age(self, ready: NodeCondition) -> bool:
        """Whether this process gave the node up because its kubelet had never posted a status."""
        written_ns = ready.last_transition_time_ns
        return ready.reason == STATUS_NEVER_UPDATED and (
            self._earliest_probe_ns is None
            or (written_ns is not None and written_ns + SECOND_NS > self._earliest_probe_ns)
        )

    def _probed_before(self, unknown: NodeCondition, tick_ns: int) -> int:
        """The tick that heard the kubelet for the last time, by when one gave its node up; ``tick_ns`` where nobody knows."""
        written_ns = unknown.last_transition_time_ns
        if written_ns is None:
            return tick_ns
        given_up_ns = min(self._ticks.at_or_after(written_ns), tick_ns)
        return self._ticks.newest(given_up_ns - self._grace_ns + 1)

    def current(self, node: Node, tick_ns: int) -> NodeHealth | None:
        """The entry, steady or not, after the tick at ``tick_ns``; a steady node stays so."""
        if node.name in self._steady:
            return self.as_of(node, tick_ns)
        return self._entries.get(node.name)

    def load(self, now_ns: int, timing: Timing) -> None:
        """A warm start at ``now_ns``, with what is unknown of the time before."""
        self._looked_ns, self._timing = now_ns, timing
        anew_ns = now_ns
        for _ in range(timing.probes_anew_ticks):
            anew_ns = self._ticks.newest(anew_ns)
        if anew_ns < now_ns:
            # All zones were down until that tick, and no probe is older.
            self._earliest_probe_ns = max(self._earliest_probe_ns or anew_ns, anew_ns)

    def restart_all_probes(self, names: Iterable[str], now_ns: int) -> None:
        """Master disruption ends: every node's grace period begins anew."""
        self._earliest_probe_ns = now_ns
        for name in names:
            if name in self._entries:
                self._entries[name] = replace(
                    self._entries[name], probe_ns=now_ns, ready_transition_ns=now_ns
                )
