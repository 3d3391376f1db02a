"""Files that only their owner reads, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from kubectl_evictplan.errors import Correction, InputError, Problem


def write_private(path: str, data: bytes, *, force: bool = False) -> None:
    """Write bytes atomically with mode 0600, whatever the umask; raises InputError."""
    import tempfile

    target = Path(path)
    try:
        _refuse_target(path, force=force)
        # Nobody else may read it. A part of the name, as a long one leaves no room: characters have up to 4 bytes.
        descriptor, name = tempfile.mkstemp(".tmp", f".{target.name[:50]}.", target.parent)
        temporary = Path(name)
        try:
            _write(descriptor, data)
            _publish(temporary, target, force=force)
        finally:
            # What has its name by now is written, whatever is left beside it.
            with contextlib.suppress(OSError):
                temporary.unlink()
        _sync_directory(target.parent)
    except FileExistsError:
        raise InputError(Problem("already exists (use --force)", location=path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        known = Correction((path,), (str(Path(tempfile.gettempdir(), target.name)),), example=True)
        raise InputError(Problem(f"cannot be written: {reason}", known, location=path)) from None


def _publish(temporary: Path, target: Path, *, force: bool) -> None:
    """Give the finished file its name."""
    if not force:
        try:
            # Unlike rename, link fails when the name was taken meanwhile.
            target.hardlink_to(temporary)
            return
        except FileExistsError:
            raise
        except OSError:
            # This file system has no links; the name was free a moment ago.
            pass
    temporary.replace(target)


def _refuse_target(path: str, *, force: bool) -> None:
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise InputError(Problem("not a regular file: it is not replaced", location=path))
    if not force:
        raise FileExistsError(path)


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as stream:
        if hasattr(os, "fchmod"):  # not on Windows, where the mode means nothing
            os.fchmod(descriptor, 0o600)
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    """Make the new name durable; file systems that cannot are left alone."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
