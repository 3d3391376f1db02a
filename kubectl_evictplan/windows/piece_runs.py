"""One piece of the exploration: its two node runs, and when each node can be served between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import Told
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import refill_ns
from kubectl_evictplan.controllers.node_lifecycle.node_health import UNKNOWN
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.windows.line_replays import Replays
from kubectl_evictplan.windows.line_windows import (
    Spread,
    WaitWindow,
    as_one_wait,
    merge_waits,
    wait_windows,
)
from kubectl_evictplan.windows.node_runs import NodeRun
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.spans import later_spans
from kubectl_evictplan.windows.spent_tokens import (
    EntriesLeft,
    limiters_may_be_stopped,
    stays_stopped,
    zones_without_token,
)
from kubectl_evictplan.windows.unknowns.lines import (
    PASS_LAG_MAX_NS,
    PassInsideTick,
    StaleView,
    instants,
    views,
    written_late_ns,
)
from kubectl_evictplan.windows.unknowns.token_at_start import (
    FirstToken,
    TokenAtStart,
    stopped_stretch,
    token_stretches,
)
from kubectl_evictplan.windows.zone_lines import LineRules, ZoneLine

Waits = dict[str, list[WaitWindow]]


class AtStart(msgspec.Struct, frozen=True):
    """What zones may have been through before the start."""

    # Zones that may have used their token just before it, and what may waste the next ones.
    without_token: Mapping[str, EntriesLeft]
    # Whether limiters may have been stopped, and stay so.
    may_be_stopped: bool

    @classmethod
    def of(
        cls, snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
    ) -> AtStart:
        """As far as the snapshot shows."""
        given = snapshot, start_ns, configuration
        return cls(zones_without_token(*given), limiters_may_be_stopped(*given))


class PieceRun(msgspec.Struct, frozen=True):
    """The node runs at the first and the last phase of a piece, and the waits of all nodes over it."""

    piece: Piece
    first: NodeRun
    last: NodeRun
    waits: Waits
    # By zone: who waits, and when nodes are served first, for every replay.
    waiting: dict[str, set[str]]
    services: dict[str, set[tuple[int, ...]]]

    def missed_of(self, names: Iterable[str]) -> set[str]:
        """Unknowns of the lines of these nodes that were not wholly explored."""
        waits = (wait for name in names for wait in self.waits.get(name, ()))
        return {unknown for wait in waits for unknown in wait.missed}


def course_over(runs: Iterable[PieceRun], name: str) -> tuple[int, ...]:
    """What all runs say of a node: equal for nodes that share their records and waits in each of them."""
    found: list[int] = []
    for run in runs:
        own = run.waits.get(name), run.first.nodes.get(name), run.last.nodes.get(name)
        found += map(id, own)
    return tuple(found)


def run_piece(
    piece: Piece,
    first: NodeRun,
    last: NodeRun,
    configuration: ControllerConfiguration,
    at_start: AtStart,
    known: Replays,
) -> PieceRun:
    """Find every node's waits, zone by zone, in the order of time."""
    waits: Waits = {}
    waiting: dict[str, set[str]] = {}
    services: dict[str, set[tuple[int, ...]]] = {}
    runs = (first,) if first is last else (first, last)
    gap_ns = gap_between_outcomes_ns(configuration)
    budget, zones = known.budget, sorted({*first.lines, *last.lines})
    for number, zone in enumerate(zones):
        known.budget = budget.part(len(zones) - number)
        lines = [(run, run.lines[zone]) for run in runs if zone in run.lines]
        served = services[zone] = set()
        left = at_start.without_token.get(zone)
        before = left, at_start.may_be_stopped
        found = _waits_by_view(piece, lines, configuration, served, known, before)
        waiting[zone] = {name for names in found for name in names}
        merged = merge_waits(found, gap_ns, known.horizon_ns)
        # Who had its taint before the start waits for nothing, but is in a line that is made anew.
        others = {name for run, line in lines for name in run.decided_again & line.group_of.keys()}
        for name, windows in (*merged.items(), *((each, []) for each in others - merged.keys())):
            if len(windows) > 1:
                windows = list(_without_news(name, windows, runs, gap_ns, known.horizon_ns))
            if name in waits:
                windows = [*waits[name], *windows]
            if any(name in run.decided_again for run, _ in lines):
                windows = [*windows, *_early_swaps(name, lines, configuration)]
            # Nodes that are alike share one list.
            if windows:
                waits[name] = windows
    for name, windows in waits.items():
        if len(windows) > 1:
            waits[name] = sorted(windows, key=lambda window: window.eligible_ns)
    if late_ns := written_late_ns(configuration):
        waits = _written_later(waits, runs, late_ns)
    found_out = PieceRun(piece, first, last, waits, waiting, services)
    if not known.cut_short:
        known.missed_of.update(name for name in waits if found_out.missed_of((name,)))
    return found_out


def _waits_by_view(
    piece: Piece,
    lines: list[tuple[NodeRun, ZoneLine]],
    configuration: ControllerConfiguration,
    services: set[tuple[int, ...]],
    known: Replays,
    before: tuple[EntriesLeft | None, bool],
) -> list[Waits]:
    """The waits of one zone for each way in which passes may see its nodes; few where bounds tell of them anyhow."""
    was_cut_short = known.cut_short
    is_sampled = bool(piece.missed) or _are_missed(lines, known)
    if is_sampled:
        known.budget = known.budget.nothing()
    found: list[Waits] = []
    rules = line_rules(lines[0][0], configuration)
    for view in views(rules, [line for _, line in lines], configuration):
        if found and known.budget.is_spent:
            kinds = (StaleView, view.stale_lister), (PassInsideTick, view.mid_tick_pass)
            found[0] = _missing(found[0], {kind.name for kind, differs in kinds if differs})
            known.cut_short = True
            continue
        given = piece, lines, configuration, view, services, known, before
        found.append(_waits_of(*given))
    if is_sampled:
        known.cut_short = was_cut_short
    return found


def _are_missed(lines: list[tuple[NodeRun, ZoneLine]], known: Replays) -> bool:
    """Whether bounds tell of whoever waits there, whatever is explored here: then few replays will do."""
    names = frozenset[str]().union(
        *(line.waiting | line.tainted_without_token for _, line in lines)
    )
    return bool(names) and names <= known.missed_of


def _missing(waits: Waits, unseen: Set[str]) -> Waits:
    """The waits, of which nobody looked what becomes of them by all of the ``unseen`` unknowns."""
    shared = {
        id(windows): [replace(window, missed=window.missed | unseen) for window in windows]
        for windows in waits.values()
    }
    return {name: shared[id(windows)] for name, windows in waits.items()}


def _written_later(waits: Waits, runs: Iterable[NodeRun], late_ns: int) -> Waits:
    """The waits, where taints of who is given up may be written so long after their tokens; nobody gets one who has left the line by then."""
    given_up = {
        (name, at_ns)
        for run in runs
        for name in waits.keys() & run.nodes.keys()
        for at_ns, status in run.nodes[name].ready
        if status == UNKNOWN
    }
    shared = {
        id(windows): [
            replace(one, spans=later_spans(one.spans, late_ns, one.useless_ns))
            if (name, one.eligible_ns) in given_up
            else one
            for one in windows
        ]
        # Who shares its waits with others has changed when they have.
        for name, windows in {id(each): (name, each) for name, each in waits.items()}.values()
    }
    return {name: shared[id(windows)] for name, windows in waits.items()}


def _early_swaps(
    name: str, lines: list[tuple[NodeRun, ZoneLine]], configuration: ControllerConfiguration
) -> Iterator[WaitWindow]:
    from kubectl_evictplan.windows import early_swaps  # most nodes change once

    period_ns, swaps = configuration.node_monitor_period_ns, []
    for run, line in lines:
        step_ns = period_ns + run.timing.monitor_cost_ns
        swaps.append(early_swaps.of_node(run.record(name), line.operations, step_ns))
    for first, last in zip(swaps[0], swaps[-1], strict=True):
        yield from early_swaps.as_waits(first, last)


def _without_news(
    name: str,
    windows: list[WaitWindow],
    runs: tuple[NodeRun, ...],
    gap_ns: int,
    horizon_ns: int,
) -> Iterator[WaitWindow]:
    """A node's waits in a zone; those between which only a line is made anew are one: only its first taint matters."""
    together: list[WaitWindow] = []
    for window in sorted(windows, key=lambda each: each.eligible_ns):
        since_ns = together[-1].eligible_ns if together else window.eligible_ns
        if any(run.has_news_between(name, since_ns, window.eligible_ns) for run in runs):
            if together:
                yield as_one_wait(together, gap_ns, horizon_ns)
            together = []
        together.append(window)
    yield as_one_wait(together, gap_ns, horizon_ns)


def _waits_of(
    piece: Piece,
    lines: list[tuple[NodeRun, ZoneLine]],
    configuration: ControllerConfiguration,
    view: LineRules,
    services: set[tuple[int, ...]],
    known: Replays,
    before: tuple[EntriesLeft | None, bool],
) -> Waits:
    left, may_be_stopped = before
    found: list[Waits] = []
    end_ns, gap_ns = piece.scenario.end_ns, gap_between_outcomes_ns(configuration)
    base_ns = piece.spread_ns(configuration.node_monitor_period_ns, end_ns)
    own, rate_qps = [line for _, line in lines], configuration.node_eviction_rate_qps
    first = (
        None
        if left is None
        else [
            FirstToken.of(line, rate_qps, left, _first_tick_ns(run, configuration))
            for run, line in lines
        ]
    )
    stretches, are_all = token_stretches(own, first, seen_late=view.stale_lister)
    if may_be_stopped and any(_stays_stopped(line, configuration) for line in own):
        stretches = [*stretches, stopped_stretch(own)]
    for stretch in stretches:
        replayed = [
            (line, rules)
            for (run, line), token in zip(lines, stretch.of_lines, strict=True)
            for rules in instants(_seen_as(line_rules(run, configuration), view), token)
        ]
        if found and known.budget.is_spent:
            found[0] = _missing(found[0], {TokenAtStart.name})
            known.cut_short = True
            break
        width_ns = stretch.width_ns
        spread = Spread(base_ns + width_ns, PASS_LAG_MAX_NS, gap_ns, end_ns, token_ns=width_ns)
        found.append(wait_windows(replayed, spread, piece.left_out_ns, services, known))
    waits = merge_waits(found, gap_ns, known.horizon_ns)
    # What is left of nodes that are gone may stay in line for as long, and takes any of its tokens.
    eaten = left is not None and left.gone and any(map(_may_stand_still, own))
    if eaten or not are_all:
        return _missing(waits, {TokenAtStart.name})
    return waits


def _first_tick_ns(run: NodeRun, configuration: ControllerConfiguration) -> int:
    timing, period_ns = run.timing, configuration.node_monitor_period_ns
    return timing.ticks(timing.monitor_phase_ns, period_ns, warm=True).at_or_after(0)


def _stays_stopped(line: ZoneLine, configuration: ControllerConfiguration) -> bool:
    """Whether the line's limiter stays so where it was stopped before the start."""
    rate_qps = line.rate_at_start_qps(configuration.node_eviction_rate_qps)
    return line.ran_before_start and stays_stopped(rate_qps, configuration)


def _may_stand_still(line: ZoneLine) -> bool:
    """Whether the line's limiter changes, or refuses all."""
    return line.limiter_changes or any(
        each.told is Told.SWAP and each.qps <= 0 for each in line.told
    )


def _seen_as(rules: LineRules, view: LineRules) -> LineRules:
    return replace(rules, mid_tick_pass=view.mid_tick_pass, stale_lister=view.stale_lister)


def line_rules(run: NodeRun, configuration: ControllerConfiguration) -> LineRules:
    """The rules by which lines of the run are replayed, with a token at the start and without any lag."""
    ticks = run.timing
    return LineRules(
        profile=configuration.profile,
        taint_mode=configuration.taint_mode,
        rate_qps=configuration.node_eviction_rate_qps,
        end_ns=run.scenario.end_ns,
        period_ns=configuration.node_monitor_period_ns,
        # Of all that the run asked for, a replay asks for the ticks only.
        timing=Timing(
            monitor_phase_ns=ticks.monitor_phase_ns,
            monitor_cost_ns=ticks.monitor_cost_ns,
            monitor_courses=ticks.monitor_courses,
        ),
    )


def gap_between_outcomes_ns(configuration: ControllerConfiguration, *, alone: bool = False) -> int:
    """Spans closer than that are the places of one line, not outcomes of their own.

    ``alone``: of a node beside which nobody waits. What is apart there comes from different ticks.
    """
    period_ns = configuration.node_monitor_period_ns
    if alone:
        return period_ns // 2
    longest_ns = max(period_ns, refill_ns(configuration.node_eviction_rate_qps))
    return longest_ns + longest_ns // 5
