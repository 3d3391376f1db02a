"""Placing replacements one after the other is the same as asking anew each time.

A check keeps what it knows from one replacement to the next: what is left on nodes, how many pods are in each
domain, who keeps apart from whom. Here every replacement is asked about in a check of its own, in which those before
it simply run where they were put.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest
from drawn.scheduling_worlds import NAMESPACES, nodes, pod
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import ClusterSnapshot, OwnerReference, Pod
from kubectl_evictplan.kube.scheduling.answers import Surroundings
from kubectl_evictplan.kube.scheduling.fit import fits
from kubectl_evictplan.sources.files import load_files

COPIES = 3


def drawn_cluster(seed: int, folder: Path) -> tuple[ClusterSnapshot, list[Pod]]:
    """A drawn cluster, and pods to be placed: some copies of each of a few."""
    draw = Random(seed)
    made = nodes(draw)
    names = [one["metadata"]["name"] for one in made]
    running = [pod(draw, f"r{number}") for number in range(4)]
    for one in running:
        one["spec"]["nodeName"] = draw.choice(names)
    wanted = [pod(draw, f"w{number}") for number in range(5)]
    items = [{"apiVersion": "v1", "kind": "Node", **one} for one in made]
    items += [{"apiVersion": "v1", "kind": "Pod", **one} for one in (*running, *wanted)]
    for number, one in enumerate(items):
        one["metadata"]["uid"] = str(number)
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    snapshot = load_files([str(path)])
    copies = [
        msgspec.structs.replace(one, name=f"{one.name}-{copy}")
        for one in snapshot.pods
        if not one.node_name
        for copy in range(COPIES)
    ]
    return snapshot, copies


def owner(name: str) -> OwnerReference:
    return OwnerReference("ReplicaSet", name, controller=True)


@pytest.mark.parametrize("seed", range(40))
def test_a_check_of_all_gives_the_answers_of_checks_one_by_one(seed: int, tmp_path: Path) -> None:
    snapshot, wanted = drawn_cluster(seed, tmp_path)
    running = [one for one in snapshot.pods if one.node_name]

    around = Surroundings(snapshot.nodes, running=running, namespaces=NAMESPACES)
    # Pods without an owner are a group each: the order is the one given, but for those that follow others.
    found = fits(around, wanted)
    free = [one for one in wanted if not (one.needs and one.needs.pod_affinity)]
    assert [fit.pods for fit in found[: len(free)]] == [(one,) for one in free]
    assert len(found) == len(wanted)
    for fit in found:
        (one,) = fit.pods
        (anew,) = fits(replace(around, running=running), [one])
        # What was taken by others is known only to the check of all.
        assert replace(fit, room_taken=False) == anew
        if anew.placed:
            running = [*running, msgspec.structs.replace(one, node_name=anew.nodes[0])]


@pytest.mark.parametrize("seed", range(20))
def test_a_group_is_placed_like_its_pods_one_by_one(seed: int, tmp_path: Path) -> None:
    snapshot, wanted = drawn_cluster(seed, tmp_path)
    running = [one for one in snapshot.pods if one.node_name]
    around = Surroundings(snapshot.nodes, running=running, namespaces=NAMESPACES)
    apart = fits(around, wanted)
    owned = [
        msgspec.structs.replace(one, owner_references=(owner(one.name.rpartition("-")[0]),))
        for one in wanted
    ]
    together = fits(around, owned)
    placed = Counter[str]()
    for fit in apart:
        placed[fit.pods[0].name.rpartition("-")[0]] += fit.placed
    for fit in together:
        assert fit.placed == placed[fit.pods[0].name.rpartition("-")[0]]
