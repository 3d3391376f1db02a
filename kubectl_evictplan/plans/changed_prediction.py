"""Where a fresh prediction of a plan's scenario says something else than the plan's own; pure.

An eviction is the same while its window stays in the plan's, counted from the first mutation; or, when something else
than the plan causes it, by the clock. A second of tolerance is for what nobody controls. Windows of drains are drawn,
so they may differ by a quarter of their width; those of the node lifecycle controller by the monitor's period, which
may be visible in one of two states only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from kubectl_evictplan.cluster.timeline import EVICTION_API
from kubectl_evictplan.kube.durations import SECOND_NS, parse_duration_ns
from kubectl_evictplan.kube.taints import CONTROLLERS_PREFIX
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import Plan
from kubectl_evictplan.prediction.document import DrainReport, Eviction, Prediction

TOLERANCE_SECONDS = 1.0
_DRAWN = 0.25
Key = tuple[str, str, str, str]


def changed_predictions(
    plan: Plan, fresh: Prediction, present: Collection[tuple[str, str]]
) -> Iterator[Difference]:
    """Yield every eviction and every drained node of the plan's nodes of which something else is predicted.

    ``present``: (key, uid) of the pods that are there now and not being deleted. Pods that came or went are told
    elsewhere (``drift``).
    """
    nodes = {node.name for node in plan.nodes}
    pods = {pod.key: pod.uid for pod in plan.pods}
    then, now = _rows(plan.prediction), _rows(fresh)
    later = _seconds_later(plan.prediction, fresh)
    kept = {row.key: row.reason for row in fresh.kept}
    for key, before in then.items():
        if before[0].node not in nodes:
            continue
        after = now.get(key, [])
        pod = before[0].key
        if not after and (pod, before[0].uid) in present:
            yield _difference(before[0], "stays", kept.get(pod, "nothing evicts it any more"))
        elif after:
            yield from _moved(plan, before, after, later)
    for key, after in now.items():
        row = after[0]
        if row.node in nodes and key not in then and pods.get(row.key) == row.uid:
            about, why = f"pod {row.key}", f"evicted by {row.controller}, which nobody reviewed"
            yield Difference("prediction", about, "not evicted so", _when(row), why)
    yield from _elsewhere(plan, fresh, nodes)
    yield from _drains(plan.prediction, fresh)


def _rows(prediction: Prediction) -> dict[Key, list[Eviction]]:
    found: dict[Key, list[Eviction]] = {}
    for row in prediction.evictions:
        found.setdefault((row.namespace, row.pod, row.uid, row.controller), []).append(row)
    return found


def _seconds_later(then: Prediction, now: Prediction) -> float:
    first, second = (parse_rfc3339_ns(one.inputs.start.value) or 0 for one in (then, now))
    return (second - first) / SECOND_NS


def _moved(
    plan: Plan, before: list[Eviction], after: list[Eviction], later: float
) -> Iterator[Difference]:
    if len(before) != len(after):
        why = f"it is evicted {len(after)} times instead of {len(before)}"
        yield _difference(before[0], _when(after[0]), why)
        return
    for old, new in zip(before, after, strict=True):
        tolerance = _tolerance_seconds(plan.prediction, old)
        if old.certainty != new.certainty:
            yield _difference(old, new.certainty, f"it was {old.certainty}")
        elif not any(_within(old, new, shift, tolerance) for shift in (0.0, later)):
            yield _difference(old, _when(new), "it goes at another time than was reviewed")


def _within(old: Eviction, new: Eviction, shift: float, tolerance: float) -> bool:
    earliest, latest = new.earliest_seconds + shift, new.latest_seconds + shift
    return earliest >= old.earliest_seconds - tolerance and latest <= old.latest_seconds + tolerance


def _tolerance_seconds(prediction: Prediction, row: Eviction) -> float:
    if row.controller == EVICTION_API:
        return TOLERANCE_SECONDS + _DRAWN * (row.latest_seconds - row.earliest_seconds)
    taint = row.taint
    if taint is not None and not taint.key.startswith(CONTROLLERS_PREFIX):
        return TOLERANCE_SECONDS
    period = prediction.inputs.flags.get("node-monitor-period")
    if period is None:
        return TOLERANCE_SECONDS
    try:
        return TOLERANCE_SECONDS + parse_duration_ns(str(period.value)) / SECOND_NS
    except ValueError:
        return TOLERANCE_SECONDS


def _difference(row: Eviction, now: str, changes: str) -> Difference:
    return Difference("prediction", f"pod {row.key}", _when(row), now, changes)


def _when(row: Eviction) -> str:
    if row.earliest_seconds == row.latest_seconds:
        return f"evicted at +{row.earliest_seconds:g}s"
    return f"evicted from +{row.earliest_seconds:g}s to +{row.latest_seconds:g}s"


def _elsewhere(plan: Plan, fresh: Prediction, nodes: set[str]) -> Iterator[Difference]:
    """Yield other nodes of which more pods go than the plan says."""
    known = {(row.key, row.uid) for row in plan.prediction.evictions}
    more = Counter(
        row.node
        for row in fresh.evictions
        if row.node not in nodes and (row.key, row.uid) not in known
    )
    for node, number in sorted(more.items()):
        pods = f"{number} {'pod is' if number == 1 else 'pods are'} evicted there as well"
        why = "something else happens in the cluster at the same time"
        yield Difference("elsewhere", f"node {node}", "not so", pods, why, acceptable=True)


def _drains(then: Prediction, now: Prediction) -> Iterator[Difference]:
    fresh = {report.node: report for report in now.drains}
    for before in then.drains:
        after = fresh.get(before.node)
        if after is not None and _ending(before) != _ending(after):
            about = f"node {before.node}"
            why = "its drain ends otherwise"
            yield Difference("prediction", about, _ending(before), _ending(after), why)


def _ending(report: DrainReport) -> str:
    refusing = f", refused for {len(report.refused)} pods" if report.refused else ""
    failing = f", fails for {len(report.failed)} pods" if report.failed else ""
    return f"{report.end_reason or 'open'}{refusing}{failing}"
