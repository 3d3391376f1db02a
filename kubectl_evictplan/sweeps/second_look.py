"""A second look at the failures that cost most, where asking of all of them would take too long. Pure.

Whoever finds no node costs more than is told of whoever is not asked about. So the first rows are asked, which may move
them, and those that come first then, until all of these were asked. A failure further down may still cost more than
its row says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kubectl_evictplan.impact.assess import not_listed
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sweeps.document import ClusterRow, FailureRow
from kubectl_evictplan.sweeps.failures import (
    NO_NEEDS,
    NODE,
    NOT_PLACED,
    Failing,
    Failure,
    is_costly,
    needs_listed,
    ranked,
)

# So many rows; each is held against the whole cluster.
LOOKED_AT = 20
# Equal rows come first by their names, whoever was asked about: that ends sooner or later.
_ROUNDS_MAX = 3


def looked_at_again(
    rows: Iterable[FailureRow],
    ask: Callable[[Sequence[Failure]], Iterable[FailureRow]],
    first: int = LOOKED_AT,
) -> tuple[FailureRow, ...]:
    """Return the rows ranked, of which the ``first`` were asked whether replacements find a node.

    ``ask`` returns the rows of failures, placement asked.
    """
    found = ranked(rows)
    for _ in range(_ROUNDS_MAX):
        unasked = [
            Failure(row.what, row.name, row.nodes)
            for row in found[:first]
            if is_costly(row) and not row.placement_asked
        ]
        if not unasked:
            break
        again = {(row.what, row.name): row for row in ask(unasked)}
        found = ranked(again.get((row.what, row.name), row) for row in found)
    return found


def cluster_row(name: str, snapshot: ClusterSnapshot, failing: Failing) -> ClusterRow:
    """Return the worst failure of a single node of one cluster."""
    singles = [Failure(NODE, node.name, (node.name,)) for node in snapshot.nodes]
    failing.prepare(singles)
    rows = looked_at_again(map(failing.row, singles), partial(map, failing.placed_row), 1)
    worst = rows[0] if rows and is_costly(rows[0]) else None
    return ClusterRow(
        cluster=name,
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
        tried=len(rows),
        costly=sum(map(is_costly, rows)),
        worst=worst,
        not_evaluated=not_evaluated(snapshot, rows),
    )


def not_evaluated(snapshot: ClusterSnapshot, rows: Iterable[FailureRow]) -> tuple[str, ...]:
    """What these rows of a cluster do not tell, because the input does not, or nobody asked."""
    found = list(not_listed(snapshot))
    if not all(row.placement_asked for row in rows):
        found.append(NOT_PLACED)
    if not needs_listed(snapshot):
        found.append(NO_NEEDS)
    return tuple(found)
