"""Filters that look at a node alone: cordons, taints, selectors and affinity, volumes.

Upstream (kube-scheduler 1.37, the same since 1.19 but for what ``needs`` names): NodeUnschedulable,
TaintToleration, NodeAffinity (``GetRequiredNodeAffinity``), VolumeBinding for bound claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubectl_evictplan.kube.infrastructure import Wishes
from kubectl_evictplan.kube.needs import OWN_NODE, NodeSelectorTerm, PodNeeds
from kubectl_evictplan.kube.objects import NO_SCHEDULE, Node, Taint, Toleration
from kubectl_evictplan.kube.scheduling.label_index import LabelIndex, meets_all
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where, union
from kubectl_evictplan.kube.scheduling.taint_index import TaintIndex
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.kube.tolerations import tolerates_taint
from kubectl_evictplan.kube.topology import STABLE_LABELS

# The terms of one volume, of which one must be met.
VolumeTerms = tuple[Wishes, ...]

# Of a cordoned node, whether its taint is there yet or not.
CORDON = Taint(UNSCHEDULABLE, NO_SCHEDULE)


class NodeFilters:
    """The nodes that pass each filter, worked out once for each distinct question."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._everywhere = (1 << len(nodes)) - 1
        self._cordoned = nodes_where(node.unschedulable for node in nodes)
        self._taints = TaintIndex(nodes)
        self._labels = LabelIndex(nodes)
        self._affinity: dict[object, NodeSet] = {}
        self._volumes: dict[VolumeTerms, NodeSet] = {}
        self._zones: dict[Wishes, NodeSet] = {}

    def with_nodes(self, nodes: Sequence[Node]) -> NodeFilters:
        """Return the same of nodes that differ in nothing but taints and cordons."""
        found = NodeFilters(nodes)
        found._labels, found._affinity = self._labels, self._affinity
        found._volumes, found._zones = self._volumes, self._zones
        return found

    def unschedulable(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """Nodes that pass NodeUnschedulable: not cordoned, or the pod tolerates the cordon's taint."""
        if self._cordoned and not any(tolerates_taint(one, CORDON) for one in tolerations):
            return self._everywhere & ~self._cordoned
        return self._everywhere

    def taints(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """Nodes that pass TaintToleration: every NoSchedule and NoExecute taint is tolerated."""
        return self._taints.passing(tolerations)

    def affinity(self, needs: PodNeeds, own_node: str) -> NodeSet:
        """Nodes that pass NodeAffinity; ``own_node`` is the one that a pod of a DaemonSet asks for."""
        if not needs.node_selector and needs.node_affinity is None:
            return self._everywhere
        key = (needs.node_selector, needs.node_affinity, own_node if needs.only_own_node else "")
        found = self._affinity.get(key)
        if found is None:
            found = self._everywhere
            for name, value in needs.node_selector:
                found &= self._labels.having(name, (value,))
            if needs.node_affinity is not None:
                found &= union(self._meeting(term, own_node) for term in needs.node_affinity)
            self._affinity[key] = found
        return found

    def _meeting(self, term: NodeSelectorTerm, own_node: str) -> NodeSet:
        if not term.match_expressions and not term.match_fields:
            return 0
        found = self._labels.meeting_all(term.match_expressions)
        for _, operator, values in term.match_fields:
            named = self._labels.named(_names(values, own_node))
            found &= {"In": named, "NotIn": ~named}.get(operator, 0)
        return found

    def zone(self, labels: Wishes) -> NodeSet:
        """Nodes that pass VolumeZone for a volume whose labels ask that; nodes without zone and region always do."""
        found = self._zones.get(labels)
        if found is None:
            found = nodes_where(_in_zone(node.labels, labels) for node in self._nodes)
            self._zones[labels] = found
        return found

    def volume(self, terms: VolumeTerms) -> NodeSet:
        """Nodes from which a volume with these terms can be reached."""
        found = self._volumes.get(terms)
        if found is None:
            found = self._volumes[terms] = union(map(self._labels.meeting_all, terms))
        return found


def matches_node(needs: PodNeeds, node: Node, own_node: str) -> bool:
    """Whether the node meets node selector and required affinity (``RequiredNodeAffinity.Match``).

    The same as ``NodeFilters.affinity`` of a single node.
    """
    labels = node.labels
    if any(labels.get(key) != value for key, value in needs.node_selector):
        return False
    terms = needs.node_affinity
    return terms is None or any(_meets_term(term, node, own_node) for term in terms)


def _meets_term(term: NodeSelectorTerm, node: Node, own_node: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not meets_all(node.labels, term.match_expressions):
        return False
    for _, operator, values in term.match_fields:
        names = _names(values, own_node)
        # API validation lets only In and NotIn of one value pass.
        if operator not in ("In", "NotIn") or (node.name in names) != (operator == "In"):
            return False
    return True


def _names(values: Iterable[str], own_node: str) -> set[str]:
    return {own_node if value == OWN_NODE else value for value in values}


def _in_zone(labels: Mapping[str, str], asked: Wishes) -> bool:
    if not any(key in labels for pair in STABLE_LABELS.items() for key in pair):
        return True
    return all(
        labels.get(key, labels.get(STABLE_LABELS.get(key, key))) in values
        for key, _, values in asked
    )
