"""Explore the admissible runs and gather, for everything that can happen, its window.

The one hard thing of this program. Three steps:

1. ``NodeRunner`` for every admissible run: health, zones, limiters, waits (no pods).
2. ``service_windows`` inside each run: the order among waiting nodes.
3. Pods. A node with a *simple fate* (it falls silent, is tainted once, never comes back) shifts its pods'
   timers with its taint: windows of nodes become windows of pods by addition. Every other node's pods are
   simulated (``PodWorld``) for each run, at the ends of each window and at the instants in between where
   their fate can change.
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
from kubectl_evictplan.kube.durations import MINUTE_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot
from kubectl_evictplan.kube.taints import key_and_effect, no_execute_taints
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.windows.node_runs import NEVER_NS, ClusterRun, NodeRun, NodeRunner
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
    ZoneStateKey,
)
from kubectl_evictplan.windows.pod_fates import PodFates
from kubectl_evictplan.windows.pod_worlds import taint_key_for
from kubectl_evictplan.windows.timings import RunSet, admissible_runs

Progress = Callable[[str, int, int], None]

# Entries of one node run that fit into the work budget of all of them.
_WORK_BUDGET_ENTRIES = 24_000
_RUNS_MIN, _RUNS_MAX = 8, 240
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
        self.result = Exploration()

    def explore(self, progress: Progress | None) -> Exploration:
        run_set = self._plan()
        self.result.padding_ns = run_set.padding_ns
        runner = NodeRunner(replace(self.snapshot, pods=()), self.configuration)
        runs = []
        for index, admissible in enumerate(run_set.runs):
            runs.append(runner.run(admissible))
            if progress is not None:
                progress("exploring timings", index + 1, len(run_set.runs))
        self.result.runs = len(runs)
        for run in runs:
            self._note_nodes_and_zones(run)
        self._find_affected(runs)
        fates = PodFates(
            self.snapshot, self.scenario, self.configuration, self.horizon_ns, self.result
        )
        for names in self._worlds():
            fates.explore(names, runs)
        for table in (self.result.nodes, self.result.zones, self.result.cancels):
            table.drop_after(self.horizon_ns)
        return self.result

    def _plan(self) -> RunSet:
        entries = sum(1 for entry in self.nominal.entries if not isinstance(entry, AboutPod))
        runs_max = max(_RUNS_MIN, min(_RUNS_MAX, _WORK_BUDGET_ENTRIES // max(entries, 1)))
        return admissible_runs(self.snapshot, self.scenario, self.configuration, runs_max)

    # -- nodes and zones ------------------------------------------------------------------------

    def _note_nodes_and_zones(self, run: ClusterRun) -> None:
        for name, record in run.nodes.items():
            self.result.nodes.add_sequence(
                (NodeChangeKey(name, "ready", status), at_ns) for at_ns, status in record.ready
            )
        for name, record in run.nodes.items():
            if self.configuration.taint_mode:
                self._note_rate_limited_taints(name, record)
        zones = []
        changes = []
        for entry in run.timeline.entries:
            if isinstance(entry, ZoneStateChanged):
                state = ZoneStateKey(entry.zone, entry.state)
                zones.append((state, entry.at_ns))
                self.result.zone_samples.setdefault(state, entry)
            elif isinstance(entry, TaintChanged):
                what = TAINT_ADDED if isinstance(entry, TaintAdded) else TAINT_REMOVED
                key = NodeChangeKey(entry.node, what, key_and_effect(entry.taint))
                changes.append((key, entry.at_ns))
        self.result.zones.add_sequence(zones)
        self.result.nodes.add_sequence(changes)

    def _note_rate_limited_taints(self, name: str, record: NodeRun) -> None:
        """Taints that wait for a token, and their end when the node is reachable again."""
        ordinals: dict[tuple[str, str], int] = {}
        for wait in record.waits:
            if wait.window is None:
                continue
            eligible_ns, leave_ns = wait.episode.eligible_ns, wait.episode.leave_ns
            decided = [status for at, status in record.decided if at <= eligible_ns]
            value = f"{taint_key_for(decided[-1] if decided else 'Unknown')}:{NO_EXECUTE}"
            changes = [(TAINT_ADDED, wait.window.earliest_ns, wait.window.latest_ns)]
            if leave_ns < NEVER_NS and not wait.cut_by_stop:
                changes.append((TAINT_REMOVED, leave_ns, leave_ns))
            for kind, earliest_ns, latest_ns in changes:
                ordinal = ordinals[kind, value] = ordinals.get((kind, value), -1) + 1
                self.result.nodes.add(
                    NodeChangeKey(name, kind, value),
                    ordinal,
                    earliest_ns,
                    latest_ns,
                    certain=wait.window.certain,
                )

    def _find_affected(self, runs: list[ClusterRun]) -> None:
        affected = self.result.affected
        for event in self.scenario.events:
            affected.update(event.touched_nodes)
        for run in runs:
            affected.update(
                name
                for name, record in run.nodes.items()
                if record.ready or record.taints or record.waits
            )
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
