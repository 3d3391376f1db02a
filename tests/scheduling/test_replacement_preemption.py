"""Whom replacements of higher priority may push out: as many at most as the scheduler would."""

from __future__ import annotations

from random import Random
from typing import Any

from building.builders import make_node
from msgspec.structs import replace

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.preemption import Preemption

Running = list[tuple[int, PodNeeds | None, int]]


def node(name: str, **offers: int) -> Node:
    return replace(make_node(name), allocatable={"pods": 10, **offers})


def needs(priority: int = 0, **more: Any) -> PodNeeds:
    requests = {name: more.pop(name) for name in ("cpu", "memory") if name in more}
    return PodNeeds(tuple(sorted(requests.items())), priority=priority, **more)


def pushed(nodes: list[Node], running: Running, wanted: PodNeeds, count: int = 1) -> Any:
    preemption = Preemption(
        [one.name for one in nodes], Capacity(nodes, running), running, [(wanted, count)]
    )
    pushing = preemption.pushing(wanted, count, (1 << len(nodes)) - 1, plain=True)
    return preemption.pushed([pushing])


def test_one_pod_is_pushed_out_for_one_that_is_not_larger() -> None:
    running = [(0, small := needs(cpu=500), 4)]
    assert pushed([node("n1", cpu=2000)], running, needs(9, cpu=500)) == {small: 1}
    assert pushed([node("n1", cpu=2000)], running, needs(9, cpu=600)) == {small: 2}


def test_only_the_pods_of_one_node_are_pushed_out_for_one_pod() -> None:
    running = [(0, small := needs(cpu=500), 2), (1, small, 1)]
    nodes = [node("n1", cpu=1000), node("n2", cpu=500)]
    assert pushed(nodes, running, needs(9, cpu=1000)) == {small: 2}
    assert pushed(nodes, running, needs(9, cpu=1000), 2) == {small: 3}


def test_nobody_pushes_out_pods_of_its_own_priority() -> None:
    running = [(0, needs(9, cpu=500), 2)]
    assert pushed([node("n1", cpu=1000)], running, needs(9, cpu=1000)) == {}


def test_whoever_is_pushed_out_may_push_out_others_anywhere() -> None:
    running = [(0, middle := needs(5, cpu=500), 1), (1, low := needs(0, cpu=500), 3)]
    nodes = [node("n1", cpu=500), node("n2", cpu=1500, memory=1)]
    assert pushed(nodes, running, needs(9, cpu=500))[low] == 3
    never = replace(middle, never_preempts=True)
    found = pushed(nodes, [(0, never, 1), running[1]], needs(9, cpu=500))
    assert found == {never: 1, low: 1}


def victims(draw: Random, offered: dict[str, int], there: list[PodNeeds], pod: PodNeeds) -> list:
    """As the scheduler finds them: all of lower priority go, then each may stay that does not stand in the way."""
    spared = [one for one in there if one.priority >= pod.priority]
    lower = [one for one in there if one.priority < pod.priority]
    draw.shuffle(lower)
    if not _fit(offered, [*spared, pod]):
        return []
    gone = []
    for one in lower:
        if _fit(offered, [*spared, one, pod]):
            spared.append(one)
        else:
            gone.append(one)
    return gone


def _fit(offered: dict[str, int], pods: list[PodNeeds]) -> bool:
    used = {name: sum(dict(one.requests).get(name, 0) for one in pods) for name in offered}
    used["pods"] = len(pods)
    return all(used[name] <= offered[name] for name in offered)


def test_the_scheduler_never_pushes_out_more_than_is_told() -> None:
    draw = Random(18)
    tried = 0
    for _ in range(300):
        offered = {
            "cpu": draw.randint(2, 9),
            "memory": draw.randint(2, 9),
            "pods": draw.randint(2, 6),
        }
        kinds = [
            needs(draw.choice([0, 1]), cpu=draw.randint(0, 2), memory=draw.randint(0, 2))
            for _ in range(3)
        ]
        there: list[PodNeeds] = []
        while _fit(offered, [*there, one := draw.choice(kinds)]):
            there.append(one)
        pod = needs(7, cpu=draw.randint(0, 4), memory=draw.randint(0, 4))
        running: Running = [(0, kind, there.count(kind)) for kind in dict.fromkeys(there)]
        told = pushed([node("n1", **offered)], running, pod)
        for _ in range(3):
            gone = victims(draw, offered, there, pod)
            tried += len(gone) > 1
            for kind in set(gone):
                assert gone.count(kind) <= told.get(kind, 0), (offered, there, pod)
    assert tried > 50
