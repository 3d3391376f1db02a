"""When a ``wait.Until`` loop runs: first run, then every period plus the cost of one run.

Upstream measures the period from the end of a run, so with a cost ``d``
the k-th run starts at ``first + k * (period + d)``. A loop that has been running for long has no
first run that matters: its grid reaches into the past.
"""

from __future__ import annotations


class LoopGrid:
    """The instants of one loop, in nanoseconds."""

    __slots__ = ("first_ns", "step_ns", "unbounded")

    def __init__(self, first_ns: int, step_ns: int, *, unbounded: bool) -> None:
        assert step_ns > 0, "a loop needs a positive period"
        self.first_ns = first_ns
        self.step_ns = step_ns
        self.unbounded = unbounded

    def at_or_after(self, at_ns: int) -> int:
        """First run at or after ``at_ns``."""
        if at_ns <= self.first_ns and not self.unbounded:
            return self.first_ns
        return self.first_ns - (self.first_ns - at_ns) // self.step_ns * self.step_ns

    def after(self, at_ns: int) -> int:
        """First run strictly after ``at_ns``."""
        return self.at_or_after(at_ns + 1)

    def before(self, at_ns: int) -> int | None:
        """Last run strictly before ``at_ns``; None when the loop had not started."""
        run_ns = self.first_ns + (at_ns - 1 - self.first_ns) // self.step_ns * self.step_ns
        return run_ns if self.unbounded or run_ns >= self.first_ns else None
