"""What may stand in a pod's way out: disruption budgets that cover it, webhooks that are asked.

Budgets follow ``policy/v1``: a null selector covers nothing, an empty one everything in its
namespace (of a ``policy/v1beta1`` object the loader has made an empty selector null). What webhooks
answer, their matchConditions and the labels of namespaces are not known here: where those decide, a
webhook *may* refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubectl_evictplan.kube.objects import Pod, PodDisruptionBudget, PodWebhook
from kubectl_evictplan.kube.selectors import meets

# The one label of a namespace that every namespace has.
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


class BudgetIndex:
    """Which budgets cover a pod, without asking every budget about every pod.

    They are kept by namespace and by the one of their labels that the fewest budgets ask for.
    """

    def __init__(self, budgets: Sequence[PodDisruptionBudget]) -> None:
        self._budgets = budgets
        # Under None: those that ask for no label.
        self._candidates: dict[str, dict[tuple[str, str] | None, list[int]]] = {}
        asked = Counter(
            (budget.namespace, label)
            for budget in budgets
            for label in (budget.match_labels or {}).items()
        )
        for place, budget in enumerate(budgets):
            if budget.match_labels is None:
                continue
            space = budget.namespace
            rarest = min(
                budget.match_labels.items(),
                key=lambda label: (asked[space, label], label),
                default=None,
            )
            self._candidates.setdefault(space, {}).setdefault(rarest, []).append(place)

    def matching(self, pod: Pod) -> list[int]:
        """Places, in the sequence given, of the budgets that cover the pod."""
        candidates = self._candidates.get(pod.namespace)
        if not candidates:
            return []
        return [
            place
            for label in (*pod.labels.items(), None)
            for place in candidates.get(label, ())
            if selects(self._budgets[place], pod.labels)
        ]


def selects(budget: PodDisruptionBudget, labels: Mapping[str, str]) -> bool:
    """``LabelSelectorAsSelector(...).Matches``; an unknown operator selects nothing."""
    return (budget.match_labels or {}).items() <= labels.items() and all(
        meets(labels, *expression) for expression in budget.match_expressions
    )


def webhooks_asked(webhooks: Iterable[PodWebhook], pod: Pod, *, evicts: bool = False) -> list[str]:
    """Names of the webhooks that may refuse the deletion of the pod.

    ``evicts``: by the Eviction API. Webhooks are asked about the Eviction that somebody creates, which has no labels, but not about
    the DELETE that follows (``addConditionAndDeletePod``).
    """
    if evicts:
        return [one.name for one in webhooks if one.of_eviction and _may_ask(one, pod, {})]
    return [one.name for one in webhooks if one.of_deletion and _may_ask(one, pod, pod.labels)]


def may_refuse_creation(webhooks: Iterable[PodWebhook], pod: Pod) -> bool:
    """Whether some webhook may refuse another pod like this one, or does while nobody answers for it."""
    return any(one.of_creation and _may_ask(one, pod, pod.labels) for one in webhooks)


class RefusablePods(msgspec.Struct, frozen=True):
    """Keys of the pods that some webhook may keep: from whoever deletes them, and from the Eviction API."""

    deleted: frozenset[str]
    evicted: frozenset[str]


def pods_refusable(webhooks: tuple[PodWebhook, ...], pods: Mapping[str, Pod]) -> RefusablePods:
    """The pods whose deletion or eviction some webhook may refuse."""
    deleted = any(one.of_deletion for one in webhooks)
    evicted = any(one.of_eviction for one in webhooks)
    return RefusablePods(
        frozenset(k for k, pod in pods.items() if deleted and webhooks_asked(webhooks, pod)),
        frozenset(
            k for k, pod in pods.items() if evicted and webhooks_asked(webhooks, pod, evicts=True)
        ),
    )


def _may_ask(webhook: PodWebhook, pod: Pod, labels: Mapping[str, str]) -> bool:
    namespace = {_NAMESPACE_NAME: pod.namespace}
    return all(meets(labels, *wish) for wish in webhook.object_selector) and all(
        meets(namespace, *wish) for wish in webhook.namespace_selector if wish[0] == _NAMESPACE_NAME
    )
