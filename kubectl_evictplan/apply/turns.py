"""A plan's operations as turns: what is done to one node before the next one's turn. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubectl_evictplan.plans.document import AnyOperation, Evict


class Turn(NamedTuple):
    """Neighbouring operations on one node. ``evictions``: all of them are, and make one batch.

    ``prepares``: the node is cordoned or tainted only; its evictions have a turn of their own
    later, and nothing is waited for before the next node's turn (kubectl drain cordons all first).
    """

    node: str
    operations: tuple[AnyOperation, ...]
    evictions: bool
    prepares: bool

    @property
    def number(self) -> int:
        """The number of its last operation, by which the journal knows the turn."""
        return self.operations[-1].number


def turns(operations: Sequence[AnyOperation]) -> tuple[Turn, ...]:
    """Return the operations in their order, neighbours of one node and one kind together."""
    groups: list[list[AnyOperation]] = []
    for operation in operations:
        if groups and _alike(groups[-1][-1], operation):
            groups[-1].append(operation)
        else:
            groups.append([operation])
    evicted_last = {
        group[0].node: index for index, group in enumerate(groups) if isinstance(group[0], Evict)
    }
    return tuple(
        Turn(
            node=group[0].node,
            operations=tuple(group),
            evictions=isinstance(group[0], Evict),
            prepares=not isinstance(group[0], Evict)
            and evicted_last.get(group[0].node, -1) > index,
        )
        for index, group in enumerate(groups)
    )


def _alike(one: AnyOperation, other: AnyOperation) -> bool:
    return one.node == other.node and isinstance(one, Evict) == isinstance(other, Evict)
