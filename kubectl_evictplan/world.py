"""The one seam to everything that differs between two runs: clocks, sleeping, chance."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple


class World(NamedTuple):
    """What reading and changing a live cluster takes from outside; tests hand in their own.

    ``monotonic`` and ``sleep`` are in seconds, ``wall_ns`` in nanoseconds since the Unix epoch,
    ``chance`` returns a float of [0, 1). ``read_seconds_max`` bounds the silence between two
    pieces of one answer.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    read_seconds_max: float = 30.0
