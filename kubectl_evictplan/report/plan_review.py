"""A plan for its reviewer, as blocks: what will be done, what is predicted to follow, what is lost, what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC

from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import Evict, Execution, Loss, Plan
from kubectl_evictplan.plans.exposed import Exposed, exposed_nodes
from kubectl_evictplan.report.blocks import (
    Block,
    Figures,
    Finding,
    Findings,
    Phrase,
    Table,
    Verdict,
    columns,
)
from kubectl_evictplan.report.verdict import verdict
from kubectl_evictplan.report.words import Clock, count, offset

NOTHING_TO_DO = "there is nothing to do: the cluster is as it is asked to be"
_EXPOSED_MAX = 10
_LOST = {
    "bare-pod": "it has no controller: nothing makes it anew",
    "empty-dir": "the data of its emptyDir volumes goes with it",
}


def review_blocks(
    plan: Plan, differences: Sequence[Difference], accepted: Sequence[Difference] = ()
) -> Iterator[Block]:
    """Yield the review; ``differences`` keep the plan from being carried out, ``accepted`` do not."""
    yield Verdict(tuple(_sentences(plan, differences)))
    if not plan.operations:
        # What happens without anybody's doing is what-if's to tell.
        yield from difference_blocks(differences, ())
        return
    clock = Clock(str(plan.prediction.inputs.start.value), UTC)
    yield Verdict(tuple(verdict(plan.prediction, clock, complete=True)))
    yield from difference_blocks(differences, accepted)
    if plan.losses:
        yield loss_findings(plan.losses)
    if exposed := tuple(exposed_nodes(plan)):
        found = tuple(Finding("replacement-may-be-tainted", exposed_words(one)) for one in exposed)
        yield Findings("May end the run (exit code 4)", (*found[:_EXPOSED_MAX], *_more(exposed)))
    yield Table(
        columns("#", "NOT BEFORE", "NODE", "OPERATION"),
        [(str(one.number), offset(one.at_seconds), one.node, one.told) for one in plan.operations],
        title="What is done, one after the other",
    )
    yield Figures("How, where and who", tuple(_facts(plan)))


def exposed_words(one: Exposed) -> str:
    """Return what may happen at a node that is open until its taint comes, and what keeps it from happening."""
    pods = count(one.pods, "pod")
    return (
        f"node {one.node}: replacements of {pods} from other nodes may be put here before its taint, "
        f"and the run ends rather than evict what nobody reviewed; cordon it first, or drain"
    )


def _more(exposed: Sequence[Exposed]) -> Iterator[Finding]:
    if len(exposed) > _EXPOSED_MAX:
        more = count(len(exposed) - _EXPOSED_MAX, "more node")
        yield Finding("replacement-may-be-tainted", f"and {more}")


def _sentences(plan: Plan, differences: Sequence[Difference]) -> Iterator[Phrase]:
    nodes = count(len({one.node for one in plan.operations}), "node")
    what = f"{count(len(plan.operations), 'operation')} on {nodes}"
    if differences:
        number = count(len(differences), "difference")
        yield Phrase(f"Not carried out: {number} from what was reviewed.", "loud")
    elif not plan.operations:
        yield Phrase(f"{plan.title or 'The plan'}: {NOTHING_TO_DO}.", "good")
    else:
        yield Phrase(f"{plan.title or 'The plan'}: {what}.")
    if plan.losses:
        pods = {(loss.namespace, loss.pod) for loss in plan.losses}
        yield Phrase(f"Lost for good: {count(len(pods), 'pod')}, or the data in them.", "loud")


def difference_blocks(
    differences: Sequence[Difference], accepted: Sequence[Difference]
) -> Iterator[Findings]:
    """Yield what differs from a plan, and what of that was accepted."""
    if differences:
        yield Findings("Different from what was reviewed", _told(differences), "loud")
    if accepted:
        yield Findings("Different, and accepted with --accept-drift", _told(accepted))


def _told(differences: Sequence[Difference]) -> tuple[Finding, ...]:
    return tuple(Finding(one.kind, one.told) for one in differences)


def loss_findings(losses: Sequence[Loss]) -> Findings:
    """Return what is lost for good."""
    found = tuple(
        Finding(loss.kind, _LOST[loss.kind], f"pod {loss.namespace}/{loss.pod} on {loss.node}")
        for loss in losses
    )
    return Findings("Lost for good", found, "loud")


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    cluster, known = plan.cluster, "not known: made from files"
    evicts = any(isinstance(one, Evict) for one in plan.operations)
    yield "Pace", _pace(plan.execution, evicts=evicts)
    for condition in plan.execution.abort_if:
        yield "Stopped when", condition
    yield "Cluster", f"{cluster.server or known}, context {cluster.context or 'none'}"
    yield "User", cluster.user or "not known"
    made = f"{plan.created_at} by kubectl-evictplan {plan.tool_version}"
    yield "Made", f"{made} from the state of {plan.snapshot.taken_at}"
    # As its ticket has them, so that both can be laid beside each other.
    yield "Fingerprint", f"{plan.prediction.fingerprint} (of the prediction)"
    yield "Plan", f"{plan.fingerprint} (of all of it)"


def _pace(execution: Execution, *, evicts: bool) -> str:
    parts = ["one node at a time"]
    if evicts:
        parts.append(f"at most {count(execution.parallel, 'pod')} of it under way")
    if execution.settle_seconds:
        parts.append(f"a pause of {_seconds(execution.settle_seconds)} after each node")
    if execution.until_ready:
        parts.append(
            "the next node waits until replacements are Ready, perhaps longer than predicted"
        )
    if execution.eviction_timeout_seconds:
        parts.append(f"at most {_seconds(execution.eviction_timeout_seconds)} for one node")
    return "; ".join(parts)


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds * SECOND_NS))
