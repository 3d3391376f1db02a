"""What lines may have been through before the start, by what the snapshot shows: spent tokens, entries left behind, limiters that stay stopped.

A bucket holds one token. It is spent on a node that is not ready, on one that was ready again, or gone, when
its turn came (``RateLimitedTimedQueue.Try``), and is there again after 1 / rate seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import NeverRateLimiter, refill_ns
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE, UNKNOWN
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneCount, ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_states import (
    FULL,
    LOST_ZONE,
    NORMAL,
    PARTIAL,
    compute_zone_state,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Node
from kubectl_evictplan.kube.taints import LIFECYCLE_NO_SCHEDULE_KEYS, is_lifecycle_no_execute
from kubectl_evictplan.scenarios.actions.nodes import deleted_nodes
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.spans import NEVER_NS

# A zone by its key, and its state.
ZoneStatesTold = tuple[tuple[str, str], ...]

# From the best to the worst.
_STATES = (NORMAL, PARTIAL, FULL)
# A node stays in line until the next tick finds it ready; conditions have whole seconds.
_ROUNDING_NS = SECOND_NS


class EntriesLeft(NamedTuple):
    """How many nodes a zone may have in line at the start on which a token is wasted, and nothing shows it.

    ``back``: they are ready again, and the first tick takes them out. ``gone``: nobody does.
    """

    back: int
    gone: int


def zones_without_token(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> dict[str, EntriesLeft]:
    """By the keys of the zones whose token may be spent at the start, on what they may waste the next ones.

    A node in it is not ready, or was not until just before; a node of which only pods or its Lease are left may have been
    in any.
    """
    zones, gone = ZoneMembership(configuration), len(_names_of_gone_nodes(snapshot))
    found: dict[str, EntriesLeft] = {}
    if _never_refilled(configuration) or gone:
        every = {*map(zones.zone_key, snapshot.nodes), *snapshot.bystanders}
        found = dict.fromkeys(every, EntriesLeft(0, gone))
    for node in snapshot.nodes:
        if may_have_taken_a_token(node, start_ns, configuration):
            zone = zones.zone_key(node)
            back, _ = found.get(zone, (0, gone))
            back += _may_still_wait_although_ready(node, start_ns, configuration)
            found[zone] = EntriesLeft(back, gone)
    return found


def _may_still_wait_although_ready(
    node: Node, start_ns: int, configuration: ControllerConfiguration
) -> bool:
    """Whether no tick may have seen yet that the node is ready again: until then it is in line, unless it was tainted."""
    ready = node.condition(READY)
    if ready is None or ready.status != TRUE or any(map(is_lifecycle_no_execute, node.taints)):
        return False
    return configuration.taint_mode and changed_lately_ns(node, start_ns, configuration) is not None


def may_have_taken_a_token(
    node: Node, start_ns: int, configuration: ControllerConfiguration
) -> bool:
    """Whether its zone can have used its token on the node and have no other one yet."""
    ready = node.condition(READY)
    if ready is None or ready.status != TRUE:
        return True
    since_ns = ready.last_transition_time_ns
    rate_qps = configuration.node_eviction_rate_qps
    if since_ns is None or rate_qps <= 0:
        return False
    in_line_until_ns = since_ns + _ROUNDING_NS + configuration.node_monitor_period_ns
    return in_line_until_ns + refill_ns(rate_qps) > start_ns


def _never_refilled(configuration: ControllerConfiguration) -> bool:
    """Whether a bucket gives one token and then none, which may have been long ago."""
    accepts = configuration.profile.rate_zero_accepts
    return configuration.node_eviction_rate_qps <= 0 and not accepts


def lost_a_node(snapshot: ClusterSnapshot) -> bool:
    """Whether a node was deleted so recently that garbage collection has not deleted its Lease or its pods yet."""
    names = {node.name for node in snapshot.nodes}
    if not snapshot.leases.keys() <= names:
        return True
    return any(pod.node_name and pod.node_name not in names for pod in snapshot.pods)


def may_stand_still(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> bool:
    """Whether what was before the start may keep nodes from being tainted, which nobody can see."""
    stopped = limiters_may_be_stopped(snapshot, scenario.start_ns, configuration)
    return stopped or may_be_passed_over(snapshot, scenario, configuration)


def may_be_passed_over(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> bool:
    """Whether lines may pass nodes over for what was before the start, whatever their limiters let through.

    Entries that are left over; nodes that were served once for this outage and have lost their taint to a person.
    """
    if may_hold_orphaned_entries(snapshot, scenario, configuration):
        return True
    once = configuration.taint_mode and configuration.profile.queue_mode == "ADD"
    return once and any(map(_may_have_lost_its_taint, snapshot.nodes))


def limiters_may_be_stopped(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> bool:
    """Whether limiters may have been stopped before the start, and stay so although zones are not down any more.

    A stopped one claims the rate of 1, so it is not given that (``SwapLimiter``). And one without a rate that would let all
    through is stopped for good.
    """
    if not stays_stopped(configuration.node_eviction_rate_qps, configuration):
        # The other rate is that of a zone in which nodes are down.
        if not stays_stopped(configuration.secondary_node_eviction_rate_qps, configuration):
            return False
        if _counted_all_ready(snapshot, start_ns, configuration):
            return False
    return bool(snapshot.bystanders) or not _found_all_ready(snapshot)


def stays_stopped(rate_qps: float, configuration: ControllerConfiguration) -> bool:
    """Whether a stopped limiter stays so where it is to get that rate."""
    accepts = configuration.profile.rate_zero_accepts
    return rate_qps == NeverRateLimiter.qps or (rate_qps <= 0 and accepts)


def _counted_all_ready(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> bool:
    """Whether the newest tick before the start surely counted every node as ready."""
    return not lost_a_node(snapshot) and all(
        node.ready_status == TRUE and changed_lately_ns(node, start_ns, configuration) is None
        for node in snapshot.nodes
    )


def _may_have_lost_its_taint(node: Node) -> bool:
    ready = node.ready_status
    return ready not in (TRUE, None) and not any(map(is_lifecycle_no_execute, node.taints))


def waiting_while_all_are_down(
    snapshot: ClusterSnapshot, configuration: ControllerConfiguration
) -> tuple[str, ...]:
    """Nodes that would be served if limiters let them through, where no zone has a node that is ready; else none."""
    zones = ZoneMembership(configuration)
    counted = (node for node in snapshot.nodes if not zones.is_excluded(node))
    if any(snapshot.bystanders.values()) or any(node.ready_status == TRUE for node in counted):
        return ()
    down = (node for node in snapshot.nodes if node.ready_status not in (TRUE, None))
    # Without taint manager the taint that a node has tells nothing of its line.
    return tuple(
        n.name for n in down if not configuration.taint_mode or _may_have_lost_its_taint(n)
    )


def in_lines_made_anew(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> set[str]:
    """Nodes that count in no zone, of zones in which for some time no other one may count.

    Nearly every tick makes such a line anew and puts there all who are not ready, however long they have their taint.
    """
    zones = ZoneMembership(configuration)
    deleted, counted = deleted_nodes(scenario.events), set(snapshot.bystanders)
    made = [event.node for event in scenario.events if event.node is not None]
    excluded = [node for node in (*snapshot.nodes, *made) if zones.is_excluded(node)]
    for node in snapshot.nodes if excluded else ():
        if node.name not in deleted and not zones.is_excluded(node):
            counted.add(zones.zone_key(node))
    return {node.name for node in excluded if zones.zone_key(node) not in counted}


def may_hold_orphaned_entries(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> bool:
    """Whether nodes may never be tainted because of entries of before the start that nobody can see.

    In 1.19.0-8 and 1.20.0-4 every tick inserts a waiting node once more, and taking the node out of the line
    leaves the other entries behind. A node that joins is not ready at first: it waits, and what it leaves
    behind then stays at the head of its zone's queue and eats every token, so that no other node of the
    zone is tainted (kubernetes/kubernetes issues 94183, 97100, 98511; mended by pull request 96876). It is
    out of the question only where the present process found every node ready.
    """
    if configuration.profile.queue_mode != "SETREMOVE" or not configuration.taint_mode:
        return False
    if any(event.node is not None for event in scenario.events):
        return True
    return not _found_all_ready(snapshot)


def _found_all_ready(snapshot: ClusterSnapshot) -> bool:
    """Whether every node is ready since before the present process began."""
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    return leader_ns is not None and all(_was_ready(node, leader_ns) for node in snapshot.nodes)


def _was_ready(node: Node, at_ns: int) -> bool:
    ready = node.condition("Ready")
    if ready is None or ready.status != TRUE or ready.last_transition_time_ns is None:
        return False
    return ready.last_transition_time_ns < at_ns


def changed_lately_ns(
    node: Node, start_ns: int, configuration: ControllerConfiguration
) -> int | None:
    """The offset until which the node surely came to be, or got its Ready condition, where no tick may have seen that before the start."""
    ready = node.condition(READY)
    posted = ready is not None and ready.status != UNKNOWN  # that a tick writes, and counts it
    newest_ns = node.creation_timestamp_ns
    if ready is not None and posted:
        newest_ns = max(newest_ns, ready.last_transition_time_ns or 0)
    # What ticks cost is less than a second.
    since_ns = start_ns - configuration.node_monitor_period_ns - SECOND_NS - _ROUNDING_NS
    return min(newest_ns + _ROUNDING_NS - start_ns, 0) if since_ns < newest_ns else None


class StatesBefore:
    """The states of zones that the newest tick before the start may have left, where others than those of the snapshot.

    It had not seen what changed after it. A node that is gone by then may have counted in any zone.
    """

    def __init__(
        self, snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
    ) -> None:
        self._threshold = configuration.unhealthy_zone_threshold
        # How many nodes that no tick may have missed yet.
        self.gone = len(_names_of_gone_nodes(snapshot))
        # Until when each node changed, where that is not sure to be seen.
        self.changed: dict[str, int] = {}
        for node in snapshot.nodes:
            at_ns = changed_lately_ns(node, start_ns, configuration)
            if at_ns is not None:
                self.changed[node.name] = at_ns
        # By zone: of each node that counts whether it is ready, and until when it changed.
        self._nodes: dict[str, list[tuple[bool, int]]] = {}
        self._bystanders = snapshot.bystanders
        if self.changed or self.gone:
            zones = ZoneMembership(configuration)
            for node in snapshot.nodes:
                if not zones.is_excluded(node):
                    at_ns = self.changed.get(node.name, -NEVER_NS)
                    counted = self._nodes.setdefault(zones.zone_key(node), [])
                    counted.append((node.ready_status == TRUE, at_ns))
        # Zones of which the state is not sure, sorted.
        self.zones = sorted(
            zone for zone in self._nodes if len(self._possible(zone, -NEVER_NS)) > 1
        )

    @property
    def may_be_served_when_down(self) -> bool:
        """Whether all zones are down, and go on being served if the last one that was not has lost its last node."""
        every = self._nodes.keys() | self._bystanders.keys()
        return self.gone > 0 and bool(every) and all(self._now(zone) == FULL for zone in every)

    @property
    def instants(self) -> set[int]:
        """Offsets at which it matters on which side of them the newest tick before the start comes."""
        nodes = (node for zone in self.zones for node in self._nodes[zone])
        return {at_ns for _, at_ns in nodes if at_ns > -NEVER_NS}

    def told(self, tick_ns: int, most: int) -> tuple[list[ZoneStatesTold], bool]:
        """All that a tick at that offset may have left, that of the snapshot apart; at most so many, and whether these are all."""
        now = tuple(self._now(zone) for zone in self.zones)
        several = product(*(self._possible(zone, tick_ns) for zone in self.zones))
        found = [states for states in islice(several, most + 2) if states != now]
        told = [tuple(zip(self.zones, states, strict=True)) for states in found[:most]]
        if self.may_be_served_when_down:
            told.append((*zip(self.zones, now, strict=True), (LOST_ZONE, NORMAL)))
        return told, len(found) <= most

    def _possible(self, zone: str, tick_ns: int) -> Sequence[str]:
        """States of the zone after a tick at that offset."""
        seen = Counter(ready for ready, at_ns in self._nodes[zone] if at_ns <= tick_ns)
        unseen = sum(at_ns > tick_ns for _, at_ns in self._nodes[zone]) + self.gone
        if not unseen:
            return (self._now(zone),)
        ready, down = seen[True] + self._bystanders.get(zone, 0), seen[False]
        ends = self._state(ready + unseen, down), self._state(ready, down + unseen)
        best, worst = map(_STATES.index, ends)
        return _STATES[best : worst + 1]

    def _now(self, zone: str) -> str:
        every = Counter(ready for ready, _ in self._nodes.get(zone, ()))
        return self._state(every[True] + self._bystanders.get(zone, 0), every[False])

    def _state(self, ready: int, down: int) -> str:
        return compute_zone_state(ZoneCount(ready, down), self._threshold)


def still_in_line(
    snapshot: ClusterSnapshot, configuration: ControllerConfiguration
) -> tuple[str, ...]:
    """Nodes that may be in line for the taint that they have.

    Somebody put it on while they waited: they stay in line. Or a pass inside the tick that found all
    zones down has tainted them. That tick looked at copies of before: it took them out of line
    and left the taint, so the next one put them in line again, where they wait for a zone that is not down any more.
    """
    if not configuration.taint_mode:
        return ()
    by_hand = (node.name for node in snapshot.nodes if _is_tainted_by_hand(node))
    return (*by_hand, *_tainted_while_all_were_down(snapshot, configuration))


def _is_tainted_by_hand(node: Node) -> bool:
    """Whether a node that is not ready has its taint, and not from node lifecycle: that writes timeAdded, as the node's other taint of it shows."""
    taints = [taint for taint in node.taints if is_lifecycle_no_execute(taint)]
    other = (taint for taint in node.taints if taint.key in LIFECYCLE_NO_SCHEDULE_KEYS)
    untimed = bool(taints) and all(taint.time_added_ns is None for taint in taints)
    timed = any(taint.time_added_ns is not None for taint in other)
    return untimed and timed and node.ready_status not in (TRUE, None)


def _tainted_while_all_were_down(
    snapshot: ClusterSnapshot, configuration: ControllerConfiguration
) -> tuple[str, ...]:
    if snapshot.bystanders:
        return ()
    waiting = {
        node.name: max(added)
        for node in snapshot.nodes
        if node.ready_status != TRUE and (added := list(_added_ns(node)))
    }
    if not waiting:
        return ()
    zones = ZoneMembership(configuration)
    # A node that has been ready since before the taint kept its zone from being down.
    conditions = (node.condition(READY) for node in snapshot.nodes if not zones.is_excluded(node))
    ready = (each for each in conditions if each is not None and each.status == TRUE)
    back_ns = min((each.last_transition_time_ns or 0 for each in ready), default=NEVER_NS)
    began_ns = snapshot.control_plane.leader_acquire_time_ns or 0
    return tuple(
        name
        for name, added_ns in waiting.items()
        if began_ns - _ROUNDING_NS <= added_ns < back_ns + _ROUNDING_NS
    )


def all_down_until_ns(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> int | None:
    """Until which offset all zones may have been down so lately that a grace period of then still runs; None: they were not.

    A node that has been ready for longer kept its zone from being down, so the tick that sees the first one ready which still is
    ends it at the latest. That tick begins all grace periods anew (``handleDisruption``).
    """
    ages_ns = (
        configuration.node_monitor_grace_period_ns,
        configuration.node_startup_grace_period_ns,
        0 if configuration.taint_mode else configuration.pod_eviction_timeout_ns,
    )
    # Until it is seen, and what it leads to.
    ticks_ns = 2 * (configuration.node_monitor_period_ns + SECOND_NS) + _ROUNDING_NS
    oldest_ns = start_ns - max(ages_ns) - ticks_ns
    if snapshot.bystanders or not configuration.node_lifecycle_enabled:
        return None
    zones, back_ns = ZoneMembership(configuration), start_ns
    for node in snapshot.nodes:
        ready = node.condition(READY)
        if ready is None or ready.status != TRUE or zones.is_excluded(node):
            continue
        back_ns = min(back_ns, ready.last_transition_time_ns or 0)
        if back_ns < oldest_ns:
            return None
    seen_by_ns = back_ns + ticks_ns
    if all(_is_ready_and_renewed(node, snapshot, seen_by_ns) for node in snapshot.nodes):
        return None  # each grace period has begun anew since
    return min(back_ns + _ROUNDING_NS - start_ns, 0)


def _is_ready_and_renewed(node: Node, snapshot: ClusterSnapshot, since_ns: int) -> bool:
    """Whether the node is Ready and its kubelet has given a sign of life since."""
    ready, lease = node.condition(READY), snapshot.leases.get(node.name)
    if ready is None or ready.status != TRUE:
        return False
    renewed_ns = lease.renew_time_ns if lease is not None else None
    return max(renewed_ns or 0, ready.last_heartbeat_time_ns or 0) > since_ns


def _added_ns(node: Node) -> Iterator[int]:
    """When node lifecycle put its NoExecute taints on."""
    added_ns = (taint.time_added_ns for taint in node.taints if is_lifecycle_no_execute(taint))
    yield from (at_ns for at_ns in added_ns if at_ns is not None)


def _names_of_gone_nodes(snapshot: ClusterSnapshot) -> set[str]:
    """Nodes of which only pods or Leases are left."""
    names = {node.name for node in snapshot.nodes}
    left = snapshot.leases.keys() | snapshot.columns.distinct("node_name")
    return left - names - {""}
