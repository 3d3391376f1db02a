"""The drains of a Prediction: each node of each ``kubectl drain``, over all runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.timeline import EVICTION_API, POD_GC
from kubectl_evictplan.kube.budgets import RefusablePods
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    PODS_EVICTED,
    POSSIBLE,
    DrainReport,
    ExpectedEnd,
    FailedPod,
    Joint,
    RefusedPod,
    SkippedPod,
    WaitingPod,
)
from kubectl_evictplan.scenarios.actions.drain import drains_among
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.unknowns.of_drains import DrainLatencies

if TYPE_CHECKING:
    from kubectl_evictplan.windows.drains.answers import Expected
    from kubectl_evictplan.windows.drains.instants import Within
    from kubectl_evictplan.windows.drains.outcomes import DrainOutcome
    from kubectl_evictplan.windows.drains.runs import DrainExploration
    from kubectl_evictplan.windows.drains.waits import Wait, WaitKey

_Value = TypeVar("_Value")

# ``ends`` of a wait and ``endReason`` of a drain that goes on for ever.
NEVER = "never"
# Of what is known to go on beyond the horizon that was given.
HORIZON = "horizon"
_FAILED = "error"


def drain_reports(explored: DrainExploration, scenario: Scenario) -> tuple[DrainReport, ...]:
    """One entry for each node of each drain, in the order in which kubectl takes them."""
    events = drains_among(scenario.events)
    outcomes = explored.answers.outcomes
    return tuple(
        _report(
            drain.node,
            outcome,
            events[drain.process].origin,
            _until_ns(scenario),
            explored.answers.missing,
            explored.answers.expected(drain),
        )
        for drain, outcome in outcomes.items()
    )


def _until_ns(scenario: Scenario) -> int:
    """The given horizon, or as far as runs go; ends of drains are known beyond either."""
    horizon_ns = scenario.horizon_ns
    return HORIZON_DEFAULT_MAX_NS if horizon_ns is None else horizon_ns


def _expected_end(expected: Expected | None, until_ns: int) -> ExpectedEnd | None:
    """The end if nothing that is missing prevents it, where that is one, before the horizon."""
    if expected is None or expected.end is None:
        return None
    reason, latest_ns = _only(expected.reasons), expected.end.latest_ns
    if reason is None or latest_ns is None or latest_ns > until_ns:
        return None
    earliest_seconds, latest_seconds = map(seconds, (expected.end.earliest_ns, latest_ns))
    code = _only(expected.exit_codes)
    return ExpectedEnd(earliest_seconds, latest_seconds, code, reason.value)


def _report(
    node: str,
    outcome: DrainOutcome,
    origin: str,
    until_ns: int,
    missing: tuple[str, ...],
    expected: Expected | None,
) -> DrainReport:
    """``missing``: kinds of objects that the input does not have, ``expected``: what would be if these prevent nothing."""
    if outcome.start is not None and outcome.start.earliest_ns > until_ns:
        return DrainReport(node, None, None, None, None, None, HORIZON, (), (), (), origin)
    start, start_latest = _ends_of(outcome.start, until_ns)
    end, end_latest = _ends_of(outcome.end, until_ns)
    reasons = {NEVER if reason is None else reason.value for reason in outcome.reasons}
    reason, exit_code = _only(frozenset(reasons)), _only(outcome.exit_codes)
    if outcome.end is not None and end is None:
        reason, exit_code = HORIZON, None
    elif not outcome.proven:
        reason = None
    # Where the one end is known nothing rests on what is missing.
    unsure = reason is None or exit_code is None
    waits = [(key, wait) for key, wait in sorted(outcome.waits.items()) if wait.from_ns <= until_ns]
    return DrainReport(
        node=node,
        start_seconds=start,
        start_latest_seconds=start_latest,
        end_earliest_seconds=end,
        end_latest_seconds=end_latest,
        exit_code=exit_code,
        end_reason=reason,
        refused=tuple(RefusedPod(one.pod, one.reason, one.why) for one in outcome.refused),
        waiting=tuple(
            _waiting_pod(key, wait, until_ns) for key, wait in waits if wait.ends != {_FAILED}
        ),
        failed=tuple(
            FailedPod(
                key.pod, key.budgets, _certainty(wait, until_ns, surely_so=wait.ends == {_FAILED})
            )
            for key, wait in waits
            if _FAILED in wait.ends
        ),
        origin=origin,
        skipped=tuple(SkippedPod(one.pod, one.reason) for one in outcome.skipped),
        not_in_input=missing if unsure else (),
        expected=_expected_end(expected, until_ns) if unsure else None,
        end_reasons=tuple(sorted(reasons))
        if outcome.proven and reason is None and len(reasons) > 1
        else (),
    )


def _waiting_pod(key: WaitKey, wait: Wait, until_ns: int) -> WaitingPod:
    earliest, latest = _ends_of(wait.until, until_ns)
    beyond = wait.until is not None and earliest is None
    return WaitingPod(
        pod=key.pod,
        budget=", ".join(key.budgets),
        budgets=key.budgets if len(key.budgets) > 1 else (),
        from_seconds=seconds(wait.from_ns),
        until_earliest_seconds=earliest,
        until_latest_seconds=latest,
        ends=HORIZON if beyond else _only(wait.ends),
        certainty=_certainty(wait, until_ns),
        possible_ends=tuple(sorted(wait.ends)) if len(wait.ends) > 1 and not beyond else (),
    )


def _certainty(wait: Wait, until_ns: int, *, surely_so: bool = True) -> str:
    """Whether the pod is surely refused before the horizon, and ``surely_so``."""
    by_ns = HORIZON_DEFAULT_MAX_NS if wait.by_ns is None else wait.by_ns
    return CERTAIN if surely_so and wait.certain and by_ns <= until_ns else POSSIBLE


def _ends_of(within: Within | None, until_ns: int) -> tuple[float | None, float | None]:
    """Both ends, as far as they lie before the horizon."""
    if within is None or within.earliest_ns > until_ns:
        return None, None
    latest_ns = within.latest_ns
    known = latest_ns is not None and latest_ns <= until_ns
    return seconds(within.earliest_ns), seconds(latest_ns) if known and latest_ns else None


def _only(values: frozenset[_Value]) -> _Value | None:
    """The one value that all runs agree on."""
    return next(iter(values)) if len(values) == 1 else None


# -- evictions ------------------------------------------------------------------------------------------


def merge_drains(exploration: Exploration, explored: DrainExploration, scenario: Scenario) -> None:
    """Put the evictions of drained nodes in the place of those that know nothing of drains."""
    drained = set(drained_nodes(scenario))
    until_ns = _until_ns(scenario)
    found, ends_later_ns = explored.answers.evictions, explored.answers.ends_later_ns
    kept: dict[EvictionKey, PossibleEviction] = {}
    # By when pods are gone because somebody else surely deletes them.
    gone_ns: dict[tuple[str, str], int] = {}
    for key, other in exploration.evictions.items():
        if other.node not in drained:
            kept[key] = _reported_later(key, other, ends_later_ns)
            continue
        if other.certain:
            if other.gone_latest_ns is not None:
                later_ns = 0 if key.controller == POD_GC else ends_later_ns
                gone_ns[key.pod, key.uid] = other.gone_latest_ns + later_ns
            # With a drain it goes no later.
            going = exploration.going
            going[key.pod, key.uid] = min(
                other.latest_ns, going.get((key.pod, key.uid), HORIZON_DEFAULT_MAX_NS)
            )
        told = _with_drains(key, other, explored, found.get(key))
        if told is not None:
            kept[key] = told
    for key, eviction in found.items():
        cut = _until(eviction, min(until_ns, gone_ns.get((key.pod, key.uid), until_ns)), until_ns)
        if cut is not None and (key not in kept) and eviction.node in drained:
            kept[key] = cut
    exploration.evictions = kept
    exploration.drain_runs = explored.answers.runs


def _reported_later(key: EvictionKey, told: PossibleEviction, late_ns: int) -> PossibleEviction:
    """The same where kubelets take so long to report an end, as they do beside drains; garbage collection ends pods itself."""
    if told.gone_latest_ns is None or key.controller == POD_GC:
        return told
    return told._replace(gone_latest_ns=told.gone_latest_ns + late_ns)


def _with_drains(
    key: EvictionKey,
    other: PossibleEviction,
    explored: DrainExploration,
    drawn: PossibleEviction | None,
) -> PossibleEviction | None:
    """A deletion by somebody else than kubectl, which a drain may forestall: it never comes at another instant than without it.

    None: the pod is surely gone before.
    """
    answers = explored.answers
    told = other if drawn is None else drawn
    told = told._replace(
        gone_earliest_ns=other.gone_earliest_ns, gone_latest_ns=other.gone_latest_ns
    )
    told = _reported_later(key, told, answers.ends_later_ns)
    if other.certain and answers.stays_certain(key, other):
        return told._replace(
            spans=other.spans, certain=True, missed=other.missed, proven=other.proven
        )
    if drawn is not None and key.controller == POD_GC and answers.may_be_collected(other.node):
        # Who terminates sooner is collected sooner.
        return drawn
    gone_ns = answers.gone_by_ns(key.pod, key.uid)
    spans = [span for span in other.spans if gone_ns is None or span[0] <= gone_ns]
    if not spans:
        return None
    proven = other.proven or not other.missed
    missed = other.missed | {DrainLatencies.name}
    return told._replace(spans=tuple(spans), certain=False, missed=missed, proven=proven)


def _until(eviction: PossibleEviction, last_ns: int, horizon_ns: int) -> PossibleEviction | None:
    """The deletion as far as it is one of a pod that is there until ``last_ns``, before the horizon."""
    spans = tuple(
        (low_ns, min(high_ns, last_ns)) for low_ns, high_ns in eviction.spans if low_ns <= last_ns
    )
    if not spans:
        return None
    certain = eviction.certain and eviction.latest_ns <= horizon_ns
    if last_ns < horizon_ns and eviction.gone_latest_ns is not None:
        eviction = eviction._replace(gone_latest_ns=min(eviction.gone_latest_ns, last_ns))
    return eviction._replace(spans=spans, certain=certain)


# -- what is certain of several pods, and what is assumed ---------------------------------------------------


def drain_joint(explored: DrainExploration, scenario: Scenario) -> Iterator[Joint]:
    """How many of the pods that may take each other's place are evicted by when, up to the horizon.

    Nothing is said of pods that somebody else deletes as well: those that the drain leaves do not stay.
    """
    horizon_ns = scenario.end_ns
    others = {key.pod for key in explored.answers.evictions if key.controller != EVICTION_API}
    for pods, nths in explored.answers.classes(EVICTION_API):
        if others.intersection(pod.key for pod in pods):
            continue
        scope = f"node/{pods[0].node_name}"
        latest = [within.latest_ns if within is not None else None for within in nths]
        for instant_ns in sorted({ns for ns in latest if ns is not None and ns <= horizon_ns}):
            least = sum(1 for ns in latest if ns is not None and ns <= instant_ns)
            most = sum(1 for one in nths if one is not None and one.earliest_ns <= instant_ns)
            yield Joint(scope, PODS_EVICTED, least, most, len(pods), seconds(instant_ns))


def drain_going(
    exploration: Exploration,
    explored: DrainExploration,
    scenario: Scenario,
    refusable: RefusablePods,
) -> Iterator[Joint]:
    """Pods of which no single deletion is certain, and yet they go: kubectl or somebody else deletes them.

    To be asked after ``merge_drains``. ``refusable`` are pods that a webhook may keep. Nothing is said
    where budgets are not known.
    """
    if explored.world.budgets_denied or not explored.world.budgets_listed:
        return
    horizon_ns, kept = scenario.end_ns, refusable.deleted | refusable.evicted
    rows: dict[tuple[str, str], list[EvictionKey]] = {}
    for key in exploration.evictions:
        if (key.pod, key.uid) in exploration.going:
            rows.setdefault((key.pod, key.uid), []).append(key)
    for (pod, uid), keys in sorted(rows.items()):
        sure = any(exploration.evictions[key].certain for key in keys)
        by_ns = exploration.going[pod, uid]
        if len(keys) > 1 and not sure and pod not in kept and by_ns <= horizon_ns:
            yield Joint(f"pod/{pod}", PODS_EVICTED, 1, 1, 1, seconds(by_ns))


def drain_assumptions(times: ReadyTimes) -> tuple[str, ...]:
    """What a prediction of drains takes for granted."""
    low_ns, high_ns = times.earliest_ns, times.latest_ns
    ready = format_duration(low_ns)
    if high_ns is None:
        ready += " at the earliest, perhaps never,"
    elif high_ns != low_ns:
        ready += f" to {format_duration(high_ns)}"
    said = f"a replacement is Ready {ready} after it is bound (--assume-ready, or its default)"
    if times.by_owner:
        said = (
            "a replacement is Ready as long after it is bound as its owner's pods took from their creation, "
            f"and {ready} where they do not tell (the default)"
        )
    return (
        said,
        "where a replacement lands is not predicted; some node takes it if any is schedulable",
        "pods that are not Ready stay so, but for those younger than what a replacement takes",
        "kubectl's first eviction comes 0.03 to 0.5s after its start, a retry 5 to 5.2s after a refusal",
    )
