"""What a PodDisruptionBudget allows: the disruption controller's sums and the Eviction API's decision.

Upstream: ``pkg/controller/disruption/disruption.go`` and ``pkg/registry/core/pod/storage/eviction.go`` of
1.37 (unhealthyPodEvictionPolicy from 1.26 on). Pure: time and pods are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.durations import MINUTE_NS
from kubectl_evictplan.kube.objects import IntOrPercent, OwnerReference, Pod, PodDisruptionBudget

# How long an evicted pod counts as disrupted without having been deleted (``DeletionTimeout``).
DELETION_TIMEOUT_NS = 2 * MINUTE_NS
ALWAYS_ALLOW = "AlwaysAllow"


class Scale(msgspec.Struct, frozen=True):
    """How many pods an owner wants; ``uid`` is that of the top owner (a ReplicaSet's Deployment)."""

    uid: str
    replicas: int


class Unscaled(Enum):
    """Why an owner's scale is not there: it has none, or nothing is known about it."""

    NO_SCALE = "no-scale"
    UNKNOWN = "unknown"


Scales = Callable[[str, OwnerReference], Scale | Unscaled]


def scaled_value(value: IntOrPercent, total: int) -> int:
    """The number of pods that ``value`` stands for, percentages rounded up.

    Upstream: ``intstr.GetScaledValueFromIntOrPercent`` with roundUp.
    """
    return -(-value.value * total // 100) if value.percent else value.value


def synced_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], scales: Scales, now_ns: int
) -> PodDisruptionBudget:
    """The budget with the status that the disruption controller writes (``trySync``, ``failSafe``).

    ``pods`` are all that the selector covers. ``scales`` tells the scale of an owner in a namespace. Where an
    owner is known to have none, nothing may be disrupted; where one is unknown, expectedPods and
    desiredHealthy stay as they are.
    """
    staying = {
        pod.name for pod in pods if pod.deletion_timestamp_ns is None and budget.disrupted_pods
    }
    disrupted = tuple(
        (name, since_ns)
        for name, since_ns in budget.disrupted_pods
        if since_ns + DELETION_TIMEOUT_NS >= now_ns and name in staying
    )
    expected = _expected_pods(budget, pods, scales)
    if expected is Unscaled.NO_SCALE:
        return replace(budget, disruptions_allowed=0)
    if isinstance(expected, Unscaled):
        expected_pods, desired = budget.expected_pods, budget.desired_healthy
    else:
        expected_pods, desired = expected
    healthy = _healthy_pods(pods, dict(disrupted), now_ns)
    allowed = None
    if expected_pods is not None and desired is not None:
        allowed = max(healthy - desired, 0) if expected_pods > 0 else 0
    return replace(
        budget,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected_pods,
        disrupted_pods=disrupted,
        observed_generation=budget.generation,
    )


def is_behind(budget: PodDisruptionBudget, pods: Sequence[Pod], now_ns: int) -> bool:
    """Whether the status counts other healthy pods than there are, or is not the controller's at all (``is_negative``)."""
    if is_negative(budget):
        return True
    healthy = _healthy_pods(pods, dict(budget.disrupted_pods), now_ns)
    return budget.current_healthy is not None and budget.current_healthy != healthy


def is_stale(budget: PodDisruptionBudget) -> bool:
    """Whether the status is older than the spec: the Eviction API refuses until it is written anew."""
    return (budget.observed_generation or 0) < (budget.generation or 0)


def is_negative(budget: PodDisruptionBudget) -> bool:
    """Whether the status allows fewer than no disruptions, which the disruption controller never writes."""
    return budget.disruptions_allowed is not None and budget.disruptions_allowed < 0


def sync_fails(budget: PodDisruptionBudget, pods: Sequence[Pod], scales: Scales) -> bool:
    """Whether the disruption controller cannot compute what the budget wants: an owner of its pods has no scale.

    It then allows nothing, and leaves the rest of the status as it is (``failSafe``).
    """
    return _expected_pods(budget, pods, scales) is Unscaled.NO_SCALE


def _expected_pods(
    budget: PodDisruptionBudget, pods: Sequence[Pod], scales: Scales
) -> tuple[int, int] | Unscaled:
    """(expectedPods, desiredHealthy), as ``getExpectedPodCount`` has them."""
    most, least = budget.max_unavailable, budget.min_available
    if most is not None:
        total = _expected_scale(pods, scales)
        if isinstance(total, Unscaled):
            return total
        return total, max(total - scaled_value(most, total), 0)
    if least is None:
        return 0, 0
    if not least.percent:
        return len(pods), least.value
    total = _expected_scale(pods, scales)
    return total if isinstance(total, Unscaled) else (total, scaled_value(least, total))


def _expected_scale(pods: Iterable[Pod], scales: Scales) -> int | Unscaled:
    """What the owners of the pods want together; bare pods count nothing (``getExpectedScale``)."""
    wanted: dict[str, int] = {}
    # Pods of one owner share its reference: each is asked about once.
    for pod in {id(pod.owner_references): pod for pod in pods}.values():
        owner = pod.controller()
        if owner is None:
            continue
        scale = scales(pod.namespace, owner)
        if isinstance(scale, Unscaled):
            return scale
        wanted[scale.uid] = scale.replicas
    return sum(wanted.values())


def _healthy_pods(pods: Iterable[Pod], disrupted: dict[str, int], now_ns: int) -> int:
    """``countHealthyPods``: Ready, not terminating, not about to be deleted."""
    healthy = [
        pod.name for pod in pods if pod.ready == "True" and pod.deletion_timestamp_ns is None
    ]
    going = {name for name, at_ns in disrupted.items() if at_ns + DELETION_TIMEOUT_NS > now_ns}
    return sum(name not in going for name in healthy) if going else len(healthy)


class Answer(Enum):
    """What the Eviction API does about one request."""

    # Evicts without asking a budget, or without counting.
    DELETE = "delete"
    # Evicts when the budget's status can be written.
    DECREMENT = "decrement"
    # 429: the budget allows nothing, or its status is older than its spec.
    TOO_MANY_REQUESTS = "too-many-requests"
    # 403: the budget's status is negative.
    FORBIDDEN = "forbidden"
    # 500: more than one budget.
    SEVERAL_BUDGETS = "several-budgets"
    # The budget's status is not known.
    UNKNOWN = "unknown"


class EvictionRules(msgspec.Struct, frozen=True):
    """What a release's Eviction API knows; ``controllers/releases.py`` says which does."""

    ignores_pending: bool = True
    lets_unready_go: bool = True
    reads_unhealthy_policy: bool = True
    tells_when_to_retry: bool = True
    tells_of_terminating_namespaces: bool = True


_NEWEST = EvictionRules()


def can_ignore_budgets(pod: Pod, rules: EvictionRules = _NEWEST) -> bool:
    """Whether a pod is evicted without asking (``canIgnorePDB``): terminal, Pending or terminating."""
    return pod.finished or (
        rules.ignores_pending and (pod.phase == "Pending" or pod.deletion_timestamp_ns is not None)
    )


def answer_eviction(
    pod: Pod, budgets: Sequence[PodDisruptionBudget], rules: EvictionRules = _NEWEST
) -> Answer:
    """Decide about an eviction of ``pod``, given every budget that covers it (``EvictionREST.Create``)."""
    if can_ignore_budgets(pod, rules) or not budgets:
        return Answer.DELETE
    if len(budgets) > 1:
        return Answer.SEVERAL_BUDGETS
    budget = budgets[0]
    if needs_no_disruption(pod, budget, rules):
        return Answer.DELETE
    if budget.disruptions_allowed is None:
        return Answer.UNKNOWN
    if is_stale(budget):
        return Answer.TOO_MANY_REQUESTS
    if is_negative(budget):
        return Answer.FORBIDDEN
    return Answer.DECREMENT if budget.disruptions_allowed > 0 else Answer.TOO_MANY_REQUESTS


def needs_no_disruption(pod: Pod, budget: PodDisruptionBudget, rules: EvictionRules) -> bool:
    """Whether the pod does not count for its one budget: it is not Ready, and the others are enough, or it may always go."""
    if pod.ready == "True" or not rules.lets_unready_go:
        return False
    if budget.unhealthy_pod_eviction_policy == ALWAYS_ALLOW and rules.reads_unhealthy_policy:
        return True
    current, desired = budget.current_healthy, budget.desired_healthy
    return current is not None and desired is not None and current >= desired > 0


def decremented(budget: PodDisruptionBudget, pod: Pod, now_ns: int) -> PodDisruptionBudget:
    """The budget's status after one eviction (``checkAndDecrement``)."""
    assert budget.disruptions_allowed, "a budget that allows nothing is not decremented"
    disrupted = {**dict(budget.disrupted_pods), pod.name: now_ns}
    return replace(
        budget,
        disruptions_allowed=budget.disruptions_allowed - 1,
        disrupted_pods=tuple(sorted(disrupted.items())),
    )
