"""What takes part in a run only when its scenario drains nodes: budgets, their controller, replacements.

Without a drain nothing of it watches anything, and every other scenario runs as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from kubectl_evictplan.cluster.disruption_budgets import DisruptionBudgets
from kubectl_evictplan.cluster.rooms import NO_LIMITS, Rooms
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import Causes
from kubectl_evictplan.controllers.disruption import DisruptionController, OwnerScales
from kubectl_evictplan.controllers.releases import ReleaseProfile
from kubectl_evictplan.controllers.replication import ReplicationControllers, missing_pods
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.drain_filters import DrainOptions
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.owners import terminating_namespaces
from kubectl_evictplan.scenarios.actions.drain import drains_among
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.scenarios.simulated_cluster import Drains


class OutlivingController(Protocol):
    """A controller that keeps what it knows from one process of kube-controller-manager to the next."""

    def start(self, *, warm: bool) -> None:
        """Begin; ``warm``: the process has been running for long."""

    def stop(self) -> None:
        """The process is gone."""


class DrainParts(msgspec.Struct, frozen=True):
    """Processes of kubectl, and the controllers that live in kube-controller-manager."""

    drains: Drains
    controllers: Sequence[OutlivingController] = ()


class _NoDrains:
    def start(self, options: DrainOptions, nodes: Mapping[str, Causes]) -> None:
        raise AssertionError("a scenario without drains starts none")


def drained_nodes(scenario: Scenario) -> tuple[str, ...]:
    """Nodes that some event of the scenario drains, sorted."""
    return tuple(sorted({name for event in drains_among(scenario.events) for name in event.nodes}))


def known_daemon_sets(snapshot: ClusterSnapshot) -> frozenset[str] | None:
    """Return "namespace/name" of every DaemonSet; None when the input does not say which there are."""
    if "DaemonSet" not in snapshot.kinds_seen:
        return None
    return frozenset(
        f"{one.namespace}/{one.name}" for one in snapshot.workloads if one.kind == "DaemonSet"
    )


def eviction_rules(profile: ReleaseProfile) -> EvictionRules:
    """What the Eviction API of a release knows."""
    return EvictionRules(
        profile.evicts_pending_unasked,
        profile.evicts_unready_pods,
        profile.unhealthy_pod_eviction_policy,
        profile.tells_when_to_retry,
        profile.tells_of_terminating_namespaces,
    )


def drain_parts(
    state: ClusterState,
    snapshot: ClusterSnapshot,
    drained: Sequence[str],
    timing: DrainTiming,
    profile: ReleaseProfile,
    rooms: Rooms = NO_LIMITS,
) -> DrainParts:
    """Wire them for a state that is loaded; nothing at all when no node is drained."""
    if not drained:
        return DrainParts(_NoDrains())
    # Loaded only where nodes are drained: a small prediction is over before they are.
    from kubectl_evictplan.cluster.drains import KubectlDrains
    from kubectl_evictplan.cluster.eviction_api import EvictionApi
    from kubectl_evictplan.cluster.placement import Elsewhere, Placement

    for key in state.pods:
        state.number(key)
    budgets = DisruptionBudgets(state, snapshot.budgets)
    workloads = {(one.kind, one.namespace, one.name): one for one in snapshot.workloads}
    replication = ReplicationControllers(
        state, workloads, timing, profile.stateful_set_availability, missing_pods(snapshot)
    )
    emptied = frozenset(drained)
    others = (node for node in snapshot.nodes if node.name not in emptied)
    elsewhere = Elsewhere(others, snapshot.pods)
    placement = Placement(state, timing, drained, elsewhere=elsewhere, rooms=rooms)
    placement.start_pods_of_snapshot(state.events.now_ns)
    disruption = DisruptionController(state, budgets, OwnerScales(snapshot.workloads), timing)
    terminating = terminating_namespaces(snapshot)
    api = EvictionApi(state, budgets, timing, eviction_rules(profile), terminating)
    daemon_sets = known_daemon_sets(snapshot)
    return DrainParts(
        KubectlDrains(state, budgets, api, daemon_sets, timing), (disruption, replication)
    )
