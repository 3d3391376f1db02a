"""``--dry-run=server``: the checks of a run, and the server's own dry run of every eviction; nothing is changed.

What it accepts now it accepts one by one. That a sequence of evictions passes its budgets nobody can try: a dry run
spends nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubectl_evictplan.apply import preflight
from kubectl_evictplan.apply.cluster import ClusterApi, Outcome
from kubectl_evictplan.apply.endings import Ended, Ending
from kubectl_evictplan.apply.preflight import CheckFailed
from kubectl_evictplan.apply.working import Looking
from kubectl_evictplan.plans.document import Evict, Plan


class Rehearsed(NamedTuple):
    """What a rehearsal found: why the plan would fail (None: nothing), and evictions that would wait."""

    ending: Ending | None
    # (pod, what the server said): a budget that lets none go now.
    waiting: tuple[tuple[str, str], ...] = ()
    # (pod, what the server said): anything else than that it would be evicted.
    refused: tuple[tuple[str, str], ...] = ()


def rehearse(run: Looking, plan: Plan, lock_namespace: str) -> Rehearsed:
    """Make the checks that a run makes, the lock left out, and ask for every eviction."""
    try:
        identity = run.read(run.api.identity)
        checks = preflight.before_the_lock(run, plan, lock_namespace, identity)
        for check in (*checks, *preflight.under_the_lock(run, plan)):
            run.heed_signals()
            check()
    except CheckFailed as failed:
        return Rehearsed(failed.ending)
    except Ended as end:
        return Rehearsed(end.ending)
    waiting, refused = [], []
    for pod, outcome, message in _evictions(run.api, plan):
        if outcome is Outcome.BUDGET:
            waiting.append((pod, message))
        elif outcome not in (Outcome.APPLIED, Outcome.ABSENT):
            refused.append((pod, message or outcome.value))
    return Rehearsed(None, tuple(waiting), tuple(refused))


def _evictions(api: ClusterApi, plan: Plan) -> Iterator[tuple[str, Outcome, str]]:
    for one in plan.operations:
        if isinstance(one, Evict):
            request = api.evict_request(
                one.namespace, one.pod, one.uid, one.grace_period_seconds, dry_run=True
            )
            reply = api.send(request)
            yield one.key, reply.outcome, reply.message
