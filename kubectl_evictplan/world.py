"""The one seam to everything that differs between two runs: clocks, sleeping, chance."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import NamedTuple


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
