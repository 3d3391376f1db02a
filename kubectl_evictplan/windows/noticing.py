"""From the last heartbeat of a kubelet to the tick that gives its node up, by intervals."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.windows.spans import Span


class Noticing:
    """Of one monitor, whose ticks come between ``node_monitor_period_ns`` and ``step_max_ns`` apart.

    A node is found silent by the first tick at which its age reaches the grace period, counted from the first tick
    after its last heartbeat. With the phase these two ticks move together, so it costs one period of width, not two.
    """

    def __init__(self, configuration: ControllerConfiguration, step_max_ns: int) -> None:
        self._configuration = configuration
        self._period_ns = configuration.node_monitor_period_ns
        self._step_max_ns = step_max_ns

    def given_up(self, heartbeat: Span) -> Span:
        """When the monitor writes Ready=Unknown, if one process runs all the time."""
        low_ns, high_ns = heartbeat
        least_ns, most_ns = self.until_given_up()
        seen = [
            (max(low_ns, first_ns), min(high_ns + self._step_max_ns - 1, last_ns))
            for first_ns, last_ns in self._ticks_around(heartbeat)
            if last_ns >= low_ns and first_ns < high_ns + self._step_max_ns
        ]
        earliest_ns = max(min(first_ns for first_ns, _ in seen) + least_ns, 0)
        latest_ns = max(max(last_ns for _, last_ns in seen) + most_ns, self._step_max_ns)
        return earliest_ns, latest_ns

    def _ticks_around(self, heartbeat: Span) -> Iterator[Span]:
        """From when to when each tick can come that may be the first to see it."""
        configuration, step_max_ns = self._configuration, self._step_max_ns
        phases = configuration.monitor_phases_ns or ((0, step_max_ns - 1),)
        if configuration.monitor_phase_ns is not None:
            phases = ((configuration.monitor_phase_ns,) * 2,)
        for first_ns, last_ns in phases:
            ago_ns = heartbeat[0] - last_ns
            number = ago_ns // (step_max_ns if ago_ns >= 0 else self._period_ns) - 1
            while True:
                # Before the start ticks that cost something lie further in the past.
                steps = (self._period_ns, step_max_ns)[:: 1 if number >= 0 else -1]
                earliest_ns = first_ns + number * steps[0]
                if earliest_ns > heartbeat[1] + step_max_ns:
                    break
                yield earliest_ns, last_ns + number * steps[1]
                number += 1

    def until_given_up(self) -> Span:
        """From the tick that sees a last heartbeat first to the one that finds it too old."""
        grace_period_ns = self._configuration.node_monitor_grace_period_ns
        most = -(-grace_period_ns // self._period_ns)
        fewest = -(-grace_period_ns // self._step_max_ns)
        least_ns = most * self._period_ns if fewest == most else grace_period_ns
        # With ticks that cost just too little for one tick less.
        longest = [
            -(-number * grace_period_ns // (number - 1)) for number in range(fewest + 1, most + 1)
        ]
        return least_ns, max(fewest * self._step_max_ns, *longest, 0)
