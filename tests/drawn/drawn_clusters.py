"""Nodes and pods of drawn clusters, as ``soak_worlds`` needs them: fine ones, nodes that are down in every way, and odd ones."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import floor
from typing import NamedTuple

from building.builders import (
    EXCLUDE_LABEL,
    NOT_READY,
    UNREACHABLE,
    make_conditions,
    make_lease,
    make_node,
    make_pod,
    make_taint,
)
from drawn.odd_objects import odd_node, odd_pod
from drawn.wide_script import draw_tolerations
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Lease, Node, Pod

# One of each profile of the table, and the newest.
RELEASES = (
    "1.16.4",
    "1.16.15",
    "1.17.9",
    "1.17.17",
    "1.18.6",
    "1.18.10",
    "1.18.20",
    "1.19.3",
    "1.19.16",
    "1.20.4",
    "1.20.15",
    "1.21.14",
    "1.23.13",
    "1.24.17",
    "1.25.16",
    "1.26.8",
    "1.27.16",
    "1.28.15",
    "1.29.6",
    "1.30.14",
    "1.31.14",
    "1.32.9",
    "1.33.4",
    "1.34.4",
    "1.35.0",
    "1.37.0",
)
# Those with the mode without taint manager.
TIMEOUT_RELEASES = tuple(release for release in RELEASES if int(release.split(".")[1]) <= 26)


class WorldClass(NamedTuple):
    """What the worlds of a class have in common."""

    actions: tuple[str, ...]
    # The share of nodes that are down, or only look fine, at the start.
    down: float = 0.0
    releases: tuple[str, ...] = RELEASES
    flags: tuple[tuple[str, str], ...] = ()
    # The share of nodes that are Ready again since just before the start.
    back: float = 0.0
    # The share of nodes with a taint of a person, and of pods that are on their way out.
    tainted: float = 0.06
    leaving: float = 0.04


class Odd(NamedTuple):
    """How many of the nodes and pods of a world are odd."""

    share: float
    rng: random.Random


@dataclass
class Cluster:
    """What is at the start; ``lease_seconds`` are four periods of a kubelet."""

    rng: random.Random
    lease_seconds: int
    period: float
    grace: float
    # What shows of ticks before the start is on one grid.
    phase: float
    kind: WorldClass
    nodes: list[Node] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    up: set[str] = field(default_factory=set)

    def add_node(self, name: str, zone: str) -> None:
        """A node that is fine, or one that is not."""
        labels = {EXCLUDE_LABEL: "true"} if self.rng.random() < 0.08 else {}
        if self.rng.random() < self.kind.down:
            self._add_down(name, zone, labels)
            return
        taints = ("A=x:NoExecute",) if self.rng.random() < self.kind.tainted else ()
        self.nodes.append(make_node(name, zone=zone, labels=labels, taints=taints))
        self.leases.append(self._fresh(name))
        self.up.add(name)

    def let_come_back(self) -> None:
        """Of the nodes that are fine, some were not until just before the start."""
        share = self.kind.back
        if not share:
            return
        for place, node in enumerate(self.nodes):
            if node.name in self.up and self.rng.random() < share:
                since = -round(self.rng.uniform(0, 12), 3)
                conditions = make_conditions("True", heartbeat=since, transition=since)
                self.nodes[place] = replace(node, conditions=conditions)

    def make_odd(self, odd: Odd) -> None:
        """Some of what there is has what few have."""
        if odd.share:
            rng = odd.rng
            self.nodes = [odd_node(rng, n) if rng.random() < odd.share else n for n in self.nodes]
            self.pods = [odd_pod(rng, p) if rng.random() < odd.share else p for p in self.pods]

    def _fresh(self, name: str) -> Lease:
        renewed = -round(self.rng.random() * self.lease_seconds / 4, 3)
        return make_lease(name, renewed, duration_seconds=self.lease_seconds)

    def _add_down(self, name: str, zone: str, labels: dict[str, str]) -> None:
        rng = self.rng
        given_up = self.phase - self.period * rng.randint(1, round(60 / self.period))
        how = rng.choice(("silent", "silent", "silent", "not ready", "just silent", "never posted"))
        key = NOT_READY if how in ("not ready", "never posted") else UNREACHABLE
        since = floor(given_up) if how == "silent" else -round(rng.uniform(1, 60), 3)
        added = float(rng.randint(floor(since), -1))
        given = [make_taint(f"{key}:NoExecute", added=added)]
        taints = given if rng.random() < 0.6 and how != "just silent" else []
        statuses = {"silent": "Unknown", "not ready": "False", "never posted": None}
        node = make_node(
            name,
            zone=zone,
            labels=labels,
            taints=taints,
            ready=statuses.get(how, "True"),
            heartbeat=since - 50,
            transition=since,
        )
        self.nodes.append(node)
        if how == "not ready":
            self.leases.append(self._fresh(name))
            self.up.add(name)
        elif how != "never posted":
            # Silent for more than two periods, which is when a kubelet is taken to be down.
            renewed = given_up - self.grace - self.period * rng.uniform(0.1, 0.9)
            if how == "just silent":
                not_noticed = self.phase - self.period - self.grace + 0.1
                renewed = rng.uniform(not_noticed, -0.51 * self.lease_seconds)
            self.leases.append(make_lease(name, renewed, duration_seconds=self.lease_seconds))

    def add_pod(self, name: str, seconds: tuple[int, ...], names: list[str]) -> None:
        """A pod somewhere; now and then its node is not there, or it is on its way out."""
        rng = self.rng
        on = "missing" if rng.random() < 0.04 else rng.choice(names)
        self.pods.append(
            make_pod(
                name,
                on,
                tolerations=tuple(draw_tolerations(rng, seconds)),
                grace_seconds=rng.choice((0, 1, 5, 30)),
                created=-float(rng.randint(60, 5000)),
                deleted=-float(rng.randint(0, 20)) if rng.random() < self.kind.leaving else None,
                finalizers=("example.com/held",) if rng.random() < 0.04 else (),
                phase=rng.choice(("Running",) * 8 + ("Succeeded", "Pending")),
                owner=rng.choice(("", "ReplicaSet/a", "DaemonSet/d", "StatefulSet/s")),
            )
        )
