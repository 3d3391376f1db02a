"""Hypothesis strategies for small clusters and valid scenarios on them.

A *world* is everything one run needs. Flags are short so that a minute holds several outages;
instants lie on a grid of 100 ms so that ties with ticks and passes are common. Combinations of which
nothing is promised (two things done to one object at one instant, a node created while its name
exists) are not generated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from building.builders import (
    EXCLUDE_LABEL,
    NOT_READY,
    UNREACHABLE,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Toleration
from kubectl_evictplan.scenarios.actions.pods import SetTolerations
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent

# One or more of every class of releases.
RELEASES = (
    "1.16.2",
    "1.16.15",
    "1.17.5",
    "1.17.17",
    "1.18.6",
    "1.18.12",
    "1.18.17",
    "1.19.3",
    "1.19.16",
    "1.20.2",
    "1.20.15",
    "1.21.14",
    "1.23.13",
    "1.24.17",
    "1.25.16",
    "1.26.5",
    "1.27.3",
    "1.28.9",
    "1.29.6",
    "1.30.4",
    "1.31.2",
    "1.32.1",
    "1.33.4",
    "1.34.1",
    "1.36.4",
    "1.37.0",
)
NONTAINT_RELEASES = tuple(r for r in RELEASES if int(r.split(".")[1]) <= 26)
# A long run is for podgc, whose quarantine takes several of its loops.
HORIZONS = (60, 60, 60, 140)
# Kubelets renew every 1.5 s.
LEASE_SECONDS = 6


@dataclass(frozen=True)
class World:
    """Input of one run."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    settings: ControllerSettings
    timing: Timing

    def __repr__(self) -> str:
        """Readable enough to retype a failure."""
        scenario = self.scenario
        lines = [f"{self.settings}", f"{self.timing}"]
        lines += [
            f"{n.name} {n.labels} {[(t.key, t.effect) for t in n.taints]}"
            f" {[(c.type, c.status) for c in n.conditions if c.type == 'Ready']}"
            for n in self.snapshot.nodes
        ]
        lines += [
            f"{lease.name}: {((lease.renew_time_ns or 0) - scenario.start_ns) / 1e9}"
            for lease in self.snapshot.leases.values()
        ]
        lines += [describe_pod(pod) for pod in self.snapshot.pods]
        lines += [describe_event(event) for event in scenario.events]
        return "\n".join(lines)


def describe_pod(pod: Pod) -> str:
    wanted = [(t.key, t.operator, t.toleration_seconds) for t in pod.tolerations]
    grace = pod.termination_grace_period_seconds
    rest = [*pod.finalizers, *(o.kind for o in pod.owner_references)]
    rest += ["duplicate"] if pod.duplicate_env_or_port else []
    return f"{pod.key} on {pod.node_name} {pod.phase} grace {grace} {wanted} {rest}"


def describe_event(event: ScenarioEvent) -> str:
    parts: list[Any] = [event.at_ns / 1e9, event.action, *event.nodes, *event.pods]
    parts.append(event.detail)
    parts += [describe_pod(event.pod)] if event.pod else []
    if isinstance(event, SetTolerations):
        parts += [(t.key, t.toleration_seconds) for t in event.tolerations]
    return " ".join(str(part) for part in parts if part != "")


def tenths(low: float, high: float) -> st.SearchStrategy[float]:
    """Multiples of 100 ms."""
    return st.integers(round(low * 10), round(high * 10)).map(lambda n: n / 10)


KEYS = ("A", "B", NOT_READY, UNREACHABLE, "")


@st.composite
def tolerations(draw: st.DrawFn) -> Toleration:
    key = draw(st.sampled_from(KEYS))
    effect = draw(st.sampled_from(("NoExecute", "NoExecute", "NoExecute", "", "NoSchedule")))
    seconds = None
    if effect == "NoExecute":
        seconds = draw(st.sampled_from((None, -1, 0, 1, 3, 5, 8, 12)))
    if key and draw(st.integers(0, 4)) == 0:
        return Toleration(
            key=key,
            operator=draw(st.sampled_from(("", "Equal"))),
            value=draw(st.sampled_from(("", "x"))),
            effect=effect,
            toleration_seconds=seconds,
        )
    return tolerates(key, seconds, effect=effect)


TOLERATION_LISTS = st.lists(tolerations(), max_size=3).map(tuple)


@st.composite
def pods(draw: st.DrawFn, name: str, node: str) -> Pod:
    return make_pod(
        name,
        node,
        tolerations=draw(TOLERATION_LISTS),
        grace_seconds=draw(st.sampled_from((0, 1, 2, 5, 30))),
        phase=draw(st.sampled_from(("Running",) * 6 + ("Succeeded", "Pending"))),
        owner=draw(st.sampled_from(("",) * 5 + ("DaemonSet/agent",))),
        finalizers=draw(st.sampled_from(((),) * 7 + (("example.org/f",),))),
        duplicate_env_or_port=draw(st.integers(0, 7)) == 0,
        created=None,
    )


@st.composite
def nodes(draw: st.DrawFn, name: str, zone: str, *, cold: bool) -> Node:
    labels = {}
    if draw(st.integers(0, 11)) == 0:
        labels[EXCLUDE_LABEL] = ""
    if zone and draw(st.integers(0, 3)) == 0:
        labels["failure-domain.beta.kubernetes.io/zone"] = zone
    taints: list[str] = []
    if cold:
        taints = draw(st.lists(st.sampled_from(START_TAINTS), max_size=2, unique_by=taint_identity))
    return make_node(
        name,
        zone=zone,
        labels=labels,
        taints=taints,
        ready=draw(st.sampled_from(("True",) * 8 + ("False", None))),
        transition=draw(st.sampled_from((-1000, -17, -3.4))),
        created=draw(st.sampled_from((-100_000, -100_000, -6, -1))),
    )


START_TAINTS = (
    "A=x:NoExecute",
    "A:NoExecute",
    "B:NoSchedule",
    f"{UNREACHABLE}:NoExecute",
    f"{NOT_READY}:NoExecute",
    f"{UNREACHABLE}:NoSchedule",
)
EVENT_TAINTS = ("A=x:NoExecute", "A:NoExecute", "B:NoExecute", "B:NoSchedule", "C:NoExecute")


def taint_identity(text: str) -> tuple[str, str]:
    left, _, effect = text.rpartition(":")
    return left.partition("=")[0], effect


class Script:
    """Draws events in time order and keeps what is true at each instant."""

    def __init__(self, draw: st.DrawFn, snapshot: ClusterSnapshot, horizon: int) -> None:
        self.horizon = horizon
        self.draw = draw
        self.up = set(snapshot.leases)
        self.present = {node.name: node for node in snapshot.nodes}
        self.pods = {pod.key for pod in snapshot.pods}
        self.running = True
        self.events: list[ScenarioEvent] = []
        self.now = 0.0
        self.since: dict[str, float] = {}
        self.zones = {
            n.name: n.labels.get("topology.kubernetes.io/zone", "") for n in snapshot.nodes
        }

    def add(self, action: str, *args: Any, **fields: Any) -> None:
        self.events.append(make_event(self.now, action, *args, **fields))

    def choices(self) -> list[str]:
        found = ["controller-stop" if self.running else "controller-start", "pod-create"]
        if self.up & set(self.present):
            found += ["kubelet-stop"] * 6 + ["node-ready"] * 2
        if set(self.present) - self.up:
            found += ["kubelet-start"] * 4
        if self.present:
            found += ["taint"] * 4 + ["untaint"] * 2 + ["cordon", "uncordon"] + ["node-delete"] * 2
            found += ["lease-touch"]
        if set(self.zones) - set(self.present):
            found.append("node-create")
        if self.pods:
            found += ["pod-delete", "pod-tolerations"]
        if not self.running:
            found += ["controller-start"] * 3
        return found

    def some(self, names: set[str], most: int = 4) -> list[str]:
        return self.draw(
            st.lists(st.sampled_from(sorted(names)), min_size=1, max_size=most, unique=True)
        )

    def step(self) -> None:
        self.now = round(self.now + self.draw(tenths(0.1, 0.15 * self.horizon)), 1)
        if self.now > self.horizon:
            return
        action = self.draw(st.sampled_from(self.choices()))
        getattr(self, action.replace("-", "_"))()

    def kubelet_stop(self) -> None:
        chosen = self.some(self.up & set(self.present), 6)
        # Not before this life of the kubelet began, and off the 100 ms grid or exactly on it.
        silent = self.draw(st.sampled_from((0.0, 0.037, 0.4, 0.9)))
        earliest = max(self.since.get(name, -0.4) for name in chosen)
        last = max(round(self.now - silent, 3), earliest)
        self.up -= set(chosen)
        self.add("kubelet-stop", chosen, last_heartbeat=last)

    def kubelet_start(self) -> None:
        chosen = self.some(set(self.present) - self.up)
        self.up |= set(chosen)
        self.since.update(dict.fromkeys(chosen, self.now))
        self.add("kubelet-start", chosen)

    def node_ready(self) -> None:
        chosen = self.some(self.up & set(self.present), 3)
        self.since.update(dict.fromkeys(chosen, self.now))
        self.add(
            "node-ready", chosen, status=self.draw(st.sampled_from(("True", "False", "False")))
        )

    def taint(self) -> None:
        self.add(
            "taint", self.some(set(self.present)), taint=self.draw(st.sampled_from(EVENT_TAINTS))
        )

    def untaint(self) -> None:
        text = self.draw(
            st.sampled_from(("A", "A:NoExecute", "B", "B:NoSchedule", "C", UNREACHABLE))
        )
        self.add("untaint", self.some(set(self.present)), taint=text)

    def cordon(self) -> None:
        self.add("cordon", self.some(set(self.present), 2))

    def uncordon(self) -> None:
        self.add("uncordon", self.some(set(self.present), 2))

    def node_delete(self) -> None:
        (name,) = self.some(set(self.present), 1)
        del self.present[name]
        self.add("node-delete", name)

    def node_create(self) -> None:
        name = self.draw(st.sampled_from(sorted(set(self.zones) - set(self.present))))
        ready = self.draw(st.sampled_from(("True", "True", "True", "False", None)))
        node = make_node(name, zone=self.zones[name], ready=ready, created=None, heartbeat=self.now)
        self.present[name] = node
        if ready is not None:
            self.up.add(name)
            self.since[name] = self.now
        self.add("node-create", node=node)

    def lease_touch(self) -> None:
        self.add("lease-touch", self.some(set(self.present)))

    def pod_create(self) -> None:
        node = self.draw(st.sampled_from([*sorted(self.zones), ""]))
        # A second pod of an unbound name would be its binding: unbound names are used once.
        name = f"p{self.draw(st.integers(0, 5))}" if node else f"unbound{len(self.events)}"
        pod = self.draw(pods(name, node))
        self.pods.add(pod.key)
        self.add("pod-create", pod=pod)

    def pod_delete(self) -> None:
        self.add("pod-delete", pods=self.some(self.pods, 2))

    def pod_tolerations(self) -> None:
        self.add(
            "pod-tolerations", pods=self.some(self.pods, 2), tolerations=self.draw(TOLERATION_LISTS)
        )

    def controller_stop(self) -> None:
        self.running = False
        self.add("controller-stop")

    def controller_start(self) -> None:
        self.running = True
        self.add("controller-start")


@st.composite
def timings(draw: st.DrawFn, *, cold: bool) -> Timing:
    return Timing(
        monitor_phase_ns=0 if cold else ns(draw(st.sampled_from((0.0, 0.3, 0.633)))),
        monitor_cost_ns=ns(draw(st.sampled_from((0.0, 0.005, 0.02)))),
        pass_phase_ns=ns(draw(st.sampled_from((0.0, 0.05, 0.033)))),
        pass_cost_ns=ns(draw(st.sampled_from((0.0, 0.001)))),
        pod_gc_phase_ns=ns(draw(st.sampled_from((0.0, 3.3, 19.0)))),
        pod_gc_cost_ns=ns(draw(st.sampled_from((0.0, 0.01)))),
        pod_gc_lag_ns=ns(draw(st.sampled_from((0.0, 0.02, 0.021)))),
        stale_nil=draw(st.sampled_from(("grace0", "never"))),
    )


@st.composite
def settings_of(draw: st.DrawFn) -> ControllerSettings:
    nontaint = draw(st.integers(0, 4)) == 0
    release = draw(st.sampled_from(NONTAINT_RELEASES if nontaint else RELEASES))
    rates = ("0.1", "0.25", "0.5", "1", "2", "0", "20")
    flags = {
        "node-monitor-period": draw(st.sampled_from(("1s", "1s", "2s", "700ms"))),
        "node-monitor-grace-period": draw(st.sampled_from(("6s", "6s", "9s", "5500ms"))),
        "node-startup-grace-period": "8s",
        "node-eviction-rate": draw(st.sampled_from(rates)),
        "secondary-node-eviction-rate": draw(st.sampled_from(("0.1", "0.01", "1"))),
        "large-cluster-size-threshold": draw(st.sampled_from(("50", "3"))),
        "unhealthy-zone-threshold": draw(st.sampled_from(("0.55", "0.5", "0.75"))),
    }
    if nontaint:
        flags["enable-taint-manager"] = "false"
        flags["pod-eviction-timeout"] = draw(st.sampled_from(("9s", "15s")))
    return ControllerSettings(kubernetes_version=release, flags=flags)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A cluster of 2 to 8 nodes in 1 to 3 zones and up to 14 events on it."""
    cold = draw(st.booleans())
    zone_names = draw(st.sampled_from((("",), ("", "z"), ("a", "b"), ("a", "b", "c"))))
    all_nodes = [
        draw(nodes(f"n{i}", draw(st.sampled_from(zone_names)), cold=cold))
        for i in range(draw(st.integers(2, 8)))
    ]
    leases = [
        make_lease(node.name, -draw(tenths(0.4, 1.4)), duration_seconds=LEASE_SECONDS)
        for node in all_nodes
        if node.conditions or draw(st.booleans())
    ]
    some_pods = [
        draw(pods(f"q{i}", draw(st.sampled_from(all_nodes)).name))
        for i in range(draw(st.integers(0, 6)))
    ]
    snapshot = make_snapshot(all_nodes, some_pods, leases=leases)
    snapshot = replace(snapshot, leases={lease.name: lease for lease in leases})
    horizon = draw(st.sampled_from(HORIZONS))
    script = Script(draw, snapshot, horizon)
    for _ in range(draw(st.integers(1, 14))):
        script.step()
    scenario = make_scenario(script.events, horizon=horizon, cold=cold)
    return World(snapshot, scenario, draw(settings_of()), draw(timings(cold=cold)))
