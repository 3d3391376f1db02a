"""A disk that dies, or fails, at any step of writing a file: the steps themselves are real."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from typing import Any

import pytest

# What a file is written, named and made durable with.
CALLS = ("open", "fchmod", "fsync", "link", "replace", "unlink")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)


class Killed(BaseException):
    """The process ends here: what runs afterwards, handlers and all, reaches no disk any more."""


class Disk:
    """Counts the steps of this process; at ``dies_at`` all of it ends, at ``fails_at`` one step fails with ``error``.

    Before and after each step it can die; a write can also stop half way. ``unsynced`` are descriptors with bytes that a
    power loss would take.
    """

    def __init__(self, dies_at: int = -1, fails_at: int = -1, error: int = errno.ENOSPC) -> None:
        self.dies_at, self.fails_at, self.error = dies_at, fails_at, error
        self.points = 0
        self.calls = 0
        self.dead = False
        self.unsynced: set[int] = set()

    def point(self) -> None:
        """Pass one instant at which a process can be killed."""
        self.dead = self.dead or self.points == self.dies_at
        self.points += 1
        if self.dead:
            raise Killed

    def call(self, do: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Do one step, or fail at it."""
        self.point()
        self.calls += 1
        if self.calls - 1 == self.fails_at:
            raise OSError(self.error, os.strerror(self.error))
        result = do(*arguments, **named)
        self.point()
        return result

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process write through it."""
        for name in CALLS:
            monkeypatch.setattr(os, name, self._through(name, getattr(os, name)))
        monkeypatch.setattr(os, "fdopen", self._opened)

    def _through(self, name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def through(*arguments: Any, **named: Any) -> Any:
            if name in ("link", "replace"):
                assert not self.unsynced, "a name is given to bytes that a power loss would take"
            result = self.call(do, *arguments, **named)
            if name == "fsync":
                self.unsynced.discard(arguments[0])
            return result

        return through

    def _opened(self, descriptor: int, mode: str) -> io.BufferedWriter:
        assert mode == "wb"
        return io.BufferedWriter(_Torn(self, descriptor))


class _Torn(io.FileIO):
    """A file whose writes stop half way when its disk dies or is full."""

    def __init__(self, disk: Disk, descriptor: int) -> None:
        super().__init__(descriptor, "wb")
        self._disk = disk

    def write(self, data: Any) -> int:
        half = bytes(data)[: max(len(data) // 2, 1)]
        self._disk.unsynced.add(self.fileno())
        return int(self._disk.call(super().write, half))
