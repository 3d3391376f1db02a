"""Taints that people put on nodes and take off again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from kubectl_evictplan.cluster.timeline import SCENARIO
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.taints import (
    LIFECYCLE_NO_EXECUTE_KEYS,
    OUT_OF_SERVICE,
    with_taint_put_first,
    without_taint,
)
from kubectl_evictplan.scenarios.field_types import TAINT, TAINT_REMOVAL
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.names import listed
from kubectl_evictplan.scenarios.scenario import NodesEvent, ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster
from kubectl_evictplan.scenarios.taint_words import TaintRemoval

_CONTROLLER_TAINT_PREFIX = "node.kubernetes.io/"


class AddTaint(NodesEvent, frozen=True, kw_only=True):
    """A taint comes first in each node's list, as by kubectl; one of its key and effect goes."""

    action = "taint"
    told = "somebody puts the taint {detail} on"

    taint: Annotated[Taint, TAINT]

    @property
    def seen_by_monitor(self) -> bool:
        return self.taint.key in LIFECYCLE_NO_EXECUTE_KEYS

    @property
    def seen_by_pod_gc(self) -> bool:
        return self.taint.key == OUT_OF_SERVICE

    feeds_pod_gc = seen_by_pod_gc

    def commutes_with(self, other: ScenarioEvent) -> bool:
        return _commute(self, other)

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        for name in self.nodes:
            history.taints[name].add((self.taint.key, self.taint.effect))
        return iter(())

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            taints = with_taint_put_first(cluster.state.nodes[name].taints, self.taint)
            _write(self, cluster, name, taints)


class RemoveTaint(NodesEvent, frozen=True, kw_only=True):
    """A taint goes, with one effect or with all of them."""

    action = "untaint"
    told = "somebody takes the taint {detail} off"
    # Said by the warning taint-not-applied.
    idle_because = ""

    removal: Annotated[TaintRemoval, TAINT_REMOVAL] = msgspec.field(name="taint")

    @property
    def seen_by_monitor(self) -> bool:
        return self.removal.key in LIFECYCLE_NO_EXECUTE_KEYS

    def commutes_with(self, other: ScenarioEvent) -> bool:
        return _commute(self, other)

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        # A user's taint must be there; a controller's may have come meanwhile.
        absent = []
        for name in self.nodes:
            gone = {taint for taint in history.taints[name] if self.removal.removes(*taint)}
            if gone:
                history.taints[name] -= gone
                history.untainted[name, self.removal.key] = self
            elif not self.removal.key.startswith(_CONTROLLER_TAINT_PREFIX):
                absent.append(name)
        if absent:
            before = history.untainted.get((absent[0], self.removal.key))
            why = f"removed already by {before.where}" if before else "never added before"
            yield "", f"taint {self.removal} is not on {listed(absent)}: {why}"

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            old = cluster.state.nodes[name].taints
            new = without_taint(old, self.removal.key, self.removal.effect)
            if new != old:
                _write(self, cluster, name, new)


def _commute(event: ScenarioEvent, other: ScenarioEvent) -> bool:
    """Tell whether two changes concern taints that do not meet: of other keys, or of other effects."""
    one, two = _changed(event), _changed(other)
    if one is None or two is None:
        return False
    return one.key != two.key or ("" not in (one.effect, two.effect) and one.effect != two.effect)


def _changed(event: ScenarioEvent) -> Taint | TaintRemoval | None:
    if isinstance(event, AddTaint):
        return event.taint
    return event.removal if isinstance(event, RemoveTaint) else None


def _write(
    event: ScenarioEvent, cluster: SimulatedCluster, name: str, taints: tuple[Taint, ...]
) -> None:
    cause = cluster.note(event, node=name)
    cluster.state.patch_node_taints(name, taints, by=SCENARIO, because=cause, rule="kubectl taint")
