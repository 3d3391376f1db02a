"""Whether the machine kept up: what came late on a machine that stalled says nothing about what was predicted."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from kubelets import Kubelets
from plane import ControlPlane

STALL_LIMIT_SECONDS = 0.4


class Stalls:
    """The longest time by which anything came late since it was begun: threads, fake kubelets, or whole seconds for
    which the control plane's threads waited for a processor.
    """

    def __init__(self, plane: ControlPlane, kubelets: Kubelets) -> None:
        self._plane, self._kubelets = plane, kubelets
        self._ended = False
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """Up to now."""
        return max(self._seconds, self._kubelets.stall_seconds)

    @property
    def is_sound(self) -> bool:
        """Whether what happened meanwhile proves anything."""
        return self.seconds <= STALL_LIMIT_SECONDS

    def begin(self) -> None:
        """Measure from now on; what came late before does not count."""
        self._kubelets.stall_seconds = 0.0
        threading.Thread(target=self._measure, daemon=True).start()

    def end(self) -> None:
        """Measure no more."""
        self._ended = True

    def was_late(self, seconds: float) -> None:
        """Count what somebody else found to be late."""
        self._seconds = max(self._seconds, seconds)

    def __enter__(self) -> Stalls:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def _measure(self) -> None:
        waited, looked = self._plane.waited_seconds(), time.monotonic()
        while not self._ended:
            before = time.monotonic()
            time.sleep(0.05)
            self.was_late(time.monotonic() - before - 0.05)
            if before - looked >= 1.0:
                now = self._plane.waited_seconds()
                self.was_late(now - waited)
                waited, looked = now, before
