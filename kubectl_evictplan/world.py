"""The one seam to everything that differs between two runs: clocks, sleeping, chance."""

from __future__ import annotations

import hashlib
import os
import random
import time
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


def process_alive(pid: int) -> bool:
    """Tell whether a process of this machine has this ID; one that may not be asked is alive."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def boot_session(libc: Any = None) -> bytes:
    """Return what macOS calls this boot (sysctl kern.bootsessionuuid); empty where there is no such thing."""
    import ctypes

    libc = ctypes.CDLL(None) if libc is None else libc
    found = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(found))
    try:
        failed = libc.sysctlbyname(b"kern.bootsessionuuid", found, ctypes.byref(size), None, 0)
    except AttributeError:
        return b""
    return b"" if failed else found.value


@cache
def machine() -> str:
    """Return what process IDs of this process count for: one boot of one machine, one PID namespace.

    Equal for two processes that see each other, different for machines that share a host name, for
    clones of one image and for containers. macOS tells the boot and has no such namespaces. Where nobody tells,
    it is this process's alone, so that no other is ever taken for one that can be asked about here.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
        namespace = bytes(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot, namespace = boot_session(), b""
    if not boot:
        return uuid.uuid4().hex
    return hashlib.sha256(boot + b" " + namespace).hexdigest()[:32]


class World(NamedTuple):
    """What reading and changing a live cluster takes from outside; tests hand in their own.

    ``monotonic`` and ``sleep`` are in seconds, ``wall_ns`` in nanoseconds since the Unix epoch,
    ``chance`` returns a float of [0, 1). ``read_seconds_max`` bounds the silence between two
    pieces of one answer. ``process_alive`` tells of the processes of this machine.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    read_seconds_max: float = 30.0
    process_alive: Callable[[int], bool] = process_alive
