"""Nodes by their labels and names: what a selector asks is looked up, not asked of each node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

from kubectl_evictplan.kube.infrastructure import Wishes
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, set_of
from kubectl_evictplan.kube.selectors import Requirement

# Key, operator, values.
Wish = tuple[str, str, tuple[str, ...]]


class LabelIndex:
    """The nodes that meet a wish; each label and each wish is worked out when first asked for."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._everywhere = (1 << len(nodes)) - 1
        self._by_value: dict[str, dict[str, NodeSet]] = {}
        self._meeting: dict[Wish, NodeSet] = {}

    def meeting_all(self, wishes: Wishes) -> NodeSet:
        """Nodes whose labels meet all of these."""
        found = self._everywhere
        for wish in wishes:
            found &= self.meeting(wish)
        return found

    def meeting(self, wish: Wish) -> NodeSet:
        """Nodes whose labels meet this; an unknown operator selects nothing."""
        found = self._meeting.get(wish)
        if found is None:
            found = self._meeting[wish] = self._work_out(wish)
        return found

    def having(self, key: str, values: Iterable[str]) -> NodeSet:
        """Nodes with one of these values of a label."""
        by_value, found = self._values(key), 0
        for value in values:
            found |= by_value.get(value, 0)
        return found

    def named(self, names: Collection[str]) -> NodeSet:
        """Nodes of these names."""
        return set_of(self._place[name] for name in names if name in self._place)

    def _work_out(self, wish: Wish) -> NodeSet:
        key, operator, values = wish
        if operator == "In":
            return self.having(key, values)
        if operator == "NotIn":
            return self._everywhere & ~self.having(key, values)
        by_value, found, with_key = self._values(key), 0, 0
        for value, nodes in by_value.items():
            with_key |= nodes
            if meets_all({key: value}, (wish,)):
                found |= nodes
        return found | (self._everywhere & ~with_key if meets_all({}, (wish,)) else 0)

    def _values(self, key: str) -> dict[str, NodeSet]:
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = sets_by(self._nodes, lambda node: node.labels.get(key))
        return found

    @cached_property
    def _place(self) -> dict[str, int]:
        return {node.name: place for place, node in enumerate(self._nodes)}


def sets_by(nodes: Iterable[Node], value_of: Callable[[Node], str | None]) -> dict[str, NodeSet]:
    """Return the nodes of each value; those of which it is None are left out."""
    listed: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        value = value_of(node)
        if value is not None:
            listed.setdefault(value, []).append(place)
    return {value: set_of(some) for value, some in listed.items()}


def meets_all(labels: Mapping[str, str], wishes: Wishes) -> bool:
    """Whether labels meet all of these."""
    return all(
        # A comparison has one value, by API validation.
        (len(values) == 1 or operator not in ("Gt", "Lt"))
        and Requirement(key, operator, values).matches(labels)
        for key, operator, values in wishes
    )
