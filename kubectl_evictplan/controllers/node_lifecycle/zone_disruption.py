"""Zone states, and the limiter that each state gets.

Upstream: ``ComputeZoneState``, ``handleDisruption``, ``setLimiterInZone``. In one line: a zone state is
computed from the counts of ready and not ready nodes; only a *change* of state touches a limiter;
"every zone full" is a mode of its own (master disruption).

| every zone Full now | every zone was Full | what happens |
|---|---|---|
| yes | yes | nothing |
| yes | no  | ENTER: untaint all, rate 0 everywhere |
| no  | yes | EXIT: all probes restart, limiter by state everywhere |
| no  | no  | limiter by state where the state changed |
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import float32

INITIAL = "Initial"
NORMAL = "Normal"
PARTIAL = "PartialDisruption"
FULL = "FullDisruption"
# Stored for a zone without a counted node that upstream's walk did not reach.
EMPTY = ""


class ZoneCount(NamedTuple):
    """Counted nodes of one zone in one tick."""

    ready: int
    not_ready: int

    @property
    def size(self) -> int:
        """Number of counted nodes: what the large-cluster threshold is compared with."""
        return self.ready + self.not_ready


class Transition(Enum):
    """What the four-way table above says."""

    NOTHING = "nothing"
    ENTER = "enter"
    EXIT = "exit"
    CHANGED = "changed"


class Disruption(NamedTuple):
    """Which row of the table applies, and every zone's next state."""

    transition: Transition
    # Zone states without the vanished zones, before the new ones are stored.
    remaining: dict[str, str]
    new: dict[str, str]


def compute_zone_state(count: ZoneCount, unhealthy_threshold: float) -> str:
    """``ComputeZoneState``: float32 on both sides, so that 11 of 20 reaches 0.55."""
    if count.ready == 0 and count.not_ready > 0:
        return FULL
    if count.not_ready > 2 and float32(count.not_ready / count.size) >= float32(
        unhealthy_threshold
    ):
        return PARTIAL
    return NORMAL


def handle_disruption(
    counts: Mapping[str, ZoneCount],
    states: Mapping[str, str],
    unhealthy_threshold: float,
    *,
    backwards: bool = False,
) -> Disruption:
    """``handleDisruption`` as data; the caller carries it out.

    Upstream walks a hash map; zones are walked in sorted order here, or ``backwards``. It matters only
    for zones that vanish in the very tick in which another one is not full.
    """
    new = {
        zone: compute_zone_state(count, unhealthy_threshold)
        for zone, count in sorted(counts.items())
    }
    all_are_full = all(state == FULL for state in new.values())
    remaining = dict(sorted(states.items()))
    for zone in new:
        remaining.setdefault(zone, INITIAL)
    all_were_full = True
    for zone in sorted(remaining, reverse=backwards):
        if zone not in counts:
            del remaining[zone]
        elif remaining[zone] != FULL:
            all_were_full = False
            break
    if all_are_full and all_were_full:
        return Disruption(Transition.NOTHING, remaining, new)
    if all_are_full:
        return Disruption(Transition.ENTER, remaining, new)
    if all_were_full:
        return Disruption(Transition.EXIT, remaining, new)
    return Disruption(Transition.CHANGED, remaining, new)


def limiter_rate_qps(
    state: str, size: int, *, rate_qps: float, secondary_qps: float, large_threshold: int
) -> float | None:
    """``setLimiterInZone``: nodes per second for a state; None leaves the limiter alone."""
    if state in (NORMAL, FULL):
        return rate_qps
    if state == PARTIAL:
        return secondary_qps if size > large_threshold else 0.0
    return None
