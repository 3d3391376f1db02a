"""From a scenario's events to mutations: what ``apply`` sends, in order, one object at a time.

A drain becomes a cordon for every node that is schedulable, then the evictions of one node after the
other: those pods that ``kubectl drain`` would evict now, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kubectl_evictplan.errors import Correction, InputError, Problem, help_on
from kubectl_evictplan.kube.drain_filters import (
    GRACE_PERIOD_OF_POD,
    OVERRIDES,
    Decision,
    FilteredPod,
    filter_pods,
    refusals,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Taint
from kubectl_evictplan.kube.taints import with_taint_put_first, without_taint
from kubectl_evictplan.plans import document as plan
from kubectl_evictplan.prediction.document import EventSummary, TaintReference
from kubectl_evictplan.scenarios.actions.drain import Drain, drains_among
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, Cordon, RemoveTaint, Uncordon
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.drain_parts import known_daemon_sets

# What can be carried out; ``Uncordon`` is a ``Cordon``.
MUTATIONS = (AddTaint, RemoveTaint, Cordon, Drain)
_ACTIONS = frozenset(one.action for one in (*MUTATIONS, Uncordon))
# Flags of kubectl drain that can be predicted but are never carried out, each with why.
_NEVER = {
    "--disable-eviction": "it deletes pods past their budgets",
    "--skip-wait-for-delete-timeout": "apply waits for every pod that it evicts",
}


def operations_of(scenario: Scenario, snapshot: ClusterSnapshot) -> tuple[plan.AnyOperation, ...]:
    """Return the mutations that the events are, numbered from 1; none for what is so already.

    Raises InputError for events that nobody can carry out, and for drains that kubectl would refuse.
    """
    refuse_impossible(scenario.events)
    planner = _Planner(snapshot)
    found = [one for event in scenario.events for one in planner.operations(event)]
    if planner.problems:
        raise InputError(planner.problems)
    return tuple(replace(one, number=place) for place, one in enumerate(found, start=1))


def refuse_impossible(events: Sequence[ScenarioEvent]) -> None:
    """Raise for events that are no mutations of ours: they can be predicted, not done."""
    others = [event for event in events if not isinstance(event, MUTATIONS)]
    drains = drains_among(events)
    problems = [
        Problem(
            f"{event.action} can be predicted but not carried out: a plan taints, untaints, cordons, "
            "uncordons and drains",
            help_on("apply"),
            location=event.origin,
        )
        for event in others
    ]
    for event in drains:
        problems += _impossible_flags(event)
    if len({(event.parallel, event.settle_ns, event.timeout_ns) for event in drains}) > 1:
        message = "drains of one plan have one --parallel, one --settle and one --timeout"
        problems.append(Problem(message, location=drains[0].origin))
    if problems:
        raise InputError(problems)


def can_be_carried_out(event: EventSummary) -> bool:
    """Tell of an event as a prediction tells it whether ``refuse_impossible`` lets it pass."""
    flags = {word.partition("=")[0] for word in event.command}
    return event.action in _ACTIONS and not flags & _NEVER.keys()


def taint_reference(taint: Taint) -> TaintReference:
    """Return the taint as documents name it."""
    return TaintReference(taint.key, taint.effect, taint.value)


def _impossible_flags(event: Drain) -> Iterator[Problem]:
    def problem(flag: str, *value: str) -> Problem:
        known = Correction((flag, *value), ())
        message = f"{flag} is never carried out: {_NEVER[flag]}"
        return Problem(message, known, location=event.origin)

    if event.disable_eviction:
        yield problem("--disable-eviction")
    if event.skip_wait_for_delete_timeout_seconds:
        seconds = str(event.skip_wait_for_delete_timeout_seconds)
        yield problem("--skip-wait-for-delete-timeout", seconds)


class _Planner:
    """Follows nodes through the events, so that each mutation fits what those before it leave."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.problems: list[Problem] = []
        self._now_ns = snapshot.taken_at_ns
        self._nodes: dict[str, Node] = {node.name: node for node in snapshot.nodes}
        self._daemon_sets = known_daemon_sets(snapshot)
        self._pods: dict[str, list[Pod]] = {}
        for pod in snapshot.pods:
            self._pods.setdefault(pod.node_name, []).append(pod)

    def operations(self, event: ScenarioEvent) -> Iterator[plan.AnyOperation]:
        """Yield the mutations of one event; their numbers come later."""
        at = event.at_ns / SECOND_NS
        for name in event.nodes:
            node = self._nodes[name]
            if isinstance(event, AddTaint):
                yield from self._add_taint(at, node, event.taint)
            elif isinstance(event, RemoveTaint):
                yield from self._remove_taint(at, node, event)
            elif event.unschedulable is not None and event.unschedulable != node.unschedulable:
                self._nodes[name] = replace(node, unschedulable=event.unschedulable)
                yield (plan.Cordon if event.unschedulable else plan.Uncordon)(0, at, name)
        if isinstance(event, Drain):
            for name in event.nodes:
                yield from self._evictions(at, name, event)

    def _add_taint(self, at: float, node: Node, taint: Taint) -> Iterator[plan.AnyOperation]:
        wanted = taint_reference(taint)
        there = next(
            (t for t in node.taints if (t.key, t.effect) == (taint.key, taint.effect)), None
        )
        replaced = taint_reference(there) if there is not None else None
        if replaced != wanted:
            self._nodes[node.name] = replace(node, taints=with_taint_put_first(node.taints, taint))
            yield plan.AddTaint(0, at, node.name, wanted, replaced)

    def _remove_taint(
        self, at: float, node: Node, event: RemoveTaint
    ) -> Iterator[plan.AnyOperation]:
        key, effect = event.removal.key, event.removal.effect
        left = without_taint(node.taints, key, effect)
        self._nodes[node.name] = replace(node, taints=left)
        for taint in node.taints:
            if taint not in left:
                yield plan.RemoveTaint(0, at, node.name, taint_reference(taint))

    def _evictions(self, at: float, name: str, event: Drain) -> Iterator[plan.AnyOperation]:
        pods = self._pods.get(name, ())
        filtered = filter_pods(pods, event.options, self._daemon_sets, self._now_ns)
        if reasons := refusals(filtered):
            self.problems += [_refusal(name, reason, event, filtered) for reason in reasons]
            return
        asked = event.grace_period_seconds
        grace_seconds = asked if asked > GRACE_PERIOD_OF_POD else None
        for one in filtered:
            if one.decision is Decision.EVICT:
                pod = one.pod
                yield plan.Evict(0, at, name, pod.namespace, pod.name, pod.uid, grace_seconds)


def _refusal(node: str, reason: str, event: Drain, filtered: Sequence[FilteredPod]) -> Problem:
    flags = {
        OVERRIDES[one.reason]
        for one in filtered
        if one.decision is Decision.REFUSE and one.reason in OVERRIDES
    }
    known = Correction((), tuple(sorted(flags)), example=True) if flags else None
    message = (
        f"the drain of node {node} would be refused, so that there is nothing to plan: {reason}"
    )
    return Problem(message, known, location=event.origin)
