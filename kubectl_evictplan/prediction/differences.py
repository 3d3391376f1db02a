"""``compare``: what differs between two predictions, and which inputs differ with it. Pure.

Evictions are paired by namespace, name and place (a pod may go more than once), never by uid: a pod that
was created anew under its name is the same one to whoever reads two predictions. Instants that agree to the
millisecond are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.difference_document import (
    DifferenceCounts,
    DrainDifference,
    DrainSide,
    EvictionSide,
    FindingDifference,
    InputDifference,
    PodDifference,
    PredictionDiff,
)
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    DrainReport,
    EventSummary,
    Eviction,
    Inputs,
    Prediction,
    Sourced,
)
from kubectl_evictplan.prediction.impact_differences import impact_differences, milliseconds
from kubectl_evictplan.prediction.impact_document import Impact, ReadyAfter

NEW, GONE = "new", "gone"
EARLIER, LATER = "earlier", "later"
WIDER, NARROWER, OTHERWISE = "wider", "narrower", "otherwise"
BECAME_CERTAIN, BECAME_POSSIBLE = "became-certain", "became-possible"

_Row = TypeVar("_Row", Eviction, DrainReport)
# kubectl looks once a second whether a pod is gone, and when is drawn: ends that lie closer are the same.
_END_SECONDS = 0.1
_ASIDE = ("certainty", "node", "controller", "taint", "toleration", "stuck")


def compare(a: Prediction, b: Prediction, name_a: str = "A", name_b: str = "B") -> PredictionDiff:
    """Return what differs in ``b``; the names are those that people know the predictions by."""
    in_a, in_b = _by_key(a.evictions), _by_key(b.evictions)
    kept_a, kept_b = ({kept.key: kept.code for kept in side.kept} for side in (a, b))
    pods: list[PodDifference] = []
    same = 0
    for key in sorted(in_a.keys() | in_b.keys()):
        pairs = zip_longest(in_a.get(key, ()), in_b.get(key, ()))
        for number, (first, second) in enumerate(pairs, 1):
            stays = (kept_b if second is None else kept_a).get("/".join(key), "")
            found = _pod_difference(first, second, number, stays)
            pods += [found] if found is not None else []
            same += found is None
    drains = tuple(_drain_differences(a.drains, b.drains))
    only_a, only_b = _findings_only(a.impact, b.impact), _findings_only(b.impact, a.impact)
    impacts = tuple(impact_differences(a.impact, b.impact))
    return PredictionDiff(
        a=name_a,
        b=name_b,
        same=not (pods or drains or impacts or only_a or only_b),
        counts=_counts(pods, same),
        inputs=(*_input_differences(a.inputs, b.inputs), *_assumed_differences(a.impact, b.impact)),
        pods=tuple(pods),
        drains=drains,
        impacts=impacts,
        findings_only_in_a=only_a,
        findings_only_in_b=only_b,
        warnings_only_in_a=_only(a.warnings, b.warnings),
        warnings_only_in_b=_only(b.warnings, a.warnings),
    )


def _by_key(evictions: Iterable[Eviction]) -> dict[tuple[str, str], list[Eviction]]:
    found: dict[tuple[str, str], list[Eviction]] = {}
    for eviction in evictions:
        found.setdefault((eviction.namespace, eviction.pod), []).append(eviction)
    for same_pod in found.values():
        same_pod.sort(key=lambda eviction: (eviction.earliest_seconds, eviction.latest_seconds))
    return found


def _counts(pods: Sequence[PodDifference], same: int) -> DifferenceCounts:
    changes = Counter(pod.change for pod in pods)
    certainties = Counter(pod.certainty for pod in pods)
    return DifferenceCounts(
        new=changes[NEW],
        gone=changes[GONE],
        earlier=changes[EARLIER],
        later=changes[LATER],
        wider=changes[WIDER],
        narrower=changes[NARROWER],
        otherwise=changes[OTHERWISE],
        same=same,
        became_certain=certainties[BECAME_CERTAIN],
        became_possible=certainties[BECAME_POSSIBLE],
    )


# -- evictions ----------------------------------------------------------------------------------------


def _pod_difference(
    a: Eviction | None, b: Eviction | None, number: int, stays: str
) -> PodDifference | None:
    """Return how the eviction differs; None when it is the same."""
    either = a if a is not None else b
    assert either is not None, "one of both predicts the eviction"
    side_a, side_b = (None if side is None else _side(side) for side in (a, b))
    change, certainty = NEW if a is None else GONE, ""
    also: tuple[str, ...] = ()
    shifts: tuple[float | None, float | None] = (None, None)
    if side_a is not None and side_b is not None:
        shifts = _shifts(side_a, side_b)
        also = tuple(name for name in _ASIDE if getattr(side_a, name) != getattr(side_b, name))
        change, stays = _change(*_shifts(side_a, side_b)), ""
        if change == OTHERWISE and not also:
            return None
        if "certainty" in also:
            certainty = BECAME_CERTAIN if side_b.certainty == CERTAIN else BECAME_POSSIBLE
    return PodDifference(
        namespace=either.namespace,
        pod=either.pod,
        owner=either.owner,
        deletion=number,
        change=change,
        certainty=certainty,
        earliest_shift_seconds=shifts[0],
        latest_shift_seconds=shifts[1],
        also=also,
        stays_because=stays,
        a=side_a,
        b=side_b,
    )


def _side(eviction: Eviction) -> EvictionSide:
    taint, toleration = eviction.taint, eviction.toleration
    limit = toleration.toleration_seconds if toleration is not None else None
    tolerated = "none" if toleration is None else "forever" if limit is None else f"{limit}s"
    return EvictionSide(
        node=eviction.node,
        certainty=eviction.certainty,
        earliest_seconds=round(eviction.earliest_seconds, 3),
        latest_seconds=round(eviction.latest_seconds, 3),
        controller=eviction.controller,
        taint=f"{taint.key}:{taint.effect}" if taint is not None else "",
        toleration=tolerated,
        toleration_seconds=limit,
        stuck=eviction.gone.stuck,
    )


def _shifts(a: EvictionSide, b: EvictionSide) -> tuple[float, float]:
    return (
        round(b.earliest_seconds - a.earliest_seconds, 3),
        round(b.latest_seconds - a.latest_seconds, 3),
    )


def _change(earliest: float, latest: float) -> str:
    """Return in which way a window moved, by how much later each of its ends is."""
    if earliest == latest == 0:
        return OTHERWISE
    if earliest <= 0 and latest <= 0:
        return EARLIER
    if earliest >= 0 and latest >= 0:
        return LATER
    return WIDER if earliest < 0 else NARROWER


# -- drains -------------------------------------------------------------------------------------------


def _drain_differences(
    a: Sequence[DrainReport], b: Sequence[DrainReport]
) -> Iterator[DrainDifference]:
    in_a, in_b = _by_node(a), _by_node(b)
    for node in sorted(in_a.keys() | in_b.keys()):
        pairs = zip_longest(in_a.get(node, ()), in_b.get(node, ()))
        for number, (first, second) in enumerate(pairs, 1):
            sides = [None if side is None else _drain_side(side) for side in (first, second)]
            if not _ends_alike(*sides):
                yield DrainDifference(node, number, sides[0], sides[1])


def _ends_alike(a: DrainSide | None, b: DrainSide | None) -> bool:
    if a is None or b is None:
        return a is b
    return (
        (a.exit_code, a.end_reason) == (b.exit_code, b.end_reason)
        and _is_near(a.end_earliest_seconds, b.end_earliest_seconds)
        and _is_near(a.end_latest_seconds, b.end_latest_seconds)
    )


def _is_near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < _END_SECONDS


def _by_node(drains: Iterable[DrainReport]) -> dict[str, list[DrainReport]]:
    found: dict[str, list[DrainReport]] = {}
    for drain in drains:
        found.setdefault(drain.node, []).append(drain)
    return found


def _drain_side(drain: DrainReport) -> DrainSide:
    return DrainSide(
        milliseconds(drain.end_earliest_seconds),
        milliseconds(drain.end_latest_seconds),
        drain.exit_code,
        drain.end_reason,
    )


# -- inputs and warnings ------------------------------------------------------------------------------


def _input_differences(a: Inputs, b: Inputs) -> Iterator[InputDifference]:
    """Yield the inputs with another value, those that decide most first; sources alone are no difference."""
    in_a, in_b = _named_inputs(a), _named_inputs(b)
    for name in dict.fromkeys((*in_a, *in_b)):
        one, other = in_a.get(name), in_b.get(name)
        if one is None or other is None or one.value != other.value:
            yield InputDifference(name, one, other)


def _assumed_differences(a: Impact | None, b: Impact | None) -> Iterator[InputDifference]:
    """Yield the time that replacements take, where both have an impact and it is another, for any workload of both."""
    if a is None or b is None:
        return
    one, other = (_assumed(side) for side in (a, b))
    if one == other:
        known = {(w.namespace, w.workload): w.ready_after for w in b.workloads}
        for workload in a.workloads:
            after = known.get((workload.namespace, workload.workload))
            if after is not None and _took(after) != _took(workload.ready_after):
                one, other = _took(workload.ready_after), _took(after)
                break
    if one != other:
        yield InputDifference("--assume-ready", one, other)


def _assumed(impact: Impact) -> Sourced | None:
    """Return that time; None where it was learnt, or nobody needs it."""
    took = (_took(w.ready_after) for w in impact.workloads if w.ready_after.source != "learnt")
    return next(took, None)


def _took(after: ReadyAfter) -> Sourced:
    most = "perhaps never" if after.most_seconds is None else f"{after.most_seconds:g}s"
    least = f"{after.least_seconds:g}s"
    return Sourced(least if least == most else f"{least} to {most}", after.source)


def _named_inputs(inputs: Inputs) -> Mapping[str, Sourced]:
    read = "read"
    return {
        "Kubernetes": inputs.release,
        **{f"--{name}": value for name, value in sorted(inputs.flags.items())},
        **{
            f"kube-apiserver --{name}": value
            for name, value in sorted(inputs.api_server_flags.items())
        },
        "events": Sourced(_events(inputs.events), "given"),
        "monitor phase": inputs.monitor_phase,
        # Where it is not given it follows from what happens, and is no input.
        **({"horizon": inputs.horizon} if inputs.horizon.source == "given" else {}),
        "provider": inputs.provider,
        "leader since": inputs.leader_since,
        "start": inputs.start,
        "nodes": Sourced(inputs.nodes, read),
        "pods": Sourced(inputs.pods, read),
        "namespaces": Sourced(inputs.namespaces, read),
        "digest of the cluster": Sourced(inputs.source_digest, read),
        "made by": Sourced(f"kubectl-evictplan {inputs.tool_version}", "written in the file"),
    }


def _events(events: Sequence[EventSummary]) -> str:
    return "; ".join(
        " ".join(
            filter(
                None,
                (f"+{event.at_seconds:g}s", event.action, *event.nodes, *event.pods, event.detail),
            )
        )
        for event in events
    )


def _findings_only(these: Impact | None, others: Impact | None) -> tuple[FindingDifference, ...]:
    """Return what the others do not find, code by code the objects that they do not find it of."""
    if these is None or others is None:
        return ()
    known = {(finding.code, one) for finding in others.findings for one in finding.objects}
    found: dict[tuple[str, str], dict[str, None]] = {}
    for finding in these.findings:
        new = [one for one in finding.objects if (finding.code, one) not in known]
        if new:
            found.setdefault((finding.code, finding.severity), {}).update(dict.fromkeys(new))
    return tuple(FindingDifference(*key, tuple(objects)) for key, objects in found.items())


def _only(these: Sequence[Warning], others: Sequence[Warning]) -> tuple[Warning, ...]:
    """Return the warnings whose code and message the others do not have."""
    known = {(warning.code, warning.message) for warning in others}
    return tuple(warning for warning in these if (warning.code, warning.message) not in known)
