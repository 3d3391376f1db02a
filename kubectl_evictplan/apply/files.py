"""The seam to the file system: everything that a journal asks of it, one durable step at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

JOURNAL_MODE = 0o600


class AppendOnly(Protocol):
    """A locked file that only grows. Every method may raise OSError."""

    def append(self, data: bytes) -> None:
        """Hand all of ``data`` to the operating system."""

    def sync(self) -> None:
        """Return when everything appended so far survives a power loss."""

    def truncate(self, size: int) -> None:
        """Drop what lies behind the first ``size`` bytes."""

    def close(self) -> None:
        """Close the file and give its lock back."""


class Files(Protocol):
    """What a journal needs of a file system."""

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

    def truncate(self, size: int) -> None:
        """Drop what lies behind the first ``size`` bytes."""
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        """Close the file and give its lock back."""
        os.close(self._descriptor)


class LocalFiles:
    """The file system of this machine. A symbolic link is never followed."""

    def create(self, path: Path) -> AppendOnly:
        """Create and lock a file that only its owner may read; FileExistsError when it is there."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        return LocalFile(os.open(path, flags, JOURNAL_MODE))

    def open(self, path: Path) -> AppendOnly:
        """Open and lock an existing file; BlockingIOError while another process holds it."""
        return LocalFile(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW))

    def read(self, path: Path) -> bytes:
        """Return the whole content."""
        return path.read_bytes()

    def locked(self, path: Path) -> bool:
        """Tell whether a process holds the file's lock."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
