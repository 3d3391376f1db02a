"""Which finalizers keep a deleted pod, and which kube-controller-manager takes away by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from kubectl_evictplan.kube.objects import Pod, Workload

# Pods of Jobs carry it from 1.22 (alpha), 1.23 (beta) and 1.26 (GA) on.
JOB_TRACKING = "batch.kubernetes.io/job-tracking"


# Namespace and name of each.
Jobs = Collection[tuple[str, str]]


def jobs_managed_elsewhere(workloads: Iterable[Workload]) -> Jobs:
    """Return the Jobs whose spec.managedBy names another controller (1.32 and later by default)."""
    return frozenset((one.namespace, one.name) for one in workloads if one.managed_elsewhere)


def is_tracked_by_job_controller(pod: Pod, elsewhere: Jobs = ()) -> bool:
    """Whether the Job controller takes its finalizer from the pod once it is deleted; ``elsewhere``: Jobs of others.

    Upstream: ``trackJobStatusAndRemoveFinalizers`` for pods of its Jobs, ``handleSingleOrphanPod`` for those of Jobs
    that are gone and for pods without an owner, both not for a Job that another controller manages
    (pkg/controller/job/job_controller.go, 1.37.0).
    """
    if JOB_TRACKING not in pod.finalizers:
        return False
    owner = pod.controller()
    if owner is None:
        return True
    return owner.kind == "Job" and (pod.namespace, owner.name) not in elsewhere


def lasting_finalizers(
    pod: Pod, *, job_controller: bool = True, elsewhere: Jobs = ()
) -> tuple[str, ...]:
    """Finalizers that nobody known here removes; ``job_controller``: it runs in the end, but not for Jobs ``elsewhere``."""
    if job_controller and is_tracked_by_job_controller(pod, elsewhere):
        return tuple(name for name in pod.finalizers if name != JOB_TRACKING)
    return pod.finalizers


class Finalizers(msgspec.Struct, frozen=True):
    """Who takes finalizers from deleted pods in one cluster; without arguments nobody. ``job_controller``: it always runs."""

    job_controller: bool = False
    elsewhere: Jobs = ()

    def lasting(self, pod: Pod) -> tuple[str, ...]:
        """``lasting_finalizers`` of a pod."""
        return lasting_finalizers(pod, job_controller=self.job_controller, elsewhere=self.elsewhere)
