"""Jobs that fail as a whole because of the pods they lose: they delete all the others then, wherever these run.

Upstream: ``syncJob`` (pkg/controller/job): with a finished condition ``deleteActivePods`` ends every active pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.impact.fates import (
    NOBODY,
    Fate,
    Moving,
    Successor,
    fate_of,
    is_counted,
)
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.impact.stretches import (
    FOREVER_NS,
    NEVER,
    NONE,
    Between,
    absence,
)
from kubectl_evictplan.impact.successors import (
    JOB_BACKOFF_NS,
    Lost,
    failure_action,
)
from kubectl_evictplan.kube.jobs import BACKOFF_LIMIT_DEFAULT
from kubectl_evictplan.kube.objects import Pod, Workload
from kubectl_evictplan.kube.owners import OwnerKey

JOB = "Job"
# The Job controller takes changes of pods together for a second.
_SYNC_MAX_NS = range_ns(Latency.REMOVE_FINALIZER)[1]


class JobEnd(msgspec.Struct, frozen=True):
    """When a Job fails; not ``certain``: perhaps it goes on."""

    when: Between
    certain: bool
    # Nothing but activeDeadlineSeconds ends it.
    by_deadline: bool = False


class _Failure(msgspec.Struct, frozen=True):
    """A lost pod as its Job counts it; not ``certain``: perhaps it does not."""

    when: Between
    certain: bool


def job_ends(
    by_owner: Iterable[OwnerKey],
    workloads: Mapping[OwnerKey, Workload],
    lost_by: Callable[[OwnerKey], Sequence[Lost]],
    start_ns: int,
) -> dict[OwnerKey, JobEnd]:
    """Return every Job of the input that fails as a whole, perhaps or surely, by what it loses."""
    found: dict[OwnerKey, JobEnd] = {}
    for owner in by_owner:
        job = workloads.get(owner) if owner[1] == JOB else None
        if job is None or job.managed_elsewhere or job.makes_no_more:
            continue
        if (lost := lost_by(owner)) and (end := _end(job, lost, start_ns)) is not None:
            found[owner] = end
    return found


def _end(job: Workload, lost: Sequence[Lost], start_ns: int) -> JobEnd | None:
    found = (_by_deadline(job, lost, start_ns), _by_rule(job, lost), *_by_limits(job, lost))
    ends = [one for one in found if one is not None]
    sure = [one.when for one in ends if one.certain]
    if not ends:
        return None
    earliest_ns = min(one.when.earliest_ns for one in ends)
    latest_ns = min((one.latest_ns for one in sure), default=FOREVER_NS)
    when = Between(earliest_ns, latest_ns).later(0, _SYNC_MAX_NS)
    return JobEnd(when, bool(sure), all(one.by_deadline for one in ends))


def _by_deadline(job: Workload, lost: Sequence[Lost], start_ns: int) -> JobEnd | None:
    """``pastActiveDeadline``, where it comes before a lost pod may be replaced; a later one has nothing to do with that."""
    if job.deadline_ns is None:
        return None
    at_ns = max(job.deadline_ns - start_ns, 0)
    # It is over then, whether or not somebody would have deleted the pod later.
    before = [at_ns <= one.deletion.when.earliest_ns for one in lost]
    perhaps = any(at_ns <= one.deletion.when.latest_ns + JOB_BACKOFF_NS for one in lost)
    if not perhaps:
        return None
    return JobEnd(Between(at_ns, at_ns), any(before), by_deadline=True)


def _by_rule(job: Workload, lost: Sequence[Lost]) -> JobEnd | None:
    """Rule FailJob: the first pod that meets it."""
    may_fail = any(rule.action == "FailJob" for rule in job.failure_rules)
    failing = [
        _failure(job, one, known=action == "FailJob")
        for one in lost
        if (action := failure_action(job, one.deletion)) == "FailJob" or (not action and may_fail)
    ]
    return _nth(failing, 1)


def _by_limits(job: Workload, lost: Sequence[Lost]) -> Iterator[JobEnd | None]:
    counted = [
        (one, action)
        for one in lost
        if (action := failure_action(job, one.deletion)) not in ("Ignore", "FailJob")
    ]
    by_index = job.backoff_limit_per_index
    limit = job.backoff_limit
    if limit is None and by_index is None:
        limit = BACKOFF_LIMIT_DEFAULT
    if limit is not None:
        failures = [_failure(job, one, known=bool(action)) for one, action in counted]
        end = _nth(failures, max(limit - (job.failed or 0) + 1, 1))
        # Of a Job of which it is not known only the first failure of all is sure to be too many.
        unknown = job.failed is None and limit > 0
        yield replace(end, certain=False) if end is not None and unknown else end
    if by_index is not None and job.max_failed_indexes is not None:
        failures = [
            _failure(job, one, known=bool(action))
            for one, action in counted
            if action == "FailIndex" or one.pod.index_failures >= by_index
        ]
        yield _nth(failures, max(job.max_failed_indexes - job.failed_indexes + 1, 1))


def _failure(job: Workload, one: Lost, *, known: bool) -> _Failure:
    """When the Job counts it: once it has ended, where it waits for that."""
    when, gone = one.deletion.when, one.deletion.gone
    if job.waits_for_ends:
        when = Between(when.earliest_ns, gone.latest_ns)
    return _Failure(when, known and one.deletion.certain and when.latest_ns < FOREVER_NS)


def _nth(failures: Sequence[_Failure], number: int) -> JobEnd | None:
    """When the ``number``-th has happened."""
    if len(failures) < number:
        return None
    earliest_ns = sorted(one.when.earliest_ns for one in failures)[number - 1]
    latest = sorted(one.when.latest_ns for one in failures if one.certain)
    certain = len(latest) >= number
    return JobEnd(Between(earliest_ns, latest[number - 1] if certain else FOREVER_NS), certain)


def end_jobs(
    fates: dict[str, Fate],
    ends: Mapping[OwnerKey, JobEnd],
    by_owner: Mapping[OwnerKey, Iterable[Pod]],
) -> list[Moving]:
    """Let all pods of these Jobs end with them, in ``fates``; return those that nothing else happens to."""
    others = []
    for owner, end in ends.items():
        for pod in by_owner[owner]:
            fate = fates.get(pod.key)
            if fate is not None:
                fates[pod.key] = _ended(fate, end)
            elif pod.active:
                others.append(Moving(pod.key, pod, owner, None))
                fates[pod.key] = _ended(fate_of(others[-1], NodeLife(), NOBODY), end)
    return others


def _until(end: JobEnd, successor: Successor) -> Successor:
    """Whoever comes before the end goes with it; whoever may come after it perhaps never comes."""
    if successor.ready.earliest_ns >= end.when.latest_ns:
        return NOBODY
    if successor.ready.latest_ns <= end.when.earliest_ns:
        return successor
    created, ready, bound, starts = (
        each._replace(latest_ns=FOREVER_NS)
        for each in (successor.created, successor.ready, successor.bound, successor.starts)
    )
    return Successor(created, ready, successor.least_ns, bound, starts)


def _ended(fate: Fate, end: JobEnd) -> Fate:
    if end.certain and fate.deletion is not None:
        fate = fate_of(Moving(*fate[:4]), fate.life, _until(end, fate.successor))
    leaves = end.when if end.certain else end.when._replace(latest_ns=FOREVER_NS)
    gone = absence(end.when, NEVER, certain=end.certain) if is_counted(fate.pod) else NONE
    return fate.also_gone(gone, leaves)
