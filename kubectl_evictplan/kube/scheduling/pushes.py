"""Which groups of replacements may push out pods of lower priority, as found so far, and what that takes away from others."""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, union
from kubectl_evictplan.kube.scheduling.preemption import Preemption, Pushing


class Pushes:
    """By number of the group (``of_group``); ``pushed``: how many pods they push out at most, which look for a place again."""

    def __init__(self, preemption: Preemption, everywhere: NodeSet) -> None:
        self._preemption, self._everywhere = preemption, everywhere
        self.of_group: dict[int, Pushing] = {}
        self.pushed = 0
        # Their nodes by priority and number, and by priority, as far as asked for.
        self._nodes_of: dict[int, dict[int, NodeSet]] = {}
        self._nodes_at: dict[int, NodeSet] = {}
        # The highest priority of those that are pushed out and may push out others, wherever they are.
        self._again: int | None = None

    def note(self, number: int, priority: int, pushing: Pushing) -> None:
        """A group may push out others."""
        self.of_group[number] = pushing
        self._nodes_of.setdefault(priority, {})[number] = pushing.nodes
        self._nodes_at.pop(priority, None)

    def let_in(self) -> Mapping[PodNeeds, int]:
        """Return who is pushed out, by needs: from now on they look for a place too."""
        pushed = self._preemption.pushed(self.of_group.values())
        self.pushed = sum(pushed.values())
        again = [needs.priority for needs in pushed if self._preemption.preempts(needs)]
        self._again = max(again, default=None)
        return pushed

    def taken_away(self, priority: int) -> NodeSet:
        """Nodes from which pods of a higher priority may push out one of this."""
        if self._again is not None and priority < self._again:
            return self._everywhere
        taken = 0
        for at, nodes_of in self._nodes_of.items():
            if priority >= at:
                continue
            if at not in self._nodes_at:
                self._nodes_at[at] = union(nodes_of.values())
            taken |= self._nodes_at[at]
        return taken
