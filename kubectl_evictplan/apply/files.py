"""The seam to the file system: everything that a journal asks of it, one durable step at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from pathlib import Path
from typing import Protocol

JOURNAL_MODE = 0o600
# A journal lies beside its plan: plan.json, plan.journal.jsonl.
JOURNAL_ENDING = ".journal.jsonl"
# One file for all runs of a user: a run holds one byte of it, by the digest of its name.
RUNS = Path("kubectl-evictplan", "runs.lock")
_OFFSET_BYTES = 7
# linux/falloc.h: blocks behind the end of the file, which stays where it is.
_FALLOC_FL_KEEP_SIZE = 1
_NOT_OFFERED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)


class AppendOnly(Protocol):
    """A locked file that only grows. Every method may raise OSError."""

    def append(self, data: bytes) -> None:
        """Hand all of ``data`` to the operating system."""

    def sync(self) -> None:
        """Return when everything appended so far survives a power loss; OSError also when the file has no name any more."""

    def truncate(self, size: int) -> None:
        """Drop what lies behind the first ``size`` bytes."""

    def reserve(self, size: int) -> None:
        """Take room on the disk for ``size`` more bytes; OSError (ENOSPC and the like) without it.

        Where the file system offers no such thing it is looked at whether there is that much room.
        """

    def close(self) -> None:
        """Close the file, give back its lock and what was reserved and not used."""


class Held(Protocol):
    """A run that this process holds."""

    def release(self) -> None:
        """Let others hold it."""


class Files(Protocol):
    """What a journal needs of a file system."""

    def hold(self, run_id: str) -> Held:
        """Hold a run by its name, so that a copy of its journal is not gone on with meanwhile.

        BlockingIOError while another process of this user does; any other OSError when nobody can tell.
        """

    def create(self, path: Path) -> AppendOnly:
        """Create and lock a file that only its owner may read; FileExistsError when it is there."""

    def open(self, path: Path) -> AppendOnly:
        """Open and lock an existing file; BlockingIOError while another process holds it."""

    def read(self, path: Path) -> bytes:
        """Return the whole content."""

    def locked(self, path: Path) -> bool:
        """Tell whether a process holds the file's lock."""

    def remove(self, path: Path) -> None:
        """Remove a file."""

    def sync_directory(self, path: Path) -> None:
        """Make the file's name in its directory survive a power loss."""


class LocalFile:
    """A file of this machine, locked with flock for as long as it is open."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise

    def append(self, data: bytes) -> None:
        """Hand all of ``data`` to the operating system."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        """Return when everything appended so far survives a power loss."""
        os.fsync(self._descriptor)
        if not os.fstat(self._descriptor).st_nlink:
            # Nobody will ever read it: what is written there is lost with this process.
            raise FileNotFoundError(errno.ENOENT, "the file was removed")

    def truncate(self, size: int) -> None:
        """Drop what lies behind the first ``size`` bytes."""
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int) -> None:
        """Take room on the disk for ``size`` more bytes, without changing what the file holds."""
        if not _allocated(self._descriptor, os.fstat(self._descriptor).st_size, size):
            found = os.fstatvfs(self._descriptor)
            if found.f_bavail * found.f_frsize < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file, give back its lock and what was reserved and not used."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size)
        os.close(self._descriptor)


def _allocated(descriptor: int, offset: int, size: int) -> bool:
    """Allocate blocks behind the end of a file; False where that is not offered.

    Not ``os.posix_fallocate``: it makes the file longer, and a journal ends with its last line.
    """
    import ctypes

    allocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if allocate is None:
        return False
    allocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    while allocate(descriptor, _FALLOC_FL_KEEP_SIZE, offset, size):
        error = ctypes.get_errno()
        if error in _NOT_OFFERED:
            return False
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return True


def _state_folder() -> Path:
    """Return the user's state folder; the XDG specification has relative paths ignored."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return named if named.is_absolute() else _home() / ".local" / "state"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise OSError(errno.ENOENT, str(error)) from None


class LocalHeld:
    """One byte of the user's file of runs, locked for as long as this process lives or holds it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others hold the run."""
        os.close(self._descriptor)


class LocalFiles:
    """The file system of this machine. A symbolic link is never written through, a pipe never waited for."""

    def hold(self, run_id: str) -> Held:
        """Hold a run by its name, in the user's state folder (XDG_STATE_HOME)."""
        path = _state_folder() / RUNS
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, JOURNAL_MODE)
        byte = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:_OFFSET_BYTES], "big")
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(error.errno, error.strerror) from None
            raise
        return LocalHeld(descriptor)

    def create(self, path: Path) -> AppendOnly:
        """Create and lock a file that only its owner may read; FileExistsError when it is there."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        return LocalFile(os.open(path, flags, JOURNAL_MODE))

    def open(self, path: Path) -> AppendOnly:
        """Open and lock an existing file; BlockingIOError while another process holds it."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        return LocalFile(os.open(path, flags))

    def read(self, path: Path) -> bytes:
        """Return the whole content."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            return stream.read()

    def locked(self, path: Path) -> bool:
        """Tell whether a process holds the file's lock."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def sync_directory(self, path: Path) -> None:
        """Make the file's name in its directory survive a power loss."""
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
