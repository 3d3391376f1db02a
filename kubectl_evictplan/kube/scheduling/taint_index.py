"""Nodes by the taints that keep pods off them: what tolerations let pass is looked up, not asked of each node.

Where each of thousands of nodes has a taint of its own, each pod tolerates a few: cost follows the taints that it tolerates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Node, Taint, Toleration
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, places, set_of
from kubectl_evictplan.kube.tolerations import tolerates_taint

# Of taints: the i-th distinct one is bit i.
_TaintSet = int


class TaintIndex:
    """The nodes whose NoSchedule and NoExecute taints are all tolerated."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        # Distinct ones, whenever they were added.
        self._taints: list[Taint] = []
        self._tolerated: dict[Toleration, _TaintSet] = {}
        self._passing: dict[tuple[Toleration, ...], NodeSet] = {}
        number_of: dict[tuple[str, str, str], int] = {}
        listed: dict[_TaintSet, list[int]] = {}
        for place, node in enumerate(nodes):
            taints = 0
            for taint in node.taints:
                if taint.effect in (NO_SCHEDULE, NO_EXECUTE):
                    token = taint.key, taint.value, taint.effect
                    number = number_of.setdefault(token, len(number_of))
                    if number == len(self._taints):
                        self._taints.append(taint)
                    taints |= 1 << number
            listed.setdefault(taints, []).append(place)
        self._untainted = set_of(listed.pop(0, ()))
        # By number of a taint: nodes that have it, with all taints that they have. Each only once, with the taint that
        # the fewest have: whoever tolerates that is asked about the others.
        self._having: list[list[tuple[_TaintSet, NodeSet]]] = [[] for _ in self._taints]
        number_having = Counter(number for taints in listed for number in places(taints))
        for taints, some in listed.items():
            rarest = min(places(taints), key=lambda number: number_having[number])
            self._having[rarest].append((taints, set_of(some)))
        self._by_key: dict[str, list[int]] = {}
        self._by_value: dict[tuple[str, str], list[int]] = {}
        for number, taint in enumerate(self._taints):
            self._by_key.setdefault(taint.key, []).append(number)
            self._by_value.setdefault((taint.key, taint.value), []).append(number)

    def passing(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """Nodes of which every such taint is tolerated."""
        found = self._passing.get(tolerations)
        if found is None:
            tolerated, found = 0, self._untainted
            for one in tolerations if self._taints else ():
                tolerated |= self._tolerated_by(one)
            for number in places(tolerated):
                for taints, nodes in self._having[number]:
                    if not taints & ~tolerated:
                        found |= nodes
            self._passing[tolerations] = found
        return found

    def _tolerated_by(self, toleration: Toleration) -> _TaintSet:
        found = self._tolerated.get(toleration)
        if found is None:
            found = self._tolerated[toleration] = set_of(
                number
                for number in self._candidates(toleration)
                if tolerates_taint(toleration, self._taints[number])
            )
        return found

    def _candidates(self, toleration: Toleration) -> Iterable[int]:
        """All that it can tolerate, and more."""
        if not toleration.key:
            return range(len(self._taints))
        if toleration.operator in ("", "Equal"):
            return self._by_value.get((toleration.key, toleration.value), ())
        return self._by_key.get(toleration.key, ())
