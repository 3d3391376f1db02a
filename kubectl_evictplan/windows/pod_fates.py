"""The fate of pods over all runs: windows of nodes by addition, or a simulation per run.

See ``exploration`` for the place of this step.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    TAINT_EVICTION,
    EvictionScheduled,
    NodeQueued,
    PodDeleted,
    PodGone,
    TaintAdded,
    Timeline,
    TimerCancelled,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import is_daemon_set_pod
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS
from kubectl_evictplan.controllers.taint_eviction.controller import Decision, delete_is_refused
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Pod, Taint
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE, no_execute_taints
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.running_timers import running_timer
from kubectl_evictplan.windows.node_runs import NEVER_NS, ClusterRun, LifecycleTaint, NodeRun
from kubectl_evictplan.windows.outcome import CancelKey, EvictionKey, Exploration, Occurrence
from kubectl_evictplan.windows.pod_worlds import EventIndex, PodWorld, taint_key_for
from kubectl_evictplan.windows.windows import WindowOverRuns, WindowTable

_NOTHING = NodeRun()
# "Just before" an instant, and how many places in the windows of running timers are tried.
_JUST_NS = 1_000
_FRACTIONS_MAX = 8

# What a loop of pod garbage collection may take.
_GC_COST_NS = 25_000_000


class _GcLoops(NamedTuple):
    """When pod garbage collection runs: see ``Timing``."""

    phase_ns: int
    cost_ns: int
    lag_ns: int
    sightings: int


class PodFates:
    """Explores the pods of one world of nodes at a time."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        horizon_ns: int,
        result: Exploration,
    ) -> None:
        self.snapshot = snapshot
        self.scenario = scenario
        self.configuration = configuration
        self._result = result
        # The user's horizon; ``scenario`` may go on for longer.
        self.horizon_ns = horizon_ns
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.pods_by_node: dict[str, list[Pod]] = {}
        for pod in snapshot.pods:
            if pod.node_name:
                self.pods_by_node.setdefault(pod.node_name, []).append(pod)
        self.decisions: dict[tuple[str, tuple[object, ...]], Decision] = {}
        self._index = EventIndex(scenario)
        self._created_on = {event.pod.node_name for event in scenario.events if event.pod}
        self._busy = self._nodes_with_other_events()

    def _nodes_with_other_events(self) -> set[str] | None:
        """Nodes whose pods meet more than a silent kubelet; None when that may be all of them."""
        busy: set[str] = set()
        for event in self.scenario.events:
            if event.manager_up is not None:
                return None
            if event.kubelets_up is not False:
                busy.update(event.touched_nodes)
        touched = {key for event in self.scenario.events for key in event.pods}
        busy.update(pod.node_name for pod in self.snapshot.pods if pod.key in touched)
        return busy

    def explore(self, names: frozenset[str], runs: list[ClusterRun]) -> None:
        """Find the windows of all pods on the nodes ``names``."""
        if not names & self._created_on and not any(self.pods_by_node.get(name) for name in names):
            return
        order = sorted(names)
        records = [[run.nodes.get(name, _NOTHING) for name in order] for run in runs]
        if self._has_simple_fate(order, records):
            self._simple(order[0], [row[0] for row in records], runs)
            return
        pods = tuple(pod for name in order for pod in self.pods_by_node.get(name, ()))
        world = PodWorld(
            names,
            tuple(self.nodes[name] for name in order if name in self.nodes),
            pods,
            self._index.of(names, pods),
            self.snapshot,
            self.scenario,
            self.configuration,
        )
        if not self.configuration.taint_mode:
            self._by_timeout(names, records)
            records = [[_NOTHING] * len(order) for _ in runs]
        self._general(world, order, records, runs)

    def _has_simple_fate(self, names: list[str], records: list[list[NodeRun]]) -> bool:
        node = self.nodes.get(names[0])
        if len(names) > 1 or node is None or self._busy is None or node.name in self._busy:
            return False
        if no_execute_taints(node.taints) or any(t.key == OUT_OF_SERVICE for t in node.taints):
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
        earliest_ns = min(window.earliest_ns for window in windows) - self._result.padding_ns
        latest_ns = max(window.latest_ns for window in windows) + self._result.padding_ns
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
        self._result.evictions[EvictionKey(pod.key, pod.uid, controller, 0)] = Occurrence(
            earliest_ns,
            min(latest_ns, self.horizon_ns),
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
    ) -> None:
        gathered = _Gathered(self.horizon_ns)
        gc_loops = self._gc_loops(world)
        stale = ("grace0", "never") if self._may_meet_stale_key(world) else ("grace0",)
        # How long a deleted pod lingers matters only if something happens to the node afterwards.
        lifecycle = any(record.waits or record.taints for row in records for record in row)
        exits = (0.0, 1.0) if lifecycle or len(world.events) > 1 else (1.0,)
        gathered.exits_varied = len(exits) > 1
        timers = self._running_timers(world)
        seen = set()
        for run, row in zip(runs, records, strict=True):
            for histories in _combinations(world, names, row):
                unknown = (
                    tuple(
                        (name, at_ns)
                        for name, record in zip(names, row, strict=True)
                        for at_ns, status in record.ready
                        if status == "Unknown"
                    )
                    if any(loops.phase_ns for loops in gc_loops)
                    else ()
                )
                key = (
                    unknown,
                    tuple(tuple(history) for history in histories),
                    run.timing.timer_start_fraction,
                    tuple((e.at_ns, e.critical_ns) for e in run.scenario.events),
                )
                if key in seen:
                    continue
                seen.add(key)
                by_name = dict(zip(names, histories, strict=True))
                fractions = _timer_fractions(world, run, histories, timers)
                for loops, stale_nil, exit_fraction, fraction in product(
                    gc_loops, stale, exits, fractions
                ):
                    timing = replace(
                        run.timing,
                        pod_gc_phase_ns=loops.phase_ns,
                        pod_gc_cost_ns=loops.cost_ns,
                        pod_gc_lag_ns=loops.lag_ns,
                        pod_gc_sightings=loops.sightings,
                        stale_nil=stale_nil,
                        pod_exit_fraction=exit_fraction,
                        timer_start_fraction=fraction,
                    )
                    gathered.add(world.simulate(by_name, timing, unknown))
                gathered.by_lifecycle = gathered.by_lifecycle or any(histories)
        self._store(world, gathered)

    @staticmethod
    def _gone_earliest(
        gone: WindowOverRuns | None, deleted: WindowOverRuns, gathered: _Gathered
    ) -> int | None:
        """Without runs in which pods exit at once, a pod that ends in time may end at its deletion."""
        if gone is None:
            return None
        return gone.earliest_ns if gathered.exits_varied else deleted.earliest_ns

    def _running_timers(self, world: PodWorld) -> set[tuple[int, int]]:
        """(earliest, latest) end of every timer that runs at the start, as offsets."""
        start_ns = self.scenario.start_ns
        nodes = {node.name: node for node in world.snapshot.nodes}
        ends = set()
        for pod in world.snapshot.pods:
            node = nodes.get(pod.node_name)
            if node is None or pod.deletion_timestamp_ns is not None:
                continue
            timer = running_timer(node, pod, world.snapshot, start_ns, self.configuration)
            if timer is not None and timer.due_latest_ns > timer.due_earliest_ns:
                ends.add((timer.due_earliest_ns - start_ns, timer.due_latest_ns - start_ns))
        return ends

    def _gc_loops(self, world: PodWorld) -> list[_GcLoops]:
        """What pod garbage collection can do with these pods, at its quickest and its slowest."""
        missing = not world.names <= {node.name for node in world.snapshot.nodes}
        return [
            _GcLoops(phase_ns, cost_ns, lag_ns, sightings)
            for cost_ns, lag_ns in ((0, 0), (_GC_COST_NS, 2 * _GC_COST_NS + 1))
            for phase_ns in self._gc_phases(world, GC_CHECK_PERIOD_NS + cost_ns)
            for sightings in ((0, 2) if missing else (0,))
        ]

    def _gc_phases(self, world: PodWorld, step_ns: int) -> list[int]:
        """Phases of loops every ``step_ns`` that matter to these pods."""
        instants = set()
        for event in world.events:
            if event.seen_by_pod_gc:
                instants.add(event.at_ns)
        starts = [e.at_ns for e in world.events if e.manager_up]
        existing = {node.name for node in world.snapshot.nodes}
        if not world.names <= existing or any(
            taint.key == OUT_OF_SERVICE for node in world.snapshot.nodes for taint in node.taints
        ):
            instants.add(0)
        if 0 not in instants and not any(event.feeds_pod_gc for event in world.events):
            return [0]
        # A new process counts its loops from its own start.
        return sorted(
            {
                (at - start - side) % step_ns
                for at in (*instants, *starts)
                for start in (0, *starts)
                for side in (0, 1)
            }
        )

    def _may_meet_stale_key(self, world: PodWorld) -> bool:
        if not self.configuration.profile.keep_nil_key:
            return False
        names: dict[str, int] = {pod.key: 1 for pod in world.snapshot.pods}
        for event in world.events:
            if event.pod is not None:
                names[event.pod.key] = names.get(event.pod.key, 0) + 1
        return any(count > 1 for count in names.values())

    def _store(self, world: PodWorld, gathered: _Gathered) -> None:
        padding_ns = self._result.padding_ns if gathered.by_lifecycle else 0
        for (key, ordinal), window in gathered.deletes.windows.items():
            if window.earliest_ns > self.horizon_ns:
                continue
            entry, sample = gathered.samples[key, ordinal]
            gone = gathered.gone.windows.get((_GoneKey(key.pod, key.uid), 0))
            whole = gone is not None and gone.runs == gathered.total
            earliest_ns, latest_ns = window.earliest_ns - padding_ns, window.latest_ns + padding_ns
            certain = window.runs == gathered.total and latest_ns <= self.horizon_ns
            if key.pod in gathered.cut_off and not certain:
                latest_ns = self.horizon_ns
            latest_ns = min(latest_ns, self.horizon_ns)
            self._result.evictions[EvictionKey(key.pod, key.uid, key.controller, ordinal)] = (
                Occurrence(
                    earliest_ns,
                    latest_ns,
                    certain,
                    key.node,
                    entry.taint,
                    entry.toleration_index,
                    entry.toleration_seconds,
                    sample,
                    self._gone_earliest(gone, window, gathered),
                    gone.latest_ns if gone is not None and whole else None,
                )
            )
        for cancel, window in gathered.cancels.windows.items():
            self._result.cancels.windows[cancel] = window
            window.unsure = window.runs != gathered.total
        self._result.cancelled_starts.windows.update(gathered.cancelled_starts.windows)


class _DeleteKey(NamedTuple):
    pod: str
    uid: str
    controller: str
    node: str


class _GoneKey(NamedTuple):
    pod: str
    uid: str


class _Gathered:
    """What happened to the pods of one world over all its runs."""

    def __init__(self, horizon_ns: int) -> None:
        self._horizon_ns = horizon_ns
        self.exits_varied = False
        # Pods whose timer ends after the horizon in some run.
        self.cut_off: set[str] = set()
        self.deletes: WindowTable[_DeleteKey] = WindowTable()
        self.cancels: WindowTable[CancelKey] = WindowTable()
        self.cancelled_starts: WindowTable[CancelKey] = WindowTable()
        self.gone: WindowTable[_GoneKey] = WindowTable()
        # The first run in which each delete happened.
        self.samples: dict[tuple[_DeleteKey, int], tuple[PodDeleted, tuple[Timeline, int]]] = {}
        self.total = 0
        # Some history holds taints of the node lifecycle controller: the monitor's phase matters.
        self.by_lifecycle = False

    def add(self, timeline: Timeline) -> None:
        """One more run."""
        self.total += 1
        deletes, cancels, starts, gone = [], [], [], []
        ordinals: dict[_DeleteKey, int] = {}
        for index, entry in enumerate(timeline.entries):
            if isinstance(entry, PodDeleted):
                key = _DeleteKey(entry.pod, entry.uid, entry.controller, entry.node)
                ordinal = ordinals[key] = ordinals.get(key, -1) + 1
                self.samples.setdefault((key, ordinal), (entry, (timeline, index)))
                deletes.append((key, entry.at_ns))
            elif isinstance(entry, TimerCancelled):
                cancel = CancelKey(entry.pod, entry.uid, entry.node, entry.reason)
                cancels.append((cancel, entry.at_ns))
                # Work that was due at once has no entry of its start: it was started just then.
                start = timeline.entries[entry.because[0]] if entry.because else entry
                starts.append((cancel, start.at_ns))
            elif isinstance(entry, PodGone):
                gone.append((_GoneKey(entry.pod, entry.uid), entry.at_ns))
            elif isinstance(entry, EvictionScheduled) and entry.due_ns > self._horizon_ns:
                self.cut_off.add(entry.pod)
        self.deletes.add_sequence(deletes)
        self.cancels.add_sequence(cancels)
        self.cancelled_starts.add_sequence(starts)
        self.gone.add_sequence(gone)


def _combinations(
    world: PodWorld, names: list[str], row: list[NodeRun]
) -> Iterable[list[list[LifecycleTaint]]]:
    """Histories of all nodes of a world; several nodes vary together, first with first."""
    choices = [list(world.histories(n, record)) for n, record in zip(names, row, strict=True)]
    for index in range(max(len(choice) for choice in choices)):
        yield [choice[min(index, len(choice) - 1)] for choice in choices]


def _timer_fractions(
    world: PodWorld,
    run: ClusterRun,
    histories: list[list[LifecycleTaint]],
    timers: set[tuple[int, int]],
) -> list[float]:
    """The run's own place in the windows of running timers, and places just before a change."""
    own = run.timing.timer_start_fraction
    instants = {event.at_ns for event in world.events}
    instants.update(change.at_ns for history in histories for change in history)
    others = {
        (at_ns - _JUST_NS - earliest_ns) / (latest_ns - earliest_ns)
        for earliest_ns, latest_ns in timers
        for at_ns in instants
        if earliest_ns < at_ns - _JUST_NS < latest_ns
    }
    return [own, *sorted(others - {own}, reverse=True)[:_FRACTIONS_MAX]]


def _cause_index(timeline: Timeline, name: str) -> int | None:
    """Index of the newest entry that explains why the node waits or is tainted."""
    for index in range(len(timeline.entries) - 1, -1, -1):
        entry = timeline.entries[index]
        if isinstance(entry, TaintAdded | NodeQueued) and entry.node == name:
            return index
    return None
