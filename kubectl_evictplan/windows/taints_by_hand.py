"""Lifecycle NoExecute taints that people take off dead nodes, or put on them, among what the lines of zones are told.

Node runs show little of it: nobody is served in them, so what is taken off is not there, and a line is not told of taints.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter

from kubectl_evictplan.cluster.timeline import QueueOperation, Told
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE
from kubectl_evictplan.kube.objects import NO_EXECUTE
from kubectl_evictplan.kube.taints import (
    LIFECYCLE_NO_EXECUTE_KEYS,
    NOT_READY,
    UNREACHABLE,
    is_lifecycle_no_execute,
)
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent

# What tells how a tick finds a node.
_FOUND = (Told.MARK, Told.SWAPPED, Told.REACHABLE, Told.NODE_GONE)

_at_ns = attrgetter("at_ns")


def with_taints_by_hand(log: Sequence[QueueOperation], scenario: Scenario) -> list[QueueOperation]:
    """What a node run's queues were told, in order, and between it what people do.

    At one instant people come before ticks, but after what a process remembers that runs at the start.
    """
    by_hand = sorted(_by_hand(log, scenario), key=_at_ns)
    found, place = list[QueueOperation](), 0
    for operation in by_hand:
        until = _first_after(log, operation.at_ns)
        found += log[place:until]
        found.append(operation)
        place = max(place, until)
    return [*found, *log[place:]]


def _first_after(log: Sequence[QueueOperation], at_ns: int) -> int:
    """The place of the first thing that is told after people acted at that instant."""
    if at_ns > 0:
        return bisect_left(log, at_ns, key=_at_ns)
    # A process that begins at the start finds their taints as they have left them.
    remembered = (place for place, each in enumerate(log) if each.told is Told.LOADED)
    return next(remembered, bisect_left(log, 1, key=_at_ns))


def _by_hand(log: Sequence[QueueOperation], scenario: Scenario) -> Iterator[QueueOperation]:
    for event in scenario.events:
        if isinstance(event, RemoveTaint):
            for name in event.nodes:
                if any(event.removal.removes(key, NO_EXECUTE) for key in _keys(log, name, event)):
                    yield QueueOperation(event.at_ns, Told.UNTAINTED, name=name)
        elif isinstance(event, AddTaint) and is_lifecycle_no_execute(event.taint):
            for name in event.nodes:
                if _wanted_next(log, name, event.at_ns) == event.taint.key:
                    yield QueueOperation(event.at_ns, Told.TAINTED, name=name)


def _keys(log: Sequence[QueueOperation], name: str, event: ScenarioEvent) -> set[str]:
    """The lifecycle taints that the node can have then: of what is wanted, and of what it shows."""
    newest: dict[Told, str | None] = {}
    for operation in log:
        if operation.name == name and operation.at_ns <= event.at_ns:
            newest[operation.told] = operation.status
    statuses = {newest.get(told) for told in (Told.MARK, Told.SWAPPED, Told.STATUS)} - {None, TRUE}
    keys = {_key_of(status) for status in statuses}
    return keys or set(LIFECYCLE_NO_EXECUTE_KEYS)


def _wanted_next(log: Sequence[QueueOperation], name: str, at_ns: int) -> str | None:
    """The taint for which the next tick wants the node in line; None where it does not.

    Another one than that a tick exchanges at once, which the run shows.
    """
    later = (each for each in log[_first_after(log, at_ns) :] if each.name == name)
    found = next((each for each in later if each.told in _FOUND), None)
    if found is None or found.told is not Told.MARK or found.status is None:
        return None
    return _key_of(found.status)


def _key_of(status: str | None) -> str:
    return NOT_READY if status == FALSE else UNREACHABLE
