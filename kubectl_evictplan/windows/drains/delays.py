"""How long the steps of a drain take, at least and at most: closed forms of what ``cluster`` plays for one choice.

A ``Range`` is a shortest and a longest time in nanoseconds. Steps that follow each other add.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kubectl_evictplan.cluster.drained_pods import CLIENT_RETRY_NS, POLL_NS, RETRY_NS
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.engine.drain_timing import (
    Jitter,
    Latency,
    jitter_range_ns,
    range_ns,
)
from kubectl_evictplan.kube.disruption import DELETION_TIMEOUT_NS
from kubectl_evictplan.kube.drain_filters import DrainOptions
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.finalizers import Finalizers
from kubectl_evictplan.kube.objects import Pod

Range = tuple[int, int]

AT_ONCE: Range = 0, 0
# Requests that are sent together arrive within that.
ARRIVAL = jitter_range_ns(Jitter.ARRIVAL)


def plus(*ranges: Range) -> Range:
    """One step after the other."""
    return sum(low for low, _ in ranges), sum(high for _, high in ranges)


@cache
def takes(*latencies: Latency) -> Range:
    """Several steps, one after the other."""
    return plus(*map(range_ns, latencies))


@cache
def until_first_node(nodes: int) -> Range:
    """From the start of a process that drains so many nodes to when it begins with the first."""
    cordons = [range_ns(Latency.NEXT_CORDON)] * nodes
    return plus(takes(Latency.KUBECTL_START), *cordons, takes(Latency.LIST_PODS))


def begun_by(latency: Latency) -> Range:
    """A step of a controller that may be on its way already because of something else."""
    return 0, range_ns(latency)[1]


# The Eviction API, for a pod that no budget is asked about.
UNASKED = takes(Latency.DECIDE)
# From the request that finds its budget open to the DELETE, and to an answer 429 or 500.
GRANTED = takes(Latency.DECIDE, Latency.DELETE)
REFUSED = takes(Latency.DECIDE)
# A request that loses to another write of its budget begins anew so much later.
CONFLICT = plus(jitter_range_ns(Jitter.CONFLICT), (0, range_ns(Latency.DECIDE)[1]))
# From the begin with a node to the first answer of who is refused at once, at most.
FIRST_REFUSED_NS = ARRIVAL[1] + REFUSED[1] + CONFLICT[1]
# Between two requests for a pod that is refused: the sleep, the GET of the pod, the answer.
RETRY = plus((RETRY_NS, RETRY_NS), takes(Latency.FIRST_POLL, Latency.DECIDE))

# From a refusal because of a status that is older than its budget's spec to the next request, which client-go sends.
CLIENT_RETRY = plus((CLIENT_RETRY_NS, CLIENT_RETRY_NS), takes(Latency.DECIDE))

# A shorter --timeout may be over before the first request.
TIMEOUT_MIN_NS = SECOND_NS

# A budget's status that is behind at the start is written anew until then.
CAUGHT_UP_NS = takes(Latency.CATCH_UP, Latency.SYNC_BUDGET)[1]

# Until a budget counts a healthy pod again that it believes to be deleted any moment.
FORGOTTEN_NS = DELETION_TIMEOUT_NS + takes(Latency.SYNC_BUDGET)[1]


_NOBODY = Finalizers()


class PodDelays(NamedTuple):
    """From the deletion of a pod to the end of its object, and to when kubectl knows; None: nobody ends it.

    ``over_ns``: whenever kubectl looks after that, it knows.
    """

    gone: Range | None
    known: Range | None
    over_ns: int = 0


def pod_delays(pod: Pod, options: DrainOptions, finalizers: Finalizers = _NOBODY) -> PodDelays:
    """Of a pod with a live kubelet; ``finalizers``: who takes its own away."""
    asked = options.grace_period_seconds
    grace = ClusterState.effective_grace_seconds(pod, asked if asked >= 0 else None)
    if not pod.finalizers:
        return _delays(grace, None, finalized=False, lasting=False)
    lasting = bool(finalizers.lasting(pod))
    return _delays(grace, options.skipped_after_ns, finalized=True, lasting=lasting)


@cache
def _delays(
    grace: int, skipped_after_ns: int | None, *, finalized: bool, lasting: bool
) -> PodDelays:
    if finalized and skipped_after_ns is not None:
        # metadata.deletionTimestamp is the deletion, cut to the second, and the grace period.
        whole_ns = grace * SECOND_NS + skipped_after_ns
        low_ns = whole_ns - SECOND_NS if lasting else 0
        known = polled((low_ns, whole_ns), takes(Latency.FIRST_POLL))
        return PodDelays(None, known, whole_ns)
    if lasting:
        return PodDelays(None, None)
    gone = AT_ONCE
    if grace:
        gone = plus((0, grace * SECOND_NS), takes(Latency.REPORT_EXIT))
    if finalized:
        # The Job controller takes its own away when the pod is deleted, or when it has ended.
        first_ns, last_ns = takes(Latency.REMOVE_FINALIZER)
        gone = max(gone[0], first_ns), gone[1] + last_ns
    return PodDelays(gone, polled(gone, takes(Latency.FIRST_POLL)), gone[1])


def polled(gone: Range, first: Range) -> Range:
    """When kubectl, which looks for the first time at ``first`` and then every second, finds out."""
    return _look(gone[0], first)[0], _look(gone[1], first)[1]


def _look(gone_ns: int, first: Range) -> Range:
    """The first look at or after an instant: the later the first look, the later it is, or one look fewer."""
    most, least = (max(-(-(gone_ns - ns) // POLL_NS), 0) for ns in first)
    if most == least:
        return first[0] + most * POLL_NS, first[1] + most * POLL_NS
    return gone_ns, gone_ns + POLL_NS


@cache
def recovery(after: Range, ready: Range) -> Range:
    """From a pod's deletion until its budget counts the replacement.

    ``after``: from the deletion until it may be made. A StatefulSet's has the same name, so the old object must be gone.
    """
    return plus(
        after,
        begun_by(Latency.REPLACE_POD),
        takes(Latency.BIND_POD),
        ready,
        takes(Latency.REPORT_READY),
        begun_by(Latency.SYNC_BUDGET),
    )
