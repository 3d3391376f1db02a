"""Which PodDisruptionBudgets cover a pod, without asking every budget about every pod.

Semantics of ``policy/v1``: a null selector covers nothing, an empty one everything in its namespace
(of a ``policy/v1beta1`` object the loader has made an empty selector null).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kubectl_evictplan.kube.objects import Pod, PodDisruptionBudget
from kubectl_evictplan.kube.selectors import meets

_Label = tuple[str, str]


class BudgetIndex:
    """Budgets by namespace and by the one of their labels that the fewest budgets ask for."""

    def __init__(self, budgets: Sequence[PodDisruptionBudget]) -> None:
        self._budgets = budgets
        self._by_label: dict[str, dict[_Label, list[int]]] = {}
        self._unlabelled: dict[str, list[int]] = {}
        self._plain = {
            place
            for place, budget in enumerate(budgets)
            if len(budget.match_labels or ()) == 1 and not budget.match_expressions
        }
        asked = Counter(
            (budget.namespace, label)
            for budget in budgets
            for label in (budget.match_labels or {}).items()
        )
        for place, budget in enumerate(budgets):
            if budget.match_labels is None:
                continue
            space = budget.namespace
            if budget.match_labels:
                rarest = min(
                    budget.match_labels.items(), key=lambda label: (asked[space, label], label)
                )
                self._by_label.setdefault(space, {}).setdefault(rarest, []).append(place)
            else:
                self._unlabelled.setdefault(space, []).append(place)

    def matching(self, pod: Pod) -> list[int]:
        """Places, in the sequence given, of the budgets that cover the pod."""
        found = []
        by_label = self._by_label.get(pod.namespace)
        if by_label:
            for label in pod.labels.items():
                candidates = by_label.get(label)
                if candidates:
                    found += [at for at in candidates if self._covers(at, pod)]
        unlabelled = self._unlabelled.get(pod.namespace)
        if unlabelled:
            found += [at for at in unlabelled if self._covers(at, pod)]
        return found

    def _covers(self, place: int, pod: Pod) -> bool:
        # A budget was found by one of its labels: with no other wish it covers the pod.
        return place in self._plain or _selects(self._budgets[place], pod.labels)


def _selects(budget: PodDisruptionBudget, labels: Mapping[str, str]) -> bool:
    """``LabelSelectorAsSelector(...).Matches``; an unknown operator selects nothing."""
    wanted = budget.match_labels or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        meets(labels, *expression) for expression in budget.match_expressions
    )
