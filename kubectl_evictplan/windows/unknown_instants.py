"""Events of which only a window of instants is known: processes and kubelets that come back.

What follows a start moves with it. So a start of kube-controller-manager is taken at both ends of its
window, and cut where its monitor's ticks would just meet, or just miss, something that happens later. Kubelets
come back each at an instant of its own: all at the same place of their windows, and in turn early and late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.scenarios.scenario import NodesEvent, Scenario, ScenarioEvent

# Stretches of one window that are looked at one by one.
_STRETCHES_MAX = 8
# Parts of a kubelet's window: what happens is looked at between them.
_PLACES = 3


class Stretch(NamedTuple):
    """A scenario with its unknown starts at their earliest and at their latest, the rest settled.

    ``left_out_ns``: what happens in between can lie so much outside of what happens at both ends.
    """

    first: Scenario
    last: Scenario
    left_out_ns: int = 0

    @property
    def shift_ns(self) -> int:
        """How far apart a start is at both ends."""
        pairs = zip(self.first.events, self.last.events, strict=True)
        return max((last.at_ns - first.at_ns for first, last in pairs), default=0)


def has_unknown_instants(scenario: Scenario) -> bool:
    """Tell whether some event has a window instead of an instant."""
    return any(event.latest_ns > event.at_ns for event in scenario.events)


def stretches(
    scenario: Scenario,
    critical: Callable[[Scenario], Iterable[int]],
    period_ns: int,
    grace_period_ns: int,
) -> list[Stretch]:
    """Return scenarios without unknown instants that together stand for all of their instants.

    ``critical`` are a scenario's offsets at which it matters on which side of them the monitor ticks,
    every ``period_ns``. A new process finds a node silent after ``grace_period_ns``, and queues it one tick
    later at the latest.
    """
    if not has_unknown_instants(scenario):
        return [Stretch(scenario, scenario)]
    silent_ns = -(-grace_period_ns // period_ns) * period_ns
    found = []
    for settled, left_out_ns in _kubelets_back(scenario, period_ns):
        starts = [event for event in settled.events if event.latest_ns > event.at_ns]
        longest_ns = max((event.latest_ns - event.at_ns for event in starts), default=0)
        meetings = [at_ns - start.at_ns for start in starts for at_ns in critical(settled)]
        # What comes before or after a start, or a verdict of the new process; then what its ticks just
        # meet or miss.
        sides = {at - ago for at in meetings for ago in (0, silent_ns, silent_ns + period_ns)}
        sides = {0, longest_ns, *(at_ns for at_ns in sides if 0 < at_ns < longest_ns)}
        cuts = sides.union(
            *(range(at_ns % period_ns, min(at_ns, longest_ns), period_ns) for at_ns in meetings)
        )
        if len(cuts) > _STRETCHES_MAX + 1:
            cuts = sides
            left_out_ns = max(left_out_ns, period_ns)
        if len(cuts) > _STRETCHES_MAX + 1:
            cuts = {longest_ns * part // _STRETCHES_MAX for part in range(_STRETCHES_MAX + 1)}
            left_out_ns = max(left_out_ns, longest_ns // _STRETCHES_MAX)
        for low_ns, high_ns in pairwise(sorted(cuts)) if longest_ns else [(0, 0)]:
            end_ns = high_ns if high_ns == longest_ns else high_ns - 1
            early, late = _started(settled, low_ns), _started(settled, end_ns)
            found.append(Stretch(early, late, left_out_ns))
    return found


def _started(scenario: Scenario, after_ns: int) -> Scenario:
    """Return the scenario with every unknown start so long after its earliest instant."""
    events = (
        event.moved_to(min(event.at_ns + after_ns, event.latest_ns))
        if event.latest_ns > event.at_ns
        else event
        for event in scenario.events
    )
    return replace(scenario, events=tuple(events))


def _kubelets_back(scenario: Scenario, period_ns: int) -> Iterator[tuple[Scenario, int]]:
    """Yield the scenario with every kubelet's return settled, and what that leaves out."""
    windows = [
        event.latest_ns - event.at_ns for event in scenario.events if isinstance(event, NodesEvent)
    ]
    widest_ns = max(windows, default=0)
    if not widest_ns:
        yield scenario, 0
        return
    # Between two places a kubelet can come back in time for a tick or not.
    left_out_ns = max(widest_ns // _PLACES, period_ns)
    alike = [(place, place) for place in range(_PLACES + 1)]
    for places in (*alike, (0, _PLACES), (_PLACES, 0)):
        events: list[ScenarioEvent] = []
        for event in scenario.events:
            if isinstance(event, NodesEvent) and event.latest_ns > event.at_ns:
                events += _back_at(event, places)
            else:
                events.append(event)
        yield replace(scenario, events=tuple(events)), left_out_ns


def _back_at(event: NodesEvent, places: tuple[int, int]) -> Iterator[ScenarioEvent]:
    """Yield the event with the n-th of its nodes at one or the other place of the window, in turn."""
    for side in (0, 1):
        part = event.restricted_to(event.nodes[side::2], ())
        if part.nodes:
            window_ns = event.latest_ns - event.at_ns
            yield part.moved_to(event.at_ns + window_ns * places[side] // _PLACES)
