"""The fate of the pods of one node, for one history of that node.

Taint eviction looks at one node at a time, so the pods of a node can be simulated apart from the rest of
the cluster: the same controllers, on a cluster of that node alone, with what node lifecycle did to it
played back. That is what makes windows over many runs affordable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.line_windows import Span, WaitWindow
from kubectl_evictplan.windows.node_runs import NodeRecord

# Instants tried inside a span, where a pod's fate can change, and histories tried for several waits.
_INNER_INSTANTS_MAX = 6
_HISTORIES_MAX = 48


class EventIndex:
    """The scenario's events by what they concern, so that a world finds its own without a search."""

    def __init__(self, scenario: Scenario) -> None:
        self._events = scenario.events
        self._everywhere: list[int] = []
        self._of_node: dict[str, list[int]] = defaultdict(list)
        self._of_pod: dict[str, list[int]] = defaultdict(list)
        for index, event in enumerate(scenario.events):
            if event.manager_up is not None:
                self._everywhere.append(index)
            for name in event.touched_nodes:
                self._of_node[name].append(index)
            for key in event.pods:
                self._of_pod[key].append(index)

    def of(self, names: frozenset[str], pods: Iterable[Pod]) -> tuple[ScenarioEvent, ...]:
        """The parts of events that concern these nodes, their pods and pods created on them."""
        indices = set(self._everywhere)
        for name in names:
            indices.update(self._of_node.get(name, ()))
        keys = {pod.key for pod in pods}
        created = [self._events[index].pod for index in indices]
        keys.update(pod.key for pod in created if pod is not None)
        for key in keys:
            indices.update(self._of_pod.get(key, ()))
        return tuple(self._events[index].restricted_to(names, keys) for index in sorted(indices))


class PodWorld(NamedTuple):
    """Nodes with their pods, cut out of the snapshot, and the scenario's events that concern them.

    Pods are deleted by taint eviction and garbage collection; node lifecycle is played back.
    """

    names: frozenset[str]
    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration

    def simulate(self, played_back: Mapping[str, NodePlayback], timing: Timing) -> Timeline:
        """One run with that history of the nodes."""
        return simulate(
            self.snapshot, self.scenario, self.configuration, timing, played_back=played_back
        )


# -- histories of one node --------------------------------------------------------------------------

# For each wait the place of the span in which it is served, or None when it is not.
Choice = tuple[int | None, ...]


class History(NamedTuple):
    """When a node is served; equal ``choice`` and different instants are ends of one outcome."""

    choice: Choice
    served_ns: tuple[int, ...]


class _Option(NamedTuple):
    place: int | None
    at_ns: int


def histories(
    waits: list[WaitWindow],
    record: NodeRecord,
    stops: list[int],
    *,
    latest: bool,
    changes_ns: Iterable[int],
) -> Iterator[History]:
    """Histories of a node in one run: served at the earliest (or ``latest``) instant of each span.

    Also not served at all where that is not certain. ``changes_ns``: around these the fate of a pod
    can change.
    """
    wanted = record.wanted_spans(stops)
    # Just before the end of such a tick the pods' fate is another one than inside it.
    ends_ns = [at_ns - 1 for at_ns in record.taken_back]
    options = [list(_options(wait, wanted, changes_ns, ends_ns, latest=latest)) for wait in waits]
    for chosen in _combinations(options):
        served = tuple(sorted(option.at_ns for option in chosen if option.place is not None))
        yield History(tuple(option.place for option in chosen), served)


def _options(
    wait: WaitWindow,
    wanted: list[Span],
    changes_ns: Iterable[int],
    ends_ns: Iterable[int],
    *,
    latest: bool,
) -> Iterator[_Option]:
    for place, (low_ns, high_ns) in enumerate(wait.spans):
        within = [
            (max(low_ns, since_ns), min(high_ns, until_ns - 1))
            for since_ns, until_ns in wanted
            if since_ns <= high_ns and low_ns < until_ns
        ]
        if not within:
            continue
        low_ns, high_ns = within[0][0], within[-1][1]
        yield _Option(place, high_ns if latest else low_ns)
        inner = {at_ns + side for at_ns in changes_ns for side in (-1, 1)}
        tried = sorted(at for at in inner if low_ns < at < high_ns)[:_INNER_INSTANTS_MAX]
        for at_ns in sorted({*tried, *(at for at in ends_ns if low_ns < at < high_ns)}):
            yield _Option(place, at_ns)
    if not wait.certain:
        yield _Option(None, 0)


def _combinations(options: list[list[_Option]]) -> Iterator[tuple[_Option, ...]]:
    """One option for every wait: all combinations while they are few, else one wait varied at a time."""
    options = [choice or [_Option(None, 0)] for choice in options]
    if prod(map(len, options)) <= _HISTORIES_MAX:
        yield from product(*options)
        return
    for base in (0, -1):
        first = tuple(choice[base] for choice in options)
        for index, choice in enumerate(options):
            for option in choice:
                yield (*first[:index], option, *first[index + 1 :])
