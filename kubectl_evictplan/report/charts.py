"""The charts of a page: how many pods go when, who is ready, zones, nodes with their pods, and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubectl_evictplan.prediction.document import CERTAIN, Eviction, NodeReport, Prediction
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.impact_document import Impact, Step
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import (
    Band,
    Bands,
    Bar,
    BarGroup,
    Counts,
    Gantt,
    Point,
    Tone,
)
from kubectl_evictplan.report.gantt import drain_bars
from kubectl_evictplan.report.impact_tables import badness
from kubectl_evictplan.report.words import Clock

_POINTS_MAX = 300
_BARS_MAX = 150
_WORST_MAX = 6
# So that what comes last is seen to last.
_ROOM = 1.08
_SEEN = (
    "Ready is what the cluster believes: pods of a silent node count until it is given up. From when on nobody "
    "answers is in the table of Services."
)
_STATE_TONES: dict[str, Tone] = {
    "Normal": "good",
    "PartialDisruption": "possible",
    "FullDisruption": "loud",
    "Initial": "faint",
}


def charts(prediction: Prediction, clock: Clock) -> Iterator[Bands | Gantt | Counts]:
    """Yield the charts that have something to show."""
    end = _end(prediction)
    if drains := tuple(drain_bars(prediction)):
        groups = (BarGroup("Drains", drains),)
        yield Gantt(
            "Drains over time", groups, clock.start_time(), "What never ends goes on to the right."
        )
    if prediction.evictions:
        yield _gone(prediction.evictions, end)
    if prediction.impact is not None and (worst := _worst(prediction.impact, end)):
        yield worst
    if zones := _zones(prediction, end, clock):
        yield zones
    if nodes := _nodes(prediction, clock):
        yield nodes
    if outcomes := _outcomes(prediction):
        yield outcomes


def _end(prediction: Prediction) -> float:
    """Return where charts end that share their axis: a little after the last change that one of them shows."""
    found = [group.shared.latest_seconds for group in prediction.evictions.groups]
    found += [change.latest_seconds for node in prediction.nodes for change in node.changes]
    if (impact := prediction.impact) is not None:
        found += [step.at_seconds for one in impact.services for step in one.steps[-1:]]
        found += [step.at_seconds for one in impact.workloads for step in one.steps[-1:]]
    return max(found, default=0.0) * _ROOM or 1.0


class _Hit(NamedTuple):
    badness: tuple[float, float]
    rank: int
    kind: str
    name: str
    before: int
    steps: tuple[Step, ...]


# -- over time --------------------------------------------------------------------------------------


def _gone(evictions: Evictions, end: float) -> Bands:
    """Return how many pods are evicted by when: certainly, and at most."""
    most, least = Counter[float](), Counter[float]()
    for group in evictions.groups:
        shared, number = group.shared, len(group.pods)
        most[shared.earliest_seconds] += number
        if shared.certainty == CERTAIN:
            least[shared.latest_seconds] += number
    low = high = 0
    points = [Point(0.0, 0, 0)]
    for at in sorted(most.keys() | least.keys()):
        low, high = low + least[at], high + most[at]
        points.append(Point(at, low, high))
    name = f"of {len(evictions)}: at least and at most so many by then"
    return Bands("Evictions over time", "evictions", (Band(name, _thinned(points), end),))


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return at most so many points; what is joined keeps its outer bounds."""
    size = -(-len(points) // _POINTS_MAX)
    if size <= 1:
        return tuple(points)
    found = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        found.append(
            Point(group[0].at_seconds, min(p.least for p in group), max(p.most for p in group))
        )
    return (*found, points[-1])


def _hits(impact: Impact) -> list[_Hit]:
    """Return every Service and workload that changes, the worst first."""
    hit = [
        _Hit(
            badness(one.nobody_answers),
            0,
            "Service",
            f"{one.namespace}/{one.service}",
            one.endpoints_before,
            one.steps,
        )
        for one in impact.services
    ]
    for one in impact.workloads:
        kind, _, name = one.workload.partition("/")
        # Nobody scales a bare pod: Services and what has replicas come first.
        rank = 2 if kind == "Pod" else 1
        hit.append(
            _Hit(
                badness(one.zero),
                rank,
                kind,
                f"{one.namespace}/{name}",
                one.ready_before,
                one.steps,
            )
        )
    # A Service and the workload behind it often have one curve: it stands there once.
    curves: dict[tuple[str, tuple[Step, ...]], _Hit] = {}
    for found in sorted(
        (found for found in hit if found.steps),
        key=lambda found: (found.rank > 1, found.badness, found.rank, found.kind, found.name),
    ):
        curves.setdefault((found.name, found.steps), found)
    return list(curves.values())


def _worst(impact: Impact, end: float) -> Bands | None:
    """Return how many answer for the Services, else are ready of the workloads, that are hit worst."""
    hit = _hits(impact)
    bands = tuple(
        Band(
            f"{words.name(one.kind)} {words.name(one.name)} ({one.before} ready before)",
            _steps(one.steps, one.before),
            end,
        )
        for one in hit[:_WORST_MAX]
    )
    if not bands:
        return None
    more = len(hit) - len(bands)
    notes = [f"The {len(bands)} that are hit worst; {more} more are in the tables."] if more else []
    if any(one.undetected is not None for one in impact.services):
        notes.append(_SEEN)
    return Bands("Who is ready", "ready", bands, " ".join(notes))


def _steps(steps: Iterable[Step], before: int) -> tuple[Point, ...]:
    return _thinned(
        [Point(0.0, before, before), *(Point(s.at_seconds, s.least, s.most) for s in steps)]
    )


# -- bars -------------------------------------------------------------------------------------------


def _zones(prediction: Prediction, end: float, clock: Clock) -> Gantt | None:
    groups = []
    for zone in prediction.zones:
        bars = []
        at = [_nominal(state.offset_seconds, state.earliest_seconds) for state in zone.states]
        for number, state in enumerate(zone.states):
            until = at[number + 1] if number + 1 < len(at) else end
            rate = "unknown" if state.rate_per_second is None else f"{state.rate_per_second:.6g}"
            ready = f"{state.ready} of {state.ready + state.not_ready} nodes ready"
            since = words.window(state.earliest_seconds, state.latest_seconds)
            possible = "" if state.certainty == CERTAIN else " (possible)"
            bars.append(
                Bar(
                    f"{words.name(zone.zone)}: {words.name(state.state)}, {rate}/s",
                    at[number],
                    max(until, at[number]),
                    _STATE_TONES.get(state.state, "plain"),
                    f"since {since}{possible}, {ready}, {rate} nodes a second are tainted",
                )
            )
        groups.append(BarGroup(words.name(zone.zone), tuple(bars)))
    if not any(len(group.bars) > 1 for group in groups):
        # No zone changes its state: there is nothing to draw.
        return None
    note = "States and rates of tainting, in the run of the given (or first) monitor phase."
    return Gantt("Zones", tuple(groups[:_BARS_MAX]), clock.start_time(), note, legend=False)


def _nominal(offset: float | None, earliest: float) -> float:
    return earliest if offset is None else offset


def _nodes(prediction: Prediction, clock: Clock) -> Gantt | None:
    """Return each node's changes and its pods' evictions, as far as a page has room."""
    by_node = prediction.evictions.by_node()
    reports = {report.node: report for report in prediction.nodes}
    groups, room = [], _BARS_MAX
    for node in sorted({*by_node, *(n for n, r in reports.items() if r.changes)}):
        going = sorted(by_node.get(node, ()), key=lambda entry: (entry.earliest_seconds, entry.key))
        bars = list(_node_bars(reports.get(node), going))
        if len(bars) > room:
            break
        room -= len(bars)
        groups.append(BarGroup(words.name(node), tuple(bars)))
    if not groups:
        return None
    more = len({*by_node, *reports}) - len(groups)
    note = "A bar reaches from the earliest to the latest instant of what it names."
    if more > 0:
        note += f" {words.count(more, 'more node')} in the table of pods."
    return Gantt("Nodes and their pods", tuple(groups), clock.start_time(), note)


def _node_bars(report: NodeReport | None, evictions: Iterable[Eviction]) -> Iterator[Bar]:
    node = ""
    for change in report.changes if report is not None else ():
        assert report is not None
        node = words.name(report.node)
        if change.moves_pods:
            text = f"{node}: {words.name(change.what)} {words.name(change.value)}"
            tone: Tone = "plain" if change.certainty == CERTAIN else "possible"
            told = words.window(change.earliest_seconds, change.latest_seconds)
            yield Bar(text, change.earliest_seconds, change.latest_seconds, tone, told)
    for entry in evictions:
        sure: Tone = "certain" if entry.certainty == CERTAIN else "possible"
        tone = sure if entry.gone.stuck is None else "stuck"
        told = f"evicted {words.outcomes(entry.windows)}; gone {words.gone(entry.gone)}"
        pod = words.name(entry.key)
        yield Bar(pod, entry.earliest_seconds, entry.latest_seconds, tone, told)


def _outcomes(prediction: Prediction) -> Counts | None:
    evicted = prediction.evicted
    stuck = evicted.all_stuck
    stays = {entry.key for entry in prediction.kept} - evicted.every
    numbers: list[tuple[str, int, Tone]] = [
        ("evicted for certain", len(evicted.certain - stuck), "certain"),
        ("may be evicted", len(evicted.possible - stuck), "possible"),
        ("evicted, then stuck Terminating", len(stuck), "stuck"),
        ("stay", len(stays), "good"),
    ]
    found = tuple(number for number in numbers if number[1])
    return Counts("Pods by outcome", "pods", found) if found else None
