"""Worlds in which much happens in the first seconds, beside nodes that wait for their taint since before the start.

What nobody can see of the time before the start (a token that was just spent, what the newest tick had seen) decides only then. In
other worlds events are spread over the whole time, and few of them meet it. All of these are small, so that they cost little.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from building.builders import (
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from realities.drawn_realities import World

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Lease, Node, Pod
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

# Kubelets renew every second, and are given up after six.
_LEASE_SECONDS, _HORIZON = 4, 40


def draw_hurried_world(rng: random.Random, release: str) -> World:
    """Five to seven nodes, one or two of which wait, and up to five events within about ten seconds."""
    names = [f"n{index}" for index in range(rng.randint(4, 6))]
    waiting = set(rng.sample(names, rng.choice((1, 1, 2))))
    zones = {name: rng.choice("aaab") for name in names} | {"other": rng.choice("abo")}
    nodes = [_node(rng, name, zone, waits=name in waiting) for name, zone in zones.items()]
    flags = {
        "node-monitor-period": "1s",
        "node-monitor-grace-period": "6s",
        "node-eviction-rate": rng.choice(("0.1", "0.1", "0.3", "0.5")),
        "secondary-node-eviction-rate": rng.choice(("0.05", "0.2")),
        "unhealthy-zone-threshold": rng.choice(("0.55", "0.9")),
        "large-cluster-size-threshold": rng.choice(("50", "2")),
    }
    settings = ControllerSettings(kubernetes_version=release, flags=flags)
    leases = [_lease(rng, node) for node in nodes]
    snapshot = make_snapshot(nodes, _pods(rng, names), leases=leases)
    script = _Script(rng, {node.name: node for node in nodes if node.name != "other"})
    for _ in range(rng.randint(1, 5)):
        script.step()
    return World(
        snapshot,
        make_scenario(script.events, horizon=_HORIZON),
        resolve_configuration(settings, ControlPlaneFlags()),
    )


def _node(rng: random.Random, name: str, zone: str, *, waits: bool) -> Node:
    if waits:
        ready = rng.choice(("Unknown", "Unknown", "False"))
        return make_node(name, zone=zone, ready=ready, transition=-rng.choice((3, 9, 20)))
    just_back = rng.random() < 0.12
    return make_node(name, zone=zone, transition=-rng.choice((1, 2, 5)) if just_back else -1000)


def _lease(rng: random.Random, node: Node) -> Lease:
    renewed = -30 if node.ready_status == "Unknown" else -round(rng.random(), 3)
    return make_lease(node.name, renewed, duration_seconds=_LEASE_SECONDS)


def _pods(rng: random.Random, names: list[str]) -> list[Pod]:
    return [
        make_pod(
            f"p-{name}",
            name,
            tolerations=default_tolerations(rng.choice((0, 1, 3))) if rng.random() < 0.6 else (),
        )
        for name in names
        if rng.random() < 0.6
    ]


class _Script:
    """Draws events in time order and keeps what is true at each instant."""

    def __init__(self, rng: random.Random, nodes: dict[str, Node]) -> None:
        self._rng = rng
        self._now = 0.0
        # Of each node that is there: what its kubelet says, None where it is silent.
        self._said = {
            name: None if node.ready_status == "Unknown" else node.ready_status
            for name, node in nodes.items()
        }
        self.events: list[ScenarioEvent] = []

    def step(self) -> None:
        """One more event, or none where nobody is left to whom it could happen."""
        actions: tuple[Callable[[], None], ...] = (
            *(self._post,) * 6,
            *(self._fall_silent,) * 3,
            *(self._come_back,) * 2,
            *(self._delete, self._delete, self._restart, self._by_hand),
        )
        self._now = round(self._now + self._rng.random() * self._rng.choice((0.4, 2, 4)), 3)
        self._rng.choice(actions)()

    def _one(self, *, up: bool | None = None) -> str:
        """A node, of which the kubelet is up or not where that is asked; "" where there is none."""
        names = [
            name for name, said in self._said.items() if up is None or (said is not None) == up
        ]
        return self._rng.choice(names) if names else ""

    def _post(self) -> None:
        name = self._one(up=True)
        if name:
            said = self._said[name] = "False" if self._said[name] == "True" else "True"
            self.events.append(make_event(self._now, "node-ready", name, status=said))

    def _fall_silent(self) -> None:
        name = self._one(up=True)
        if name:
            self._said[name] = None
            last = max(round(self._now - self._rng.random() * 1.5, 3), -0.9)
            stated = last if self._rng.random() < 0.6 else None
            self.events.append(make_event(self._now, "kubelet-stop", name, last_heartbeat=stated))

    def _come_back(self) -> None:
        name = self._one(up=False)
        if name:
            self._said[name] = "True"
            self.events.append(make_event(self._now, "kubelet-start", name))

    def _delete(self) -> None:
        name = self._one()
        if name:
            del self._said[name]
            self.events.append(make_event(self._now, "node-delete", name))

    def _restart(self) -> None:
        self.events.append(make_event(self._now, "controller-stop"))
        self._now = round(self._now + self._rng.choice((0.2, 2)), 3)
        self.events.append(make_event(self._now, "controller-start"))

    def _by_hand(self) -> None:
        name = self._one()
        if name:
            action = self._rng.choice(("taint", "untaint"))
            taint = f"{UNREACHABLE}:NoExecute"
            self.events.append(make_event(self._now, action, name, taint=taint))
