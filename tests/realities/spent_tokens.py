"""What limiters of zones have been through before the start of a world.

Each zone may have spent its token by itself, and some of it may be there again. All of them may have been stopped, and stay
so where they are to get the very rate that a stopped one claims (``SwapLimiter``).
"""

from __future__ import annotations

import random
from collections.abc import Collection
from contextlib import AbstractContextManager
from unittest import mock

from kubectl_evictplan.cluster.timeline import Told
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    NeverRateLimiter,
    TokenBucketRateLimiter,
)
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_queues import ZoneQueues
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node


def zones_that_served(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> frozenset[str]:
    """Keys of the zones with a node on which they can just have spent their token."""
    zones, rate_qps = ZoneMembership(configuration), configuration.node_eviction_rate_qps
    return frozenset(
        zones.zone_key(node) for node in snapshot.nodes if _was_down(node, start_ns, rate_qps)
    )


def _was_down(node: Node, start_ns: int, rate_qps: float) -> bool:
    """Whether the node is not ready, or was not when the newest token of its zone was there."""
    ready = node.condition("Ready")
    if ready is None or ready.status != "True" or ready.last_transition_time_ns is None:
        return True
    return rate_qps > 0 and (start_ns - ready.last_transition_time_ns) * rate_qps < SECOND_NS


def may_be_stopped(snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> bool:
    """Whether every node can have been not ready at once since the present process began, and limiters stopped with it."""
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    rates_qps = configuration.node_eviction_rate_qps, configuration.secondary_node_eviction_rate_qps
    if NeverRateLimiter.qps not in rates_qps or not snapshot.nodes:
        return False
    since_ns = leader_ns or 0
    ready = [node.condition("Ready") for node in snapshot.nodes if node.ready_status == "True"]
    back_ns = [each.last_transition_time_ns for each in ready if each is not None]
    return all(at_ns is None or at_ns > since_ns for at_ns in back_ns)


def limiters_drawn(
    zones: Collection[str], rng: random.Random, *, stopped: bool
) -> AbstractContextManager[object]:
    """While this holds, runs that begin without tokens lack those of some of these zones; or, where that may be, all are stopped."""

    def spend(queues: ZoneQueues) -> None:
        all_stopped = stopped and rng.random() < 0.5
        for zone, queue in sorted(queues._queues.items()):
            if all_stopped and queue.limiter.qps == NeverRateLimiter.qps:
                queues.swap_limiter(zone, 0)
            elif zone in zones and rng.random() < 0.8:
                queues.record(Told.SPENT, zone)
                if isinstance(queue.limiter, TokenBucketRateLimiter):
                    queue.limiter.fill(rng.choice((0.0, rng.random())), queues._state.now_ns)

    return mock.patch.object(ZoneQueues, "spend_tokens", spend)
