"""From the last heartbeat of a kubelet to the tick that gives its node up, by intervals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.windows.spans import Span


class Lateness(msgspec.Struct, frozen=True):
    """How much later than its period a tick can come or write, and how much later a pass can put its taint on, or be over."""

    tick_ns: int = 0
    pass_ns: int = 0


ON_TIME = Lateness()


class Noticing:
    """Of one monitor, whose ticks come between ``node_monitor_period_ns`` and ``step_max_ns`` apart.

    A node is found silent by the first tick at which its age reaches the grace period, counted from the first tick
    after its last heartbeat. With the phase these two ticks move together, so it costs one period of width, not two.
    """

    def __init__(self, configuration: ControllerConfiguration, step_max_ns: int) -> None:
        self._configuration = configuration
        self._period_ns = configuration.node_monitor_period_ns
        self._step_max_ns = step_max_ns
        # From when to when the tick of number 0 can come.
        self._phases: Sequence[Span] = configuration.monitor_phases_ns or ((0, step_max_ns - 1),)
        if configuration.monitor_phase_ns is not None:
            self._phases = ((configuration.monitor_phase_ns,) * 2,)

    def given_up(self, heartbeat: Span) -> Span:
        """When the monitor writes Ready=Unknown, if one process runs all the time."""
        low_ns, high_ns = heartbeat
        least_ns, most_ns = self.until_given_up
        seen = [self._seen_by(phase, heartbeat) for phase in self._phases]
        earliest_ns = max(low_ns, min(first_ns for first_ns, _ in seen)) + least_ns
        latest_ns = min(high_ns + self._step_max_ns - 1, max(last_ns for _, last_ns in seen))
        return max(earliest_ns, 0), max(latest_ns + most_ns, self._step_max_ns)

    def _seen_by(self, phase: Span, heartbeat: Span) -> Span:
        """From when to when ticks can come that may be the first to see it, if the one of number 0 comes within ``phase``."""
        after_ns, before_ns = heartbeat[0] - phase[1], heartbeat[1] + self._step_max_ns - phase[0]
        period_ns, step_max_ns = self._period_ns, self._step_max_ns
        # Before the start, where numbers are below 0, ticks that cost something lie further in the past.
        earliest = -(-after_ns // (step_max_ns if after_ns >= 0 else period_ns))
        latest = (before_ns - 1) // (period_ns if before_ns > 0 else step_max_ns)
        first_ns = phase[0] + earliest * (period_ns if earliest >= 0 else step_max_ns)
        return first_ns, phase[1] + latest * (step_max_ns if latest >= 0 else period_ns)

    @cached_property
    def until_given_up(self) -> Span:
        """From the tick that sees a last heartbeat first to the one that finds it too old."""
        grace_period_ns = self._configuration.node_monitor_grace_period_ns
        most = -(-grace_period_ns // self._period_ns)
        fewest = -(-grace_period_ns // self._step_max_ns)
        least_ns = most * self._period_ns if fewest == most else grace_period_ns
        # With ticks that cost just too little for one tick less, and one that costs all it can.
        too_early_ns = grace_period_ns - 1 if most > fewest else 0
        return least_ns, max(fewest * self._step_max_ns, too_early_ns + self._step_max_ns)
