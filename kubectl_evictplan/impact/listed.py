"""When an EndpointSlice does not offer a pod, where that is not simply while the pod is not Ready.

Upstream: ``reconcileByAddressType`` and ``podToEndpoint`` of k8s.io/endpointslice; ``syncService`` of the
endpointslice controller, which writes none for a Service without a selector or of type ExternalName.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.stretches import (
    FOREVER_NS,
    NEVER,
    NONE,
    Absence,
    Between,
    absence,
    together,
)
from kubectl_evictplan.kube.durations import SECOND_NS


def while_published(fate: Fate) -> Absence:
    """Of a Service that offers whoever has an address: until the pod is gone, from when its successor runs."""
    deletion = fate.deletion
    if deletion is None or not fate.counted:
        return NONE
    runs = fate.successor.created.later(0, SECOND_NS)
    return absence(deletion.gone, runs, certain=deletion.certain)


def leaves_published(fate: Fate) -> Between:
    """When such a Service stops offering the pod: when its object is gone, Terminating or not."""
    deletion = fate.deletion
    if deletion is None:
        return NEVER
    return deletion.gone if deletion.certain else deletion.gone._replace(latest_ns=FOREVER_NS)


def while_left_to_others(fate: Fate) -> Absence:
    """Of slices that Kubernetes does not write: whoever does may take the pod out as soon as it is dead, or never."""
    return _perhaps_for_ever(fate.dead)


def dead_until_others_act(fate: Fate) -> Absence:
    """Of such slices: the address is dead for certain, and nobody knows how long it is there without a successor's."""
    return _dead_for_a_moment(fate.dead)


def leaves_by_others(fate: Fate) -> Between:
    """When such slices stop offering the pod: any time from its death on, or never."""
    return Between(_dies_ns(fate.dead), FOREVER_NS)


def _dies_ns(dead: Absence) -> int:
    return dead.possible[0][0] if dead.possible else FOREVER_NS


# Alike pods share one object, and go on doing so.
@lru_cache(maxsize=10_000)
def _perhaps_for_ever(dead: Absence) -> Absence:
    return Absence(((_dies_ns(dead), FOREVER_NS),)) if dead.possible else NONE


@lru_cache(maxsize=10_000)
def _dead_for_a_moment(dead: Absence) -> Absence:
    # It begins as it does without them; how long it lasts is theirs.
    sure = tuple((low_ns, low_ns + 1) for low_ns, _ in dead.sure[:1])
    begins = () if sure else tuple(one._replace(least_ns=1) for one in dead.anchors[:1])
    return _perhaps_for_ever(dead)._replace(sure=sure, anchors=begins)


def dropped_early(fates: Sequence[Fate]) -> Mapping[str, int]:
    """By deleted node, from when on a Service may have dropped its pods; ``fates`` are those behind it.

    Nothing tells the controller that a node is deleted. But when anything else changes behind the Service, it
    writes the slices anew, and leaves pods out whose node does not exist.
    """
    deleted = {
        fate.pod.node_name: fate.life.deleted.earliest_ns
        for fate in fates
        if not fate.life.deleted.never
    }
    found: dict[str, int] = {}
    for node, deleted_ns in deleted.items():
        later = [
            at_ns
            for fate in fates
            if fate.pod.node_name != node
            for at_ns in _changes(fate)
            if deleted_ns <= at_ns < FOREVER_NS
        ]
        if later:
            found[node] = min(later)
    return found


def _changes(fate: Fate) -> Sequence[int]:
    """When a pod or its successor may change what its Service shows."""
    ends = [at_ns for stretch in fate.away.possible for at_ns in stretch]
    return [*ends, fate.successor.created.earliest_ns]


def while_unready_or_dropped(dropped: Mapping[str, int]) -> Callable[[Fate], Absence]:
    """While the pod is not Ready, and perhaps from when its deleted node may have been noticed."""

    def unlisted(fate: Fate) -> Absence:
        since_ns = dropped.get(fate.pod.node_name)
        if since_ns is None or not fate.away.possible:
            return fate.away
        until_ns = fate.away.possible[0][0]
        if since_ns >= until_ns:
            return fate.away
        return together(fate.away, Absence(((since_ns, until_ns),)))

    return unlisted
