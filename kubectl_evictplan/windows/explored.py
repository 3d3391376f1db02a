"""What is said where not everything could be explored and nothing is proven.

Runs that were tried are samples then: one that was not tried can lie between two of them, or beyond the outermost by
a tick or a token. So what rests on them is one stretch from the first to the last of them, widened by as
much, and never certain. What a tick finds out about a node's own silence is tried at both ends of everything but what ticks cost:
it is widened by what these costs add up to, and not certain either.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from operator import itemgetter
from typing import TypeVar

from kubectl_evictplan.kube.taints import LIFECYCLE_NO_EXECUTE
from kubectl_evictplan.windows.line_windows import WaitWindow
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
    WindowOverRuns,
)

_Name = TypeVar("_Name", bound=Hashable)


def waits_in_line(key: NodeChangeKey) -> bool:
    """Whether others matter for when it happens.

    What a tick finds out about a node depends on the node's own silence alone, and both ends of that were tried.
    """
    return key.what != READY and key.value in LIFECYCLE_NO_EXECUTE


def note_waits(result: Exploration, name: str, waits: list[WaitWindow]) -> None:
    """Let each taint of the node for which it waits in line come at any instant of that wait."""
    for number, wait in enumerate(waits):
        if not wait.spans:
            continue
        for value in LIFECYCLE_NO_EXECUTE:
            window = result.nodes.windows.get((NodeChangeKey(name, TAINT_ADDED, value), number))
            if window is not None and window.explored:
                window.earliest_ns = min(window.earliest_ns, max(wait.spans[0][0], 0))
                window.latest_ns = max(
                    window.latest_ns, min(wait.spans[-1][1], max(wait.useless_ns, window.latest_ns))
                )


def join_samples(result: Exploration, beyond_ns: int, horizon_ns: int, drift_ns: int = 0) -> None:
    """Make stretches of everything that is only explored, ``beyond_ns`` longer at both ends.

    ``drift_ns``: what ticks can cost altogether from a last heartbeat until the node is given up.
    """
    for key, found in result.evictions.items():
        if found.missed and not found.proven:
            result.evictions[key] = _joined(found, beyond_ns, horizon_ns)
    _join_table(result.nodes.windows, beyond_ns, waits_in_line, drift_ns)
    _join_table(result.zones.windows, beyond_ns)
    _join_table(result.cancels.windows, beyond_ns)
    _join_table(result.cancelled_starts.windows, beyond_ns)


def _joined(found: PossibleEviction, beyond_ns: int, horizon_ns: int) -> PossibleEviction:
    gone_ns = found.gone_earliest_ns
    return found._replace(
        spans=(
            (
                max(found.earliest_ns - beyond_ns, 0),
                max(found.latest_ns, min(found.latest_ns + beyond_ns, horizon_ns)),
            ),
        ),
        certain=False,
        gone_earliest_ns=None if gone_ns is None else max(gone_ns - beyond_ns, 0),
        gone_latest_ns=None,
        circumstances=(),
    )


def _join_table(
    windows: Mapping[tuple[_Name, int], WindowOverRuns],
    beyond_ns: int,
    reaches_beyond: Callable[[_Name], bool] = lambda _: True,
    drift_ns: int = 0,
) -> None:
    """The n-th occurrence reaches to the next one: which of them an instant is depends on what was not tried."""
    by_key: dict[_Name, list[WindowOverRuns]] = {}
    for key, ordinal in sorted(windows, key=itemgetter(1)):
        by_key.setdefault(key, []).append(windows[key, ordinal])
    for key, several in by_key.items():
        if not any(window.explored for window in several):
            continue
        if not reaches_beyond(key):
            for window in several:
                window.explored = window.unsure = True
                window.earliest_ns = max(window.earliest_ns - drift_ns, 0)
                window.latest_ns += drift_ns
            continue
        next_ns = 0
        for window in reversed(several):
            own_ns = window.earliest_ns
            window.earliest_ns = max(own_ns - beyond_ns, 0)
            window.latest_ns = max(window.latest_ns, next_ns) + beyond_ns
            window.explored = window.unsure = True
            next_ns = own_ns
