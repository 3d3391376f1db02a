"""Being asked to stop: once settles what is under way, twice stops at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedAtOnce(KeyboardInterrupt):
    """A second signal. The journal holds the intent of whatever was under way; nothing is added.

    Not an Exception: nothing between the signal and the command line may take it for a fault. Before a run has begun, or
    when it has ended, it ends the program as any Ctrl-C does.
    """


class StoppedReading(BaseException):
    """A first signal while something is read: reading changes nothing, so nobody waits for its answer."""


class Stop:
    """Whether somebody asked for it; ``requested`` is looked at before every mutation."""

    def __init__(self) -> None:
        self.requested = False
        self.signal_name = ""
        self._is_reading = False

    def request(self, signal_name: str) -> None:
        """Ask for it; raises StoppedAtOnce when that was done before, StoppedReading while reading."""
        if self.requested:
            raise StoppedAtOnce
        self.requested = True
        self.signal_name = signal_name
        if self._is_reading:
            raise StoppedReading

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let a signal break off what is done within the block, which changes nothing: StoppedReading."""
        before, self._is_reading = self._is_reading, True
        try:
            yield
        finally:
            self._is_reading = before


@contextmanager
def signals_caught(stop: Stop) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into requests to stop, within the block.

    A signal that was ignored stays so (``nohup``).
    """

    def requested(number: int, _frame: FrameType | None) -> None:
        stop.request(signal.Signals(number).name)

    before = {}
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            # None: installed by somebody else than Python, which cannot be given back.
            before[number] = signal.signal(number, requested) or signal.SIG_DFL
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
