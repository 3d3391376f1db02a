"""What lines of releases up to 1.20 keep of nodes that waited before: entries (1.19.0-8, 1.20.0-4), or names (up to 1.18.16).

There every tick inserts a node once more that waits and lacks its taint (``SETREMOVE``), or none that the line knows
already (``ADD``). A tick that finds the node Ready takes its name out, but one of its entries only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import refill_ns
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.windows.spans import NEVER_NS, Span

if TYPE_CHECKING:
    from kubectl_evictplan.windows.line_windows import WaitWindow
    from kubectl_evictplan.windows.node_courses import NodeCourse, NodeCourses
    from kubectl_evictplan.windows.piece_runs import PieceRun
    from kubectl_evictplan.windows.processes_up import ProcessLife


def may_leave_entries(course: NodeCourse, within: Span) -> bool:
    """Whether the node may be found Ready again, or gone, within that span: what it has in line then stays for ever."""
    return any(
        stretch.passed_over or (stretch.unknown is not None and stretch.unknown[1] >= NEVER_NS)
        for stretch in course.stretches
    ) or any(
        stretch.status in (TRUE, None)
        and stretch.begins[0] < within[1]
        and within[0] <= stretch.begins[1]
        for stretch in course.stretches[1:]
    )


def is_put_in_line(
    course: NodeCourse,
    down: Span,
    life: ProcessLife,
    courses: NodeCourses,
    changes_ns: Iterable[int],
) -> bool:
    """Whether the line does not know the name of a node yet that is not ready for all of that span, where ``life`` runs.

    ``changes_ns``: when people put its taints on or take them off; a taint that is taken off does not put it in line again.
    """
    since_ns = _forgotten_ns(course, down[0], life, courses)
    if since_ns is None:
        return False
    return not any(since_ns <= at_ns <= down[1] for at_ns in changes_ns)


def _forgotten_ns(
    course: NodeCourse, at_ns: int, life: ProcessLife, courses: NodeCourses
) -> int | None:
    """From when on the line may know nothing of a node that is not ready at that instant; None where it may know its name."""
    stretches = course.stretches
    place = next(n for n, each in enumerate(stretches) if each.ends[1] > at_ns)
    while place and stretches[place].status not in (TRUE, None):
        place -= 1
    before = stretches[place]
    if not place:
        return before.begins[0]  # it is not ready for the first time
    until_ns = before.ends
    if before.unknown is not None:
        until_ns = min(until_ns[0], before.unknown[0]), min(until_ns[1], before.unknown[1])
    if before.status == TRUE and courses.seen_by_ns(max(before.begins[1], 0)) < until_ns[0]:
        return before.begins[0]
    # A new process finds it as it is.
    return life.begins[0] if not life.warm and until_ns[1] <= life.begins[0] else None


def eaten(run: PieceRun, rate_qps: float) -> dict[str, list[WaitWindow]]:
    """The waits of all nodes where entries of before the start may take tokens; alike nodes share one list.

    Until their node waits once more these entries take every token that comes, then one each, and nobody knows how many they are.
    A node's own ones are before it in line: it only lacks the token that they have just taken.
    """
    end_ns = run.piece.scenario.end_ns
    lines = [
        end.lines[zone]
        for zone in run.waiting
        for end in (run.first, run.last)
        if zone in end.lines
    ]
    several = (x.waiting for x in lines if len(x.waiting | x.tainted_without_token) > 1)
    beside = set[str]().union(*several)
    found: dict[tuple[int, bool], list[WaitWindow]] = {}
    waits = {}
    for name, windows in run.waits.items():
        alike = id(windows), name in beside
        if alike not in found:
            until_ns = end_ns if name in beside else 0
            found[alike] = [_eaten(each, until_ns, rate_qps, end_ns) for each in windows]
        waits[name] = found[alike]
    return waits


def _eaten(window: WaitWindow, until_ns: int, rate_qps: float, end_ns: int) -> WaitWindow:
    if not window.spans:
        return window
    *others, (low_ns, high_ns) = window.spans
    until_ns = min(max(until_ns, high_ns + refill_ns(rate_qps)), window.useless_ns, end_ns)
    return replace(window, spans=(*others, (low_ns, max(high_ns, until_ns))))
