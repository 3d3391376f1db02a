"""The states of all zones, and the limiters that follow them.

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

import msgspec

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    MasterDisruptionEntered,
    ZoneStateAtStart,
    ZoneStateChanged,
    ZoneStateRecorded,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import float32
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneCount, ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_queues import ZoneQueues
from kubectl_evictplan.kube.topology import zone_display_name

INITIAL = "Initial"
NORMAL = "Normal"
PARTIAL = "PartialDisruption"
FULL = "FullDisruption"
# Stored for a zone without a counted node that upstream's walk did not reach.
EMPTY = ""
# Told of a start: stands for zones that have lost their last node, and were not Full. No key of a zone is like this.
LOST_ZONE = "lost"
_NOBODY = ZoneCount(0, 0)


class Transition(Enum):
    """The table above: (every zone is Full now, every zone was Full)."""

    NOTHING = (True, True)
    ENTER = (True, False)
    EXIT = (False, True)
    CHANGED = (False, False)


class Disruption(msgspec.Struct, frozen=True):
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
    return Disruption(Transition((all_are_full, all_were_full)), remaining, new)


def limiter_rate_qps(state: str, size: int, configuration: ControllerConfiguration) -> float | None:
    """``setLimiterInZone``: nodes per second for a state; None leaves the limiter alone."""
    if state in (NORMAL, FULL):
        return configuration.node_eviction_rate_qps
    if state == PARTIAL:
        is_large = size > configuration.large_cluster_size_threshold
        return configuration.secondary_node_eviction_rate_qps if is_large else 0.0
    return None


class ZoneStates(msgspec.Struct, eq=False):
    """``zoneStates`` with its limiters.

    The part of a transition that concerns nodes (untaint all, restart all probes) is the node lifecycle
    controller's own. ``_backwards``: zones are walked from the last to the first.
    """

    _state: ClusterState
    _configuration: ControllerConfiguration
    _zones: ZoneMembership
    _queues: ZoneQueues
    _backwards: bool
    _states: dict[str, str] = {}
    # As the last tick found them.
    _before: dict[str, str] = {}
    # A tick of before the start has found every zone Full.
    all_full_at_start: bool = False

    def __contains__(self, zone: str) -> bool:
        return zone in self._states

    @property
    def unsettled(self) -> bool:
        """The last tick left other states than it found: the next one may act without any input."""
        return self._states != self._before

    def create_missing(self) -> None:
        """A tick begins: ``addPodEvictorForNewZone`` for zones that have no state."""
        self._before = dict(self._states)
        for zone in self._zones.populated():
            if zone not in self._states:
                self._states[zone] = INITIAL
                self._queues.create(zone)

    def load(self, told: Mapping[str, str]) -> None:
        """States and limiters as a controller that has been running for long would hold them.

        ``told``: zones that its newest tick has left in other states than they are in now. With ``LOST_ZONE`` among them no tick
        was the first to find every zone Full, for when the last one that was not vanishes the others were Full before: they are served.
        """
        counts = self._zones.counts()
        threshold = self._configuration.unhealthy_zone_threshold
        for zone in self._zones.populated():
            self._queues.create(zone)
            count = counts.get(zone)
            self._states[zone] = EMPTY if count is None else compute_zone_state(count, threshold)
            self._states[zone] = told.get(zone, self._states[zone])
        self._states = handle_disruption(counts, self._states, threshold).remaining
        every_full = all(self._states[zone] == FULL for zone in counts)
        self.all_full_at_start = every_full and LOST_ZONE not in told
        for zone in sorted(counts):
            if self.all_full_at_start:
                self._queues.swap_limiter(zone, 0.0)
            else:
                self._set_limiter(zone, self._states[zone], counts[zone])
            self._record(zone, counts[zone], ZoneStateAtStart)
        if not told:  # else the first tick finds other states
            self._before = dict(self._states)

    def handle_disruption(self) -> Transition:
        """``handleDisruption``; the nodes' part of ENTER and EXIT is the caller's."""
        counts = self._zones.counts()
        outcome = handle_disruption(
            counts,
            self._states,
            self._configuration.unhealthy_zone_threshold,
            backwards=self._backwards,
        )
        self._states = outcome.remaining
        if outcome.transition is Transition.ENTER:
            self._state.record(MasterDisruptionEntered, ())
        if outcome.transition in (Transition.EXIT, Transition.CHANGED):
            for zone, state in list(self._states.items()):
                new, count = outcome.new.get(zone, EMPTY), counts.get(zone, _NOBODY)
                if outcome.transition is Transition.EXIT or state != new:
                    self._set_limiter(zone, new, count)
                    self._enter(zone, new, count)
        return outcome.transition

    def enter_master_disruption(self) -> None:
        """Every zone is Full: no limiter lets anybody through."""
        counts = self._zones.counts()
        for zone in list(self._states):
            self._queues.swap_limiter(zone, 0.0)
            self._enter(zone, FULL, counts.get(zone, _NOBODY))

    def _enter(self, zone: str, state: str, count: ZoneCount) -> None:
        if self._states[zone] != state:
            self._states[zone] = state
            self._record(zone, count, ZoneStateChanged)

    def _set_limiter(self, zone: str, state: str, count: ZoneCount) -> None:
        rate = limiter_rate_qps(state, count.size, self._configuration)
        if rate is not None:
            self._queues.swap_limiter(zone, rate)

    def _record(self, zone: str, count: ZoneCount, kind: type[ZoneStateRecorded]) -> None:
        state, rate_qps = self._states[zone], self._queues.rate_of(zone)
        if state not in (EMPTY, INITIAL):
            name = zone_display_name(zone)
            self._state.record(kind, (), name, state, count.ready, count.not_ready, rate_qps)
