"""Nodes that are in line although no tick has just put them there, so that a pass may taint them before a tick decides.

Zones in which no node counts: who is tainted there stays in line, and a pass may change the taint before a tick does. Such a zone gets a new queue, with a token, at nearly every tick, and each tick puts all who are not ready into it
(``addPodEvictorForNewZone``, ``markNodeForTainting``). What a pass reads is the node's newest Ready condition. So where that
changes between False and Unknown, and ticks decide on what they saw before (up to 1.33), a pass can swap the taint first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from kubectl_evictplan.cluster.timeline import QueueOperation, Told
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.windows.line_windows import WaitWindow
from kubectl_evictplan.windows.node_records import NodeRecord
from kubectl_evictplan.windows.spans import Span

# Instants with the Ready status that is written, or decided on, then.
Statuses = Sequence[tuple[int, str]]


def of_node(
    record: NodeRecord, operations: Sequence[QueueOperation], step_ns: int
) -> tuple[list[Span], list[Span]]:
    """When a pass can taint a node before a tick decides, in one run with a tick every ``step_ns``.

    By a swap while it is in line, and by an entry that was left there when it got ready.
    """
    made_anew_ns = [each.at_ns for each in operations if each.told is Told.CREATED]
    # Where entries stay, each tick while it waited put another one there, and they outlast its taint.
    in_line_ns = [
        at_ns
        for at_ns in record.taint_changes_ns()
        if record.leaves_entries
        or any(at_ns - step_ns < made_ns <= at_ns for made_ns in made_anew_ns)
    ]
    left = left_in_line(record.ready, record.decisions, step_ns) if record.leaves_entries else ()
    return list(early_swaps(in_line_ns, record.decisions)), list(left)


def early_swaps(changes_ns: Iterable[int], decisions: Statuses) -> Iterator[Span]:
    """From when to when a pass can swap the taint of one node that is in line, in one run.

    ``changes_ns``: when its Ready changes between False and Unknown.
    """
    for at_ns in changes_ns:
        after_ns = next((ns for ns, _ in decisions if ns >= at_ns), None)
        if after_ns is not None:
            # A tick that takes the taints off all nodes looks at them as they were when it began.
            yield min(at_ns + 1, after_ns), max(after_ns - 1, at_ns)


def left_in_line(ready: Statuses, decisions: Statuses, step_ns: int) -> Iterator[Span]:
    """From when to when what a node left in line can get it tainted before a tick puts it there again.

    In 1.19.0-8 and 1.20.0-4 entries stay when a node gets ready (``SetRemove``), and each takes every token that comes.
    """
    for at_ns, status in ready:
        waited = any(was != TRUE for ns, was in decisions if ns < at_ns)
        before = next((was for ns, was in reversed(decisions) if ns < at_ns), TRUE)
        if status != TRUE and before == TRUE and waited:
            after_ns = next((ns for ns, _ in decisions if ns > at_ns), at_ns + step_ns)
            yield at_ns, after_ns - 1


def as_waits(first: Sequence[Span], last: Sequence[Span]) -> Iterator[WaitWindow]:
    """Waits of a piece, of the spans in the runs at both its ends; no pass needs to come."""
    for one, other in zip_longest(first, last):
        low_ns, _ = one or other
        _, high_ns = other or one
        yield WaitWindow(
            ((low_ns, high_ns),), certain=False, eligible_ns=low_ns, useless_ns=high_ns
        )
