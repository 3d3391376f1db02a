"""When it matters to pods on which side of them a process begins, or a tick taints: they are gone by then, or countdowns end in time.

A new process of kube-controller-manager starts the countdown of every pod on a tainted node, and deletes at once what tolerates
nothing, also what is on its way out already. So when it begins matters not only to its ticks: on which side of an event such a
countdown ends, and whether a pod is gone by then, decides what becomes of the pod. The same is true of a tick that writes a taint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import chain
from typing import NamedTuple

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import Decision
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Toleration
from kubectl_evictplan.kube.taints import LIFECYCLE_NO_EXECUTE, no_execute_taints
from kubectl_evictplan.scenarios.actions.pods import SetTolerations
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.windows.pod_worlds import exit_instants, pods_of


def begin_instants(snapshot: ClusterSnapshot, scenario: Scenario) -> set[int]:
    """Offsets at which it matters to some pod on which side of them a process begins, beside those of events."""
    names = {node.name for node in snapshot.nodes if no_execute_taints(node.taints)}
    names |= scenario.touched_nodes
    return {at_ns for fate in _fates(snapshot, scenario, names) for at_ns in fate.before_ends_ns()}


def taint_instants(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    tainted: Collection[str],
    exchanged: Collection[str],
    configuration: ControllerConfiguration,
) -> set[int]:
    """Offsets at which it matters to some pod on which side of them a tick taints its node, those of events too.

    Of nodes that are ``tainted`` then; and of those of which the taint is only ``exchanged`` for another, as far as pods tell these apart.
    """
    return {
        at_ns
        for fate in _fates(snapshot, scenario, {*tainted, *exchanged})
        if fate.pod.node_name in tainted or fate.tells_taints_apart(configuration)
        for at_ns in (*fate.ends_ns, *fate.before_ends_ns())
    }


def taints_are_told_apart(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> bool:
    """Whether for some pod on these nodes it may end a countdown, or more, that a tick exchanges the taint of a dead node for the other."""
    names = {node.name for node in snapshot.nodes}
    names |= scenario.touched_nodes
    return any(each.tells_taints_apart(configuration) for each in _fates(snapshot, scenario, names))


class _Fate(NamedTuple):
    """When one pod may be gone, or something may end its countdowns; and how long these take."""

    pod: Pod
    events: list[ScenarioEvent]
    gone_ns: set[int]
    ends_ns: set[int]
    delays_ns: set[int]

    def before_ends_ns(self) -> Iterator[int]:
        """From when on a countdown does not end in time; and when the pod is gone."""
        yield from self.gone_ns
        for delay_ns in self.delays_ns:
            yield from (at_ns - delay_ns for at_ns in self.ends_ns)

    def tells_taints_apart(self, configuration: ControllerConfiguration) -> bool:
        """Whether more may come of one of the taints of dead nodes than of the other; no countdown is moved by either."""
        for tolerations in _tolerations(self.pod, self.events):
            given = tolerations, configuration.comparison_operators
            delays_ns = {
                Decision((taint,), *given).delay_ns for taint in LIFECYCLE_NO_EXECUTE.values()
            }
            if len(delays_ns) > 1 and not delays_ns.isdisjoint((None, 0)):
                return True
        return False


def _fates(
    snapshot: ClusterSnapshot, scenario: Scenario, names: Collection[str]
) -> Iterator[_Fate]:
    """Of every pod on one of these nodes."""
    exits = exit_instants(snapshot, scenario)
    of_nodes: dict[str, set[int]] = defaultdict(set)
    of_pods: dict[str, list[ScenarioEvent]] = defaultdict(list)
    everywhere = {event.at_ns for event in scenario.events if event.manager_up is not None}
    for event in scenario.events:
        for name in event.touched_nodes:
            of_nodes[name].add(event.at_ns)
        for key in event.pods:
            of_pods[key].append(event)
    for pod in pods_of(snapshot, scenario):
        if pod.node_name in names:
            events, gone_ns = of_pods.get(pod.key, []), exits.get(pod.key, set())
            ends_ns = {*of_nodes.get(pod.node_name, ()), *(event.at_ns for event in events)}
            ends_ns |= everywhere | gone_ns
            yield _Fate(pod, events, gone_ns, ends_ns, set(_delays_ns(pod, events)))


def _tolerations(pod: Pod, events: list[ScenarioEvent]) -> Iterator[tuple[Toleration, ...]]:
    """What the pod tolerates, at the start and once somebody has changed that."""
    yield pod.tolerations
    yield from (event.tolerations for event in events if isinstance(event, SetTolerations))


def _delays_ns(pod: Pod, events: list[ScenarioEvent]) -> Iterator[int]:
    """How long the pod may tolerate a taint, with what it tolerates once somebody has changed that."""
    for toleration in chain.from_iterable(_tolerations(pod, events)):
        if toleration.toleration_seconds is not None and toleration.toleration_seconds > 0:
            yield toleration.toleration_seconds * SECOND_NS
