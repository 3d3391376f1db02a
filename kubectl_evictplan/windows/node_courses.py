"""What can be true of one node at each instant, whatever is unknown: its Ready condition, and its NoExecute taints.

Without any run. A node goes from one *stretch* to the next: what its kubelet posts, or its creation, begins one. In each the
node has the status that was posted, and Unknown from the first instant at which a tick can have given its kubelet up. The
taints of node lifecycle follow: a pass or a tick writes one only on a node that is not Ready, and the first tick that surely
comes after it is Ready again takes it off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from kubectl_evictplan.cluster.kubelets import is_up_at_start, longest_renewal_ns, observed_at_ns
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE, UNKNOWN
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, READY, ClusterSnapshot, Taint
from kubectl_evictplan.kube.taints import (
    NOT_READY,
    UNREACHABLE,
    is_lifecycle_no_execute,
    key_and_effect,
    no_execute_taints,
)
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, DeleteNode, RemoveTaint
from kubectl_evictplan.scenarios.actions.processes import (
    PostReady,
    StartKubelet,
    StopKubelet,
    TouchLease,
)
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.windows.newest_statuses import heard_until_ns
from kubectl_evictplan.windows.noticing import ON_TIME, Lateness, Noticing
from kubectl_evictplan.windows.processes_up import ProcessLife, process_lives
from kubectl_evictplan.windows.spans import BEFORE_NS, NEVER_NS, Span
from kubectl_evictplan.windows.spent_tokens import all_down_until_ns
from kubectl_evictplan.windows.unknowns.last_heartbeats import (
    last_heartbeat_window,
)
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps

# A Ready condition that nobody has posted yet.
NOT_POSTED = ""
# What an event brings forth at the very instant at which others happen.
_TIE_NS = 1000


class Stretch(msgspec.Struct):
    """From one posted status, at an instant within ``begins``, to the next one, within ``ends``.

    ``status`` "" is a node without a Ready condition, None one that does not exist. ``unknown``: when a tick may write
    Ready=Unknown; its end is ``NEVER_NS`` where that need not happen.
    """

    begins: Span
    status: str | None
    ends: Span = (NEVER_NS, NEVER_NS)
    unknown: Span | None = None
    # A tick may pass it over, because its Lease was written without being renewed.
    passed_over: bool = False

    @property
    def reaches(self) -> Span:
        """The hull of it."""
        return self.begins[0], self.ends[1]

    def not_ready(self) -> Iterator[tuple[str, int, int]]:
        """(status, earliest, latest) of everything but Ready=True that a tick may find in it."""
        if self.status in (FALSE, UNKNOWN, NOT_POSTED):
            yield self.status or UNKNOWN, *self.reaches
        if self.unknown is not None and self.status != UNKNOWN:
            yield UNKNOWN, self.unknown[0], self.ends[1]


class Standing(msgspec.Struct, frozen=True):
    """A taint that may stand: put on within ``put``, off ``until_ns`` at the latest.

    ``at_start``: it stands when the scenario starts.
    """

    taint: Taint
    put: Span
    until_ns: int
    at_start: bool = False


class NodeCourse(msgspec.Struct, frozen=True):
    """One node: its stretches, its NoExecute taints, and when its Node object is deleted."""

    name: str
    stretches: tuple[Stretch, ...]
    taints: tuple[Standing, ...]
    deletions: tuple[int, ...]

    def not_ready(self) -> Iterator[tuple[str, int, int]]:
        """(status, earliest, latest) of everything but Ready=True that a tick may find."""
        for stretch in self.stretches:
            yield from stretch.not_ready()

    def may_be_decided_about(self, end_ns: int) -> bool:
        """Whether by then a tick may find that the node has to be tainted, or has not any more."""
        down = any(low_ns <= end_ns for _, low_ns, _ in self.not_ready())
        return down or any(is_lifecycle_no_execute(each.taint) for each in self.taints)

    def is_tainted_until(self, at_ns: int) -> int:
        """Until when it may go on without a break that some NoExecute taint stands, from that instant on."""
        until_ns = at_ns
        for standing in sorted(self.taints, key=lambda each: each.put[0]):
            if standing.put[0] <= until_ns <= standing.until_ns:
                until_ns = standing.until_ns
        return until_ns


class NodeCourses:
    """Finds the course of any node of one scenario."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        step_max_ns: int,
        all_down: Span | None = None,
        late: Lateness = ON_TIME,
    ) -> None:
        """``step_max_ns``: ticks of the monitor come at most so far apart, ``late`` as they may be.

        ``all_down``: all zones may be down within that: grace periods may begin anew at any time until the tick after it, of whoever
        is not given up before.
        """
        self._late = late
        self.lives = process_lives(scenario)
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self.step_max_ns = step_max_ns
        self._steps = TickSteps(configuration.node_monitor_period_ns, step_max_ns)
        self._noticing = Noticing(configuration, step_max_ns)
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._events: dict[str, list[tuple[int, ScenarioEvent]]] = {}
        for index, event in enumerate(scenario.events):
            for name in event.nodes:
                self._events.setdefault(name, []).append((index, event))
        self._known: dict[str, NodeCourse] = {}
        self._counts_anew = all_down
        given = snapshot, scenario.start_ns, configuration
        self._all_down_until_ns = all_down_until_ns(*given)

    def of(self, name: str) -> NodeCourse:
        """The course of the node; one that does not exist has an empty one."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._course(name)
        return found

    def seen_by_ns(self, at_ns: int) -> int:
        """When a tick has surely seen what happened at that instant, or the process is gone that did not know it."""
        return min(self._tick_surely_after(at_ns), *self._ends_after(at_ns))

    def _ends_after(self, at_ns: int) -> Iterator[int]:
        yield from (life.ends_ns for life in self.lives if life.ends_ns >= at_ns)
        yield NEVER_NS

    def _course(self, name: str) -> NodeCourse:
        stretches = tuple(self._stretches(name))
        deletions = tuple(s.begins[0] for s in stretches[1:] if s.status is None)
        taints: list[Standing] = []
        if self._configuration.taint_mode and self._configuration.node_lifecycle_enabled:
            taints += self._of_lifecycle(stretches)
        taints += self._of_people(name, stretches)
        return NodeCourse(name, stretches, tuple(taints), deletions)

    # -- Ready ------------------------------------------------------------------------------------------

    def _stretches(self, name: str) -> Iterator[Stretch]:
        drafts = [self._at_start(name)]
        for index, event in self._events.get(name, ()):
            self._follow(name, drafts, index, event)
        for number, draft in enumerate(drafts):
            if number + 1 < len(drafts):
                draft.stretch.ends = drafts[number + 1].stretch.begins
            draft.stretch.unknown = self._given_up(name, draft)
            yield draft.stretch

    def _at_start(self, name: str) -> _Draft:
        node, lease = self._nodes.get(name), self._snapshot.leases.get(name)
        before = (BEFORE_NS, BEFORE_NS)
        if node is None:
            return _Draft(Stretch(before, None))
        seen_ns = observed_at_ns(self._snapshot, self._scenario.start_ns)
        draft = _Draft(Stretch(before, node.ready_status or NOT_POSTED))
        start_ns, heard_ns = self._scenario.start_ns, None if lease is None else lease.renew_time_ns
        draft.created_ns = node.creation_timestamp_ns - start_ns
        if not is_up_at_start(node, lease, seen_ns):
            draft.silent = before
        if heard_ns is not None:
            # A Lease that is older was renewed for another node of that name, and the process remembers when.
            draft.created_ns = min(draft.created_ns, heard_ns - start_ns)
            if draft.silent is not None:
                draft.silent = self._or_by_status(name, (heard_ns - start_ns,) * 2)
        return draft

    def _follow(self, name: str, drafts: list[_Draft], index: int, event: ScenarioEvent) -> None:
        newest, within = drafts[-1], event.span
        if isinstance(event, StopKubelet):
            self._silence_before(name, drafts, index, event)
            if newest.silent is None:
                newest.silent = self._last_heartbeat(name, drafts, index, event)
                if newest is drafts[0]:
                    newest.silent = self._or_by_status(name, newest.silent)
            elif event.last_heartbeat_ns is not None:
                newest.silent = self._heard_once_more(newest.silent, event.last_heartbeat_ns)
        elif isinstance(event, PostReady | StartKubelet) and newest.stretch.status is not None:
            drafts.append(_Draft(Stretch(within, event.status)))
        elif isinstance(event, DeleteNode):
            drafts.append(_Draft(Stretch(within, None)))
        elif event.node is not None and newest.stretch.status is None:
            status = event.node.ready_status or NOT_POSTED
            silent = within if status in (NOT_POSTED, UNKNOWN) else None
            drafts.append(_Draft(Stretch(within, status), silent))
        elif isinstance(event, TouchLease):
            newest.stretch.passed_over = True

    def _or_by_status(self, name: str, renewed: Span) -> Span:
        """A last renewal, where the kubelet may have posted a status of before the start since then."""
        node = self._nodes.get(name)
        if node is None or renewed[0] > 0:
            return renewed
        given = node, self._snapshot, self._scenario.start_ns, self.step_max_ns
        until_ns = heard_until_ns(*given, renewed[0])
        return renewed if until_ns is None else (renewed[0], max(renewed[1], until_ns))

    def _silence_before(
        self, name: str, drafts: Sequence[_Draft], index: int, event: StopKubelet
    ) -> None:
        """A last heartbeat that is stated may lie before what was posted, or happened to the Node, until the stop."""
        last_ns = event.last_heartbeat_ns
        if last_ns is None:
            return
        for number, (draft, after) in enumerate(pairwise(drafts), start=1):
            if draft.stretch.status is not None and last_ns < after.stretch.begins[1]:
                silent = self._last_heartbeat(name, drafts[:number], index, event)
                before = draft.silent or silent
                draft.silent = min(silent[0], before[0]), max(silent[1], before[1])

    def _last_heartbeat(
        self, name: str, drafts: Sequence[_Draft], index: int, event: StopKubelet
    ) -> Span:
        """Of the newest of them."""
        last_ns, begins = event.last_heartbeat_ns, drafts[-1].stretch.begins
        heard_ns = self._heard_from_ns(name, [draft.stretch for draft in drafts])
        renewed = last_ns or 0, last_ns or 0
        if last_ns is None:
            given = self._snapshot, self._scenario, index, name, self._steps
            renewed = last_heartbeat_window(*given)
            if begins[0] not in (BEFORE_NS, begins[1]):
                return max(heard_ns, renewed[0]), renewed[1]
        # What it posts is heard as well, and an older Lease counts once more a tick later.
        high_ns = max(renewed[1], begins[1] + (self.step_max_ns if renewed[0] < begins[1] else 0))
        return max(renewed[0], heard_ns), high_ns

    def _heard_from_ns(self, name: str, stretches: Sequence[Stretch]) -> int:
        """From when on what the newest of these posts counts as a sign of life, at the earliest.

        Times in conditions are whole seconds, and a heartbeat is a time that differs: what is posted within the second of what a tick
        saw before is none. (``tryUpdateNodeHealth``, all releases)
        """
        heard_ns = stretches[-1].begins[0]
        for before in reversed(stretches[:-1]):
            posted_ns = before.begins[1]
            if posted_ns == BEFORE_NS:
                posted_ns = self._posted_at_start_ns(name)
            if posted_ns <= heard_ns - SECOND_NS:
                break
            heard_ns = min(heard_ns, before.begins[0])
        return heard_ns

    def _posted_at_start_ns(self, name: str) -> int:
        """When the status of the start was posted, as an offset."""
        node = self._nodes.get(name)
        ready = None if node is None else node.condition(READY)
        if ready is None or ready.last_heartbeat_time_ns is None:
            return BEFORE_NS
        return ready.last_heartbeat_time_ns - self._scenario.start_ns

    def _heard_once_more(self, silent: Span, last_ns: int) -> Span:
        """Where a silent kubelet is: a tick may give it up before that, and then nothing changes."""
        given_up_ns = self._noticed(silent)[1]
        return silent if given_up_ns < last_ns else (silent[0], max(silent[1], last_ns))

    def _given_up(self, name: str, draft: _Draft) -> Span | None:
        stretch = draft.stretch
        if stretch.status in (None, UNKNOWN) or not self._configuration.node_lifecycle_enabled:
            return None
        if stretch.status == NOT_POSTED:
            # The startup grace period counts from its creation, or from what a process heard later; of a name
            # that was there before, from what the process remembers of that.
            counts_ns = draft.created_ns
            if self._counts_anew is not None or self._all_down_until_ns is not None:
                # Where all zones were down it counts from then: from before its creation, if a clock is wrong.
                counts_ns = min(counts_ns, max(stretch.begins[0], 0))
            deadline_ns = counts_ns + self._configuration.node_startup_grace_period_ns
            return max(stretch.begins[0], deadline_ns, 0), NEVER_NS
        if self._renews_too_slowly(name):
            return max(stretch.begins[0], 0), NEVER_NS
        if draft.silent is None:
            return None
        earliest_ns, latest_ns = self._noticed(draft.silent)
        earliest_ns = max(earliest_ns, stretch.begins[0])
        if earliest_ns > stretch.ends[1]:
            return None
        sure = latest_ns <= stretch.ends[0] and not stretch.passed_over
        return earliest_ns, latest_ns if sure else NEVER_NS

    def _renews_too_slowly(self, name: str) -> bool:
        grace_ns = self._configuration.node_monitor_grace_period_ns
        longest_ns = longest_renewal_ns(self._snapshot.leases.get(name))
        # However late a tick is, it looks for a new Lease before it gives a node up.
        return longest_ns >= grace_ns - (self.step_max_ns - self._late.tick_ns)

    def _noticed(self, heartbeat: Span) -> Span:
        """When a tick may give up a node of that last heartbeat, and until when one surely has."""
        least_ns, most_ns = self._noticing.until_given_up
        earliest_ns, latest_ns = NEVER_NS, NEVER_NS
        for life in self.lives:
            first_ns, last_ns = self._noticed_by(life, heartbeat, least_ns, most_ns)
            if self._counts_anew is not None and last_ns >= self._counts_anew[0]:
                last_ns = max(last_ns, self._counts_anew[1] + 2 * self.step_max_ns + most_ns)
            if first_ns <= life.ends_ns:
                earliest_ns = min(earliest_ns, first_ns)
            if last_ns <= life.ends_ns:
                latest_ns = min(latest_ns, last_ns)
        return earliest_ns, latest_ns

    def _noticed_by(self, life: ProcessLife, heartbeat: Span, least_ns: int, most_ns: int) -> Span:
        if not life.warm:
            # A new process takes what it sees first for a heartbeat.
            first_ns = max(heartbeat[0], life.begins[0]) + least_ns
            return first_ns, max(heartbeat[1] + self.step_max_ns, life.begins[1]) + most_ns
        leader_ns = self._snapshot.control_plane.leader_acquire_time_ns
        since_ns = BEFORE_NS if leader_ns is None else leader_ns - self._scenario.start_ns
        if heartbeat[1] == BEFORE_NS:
            return 0, NEVER_NS
        earliest_ns, latest_ns = self._noticing.given_up(heartbeat)
        if self._all_down_until_ns is not None:
            since_ns = max(since_ns, self._all_down_until_ns)  # grace periods begin anew
        if since_ns >= heartbeat[0]:
            # The present process may have seen it for the first time when it began.
            latest_ns = max(latest_ns, since_ns + 2 * self.step_max_ns + most_ns)
        return earliest_ns, latest_ns

    # -- taints -----------------------------------------------------------------------------------------

    def _of_lifecycle(self, stretches: Sequence[Stretch]) -> Iterator[Standing]:
        """What passes and ticks may write: the taint that fits the status, as long as it may last."""
        waited = False
        for stretch in stretches:
            if stretch.status == FALSE:
                yield from self._standing(NOT_READY, stretch.reaches, stretches)
                waited = True
            if stretch.status == UNKNOWN:
                yield from self._standing(UNREACHABLE, stretch.reaches, stretches)
                waited = True
            elif stretch.unknown is not None:
                low_ns = stretch.unknown[0]
                if not waited and stretch.status == TRUE and self._decides_one_tick_later():
                    low_ns += self._configuration.node_monitor_period_ns
                waited = True
                if low_ns <= stretch.ends[1]:
                    yield from self._standing(UNREACHABLE, (low_ns, stretch.ends[1]), stretches)

    def _decides_one_tick_later(self) -> bool:
        """Whether the tick that writes Ready=Unknown leaves it to the next one to put the node in line."""
        return not self._configuration.profile.taint_on_current_condition and len(self.lives) == 1

    def _standing(
        self, key: str, may_be_put: Span, stretches: Sequence[Stretch]
    ) -> Iterator[Standing]:
        for life in self.lives:
            low_ns = max(may_be_put[0], life.begins[0], 0)
            # What a pass asks for is written, whatever has become of the node by then.
            high_ns = min(may_be_put[1] + self._late.pass_ns, life.ends_ns)
            if low_ns <= high_ns:
                until_ns = self._taken_off(high_ns, stretches)
                yield Standing(Taint(key, NO_EXECUTE), (low_ns, high_ns), until_ns)

    def _taken_off(self, at_ns: int, stretches: Sequence[Stretch]) -> int:
        """When a taint of node lifecycle that stands at that instant is off at the latest."""
        for stretch in stretches:
            end_ns = stretch.ends[0]
            if stretch.unknown is not None:
                end_ns = min(end_ns, stretch.unknown[0])
            if stretch.status is None and stretch.reaches[1] > at_ns:
                return max(at_ns, stretch.begins[1])
            if stretch.status != TRUE or end_ns <= at_ns:
                continue
            tick_ns = self._tick_surely_after(max(at_ns, stretch.begins[1], 0))
            if tick_ns < end_ns:
                return tick_ns
        return NEVER_NS

    def _tick_surely_after(self, at_ns: int) -> int:
        """Until when a tick has surely come that began at that instant or later."""
        for life in self.lives:
            tick_ns = max(at_ns + self.step_max_ns, life.begins[1])
            if not life.warm and life.begins[0] > at_ns:
                tick_ns = life.begins[1]
            if tick_ns + _TIE_NS < life.ends_ns:
                return tick_ns + _TIE_NS
        return NEVER_NS

    def _of_people(self, name: str, stretches: Sequence[Stretch]) -> Iterator[Standing]:
        """What is on the node at the start, when it is created, and what people put on it."""
        node = self._nodes.get(name)
        put: list[tuple[Taint, int, int]] = []
        if node is not None:
            put += [(taint, BEFORE_NS, -1) for taint in no_execute_taints(node.taints)]
        for index, event in self._events.get(name, ()):
            if isinstance(event, AddTaint) and event.taint.effect == NO_EXECUTE:
                put.append((event.taint, event.at_ns, index))
            elif event.node is not None:
                taints = no_execute_taints(event.node.taints)
                put += [(taint, event.at_ns, index) for taint in taints]
        for taint, at_ns, index in put:
            later = (event for i, event in self._events.get(name, ()) if i > index)
            until_ns = self._removed(later, taint, at_ns, stretches)
            yield Standing(taint, (at_ns, at_ns), until_ns, at_start=at_ns == BEFORE_NS)

    def _removed(
        self, later: Iterable[ScenarioEvent], taint: Taint, at_ns: int, stretches: Sequence[Stretch]
    ) -> int:
        """Until when it stands that is put on at that instant; events of one instant happen in their order."""
        by_people = (event.at_ns for event in later if self._takes_off(event, taint))
        removed_ns = next(by_people, NEVER_NS)
        if is_lifecycle_no_execute(taint) and self._configuration.taint_mode:
            # A tick that began before may put it back where it found another one.
            return min(removed_ns, self._taken_off(at_ns, stretches))
        return removed_ns

    @staticmethod
    def _takes_off(event: ScenarioEvent, taint: Taint) -> bool:
        if isinstance(event, RemoveTaint):
            return event.removal.removes(taint.key, taint.effect)
        if isinstance(event, AddTaint):
            # One of that key and effect takes its place, whatever its value.
            return key_and_effect(event.taint) == key_and_effect(taint)
        return isinstance(event, DeleteNode)


class _Draft(msgspec.Struct):
    """A stretch that is being made.

    ``silent`` is the last heartbeat in it, before its kubelet falls silent; ``created_ns`` the creationTimestamp of its Node,
    as an offset, where it was there at the start.
    """

    stretch: Stretch
    silent: Span | None = None
    created_ns: int = BEFORE_NS
