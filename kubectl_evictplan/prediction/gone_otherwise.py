"""Pods that somebody else may have deleted before they are evicted: whoever deletes their namespace, or a Job that fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubectl_evictplan.kube.jobs import may_fail
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.kube.owners import terminating_namespaces
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.pod_ends import EvictedKind

# By the key of a pod the offset from which on it may be gone, in nanoseconds.
GoneFrom = dict[str, int]


def gone_otherwise(
    snapshot: ClusterSnapshot, start_ns: int, kinds: Sequence[EvictedKind], alike: AlikePods
) -> GoneFrom:
    """Return from when on evicted pods may be gone already; ``snapshot`` is the whole cluster."""
    closing = terminating_namespaces(snapshot)
    jobs = {(one.namespace, one.name): one for one in snapshot.workloads if one.kind == "Job"}
    found: GoneFrom = {}
    if closing:
        for pod, _ in _evicted(kinds, alike):
            if pod.namespace in closing:
                found[pod.key] = 0
    if jobs:
        for key, from_ns in _with_their_jobs(jobs, start_ns, kinds, alike):
            found[key] = min(found.get(key, from_ns), from_ns)
    return found


def _evicted(
    kinds: Iterable[EvictedKind], alike: AlikePods, owner_kind: str = ""
) -> Iterator[tuple[Pod, int]]:
    """Yield every evicted pod with the earliest instant of that, a pod once for each of its evictions."""
    for kind in kinds:
        for lot in kind.lots:
            owner = lot.pod.controller() if owner_kind else None
            if not owner_kind or (owner is not None and owner.kind == owner_kind):
                yield from ((pod, kind.found.earliest_ns) for pod in alike.pods_in(lot))


def _with_their_jobs(
    jobs: dict[tuple[str, str], Workload],
    start_ns: int,
    kinds: Iterable[EvictedKind],
    alike: AlikePods,
) -> Iterator[tuple[str, int]]:
    """A Job that fails, at its activeDeadlineSeconds or by the pods that it has lost, deletes its active ones."""
    lost: dict[tuple[str, str], dict[str, int]] = {}
    for pod, at_ns in _evicted(kinds, alike, "Job"):
        owner = pod.controller()
        if owner is not None and not pod.finished and (pod.namespace, owner.name) in jobs:
            first_ns = lost.setdefault((pod.namespace, owner.name), {})
            first_ns[pod.key] = min(first_ns.get(pod.key, at_ns), at_ns)
    for name, first_ns in lost.items():
        job = jobs[name]
        if job.deadline_ns is not None and not job.makes_no_more and not job.managed_elsewhere:
            yield from ((key, job.deadline_ns - start_ns) for key in first_ns)
        # So many losses make it fail.
        enough = next((n for n in range(1, len(first_ns)) if may_fail(job, n)), None)
        if enough is not None:
            in_order = sorted(first_ns.values())
            for key, at_ns in first_ns.items():
                # By those of others.
                yield key, in_order[enough if at_ns <= in_order[enough - 1] else enough - 1]
