"""Two releases side by side on one machine: who records what happens is not disturbed by who starts.

A control plane that starts takes all cores for some seconds, and a recording that stalls is worth nothing.
Recordings go on beside each other, as they mostly wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Wait until nobody records or starts; others wait for the length of the block."""
    with _held(fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Wait until nobody starts; who wants to waits for the length of the block."""
    with _held(fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def _held(how: int) -> Iterator[None]:
    # All runs on this machine have it in common; the system gives it back when a process dies.
    with (Path(tempfile.gettempdir()) / f"evictplan-e2e-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield
