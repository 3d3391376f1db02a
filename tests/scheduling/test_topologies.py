"""Domains of nodes: what bits and remembered answers say is what looking at every domain says, at a cost that follows changes."""

from __future__ import annotations

from random import Random

import pytest

from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, first_place, set_of
from kubectl_evictplan.kube.scheduling.topologies import Topologies, _OfDomains

KEY = "rack"
COUNT = 60


def drawn(seed: int) -> tuple[Topologies, list[NodeSet]]:
    """Nodes in racks of one, two and more, or in none; and the racks."""
    draw = Random(seed)
    racks = [draw.choice([None, *range(1 + seed * 10)]) for _ in range(COUNT)]
    nodes = [
        Node(f"n{place}", labels={} if rack is None else {KEY: str(rack)})
        for place, rack in enumerate(racks)
    ]
    domains = [
        set_of(place for place, rack in enumerate(racks) if rack == number)
        for number in sorted({rack for rack in racks if rack is not None})
    ]
    return Topologies(nodes), domains


@pytest.mark.parametrize("seed", range(8))
def test_one_of_each_is_the_first_node_of_every_domain_without_a_held_one(seed: int) -> None:
    topologies, domains = drawn(seed)
    draw = Random(seed)
    nodes, held = draw.getrandbits(COUNT), draw.getrandbits(COUNT) & draw.getrandbits(COUNT)
    for _ in range(30):
        # A few at a time, now and then all of them.
        nodes ^= draw.getrandbits(COUNT) if draw.random() < 0.2 else 1 << draw.randrange(COUNT)
        for kept_off in (0, held):
            expected = {
                first_place(members & nodes)
                for members in domains
                if members & nodes and not members & kept_off
            }
            assert topologies.one_of_each(KEY, nodes, kept_off) == set_of(expected)


@pytest.mark.parametrize("seed", range(8))
def test_whole_domains_and_their_number_follow_the_nodes_in_them(seed: int) -> None:
    topologies, domains = drawn(seed)
    draw = Random(seed)
    nodes = draw.getrandbits(COUNT)
    for _ in range(30):
        nodes ^= draw.getrandbits(COUNT) if draw.random() < 0.2 else 1 << draw.randrange(COUNT)
        hit = [members for members in domains if members & nodes]
        assert topologies.whole_domains(KEY, nodes) == sum(hit)
        assert topologies.count_domains(KEY, nodes) == len(hit)
    assert topologies.whole_domains(KEY, -1) == sum(domains)


def test_of_domains_only_those_are_looked_at_in_which_something_changed() -> None:
    racks = [0b11 << 2 * number for number in range(1000)]
    looked_at: list[NodeSet] = []

    def kept(members: NodeSet, some: NodeSet) -> NodeSet:
        looked_at.append(members)
        return some

    domains = _OfDomains((1 << 2000) - 1, racks, lambda place: racks[place // 2], kept)
    everywhere = (1 << 2000) - 1
    domains.of(everywhere)
    assert len(looked_at) == 1000
    looked_at.clear()
    assert domains.of(everywhere & ~1) == everywhere & ~1
    assert domains.of(everywhere & ~1) == everywhere & ~1
    assert looked_at == [racks[0]]
