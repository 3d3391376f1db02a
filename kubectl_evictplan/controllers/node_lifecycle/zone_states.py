"""The states of all zones, and the limiters that follow them.

Carries out what ``zone_disruption.handle_disruption`` finds; the part of a transition that concerns nodes
(untaint all, restart all probes) is the node lifecycle controller's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    MasterDisruptionEntered,
    ZoneStateAtStart,
    ZoneStateChanged,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_disruption import (
    EMPTY,
    FULL,
    INITIAL,
    Transition,
    ZoneCount,
    compute_zone_state,
    handle_disruption,
    limiter_rate_qps,
)
from kubectl_evictplan.controllers.node_lifecycle.zone_queues import ZoneQueues
from kubectl_evictplan.kube.topology import zone_display_name

_NOBODY = ZoneCount(0, 0)


class ZoneStates:
    """``zoneStates`` with its limiters."""

    def __init__(
        self,
        state: ClusterState,
        configuration: ControllerConfiguration,
        queues: ZoneQueues,
        *,
        backwards: bool,
    ) -> None:
        """``backwards``: zones are walked from the last to the first."""
        self._backwards = backwards
        self._state = state
        self._configuration = configuration
        self._queues = queues
        self._states: dict[str, str] = {}
        # As the last tick found them.
        self._before: dict[str, str] = {}

    def __contains__(self, zone: str) -> bool:
        return zone in self._states

    @property
    def unsettled(self) -> bool:
        """The last tick left other states than it found: the next one may act without any input."""
        return self._states != self._before

    def create_missing(self, zones: list[str]) -> None:
        """A tick begins: ``addPodEvictorForNewZone`` for zones that have no state."""
        self._before = dict(self._states)
        for zone in zones:
            if zone not in self._states:
                self._states[zone] = INITIAL
                self._queues.create(zone)

    def load(self, zones: list[str], counts: Mapping[str, ZoneCount]) -> None:
        """States and limiters as a controller that has been running for long would hold them."""
        threshold = self._configuration.unhealthy_zone_threshold
        for zone in zones:
            self._queues.create(zone)
            count = counts.get(zone)
            self._states[zone] = EMPTY if count is None else compute_zone_state(count, threshold)
        self._states = handle_disruption(counts, self._states, threshold).remaining
        every_full = all(self._states[zone] == FULL for zone in counts)
        for zone in sorted(counts):
            if every_full:
                self._queues.swap_limiter(zone, 0.0)
            else:
                self._set_limiter(zone, self._states[zone], counts[zone].size)
            self._record(zone, self._states[zone], counts, ZoneStateAtStart)
        self._before = dict(self._states)

    def handle_disruption(self, counts: Mapping[str, ZoneCount]) -> Transition:
        """``handleDisruption``; the caller does the nodes' part of ENTER before ``enter``."""
        outcome = handle_disruption(
            counts,
            self._states,
            self._configuration.unhealthy_zone_threshold,
            backwards=self._backwards,
        )
        self._states = outcome.remaining
        if outcome.transition is Transition.ENTER:
            self._state.timeline.append(MasterDisruptionEntered(self._state.offset_ns, ()))
        if outcome.transition in (Transition.EXIT, Transition.CHANGED):
            for zone, state in list(self._states.items()):
                new = outcome.new.get(zone, EMPTY)
                if outcome.transition is Transition.EXIT or state != new:
                    self._set(zone, new, counts)
        return outcome.transition

    def enter_master_disruption(self, counts: Mapping[str, ZoneCount]) -> None:
        """Every zone is Full: no limiter lets anybody through."""
        for zone in list(self._states):
            self._queues.swap_limiter(zone, 0.0)
            changed = self._states[zone] != FULL
            self._states[zone] = FULL
            if changed:
                self._record(zone, FULL, counts)

    def _set(self, zone: str, state: str, counts: Mapping[str, ZoneCount]) -> None:
        self._set_limiter(zone, state, counts.get(zone, _NOBODY).size)
        changed = self._states.get(zone) != state
        self._states[zone] = state
        if changed:
            self._record(zone, state, counts)

    def _set_limiter(self, zone: str, state: str, size: int) -> None:
        rate = limiter_rate_qps(
            state,
            size,
            rate_qps=self._configuration.node_eviction_rate_qps,
            secondary_qps=self._configuration.secondary_node_eviction_rate_qps,
            large_threshold=self._configuration.large_cluster_size_threshold,
        )
        if rate is not None:
            self._queues.swap_limiter(zone, rate)

    def _record(
        self,
        zone: str,
        state: str,
        counts: Mapping[str, ZoneCount],
        kind: type[ZoneStateAtStart | ZoneStateChanged] = ZoneStateChanged,
    ) -> None:
        if state in (EMPTY, INITIAL):
            return
        count = counts.get(zone, _NOBODY)
        self._state.timeline.append(
            kind(
                self._state.offset_ns,
                (),
                zone_display_name(zone),
                state,
                count.ready,
                count.not_ready,
                self._queues.rate_of(zone),
            )
        )
