"""Statements about several objects together: how many nodes of a zone are tainted, and pods evicted.

Each of four nodes may be tainted or not, and yet it is certain that one of them is. Counted over every
run and every order that the windows are taken over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from kubectl_evictplan.cluster.timeline import POD_GC
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import Joint
from kubectl_evictplan.windows.outcome import Exploration, PossibleEviction

NODES_TAINTED, PODS_EVICTED = "nodes tainted", "pods evicted"


def joint_statements(exploration: Exploration, horizon_ns: int | None) -> tuple[Joint, ...]:
    """Zone by zone, where it is not certain for every waiting node that it is tainted."""
    until_ns = _until_ns(exploration) if horizon_ns is None else horizon_ns
    found: list[Joint] = []
    for zone in sorted(exploration.services):
        found += _zone(exploration, zone, until_ns)
    return tuple(found)


def _until_ns(exploration: Exploration) -> int:
    latest_ns = max((found.latest_ns for found in exploration.evictions.values()), default=0)
    return -(-latest_ns // SECOND_NS) * SECOND_NS


def _zone(exploration: Exploration, zone: str, until_ns: int) -> Iterator[Joint]:
    waiting, services = exploration.waiting[zone], exploration.services[zone]
    least, most = _bounds(services, until_ns)
    if least == len(waiting):
        return
    scope = f"zone/{zone_display_name(zone)}"
    by_seconds = seconds(until_ns)
    yield Joint(scope, NODES_TAINTED, least, most, len(waiting), by_seconds)
    pods: dict[tuple[str, str], list[PossibleEviction]] = {}
    for key, eviction in exploration.evictions.items():
        if eviction.node in waiting and key.controller != POD_GC:
            pods.setdefault((key.pod, key.uid), []).append(eviction)
    if pods:
        few, many = _pods(pods, services, len(waiting), until_ns)
        if few < len(pods):
            yield Joint(scope, PODS_EVICTED, few, many, len(pods), by_seconds)


def _bounds(services: Sequence[tuple[int, ...]], until_ns: int) -> tuple[int, int]:
    counts = [bisect_right(instants, until_ns) for instants in services]
    return min(counts), max(counts)


def _pods(
    pods: Mapping[tuple[str, str], list[PossibleEviction]],
    services: Sequence[tuple[int, ...]],
    nodes: int,
    until_ns: int,
) -> tuple[int, int]:
    """Pods that follow their node after one delay are bound by how many nodes are tainted in time."""
    by_delay: dict[int, dict[str, int]] = {}
    certain = others = 0
    for evictions in pods.values():
        delays_ns = {eviction.delay_ns for eviction in evictions}
        if any(eviction.certain for eviction in evictions):
            certain += 1
        if len(delays_ns) == 1 and (delay_ns := evictions[0].delay_ns) is not None:
            on_node = by_delay.setdefault(delay_ns, {})
            on_node[evictions[0].node] = on_node.get(evictions[0].node, 0) + 1
        else:
            others += 1
    least, most = 0, others
    for delay_ns, on_node in by_delay.items():
        few, many = _bounds(services, until_ns - delay_ns)
        counts = sorted([*on_node.values(), *([0] * (nodes - len(on_node)))])
        least += sum(counts[:few])
        most += sum(counts[len(counts) - many :])
    return max(least, certain), max(most, certain)
