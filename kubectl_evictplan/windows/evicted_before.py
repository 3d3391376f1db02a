"""Without taint manager: who is in line at the start, or was evicted before, as far as the snapshot tells.

The timeout of a node that is not ready may have ended before the start. Then it is in line, or a token was spent on it, and nothing of
the node itself shows that. Its pods do: who has some that go with it has not been evicted. Of the others only the tokens count that
they still take.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, product
from math import prod

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import is_to_be_evicted
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE, UNKNOWN
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneCount, ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_states import (
    FULL,
    compute_zone_state,
    limiter_rate_qps,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Node, Pod
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.spent_tokens import lost_a_node
from kubectl_evictplan.windows.unknowns.lines import token_max_ns

# Of so many nodes of a zone to which anything happens each set is told apart.
_TOLD_APART_MAX = 3
# Of so many that may be in line early each set is.
_EARLY_MAX = 2
# A set of nodes for each zone, one after the other.
Sets = list[tuple[str, ...]]


class EvictedBefore(msgspec.Struct, frozen=True):
    """``waiting``: who waits, if the timeout is over; ``perhaps``: by zone, of whom nobody knows whether that took a token already.

    ``early``: who may be in line for a Ready=False that nothing tells of any more; ``unseen``: somebody may have been evicted for one.
    """

    waiting: tuple[str, ...] = ()
    perhaps: tuple[tuple[str, ...], ...] = ()
    early: tuple[str, ...] = ()
    unseen: bool = False

    def early_in_line(self) -> tuple[Sets, bool]:
        """Sets of nodes that are in line although their timeout is not over, and whether they stand for all."""
        if len(self.early) > _EARLY_MAX:
            return [(), self.early], False
        numbers = range(len(self.early) + 1)
        return [some for number in numbers for some in combinations(self.early, number)], True

    def in_line(self, touched: Collection[str], most: int) -> tuple[Sets, bool]:
        """At most so many sets of nodes, for all that may be in line, and whether they stand for all; ``touched``: to whom anything happens.

        Lines of zones take nothing from each other.
        """
        of_zones = [_sets_of(names, touched) for names in self.perhaps]
        are_all = not self.unseen and all(told_apart for _, told_apart in of_zones)
        several = [sets for sets, _ in of_zones]
        longest = max(map(len, several), default=1)
        if prod(map(len, several)) <= most:
            together = list(product(*several))
        else:
            places = [place * (longest - 1) // (most - 1) for place in range(most)]
            are_all = are_all and longest <= most
            chosen = range(longest) if longest <= most else places
            together = [tuple(sets[min(n, len(sets) - 1)] for sets in several) for n in chosen]
        return [
            (*self.waiting, *(name for some in each for name in some)) for each in together
        ], are_all


def _sets_of(names: Sequence[str], touched: Collection[str]) -> tuple[Sets, bool]:
    """Sets of the nodes of a zone, from none to all, and whether others come to the same: of nodes to which nothing happens only the number counts."""
    apart = [name for name in names if name in touched]
    told_apart = len(apart) <= _TOLD_APART_MAX
    if not told_apart:
        apart = []
    others = tuple(name for name in names if name not in apart)
    some = [each for number in range(len(apart) + 1) for each in combinations(apart, number)]
    return [
        (*each, *others[:number]) for number in range(len(others) + 1) for each in some
    ], told_apart


def evicted_before(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> EvictedBefore:
    """Of nodes that are not ready, where no taint tells it."""
    if configuration.taint_mode or not configuration.node_lifecycle_enabled:
        return EvictedBefore()
    zones = ZoneMembership(configuration)
    pods: dict[str, list[Pod]] = {}
    for pod in filter(is_to_be_evicted, snapshot.pods):
        pods.setdefault(pod.node_name, []).append(pod)
    waiting, perhaps = list[str](), dict[str, list[Node]]()
    for node in snapshot.nodes:
        ready = node.condition(READY)
        if ready is None or ready.status == TRUE:
            continue
        if _has_some_since_before(node, pods.get(node.name, ()), configuration):
            waiting.append(node.name)
        else:
            perhaps.setdefault(zones.zone_key(node), []).append(node)
    # Where nobody waits whose pods can go, nobody sees what becomes of tokens.
    made = any(event.pod is not None or event.node is not None for event in scenario.events)
    seen = {zones.zone_key(node) for node in snapshot.nodes if made or node.name in pods}
    past = _Past(snapshot, scenario.start_ns, configuration, zones)
    unsure = (
        tuple(node.name for node in nodes if past.may_wait(node))
        for zone, nodes in sorted(perhaps.items())
        if zone in seen
    )
    touched = scenario.touched_nodes
    hidden = [
        node
        for node in snapshot.nodes
        if past.may_hide_a_false(node) and (made or past.is_seen(node, pods, touched))
    ]
    return EvictedBefore(
        tuple(waiting),
        tuple(filter(None, unsure)),
        tuple(node.name for node in hidden if past.may_wait_for_false(node)),
        any(past.may_be_evicted_for_false(node, pods) for node in hidden),
    )


def _has_some_since_before(
    node: Node, pods: Sequence[Pod], configuration: ControllerConfiguration
) -> bool:
    """Whether it has pods that would be gone if it had been evicted: up to 1.16.7 whoever comes to it afterwards stays."""
    if configuration.profile.repeats_deletion:
        return bool(pods)
    ready = node.condition(READY)
    since_ns = (ready.last_transition_time_ns or 0) if ready is not None else 0
    return any(pod.creation_timestamp_ns < since_ns for pod in pods)


class _Past:
    """Whom the lines must have served by the start, if they are as they are since long before."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        start_ns: int,
        configuration: ControllerConfiguration,
        zones: ZoneMembership,
    ) -> None:
        self._start_ns = start_ns
        self._zones = zones
        self._configuration = configuration
        self._leader_ns = snapshot.control_plane.leader_acquire_time_ns or 0
        # Nobody knows where the node was that is gone.
        self._lost_a_node = lost_a_node(snapshot)
        self._nodes: dict[str, list[Node]] = {}
        for node in snapshot.nodes:
            self._nodes.setdefault(zones.zone_key(node), []).append(node)
        self._bystanders = snapshot.bystanders

    def may_wait(self, node: Node) -> bool:
        """Whether the node may be in line at the start."""
        ready, configuration = node.condition(READY), self._configuration
        assert ready is not None, "its timeout runs"
        counts_ns = ready.last_transition_time_ns
        if counts_ns is None:
            return True
        # It is in line by then.
        in_line_ns = max(counts_ns, self._leader_ns) + configuration.pod_eviction_timeout_ns
        return self._may_wait_since(node, in_line_ns)

    def may_hide_a_false(self, node: Node) -> bool:
        """Whether the node is silent for less than its timeout, and may have said Ready=False for all of it before."""
        ready, configuration = node.condition(READY), self._configuration
        if ready is None or ready.status != UNKNOWN:
            return False
        written_ns = ready.last_transition_time_ns
        if written_ns is None:
            return True
        timeout_ns = configuration.pod_eviction_timeout_ns
        ticks_ns = 2 * (configuration.node_monitor_period_ns + SECOND_NS)
        silent_ns = written_ns - configuration.node_monitor_grace_period_ns
        since_ns = max(node.creation_timestamp_ns, self._leader_ns)
        is_over = silent_ns + timeout_ns + ticks_ns <= self._start_ns
        return not is_over and written_ns - since_ns + SECOND_NS >= timeout_ns

    def may_wait_for_false(self, node: Node) -> bool:
        """Whether it may be in line at the start since before it fell silent."""
        written_ns = _written_ns(node)
        return written_ns is None or self._may_wait_since(node, written_ns)

    def may_be_evicted_for_false(self, node: Node, pods: Mapping[str, Sequence[Pod]]) -> bool:
        """Whether it may have been evicted before it fell silent: none of its pods tells that it was not."""
        written_ns, configuration = _written_ns(node), self._configuration
        if written_ns is None:
            return True
        # Whoever came to it then was deleted by the next tick; up to 1.16.7 it stayed.
        before_ns = written_ns - 2 * (configuration.node_monitor_period_ns + SECOND_NS)
        if not configuration.profile.repeats_deletion:
            since_ns = max(node.creation_timestamp_ns, self._leader_ns)
            before_ns = since_ns + configuration.pod_eviction_timeout_ns
        return all(pod.creation_timestamp_ns >= before_ns for pod in pods.get(node.name, ()))

    def is_seen(
        self, node: Node, pods: Mapping[str, Sequence[Pod]], touched: Collection[str]
    ) -> bool:
        """Whether its line decides about pods: its own, or those of others that may wait there as well."""
        return any(
            each.name in pods
            and (each is node or each.name in touched or each.ready_status != TRUE)
            for each in self._nodes[self._zones.zone_key(node)]
        )

    def _may_wait_since(self, node: Node, in_line_ns: int) -> bool:
        """Whether a node that is in line by then may be there at the start, if the zone is as it is."""
        configuration = self._configuration
        nodes = self._nodes[self._zones.zone_key(node)]
        rate_qps = self._rate_qps(self._zones.zone_key(node))
        if self._lost_a_node or rate_qps <= 0:
            return True
        settled_ns = max(in_line_ns, *map(_changed_ns, nodes))
        ticks_ns = 3 * (configuration.node_monitor_period_ns + SECOND_NS)
        down = sum(each.ready_status != TRUE for each in nodes)
        served_ns = settled_ns + ticks_ns + (down + 1) * token_max_ns(rate_qps)
        return served_ns > self._start_ns

    def _rate_qps(self, zone: str) -> float:
        """At which the zone is served; 0 where that may be never."""
        states = {each: self._state(each) for each in {*self._nodes, *self._bystanders}}
        if all(state == FULL for state, _ in states.values()):
            return 0.0
        state, size = states[zone]
        rates = limiter_rate_qps(state, size, self._configuration)
        return min(rates or 0.0, self._configuration.node_eviction_rate_qps) if size else 0.0

    def _state(self, zone: str) -> tuple[str, int]:
        counted = [n for n in self._nodes.get(zone, ()) if not self._zones.is_excluded(n)]
        down = sum(node.ready_status != TRUE for node in counted)
        count = ZoneCount(len(counted) - down + self._bystanders.get(zone, 0), down)
        return compute_zone_state(count, self._configuration.unhealthy_zone_threshold), count.size


def _written_ns(node: Node) -> int | None:
    """When its Ready condition got its status, as far as it says so."""
    ready = node.condition(READY)
    return None if ready is None else ready.last_transition_time_ns


def _changed_ns(node: Node) -> int:
    """When the node came to be, or got its Ready condition."""
    ready = node.condition(READY)
    changed_ns = ready.last_transition_time_ns if ready is not None else None
    return max(node.creation_timestamp_ns, changed_ns or 0) + SECOND_NS
