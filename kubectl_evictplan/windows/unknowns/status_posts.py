"""Statuses that kubelets post by themselves: every five minutes, whatever else happens.

A tick that sees a new status forgets the Lease, and the next one accepts that again (``tryUpdateNodeHealth``). So a kubelet that
posts after its last renewal, and then falls silent, is as one that renewed once more a tick after that post. When posts are due
follows from the newest one that is known. That a kubelet also posts when its status changes is a warning
(``status-may-come-late``), and so is one that posts at another pace, as far as this shows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from kubectl_evictplan.cluster.kubelets import observed_at_ns
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Node
from kubectl_evictplan.scenarios.actions.processes import PostReady, StartKubelet
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.spans import Span

_REPORT_PERIOD_NS = 300 * SECOND_NS
# A loop looks every 10 s and up to 4 % more whether a post is due; what else it does takes a while.
_LOOP_NS = 10_400 * MILLISECOND_NS + SECOND_NS
# After a status that changed, the next one that does not comes half a period earlier to half a period later (1.31 and later).
_AFTER_CHANGE_NS = _REPORT_PERIOD_NS // 2


class _Post(msgspec.Struct, frozen=True):
    """When a kubelet posted, or will; and whether its status may have changed then."""

    span: Span
    changed: bool

    def next(self) -> _Post:
        """The one after it, if nothing changes."""
        apart_ns = _AFTER_CHANGE_NS if self.changed else 0
        low_ns, high_ns = self.span
        due_ns = low_ns + _REPORT_PERIOD_NS - apart_ns, high_ns + _REPORT_PERIOD_NS + apart_ns
        return _Post((due_ns[0], due_ns[1] + _LOOP_NS), changed=False)


def posts_between(
    snapshot: ClusterSnapshot, scenario: Scenario, index: int, name: str, since_ns: int
) -> Iterator[Span]:
    """When the kubelet that the event at ``index`` stops may post between an instant and that event, as disjoint spans in order.

    Up to the look the snapshot shows what it posted.
    """
    at_ns = scenario.events[index].at_ns
    looked_ns = observed_at_ns(snapshot, scenario.start_ns) - scenario.start_ns
    after_ns = max(since_ns, looked_ns)
    newest = _newest(snapshot, scenario, index, name) if after_ns < at_ns else None
    while newest is not None and newest.span[0] <= at_ns and after_ns < at_ns:
        due = newest.next()
        low_ns, high_ns = max(due.span[0], looked_ns), due.span[1]
        if high_ns < low_ns:
            return  # It posts at another pace.
        if max(low_ns, after_ns) <= min(high_ns, at_ns):
            yield max(low_ns, after_ns), min(high_ns, at_ns)
            after_ns = min(high_ns, at_ns)
        newest = _Post((low_ns, high_ns), changed=False)


def _newest(snapshot: ClusterSnapshot, scenario: Scenario, index: int, name: str) -> _Post | None:
    """The newest post that is known before the event at ``index``."""
    place = bisect_left(snapshot.nodes, name, key=lambda node: node.name)
    node = next(iter(snapshot.nodes[place : place + 1]), None)
    found = _shown(node, scenario.start_ns) if node is not None and node.name == name else None
    for event in scenario.events[:index]:
        posts = isinstance(event, PostReady | StartKubelet) and name in event.nodes
        if posts or (event.node is not None and event.node.name == name):
            found = _Post(event.span, changed=True)
    return found


def _shown(node: Node, start_ns: int) -> _Post | None:
    """The one that the node shows, to the second; the conditions that it changed have its time."""
    ready = node.condition(READY)
    if ready is None or ready.last_heartbeat_time_ns is None:
        return None
    posted_ns = ready.last_heartbeat_time_ns
    changed = any(each.last_transition_time_ns == posted_ns for each in node.conditions)
    return _Post((posted_ns - start_ns, posted_ns + SECOND_NS - start_ns), changed)
