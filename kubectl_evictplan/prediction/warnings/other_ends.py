"""Ends of pods that no list here holds: those that their Job deletes, and those that end at a deadline of their own."""

from __future__ import annotations

from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.jobs import may_fail
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.warnings.context import Statement, Statements, WarningContext


def job_deletes_its_pods(context: WarningContext) -> Statements:
    """A Job that fails, by what it loses or at its activeDeadlineSeconds, deletes its pods, kept ones too."""
    jobs = {
        (one.namespace, one.name): one for one in context.snapshot.workloads if one.kind == "Job"
    }
    if not jobs:
        return
    of_jobs = context.evicted_by_owner.get("Job", ())
    evicted = set(context.evicted_keys(one for one in of_jobs if not one.pod.finished))
    pods_of: dict[tuple[str, str], list[Pod]] = {}
    for pod in context.pods:
        owner = pod.controller()
        if owner is not None and owner.kind == "Job" and not pod.finished:
            pods_of.setdefault((pod.namespace, owner.name), []).append(pod)
    lists = "these deletes are in no list of evictions, and what is kept here goes with it; the impact counts them"
    for key, pods in sorted(pods_of.items()):
        job = jobs.get(key)
        if job is None:
            continue
        keys = [pod.key for pod in pods]
        name = "/".join(key)
        if job.deadline_ns is not None and not job.makes_no_more and not job.managed_elsewhere:
            at_ns = max(job.deadline_ns - context.scenario.start_ns, 0)
            if at_ns <= context.horizon_ns:
                yield Statement(
                    f"Job {name} is past its activeDeadlineSeconds {_offset(at_ns)}: it fails, and its controller deletes its "
                    f"active pods, on every node; {lists}",
                    keys,
                )
        if may_fail(job, sum(one in evicted for one in keys)):
            yield Statement(
                f"Job {name} may fail by the pods that it loses (backoffLimit, maxFailedIndexes or podFailurePolicy): its "
                f"controller deletes its other pods then, on every node; {lists}",
                keys,
            )


def pod_past_its_deadline(context: WarningContext) -> Statements:
    """The kubelet ends a pod at its own activeDeadlineSeconds (``pastActiveDeadline``), eviction or not."""
    limited = [
        (pod, deadline_ns)
        for pod in context.pods
        if (deadline_ns := pod.deadline_ns) is not None and not pod.finished
    ]
    surely_gone_ns = {
        pod.key: one.occurrence.latest_ns
        for one in (context.evicted if limited else ())
        if one.occurrence.certain
        for pod in context.alike.pods_in(one.lot)
    }
    for pod, deadline_ns in limited:
        at_ns = max(deadline_ns - context.scenario.start_ns, 0)
        gone_ns = surely_gone_ns.get(pod.key)
        if at_ns <= context.horizon_ns and (gone_ns is None or at_ns < gone_ns):
            yield Statement(
                f"the pod's own activeDeadlineSeconds is over {_offset(at_ns)}: a kubelet that runs ends it (Failed, "
                "DeadlineExceeded), which is no eviction and in no list here; whatever deletes it later deletes a "
                "finished pod, at once and without its budget being asked",
                [pod.key],
            )


def _offset(at_ns: int) -> str:
    return f"at +{format_duration(at_ns // SECOND_NS * SECOND_NS)}" if at_ns else "at the start"
