"""How many pods surely find a place, against every way in which a scheduler may choose."""

from __future__ import annotations

from itertools import product
from random import Random

from msgspec.structs import replace

from builders import make_node
from kubectl_evictplan.kube.needs import HostPort, PodNeeds
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.guarantee import Competing, Guarantee

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
