"""By how much windows that rest on drawn runs of drains are wider than what the runs show.

Where nothing is proven, runs are samples. What depends on other pods may come earlier or later than in any of them, and what
lies between two of them may be chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.drained_pods import RETRY_NS
from kubectl_evictplan.engine.drain_timing import CONFLICT_MAX_NS
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.delays import ARRIVAL
from kubectl_evictplan.windows.drains.instants import GAP_NS
from kubectl_evictplan.windows.spans import Span, merge_spans

# What drawn runs may miss at either end of a window that depends on other pods.
_PADDING_NS = 200 * MILLISECOND_NS
# At once, or when the one thing it waits for has happened.
_OUTCOMES_OF_ONE_WAIT = 2


class DrawnWorld(NamedTuple):
    """What of the drained cluster decides how far apart runs may lie.

    ``classes`` are lists of exchangeable pods; ``siblings`` are such lists of StatefulSets' pods: any of them may be the
    first or the last, but each keeps its name. ``moves_ns`` has, by node, how far instants move with what can be anything
    between two ends, of which ``steps`` places are drawn: a hole that is smaller may be chance. ``node_of`` has the
    node of each pod, ``asks`` the budget that is asked about it; ``queued`` are nodes of which not all pods go at once.
    ``whole``: readiness is anywhere in a range, so what was not drawn between two instants is no proof that nothing
    happens there. ``collected_ns``: so much later pods of nodes that are gone may leave their budgets.
    """

    drains: Sequence[Drain]
    classes: Sequence[Sequence[Pod]]
    siblings: Sequence[Sequence[Pod]]
    moves_ns: Mapping[str, int]
    steps: int
    node_of: Mapping[str, str]
    asks: Mapping[str, str]
    queued: Collection[str] = ()
    whole: bool = False
    collected_ns: int = 0


class Margins:
    """Of one world; ``waiting`` are the pods that wait for a budget in some run, and it may grow until it is asked."""

    def __init__(
        self, world: DrawnWorld, class_of: Mapping[str, int], waiting: Collection[str]
    ) -> None:
        self._world = world
        self._class_of = class_of
        self._waiting = waiting
        # Nodes that kubectl comes to at once: no other drain is before them, or beside.
        drains = world.drains
        self._first = {drains[0].nodes[0]} if len(drains) == 1 else set()
        nodes = Counter(node for event in drains for node in event.nodes)
        # Nodes of several processes: whichever asks first decides, and they ask 5 s apart at most.
        self.contested = {node for node, processes in nodes.items() if processes > 1}
        # How many pods meet at each budget.
        self._rivals: Counter[str | None] = Counter(world.asks.values())

    def gap_of_pod(self, pod: str) -> int:
        """Instants of the pod that lie closer are one outcome."""
        world = self._world
        if world.whole:
            return HORIZON_DEFAULT_MAX_NS
        node = world.node_of.get(pod, "")
        return max(RETRY_NS if node in self.contested else GAP_NS, world.moves_ns.get(node, 0))

    def padding_ns(self, node: str, pod: str = "") -> int:
        """What runs may miss at an end of what happens on the node, or to a pod of it."""
        step_ns = self._world.moves_ns.get(node, 0) // self._world.steps
        contested = node in self.contested and self._waits_for_budgets(node, pod)
        by_others_ns = RETRY_NS if contested else 0
        return _PADDING_NS + by_others_ns + max(step_ns // 2 - GAP_NS // 3, 0)

    def padded(
        self, spans: tuple[Span, ...], node: str, pod: str, start_ns: int | None
    ) -> tuple[Span, ...]:
        """The windows of an eviction from a node to which kubectl comes at ``start_ns`` at the earliest."""
        first_ns = spans[0][0] if start_ns is None else min(start_ns, spans[0][0])
        # Each of several waits adds its own chance, to the ends of a window as to the holes between two.
        padding_ns = self.padding_ns(node, pod) * max(len(spans) - 1, 1)
        if self._waits_for_budgets(node, pod):
            padding_ns += self._world.collected_ns
        if len(spans) > _OUTCOMES_OF_ONE_WAIT:
            spans = (spans[0], (spans[1][0], spans[-1][1]))
        wider = ((max(low - padding_ns, first_ns), high + padding_ns) for low, high in spans)
        return tuple(merge_spans(wider, 0))

    def sent_together(self, spans: tuple[Span, ...], start_ns: int | None) -> tuple[Span, ...]:
        """The spans of a pod that waits for nobody: its request arrives with the first, or with the last.

        ``start_ns``: when kubectl comes to the node at the earliest.
        """
        earliest_ns = spans[0][0] if start_ns is None else min(start_ns, spans[0][0])
        wider = ((max(low - ARRIVAL[1], earliest_ns), high + ARRIVAL[1]) for low, high in spans)
        return tuple(merge_spans(wider, 0))

    def conflicted(self, spans: tuple[Span, ...], pod: str) -> tuple[Span, ...]:
        """The spans; of requests that meet at a budget one may lose once more than in drawn runs."""
        if self._rivals[self._world.asks.get(pod)] < 2:
            return spans
        # They are sent together; whoever is refused then comes back alone.
        (low_ns, high_ns), *others = spans
        return tuple(merge_spans([(low_ns, high_ns + CONFLICT_MAX_NS), *others], 0))

    def depends_on_others(self, node: str, pod: str) -> bool:
        """Whether that pod of the node, or one of its class, waits, or the node's turn comes late."""
        late = node not in self._first or node in self._world.queued
        return late or self._waits_for_budgets(node, pod)

    def _waits_for_budgets(self, node: str, pod: str) -> bool:
        """Whether that pod, or one of its class, is refused in some run; "": whether any pod of the node is."""
        world = self._world
        if not pod:
            return any(world.node_of.get(other) == node for other in self._waiting)
        alike = world.classes[self._class_of[pod]] if pod in self._class_of else ()
        return not {pod, *(other.key for other in alike)}.isdisjoint(self._waiting)
