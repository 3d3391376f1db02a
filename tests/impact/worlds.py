"""Small clusters to ask for their impact: pods with owners, services, volumes, budgets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from building.builders import make_pod, make_scenario, make_snapshot, ns
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.kube.infrastructure import Infrastructure
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    IntOrPercent,
    Pod,
    PodDisruptionBudget,
    Workload,
)
from kubectl_evictplan.prediction.impact_document import (
    Finding,
    Impact,
    NotComingBack,
    ServiceImpact,
    WorkloadImpact,
)
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

NODES = ("a1", "a2", "b1")
READY = (ns(20), ns(20))


def pods_of(kind: str, name: str, nodes: Iterable[str], **attributes: Any) -> list[Pod]:
    """``NAME-0`` … on these nodes, owned by ``kind``/``name`` ("" for bare pods), labelled app=NAME."""
    attributes = {"labels": {"app": name}, **attributes}
    owner = f"{kind}/{name}" if kind else ""
    return [
        make_pod(f"{name}-{n}", node, owner=owner, **attributes) for n, node in enumerate(nodes)
    ]


def cluster(
    pods: Iterable[Pod],
    *,
    workloads: Iterable[Workload] = (),
    budgets: Iterable[PodDisruptionBudget] = (),
    nodes: Iterable[Any] = NODES,
    **infrastructure: Any,
) -> ClusterSnapshot:
    kinds = ["Lease", "Node", "Pod", "PodDisruptionBudget"]
    kinds += ["Service"] * ("services" in infrastructure)
    return replace(
        make_snapshot(nodes, pods),
        workloads=tuple(workloads),
        budgets=tuple(budgets),
        infrastructure=Infrastructure(**infrastructure),
        kinds_seen=tuple(kinds),
    )


def budget(name: str, *, least: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        "default",
        name,
        {"app": name},
        disruptions_allowed=0,
        current_healthy=2,
        desired_healthy=least,
        expected_pods=2,
        min_available=IntOrPercent(least),
    )


def impact_of(
    snapshot: ClusterSnapshot,
    *events: ScenarioEvent,
    assume_ready: tuple[int, int | None] | None = READY,
    horizon: float | None = 900,
    release: str = "1.37.0",
    **options: Any,
) -> Impact:
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    known = (snapshot, make_scenario(events, horizon=horizon), configuration)
    return assess_impact(*known, predict(*known), assume_ready=assume_ready, **options)


def service(impact: Impact, name: str) -> ServiceImpact:
    [found] = [one for one in impact.services if one.service == name]
    return found


def workload(impact: Impact, name: str) -> WorkloadImpact:
    [found] = [one for one in impact.workloads if one.workload == name]
    return found


def finding(impact: Impact, code: str) -> Finding:
    [found] = [one for one in impact.findings if one.code == code]
    return found


def comebacks(impact: Impact) -> dict[str, NotComingBack]:
    return {one.pod: one for one in impact.not_coming_back}
