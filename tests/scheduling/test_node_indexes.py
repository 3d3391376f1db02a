"""What is looked up of nodes by label, name and taint is what asking each node says."""

from __future__ import annotations

from random import Random

import pytest

from kubectl_evictplan.kube.needs import NODE_NAME_FIELD, OWN_NODE, NodeSelectorTerm, PodNeeds
from kubectl_evictplan.kube.objects import EFFECTS, Node, Taint, Toleration
from kubectl_evictplan.kube.scheduling import taint_index
from kubectl_evictplan.kube.scheduling.label_index import LabelIndex
from kubectl_evictplan.kube.scheduling.node_filters import NodeFilters, matches_node
from kubectl_evictplan.kube.scheduling.node_sets import nodes_where
from kubectl_evictplan.kube.scheduling.taint_index import TaintIndex
from kubectl_evictplan.kube.tolerations import tolerates_taint

KEYS = ("a", "b", "c")
VALUES = ("1", "2", "30", "", "x")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Unheard")


def drawn_nodes(draw: Random) -> list[Node]:
    return [
        Node(
            f"n{place}",
            labels={key: draw.choice(VALUES) for key in KEYS if draw.random() < 0.6},
            taints=tuple(
                Taint(draw.choice(KEYS), draw.choice(EFFECTS), draw.choice(VALUES), place)
                for _ in range(draw.choice((0, 0, 1, 2, 3)))
            ),
        )
        for place in range(40)
    ]


def drawn_wish(draw: Random) -> tuple[str, str, tuple[str, ...]]:
    some = draw.sample(VALUES, draw.choice((1, 1, 2)))
    return draw.choice((*KEYS, "d")), draw.choice(OPERATORS), tuple(sorted(some))


def drawn_term(draw: Random) -> NodeSelectorTerm:
    names = (OWN_NODE, "n3", "n7", "elsewhere")
    fields = tuple(
        (NODE_NAME_FIELD, draw.choice(("In", "NotIn", "Gt")), (draw.choice(names),))
        for _ in range(draw.choice((0, 0, 1)))
    )
    wishes = tuple(drawn_wish(draw) for _ in range(draw.choice((0, 1, 2))))
    return NodeSelectorTerm(wishes, fields)


@pytest.mark.parametrize("seed", range(5))
def test_required_affinity_of_many_nodes_is_that_of_each(seed: int) -> None:
    draw = Random(seed)
    nodes = drawn_nodes(draw)
    filters = NodeFilters(nodes)
    for _ in range(60):
        needs = PodNeeds(
            node_selector=tuple((draw.choice(KEYS), draw.choice(VALUES)) for _ in range(seed % 3)),
            node_affinity=draw.choice(
                (None, tuple(drawn_term(draw) for _ in range(draw.choice((0, 1, 2)))))
            ),
        )
        for own_node in ("n3", "n5"):
            expected = nodes_where(matches_node(needs, node, own_node) for node in nodes)
            assert filters.affinity(needs, own_node) == expected, needs


@pytest.mark.parametrize("seed", range(5))
def test_a_node_passes_when_each_of_its_taints_that_keeps_pods_off_is_tolerated(seed: int) -> None:
    draw = Random(seed)
    nodes = drawn_nodes(draw)
    index = TaintIndex(nodes)
    for _ in range(60):
        tolerations = tuple(
            Toleration(
                draw.choice((*KEYS, "")),
                draw.choice(("", "Equal", "Exists", "Gt")),
                draw.choice(VALUES),
                draw.choice((*EFFECTS, "")),
            )
            for _ in range(draw.choice((0, 1, 2, 4)))
        )
        expected = nodes_where(
            all(
                any(tolerates_taint(one, taint) for one in tolerations)
                for taint in node.taints
                if taint.effect != "PreferNoSchedule"
            )
            for node in nodes
        )
        assert index.passing(tolerations) == expected


def test_where_each_node_has_its_own_taint_a_pod_is_asked_about_those_it_may_tolerate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Taint] = []

    def counted(toleration: Toleration, taint: Taint) -> bool:
        asked.append(taint)
        return tolerates_taint(toleration, taint)

    monkeypatch.setattr(taint_index, "tolerates_taint", counted)
    silent = Taint("node.kubernetes.io/unreachable", "NoExecute")
    nodes = [
        Node(f"n{at}", taints=(Taint("own", "NoSchedule", str(at)), silent)) for at in range(500)
    ]
    index = TaintIndex(nodes)
    everywhere = Toleration("node.kubernetes.io/unreachable", "Exists")
    for at in range(500):
        own = Toleration("own", "Equal", str(at), "NoSchedule")
        assert index.passing((everywhere, own)) == 1 << at
    assert len(asked) == 501


def test_a_selector_of_one_of_thousands_of_values_asks_no_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [Node(f"n{at}", labels={"own": str(at)}) for at in range(500)]
    index = LabelIndex(nodes)
    index.having("own", ())
    monkeypatch.setattr(index, "_nodes", ())
    for at in range(500):
        assert index.meeting(("own", "In", (str(at),))) == 1 << at
        assert index.meeting(("own", "NotIn", (str(at),))).bit_count() == 499
