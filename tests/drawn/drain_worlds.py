"""Small clusters that are drained: owners and budgets of every kind, and kubectl's flags."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from building.builders import make_event, make_node, make_pod, make_scenario, make_snapshot, ns
from msgspec.structs import replace

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.rooms import NO_LIMITS
from kubectl_evictplan.cluster.timeline import EVICTION_API
from kubectl_evictplan.controllers.disruption import OwnerScales
from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.disruption import EvictionRules, synced_status
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    IntOrPercent,
    Pod,
    PodDisruptionBudget,
    Workload,
)
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.newcomers import owners_without_pods
from kubectl_evictplan.windows.drains.rivals import RowBounds
from kubectl_evictplan.windows.drains.world import drain_world

NODES = ("a1", "a2", "b1", "b2")
# How long replacements take until they are Ready.
READY = ns(3), ns(3)
# From the try that is refused because of a disruption to the one that finds it back, at most: the other pod is Ready after 3.95 s, a try 5.07 s off.
ROUND = 5.07
CONFIGURATION = resolve_configuration(
    ControllerSettings(kubernetes_version="1.37.0"), ControlPlaneFlags()
)


class App(NamedTuple):
    """Pods ``NAME-0`` … on these nodes and their owner; ``kind`` "" means bare pods.

    ``least`` and ``most`` make a budget of that name: minAvailable and maxUnavailable.
    """

    name: str
    nodes: Sequence[str]
    kind: str = "ReplicaSet"
    least: int | str | None = None
    most: int | str | None = None
    policy: str = ""
    grace: int = 30
    unready: Sequence[int] = ()
    parallel: bool = False

    def pods(self) -> list[Pod]:
        return [
            make_pod(
                f"{self.name}-{place}",
                node,
                owner=f"{self.kind}/{self.name}" if self.kind else "",
                labels={"app": self.name},
                grace_seconds=self.grace,
                ready="False" if place in self.unready else "True",
            )
            for place, node in enumerate(self.nodes)
        ]

    def workloads(self) -> list[Workload]:
        policy = "Parallel" if self.parallel else ""
        one = Workload(
            self.kind,
            "default",
            self.name,
            f"uid-{self.name}",
            len(self.nodes),
            pod_management_policy=policy,
        )
        return [one] if self.kind else []

    def budgets(self) -> list[PodDisruptionBudget]:
        if self.least is None and self.most is None:
            return []
        return [make_budget(self.name, least=self.least, most=self.most, policy=self.policy)]


def make_budget(
    name: str,
    *,
    app: str = "",
    least: int | str | None = None,
    most: int | str | None = None,
    policy: str = "",
) -> PodDisruptionBudget:
    """A budget without a status over the pods of an app (of the same name)."""
    return PodDisruptionBudget(
        "default",
        name,
        {"app": app or name},
        min_available=_count(least),
        max_unavailable=_count(most),
        unhealthy_pod_eviction_policy=policy,
        generation=1,
    )


def _count(value: int | str | None) -> IntOrPercent | None:
    if isinstance(value, str):
        return IntOrPercent(int(value.removesuffix("%")), percent=True)
    return None if value is None else IntOrPercent(value)


def drained_cluster(
    *apps: App, budgets: Iterable[PodDisruptionBudget] = (), nodes: Sequence[str] = NODES
) -> ClusterSnapshot:
    """The cluster of the apps, with the statuses that the disruption controller gives its budgets."""
    pods = [pod for app in apps for pod in app.pods()]
    workloads = [one for app in apps for one in app.workloads()]
    every = sorted(
        [*budgets, *(one for app in apps for one in app.budgets())], key=lambda one: one.name
    )
    snapshot = make_snapshot(map(make_node, nodes), pods)
    return synced(
        replace(
            snapshot,
            workloads=tuple(sorted(workloads, key=lambda one: (one.kind, one.name))),
            budgets=tuple(every),
            kinds_seen=(*snapshot.kinds_seen, "DaemonSet", "PodDisruptionBudget"),
        )
    )


def synced(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster with the statuses that the disruption controller gives its budgets."""
    index, scales = BudgetIndex(snapshot.budgets), OwnerScales(snapshot.workloads)
    covered: list[list[Pod]] = [[] for _ in snapshot.budgets]
    for pod in snapshot.pods:
        for place in index.matching(pod):
            covered[place].append(pod)
    budgets = (
        synced_status(one, pods, scales.scale, snapshot.taken_at_ns)
        for one, pods in zip(snapshot.budgets, covered, strict=True)
    )
    return replace(snapshot, budgets=tuple(budgets))


def drain(*nodes: str, at: float = 1, **flags: Any) -> ScenarioEvent:
    """``kubectl drain`` of the nodes."""
    return make_event(at, "drain", nodes, **flags)


def drains(*events: ScenarioEvent, horizon: float | None = None) -> Scenario:
    """A scenario of drains, to the end of whatever happens."""
    return make_scenario(events, horizon=horizon)


def proven(
    snapshot: ClusterSnapshot,
    *events: ScenarioEvent,
    ready: tuple[int, int | None] = READY,
    rules: EvictionRules = EvictionRules(),  # noqa: B008 - a constant
) -> DrainBounds:
    """What is proven of these drains."""
    scenario = drains(*events)
    world = drain_world(snapshot, scenario, CONFIGURATION)
    world = world._replace(without_pods=owners_without_pods(snapshot))
    return DrainBounds(world, scenario, ReadyTimes(*ready), NO_LIMITS, rules)


class DrainedWorld(NamedTuple):
    """A cluster and what is drained in it."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration = CONFIGURATION


def draw_drained_world(rng: random.Random) -> DrainedWorld:
    """Draw up to four apps on four nodes, and one or two drains."""
    apps = []
    for number in range(rng.randint(1, 4)):
        kind = rng.choice(("ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", ""))
        places = [rng.choice(NODES) for _ in range(rng.randint(1, 6))]
        least, most = rng.choice(
            (
                (None, None),
                (1, None),
                (len(places) - 1, None),
                ("50%", None),
                (None, 1),
                (None, "30%"),
            )
        )
        apps.append(
            App(
                f"app{number}",
                places,
                kind,
                least,
                most,
                policy=rng.choice(("", "", "AlwaysAllow")),
                grace=rng.choice((1, 10, 30)),
                unready=[place for place in range(len(places)) if rng.random() < 0.1],
                parallel=rng.random() < 0.3,
            )
        )
    events = []
    for at in (1.0, rng.uniform(2, 30))[: rng.choice((1, 1, 2))]:
        names = rng.sample(NODES[:3], rng.randint(1, 2))
        flags: dict[str, Any] = {"force": True}
        if rng.random() < 0.4:
            flags["timeout_ns"] = rng.randint(4, 60) * 1_000_000_000
        if rng.random() < 0.2:
            flags["grace_period_seconds"] = rng.choice((0, 5, 40))
        if rng.random() < 0.1:
            flags["disable_eviction"] = True
        events.append(drain(*names, at=at, **flags))
    return DrainedWorld(drained_cluster(*apps), drains(*events))


def row(bounds: DrainBounds, pod: str, controller: str = EVICTION_API) -> RowBounds:
    """What is proven of the one deletion of the pod."""
    [found] = [
        one
        for key, one in bounds.rows.items()
        if (key.pod, key.controller) == (f"default/{pod}", controller)
    ]
    return found


def latest(bounds: DrainBounds, pod: str) -> float:
    """Seconds after the start by which it is surely evicted."""
    return row(bounds, pod).spans[-1][1] / 1e9
