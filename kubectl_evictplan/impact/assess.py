"""``assess_impact``: what a prediction costs, as the ``impact`` of the document. Pure and deterministic."""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.impact.budgets import budget_impacts
from kubectl_evictplan.impact.services import service_impacts
from kubectl_evictplan.impact.workloads import workload_impacts
from kubectl_evictplan.impact.world import Assumed, World
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.drain_runs import AssumeReady


def assess_impact(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    prediction: Prediction,
    *,
    assume_ready: tuple[int, int | None] | None = None,
) -> Impact:
    """What ``prediction``, made of the first three, costs services, workloads, budgets and volumes.

    ``assume_ready``: from when to when after its binding a replacement is Ready, in nanoseconds (latest None:
    perhaps never); None: learnt from the pods' own history, else the default.
    """
    given = assume_ready is not None
    ready = AssumeReady(*assume_ready) if assume_ready is not None else AssumeReady()
    world = World(snapshot, scenario, configuration, prediction, Assumed(ready, given))
    return Impact(
        services=service_impacts(world),
        workloads=workload_impacts(world),
        budgets=budget_impacts(world),
        volumes=(),
        not_coming_back=(),
        quorums=(),
        findings=(),
    )


def with_impact(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    prediction: Prediction,
    *,
    assume_ready: tuple[int, int | None] | None = None,
) -> Prediction:
    """Return the same prediction with what it costs."""
    impact = assess_impact(snapshot, scenario, configuration, prediction, assume_ready=assume_ready)
    return replace(prediction, impact=impact)
