"""Events of which only a window of instants is known: processes and kubelets that come back.

What follows a start moves with it. So a start of kube-controller-manager is taken at both ends of its
window, and cut where its monitor's ticks would just meet, or just miss, something that happens later. Kubelets
come back each at an instant of its own: all at the same place of their windows, and in turn early and late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.scenarios.scenario import NodesEvent, Scenario, ScenarioEvent
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.unknowns.unknown import Unknown

# Stretches of one window that are looked at one by one.
_STRETCHES_MAX = 8
# Parts of a kubelet's window: what happens is looked at between them.
_PLACES = 3


def has_unknown_instants(scenario: Scenario) -> bool:
    """Tell whether some event has a window instead of an instant."""
    return any(event.latest_ns > event.at_ns for event in scenario.events)


def is_open_return(event: ScenarioEvent) -> bool:
    """Tell whether kubelets are heard again by it, each at an instant of its own in a window."""
    return isinstance(event, NodesEvent) and event.latest_ns > event.at_ns


class KubeletReturns(Unknown[Piece]):
    """When each kubelet is heard again after an outage of its API server."""

    name = "return of kubelets"
    what = "when within its window each kubelet is heard again"

    def __init__(self, configuration: ControllerConfiguration) -> None:
        self._period_ns = configuration.node_monitor_period_ns

    def fewest(self, part: Piece) -> int:
        """All at each of the places, and in turn at the first and the last."""
        return _PLACES + 3 if _widest_return_ns(part.scenario) else 1

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """Whichever tick first sees one of them: not every combination is tried."""
        widest_ns = _widest_return_ns(part.scenario)
        if not widest_ns:
            yield part
            return
        # Between two places a kubelet can come back in time for a tick or not.
        missing = part.missing(self.name, max(widest_ns // _PLACES, self._period_ns))
        alike = [(place, place) for place in range(_PLACES + 1)]
        for places in (*alike, (0, _PLACES), (_PLACES, 0)):
            yield replace(missing, scenario=_returned(part.scenario, places))


def _widest_return_ns(scenario: Scenario) -> int:
    opens = (event for event in scenario.events if is_open_return(event))
    return max((event.latest_ns - event.at_ns for event in opens), default=0)


def _returned(scenario: Scenario, places: tuple[int, int]) -> Scenario:
    """The scenario with the n-th kubelet of every return at one or the other place of its window, in turn."""
    events: list[ScenarioEvent] = []
    for event in scenario.events:
        if is_open_return(event):
            events += _back_at(event, places)
        else:
            events.append(event)
    return replace(scenario, events=tuple(events))


def _back_at(event: ScenarioEvent, places: tuple[int, int]) -> Iterator[ScenarioEvent]:
    """Yield the event with the n-th of its nodes at one or the other place of the window, in turn."""
    for side in (0, 1):
        part = event.restricted_to(event.nodes[side::2], ())
        if part.nodes:
            window_ns = event.latest_ns - event.at_ns
            yield part.moved_to(event.at_ns + window_ns * places[side] // _PLACES)


class ProcessStarts(Unknown[Piece]):
    """When kube-controller-manager works again after it was away."""

    name = "start of kube-controller-manager"
    what = "when within its window the new process of kube-controller-manager begins"

    def __init__(
        self,
        configuration: ControllerConfiguration,
        critical: Callable[[Scenario], Iterable[int]],
        to_pods: Callable[[Scenario], Iterable[int]],
    ) -> None:
        """``critical`` are a scenario's offsets at which it matters on which side of them the monitor ticks.

        ``to_pods``: those at which it matters to pods on which side of them a process begins.
        """
        self._critical = critical
        self._to_pods = to_pods
        self._period_ns = configuration.node_monitor_period_ns
        self._grace_period_ns = configuration.node_monitor_grace_period_ns

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """Stretches of starts in which nothing changes but instants, for what ticks cost in the part."""
        starts = [event for event in part.scenario.events if event.latest_ns > event.at_ns]
        if not starts:
            yield part
            return
        longest_ns = max(event.latest_ns - event.at_ns for event in starts)
        cuts, left_out_ns = self._cuts(part, starts, longest_ns)
        if left_out_ns:
            more_ns = max(left_out_ns - part.left_out_ns, 0)
            part = part.missing(self.name, more_ns)
        stretches = list(pairwise([*sorted(cuts), longest_ns + 1]))
        if part.drawn is not None:
            stretches = [stretches[part.drawn % len(stretches)]]
        for low_ns, next_ns in stretches:
            yield replace(
                part,
                scenario=_started(part.scenario, low_ns),
                last_scenario=_started(part.scenario, next_ns - 1),
            )

    def _cuts(
        self, part: Piece, starts: list[ScenarioEvent], longest_ns: int
    ) -> tuple[set[int], int]:
        """Where stretches begin, counted from the earliest instant of a start, and what that leaves out."""
        critical = self._critical(part.scenario)
        meetings = [at_ns - start.at_ns for start in starts for at_ns in critical]
        to_pods = self._to_pods(part.scenario)
        sides = {0, *(at_ns - start.at_ns for start in starts for at_ns in to_pods)}
        cuts = set[int]()
        for step_ns in {self._period_ns + grid.cost_ns for grid in (part.first, part.last)}:
            # A new process finds a node silent after the grace period, and queues it one tick later at the latest.
            silent_ns = -(-self._grace_period_ns // step_ns) * step_ns
            # What comes before or after a start, or a verdict of the new process; then what its ticks just
            # meet or miss.
            sides |= {at - ago for at in meetings for ago in (0, silent_ns, silent_ns + step_ns)}
            for at_ns in meetings:
                cuts.update(range(at_ns % step_ns, min(at_ns, longest_ns + 1), step_ns))
        sides = {at_ns for at_ns in sides if 0 <= at_ns <= longest_ns}
        if len(cuts | sides) <= _STRETCHES_MAX:
            return cuts | sides, 0
        if len(sides) <= _STRETCHES_MAX:
            return sides, self._period_ns
        even = {longest_ns * part // _STRETCHES_MAX for part in range(_STRETCHES_MAX)}
        return even, max(self._period_ns, longest_ns // _STRETCHES_MAX)


def _started(scenario: Scenario, after_ns: int) -> Scenario:
    """Return the scenario with every unknown start so long after its earliest instant."""
    events = (
        event.moved_to(min(event.at_ns + after_ns, event.latest_ns))
        if event.latest_ns > event.at_ns
        else event
        for event in scenario.events
    )
    return replace(scenario, events=tuple(events))
