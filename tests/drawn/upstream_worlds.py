"""Worlds for upstream's own controllers (``tests/upstream``): a past from an empty cluster on, and a scenario after it.

The controllers live through the past, so that whatever a snapshot shows at the start, conditions, taints, Leases and
countdowns that run, was made by upstream's code and by nothing of ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
NAMESPACE = "default"
# What DefaultTolerationSeconds adds to pods that are created.
DEFAULT_TOLERATION_SECONDS = 300
Manifest = dict[str, Any]


class Flags(msgspec.Struct, rename="camel"):
    """Flags of kube-controller-manager, as ``tests/upstream/world.go`` reads them."""

    node_monitor_period_ns: int = 5 * SECOND_NS
    node_monitor_grace_period_ns: int = 40 * SECOND_NS
    node_startup_grace_period_ns: int = 60 * SECOND_NS
    node_eviction_rate: float = 0.1
    secondary_node_eviction_rate: float = 0.01
    large_cluster_size_threshold: int = 50
    unhealthy_zone_threshold: float = 0.55
    # Up to 1.26.
    enable_taint_manager: bool = True
    pod_eviction_timeout_ns: int = 300 * SECOND_NS


class Happening(msgspec.Struct, rename="camel", omit_defaults=True):
    """One thing that is done to the cluster, ``at_ns`` after its first instant; names are those of scenario files."""

    at_ns: int
    action: str
    node: str = ""
    pod: str = ""
    taint: dict[str, str] | None = None
    status: str = ""
    manifest: Manifest | None = None
    tolerations: list[Manifest] | None = None
    phase_ns: int = 0


class UpstreamWorld(msgspec.Struct, rename="camel"):
    """All that is done to a cluster; the scenario is what comes from ``start_ns`` on."""

    seed: int
    start_ns: int
    end_ns: int
    slowest_write_ns: int
    tick_cost_ns: int
    flags: Flags
    events: list[Happening]
    # Whether the scenario tells when kubelets that stop renewed last.
    tells_renewals: bool


def draw_upstream_world(seed: int) -> UpstreamWorld:
    """The world of a seed."""
    rng = random.Random(f"upstream {seed}")
    start_ns = rng.randint(20 * SECOND_NS, 400 * SECOND_NS)
    end_ns = start_ns + rng.choice((120, 300, 600, 900)) * SECOND_NS
    events = sorted(_Drawing(rng, start_ns, end_ns).all(), key=lambda one: one.at_ns)
    return UpstreamWorld(
        seed,
        start_ns,
        end_ns,
        slowest_write_ns=rng.choice((0, 0, 1_000_000, 4_000_000)),
        tick_cost_ns=rng.choice((1_000, 100_000, 2_000_000)),
        flags=msgspec.structs.replace(_draw_flags(rng), **_draw_old_flags(seed)),
        events=list(_possible(one for one in events if one.at_ns < end_ns)),
        tells_renewals=rng.random() < 0.5,
    )


def _draw_flags(rng: random.Random) -> Flags:
    if rng.random() < 0.4:
        return Flags()
    return Flags(
        rng.choice((1, 2, 5)) * SECOND_NS,
        rng.choice((22, 25, 30, 40)) * SECOND_NS,
        rng.choice((20, 60)) * SECOND_NS,
        rng.choice((0.1, 0.1, 0.25, 0.5, 1.0, 2.0)),
        rng.choice((0.01, 0.1, 0.05, 0.0)),
        rng.choice((2, 5, 50)),
        rng.choice((0.55, 0.3, 0.8)),
    )


def _draw_old_flags(seed: int) -> dict[str, Any]:
    """Drawn beside all else, so that a seed is the same world to every release."""
    rng = random.Random(f"upstream up to 1.26 {seed}")
    timeout_ns = rng.choice((30, 60, 120, 300)) * SECOND_NS
    return {"enable_taint_manager": rng.random() < 0.75, "pod_eviction_timeout_ns": timeout_ns}


class _Drawing:
    """Everything that may happen, whether or not it is possible at its time."""

    def __init__(self, rng: random.Random, start_ns: int, end_ns: int) -> None:
        self._rng, self._start_ns, self._end_ns = rng, start_ns, end_ns
        zones = [f"z{number}" for number in range(rng.choice((1, 1, 2, 3)))]
        large = rng.random() < 0.25
        sizes = (5, 7, 9) if large else (1, 2, 3, 3, 4, 5)
        self._zones = {
            f"{zone}-{number}": zone for zone in zones for number in range(rng.choice(sizes))
        }
        self._nodes = list(self._zones)
        self._pods: list[str] = []
        # Moments at which something happens draw other things near.
        self._moments: list[int] = []

    def all(self) -> Iterator[Happening]:
        rng = self._rng
        self._process_ns = rng.choice(
            (self._within(0, SECOND_NS), self._within(0, self._start_ns - 5 * SECOND_NS))
        )
        yield Happening(self._process_ns, "controller-start")
        for name in self._nodes:
            yield from self._first_node(name)
        kinds = (
            *(self._silences, self._silences, self._silences, self._taints, self._posts),
            *(self._deletions, self._new_pods, self._other_tolerations, self._restarts),
        )
        for _ in range(rng.choice((1, 2, 3, 4, 6, 9))):
            yield from rng.choice(kinds)(self._moment())

    def _within(self, low_ns: int, high_ns: int) -> int:
        return self._rng.randint(low_ns, max(low_ns, high_ns))

    def _moment(self) -> int:
        rng = self._rng
        if self._moments and rng.random() < 0.35:
            near_ns = rng.choice(self._moments) + rng.choice((0, 0, 5, 10, 40, 50)) * SECOND_NS
            at_ns = near_ns + self._within(-2 * SECOND_NS, 2 * SECOND_NS)
        elif rng.random() < 0.4:
            at_ns = self._within(10 * SECOND_NS, self._end_ns)
        else:
            at_ns = self._start_ns + self._within(-40 * SECOND_NS, 70 * SECOND_NS)
        at_ns = max(at_ns, 10 * SECOND_NS)
        self._moments.append(at_ns)
        return at_ns

    def _first_node(self, name: str) -> Iterator[Happening]:
        rng = self._rng
        early = rng.random() < 0.85
        born_ns = self._within(0, 5 * SECOND_NS if early else self._start_ns)
        ready = "True" if rng.random() < 0.93 else rng.choice(("False", "", ""))
        phase_ns = self._within(0, 3 * SECOND_NS)
        manifest = self._node(name, ready)
        yield Happening(born_ns, "node-create", name, manifest=manifest, phase_ns=phase_ns)
        for number in range(rng.choice((0, 1, 1, 2, 3))):
            self._pods.append(f"p-{name}-{number}")
            manifest = self._pod(self._pods[-1], name, admitted=rng.random() < 0.7)
            yield Happening(born_ns + self._within(0, SECOND_NS), "pod-create", manifest=manifest)

    def _silences(self, at_ns: int) -> Iterator[Happening]:
        rng = self._rng
        some, zone = rng.choice(self._nodes), self._zones[rng.choice(self._nodes)]
        together = [name for name in self._nodes if self._zones[name] == zone]
        nodes = rng.choice(([some], [some], together, self._nodes))
        spread_ns = rng.choice((0, 0, 3, 30)) * SECOND_NS
        back_ns = at_ns + self._within(SECOND_NS, rng.choice((20, 60, 120, 400)) * SECOND_NS)
        returns = rng.random() < 0.6
        for name in nodes:
            stopped_ns = at_ns + self._within(0, spread_ns)
            yield Happening(stopped_ns, "kubelet-stop", name)
            if returns and rng.random() < 0.8 and stopped_ns < back_ns:
                yield Happening(back_ns + self._within(0, spread_ns), "kubelet-start", name)

    def _taints(self, at_ns: int) -> Iterator[Happening]:
        rng = self._rng
        key = rng.choice(("maint", "maint", "other", "x"))
        effect = rng.choice(("NoExecute", "NoExecute", "NoExecute", "NoSchedule"))
        taint = {"key": key, "value": rng.choice(("yes", "no", "")), "effect": effect}
        name = rng.choice(self._nodes)
        yield Happening(at_ns, "taint", name, taint=taint)
        if rng.random() < 0.5:
            gone_ns = at_ns + self._within(SECOND_NS // 10, rng.choice((5, 40, 200)) * SECOND_NS)
            yield Happening(gone_ns, "untaint", name, taint=taint)

    def _posts(self, at_ns: int) -> Iterator[Happening]:
        rng = self._rng
        name = rng.choice(self._nodes)
        yield Happening(at_ns, "node-ready", name, status=rng.choice(("False", "False", "True")))
        if rng.random() < 0.5:
            again_ns = at_ns + self._within(SECOND_NS, 90 * SECOND_NS)
            yield Happening(again_ns, "node-ready", name, status="True")

    def _deletions(self, at_ns: int) -> Iterator[Happening]:
        rng = self._rng
        name = rng.choice(self._nodes)
        yield Happening(at_ns, "node-delete", name)
        if rng.random() < 0.6:
            made_ns = at_ns + self._within(SECOND_NS, 100 * SECOND_NS)
            manifest = self._node(name, rng.choice(("True", "True", "False")))
            yield Happening(made_ns, "node-create", name, manifest=manifest)

    def _new_pods(self, at_ns: int) -> Iterator[Happening]:
        rng = self._rng
        if self._pods and rng.random() < 0.5:
            yield Happening(at_ns, "pod-delete", pod=rng.choice(self._pods))
        self._pods.append(f"q-{len(self._pods)}")
        manifest = self._pod(self._pods[-1], rng.choice(self._nodes), admitted=True)
        made_ns = at_ns + self._within(0, 60 * SECOND_NS)
        yield Happening(made_ns, "pod-create", manifest=manifest)

    def _other_tolerations(self, at_ns: int) -> Iterator[Happening]:
        if self._pods:
            pod, tolerations = self._rng.choice(self._pods), self._tolerations()
            yield Happening(at_ns, "pod-tolerations", pod=pod, tolerations=tolerations)

    def _restarts(self, at_ns: int) -> Iterator[Happening]:
        rng = self._rng
        at_ns = max(at_ns, self._process_ns + SECOND_NS)
        yield Happening(at_ns, "controller-stop")
        back_ns = at_ns + self._within(SECOND_NS // 5, rng.choice((1, 20, 60)) * SECOND_NS)
        yield Happening(back_ns, "controller-start")

    def _tolerations(self) -> list[Manifest]:
        rng = self._rng
        found = []
        keys = (NOT_READY, UNREACHABLE, "maint", "other", "")
        for key in rng.sample(keys, rng.choice((0, 0, 1, 2, 2, 3))):
            one: Manifest = {"operator": "Exists", "effect": "NoExecute"}
            if key:
                one["key"] = key
                if rng.random() < 0.2:
                    one |= {"operator": "Equal", "value": "yes"}
            if rng.random() < 0.8:
                one["tolerationSeconds"] = rng.choice((0, 3, 10, 30, 60, 300))
            found.append(one)
        return found

    def _pod(self, name: str, node: str, *, admitted: bool) -> Manifest:
        """A bound pod; what was never ``admitted`` has no tolerations but its own."""
        tolerations = self._tolerations()
        for key in (NOT_READY, UNREACHABLE) if admitted else ():
            if not any(one.get("key", "") in ("", key) for one in tolerations):
                one = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                tolerations.append(one | {"tolerationSeconds": DEFAULT_TOLERATION_SECONDS})
        spec = {
            "nodeName": node,
            "tolerations": tolerations,
            "terminationGracePeriodSeconds": self._rng.choice((0, 1, 5, 30, 30)),
            "containers": [{"name": "c", "image": "i"}],
        }
        metadata = {"name": name, "namespace": NAMESPACE}
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        return head | {"spec": spec, "status": {"phase": "Running"}}

    def _node(self, name: str, ready: str) -> Manifest:
        """A Node whose kubelet posts this Ready status; without one it never posted."""
        statuses = {"MemoryPressure": "False", "Ready": ready} if ready else {}
        conditions = [{"type": kind, "status": status} for kind, status in statuses.items()]
        labels = {"topology.kubernetes.io/zone": self._zones[name], "kubernetes.io/hostname": name}
        head = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        return head | {"spec": {}, "status": {"conditions": conditions}}


def _possible(events: Iterator[Happening]) -> Iterator[Happening]:
    """What can happen at its time, given what happened before."""
    nodes: set[str] = set()
    silent: set[str] = set()
    pods: set[str] = set()
    tainted: set[tuple[str, str, str]] = set()
    running = False
    for each in events:
        name = each.node
        taint = (name, each.taint["key"], each.taint["effect"]) if each.taint else ("", "", "")
        match each.action:
            case "node-create":
                possible = name not in nodes
                nodes.add(name)
                tainted = {one for one in tainted if one[0] != name}
                posted = each.manifest and each.manifest["status"]["conditions"]
                (silent.discard if posted else silent.add)(name)
            case "pod-create":
                assert each.manifest is not None
                pod = each.manifest["metadata"]["name"]
                possible = each.manifest["spec"]["nodeName"] in nodes and pod not in pods
                pods.add(pod)
            case "pod-delete" | "pod-tolerations":
                possible = each.pod in pods
            case "controller-start":
                possible, running = not running, True
            case "controller-stop":
                possible, running = running, False
            case "kubelet-start":
                possible = name in nodes and name in silent
                silent.discard(name)
            case "untaint":
                possible = name in nodes and taint in tainted
                tainted.discard(taint)
            case "taint" | "node-delete":
                possible = name in nodes
            case _:
                possible = name in nodes and name not in silent
        if possible and each.action == "taint":
            tainted.add(taint)
        if possible and each.action == "kubelet-stop":
            silent.add(name)
        if each.action == "node-delete":
            nodes.discard(name)
        if possible:
            yield each
