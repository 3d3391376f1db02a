"""PodDisruptionBudgets of the simulated API server (pkg/registry/core/pod/storage/eviction.go)."""

from __future__ import annotations

from collections.abc import Sequence

from live.requests_answered import Tree, failure


def covers(budget: Tree, pod: Tree) -> bool:
    labels = pod["metadata"].get("labels") or {}
    wanted = budget["spec"]["selector"].get("matchLabels") or {}
    same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and all(labels.get(key) == value for key, value in wanted.items())


def is_ready(pod: Tree) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_deleted(pod: Tree) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def count(budget: Tree, pods: Sequence[Tree]) -> None:
    """Give a budget its status, as the disruption controller does."""
    pods = [pod for pod in pods if covers(budget, pod)]
    healthy = sum(1 for pod in pods if is_ready(pod) and not is_deleted(pod))
    spec, status = budget["spec"], budget.setdefault("status", {})
    expected = status.get("expectedPods", len(pods))
    wanted = spec.get("minAvailable")
    desired = expected - spec.get("maxUnavailable", 0) if wanted is None else wanted
    status |= {"currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected}
    status["disruptionsAllowed"] = max(0, healthy - desired)


def spend(pod: Tree, budgets: Sequence[Tree], *, is_dry: bool) -> Tree | None:
    """Take one disruption off the pod's budget and return it, or refuse (``checkAndDecrement``)."""
    budgets = [one for one in budgets if covers(one, pod)]
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support."
        )
        raise failure(500, message)
    if not budgets:
        return None
    budget = budgets[0]
    meta, status = budget["metadata"], budget.get("status") or {}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    if not is_ready(pod) and status.get("currentHealthy", 0) >= status.get("desiredHealthy", 1):
        return None
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        told = f"The disruption budget {meta['name']} is still being processed by the server."
        raise failure(429, message, causes=[("DisruptionBudget", told)], retry_after=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        named = {"name": meta["name"], "group": "policy", "kind": "poddisruptionbudgets"}
        raise failure(403, "pdb disruptions allowed is negative", details=named)
    if allowed == 0:
        told = f"The disruption budget {meta['name']} does not allow evicting pods currently"
        desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        if healthy <= desired:
            told = (
                f"The disruption budget {meta['name']} needs {desired} healthy pods and has "
                f"{healthy} currently"
            )
        raise failure(429, message, causes=[("DisruptionBudget", told)])
    if is_dry:
        return None
    status["disruptionsAllowed"] = allowed - 1
    return budget
