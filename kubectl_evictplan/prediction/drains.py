"""The drains of a Prediction: each node of each ``kubectl drain``, over all runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from kubectl_evictplan.cluster.timeline import EVICTION_API
from kubectl_evictplan.kube.disruption import can_ignore_budgets
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    POSSIBLE,
    DrainReport,
    FailedPod,
    Joint,
    RefusedPod,
    WaitingPod,
)
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.drain_instants import Within
from kubectl_evictplan.windows.drain_outcomes import DrainOutcome
from kubectl_evictplan.windows.drain_runs import AssumeReady, DrainExploration
from kubectl_evictplan.windows.drain_waits import Wait, WaitKey
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction

_Value = TypeVar("_Value")

# ``ends`` of a wait and ``endReason`` of a drain that goes on for ever.
NEVER = "never"
_FAILED = "error"


def drain_reports(explored: DrainExploration | None, scenario: Scenario) -> tuple[DrainReport, ...]:
    """One entry for each node of each drain, in the order in which kubectl takes them."""
    if explored is None:
        return ()
    events = [event for event in scenario.events if isinstance(event, Drain)]
    outcomes = explored.gathered.outcomes
    unsure = _protectable(explored) if explored.world.budgets_denied else {}
    return tuple(
        _report(drain.node, outcome, events[drain.process].origin, unsure=drain.node in unsure)
        for drain, outcome in outcomes.items()
    )


def _protectable(explored: DrainExploration) -> dict[str, set[str]]:
    """Pods that a budget may protect, by drained node."""
    nodes = {drain.node for drain in explored.drains}
    found: dict[str, set[str]] = {}
    for pod in explored.world.snapshot.pods:
        if pod.node_name in nodes and not can_ignore_budgets(pod):
            found.setdefault(pod.node_name, set()).add(pod.key)
    return found


def _report(node: str, outcome: DrainOutcome, origin: str, *, unsure: bool) -> DrainReport:
    """``unsure``: budgets that may not be read can make it wait, for ever too."""
    start, start_latest = _ends_of(outcome.start)
    end, end_latest = _ends_of(outcome.end)
    reasons = {NEVER if reason is None else reason.value for reason in outcome.reasons}
    return DrainReport(
        node=node,
        start_seconds=start,
        start_latest_seconds=start_latest,
        end_earliest_seconds=end,
        end_latest_seconds=None if unsure else end_latest,
        exit_code=None if unsure else _only(outcome.exit_codes),
        end_reason=None if unsure else _only(frozenset(reasons)),
        refused=tuple(RefusedPod(one.pod, one.reason, one.why) for one in outcome.refused),
        waiting=tuple(_waiting(outcome)),
        failed=tuple(
            FailedPod(key.pod, key.budgets, CERTAIN if wait.certain else POSSIBLE)
            for key, wait in sorted(outcome.waits.items())
            if wait.ends == {_FAILED}
        ),
        origin=origin,
    )


def _waiting(outcome: DrainOutcome) -> Iterator[WaitingPod]:
    for key, wait in sorted(outcome.waits.items()):
        if wait.ends != {_FAILED}:
            yield _waiting_pod(key, wait)


def _waiting_pod(key: WaitKey, wait: Wait) -> WaitingPod:
    earliest, latest = _ends_of(wait.until)
    return WaitingPod(
        pod=key.pod,
        budget=", ".join(key.budgets),
        from_seconds=seconds(wait.from_ns),
        until_earliest_seconds=earliest,
        until_latest_seconds=latest,
        ends=_only(wait.ends),
        certainty=CERTAIN if wait.certain else POSSIBLE,
    )


def _ends_of(within: Within | None) -> tuple[float | None, float | None]:
    if within is None:
        return None, None
    latest_ns = within.latest_ns
    return seconds(within.earliest_ns), None if latest_ns is None else seconds(latest_ns)


def _only(values: frozenset[_Value]) -> _Value | None:
    """The one value that all runs agree on."""
    return next(iter(values)) if len(values) == 1 else None


# -- evictions ------------------------------------------------------------------------------------------


def merge_drains(
    exploration: Exploration, explored: DrainExploration | None, scenario: Scenario
) -> None:
    """Put the evictions of drained nodes in the place of those that know nothing of drains."""
    if explored is None:
        return
    drained = set(drained_nodes(scenario))
    horizon_ns = scenario.horizon_ns
    until_ns = HORIZON_DEFAULT_MAX_NS if horizon_ns is None else horizon_ns
    found = explored.gathered.evictions
    kept: dict[EvictionKey, PossibleEviction] = {}
    for key, other in exploration.evictions.items():
        if other.node not in drained:
            kept[key] = other
        elif key in found:
            # Drawn runs do not reach the very ends of what the monitor's phase decides.
            both = found[key]
            kept[key] = both._replace(
                spans=other.spans if both.certain else both.spans,
                certain=both.certain and other.certain,
            )
    for key, eviction in found.items():
        cut = _within_horizon(eviction, until_ns)
        if cut is not None and (key not in kept) and eviction.node in drained:
            kept[key] = cut
    if explored.world.budgets_denied or not explored.world.budgets_listed:
        protectable = set().union(*_protectable(explored).values())
        for key, eviction in kept.items():
            if key.pod in protectable and key.controller == EVICTION_API:
                kept[key] = eviction._replace(certain=False)
    exploration.evictions = kept
    exploration.drain_runs = explored.gathered.runs


def _within_horizon(eviction: PossibleEviction, until_ns: int) -> PossibleEviction | None:
    spans = tuple(
        (low_ns, min(high_ns, until_ns)) for low_ns, high_ns in eviction.spans if low_ns <= until_ns
    )
    if not spans:
        return None
    return eviction._replace(
        spans=spans, certain=eviction.certain and eviction.latest_ns <= until_ns
    )


# -- what is certain of several pods, and what is assumed ---------------------------------------------------


def drain_joint(explored: DrainExploration | None, scenario: Scenario) -> Iterator[Joint]:
    """How many of the pods that may take each other's place are evicted by when, up to the horizon.

    Nothing is said of pods that somebody else deletes as well: those that the drain leaves do not stay.
    """
    if explored is None:
        return
    horizon_ns = scenario.end_ns
    others = {key.pod for key in explored.gathered.evictions if key.controller != EVICTION_API}
    for pods, nths in explored.gathered.classes(EVICTION_API):
        if others.intersection(pod.key for pod in pods):
            continue
        scope = f"node/{pods[0].node_name}"
        latest = [within.latest_ns if within is not None else None for within in nths]
        for instant_ns in sorted({ns for ns in latest if ns is not None and ns <= horizon_ns}):
            least = sum(1 for ns in latest if ns is not None and ns <= instant_ns)
            most = sum(1 for one in nths if one is not None and one.earliest_ns <= instant_ns)
            yield Joint(scope, "pods evicted", least, most, len(pods), seconds(instant_ns))


def drain_going(
    exploration: Exploration, explored: DrainExploration | None, scenario: Scenario
) -> Iterator[Joint]:
    """Pods of which no single deletion is certain, and yet they go: kubectl or somebody else deletes them.

    To be asked after ``merge_drains``.
    """
    if explored is None:
        return
    gathered, horizon_ns = explored.gathered, scenario.end_ns
    rows: dict[tuple[str, str], list[EvictionKey]] = {}
    for key in exploration.evictions:
        if (key.pod, key.uid) in gathered.going:
            rows.setdefault((key.pod, key.uid), []).append(key)
    for (pod, _), keys in sorted(rows.items()):
        if len(keys) < 2 or any(exploration.evictions[key].certain for key in keys):
            continue
        whole = [gathered.evictions.get(key, exploration.evictions[key]) for key in keys]
        by_ns = max(one.latest_ns for one in whole)
        if by_ns <= horizon_ns:
            yield Joint(f"pod/{pod}", "pods evicted", 1, 1, 1, seconds(by_ns))


def drain_assumptions(assume_ready: AssumeReady) -> tuple[str, ...]:
    """What a prediction of drains takes for granted."""
    low_ns, high_ns = assume_ready
    ready = format_duration(low_ns)
    if high_ns is None:
        ready += " at the earliest, perhaps never,"
    elif high_ns != low_ns:
        ready += f" to {format_duration(high_ns)}"
    return (
        f"a replacement is Ready {ready} after it is bound (--assume-ready)",
        "where a replacement lands is not predicted; some node takes it if any is schedulable",
        "pods that are not Ready stay so, but for those younger than --assume-ready",
        "kubectl's first eviction comes 0.03 to 0.5s after its start, a retry 5 to 5.2s after a refusal",
    )
