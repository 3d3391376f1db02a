"""Taints that people put on nodes and take off again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec

from kubectl_evictplan.cluster.timeline import SCENARIO
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.taints import (
    LIFECYCLE_NO_EXECUTE_KEYS,
    OUT_OF_SERVICE,
    taint_text,
    with_taint_put_first,
    without_taint,
)
from kubectl_evictplan.scenarios.field_types import TAINT, TAINT_REMOVAL
from kubectl_evictplan.scenarios.scenario import NodesEvent, ScenarioEvent
from kubectl_evictplan.scenarios.taint_words import TaintRemoval
from kubectl_evictplan.scenarios.targets import listed

if TYPE_CHECKING:
    from kubectl_evictplan.scenarios.history import History
    from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster

_CONTROLLER_TAINT_PREFIX = "node.kubernetes.io/"


class TaintChange(NodesEvent, frozen=True, kw_only=True):
    """What adding and removing have in common."""

    @property
    def taint_key(self) -> str:
        """The key of the taint that comes or goes."""
        raise NotImplementedError

    @property
    def critical_ns(self) -> int | None:
        """The monitor's tick looks at the taints that node lifecycle owns."""
        return self.at_ns if self.taint_key in LIFECYCLE_NO_EXECUTE_KEYS else None

    def commutes_with(self, other: ScenarioEvent) -> bool:
        """Taints of different keys do not meet."""
        return isinstance(other, TaintChange) and other.taint_key != self.taint_key

    def _write(self, cluster: SimulatedCluster, name: str, taints: tuple[Taint, ...]) -> None:
        cause = cluster.note(self, node=name)
        cluster.state.patch_node_taints(
            name, taints, by=SCENARIO, because=cause, rule="kubectl taint"
        )


class AddTaint(TaintChange, frozen=True, kw_only=True):
    """A taint of the same key and effect is replaced."""

    action = "taint"
    told = "somebody puts the taint {detail} on"

    taint: Annotated[Taint, TAINT]

    @property
    def taint_key(self) -> str:
        """The key of the taint that comes."""
        return self.taint.key

    @property
    def detail(self) -> str:
        """The taint, as kubectl writes it."""
        return taint_text(self.taint)

    @property
    def seen_by_pod_gc(self) -> bool:
        """Only out-of-service nodes are its business."""
        return self.taint.key == OUT_OF_SERVICE

    feeds_pod_gc = seen_by_pod_gc

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        """Nothing contradicts a taint."""
        for name in self.nodes:
            history.taints[name].add((self.taint.key, self.taint.effect))
        return iter(())

    def happen(self, cluster: SimulatedCluster) -> None:
        """Put the taint first in each node's list, as kubectl does."""
        for name in cluster.existing(self):
            taints = with_taint_put_first(cluster.state.nodes[name].taints, self.taint)
            self._write(cluster, name, taints)


class RemoveTaint(TaintChange, frozen=True, kw_only=True):
    """A taint goes, with one effect or with all of them."""

    action = "untaint"
    told = "somebody takes the taint {detail} off"
    # Said by the warning taint-not-applied.
    idle_because = ""

    removal: Annotated[TaintRemoval, TAINT_REMOVAL] = msgspec.field(name="taint")

    @property
    def taint_key(self) -> str:
        """The key of the taint that goes."""
        return self.removal.key

    @property
    def detail(self) -> str:
        """The taint, as kubectl writes it."""
        return str(self.removal)

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        """A user's taint must be there; a controller's may have come meanwhile."""
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
        """Take the taint off where it is."""
        for name in cluster.existing(self):
            old = cluster.state.nodes[name].taints
            new = without_taint(old, self.removal.key, self.removal.effect)
            if new != old:
                self._write(cluster, name, new)
