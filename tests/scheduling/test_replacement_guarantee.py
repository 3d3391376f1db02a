"""How many pods surely find a place, against every way in which a scheduler may choose."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from building.builders import make_node
from msgspec.structs import replace

from kubectl_evictplan.kube.needs import HostPort, PodNeeds
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.guarantee import Competing, Guarantee, TooMany

PORT = HostPort("TCP", 80, "")
Wanted = list[tuple[PodNeeds, int]]


def node(name: str, **offers: int) -> Node:
    return replace(make_node(name), allocatable={"pods": 10, **offers})


def needs(*ports: HostPort, **requests: int) -> PodNeeds:
    return PodNeeds(tuple(sorted(requests.items())), host_ports=ports)


def sure(nodes: list[Node], competing: Wanted) -> list[int]:
    """How many of each surely find a place."""
    capacity = Capacity(nodes, ())
    guarantee = Guarantee(
        capacity, [Competing(*one, capacity.fitting(one[0])) for one in competing]
    )
    return [
        guarantee.at_least(asked, count, capacity.fitting(asked) & capacity.ports(asked))
        for asked, count in competing
    ]


def by_trying(nodes: list[Node], competing: Wanted) -> list[int]:
    """The fewest of each, over all ways to place them that leave no pod of that kind a node with room."""
    pods = [(place, asked) for place, (asked, count) in enumerate(competing) for _ in range(count)]
    fewest = [count for _, count in competing]
    for chosen in product(range(-1, len(nodes)), repeat=len(pods)):
        capacity = Capacity(nodes, ())
        if not all(_put(capacity, at, asked) for at, (_, asked) in zip(chosen, pods, strict=True)):
            continue
        for place, (asked, count) in enumerate(competing):
            placed = sum(
                at >= 0 and kind == place for at, (kind, _) in zip(chosen, pods, strict=True)
            )
            if placed == count or not capacity.fitting(asked) & capacity.ports(asked):
                fewest[place] = min(fewest[place], placed)
    return fewest


def _put(capacity: Capacity, at: int, asked: PodNeeds) -> bool:
    """Place it there, if there is room; -1: nowhere."""
    if at < 0:
        return True
    if not capacity.fitting(asked) & capacity.ports(asked) & 1 << at:
        return False
    capacity.take(at, asked, 1)
    return True


def test_pods_of_equal_needs_all_find_a_place_where_there_are_as_many() -> None:
    nodes = [node("n1", cpu=3000), node("n2", cpu=2000)]
    assert sure(nodes, [(needs(cpu=1000), 1)] * 2 + [(needs(cpu=1000), 3)]) == [1, 1, 3]


def test_where_a_place_is_missing_any_one_of_equal_pods_may_be_left_out() -> None:
    nodes = [node("n1", cpu=2999), node("n2", cpu=2000)]
    assert sure(nodes, [(needs(cpu=1000), 1)] * 2 + [(needs(cpu=1000), 3)]) == [0, 0, 2]


def test_places_are_counted_by_the_resource_that_ends_first() -> None:
    nodes = [node("n1", cpu=9000, memory=64, pods=2), node("n2", cpu=9000, memory=10)]
    assert sure(nodes, [(needs(cpu=100, memory=5), 4)]) == [4]
    assert sure(nodes, [(needs(cpu=100, memory=5), 3), (needs(cpu=100, memory=1), 2)]) == [2, 1]


def test_a_large_pod_takes_the_room_of_one_node_and_not_more() -> None:
    nodes = [node("n1", cpu=8000), node("n2", cpu=2000), node("n3", cpu=2000)]
    assert sure(nodes, [(needs(cpu=2000), 2), (needs(cpu=8000), 1)]) == [2, 0]


def test_a_pod_that_takes_much_of_what_nobody_lacks_is_no_large_one() -> None:
    nodes = [node("n1", cpu=2000, memory=1000), node("n2", cpu=2000, memory=1000)]
    assert sure(nodes, [(needs(cpu=1000, memory=1), 2), (needs(cpu=1000, memory=200), 2)])[0] == 2


def test_a_pod_that_fits_on_none_of_the_nodes_takes_nobodys_room() -> None:
    assert sure([node("n1", cpu=2000)], [(needs(cpu=2000), 1), (needs(cpu=2001), 5)]) == [1, 0]


def test_a_port_is_taken_once_on_a_node() -> None:
    nodes = [node("n1", cpu=8000), node("n2", cpu=8000), node("n3", cpu=8000)]
    assert sure(nodes, [(needs(PORT, cpu=1000), 2), (needs(PORT, cpu=1000), 1)]) == [2, 1]
    assert sure(nodes, [(needs(PORT, cpu=1000), 2), (needs(PORT, cpu=1000), 2)]) == [1, 1]


def test_never_more_are_sure_than_the_worst_scheduler_places() -> None:
    draw = Random(13)
    told = true = 0
    for _ in range(60):
        nodes = [
            node(
                f"n{at}", cpu=draw.randint(1, 6), memory=draw.randint(1, 9), pods=draw.randint(1, 4)
            )
            for at in range(draw.randint(1, 3))
        ]
        competing = [
            (
                needs(
                    *([PORT] if draw.random() < 0.2 else []),
                    cpu=draw.randint(1, 3),
                    memory=draw.choice([0, 0, 1, 3]),
                ),
                draw.randint(1, 2),
            )
            for _ in range(draw.randint(1, 3))
        ]
        said, worst = sure(nodes, competing), by_trying(nodes, competing)
        assert all(map(int.__le__, said, worst)), (nodes, competing, said, worst)
        told += sum(said)
        true += sum(worst)
    # Worth something too: of those that surely find a place most are told so.
    assert told >= 0.8 * true


def asked_by_owners(owners: int) -> tuple[int, int]:
    """How many pods are sure when so many owners of two kinds share tight nodes, and how much was counted."""
    nodes = [node(f"n{at}", cpu=1500 + 7 * at) for at in range(30)]
    kinds = needs(cpu=1000), needs(cpu=1300)
    competing = [(kinds[at % 2], 1 + at % 4) for at in range(owners)]
    capacity = Capacity(nodes, ())
    guarantee = Guarantee(
        capacity, [Competing(*one, capacity.fitting(one[0])) for one in competing]
    )
    found = sum(
        guarantee.at_least(asked, count, capacity.fitting(asked)) for asked, count in competing
    )
    return found, guarantee.counted


def test_what_is_counted_follows_distinct_needs_and_nodes_not_owners_and_pods() -> None:
    (few, counted), (many, counted_of_many) = asked_by_owners(8), asked_by_owners(400)
    assert (few > 0, many) == (True, 0)
    # Two needs, each with 30 nodes and two that compete, in eleven ways at most.
    assert 0 < counted <= counted_of_many <= 2 * (30 + 2) * 11


def test_where_too_much_would_have_to_be_counted_it_says_so_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kubectl_evictplan.kube.scheduling.guarantee.COUNTED_MAX", 3)
    nodes = [node("n1", cpu=3000), node("n2", cpu=2000)]
    capacity, asked = Capacity(nodes, ()), needs(cpu=1000)
    guarantee = Guarantee(capacity, [Competing(asked, 4), Competing(needs(cpu=999), 4)])
    for _ in range(2):
        with pytest.raises(TooMany):
            guarantee.at_least(asked, 4, capacity.fitting(asked))
