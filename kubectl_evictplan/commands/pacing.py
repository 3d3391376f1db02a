"""``--settle``: one node after the other, with a pause between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.likely import likely_duration
from kubectl_evictplan.commands.options import parsed
from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.durations import SECOND_NS

if TYPE_CHECKING:
    from kubectl_evictplan.scenarios.scenario import ScenarioEvent


def settle_ns(text: str | None) -> int:
    """Return the pause that --settle names; InputError for a wrong one."""
    from kubectl_evictplan.kube.durations import parse_bounded_duration_ns

    problems: list[Problem] = []
    found = parsed("--settle", text, parse_bounded_duration_ns, _likely, problems)
    if problems:
        raise InputError(problems)
    return found or 0


def _likely(text: str) -> str:
    return likely_duration(text, SECOND_NS)


def one_node_after_another(events: Sequence[ScenarioEvent], pause_ns: int) -> list[ScenarioEvent]:
    """Return the events, all of them of the first node before those of the next, a pause later."""
    if not pause_ns:
        return list(events)
    names = sorted({name for event in events for name in event.nodes})
    return [
        event.restricted_to((name,), ()).moved_to(event.at_ns + place * pause_ns)
        for place, name in enumerate(names)
        for event in events
        if name in event.nodes
    ]
