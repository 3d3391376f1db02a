"""When a node's Ready condition, its taints and the state of its zone can change at all: bounds of what was only explored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from operator import itemgetter

from kubectl_evictplan.cluster.timeline import ZoneStateChanged
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE, UNKNOWN
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, ClusterSnapshot
from kubectl_evictplan.kube.taints import (
    LIFECYCLE_NO_EXECUTE_KEYS,
    NOT_READY,
    UNREACHABLE,
    key_and_effect,
)
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.latest_services import LatestServices
from kubectl_evictplan.windows.node_courses import NodeCourse
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
    Key,
    NodeChangeKey,
    WindowOverRuns,
    WindowTable,
    ZoneStateKey,
)
from kubectl_evictplan.windows.spans import NEVER_NS, Span, merge_spans
from kubectl_evictplan.windows.zone_rates import STATES_OF_NODES

_STATUS_OF = {NOT_READY: FALSE, UNREACHABLE: UNKNOWN}


class ChangeBounds:
    """Of the nodes and zones of one scenario."""

    def __init__(
        self, snapshot: ClusterSnapshot, scenario: Scenario, services: LatestServices
    ) -> None:
        self._taints_at_start = {node.name: node.taints for node in snapshot.nodes}
        self._scenario = scenario
        self._courses = services.rates.courses
        self._services = services

    def put_nodes(
        self,
        table: WindowTable[NodeChangeKey],
        names: Sequence[str],
        cut_short: Collection[str],
        *,
        unseen: bool = False,
    ) -> None:
        """Bound what was only explored of nodes; of those of ``names`` also what no run showed.

        ``cut_short``: those of them of which what runs show exactly may come once more, and none showed it. ``unseen``: runs need not
        show all that ticks do.
        """
        shown = _ordinals(table)
        keys = {key for (key, _), window in table.windows.items() if window.explored}
        for name in names:
            keys.add(NodeChangeKey(name, READY, UNKNOWN))
            for what, taint in product((TAINT_ADDED, TAINT_REMOVED), LIFECYCLE_NO_EXECUTE_KEYS):
                keys.add(NodeChangeKey(name, what, f"{taint}:{NO_EXECUTE}"))
            if unseen:
                keys.update(self._unseen(name))
        for key in sorted(keys):
            spans = list(self.changes(key))
            if spans:
                # Only what passes write depends on lines and services; of what ticks write runs show each time.
                again = key.node in cut_short and key.value.endswith(NO_EXECUTE)
                # Of the taints that evict nobody only what runs show is told, as far as they show all.
                add = unseen or key.what != TAINT_REMOVED or key.value.endswith(NO_EXECUTE)
                _fit(table, key, shown.get(key, []), spans, add=add, again=again)
        for (key, _), window in table.windows.items() if unseen else ():
            if key.what == READY and key.value != UNKNOWN:
                self._hold_posts(key, window)

    def _hold_posts(self, key: NodeChangeKey, window: WindowOverRuns) -> None:
        """Widen the window to all of those within which the kubelet may post that status."""
        for stretch in self._services.course(key.node).stretches:
            low_ns, high_ns = stretch.begins
            met = low_ns <= window.latest_ns and window.earliest_ns <= high_ns
            if met and stretch.status == key.value and low_ns >= 0:
                window.earliest_ns = min(window.earliest_ns, low_ns)
                window.latest_ns = max(window.latest_ns, high_ns)

    def put_zones(
        self,
        table: WindowTable[ZoneStateKey],
        samples: dict[ZoneStateKey, ZoneStateChanged],
        *,
        unseen: bool = False,
    ) -> None:
        """Bound when zones get into each state; ``unseen``: also where no run showed it, with one of the ``samples`` for each state."""
        zones, shown = self._services.rates.zones, _ordinals(table)
        names = {zone_display_name(zone): zone for zone in zones}
        keys = {key for (key, _), window in table.windows.items() if window.explored}
        if unseen:
            for name, state in product(names, STATES_OF_NODES):
                sample = self._sample(name, names[name], state)
                if sample is not None:
                    samples.setdefault(ZoneStateKey(name, state), sample)
                    keys.add(ZoneStateKey(name, state))
        for key in sorted(keys, key=lambda each: (each.zone, each.state)):
            if key.zone in names and key.state in STATES_OF_NODES:
                since_ns = 0 if key in shown else self._left_ns(names[key.zone], key.state)
                spans = [
                    (max(low_ns, since_ns), high_ns)
                    for low_ns, high_ns in self.entered(names[key.zone], key.state)
                    if high_ns >= since_ns
                ]
                if spans:
                    _fit(table, key, shown.get(key, []), spans, add=unseen)

    # -- nodes ------------------------------------------------------------------------------------------

    def _unseen(self, name: str) -> Iterator[NodeChangeKey]:
        """Changes of the node's taints that evict nobody: only those that may be there are taken off."""
        at_start = set(map(key_and_effect, self._taints_at_start.get(name, ())))
        for taint in LIFECYCLE_NO_EXECUTE_KEYS:
            value = f"{taint}:{NO_SCHEDULE}"
            added = NodeChangeKey(name, TAINT_ADDED, value)
            if value in at_start or any(True for _ in self.changes(added)):
                yield from (added, NodeChangeKey(name, TAINT_REMOVED, value))

    def changes(self, key: NodeChangeKey) -> Iterator[Span]:
        """When that change may come; nothing of what controllers have no part in."""
        course = self._services.course(key.node)
        taint, _, effect = key.value.rpartition(":")
        if key.what == READY:
            yield from self._becomes(course, UNKNOWN, ticks=True)
        elif taint in LIFECYCLE_NO_EXECUTE_KEYS and effect == NO_EXECUTE:
            added = key.what == TAINT_ADDED
            yield from self._added(course, taint) if added else self._removed(course, taint)
        elif taint in LIFECYCLE_NO_EXECUTE_KEYS and effect == NO_SCHEDULE:
            if key.what == TAINT_ADDED:
                has = key.value in map(key_and_effect, self._taints_at_start.get(course.name, ()))
                yield from self._becomes(course, _STATUS_OF[taint], again_only=has)
                yield from self._put_right(course, taint, RemoveTaint)
            elif key.what == TAINT_REMOVED:
                yield from self._ceases(course, _STATUS_OF[taint])
                yield from self._put_right(course, taint, AddTaint)

    def _becomes(
        self, course: NodeCourse, status: str, *, ticks: bool = False, again_only: bool = False
    ) -> Iterator[Span]:
        """When the node gets that status; ``ticks``: as far as the monitor writes it, ``again_only``: not as it has it at the start."""
        for stretch in course.stretches:
            if again_only and stretch.status == status and stretch.begins[1] < 0:
                continue
            if stretch.status == status and not ticks:
                yield from self._seen(stretch.begins)
            elif stretch.unknown is not None and status == UNKNOWN:
                span = stretch.unknown[0], min(stretch.unknown[1], stretch.ends[1])
                yield from self._seen(span) if not ticks else (span,)

    def _ceases(self, course: NodeCourse, status: str) -> Iterator[Span]:
        """When the node may get another one."""
        for stretch in course.stretches:
            if stretch.status == FALSE == status and stretch.unknown is not None:
                yield from self._seen(
                    (stretch.unknown[0], min(stretch.unknown[1], stretch.ends[1]))
                )
            yield from self._seen(stretch.ends)

    def _put_right(
        self, course: NodeCourse, taint: str, by: type[AddTaint] | type[RemoveTaint]
    ) -> Iterator[Span]:
        """When the controller undoes what somebody did to a taint that follows the node's status (``doNoScheduleTaintingPass``)."""
        for event in self._scenario.events:
            if not isinstance(event, by) or course.name not in event.nodes:
                continue
            if isinstance(event, AddTaint):
                if (event.taint.key, event.taint.effect) == (taint, NO_SCHEDULE):
                    yield from self._seen((event.at_ns, event.at_ns))
            elif event.removal.removes(taint, NO_SCHEDULE):
                had = (found[1:] for found in course.not_ready() if found[0] == _STATUS_OF[taint])
                if any(low_ns <= event.at_ns <= high_ns for low_ns, high_ns in had):
                    yield from self._seen((event.at_ns, event.at_ns))

    def _seen(self, span: Span) -> Iterator[Span]:
        """When a process follows it: at once, or when the next one begins."""
        lives = self._courses.lives
        if span[0] >= NEVER_NS:
            return
        yield max(span[0], 0), max(span[1], 0)
        # What comes with the end of a process may come after it.
        if not any(life.begins[1] <= span[0] and span[1] < life.ends_ns for life in lives):
            yield from (life.begins for life in lives if life.begins[1] >= span[0])

    def _added(self, course: NodeCourse, taint: str) -> Iterator[Span]:
        since_ns = 0
        if any(each.at_start and each.taint.key == taint for each in course.taints):
            # What is written anew while it stands changes nothing.
            removed = (low_ns for low_ns, _ in self._removed(course, taint))
            since_ns = min(removed, default=NEVER_NS)
        for standing in course.taints:
            low_ns, high_ns = standing.put
            # What a tick of before the start had in line is not there at the start: it comes from then on.
            if standing.taint.key == taint and not standing.at_start and high_ns >= since_ns:
                yield max(low_ns, since_ns), high_ns

    def _removed(self, course: NodeCourse, taint: str) -> Iterator[Span]:
        for standing in course.taints:
            if standing.taint.key == taint:
                put_ns = max(standing.put[0], 0)
                first_ns = min(self._may_remove_ns(course, taint, put_ns), default=NEVER_NS)
                if first_ns <= standing.until_ns and first_ns < NEVER_NS:
                    yield first_ns, standing.until_ns

    def _may_remove_ns(self, course: NodeCourse, taint: str, put_ns: int) -> Iterator[int]:
        """Instants after which a tick, or somebody, may take the taint off."""
        if self._services.rates.all_down_until_ns is not None:
            yield put_ns
        for life in self._courses.lives:
            if not life.warm and life.begins[1] >= put_ns:
                yield max(life.begins[0], put_ns)
        for stretch in course.stretches:
            if stretch.begins[1] >= put_ns:
                yield max(stretch.begins[0], put_ns)
            for status, low_ns, high_ns in stretch.not_ready():
                # A node that is not ready for the other reason gets the other taint in its place.
                if status != _STATUS_OF[taint] and high_ns >= put_ns:
                    yield max(low_ns, put_ns)
            if stretch.status == TRUE and stretch.reaches[1] >= put_ns:
                yield put_ns
        for event in self._scenario.events:
            removes = isinstance(event, RemoveTaint) and event.removal.removes(taint, NO_EXECUTE)
            if removes and course.name in event.nodes and event.at_ns >= put_ns:
                yield event.at_ns

    # -- zones ------------------------------------------------------------------------------------------

    def _sample(self, name: str, zone: str, state: str) -> ZoneStateChanged | None:
        """How the zone may look when it gets into that state; None where it never has it, or never another one."""
        rates = self._services.rates
        count = rates.count_in(zone, state)
        if count is None or self._left_ns(zone, state) == NEVER_NS:
            return None
        rate_qps = rates.rate_of(state, count)
        return ZoneStateChanged(0, (), name, state, count.ready, count.not_ready, rate_qps)

    def _left_ns(self, zone: str, state: str) -> int:
        """From when on the zone may be in another state."""
        rates, others = self._services.rates, [each for each in STATES_OF_NODES if each != state]
        segments = (s for s, states in rates.states(zone) if any(map(states.may_be, others)))
        return next((low_ns for low_ns, _ in segments), NEVER_NS)

    def entered(self, zone: str, state: str) -> Iterator[Span]:
        """When the zone may get into that state."""
        settled_ns, begin_ns, unsure_ns = 3 * self._courses.step_max_ns, None, 0
        for segment, states in self._services.rates.states(zone):
            if not states.may_be(state):
                if begin_ns is not None:
                    yield begin_ns, unsure_ns + settled_ns
                begin_ns = None
                continue
            if begin_ns is None:
                begin_ns = unsure_ns = segment[0]
            if states.best != states.worst:
                unsure_ns = segment[1]
        if begin_ns is not None:
            yield begin_ns, unsure_ns + settled_ns
        for life in self._courses.lives:
            if not life.warm:
                yield life.begins[0], life.begins[1] + settled_ns


def _ordinals(table: WindowTable[Key]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for key, ordinal in sorted(table.windows, key=itemgetter(1)):
        found.setdefault(key, []).append(ordinal)
    return found


def _fit(
    table: WindowTable[Key],
    key: Key,
    ordinals: Sequence[int],
    spans: Sequence[Span],
    *,
    add: bool,
    again: bool = False,
) -> None:
    """Widen each window of the key to the spans that it meets; what meets none becomes a window of its own (``add``).

    ``again``: what is known exactly may come once more in the rest of such a span, and no run showed it.
    """
    left = list(merge_spans(sorted(spans), 0))
    taken: set[Span] = set()
    for ordinal in ordinals:
        window = table.windows[key, ordinal]
        met = [s for s in left if s[0] <= window.latest_ns and window.earliest_ns <= s[1]]
        if window.explored or not again:
            taken.update(met)
        if met and window.explored:
            window.earliest_ns = min(met[0][0], window.earliest_ns)
            window.latest_ns = max(met[-1][1], window.latest_ns)
            window.explored, window.unsure = False, True
    if add:
        others = (span for span in left if span not in taken)
        # A wait in which a node is never tainted has its number as well: some are not in the table.
        for ordinal, span in enumerate(others, max(ordinals, default=-1) + 1):
            table.windows[key, ordinal] = WindowOverRuns(*span, unsure=True)
