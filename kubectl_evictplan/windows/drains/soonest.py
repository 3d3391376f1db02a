"""Before which offsets processes do not come to their nodes, whatever budgets say: known before it is asked who may come to these nodes.

Of nodes to which kubectl comes only when all others are cordoned nobody is made anew on these. So of several processes with many nodes
each has few nodes whose pods the others may find again, and not all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.actions.drain import drains_among
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.windows.drains.begins import first_start, pause_after
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import ARRIVAL, UNASKED
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn, Refusals
from kubectl_evictplan.windows.drains.world import DrainWorld


def plan_of(
    world: DrainWorld,
    scenario: Scenario,
    refusals: Refusals,
    ready: ReadyTimes,
    rules: EvictionRules,
) -> DrainPlan:
    """The plan of a scenario; ``refusals`` as those of ``DrainPlan``."""
    if len(drains_among(scenario.events)) < 2 or not world.quiet:
        return DrainPlan(world, scenario, refusals)
    plan = DrainPlan(world, scenario, refusals, guests=False)
    if plan.disturbed_ns < HORIZON_DEFAULT_MAX_NS:
        return plan.with_earliest({}, {})
    return plan.with_earliest({}, dict(_begins(plan, CoveredPods(world, plan, ready, rules))))


def _begins(plan: DrainPlan, covered: CoveredPods) -> Iterator[tuple[NodeDrain, int]]:
    for event, turns in zip(plan.drains, plan.processes, strict=True):
        at_ns = first_start(event)[0]
        for turn in turns:
            yield turn.drain, at_ns
            at_ns += _least_ns(turn, covered) + pause_after(turn)[0]


def _least_ns(turn: PlannedTurn, covered: CoveredPods) -> int:
    """How long kubectl is at a node at least: until the last pod has ended that is surely there, and that it surely waits for."""
    if not turn.known or turn.refused or turn.options.disable_eviction:
        # Another process may take the pods away, or the first that is refused ends the turn.
        return 0
    ends = (
        ARRIVAL[0] + UNASKED[0] + known[0]
        for pod in turn.pods
        if _is_waited_for(pod, turn, covered) and (known := turn.delays(pod).known) is not None
    )
    least_ns = max(ends, default=0)
    return min(least_ns, turn.options.timeout_ns) if turn.options.timeout_ns else least_ns


def _is_waited_for(pod: Pod, turn: PlannedTurn, covered: CoveredPods) -> bool:
    """Whether nothing may answer with an error, after which kubectl does not wait for the pod."""
    places = covered.asked_about(pod)
    return (
        len(places) <= 1
        and not any(map(covered.may_fail, places))
        and not covered.is_refusable(pod, turn)
        and not covered.is_in_terminating_namespace(pod)
        and not covered.may_be_refused_unseen(pod)
    )
