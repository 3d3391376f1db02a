"""When it matters to pods on which side of it a process begins: pods are gone by then, or its countdowns end in time.

A new process of kube-controller-manager starts the countdown of every pod on a tainted node, and deletes at once what tolerates
nothing, also what is on its way out already. So when it begins matters not only to its ticks: on which side of an event such a
countdown ends, and whether a pod is gone by then, decides what becomes of the pod.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.pods import SetTolerations
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.windows.pod_worlds import exit_instants, pods_of


def begin_instants(snapshot: ClusterSnapshot, scenario: Scenario) -> set[int]:
    """Offsets at which it matters to some pod on which side of them a process begins, beside those of events."""
    nodes = {node.name: node for node in snapshot.nodes}
    exits = exit_instants(snapshot, scenario)
    of_nodes: dict[str, set[int]] = defaultdict(set)
    of_pods: dict[str, list[ScenarioEvent]] = defaultdict(list)
    everywhere = {event.at_ns for event in scenario.events if event.manager_up is not None}
    for event in scenario.events:
        for name in event.touched_nodes:
            of_nodes[name].add(event.at_ns)
        for key in event.pods:
            of_pods[key].append(event)
    found: set[int] = set()
    for pod in pods_of(snapshot, scenario):
        node = nodes.get(pod.node_name)
        if pod.node_name not in of_nodes and (node is None or not no_execute_taints(node.taints)):
            continue
        events = of_pods.get(pod.key, [])
        delays_ns = set(_delays_ns(pod, events))
        ends_ns = {*of_nodes.get(pod.node_name, ()), *(event.at_ns for event in events)}
        ends_ns |= everywhere | exits.get(pod.key, set())
        found |= {at_ns - delay_ns for at_ns in ends_ns for delay_ns in delays_ns}
        found |= exits.get(pod.key, set())
    return found


def _delays_ns(pod: Pod, events: list[ScenarioEvent]) -> Iterator[int]:
    """How long the pod may tolerate a taint, with what it tolerates once somebody has changed that."""
    several = [pod.tolerations]
    several += [event.tolerations for event in events if isinstance(event, SetTolerations)]
    for toleration in (each for tolerations in several for each in tolerations):
        if toleration.toleration_seconds is not None and toleration.toleration_seconds > 0:
            yield toleration.toleration_seconds * SECOND_NS
