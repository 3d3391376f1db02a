"""The node side of the runs: conditions, decisions, and what the lines of waiting nodes are told.

A *node run* is ``simulate`` without pods and without service: pods influence neither health nor taints, and
taints do not influence health. So one run serves every order, lag and token. Without taint manager a pod that comes to a node
may put that in line: there it has the pods that the scenario makes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    NodeBecameUnknown,
    NodeQueued,
    NodeReadyPosted,
    QueueOperation,
    TaintChanged,
    Timeline,
    Told,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.alike_nodes import AlikeNodes, is_seen_by_node_lifecycle
from kubectl_evictplan.windows.node_records import NOTHING, NodeRecord
from kubectl_evictplan.windows.outcome import taint_change
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.zone_lines import ZoneLine


class NodeRun:
    """All nodes of one node run, and the lines of all zones."""

    def __init__(
        self,
        scenario: Scenario,
        timing: Timing,
        timeline: Timeline,
        members: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        each_alone: Callable[[], NodeRun] | None = None,
        *,
        leaves_entries: bool = False,
    ) -> None:
        self.scenario = scenario
        self.timing = timing
        self.timeline = timeline
        # Nodes that stand for several: see ``alike_nodes``; and the same run with all of them in it.
        self.members = members
        self._each_alone = each_alone
        self.nodes: dict[str, NodeRecord] = defaultdict(
            partial(NodeRecord, leaves_entries=leaves_entries)
        )
        self.stops: list[int] = []
        self.lines: dict[str, ZoneLine] = {}
        # The newest tick whose zone logic has begun.
        self._mid_tick_ns = -1
        # Index of the newest entry that says that the node waits.
        self._queued: dict[str, int] = {}
        # Whom the lines have served before the start.
        self._served_before: set[str] = set()
        self._read_entries()
        self._read_operations()
        # Nodes about which more than one tick decided something.
        self.decided_again = {
            each
            for name, record in self.nodes.items()
            if len(record.decisions) > 1
            for each in members.get(name, (name,))
        }
        for name, names in members.items():
            if name in self.nodes:
                self.nodes.update(dict.fromkeys(names, self.nodes[name]))

    def record(self, name: str) -> NodeRecord:
        """The node's record; an empty one when nothing happened to it."""
        return self.nodes.get(name, NOTHING)

    def until_queued(self, name: str) -> tuple[Timeline, int] | None:
        """The run, and the newest entry in it which says that the node waits; None where it never does."""
        index = self._queued.get(name)
        if index is None and self._each_alone is not None:
            return self._each_alone().until_queued(name)
        return None if index is None else (self.timeline, index)

    def has_news_between(self, name: str, since_ns: int, until_ns: int) -> bool:
        """Whether something ends a wait of the node there, other than a line that is made anew.

        A zone in which no node counts has a new one at nearly every tick.
        """
        ends = (*self._ends_of_waits.get(name, ()), *self.stops)
        return any(since_ns <= at_ns <= until_ns for at_ns in ends)

    @cached_property
    def _ends_of_waits(self) -> dict[str, list[int]]:
        ends: dict[str, list[int]] = {}
        for line in self.lines.values():
            for name, leaves_ns in line.leaving.items():
                ends.setdefault(name, []).extend(leaves_ns)
            for operation in line.operations:
                if operation.told is Told.UNTAINTED:
                    ends.setdefault(operation.name, []).append(operation.at_ns)
        return ends

    def _read_entries(self) -> None:
        for index, entry in enumerate(self.timeline.entries):
            if isinstance(entry, NodeQueued):
                self._queued[entry.node] = index
            elif isinstance(entry, NodeBecameUnknown):
                self.nodes[entry.node].ready.append((entry.at_ns, "Unknown"))
            elif isinstance(entry, NodeReadyPosted):
                self.nodes[entry.node].ready.append((entry.at_ns, entry.status))
            elif isinstance(entry, TaintChanged):
                if entry.by == NODE_LIFECYCLE and entry.taint.effect == NO_EXECUTE:
                    self.nodes[entry.node].taints.add(entry.at_ns)
                if not is_lifecycle_no_execute(entry.taint):
                    _, what, value = taint_change(entry)
                    self.nodes[entry.node].changes.append((what, value, entry.at_ns))

    def _read_operations(self) -> None:
        log: Sequence[QueueOperation] = self.timeline.queue_log
        if any(isinstance(event, AddTaint | RemoveTaint) for event in self.scenario.events):
            from kubectl_evictplan.windows.taints_by_hand import with_taints_by_hand  # rarely any

            log = with_taints_by_hand(log, self.scenario)
        log = [each for each in log if each.told is not Told.LOADED]
        zones_of: dict[str, set[str]] = defaultdict(set)
        for operation in log:
            if operation.told in _PLACES:
                zones_of[operation.name].add(operation.zone)
        everywhere: set[str] = set().union(*zones_of.values())
        lines: dict[str, list[QueueOperation]] = {zone: [] for zone in sorted(everywhere)}
        for operation in log:
            if operation.told is Told.STOPPED:
                self.stops.append(operation.at_ns)
            elif operation.told is Told.MID_TICK:
                self._mid_tick_ns = operation.at_ns
            zones = {operation.zone}
            if operation.name:
                if not self._note_decision(operation):
                    continue
                # What a tick does with its name it does in the line of the zone that it is in then.
                own = {operation.zone} if operation.told in _OF_ONE_ZONE else everywhere
                zones = own & zones_of.get(operation.name, set())
            elif operation.told in _OF_ALL_ZONES:
                zones = everywhere
            for zone in zones & everywhere:
                lines[zone].append(operation)
        self.lines = {
            zone: ZoneLine(operations, self.members) for zone, operations in lines.items()
        }

    def _note_decision(self, operation: QueueOperation) -> bool:
        """False for a node that is found reachable and was not wanted tainted anyway."""
        if operation.told in (Told.MARK, Told.SWAPPED):
            record = self.nodes[operation.name]
            status = operation.status or ""
            # A new process remembers nothing of what the one before decided.
            forgotten = any(stop_ns >= record.decided_ns for stop_ns in self.stops[-1:])
            if record.newest_decision != status or operation.at_ns in record.taints or forgotten:
                record.decisions.append((operation.at_ns, status))
            if not status and operation.name in self._served_before:
                record.evicted_before = True
        elif operation.told is Told.TAINTED_BEFORE:
            self._served_before.add(operation.name)
        elif operation.told is Told.REACHABLE:
            known = self.nodes.get(operation.name)
            if known is None or not (known.taints or known.decisions):
                return False
            if not known.may_untaint(operation.at_ns):
                return False
            known.decisions.append((operation.at_ns, TRUE))
            if operation.at_ns == self._mid_tick_ns:
                known.taken_back.add(operation.at_ns)
        return True


_PLACES = (Told.MARK, Told.SWAPPED, Told.RETIRED, Told.TAINTED_BEFORE)
_OF_ONE_ZONE = (*_PLACES, Told.REACHABLE)
_OF_ALL_ZONES = (Told.STARTED, Told.STOPPED, Told.MID_TICK)


class NodeRunner:
    """Simulates node runs; each one only once."""

    def __init__(
        self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration, alike: AlikeNodes
    ) -> None:
        # How a waiting node stays in line is the business of the replays: no tick is needed for it.
        self._leaves_entries = configuration.profile.queue_mode == "SETREMOVE"
        profile = replace(configuration.profile, queue_mode="REMOVE_ADD")
        # Without pods the controllers of pods have nothing to do.
        configuration = replace(
            configuration, profile=profile, taint_eviction_enabled=False, pod_gc_enabled=False
        )
        self._whole = _WholeRuns(replace(snapshot, pods=()), configuration)
        self._alike = alike
        # One for all runs in which a zone was told the same.
        self._lines: dict[Hashable, ZoneLine] = {}
        self._runs: dict[tuple[int, Timing], NodeRun] = {}

    def run(self, piece: Piece, *, last: bool = False) -> NodeRun:
        """The node run at the first end of a piece, or at its ``last`` one."""
        grid, scenario = piece.first, piece.scenario
        if last:
            grid, scenario = piece.last, piece.last_scenario or scenario
        timing = Timing(
            monitor_phase_ns=grid.phase_ns,
            monitor_cost_ns=grid.cost_ns,
            monitor_courses=grid.courses,
            zones_backwards=piece.zones_backwards,
            zone_states=piece.zone_states,
            still_in_line=piece.still_in_line,
            early_in_line=piece.early_in_line,
            probes_anew_ticks=piece.probes_anew_ticks,
            posted_late=piece.posted_late,
            serves_queues=False,
            mid_tick_pass=True,
            initial_token=False,
        )
        found = self._runs.get((id(scenario), timing))
        if found is None:
            some = self._alike.one_of_each(scenario, timing)
            timeline = self._whole.simulate(some.snapshot, some.scenario, timing)
            members = some.members
            each_alone = partial(self._whole.of, scenario, timing) if members else None
            leaves = self._leaves_entries
            found = NodeRun(scenario, timing, timeline, members, each_alone, leaves_entries=leaves)
            found.lines = {
                zone: self._lines.setdefault(line.identity, line) if line.is_short else line
                for zone, line in found.lines.items()
            }
            self._runs[id(scenario), timing] = found
        return found


class _WholeRuns:
    """Runs with every node in them: only to tell what led to something, where that is asked.

    Runs in which some nodes stand for others hold it, and it holds none of them.
    """

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        self._snapshot = snapshot
        self._configuration = configuration
        self._runs: dict[tuple[int, Timing], NodeRun] = {}

    def of(self, scenario: Scenario, timing: Timing) -> NodeRun:
        """The whole run; each only once."""
        found = self._runs.get((id(scenario), timing))
        if found is None:
            timeline = self.simulate(self._snapshot, scenario, timing)
            found = self._runs[id(scenario), timing] = NodeRun(scenario, timing, timeline)
        return found

    def simulate(self, snapshot: ClusterSnapshot, scenario: Scenario, timing: Timing) -> Timeline:
        """A run of these nodes, without what happens to pods only, as far as node lifecycle takes no notice of it."""
        events = tuple(
            event
            for event in scenario.events
            if is_seen_by_node_lifecycle(event, self._configuration)
        )
        return simulate(snapshot, replace(scenario, events=events), self._configuration, timing)
