"""Entries that a queue of 1.19.0-8 and 1.20.0-4 may hold since before the start.

In these releases every tick inserts a waiting node once more, and taking the node out of the line leaves
the other entries behind. A node that joins is not ready at first: it waits, and what it leaves behind then
stays at the head of its zone's queue and eats every token, so that no other node of the zone is tainted
(kubernetes/kubernetes issues 94183, 97100, 98511; mended by pull request 96876). From outside that cannot
be seen. It is out of the question only where the present process found every node ready.
"""

from __future__ import annotations

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import READY, TRUE
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.scenarios.scenario import Scenario


def may_hold_orphaned_entries(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> bool:
    """Whether nodes may never be tainted because of entries that nobody can see."""
    if configuration.profile.queue_mode != "SETREMOVE" or not configuration.taint_mode:
        return False
    if any(event.node is not None for event in scenario.events):
        return True
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    return leader_ns is None or any(not _was_ready(node, leader_ns) for node in snapshot.nodes)


def _was_ready(node: Node, at_ns: int) -> bool:
    ready = node.condition(READY)
    if ready is None or ready.status != TRUE or ready.last_transition_time_ns is None:
        return False
    return ready.last_transition_time_ns < at_ns
