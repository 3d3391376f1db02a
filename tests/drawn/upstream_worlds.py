"""Worlds for upstream's own controllers (``tests/upstream``): a past from an empty cluster on, and a scenario after it.

The controllers live through the past, so that whatever a snapshot shows at the start, conditions, taints, Leases and
countdowns that run, was made by upstream's code and by nothing of ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS

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
    # 0: not given.
    kube_api_qps: float = 0.0
    kube_api_burst: int = 0


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
    # How late watches of kube-controller-manager are at most.
    watch_lag_ns: int = 0


def draw_upstream_world(seed: int) -> UpstreamWorld:
    """The world of a seed."""
    rng = random.Random(f"upstream {seed}")
    start_ns = rng.randint(20 * SECOND_NS, 400 * SECOND_NS)
    end_ns = start_ns + rng.choice((120, 300, 600, 900)) * SECOND_NS
    return world_of(seed, Drawing(rng, start_ns, end_ns))


def draw_lagging_world(seed: int) -> UpstreamWorld:
    """The same, where watches tell late what happens."""
    lag_ns = random.Random(f"lagging {seed}").choice((5, 30, 100)) * MILLISECOND_NS
    return msgspec.structs.replace(draw_upstream_world(seed), watch_lag_ns=lag_ns)


def world_of(seed: int, drawing: Drawing) -> UpstreamWorld:
    """The world that is drawn so."""
    rng, start_ns, end_ns = drawing.rng, drawing.start_ns, drawing.end_ns
    events = sorted(drawing.all(), key=lambda one: one.at_ns)
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


class Drawing:
    """Everything that may happen, whether or not it is possible at its time."""

    def __init__(self, rng: random.Random, start_ns: int, end_ns: int) -> None:
        self.rng, self.start_ns, self.end_ns = rng, start_ns, end_ns
        zones = [f"z{number}" for number in range(rng.choice((1, 1, 2, 3)))]
        large = rng.random() < 0.25
        sizes = (5, 7, 9) if large else (1, 2, 3, 3, 4, 5)
        self.zones = {
            f"{zone}-{number}": zone for zone in zones for number in range(rng.choice(sizes))
        }
        self.nodes = list(self.zones)
        self.pods: list[str] = []
        # Moments at which something happens draw other things near.
        self.moments: list[int] = []

    def all(self) -> Iterator[Happening]:
        rng = self.rng
        self.process_ns = rng.choice(
            (self.within(0, SECOND_NS), self.within(0, self.start_ns - 5 * SECOND_NS))
        )
        yield Happening(self.process_ns, "controller-start")
        for name in self.nodes:
            yield from self.first_node(name)
        kinds = self.kinds()
        for _ in range(rng.choice((1, 2, 3, 4, 6, 9))):
            yield from rng.choice(kinds)(self.moment())

    def kinds(self) -> tuple[Callable[[int], Iterator[Happening]], ...]:
        """What may happen, each as often as it stands here."""
        return (
            *(self.silences, self.silences, self.silences, self.taints, self.posts),
            *(self.deletions, self.new_pods, self.other_tolerations, self.restarts),
        )

    def pods_of_first_node(self) -> int:
        """How many pods the next node begins with."""
        return self.rng.choice((0, 1, 1, 2, 3))

    def within(self, low_ns: int, high_ns: int) -> int:
        return self.rng.randint(low_ns, max(low_ns, high_ns))

    def moment(self) -> int:
        rng = self.rng
        if self.moments and rng.random() < 0.35:
            near_ns = rng.choice(self.moments) + rng.choice((0, 0, 5, 10, 40, 50)) * SECOND_NS
            at_ns = near_ns + self.within(-2 * SECOND_NS, 2 * SECOND_NS)
        elif rng.random() < 0.4:
            at_ns = self.within(10 * SECOND_NS, self.end_ns)
        else:
            at_ns = self.start_ns + self.within(-40 * SECOND_NS, 70 * SECOND_NS)
        at_ns = max(at_ns, 10 * SECOND_NS)
        self.moments.append(at_ns)
        return at_ns

    def first_node(self, name: str) -> Iterator[Happening]:
        rng = self.rng
        early = rng.random() < 0.85
        born_ns = self.within(0, 5 * SECOND_NS if early else self.start_ns)
        ready = "True" if rng.random() < 0.93 else rng.choice(("False", "", ""))
        phase_ns = self.within(0, 3 * SECOND_NS)
        manifest = self.node(name, ready)
        yield Happening(born_ns, "node-create", name, manifest=manifest, phase_ns=phase_ns)
        for number in range(self.pods_of_first_node()):
            self.pods.append(f"p-{name}-{number}")
            manifest = self.pod(self.pods[-1], name, admitted=rng.random() < 0.7)
            yield Happening(born_ns + self.within(0, SECOND_NS), "pod-create", manifest=manifest)

    def silences(self, at_ns: int) -> Iterator[Happening]:
        rng = self.rng
        some, zone = rng.choice(self.nodes), self.zones[rng.choice(self.nodes)]
        together = [name for name in self.nodes if self.zones[name] == zone]
        nodes = rng.choice(([some], [some], together, self.nodes))
        spread_ns = rng.choice((0, 0, 3, 30)) * SECOND_NS
        back_ns = at_ns + self.within(SECOND_NS, rng.choice((20, 60, 120, 400)) * SECOND_NS)
        returns = rng.random() < 0.6
        for name in nodes:
            stopped_ns = at_ns + self.within(0, spread_ns)
            yield Happening(stopped_ns, "kubelet-stop", name)
            if returns and rng.random() < 0.8 and stopped_ns < back_ns:
                yield Happening(back_ns + self.within(0, spread_ns), "kubelet-start", name)

    def taints(self, at_ns: int) -> Iterator[Happening]:
        rng = self.rng
        key = rng.choice(("maint", "maint", "other", "x"))
        effect = rng.choice(("NoExecute", "NoExecute", "NoExecute", "NoSchedule"))
        taint = {"key": key, "value": rng.choice(("yes", "no", "")), "effect": effect}
        name = rng.choice(self.nodes)
        yield Happening(at_ns, "taint", name, taint=taint)
        if rng.random() < 0.5:
            gone_ns = at_ns + self.within(SECOND_NS // 10, rng.choice((5, 40, 200)) * SECOND_NS)
            yield Happening(gone_ns, "untaint", name, taint=taint)

    def posts(self, at_ns: int) -> Iterator[Happening]:
        rng = self.rng
        name = rng.choice(self.nodes)
        yield Happening(at_ns, "node-ready", name, status=rng.choice(("False", "False", "True")))
        if rng.random() < 0.5:
            again_ns = at_ns + self.within(SECOND_NS, 90 * SECOND_NS)
            yield Happening(again_ns, "node-ready", name, status="True")

    def deletions(self, at_ns: int) -> Iterator[Happening]:
        rng = self.rng
        name = rng.choice(self.nodes)
        yield Happening(at_ns, "node-delete", name)
        if rng.random() < 0.6:
            made_ns = at_ns + self.within(SECOND_NS, 100 * SECOND_NS)
            manifest = self.node(name, rng.choice(("True", "True", "False")))
            yield Happening(made_ns, "node-create", name, manifest=manifest)

    def new_pods(self, at_ns: int) -> Iterator[Happening]:
        rng = self.rng
        if self.pods and rng.random() < 0.5:
            yield Happening(at_ns, "pod-delete", pod=rng.choice(self.pods))
        self.pods.append(f"q-{len(self.pods)}")
        manifest = self.pod(self.pods[-1], rng.choice(self.nodes), admitted=True)
        made_ns = at_ns + self.within(0, 60 * SECOND_NS)
        yield Happening(made_ns, "pod-create", manifest=manifest)

    def other_tolerations(self, at_ns: int) -> Iterator[Happening]:
        if self.pods:
            pod, tolerations = self.rng.choice(self.pods), self.tolerations()
            yield Happening(at_ns, "pod-tolerations", pod=pod, tolerations=tolerations)

    def restarts(self, at_ns: int) -> Iterator[Happening]:
        rng = self.rng
        at_ns = max(at_ns, self.process_ns + SECOND_NS)
        yield Happening(at_ns, "controller-stop")
        back_ns = at_ns + self.within(SECOND_NS // 5, rng.choice((1, 20, 60)) * SECOND_NS)
        yield Happening(back_ns, "controller-start")

    def tolerations_of_pod(self) -> list[Manifest]:
        """What the next pod tolerates."""
        return self.tolerations()

    def tolerations(self) -> list[Manifest]:
        rng = self.rng
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

    def pod(self, name: str, node: str, *, admitted: bool) -> Manifest:
        """A bound pod; what was never ``admitted`` has no tolerations but its own."""
        tolerations = self.tolerations_of_pod()
        for key in (NOT_READY, UNREACHABLE) if admitted else ():
            if not any(one.get("key", "") in ("", key) for one in tolerations):
                one = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                tolerations.append(one | {"tolerationSeconds": DEFAULT_TOLERATION_SECONDS})
        spec = {
            "nodeName": node,
            "tolerations": tolerations,
            "terminationGracePeriodSeconds": self.rng.choice((0, 1, 5, 30, 30)),
            "containers": [{"name": "c", "image": "i"}],
        }
        metadata = {"name": name, "namespace": NAMESPACE}
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        return head | {"spec": spec, "status": {"phase": "Running"}}

    def node(self, name: str, ready: str) -> Manifest:
        """A Node whose kubelet posts this Ready status; without one it never posted."""
        statuses = {"MemoryPressure": "False", "Ready": ready} if ready else {}
        conditions = [{"type": kind, "status": status} for kind, status in statuses.items()]
        labels = {"topology.kubernetes.io/zone": self.zones[name], "kubernetes.io/hostname": name}
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
