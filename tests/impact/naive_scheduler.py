"""A scheduler for the second-by-second model: every second it looks at every node for every pod that has none.

It takes any node that no rule refuses, at random: what preferences would choose nobody predicts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Node, Pod, Taint
from kubectl_evictplan.kube.tolerations import tolerates_taint


@dataclass
class Running:
    """A pod that has a node: its object is there, perhaps on its way out."""

    pod: Pod
    node: str
    terminating: bool


@dataclass
class Scheduler:
    """Which node takes a pod, as things are."""

    nodes: Mapping[str, Node]
    chance: random.Random

    def choose(
        self,
        pod: Pod,
        running: Sequence[Running],
        taints: Mapping[str, set[str]],
        cordoned: set[str],
    ) -> str:
        """The name of a node, "" when none takes it."""
        passing = [
            name
            for name in self.nodes
            if name not in cordoned
            and self._tolerated(pod, taints.get(name, set()))
            and self._selected(pod, name)
            and self._has_room(pod, name, running)
            and self._apart(pod, name, running)
            and self._spread(pod, name, running)
        ]
        return self.chance.choice(passing) if passing else ""

    def _tolerated(self, pod: Pod, taints: set[str]) -> bool:
        for text in taints:
            key, _, effect = text.rpartition(":")
            if effect in (NO_SCHEDULE, NO_EXECUTE):
                taint = Taint(key, effect, "yes" if key == "maint" else "")
                if not any(tolerates_taint(one, taint) for one in pod.tolerations):
                    return False
        return True

    def _selected(self, pod: Pod, name: str) -> bool:
        labels = self.nodes[name].labels
        return all(labels.get(key) == value for key, value in _needs(pod).node_selector)

    def _has_room(self, pod: Pod, name: str, running: Sequence[Running]) -> bool:
        there = [one.pod for one in running if one.node == name]
        offered = self.nodes[name].allocatable
        if len(there) + 1 > offered["pods"]:
            return False
        return all(
            sum(dict(_needs(one).requests).get(resource, 0) for one in there) + amount
            <= offered.get(resource, 0)
            for resource, amount in _needs(pod).requests
        )

    def _apart(self, pod: Pod, name: str, running: Sequence[Running]) -> bool:
        for term in _needs(pod).pod_anti_affinity:
            domain = self._domain(name, term.topology_key)
            for one in running:
                if one.pod.labels == pod.labels and domain:
                    if self._domain(one.node, term.topology_key) == domain:
                        return False
        return True

    def _spread(self, pod: Pod, name: str, running: Sequence[Running]) -> bool:
        for constraint in _needs(pod).topology_spread:
            key = constraint.topology_key
            counts = {domain: 0 for node in self.nodes if (domain := self._domain(node, key))}
            for one in running:
                domain = self._domain(one.node, key)
                if one.pod.labels == pod.labels and not one.terminating and domain in counts:
                    counts[domain] += 1
            own = self._domain(name, key)
            if not own or counts[own] + 1 - min(counts.values()) > constraint.max_skew:
                return False
        return True

    def _domain(self, name: str, key: str) -> str:
        return self.nodes[name].labels.get(key, "") if name in self.nodes else ""


def _needs(pod: Pod) -> PodNeeds:
    return pod.needs or PodNeeds()


def refuses(pod: Pod, taint: str) -> bool:
    """Whether a node with that taint ("key:effect") takes no such pod, whatever it says of seconds."""
    key, _, effect = taint.rpartition(":")
    value = Taint(key, effect, "yes" if key == "maint" else "")
    hard = effect in (NO_SCHEDULE, NO_EXECUTE)
    return hard and not any(tolerates_taint(one, value) for one in pod.tolerations)


def evicted_after_ns(pod: Pod, taint: str) -> int | None:
    """How long a pod stays on a node with that taint ("key:effect"); None: for ever."""
    key, _, effect = taint.rpartition(":")
    if effect != NO_EXECUTE:
        return None
    value = Taint(key, effect, "yes" if key == "maint" else "")
    for one in pod.tolerations:
        if tolerates_taint(one, value):
            seconds = one.toleration_seconds
            return None if seconds is None else max(seconds, 0) * 1_000_000_000
    return 0


def cordons(events: Sequence[object]) -> Iterator[tuple[int, str, bool]]:
    """Yield (when, node, whether it is cordoned then), in order."""
    for event in events:
        action = getattr(event, "action", "")
        if action in ("cordon", "uncordon"):
            for name in event.nodes:  # type: ignore[attr-defined]
                yield event.at_ns, name, action == "cordon"  # type: ignore[attr-defined]
