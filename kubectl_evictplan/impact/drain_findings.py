"""Findings of drains: budgets that they wait for, and nodes that are not drained in the end."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.impact.finding_items import Facts, Item
from kubectl_evictplan.impact.finding_words import counted
from kubectl_evictplan.kube.drain_filters import OVERRIDES, Reason
from kubectl_evictplan.prediction.document import POSSIBLE, DrainReport
from kubectl_evictplan.scenarios.names import listed


def drain_waits(facts: Facts) -> Iterator[Item]:
    """Budgets that refuse an eviction of a drain, for a time or for ever."""
    for one in facts.impact.budgets:
        if one.waits:
            text = (
                f"a drain waits for budget {one.namespace}/{one.budget} because of "
                f"{counted(len(one.waits), 'pod')}"
            )
            remedy = facts.scaling.for_budget(one)
            name = f"PodDisruptionBudget/{one.namespace}/{one.budget}"
            yield Item(name, text, weight=float(len(one.waits)), remedy=remedy)


def drain_unfinished(facts: Facts) -> Iterator[Item]:
    """Nodes of which kubectl is surely, or perhaps, not through with all pods."""
    for one in facts.world.prediction.drains:
        # What only objects prevent that nobody has seen is said once, as an unknown.
        unseen = one.expected is not None and one.expected.end_reason == "drained"
        if one.unfinished and not (unseen and one.unfinished == POSSIBLE):
            remedy = _without_refusals(one) if one.end_reason == "refused" else ""
            yield Item(f"Node/{one.node}", _unfinished(one), one.unfinished, remedy=remedy)


def _unfinished(one: DrainReport) -> str:
    if one.start_seconds is None:
        return f"kubectl does not come to node {one.node}: it is not through with a node before it"
    match one.end_reason:
        case "refused":
            pods = len({refused.pod for refused in one.refused})
            return f"kubectl refuses to drain {one.node} because of {counted(pods, 'pod')}: it evicts none"
        case "timeout":
            return f"the drain of {one.node} is given up (--timeout) with pods still there"
        case "error":
            return f"the drain of {one.node} ends with an error"
        case "never":
            return f"the drain of {one.node} never ends"
        case "horizon":
            return f"the drain of {one.node} still goes on at the given horizon"
        case _:
            return f"the drain of {one.node} may end without all its pods gone, or never"


def _without_refusals(one: DrainReport) -> str:
    flags = sorted({OVERRIDES[Reason(refused.reason)] for refused in one.refused})
    return f"look at these pods; with {listed(flags)} kubectl drains the node in spite of them"
