"""Terminated pods over ``--terminated-pod-gc-threshold``: garbage collection takes them beside everything else.

Which of them it takes depends on how many there are on all nodes, so the pods of a node are explored without it
(``pod_fates``). What it may take is put beside that here, after everything else is known: within the first loop of garbage
collection, of which nobody knows when it comes. What others do to these pods is not certain any more.

Each loop leaves no more than the threshold, and a pod that somebody else deletes is one less to take. So only the first
loop of all, and the first one after another terminated pod is created, find some; and without such pods only those that are too
many at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

import msgspec

from kubectl_evictplan.cluster.timeline import POD_GC
from kubectl_evictplan.controllers.client_limits import client_limit
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.pod_gc import (
    GC_CHECK_PERIOD_NS,
    garbage_rank,
    is_terminated,
    terminated_excess,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.finalizers import Finalizers, jobs_managed_elsewhere
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.actions.pods import DeletePods, uid_of_created
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.processes_up import ProcessLife, process_lives
from kubectl_evictplan.windows.spans import Span, merge_spans
from kubectl_evictplan.windows.unknowns.of_pods import GC_COST_MAX_NS, GarbageCollection
from kubectl_evictplan.windows.unknowns.requests import ClientLimits

_STEP_MAX_NS = GC_CHECK_PERIOD_NS + GC_COST_MAX_NS
_MISSED = frozenset({GarbageCollection.name})


class _Taken(msgspec.Struct, frozen=True):
    """A pod that a loop may take within ``spans``; ``sure``: one of the only span does, before anybody else."""

    pod: Pod
    uid: str
    spans: tuple[Span, ...]
    sure: bool = False


def put_terminated_pods(result: Exploration, given: Given) -> None:
    """Add what garbage collection may take for being too many, and hold what others do to it against that."""
    snapshot, scenario, configuration = given
    taken = {(each.pod.key, each.uid): each for each in _taken(result, given)}
    if not taken:
        return
    nodes = {each.pod.node_name for each in taken.values()}
    held = {pod.key for pod in snapshot.pods if pod.finalizers and pod.node_name in nodes}
    for key, found in list(result.evictions.items()):
        first = taken.get((key.pod, key.uid))
        if first is None and key.controller == POD_GC and key.pod in held:
            # What only finalizers hold is deleted again beside other garbage of its node.
            result.evictions[key] = _perhaps(found)
        if first is None or key.controller == POD_GC:
            continue
        if first.sure and found.earliest_ns > first.spans[-1][1] and not first.pod.finalizers:
            del result.evictions[key]  # the pod is gone by then
        else:
            result.evictions[key] = _perhaps(found)
    for (cancel, _), window in result.cancels.windows.items():
        window.unsure = window.unsure or (cancel.pod, cancel.uid) in taken
    late_ns = _late_ns(result, len(taken), configuration)
    for key, found in list(result.evictions.items()) if late_ns else ():
        # Terminated pods come first in a loop.
        if key.controller == POD_GC and (key.pod, key.uid) not in taken:
            low_ns, high_ns = found.earliest_ns, min(found.latest_ns + late_ns, scenario.end_ns)
            late = _perhaps(found)._replace(spans=((low_ns, high_ns),), circumstances=())
            result.evictions[key] = late._replace(gone_latest_ns=None)
    elsewhere = jobs_managed_elsewhere(snapshot.workloads)
    finalizers = Finalizers(job_controller=configuration.job_enabled, elsewhere=elsewhere)
    for each in taken.values():
        key = EvictionKey(each.pod.key, each.uid, POD_GC, 0)
        row = _beside(each, result.evictions.get(key))
        if not finalizers.lasting(each.pod):
            # The Job controller takes its own from whoever is deleted.
            row = row.ending_from(row.earliest_ns)
        if late_ns:
            row = row.without({ClientLimits.name})._replace(proven=True)
        result.evictions[key] = row


def first_loops(
    lives: Iterable[ProcessLife], since_ns: int, late_ns: int = 0
) -> Iterator[tuple[Span, bool]]:
    """When what the first loop at that instant or later finds may be deleted; with whether it surely is, which ends them.

    ``late_ns``: how long the client may let it wait.
    """
    for life in lives:
        if life.ends_ns < since_ns:
            continue
        begins_ns, begun_ns = (max(at_ns, since_ns) for at_ns in life.begins)
        # A new process loops at once.
        at_once = not life.warm and since_ns <= life.begins[0]
        latest_ns = begun_ns + late_ns + (0 if at_once else _STEP_MAX_NS)
        sure = latest_ns < life.ends_ns
        yield (begins_ns, min(latest_ns, life.ends_ns)), sure
        if sure:
            return


def _taken(result: Exploration, given: Given) -> Iterator[_Taken]:
    snapshot, scenario, configuration = given
    if not configuration.pod_gc_enabled or configuration.terminated_pod_gc_threshold <= 0:
        return
    pods = list(filter(is_terminated, snapshot.pods))
    created = [
        (event.pod, event.at_ns)
        for event in scenario.events
        if event.pod is not None and is_terminated(event.pod)
    ]
    if len(pods) + len(created) <= configuration.terminated_pod_gc_threshold:
        return
    lives = process_lives(scenario)
    excess = terminated_excess(pods, configuration, len(pods))
    late_ns = _late_ns(result, len(excess) + len(created), configuration)
    loops = list(first_loops(lives, 0, late_ns)) if excess else []
    if not created:
        spans = _within([span for span, _ in loops], 0, scenario.end_ns)
        sure = _is_sure(loops, result, pods, scenario)
        tied = _tied(excess, pods, configuration)
        every = {pod.key: pod for pod in (*excess, *tied.values())}
        for key, pod in every.items() if spans else ():
            yield _Taken(pod, pod.uid, spans, sure and key not in tied)
        return
    found = [span for span, _ in loops]
    found += [span for _, at_ns in created for span, _ in first_loops(lives, at_ns, late_ns)]
    new = [(pod, uid_of_created(pod, at_ns), at_ns) for pod, at_ns in created]
    for pod, uid, at_ns in (*((pod, pod.uid, 0) for pod in pods), *new):
        spans = _within(found, at_ns, scenario.end_ns)
        if spans:
            yield _Taken(pod, uid, spans)


def _late_ns(result: Exploration, number: int, configuration: ControllerConfiguration) -> int:
    """How long the client may let one of so many pods wait, and all else that is garbage: each is written once more at the most."""
    limit = client_limit(configuration)
    if limit is None:
        return 0
    requests = number + 3 * sum(key.controller == POD_GC for key in result.evictions)
    return ceil(round(limit.one_by_one_seconds(requests) * SECOND_NS, 3))


def _tied(
    excess: Sequence[Pod], pods: Iterable[Pod], configuration: ControllerConfiguration
) -> dict[str, Pod]:
    """Pods of one name and age, by key, of which the loop takes some, and nobody knows which."""
    if not excess:
        return {}
    last = garbage_rank(excess[-1], configuration)
    alike = {pod.key: pod for pod in pods if garbage_rank(pod, configuration) == last}
    taken = {pod.key for pod in excess}
    return {} if taken.issuperset(alike) else alike


def _within(spans: Iterable[Span], from_ns: int, until_ns: int) -> tuple[Span, ...]:
    cut = ((max(low_ns, from_ns), min(high_ns, until_ns)) for low_ns, high_ns in spans)
    return tuple(merge_spans(sorted(span for span in cut if span[0] <= span[1]), 0))


def _is_sure(
    loops: list[tuple[Span, bool]], result: Exploration, pods: list[Pod], scenario: Scenario
) -> bool:
    """Whether the first loop surely comes within the scenario, before anybody can delete a terminated pod."""
    if len(loops) != 1 or not loops[0][1] or loops[0][0][1] > scenario.end_ns:
        return False
    if any(pod.deletion_timestamp_ns is not None for pod in pods):
        return False  # its kubelet may have ended it by then
    until_ns = loops[0][0][1]
    keys = {pod.key for pod in pods}
    if any(
        isinstance(event, DeletePods) and event.at_ns <= until_ns and keys & set(event.pods)
        for event in scenario.events
    ):
        return False
    return not any(
        key.pod in keys and (found.earliest_ns <= until_ns or (found.missed and not found.proven))
        for key, found in result.evictions.items()
    )


def _perhaps(found: PossibleEviction) -> PossibleEviction:
    """The same where garbage collection may come first: what was exact is a bound then."""
    return found.without(_MISSED)._replace(certain=False)


def _beside(taken: _Taken, found: PossibleEviction | None) -> PossibleEviction:
    """The delete by garbage collection; ``found``: what it does to the pod for other reasons."""
    pod, spans = taken.pod, taken.spans
    gone_latest_ns = None if pod.finalizers else spans[-1][1]
    new = PossibleEviction(
        spans=spans,
        certain=taken.sure,
        node=pod.node_name,
        taint=None,
        toleration_index=None,
        toleration_seconds=None,
        gone_earliest_ns=None if pod.finalizers else spans[0][0],
        gone_latest_ns=gone_latest_ns,
        missed=frozenset() if taken.sure else _MISSED,
        proven=not taken.sure,
    )
    if found is None or taken.sure:
        return new
    merged = tuple(merge_spans(sorted((*spans, *found.spans)), 0))
    return _perhaps(found)._replace(spans=merged, gone_latest_ns=None, circumstances=())
