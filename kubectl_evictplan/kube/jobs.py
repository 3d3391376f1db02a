"""When a Job fails as a whole, as far as counting its losses tells.

Upstream: ``syncJob``, ``exceedsBackoffLimit`` and ``matchPodFailurePolicy`` (pkg/controller/job).
"""

from __future__ import annotations

from kubectl_evictplan.kube.objects import Workload

BACKOFF_LIMIT_DEFAULT = 6


def may_fail(job: Workload, lost: int) -> bool:
    """Whether a Job may fail once so many of its pods are deleted, by what is known of its failures so far.

    A failed Job deletes all its active pods, wherever they run (``deleteActivePods``).
    """
    if job.managed_elsewhere or job.makes_no_more or not lost:
        return False
    if any(rule.action == "FailJob" for rule in job.failure_rules):
        return True
    first = job.failure_rules[0] if job.failure_rules else None
    if first is not None and (first.on, first.action) == ("disruption", "Ignore"):
        return False
    by_index, limit = job.backoff_limit_per_index is not None, job.backoff_limit
    if limit is None and not by_index:
        limit = BACKOFF_LIMIT_DEFAULT
    if limit is not None and (job.failed or 0) + lost > limit:
        return True
    most = job.max_failed_indexes
    return by_index and most is not None and job.failed_indexes + lost > most
