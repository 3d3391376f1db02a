"""Explore the admissible runs and gather, for everything that can happen, its windows.

The one hard thing of this program. Three steps:

1. Node runs (``timings``, ``node_runs``): health, zones, limiters and decisions at both ends of every piece
   between critical phases of the monitor. No pods, and nobody is served.
2. Lines (``line_windows``): for each zone of a piece, when its waiting nodes can be served.
3. Pods (``pod_fates``): what follows for the pods of each node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    AboutPod,
    TaintAdded,
    TaintChanged,
    Timeline,
    ZoneStateChanged,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import MINUTE_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute, key_and_effect, no_execute_taints
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.windows.node_runs import NodeRun, NodeRunner
from kubectl_evictplan.windows.orphaned_entries import may_hold_orphaned_entries
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
    ZoneStateKey,
)
from kubectl_evictplan.windows.piece_runs import PieceRun, run_piece
from kubectl_evictplan.windows.pod_fates import PodFates
from kubectl_evictplan.windows.timings import Grid, Piece, pieces

Progress = Callable[[str, int, int], None]

# Entries of one node run that fit into the work budget of all of them.
_WORK_BUDGET_ENTRIES = 24_000
_RUNS_MIN, _RUNS_MAX = 8, 320
# Runs go on for so long after the horizon: a window that the horizon cuts is known to its end.
_BEYOND_HORIZON_NS = 2 * MINUTE_NS


def explore(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    nominal: Timeline,
    progress: Progress | None = None,
) -> Exploration:
    """Windows over all admissible runs. ``nominal`` is the run that is reported as *the* timeline."""
    return _Explorer(snapshot, scenario, configuration, nominal).explore(progress)


class _Explorer:
    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        nominal: Timeline,
    ) -> None:
        self.snapshot = snapshot
        horizon_ns = scenario.horizon_ns
        self.horizon_ns = HORIZON_DEFAULT_MAX_NS if horizon_ns is None else horizon_ns
        self.scenario = scenario
        if horizon_ns is not None:
            self.scenario = replace(scenario, horizon_ns=horizon_ns + _BEYOND_HORIZON_NS)
        self.configuration = configuration
        self.nominal = nominal
        self.runner = NodeRunner(snapshot, configuration)
        self.result = Exploration()

    def explore(self, progress: Progress | None) -> Exploration:
        plan = self._plan()
        self.result.orphaned_entries = may_hold_orphaned_entries(
            self.snapshot, self.scenario, self.configuration
        )
        self.result.runs = 2 * len(plan)
        self.result.padding_ns = max(piece.left_out_ns for piece in plan)
        runs = []
        for index, piece in enumerate(plan):
            runs.append(self._run(piece))
            if progress is not None:
                progress("exploring timings", index + 1, len(plan))
        self._find_affected(runs)
        fates = PodFates(
            self.snapshot, self.scenario, self.configuration, self.horizon_ns, self.result
        )
        for names in self._worlds():
            fates.explore(names, runs)
        for table in (self.result.nodes, self.result.zones, self.result.cancels):
            table.drop_after(self.horizon_ns)
        return self.result

    def _plan(self) -> list[Piece]:
        entries = sum(1 for entry in self.nominal.entries if not isinstance(entry, AboutPod))
        runs_max = max(_RUNS_MIN, min(_RUNS_MAX, _WORK_BUDGET_ENTRIES // max(entries, 1)))
        return pieces(self.snapshot, self.scenario, self.configuration, runs_max)

    def _run(self, piece: Piece) -> PieceRun:
        first, last = self._node_run(piece, piece.first), self._node_run(piece, piece.last)
        for node_run in (first, last):
            self._note_nodes_and_zones(node_run, piece.left_out_ns)
        run = run_piece(piece, first, last, self.configuration)
        if self.result.orphaned_entries:
            run = self._without_certainty(run)
        for zone, names in run.waiting.items():
            if names:
                self.result.waiting.setdefault(zone, set()).update(names)
                self.result.services.setdefault(zone, []).extend(run.services[zone])
        return run

    @staticmethod
    def _without_certainty(run: PieceRun) -> PieceRun:
        waits = {
            name: [window._replace(certain=False) for window in windows]
            for name, windows in run.waits.items()
        }
        nobody = {zone: {*services, ()} for zone, services in run.services.items()}
        return run._replace(waits=waits, services=nobody)

    def _node_run(self, piece: Piece, grid: Grid) -> NodeRun:
        timing = Timing(
            monitor_phase_ns=grid.phase_ns,
            monitor_cost_ns=grid.cost_ns,
            zones_backwards=piece.zones_backwards,
        )
        return self.runner.run(piece.scenario, timing)

    # -- nodes and zones ------------------------------------------------------------------------

    def _note_nodes_and_zones(self, run: NodeRun, padding_ns: int) -> None:
        nodes, zones = self.result.nodes, self.result.zones
        for name, record in run.nodes.items():
            ready = ((NodeChangeKey(name, READY, status), at_ns) for at_ns, status in record.ready)
            nodes.add_sequence(ready, padding_ns)
        states = []
        changes = []
        for entry in run.timeline.entries:
            if isinstance(entry, ZoneStateChanged):
                state = ZoneStateKey(entry.zone, entry.state)
                states.append((state, entry.at_ns))
                self.result.zone_samples.setdefault(state, entry)
            elif isinstance(entry, TaintChanged):
                if is_lifecycle_no_execute(entry.taint):
                    continue  # depends on when the node is served: see ``PodFates``
                what = TAINT_ADDED if isinstance(entry, TaintAdded) else TAINT_REMOVED
                key = NodeChangeKey(entry.node, what, key_and_effect(entry.taint))
                changes.append((key, entry.at_ns))
        zones.add_sequence(states, padding_ns)
        nodes.add_sequence(changes, padding_ns)

    def _find_affected(self, piece_runs: list[PieceRun]) -> None:
        affected = self.result.affected
        for event in self.scenario.events:
            affected.update(event.touched_nodes)
        for run in piece_runs:
            affected.update(run.first.nodes, run.last.nodes, run.waits)
        names = {node.name for node in self.snapshot.nodes}
        affected.update(n.name for n in self.snapshot.nodes if no_execute_taints(n.taints))
        affected.update(
            p.node_name for p in self.snapshot.pods if p.node_name and p.node_name not in names
        )
        touched = {key for event in self.scenario.events for key in event.pods}
        affected.update(p.node_name for p in self.snapshot.pods if p.key in touched and p.node_name)

    def _worlds(self) -> Iterable[frozenset[str]]:
        """Affected nodes, joined where a pod's name is used again on another node."""
        group = {name: {name} for name in self.result.affected}
        node_of = {pod.key: pod.node_name for pod in self.snapshot.pods}
        for event in self.scenario.events:
            if event.pod is None or not event.pod.node_name:
                continue
            other = node_of.get(event.pod.key)
            here = event.pod.node_name
            if other and other != here and other in group and here in group:
                merged = group[other] | group[here]
                for name in merged:
                    group[name] = merged
            node_of[event.pod.key] = here
        done: set[str] = set()
        for name in sorted(group):
            if name not in done:
                done |= group[name]
                yield frozenset(group[name])
