"""Explore the admissible runs and gather, for everything that can happen, its windows.

The one hard thing of this program. Three steps:

1. Node runs (``unknowns/``, ``node_runs``): health, zones, limiters and decisions at both ends of every piece
   between critical phases of the monitor. No pods, and nobody is served.
2. Lines (``piece_runs``): for each zone of a piece, when its waiting nodes can be served.
3. Pods (``pod_fates``): what follows for the pods of each node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import POD_GC, AboutPod, Timeline, ZoneStateChanged
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import MINUTE_NS
from kubectl_evictplan.kube.objects import NO_SCHEDULE, ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import UNREACHABLE, no_execute_taints
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.scenarios.actions.nodes import deleted_nodes
from kubectl_evictplan.scenarios.outages import returns_within
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.alike_nodes import AlikeNodes
from kubectl_evictplan.windows.budget import UNITS, Budget, node_runs_max, spread
from kubectl_evictplan.windows.clients import late_requests
from kubectl_evictplan.windows.line_replays import Replays
from kubectl_evictplan.windows.node_runs import NodeRun, NodeRunner
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    Exploration,
    NodeChangeKey,
    WindowOverRuns,
    WindowTable,
    ZoneStateKey,
    follows_ticks,
)
from kubectl_evictplan.windows.outer_bounds import OuterBounds
from kubectl_evictplan.windows.piece_runs import AtStart, PieceRun, run_piece
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.pod_fates import PodFates
from kubectl_evictplan.windows.pod_worlds import (
    nodes_apart,
    nodes_of_touched_pods,
)
from kubectl_evictplan.windows.spent_tokens import (
    may_be_passed_over,
    may_hold_orphaned_entries,
)
from kubectl_evictplan.windows.unknowns.last_heartbeats import LastHeartbeats
from kubectl_evictplan.windows.unknowns.lines import written_late_ns
from kubectl_evictplan.windows.unknowns.of_node_runs import pieces
from kubectl_evictplan.windows.unknowns.tick_meetings import TickMeetings, monitor_cost_max_ns
from kubectl_evictplan.windows.unknowns.token_at_start import TokenAtStart

if TYPE_CHECKING:
    from kubectl_evictplan.windows.wide_bounds import WideBounds

# (what is done, how many of it so far, how many in all)
Progress = Callable[[str, int, int], None]

# What takes more pieces is taken apart by zones, where that can be.
_PIECES_TOGETHER = 64
# Where half of what lines may take lasts for fewer of the pieces, all of it does not last for all of them.
_DONE_WITH_HALF = 0.3
# Runs go on for so long after the horizon: a window that the horizon cuts is known to its end.
_BEYOND_HORIZON_NS = 2 * MINUTE_NS


def explore(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    nominal: Timeline,
    progress: Progress | None = None,
    *,
    limited: bool = True,
    sent: int = 0,
) -> Exploration:
    """Windows over all admissible runs. ``nominal`` is the run that is reported as *the* timeline.

    ``limited``: they span what the controllers' own clients let wait; ``sent``: so many pods come to nodes from drains, perhaps.
    """
    given, runs_max = (snapshot, scenario, configuration), runs_planned(nominal, snapshot)
    return explore_planned(*given, runs_max, progress, sent, limited=limited)


def runs_planned(nominal: Timeline, snapshot: ClusterSnapshot) -> int:
    """How many node runs are planned at most, which follows from what one of them costs."""
    numbers = Counter(map(type, nominal.entries))
    entries = sum(number for kind, number in numbers.items() if not issubclass(kind, AboutPod))
    return node_runs_max(entries, len(snapshot.nodes))


def explore_planned(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    runs_max: int,
    progress: Progress | None = None,
    sent: int = 0,
    *,
    limited: bool = True,
) -> Exploration:
    """``explore`` where it is known how many node runs are planned at most."""
    given = Given(snapshot, scenario, configuration)
    result = _without_client_limits(given, runs_max, progress)
    late_requests.let_clients_wait(result, given, sent, limited=limited)
    return result


def _without_client_limits(given: Given, runs_max: int, progress: Progress | None) -> Exploration:
    """Every client of the controllers lets through at once whatever is asked of it."""
    snapshot, scenario, configuration = given
    horizon_ns = scenario.end_ns
    if scenario.horizon_ns is not None:
        scenario = replace(scenario, horizon_ns=horizon_ns + _BEYOND_HORIZON_NS)
        given = Given(snapshot, scenario, configuration)
    alike = AlikeNodes(snapshot, configuration)
    plan = pieces(*given, runs_max, alike)
    budget = Budget(UNITS)
    if len(plan) > _PIECES_TOGETHER or any(piece.missed for piece in plan):
        from kubectl_evictplan.windows import zones_apart  # rarely needed

        parts, found = zones_apart.parts(*given), []
        for number, part in enumerate(parts):
            given = Given(part.snapshot, part.scenario, configuration)
            own = AlikeNodes(part.snapshot, configuration)
            plan = pieces(*given, runs_max, own)
            share = budget.part(len(parts) - number)
            explored = _explored(given, plan, own, horizon_ns, share, progress)
            found.append((part, explored))
        if found:
            return zones_apart.put_together(found)
    return _explored(given, plan, alike, horizon_ns, budget, progress)


def _explored(
    given: Given,
    plan: Sequence[Piece],
    alike: AlikeNodes,
    horizon_ns: int,
    budget: Budget,
    progress: Progress | None,
) -> Exploration:
    """Steps 2 and 3, for the pieces of the ``plan``; ``horizon_ns`` is the user's, the scenario goes on for longer."""
    snapshot, scenario, configuration = given
    result = Exploration()
    result.may_pass_over = may_be_passed_over(*given)
    if may_hold_orphaned_entries(*given):
        result.eaten_at_qps = configuration.node_eviction_rate_qps
    result.runs = 2 * len(plan)
    unsure = {zone for piece in plan for zone, _ in piece.zone_states}
    result.unsure_at_start.update(map(zone_display_name, unsure))
    result.padding_ns = max(piece.left_out_ns for piece in plan)
    result.late_ns = result.ticks_late_ns = written_late_ns(configuration)
    starts_ns = tuple(event.at_ns for event in scenario.events if event.manager_up)
    runner = NodeRunner(snapshot, configuration, alike)
    runs = _explored_lines(plan, runner, snapshot, configuration, horizon_ns, budget, progress)
    ends = [(end, run.piece.left_out_ns) for run in runs for end in (run.first, run.last)]
    for node_run, padding_ns in ends:
        _note_zones(result, node_run, padding_ns, starts_ns)
    runs = [_note_waits(result, run) for run in runs]
    for zone, services in result.services.items():
        if not all(run.waiting.get(zone) for run in runs):
            services.append(())  # in some pieces nobody waits there
    wide = None
    if any(piece.missed for piece in plan):
        from kubectl_evictplan.windows.sampled_plans import note_doubtful  # rarely needed
        from kubectl_evictplan.windows.wide_bounds import WideBounds

        wide = WideBounds.of(*given)
        note_doubtful(result, plan, scenario, wide.rates)
    _note_nodes(result, ends, starts_ns)
    _hear_late(result, scenario)
    _find_affected(result.affected, snapshot, scenario, runs)
    slow = set(TickMeetings(snapshot, configuration).renewing_too_slowly(scenario))
    result.affected.update(slow)
    bounds = OuterBounds(*given)
    _widen(result, bounds, runs)
    fates = PodFates(*given, horizon_ns, result, bounds)
    # What costs little comes first, and leaves the rest to what costs more.
    worlds = sorted(nodes_apart(result.affected, snapshot, scenario), key=partial(_waits_in, runs))
    of_pods = budget.part(1)
    for number, names in enumerate(worlds):
        fates.explore(names, runs, of_pods.part(len(worlds) - number))
    for (
        name
    ) in slow:  # perhaps no run gave it up, for renewals of those that stay up are not varied
        result.sampled.setdefault(name, frozenset((LastHeartbeats.name,)))
    _bound_samples(result, given, horizon_ns, wide)
    _bound_what_no_run_shows(result, given, fates.orphans(), horizon_ns)
    for table in (result.nodes, result.zones, result.cancels):
        table.drop_after(horizon_ns)
    return result


def _bound_samples(
    result: Exploration, given: Given, horizon_ns: int, wide: WideBounds | None
) -> None:
    """What rests on runs that do not stand for all: within bounds, and where there are none as one stretch.

    ``wide``: these bounds, where they are known already.
    """
    snapshot, _, configuration = given
    sampled = bool(result.sampled or result.missed) or any(
        map(_is_explored, result.nodes.windows.values())
    )
    if sampled:
        from kubectl_evictplan.windows import wide_bounds  # rarely needed

        if wide is None:
            wide = wide_bounds.WideBounds.of(*given)
        wide_bounds.bound_samples(result, snapshot, wide, horizon_ns)
    if sampled or any(map(_is_explored, result.zones.windows.values())):
        from kubectl_evictplan.windows.explored import join_samples  # rarely needed

        period_ns = configuration.node_monitor_period_ns
        ticks = configuration.node_monitor_grace_period_ns // period_ns + 2
        join_samples(result, period_ns, horizon_ns, ticks * monitor_cost_max_ns(snapshot))


def _bound_what_no_run_shows(
    result: Exploration, given: Given, orphans: Sequence[Pod], horizon_ns: int
) -> None:
    """What depends on a past that leaves no trace in the snapshot; ``orphans`` are pods of nodes that it does not hold."""
    snapshot, scenario, configuration = given
    terminating = any(pod.deletion_timestamp_ns is not None for pod in snapshot.pods)
    if terminating:
        from kubectl_evictplan.windows.deleted_again import bound_deleted_again  # rarely needed

        bound_deleted_again(result, given, horizon_ns)
    if terminating or any(event.pods for event in scenario.events):
        from kubectl_evictplan.windows.unsure_ends import doubt_countdowns  # rarely needed

        doubt_countdowns(result, snapshot, scenario)
    pods = orphans if configuration.profile.cancel_on_infinite else snapshot.pods
    if pods:
        # Few releases, and rarely needed.
        from kubectl_evictplan.windows.older_countdowns import bound_older_countdowns

        bound_older_countdowns(result, pods, given, horizon_ns)
    collected = [
        key for key, row in result.evictions.items() if key.controller == POD_GC and row.certain
    ]
    if collected:
        from kubectl_evictplan.windows.unsure_ends import doubt_garbage_collection  # rarely needed

        doubt_garbage_collection(result, collected, snapshot, scenario)
    if configuration.pod_gc_enabled and deleted_nodes(scenario.events):
        from kubectl_evictplan.windows.unsure_ends import bound_untold_ends  # rarely needed

        bound_untold_ends(result, given, horizon_ns)


def _explored_lines(
    plan: Sequence[Piece],
    runner: NodeRunner,
    snapshot: ClusterSnapshot,
    configuration: ControllerConfiguration,
    horizon_ns: int,
    budget: Budget,
    progress: Progress | None,
) -> list[PieceRun]:
    """Every piece with its node runs and the waits of all nodes, for about half of the budget, and what pods may do without."""
    at_start = AtStart.of(snapshot, plan[0].scenario.start_ns, configuration)
    of_lines = budget.part(2)
    replays = Replays(of_lines, horizon_ns)
    found, cut_short = dict[int, PieceRun](), list[int]()
    # What is not explored wholly anywhere is bounded everywhere: the sooner that is found out the better.
    half, is_hopeless = of_lines.left // 2, False
    for number, place in enumerate(spread(range(len(plan)))):
        piece = plan[place]
        ends = runner.run(piece), runner.run(piece, last=True)
        is_hopeless |= of_lines.left < half and number < len(plan) * _DONE_WITH_HALF
        share = of_lines.nothing() if is_hopeless else of_lines.part(len(plan) - number)
        replays.budget, replays.cut_short = share, False
        found[place] = run_piece(piece, *ends, configuration, at_start, replays)
        if replays.cut_short:
            cut_short.append(place)
        if progress is not None:
            progress("exploring timings", number + 1, len(plan))
    runs = [found[place] for place in range(len(plan))]
    if is_hopeless:
        return runs
    # One line that is not wholly explored leaves all of its zone to bounds: it gets what the others did not need.
    of_lines = budget.part(2)
    for place in cut_short:
        replays.budget = of_lines.part(1)
        run = runs[place]
        ends = run.first, run.last
        runs[place] = run_piece(run.piece, *ends, configuration, at_start, replays)
    return runs


def _waits_in(runs: Sequence[PieceRun], names: frozenset[str]) -> int:
    """How often nodes wait, over all runs: the more waits, the more histories."""
    return sum(len(run.waits.get(name, ())) for run in runs for name in names)


def _is_explored(window: WindowOverRuns) -> bool:
    return window.explored


# What the tick does that finds a node silent.
_WITH_SILENCE = ((READY, "Unknown"), (TAINT_ADDED, f"{UNREACHABLE}:{NO_SCHEDULE}"))


def _widen(result: Exploration, bounds: OuterBounds, runs: list[PieceRun]) -> None:
    """Where not everything was explored: to what is proven of nodes, zones and lines; the rest is not certain."""
    every_piece = not any(run.piece.missed for run in runs)
    if every_piece and not any(run.missed_of(run.waits) for run in runs):
        return
    for zone, waiting in result.waiting.items():
        latest_ns = bounds.zones[zone].latest_ns if zone in bounds.zones else ()
        result.services[zone] += [(0,) * len(waiting), latest_ns]
    if every_piece:
        return
    for (key, _), window in result.nodes.windows.items():
        proven = bounds.nodes.get(key.node)
        if proven is not None and (key.what, key.value) in _WITH_SILENCE:
            window.earliest_ns, window.latest_ns = proven.unknown
        elif follows_ticks(key):
            window.explored = window.unsure = True
    ends = {zone_display_name(zone): end for zone, end in bounds.zones.items()}
    for (state, _), window in result.zones.windows.items():
        end = ends.get(state.zone)
        if end is not None:
            window.earliest_ns = min(window.earliest_ns, end.changes_ns[0])
            window.latest_ns = max(window.latest_ns, end.changes_ns[1])
        window.explored = end is None
        window.unsure = window.unsure or end is None or end.state != state.state


def _note_waits(result: Exploration, run: PieceRun) -> PieceRun:
    """Note who waits in the piece; nobody is certain to be served where lines may pass nodes over."""
    if result.may_pass_over:
        # Whom a line passes over costs no token, or another one: that moves what a change of the limiter finds.
        changes = any(
            x.limiter_changes for end in (run.first, run.last) for x in end.lines.values()
        )
        missed = frozenset((TokenAtStart.name,) if changes else ())
        waits = run.waits
        if result.eaten_at_qps is not None:
            from kubectl_evictplan.windows.entries_in_line import eaten  # few releases

            waits = eaten(run, result.eaten_at_qps)
        # Alike nodes share one list, and go on to.
        alike = {id(windows): windows for windows in waits.values()}
        unsure = {
            one: [replace(w, certain=False, missed=w.missed | missed) for w in windows]
            for one, windows in alike.items()
        }
        waits = {name: unsure[id(windows)] for name, windows in waits.items()}
        nobody = {zone: {*services, ()} for zone, services in run.services.items()}
        run = replace(run, waits=waits, services=nobody)
    for zone, names in run.waiting.items():
        if names:
            result.waiting.setdefault(zone, set()).update(names)
            result.services.setdefault(zone, []).extend(run.services[zone])
            lines = [end.lines[zone] for end in (run.first, run.last) if zone in end.lines]
            more = len(names & frozenset[str]().union(*(x.tainted_without_token for x in lines)))
            if more:
                # Nobody has to serve them: they may be tainted beside all that tokens taint.
                of_all = ((0,) * more + services for services in run.services[zone])
                result.services[zone] += [services[: len(names)] for services in of_all]
    return run


def _note_nodes(
    result: Exploration, runs: list[tuple[NodeRun, int]], starts_ns: tuple[int, ...]
) -> None:
    """Note what changes about nodes, in runs that each have a padding: once for nodes that are alike in every run."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in dict.fromkeys(name for run, _ in runs for name in run.nodes):
        # Nodes that are alike in a run share their record.
        course = tuple([id(run.nodes.get(name)) for run, _ in runs])
        alike.setdefault(course, []).append(name)
    for names in alike.values():
        first: WindowTable[NodeChangeKey] = WindowTable()
        for run, padding_ns in runs:
            record = run.record(names[0])
            ready = ((NodeChangeKey("", READY, status), at_ns) for at_ns, status in record.ready)
            first.add_sequence(ready, padding_ns, starts_ns)
            changes = ((NodeChangeKey("", *change), at_ns) for *change, at_ns in record.changes)
            first.add_sequence(changes, padding_ns, starts_ns)
        for (key, ordinal), window in first.windows.items():
            for name in names:
                nth = NodeChangeKey(name, key.what, key.value), ordinal
                result.nodes.windows[nth] = window.copied()


def _hear_late(result: Exploration, scenario: Scenario) -> None:
    """Kubelets that are heard after an outage need not be so at its end, also where that decides nothing else."""
    late = returns_within(scenario.events)
    if late is None:
        return
    names = {
        name
        for event in scenario.events
        if event.kubelets_up and late[0] <= event.at_ns <= late[1]
        for name in event.nodes
    }
    for (key, _), window in result.nodes.windows.items():
        # What was not wholly explored may be told from before its instant on.
        met = window.earliest_ns <= late[1] and late[0] <= window.latest_ns
        if key.node in names and key.what == READY and met:
            window.latest_ns = max(window.latest_ns, late[1])


def _note_zones(
    result: Exploration, run: NodeRun, padding_ns: int, starts_ns: tuple[int, ...]
) -> None:
    states = []
    for entry in run.timeline.entries:
        if isinstance(entry, ZoneStateChanged):
            state = ZoneStateKey(entry.zone, entry.state)
            states.append((state, entry.at_ns))
            result.zone_samples.setdefault(state, entry)
    result.zones.add_sequence(states, padding_ns, starts_ns)


def _find_affected(
    affected: set[str], snapshot: ClusterSnapshot, scenario: Scenario, runs: list[PieceRun]
) -> None:
    affected |= scenario.touched_nodes
    for run in runs:
        affected.update(run.first.nodes, run.last.nodes, run.waits)
    names = {node.name for node in snapshot.nodes}
    affected.update(node.name for node in snapshot.nodes if no_execute_taints(node.taints))
    affected.update({pod.node_name for pod in snapshot.pods} - names)
    affected.update(nodes_of_touched_pods(snapshot, scenario))
    affected.discard("")
