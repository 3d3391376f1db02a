"""Explore the admissible runs and gather, for everything that can happen, its window.

The one hard thing of this program. Three steps:

1. ``run_nodes`` for every admissible run: health, zones, limiters, waits (no pods).
2. ``service_windows`` inside each run: the order among waiting nodes.
3. Pods. A node with a *simple fate* (it falls silent, is tainted once, never comes back) shifts its pods'
   timers with its taint: windows of nodes become windows of pods by addition. Every other node's pods are
   simulated (``PodWorld``) for each run, at the ends of each window and at the instants in between where
   their fate can change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.bounds.node_runs import NEVER_NS, ClusterRun, NodeRun, run_nodes
from kubectl_evictplan.bounds.pod_worlds import PodWorld, taint_key_for
from kubectl_evictplan.bounds.timings import RunSet, admissible_runs
from kubectl_evictplan.bounds.windows import WindowTable
from kubectl_evictplan.controllers.configuration import ControllerConfiguration
from kubectl_evictplan.controllers.eviction_by_timeout import is_daemon_set_pod
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS
from kubectl_evictplan.controllers.taint_eviction import Decision, delete_is_refused
from kubectl_evictplan.model.objects import NO_EXECUTE, ClusterSnapshot, Pod, Taint
from kubectl_evictplan.model.taints import OUT_OF_SERVICE, no_execute_taints
from kubectl_evictplan.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.timeline import (
    CANCEL,
    DELETE,
    GONE,
    NODE_LIFECYCLE,
    TAINT_ADDED,
    TAINT_EVICTION,
    TAINT_REMOVED,
    ZONE_STATE,
    Timeline,
)

Progress = Callable[[str, int, int], None]

# Entries of one node run that fit into the work budget of all of them.
_WORK_BUDGET_ENTRIES = 24_000
_RUNS_MIN, _RUNS_MAX = 8, 240


class EvictionKey(NamedTuple):
    """The n-th delete that one controller issues for one pod object."""

    pod: str
    uid: str
    controller: str
    ordinal: int


class Occurrence(NamedTuple):
    """A window over all runs; ``certain`` when it happens in every one of them."""

    earliest_ns: int
    latest_ns: int
    certain: bool
    node: str
    taint: Taint | None
    toleration_index: int | None
    toleration_seconds: int | None
    # A run in which it happened, for the chain of causes: (timeline, index of the entry).
    sample: tuple[Timeline, int] | None
    gone_earliest_ns: int | None
    gone_latest_ns: int | None


class Exploration:
    """The outcome: windows of evictions, cancellations, node changes and zone states."""

    def __init__(self) -> None:
        self.evictions: dict[EvictionKey, Occurrence] = {}
        self.cancels = WindowTable()
        self.nodes = WindowTable()
        self.zones = WindowTable()
        self.runs = 0
        self.evaluations: dict[str, int] = {}
        self.affected: set[str] = set()
        self.padding_ns = 0


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
        self.scenario = scenario
        self.configuration = configuration
        self.nominal = nominal
        self.result = Exploration()
        horizon = scenario.horizon_ns
        self.horizon_ns = HORIZON_DEFAULT_MAX_NS if horizon is None else horizon
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.pods_by_node: dict[str, list[Pod]] = {}
        for pod in snapshot.pods:
            if pod.node_name:
                self.pods_by_node.setdefault(pod.node_name, []).append(pod)
        self.decisions: dict[tuple[str, tuple[object, ...]], Decision] = {}

    def explore(self, progress: Progress | None) -> Exploration:
        run_set = self._plan()
        self.result.padding_ns = run_set.padding_ns
        without_pods = replace(self.snapshot, pods=())
        runs = []
        for index, run in enumerate(run_set.runs):
            runs.append(run_nodes(without_pods, run, self.configuration))
            if progress is not None:
                progress("exploring timings", index + 1, len(run_set.runs))
        self.result.runs = len(runs)
        for run in runs:
            self._note_nodes_and_zones(run)
        self._find_affected(runs)
        for names in self._worlds():
            self._pods_of(names, runs)
        return self.result

    def _plan(self) -> RunSet:
        pod_kinds = {DELETE, CANCEL, GONE, "mark", "eviction-scheduled", "tolerated-forever"}
        pod_kinds |= {"replacement", "pod-created", "eviction-refused", "delete-failed"}
        entries = sum(1 for entry in self.nominal.entries if entry.kind not in pod_kinds)
        runs_max = max(_RUNS_MIN, min(_RUNS_MAX, _WORK_BUDGET_ENTRIES // max(entries, 1)))
        return admissible_runs(self.snapshot, self.scenario, self.configuration, runs_max)

    # -- nodes and zones ------------------------------------------------------------------------

    def _note_nodes_and_zones(self, run: ClusterRun) -> None:
        for name, record in run.nodes.items():
            self.result.nodes.add_sequence(
                ((name, "ready", status), at_ns) for at_ns, status in record.ready
            )
        for name, record in run.nodes.items():
            if self.configuration.taint_mode:
                self._note_rate_limited_taints(name, record)
        zones = []
        changes = []
        for entry in run.timeline.entries:
            if entry.kind == ZONE_STATE:
                zones.append(((entry.subject, entry.value), entry.at_ns))
            elif entry.kind in (TAINT_ADDED, TAINT_REMOVED):
                changes.append(((entry.subject, entry.kind, entry.value), entry.at_ns))
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
                    ((name, kind, value), ordinal),
                    earliest_ns,
                    latest_ns,
                    certain=wait.window.certain,
                )

    def _find_affected(self, runs: list[ClusterRun]) -> None:
        affected = self.result.affected
        for event in self.scenario.events:
            affected.update(event.nodes)
            if event.node is not None:
                affected.add(event.node.name)
            if event.pod is not None and event.pod.node_name:
                affected.add(event.pod.node_name)
        for run in runs:
            affected.update(
                name
                for name, record in run.nodes.items()
                if record.ready or record.taints or record.waits
            )
        names = {node.name for node in self.snapshot.nodes}
        affected.update(n.name for n in self.snapshot.nodes if no_execute_taints(n.taints))
        affected.update(name for name in self.pods_by_node if name not in names)
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

    # -- pods ---------------------------------------------------------------------------------------

    def _pods_of(self, names: frozenset[str], runs: list[ClusterRun]) -> None:
        created = any(e.pod is not None and e.pod.node_name in names for e in self.scenario.events)
        if not created and not any(self.pods_by_node.get(name) for name in names):
            return
        world = PodWorld(
            names,
            tuple(self.nodes[name] for name in sorted(names) if name in self.nodes),
            tuple(pod for name in sorted(names) for pod in self.pods_by_node.get(name, ())),
            self.snapshot,
            self.scenario,
            self.configuration,
        )
        records = [[run.nodes.get(name, _NOTHING) for name in sorted(names)] for run in runs]
        if self._has_simple_fate(world, records):
            self._simple(next(iter(names)), [r[0] for r in records], runs)
        elif not self.configuration.taint_mode:
            self._by_timeout(names, records)
            self._general(world, sorted(names), records, runs, played=False)
        else:
            self._general(world, sorted(names), records, runs, played=True)

    def _has_simple_fate(self, world: PodWorld, records: list[list[NodeRun]]) -> bool:
        if len(world.names) > 1 or not world.snapshot.nodes or self._gc_phases(world) != [0]:
            return False
        if any(event.action != "kubelet-stop" for event in world.events):
            return False
        if any(no_execute_taints(node.taints) for node in world.snapshot.nodes):
            return False
        return all(
            len(record.waits) <= 1
            and len(record.decided) <= 1
            and all(wait.episode.leave_ns >= NEVER_NS for wait in record.waits)
            and (record.waits or not record.taints)
            for row in records
            for record in row
        )

    def _simple(self, name: str, records: list[NodeRun], runs: list[ClusterRun]) -> None:
        windows = [w.window for r in records for w in r.waits if w.window is not None]
        if not windows:
            return
        served_in_all = sum(1 for r in records if r.waits and r.waits[0].window) == len(records)
        certain = served_in_all and all(window.certain for window in windows)
        earliest_ns = min(window.earliest_ns for window in windows) - self.result.padding_ns
        latest_ns = max(window.latest_ns for window in windows) + self.result.padding_ns
        status = (
            next(r.decided[0][1] for r in records if r.decided)
            if any(r.decided for r in records)
            else "Unknown"
        )
        sample = next(
            (
                (run.timeline, index)
                for run, record in zip(runs, records, strict=True)
                if record.waits and record.waits[0].window
                for index in (_cause_index(run.timeline, name),)
                if index is not None
            ),
            None,
        )
        for pod in self.pods_by_node.get(name, ()):
            self._simple_pod(pod, taint_key_for(status), (earliest_ns, latest_ns), certain, sample)

    def _simple_pod(
        self,
        pod: Pod,
        taint_key: str,
        window: tuple[int, int],
        certain: bool,
        sample: tuple[Timeline, int] | None,
    ) -> None:
        if self.configuration.taint_mode:
            if not self.configuration.taint_eviction_enabled:
                return
            if delete_is_refused(pod, self.configuration):
                return
            decision = self._decide(taint_key, pod)
            if decision.all_tolerated and decision.minimum_ns < 0:
                return
            delay_ns = decision.minimum_ns if decision.all_tolerated else 0
            controller = TAINT_EVICTION
            taint, index, seconds = (
                decision.taint,
                decision.toleration_index,
                decision.toleration_seconds,
            )
        else:
            if pod.deletion_timestamp_ns is not None or is_daemon_set_pod(pod):
                return
            delay_ns, controller, taint, index, seconds = 0, NODE_LIFECYCLE, None, None, None
        earliest_ns, latest_ns = window[0] + delay_ns, window[1] + delay_ns
        if earliest_ns > self.horizon_ns:
            return
        at_once = pod.phase in ("Succeeded", "Failed") or pod.termination_grace_period_seconds == 0
        at_once = at_once and not pod.finalizers
        self.result.evictions[EvictionKey(pod.key, pod.uid, controller, 0)] = Occurrence(
            earliest_ns,
            latest_ns,
            certain and latest_ns <= self.horizon_ns,
            pod.node_name,
            taint,
            index,
            seconds,
            sample,
            earliest_ns if at_once else None,
            latest_ns if at_once else None,
        )

    def _decide(self, taint_key: str, pod: Pod) -> Decision:
        key = (taint_key, pod.tolerations)
        decision = self.decisions.get(key)
        if decision is None:
            decision = self.decisions[key] = Decision(
                (Taint(taint_key, NO_EXECUTE),),
                pod.tolerations,
                self.configuration.comparison_operators,
            )
        return decision

    def _by_timeout(self, names: frozenset[str], records: list[list[NodeRun]]) -> None:
        """Without taint manager: the pods of a served node are deleted when it is served."""
        for place, name in enumerate(sorted(names)):
            windows = [
                wait.window
                for row in records
                for wait in row[place].waits
                if wait.window is not None
            ]
            if not windows:
                continue
            in_all = all(any(w.window is not None for w in row[place].waits) for row in records)
            window = (min(w.earliest_ns for w in windows), max(w.latest_ns for w in windows))
            certain = in_all and all(w.certain for w in windows)
            for pod in self.pods_by_node.get(name, ()):
                self._simple_pod(pod, "", window, certain, None)

    def _general(
        self,
        world: PodWorld,
        names: list[str],
        records: list[list[NodeRun]],
        runs: list[ClusterRun],
        *,
        played: bool,
    ) -> None:
        gathered = _Gathered()
        gc_phases = self._gc_phases(world)
        stale = ("grace0", "never") if self._may_meet_stale_key(world) else ("grace0",)
        seen = set()
        for run, row in zip(runs, records, strict=True):
            for histories in _combinations(world, names, row if played else [_NOTHING] * len(row)):
                key = (
                    tuple(tuple(h) for h in histories),
                    run.timing.timer_start_fraction,
                    tuple((e.at_ns, e.last_heartbeat_ns) for e in run.scenario.events),
                )
                if key in seen:
                    continue
                seen.add(key)
                by_name = dict(zip(names, histories, strict=True))
                for phase_ns, stale_nil, exit_fraction in product(gc_phases, stale, (0.0, 1.0)):
                    timing = replace(
                        run.timing,
                        pod_gc_phase_ns=phase_ns,
                        stale_nil=stale_nil,
                        pod_exit_fraction=exit_fraction,
                    )
                    gathered.add(world.simulate(by_name, timing))
                gathered.by_lifecycle = gathered.by_lifecycle or any(histories)
        self._store(world, gathered)

    def _gc_phases(self, world: PodWorld) -> list[int]:
        """Phases of pod garbage collection that matter to these pods."""
        instants = set()
        for event in world.events:
            out_of_service = event.taint is not None and event.taint.key == OUT_OF_SERVICE
            if event.action in ("node-delete", "pod-delete", "node-ready") or out_of_service:
                instants.add(event.at_ns)
        existing = {node.name for node in world.snapshot.nodes}
        if not world.names <= existing or any(
            taint.key == OUT_OF_SERVICE for node in world.snapshot.nodes for taint in node.taints
        ):
            instants.add(0)
        if (
            not any(
                e.action == "node-delete" or (e.taint and e.taint.key == OUT_OF_SERVICE)
                for e in world.events
            )
            and 0 not in instants
        ):
            return [0]
        return sorted({(at - side) % GC_CHECK_PERIOD_NS for at in instants for side in (0, 1)})

    def _may_meet_stale_key(self, world: PodWorld) -> bool:
        if not self.configuration.profile.keep_nil_key:
            return False
        names: dict[str, int] = {pod.key: 1 for pod in world.snapshot.pods}
        for event in world.events:
            if event.pod is not None:
                names[event.pod.key] = names.get(event.pod.key, 0) + 1
        return any(count > 1 for count in names.values())

    def _store(self, world: PodWorld, gathered: _Gathered) -> None:
        horizon = self.horizon_ns
        missing = world.names - {node.name for node in world.snapshot.nodes}
        for key, window in gathered.deletes.windows.items():
            (pod, uid, controller, node), ordinal = key  # type: ignore[misc]
            entry, sample = gathered.samples[key]  # type: ignore[index]
            gone = gathered.gone.windows.get(((pod, uid), 0))
            whole = gone is not None and gone.runs == gathered.total
            padding_ns = self.result.padding_ns if gathered.by_lifecycle else 0
            earliest_ns, latest_ns = window.earliest_ns - padding_ns, window.latest_ns + padding_ns
            if controller == "pod-gc" and node in missing:
                earliest_ns = 0  # its quarantine may have begun before the start
            self.result.evictions[EvictionKey(pod, uid, controller, ordinal)] = Occurrence(
                earliest_ns,
                latest_ns,
                window.runs == gathered.total and latest_ns <= horizon,
                node,
                entry.taint,
                entry.toleration_index,
                entry.toleration_seconds,
                sample,
                gone.earliest_ns if gone is not None else None,
                gone.latest_ns if gone is not None and whole else None,
            )
        for key, window in gathered.cancels.windows.items():
            self.result.cancels.windows[key] = window
            window.unsure = window.runs != gathered.total


class _Gathered:
    """What happened to the pods of one world over all its runs."""

    def __init__(self) -> None:
        self.deletes = WindowTable()
        self.cancels = WindowTable()
        self.gone = WindowTable()
        self.samples: dict[object, tuple[object, tuple[Timeline, int]]] = {}
        self.total = 0
        # Some history holds taints of the node lifecycle controller: the monitor's phase matters.
        self.by_lifecycle = False

    def add(self, timeline: Timeline) -> None:
        """One more run."""
        self.total += 1
        deletes, cancels, gone = [], [], []
        ordinals: dict[object, int] = {}
        for index, entry in enumerate(timeline.entries):
            if entry.kind == DELETE:
                key = (entry.subject, entry.uid, entry.value, entry.node)
                ordinal = ordinals[key] = ordinals.get(key, -1) + 1
                self.samples.setdefault((key, ordinal), (entry, (timeline, index)))
                deletes.append((key, entry.at_ns))
            elif entry.kind == CANCEL:
                cancels.append(((entry.subject, entry.uid, entry.node, entry.detail), entry.at_ns))
            elif entry.kind == GONE:
                gone.append(((entry.subject, entry.uid), entry.at_ns))
        self.deletes.add_sequence(deletes)
        self.cancels.add_sequence(cancels)
        self.gone.add_sequence(gone)


_NOTHING = NodeRun()


def _combinations(
    world: PodWorld, names: list[str], row: list[NodeRun]
) -> Iterable[list[list[object]]]:
    """Histories of all nodes of a world; several nodes vary together, first with first."""
    choices = [[h for h, _ in world.histories(n, r)] for n, r in zip(names, row, strict=True)]
    for index in range(max(len(choice) for choice in choices)):
        yield [choice[min(index, len(choice) - 1)] for choice in choices]  # type: ignore[misc]


def _cause_index(timeline: Timeline, name: str) -> int | None:
    """Index of the newest entry that explains why the node waits or is tainted."""
    for index in range(len(timeline.entries) - 1, -1, -1):
        entry = timeline.entries[index]
        if entry.subject == name and entry.kind in (TAINT_ADDED, "node-queued"):
            return index
    return None
