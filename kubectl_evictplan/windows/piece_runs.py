"""Both ends of a piece of phases, and when its nodes can be served in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.windows.line_replay import LineRules
from kubectl_evictplan.windows.line_windows import (
    Spread,
    WaitWindow,
    ZoneLine,
    merge_waits,
    wait_windows,
)
from kubectl_evictplan.windows.node_runs import NodeRun
from kubectl_evictplan.windows.timings import Piece

# A pass comes every 100 ms and costs about 1 ms on recorded control planes.
PASS_LAG_MAX_NS = 105 * MILLISECOND_NS

Waits = dict[str, list[WaitWindow]]


class PieceRun(NamedTuple):
    """The node runs at the first and the last phase of a piece, and the waits of all nodes over it."""

    piece: Piece
    first: NodeRun
    last: NodeRun
    waits: Waits
    # By zone: who waits, and when nodes are served first, for every replay.
    waiting: dict[str, set[str]]
    services: dict[str, set[tuple[int, ...]]]


def run_piece(
    piece: Piece, first: NodeRun, last: NodeRun, configuration: ControllerConfiguration
) -> PieceRun:
    """Find every node's waits, zone by zone, in the order of time."""
    waits: Waits = {}
    waiting: dict[str, set[str]] = {}
    services: dict[str, set[tuple[int, ...]]] = {}
    runs = (first,) if first is last else (first, last)
    for zone in sorted({*first.lines, *last.lines}):
        lines = [(run, run.lines[zone]) for run in runs if zone in run.lines]
        served = services[zone] = set()
        found = [
            _waits_of(piece, lines, configuration, race, served)
            for race in _races(lines, configuration)
        ]
        waiting[zone] = {name for names in found for name in names}
        for name, windows in merge_waits(found, gap_between_outcomes_ns(configuration)).items():
            waits.setdefault(name, []).extend(windows)
    for windows in waits.values():
        windows.sort(key=lambda window: window.eligible_ns)
    return PieceRun(piece, first, last, waits, waiting, services)


def _races(
    lines: list[tuple[NodeRun, ZoneLine]], configuration: ControllerConfiguration
) -> Iterator[tuple[bool, bool]]:
    """Whether a pass falls inside the tick that it meets, and sees a stale informer there."""
    current = configuration.taint_mode and configuration.profile.taint_on_current_condition
    inside = current or any(line.limiter_changes for _, line in lines)
    for stale_lister in (False, True) if current else (False,):
        for mid_tick_pass in (False, True) if inside else (False,):
            yield mid_tick_pass, stale_lister


def _waits_of(
    piece: Piece,
    lines: list[tuple[NodeRun, ZoneLine]],
    configuration: ControllerConfiguration,
    race: tuple[bool, bool],
    services: set[tuple[int, ...]],
) -> Waits:
    someone_waits = any(line.waits_at_start for _, line in lines)
    replayed = [
        (line, _rules(run, configuration, race)._replace(lag_ns=lag_ns, spent_at_start=spent))
        for run, line in lines
        for lag_ns in (0, PASS_LAG_MAX_NS)
        for spent in ((False, True) if someone_waits else (False,))
    ]
    end_ns = piece.scenario.end_ns
    base_ns = piece.spread_ns(configuration.node_monitor_period_ns, end_ns)
    if someone_waits:
        base_ns += _refill_ns(configuration.node_eviction_rate_qps)
    spread = Spread(base_ns, PASS_LAG_MAX_NS, gap_between_outcomes_ns(configuration), end_ns)
    return wait_windows(replayed, spread, piece.left_out_ns, services)


def _rules(
    run: NodeRun, configuration: ControllerConfiguration, race: tuple[bool, bool]
) -> LineRules:
    mid_tick_pass, stale_lister = race
    return LineRules(
        profile=configuration.profile,
        taint_mode=configuration.taint_mode,
        rate_qps=configuration.node_eviction_rate_qps,
        end_ns=run.scenario.end_ns,
        tick_phase_ns=run.timing.monitor_phase_ns,
        tick_step_ns=configuration.node_monitor_period_ns + run.timing.monitor_cost_ns,
        mid_tick_pass=mid_tick_pass,
        stale_lister=stale_lister,
    )


def _refill_ns(rate_qps: float) -> int:
    """How long a token takes; 0 when there is never another one."""
    return int(SECOND_NS / rate_qps) if rate_qps > 0 else 0


def gap_between_outcomes_ns(configuration: ControllerConfiguration) -> int:
    """Spans closer than that are the places of one line, not outcomes of their own."""
    longest_ns = max(
        configuration.node_monitor_period_ns, _refill_ns(configuration.node_eviction_rate_qps)
    )
    return longest_ns + longest_ns // 5
