"""The clock of simulated servers that other processes ask."""

from __future__ import annotations

import time

from kubectl_evictplan.world import World


class RealClock:
    """The machine's own clock, for servers that other processes ask."""

    def server_seconds(self) -> float:
        return time.time()

    def advance(self, seconds: float) -> None:
        """Leave it to the machine."""

    def world(self, read_seconds_max: float = 20.0) -> World:
        return World(read_seconds_max=read_seconds_max)
