"""Which finalizers keep a deleted pod, and which kube-controller-manager takes away by itself."""

from __future__ import annotations

from kubectl_evictplan.kube.objects import Pod

# Pods of Jobs carry it from 1.22 (alpha), 1.23 (beta) and 1.26 (GA) on.
JOB_TRACKING = "batch.kubernetes.io/job-tracking"


def is_tracked_by_job_controller(pod: Pod) -> bool:
    """Whether the Job controller takes its finalizer from the pod once it is deleted.

    Upstream: ``trackJobStatusAndRemoveFinalizers`` for pods of its Jobs, ``handleSingleOrphanPod`` for those of Jobs
    that are gone and for pods without an owner (pkg/controller/job/job_controller.go, 1.37.0).
    """
    if JOB_TRACKING not in pod.finalizers:
        return False
    owner = pod.controller()
    return owner is None or owner.kind == "Job"


def lasting_finalizers(pod: Pod, *, job_controller: bool = True) -> tuple[str, ...]:
    """Finalizers that nobody known here removes; ``job_controller``: it runs in the end."""
    if job_controller and is_tracked_by_job_controller(pod):
        return tuple(name for name in pod.finalizers if name != JOB_TRACKING)
    return pod.finalizers
