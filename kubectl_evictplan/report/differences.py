"""What differs between two predictions, in blocks: the verdict, changed inputs, changed evictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kubectl_evictplan.kube.durations import MILLISECOND_NS, format_duration
from kubectl_evictplan.prediction.difference_document import (
    DrainDifference,
    DrainSide,
    EvictionSide,
    ImpactDifference,
    PlanDifferences,
    PodDifference,
    PredictionDiff,
)
from kubectl_evictplan.prediction.differences import (
    BECAME_CERTAIN,
    BECAME_POSSIBLE,
    EARLIER,
    GONE,
    LATER,
    NARROWER,
    NEW,
    OTHERWISE,
    WIDER,
)
from kubectl_evictplan.prediction.document import CERTAIN, Sourced
from kubectl_evictplan.report import impact_sides, words
from kubectl_evictplan.report.blocks import (
    Block,
    Column,
    Figures,
    Finding,
    Findings,
    Phrase,
    Row,
    Table,
    Tone,
    Verdict,
    columns,
)

PODS_MAX = 40
_GROUPS_MAX = 40
_OBJECTS_MAX = 5
_TONES: dict[str, Tone] = {NEW: "certain", GONE: "good", EARLIER: "possible"}
# In the order in which they are told.
_CHANGES = (NEW, GONE, EARLIER, LATER, WIDER, NARROWER, OTHERWISE)
_ALSO = {
    "certainty": "certainty",
    "node": "its node",
    "controller": "who deletes it",
    "taint": "the taint",
    "toleration": "the toleration",
    "stuck": "whether it stays Terminating",
}


def difference_contents(diff: PredictionDiff, *, wide: bool) -> Iterator[Block]:
    """Yield the blocks of a comparison; ``wide`` tells every pod and every warning."""
    yield Verdict((*_plan_verdict(diff.plans), *_verdict(diff)))
    if diff.plans is not None:
        yield from _plan_blocks(diff.plans)
    rows = [*_input_rows(diff, wide=wide), *_toleration_rows(diff.pods)]
    if rows:
        yield Table(columns("INPUT", "A", "B"), rows, "What decided and is not the same")
    if diff.drains:
        yield _drain_table(diff)
    if diff.impacts:
        yield _impact_table(diff.impacts, wide=wide)
    if wide or len(diff.pods) <= PODS_MAX:
        if diff.pods:
            yield _pod_table(diff.pods)
    else:
        yield _group_table(diff.pods)
    yield from _findings(diff)
    if wide:
        for title, found in (
            ("Warnings of A only", diff.warnings_only_in_a),
            ("Warnings of B only", diff.warnings_only_in_b),
        ):
            if found:
                yield Findings(
                    title,
                    tuple(Finding(w.code, w.message, words.listed(w.objects, 3)) for w in found),
                )
    yield Figures("", tuple(_provenance(diff, wide=wide)))


def _plan_verdict(plans: PlanDifferences | None) -> Iterator[Phrase]:
    if plans is None:
        return
    if plans.same:
        yield Phrase("Both plans do the same, in the same way.", "good")
        return
    said = [words.count(len(plans.operations), "operation")] * bool(plans.operations)
    said += ["the way they are carried out"] * bool(plans.execution)
    said += ["what is lost for good"] * bool(plans.losses_only_in_a or plans.losses_only_in_b)
    asked = "what was asked" if plans.scenario else "the order of losses"
    what = words.listed(said, len(said)) if said else asked
    yield Phrase(f"The plans differ: {what}.", "loud")


def _plan_blocks(plans: PlanDifferences) -> Iterator[Block]:
    """Yield what two plans do not do alike, and what they were made from."""
    if plans.operations:
        rows = [
            (one.operation, _place(one.a, one.a_seconds), _place(one.b, one.b_seconds))
            for one in plans.operations
        ]
        yield Table(
            columns("OPERATION", "A", "B"), rows, "Done by one of them, or at another place"
        )
    lost = [(loss, "lost", words.NONE) for loss in plans.losses_only_in_a]
    lost += [(loss, words.NONE, "lost") for loss in plans.losses_only_in_b]
    if lost:
        yield Table(columns("LOSS", "A", "B"), lost, "Lost for good by one of them")
    for title, facts in (
        ("What was asked", plans.scenario),
        ("How they are carried out", plans.execution),
        ("Pods that are not the same", plans.pods),
        ("What they were made from", plans.basis),
    ):
        if facts:
            rows = [(one.name, one.a or words.NONE, one.b or words.NONE) for one in facts]
            yield Table(columns("FACT", "A", "B"), rows, title)


def _place(number: int | None, seconds: float | None) -> str:
    return words.NONE if number is None or seconds is None else f"{number}, {words.offset(seconds)}"


def _findings(diff: PredictionDiff) -> Iterator[Block]:
    """Yield what the impact of one of them finds alone, of which objects."""
    for title, found in (
        ("Findings of B only", diff.findings_only_in_b),
        ("Findings of A only", diff.findings_only_in_a),
    ):
        if found:
            yield Findings(
                title,
                tuple(
                    Finding(one.code, one.severity, words.listed(one.objects, _OBJECTS_MAX))
                    for one in found
                ),
            )


# -- the verdict --------------------------------------------------------------------------------------


def _verdict(diff: PredictionDiff) -> Iterator[Phrase]:
    counts, total = diff.counts, diff.counts.same + len(diff.pods)
    if diff.same:
        evictions = words.count(total, "eviction")
        text = f"A and B predict the same: {evictions} at the same times."
        yield Phrase(text if total else "A and B predict the same: no pod is evicted.", "good")
        return
    by_change: dict[str, list[PodDifference]] = {}
    for pod in diff.pods:
        by_change.setdefault(pod.change, []).append(pod)
    for change in _CHANGES:
        if pods := by_change.get(change):
            yield Phrase(f"{_told(change, pods)}.", _TONES.get(change, "plain"))
    if counts.became_certain:
        yield Phrase(f"{_became(counts.became_certain)} certain.", "certain")
    if counts.became_possible:
        yield Phrase(f"{_became(counts.became_possible)} possible only.", "possible")
    if diff.drains:
        nodes = {drain.node for drain in diff.drains}
        drains = words.count(len(nodes), "drain")
        yield Phrase(f"{drains} {words.verb(len(nodes), 'ends', 'end')} otherwise.", "possible")
    if diff.impacts:
        touched = len({(one.of, one.namespace, one.name) for one in diff.impacts})
        what = "service, workload or budget" if touched == 1 else "services, workloads and budgets"
        yield Phrase(f"What it costs differs for {touched} {what}.", "possible")
    if diff.findings_only_in_a or diff.findings_only_in_b:
        yield Phrase("What a reviewer must know is not the same.", "possible")
    if counts.same:
        are = words.verb(counts.same, "is", "are")
        yield Phrase(f"{words.count(counts.same, 'eviction')} {are} the same.", "good")


def _told(change: str, pods: Sequence[PodDifference]) -> str:
    """Return the sentence about all evictions that changed in one way."""
    number = words.count(len(pods), "eviction")
    if change == NEW:
        sure = sum(pod.b is not None and pod.b.certainty == CERTAIN for pod in pods)
        certain = "certain" if sure == len(pods) else f"{sure} of them certain"
        return f"{number} in B only, {certain}"
    if change == GONE:
        return f"{number} in A only{_why_gone(pods)}"
    if change in (EARLIER, LATER):
        come = words.verb(len(pods), "comes", "come")
        return f"{number} {come} {change} in B, {_by_how_much(pods)}"
    if change in (WIDER, NARROWER):
        return f"{number} in B within a {change} window"
    return f"{number} at the same times, but not alike: {_otherwise(pods)}"


def _became(number: int) -> str:
    return f"{words.count(number, 'eviction')} {words.verb(number, 'becomes', 'become')}"


def _why_gone(pods: Iterable[PodDifference]) -> str:
    """Return why B lets them stay, where it says so."""
    codes = Counter(pod.stays_because for pod in pods if pod.stays_because)
    if not codes:
        return ""
    told = [f"{number} {code}" for code, number in sorted(codes.items())]
    return f" ({', '.join(told)} in B)"


def _by_how_much(pods: Iterable[PodDifference]) -> str:
    """Return the least and the most that windows moved."""
    moved = [
        abs(shift)
        for pod in pods
        for shift in (pod.earliest_shift_seconds, pod.latest_shift_seconds)
        if shift
    ]
    least, most = _length(min(moved)), _length(max(moved))
    return f"by {least}" if least == most else f"by {least} to {most}"


def _otherwise(pods: Iterable[PodDifference]) -> str:
    counts = Counter(what for pod in pods for what in pod.also)
    return ", ".join(f"{number} in {_ALSO[what]}" for what, number in sorted(counts.items()))


# -- tables -------------------------------------------------------------------------------------------


def _input_rows(diff: PredictionDiff, *, wide: bool) -> Iterator[Row]:
    for found in diff.inputs:
        yield found.name, _input(found.a, wide=wide), _input(found.b, wide=wide)


def _input(value: Sourced | None, *, wide: bool) -> str:
    """Return a value with its source, and wide also what says so."""
    if value is None:
        return words.NONE
    return words.sourced_wholly(value) if wide else words.sourced(value)


def _toleration_rows(pods: Iterable[PodDifference]) -> Iterator[Row]:
    """Yield by how long the taint that decides is tolerated, where that changes."""
    changes = Counter(
        (pod.a.toleration, pod.b.toleration)
        for pod in pods
        if pod.a is not None and pod.b is not None and "toleration" in pod.also
    )
    for (one, other), number in sorted(changes.items()):
        yield f"toleration of {words.count(number, 'pod')}", one, other


def _drain_table(diff: PredictionDiff) -> Table:
    rows = [
        (words.name(drain.node), _drain_end(drain.a), _drain_end(drain.b), _drain_shift(drain))
        for drain in diff.drains
    ]
    return Table(columns("NODE", "A", "B", "BY"), rows, "Drains that end otherwise")


def _drain_shift(drain: DrainDifference) -> str:
    """Return by how much the end of a drain moved; ends that never come have no distance."""
    if drain.a is None or drain.b is None:
        return words.NONE
    return _moved(
        _less(drain.b.end_earliest_seconds, drain.a.end_earliest_seconds),
        _less(drain.b.end_latest_seconds, drain.a.end_latest_seconds),
    )


def _less(b: float | None, a: float | None) -> float | None:
    return None if a is None or b is None else round(b - a, 3)


def _impact_table(impacts: Sequence[ImpactDifference], *, wide: bool) -> Table:
    shown = impacts if wide else impacts[:PODS_MAX]
    rows: list[Row] = [
        (
            *(one.of, words.name(one.namespace) or words.NONE, words.name(one.name)),
            *(one.fact, one.change),
            *(impact_sides.told(side) for side in (one.a, one.b)),
        )
        for one in shown
    ]
    left = len(impacts) - len(shown)
    more = (f"And {left} more (-o wide).",) if left else ()
    heads = columns("WHAT", "NAMESPACE", "NAME", "FACT", "CHANGE", "A", "B")
    return Table(heads, rows, "What it costs is not the same", notes=more)


def _drain_end(side: DrainSide | None) -> str:
    if side is None:
        return words.NONE
    reason = side.end_reason or "depends"
    if side.end_earliest_seconds is None:
        return reason
    return f"{reason} {words.window(side.end_earliest_seconds, side.end_latest_seconds)}"


_POD_COLUMNS = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("CHANGE"),
    Column("A", 2),
    Column("B"),
    Column("BY"),
    Column("ALSO", 1),
)


def _pod_table(pods: Iterable[PodDifference]) -> Table:
    order = {change: at for at, change in enumerate(_CHANGES)}
    rows = [_pod_row(pod) for pod in sorted(pods, key=lambda pod: order[pod.change])]
    shown = len(_POD_COLUMNS) - all(row[-1] == words.NONE for row in rows)
    rows = [row[:shown] for row in rows]
    return Table(_POD_COLUMNS[:shown], rows, "Evictions that are not the same")


def _pod_row(pod: PodDifference) -> Row:
    again = f" ({pod.deletion}.)" if pod.deletion > 1 else ""
    return (
        words.name(pod.namespace),
        words.name(pod.pod) + again,
        Phrase(pod.change, _TONES.get(pod.change, "plain")),
        _when(pod.a, pod.stays_because),
        _when(pod.b, pod.stays_because),
        _shift(pod),
        _also(pod),
    )


def _when(side: EvictionSide | None, stays: str) -> str:
    if side is None:
        return f"stays ({words.name(stays)})" if stays else words.NONE
    possible = "" if side.certainty == CERTAIN else " possible"
    return words.window(side.earliest_seconds, side.latest_seconds) + possible


def _shift(pod: PodDifference) -> str:
    return _moved(pod.earliest_shift_seconds, pod.latest_shift_seconds)


def _moved(first: float | None, last: float | None) -> str:
    if first is None or last is None or first == last == 0:
        return words.NONE
    if first == last:
        return words.offset(first)
    return f"{words.offset(first)} / {words.offset(last)}"


def _also(pod: PodDifference) -> str:
    told = [pod.certainty] if pod.certainty else []
    for what in ("node", "controller", "taint", "toleration"):
        if what in pod.also and pod.a is not None and pod.b is not None:
            one, other = (getattr(side, what) or words.NONE for side in (pod.a, pod.b))
            told.append(f"{what} {words.name(one)} -> {words.name(other)}")
    if "stuck" in pod.also and pod.b is not None:
        told.append("stays Terminating" if pod.b.stuck else "does not stay Terminating")
    return "; ".join(told) or words.NONE


def _group_table(pods: Sequence[PodDifference]) -> Table:
    """Return one row per owner, those with most new and earlier evictions first."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for pod in pods:
        kinds = groups.setdefault((pod.namespace, pod.owner), Counter())
        kinds[pod.change] += 1
        kinds[pod.certainty] += 1
    total = Counter(kind for pod in pods for kind in (pod.change, pod.certainty))
    shown = [kind for kind in (*_CHANGES, BECAME_CERTAIN, BECAME_POSSIBLE) if total[kind]]
    order = sorted(groups, key=lambda key: (-groups[key][NEW], -groups[key].total(), key))
    rows = [
        (*map(words.name, key), *(str(groups[key][kind]) for kind in shown))
        for key in order[:_GROUPS_MAX]
    ]
    left = len(order) - len(rows)
    more = (f"And {left} more owners (-o wide names every pod).",) if left else ()
    return Table(
        columns("NAMESPACE", "OWNER", *(kind.upper() for kind in shown)),
        rows,
        "Evictions that are not the same, by owner",
        ("TOTAL", "", *(str(total[kind]) for kind in shown)),
        more,
    )


def _provenance(diff: PredictionDiff, *, wide: bool) -> Iterator[tuple[str, str]]:
    yield "A", diff.a
    yield "B", diff.b
    yield "Offsets", "count from each prediction's own start; BY is B less A"
    hidden = len(diff.warnings_only_in_a) + len(diff.warnings_only_in_b)
    if hidden and not wide:
        codes = sorted({w.code for w in (*diff.warnings_only_in_a, *diff.warnings_only_in_b)})
        yield "Warnings", f"of one of them only: {', '.join(codes)} (-o wide tells them)"


def _length(seconds: float) -> str:
    """Return a length of time, without a sign, as precise as windows are shown."""
    ms = round(seconds * 1000)
    step = 100 if ms >= 1000 else 1
    return format_duration(round(ms / step) * step * MILLISECOND_NS)
