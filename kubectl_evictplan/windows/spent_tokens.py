"""What lines may have been through before the start, by what the snapshot shows: spent tokens, entries left behind, limiters that stay stopped.

A bucket holds one token. It is spent on a node that is not ready, on one that was ready again, or gone, when
its turn came (``RateLimitedTimedQueue.Try``), and is there again after 1 / rate seconds.
"""

from __future__ import annotations

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import refill_ns
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Node
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.scenarios.scenario import Scenario

# A node stays in line until the next tick finds it ready; conditions have whole seconds.
_ROUNDING_NS = SECOND_NS


def zones_without_token(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> frozenset[str]:
    """Keys of the zones whose token may be spent at the start.

    A node in it is not ready, or was not until just before; a node of which only pods or its Lease are left may have been
    in any.
    """
    zones = ZoneMembership(configuration)
    if _never_refilled(configuration) or _lost_a_node(snapshot):
        return frozenset({*map(zones.zone_key, snapshot.nodes), *snapshot.bystanders})
    return frozenset(
        zones.zone_key(node)
        for node in snapshot.nodes
        if may_have_taken_a_token(node, start_ns, configuration)
    )


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


def _lost_a_node(snapshot: ClusterSnapshot) -> bool:
    """Whether a node was deleted so recently that garbage collection has not deleted its Lease or its pods yet."""
    names = {node.name for node in snapshot.nodes}
    if not snapshot.leases.keys() <= names:
        return True
    return any(pod.node_name and pod.node_name not in names for pod in snapshot.pods)


def may_stand_still(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> bool:
    """Whether what was before the start may keep nodes from being tainted, which nobody can see.

    Entries that are left over; a limiter that was stopped and stays so, for it claims the rate of 1 that it is to be given
    (``SwapLimiter``), or one that never refills and may be stopped where it would let all through; nodes that were served
    once for this outage and have lost their taint to a person.
    """
    if may_hold_orphaned_entries(snapshot, scenario, configuration):
        return True
    rate_qps, profile = configuration.node_eviction_rate_qps, configuration.profile
    if rate_qps == 1 or (rate_qps <= 0 and profile.rate_zero_accepts):
        return bool(snapshot.bystanders) or not _found_all_ready(snapshot)
    once = configuration.taint_mode and profile.queue_mode == "ADD"
    return once and any(map(_may_have_lost_its_taint, snapshot.nodes))


def _may_have_lost_its_taint(node: Node) -> bool:
    ready = node.ready_status
    return ready not in (TRUE, None) and not any(map(is_lifecycle_no_execute, node.taints))


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
