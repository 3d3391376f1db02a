"""One choice of everything that nobody can know about a running control plane.

The simulation is exact for a given ``Timing``; the bounds are taken over many of them. All values
are nanoseconds.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.event_queue import Course, LoopGrid
from kubectl_evictplan.kube.durations import SECOND_NS

# A new kube-controller-manager has filled its informers, and its first monitor tick comes, within that.
INFORMERS_FILLED_MAX_NS = 5 * SECOND_NS


class Timing(msgspec.Struct, frozen=True, cache_hash=True):
    """Phases, costs and races of one admissible run.

    ``monitor_phase_ns``: from the scenario's start to the first monitor tick.
    ``monitor_cost_ns`` / ``pass_cost_ns``: added to every period of the loop.
    ``monitor_courses``: where the monitor ticks instead, as offsets from the start, when its ticks do not all cost
    the same: one course for each process of the run, in order; that of a process which begins at an instant begins there.
    ``pass_phase_ns``: from a monitor tick of the first run to the first pass.
    ``serves_queues``: False leaves waiting nodes waiting: what their zones' queues are told is recorded
    all the same, and the order of service is explored apart from the run.
    ``mid_tick_pass``: a tick is not instantaneous; a pass falls between its node steps and its zone
    logic.
    ``stale_lister``: from 1.34 on, that pass still sees Ready=True and wastes its token.
    ``zones_backwards``: ``handleDisruption`` walks the zones from the last to the first.
    ``zone_states``: the states of some zones (key, state) as the newest tick before a warm start left them; the others are as the
    snapshot shows them.
    ``still_in_line``: nodes that are in line at a warm start although they have the taint: see ``windows/spent_tokens.still_in_line``.
    ``early_in_line``: without taint manager, nodes that are in line at a warm start for a Ready=False of before they fell silent.
    ``probes_anew_ticks``: so many ticks before a warm start all grace periods began anew (1: with the newest one), for it ended that all
    zones were down; 0: with none that matters.
    ``posted_late``: nodes of which a tick of the second in which they came to be as they are at a warm start has not seen that yet.
    ``initial_token``: whether a zone with waiting nodes has a token at a warm start.
    ``pod_gc_phase_ns``: from the start to the first pod garbage collection loop.
    ``pod_gc_cost_ns``: added to every period of that loop.
    ``pod_gc_lag_ns``: how long after its 40 s the name of a missing node leaves quarantine; with more
    than the cost of two loops the one 40 s after the first sighting finds it still there.
    ``pod_gc_sightings``: how many loops have missed a node before the start that never existed.
    ``timer_start_fraction``: where in its window a timer of a warm start began (0 earliest, 1 latest); None: where the
    taints tell it.
    ``stale_nil``: "grace0" leaves the NIL key of a pod that vanished at once, "never" not.
    ``pod_exit_fraction``: how much of its grace period a deleted pod uses (0: none, 1: all of it).
    ``drain``: what is unknown about drains; without one in the scenario nothing asks for it.
    ``late_pod_items``: keys of pods whose DELETE item is handled only after the name is re-used.
    """

    monitor_phase_ns: int = 0
    monitor_cost_ns: int = 0
    monitor_courses: tuple[Course, ...] = ()
    pass_phase_ns: int = 0
    pass_cost_ns: int = 0
    serves_queues: bool = True
    mid_tick_pass: bool = False
    stale_lister: bool = False
    zones_backwards: bool = False
    zone_states: tuple[tuple[str, str], ...] = ()
    still_in_line: tuple[str, ...] = ()
    early_in_line: tuple[str, ...] = ()
    probes_anew_ticks: int = 0
    posted_late: tuple[str, ...] = ()
    initial_token: bool = True
    pod_gc_phase_ns: int = 0
    pod_gc_cost_ns: int = 0
    pod_gc_lag_ns: int = 0
    pod_gc_sightings: int = 0
    timer_start_fraction: float | None = None
    stale_nil: str = "grace0"
    pod_exit_fraction: float = 1.0
    late_pod_items: frozenset[str] = frozenset()
    drain: DrainTiming = DrainTiming()

    def ticks(self, first_ns: int, period_ns: int, origin_ns: int = 0, *, warm: bool) -> LoopGrid:
        """The ticks of one process: ``warm``, it runs since long before the start, else it begins at ``first_ns``.

        ``origin_ns`` is the scenario's start, where instants are not offsets from it.
        """
        if self.monitor_courses and warm:
            return LoopGrid.of_course(self.monitor_courses[0], origin_ns, unbounded=True)
        # Of several that begin at one instant only the last one lives to tick.
        for course in reversed(self.monitor_courses):
            if origin_ns + course[0][0] == first_ns:
                return LoopGrid.of_course(course, origin_ns, unbounded=False)
        return LoopGrid(first_ns, period_ns + self.monitor_cost_ns, unbounded=warm)

    def passes(self, first_tick_ns: int, period_ns: int, *, warm: bool) -> LoopGrid:
        """The passes of the process whose first tick comes then."""
        first_ns, step_ns = first_tick_ns + self.pass_phase_ns, period_ns + self.pass_cost_ns
        return LoopGrid(first_ns, step_ns, unbounded=warm)
