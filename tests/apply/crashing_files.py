"""Files in memory that lose what was not synced, and a process that can be killed at every step."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubectl_evictplan.apply.files import AppendOnly, Held


class Killed(BaseException):
    """The process ends here. Not an Exception: no handler of the program may survive it."""


class Killer:
    """Counts steps; kills the process at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.steps = 0

    def step(self) -> None:
        """Pass one point at which a process can die."""
        self.steps += 1
        if self.steps - 1 == self.at:
            raise Killed


@dataclass
class Stored:
    """``durable`` survives a power loss; ``named``: so does the name in its directory."""

    written: bytes = b""
    durable: bytes = b""
    named: bool = False
    locked: bool = False
    reserved: int = 0


@dataclass
class HeldRun:
    """Implements ``Held``."""

    held: set[str]
    run_id: str

    def release(self) -> None:
        self.held.discard(self.run_id)


class CrashingFiles:
    """Implements ``Files``. ``fail``: raises OSError for the n-th sync or append from now.

    ``room``: bytes that are left on the disk, None for any number. ``held`` are runs; who may write ``held`` at
    all says ``can_hold``.
    """

    def __init__(self) -> None:
        self.stored: dict[Path, Stored] = {}
        self.killer = Killer()
        self.full_at: int | None = None
        self.syncs_fail_at: int | None = None
        self.appends = 0
        self.syncs = 0
        self.room: int | None = None
        self.held: set[str] = set()
        self.can_hold = True

    def crash(self, keep: Callable[[bytes], bytes]) -> None:
        """Lose power: of what was not synced, only ``keep`` of it is left."""
        self.held.clear()
        for path, stored in list(self.stored.items()):
            stored.locked = False
            self._give_back(stored)
            if not stored.named and not keep(b"x"):
                del self.stored[path]
                continue
            lost = stored.written.removeprefix(stored.durable)
            stored.written = stored.durable = stored.durable + keep(lost)

    def _give_back(self, stored: Stored) -> None:
        if self.room is not None:
            self.room += stored.reserved
        stored.reserved = 0

    def hold(self, run_id: str) -> Held:
        if not self.can_hold:
            raise OSError(errno.EROFS, "Read-only file system", "/state/runs.lock")
        if run_id in self.held:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable")
        self.held.add(run_id)
        return HeldRun(self.held, run_id)

    def create(self, path: Path) -> AppendOnly:
        self.killer.step()
        if path in self.stored:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        self.stored[path] = Stored()
        self.killer.step()
        return self.open(path)

    def open(self, path: Path) -> AppendOnly:
        if path not in self.stored:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        if self.stored[path].locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable")
        self.stored[path].locked = True
        return CrashingFile(self, self.stored[path])

    def read(self, path: Path) -> bytes:
        if path not in self.stored:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return self.stored[path].written

    def locked(self, path: Path) -> bool:
        return self.stored[path].locked

    def remove(self, path: Path) -> None:
        self.killer.step()
        del self.stored[path]

    def sync_directory(self, path: Path) -> None:
        self.killer.step()
        self.stored[path].named = True
        self.killer.step()


class CrashingFile:
    """Implements ``AppendOnly``."""

    def __init__(self, files: CrashingFiles, stored: Stored) -> None:
        self._files = files
        self._stored = stored

    def append(self, data: bytes) -> None:
        self._files.killer.step()
        self._files.appends += 1
        if self._files.full_at is not None and self._files.appends >= self._files.full_at:
            self._stored.written += data[: len(data) // 2]
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._files.room is not None:
            beyond = max(len(data) - self._stored.reserved, 0)
            if beyond > self._files.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            self._stored.reserved = max(self._stored.reserved - len(data), 0)
            self._files.room -= beyond
        self._stored.written += data
        self._files.killer.step()

    def sync(self) -> None:
        self._files.syncs += 1
        if self._files.syncs_fail_at is not None and self._files.syncs >= self._files.syncs_fail_at:
            raise OSError(errno.EIO, "Input/output error")
        self._stored.durable = self._stored.written
        self._files.killer.step()

    def truncate(self, size: int) -> None:
        self._files.killer.step()
        self._stored.written = self._stored.written[:size]
        self._stored.durable = self._stored.durable[:size]
        self._files.killer.step()

    def reserve(self, size: int) -> None:
        self._files.killer.step()
        more = size - self._stored.reserved
        if self._files.room is not None and more > self._files.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._files.room is not None and more > 0:
            self._files.room -= more
        self._stored.reserved = max(size, self._stored.reserved)
        self._files.killer.step()

    def close(self) -> None:
        self._stored.locked = False
        self._files._give_back(self._stored)
