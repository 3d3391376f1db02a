"""``--dry-run=server``: the server is asked for every change without making it.

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
from kubectl_evictplan.apply.working import Working
from kubectl_evictplan.plans.document import Evict, Plan


class Rehearsed(NamedTuple):
    """What a rehearsal found: why the plan would fail (None: nothing), and evictions that would wait."""

    ending: Ending | None
    # (pod, what the server said): a budget that lets none go now.
    waiting: tuple[tuple[str, str], ...] = ()
    # (pod, what the server said): anything else than that it would be evicted.
    refused: tuple[tuple[str, str], ...] = ()


def rehearse(run: Working, plan: Plan, lock_namespace: str) -> Rehearsed:
    """Ask for rights, for every patch of a node, for every eviction; nothing is changed."""
    uids = {node.name: node.uid for node in plan.nodes}
    owners = {pod.key: pod.owner for pod in plan.pods}
    operations = plan.operations
    try:
        needed = preflight.needed(operations, plan.execution, (), owners, lock_namespace)
        preflight.rights(run.api, needed)
        preflight.nodes_as_planned(run, operations, uids)
        preflight.dry_runs(run, operations, uids)
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
