"""Runs one scenario on one of the two models and reads the facts in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from building.builders import UNREACHABLE, make_event, make_node, make_scenario, make_snapshot
from naive.model import naive_facts

from kubectl_evictplan.cluster import timeline as entries
from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.taints import key_and_effect
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent

Fact = tuple[int, str, str, str]
Model = Callable[[ClusterSnapshot, Scenario, ControllerSettings, Timing], list[Fact]]
NO_TIMING = Timing()

# Releases by class.
ADD = ["1.16.0", "1.16.8", "1.17.0", "1.18.0", "1.18.16"]
SETREMOVE = ["1.19.0", "1.19.8", "1.20.0", "1.20.4"]
REMOVE_ADD = ["1.18.17", "1.19.9", "1.20.5", "1.21.0", "1.23.13", "1.27.0", "1.29.6", "1.31.0"]
GRACE_50 = ["1.32.0", "1.33.4"]
CURRENT = ["1.34.0", "1.36.4", "1.37.0"]
OLD = [*ADD, *REMOVE_ADD]
UP_TO_1_31 = [*ADD, *SETREMOVE, *REMOVE_ADD]
FROM_1_32 = [*GRACE_50, *CURRENT]


# What both models can be compared in: (kind, object, value).
_FACTS: dict[type[entries.Entry], Callable[[Any], tuple[str, str, str]]] = {
    entries.NodeBecameUnknown: lambda entry: ("node-unknown", entry.node, ""),
    entries.TaintAdded: lambda entry: ("taint-added", entry.node, key_and_effect(entry.taint)),
    entries.TaintRemoved: lambda entry: ("taint-removed", entry.node, key_and_effect(entry.taint)),
    entries.ZoneStateChanged: lambda entry: ("zone-state", entry.zone, entry.state),
    entries.PodDeleted: lambda entry: ("delete", entry.pod, entry.controller),
    entries.MarkedForDeletion: lambda entry: ("mark", entry.pod, ""),
    entries.TimerCancelled: lambda entry: ("cancel", entry.pod, ""),
    entries.PodGone: lambda entry: ("gone", entry.pod, ""),
}


def facts_of(timeline: Timeline) -> list[Fact]:
    """Sorted (offset_ns, kind, object, value) of everything that another model can check."""
    return sorted(
        (entry.at_ns, *_FACTS[type(entry)](entry))
        for entry in timeline.entries
        if type(entry) in _FACTS
    )


def simulated_facts(
    snapshot: ClusterSnapshot, scenario: Scenario, settings: ControllerSettings, timing: Timing
) -> list[Fact]:
    """The facts of the program's own simulation."""
    from kubectl_evictplan.simulation.simulate import simulate

    configuration = resolve_configuration(settings, snapshot.control_plane)
    return facts_of(simulate(snapshot, scenario, configuration, timing))


MODELS: dict[str, Model] = {"simulation": simulated_facts, "naive": naive_facts}


@dataclass(frozen=True)
class Outcome:
    """Facts in seconds from the start."""

    facts: list[Fact]

    def _of(self, what: str, value: str = "") -> list[tuple[float, str]]:
        return [
            (time / 1e9, subject)
            for time, kind, subject, text in self.facts
            if kind == what and value in ("", text)
        ]

    def unknown(self) -> list[tuple[float, str]]:
        """U: when Ready Unknown was written, and of which node."""
        return self._of("node-unknown")

    def tainted(self, key: str = UNREACHABLE) -> list[tuple[float, str]]:
        """N: when the NoExecute taint was put on."""
        return self._of("taint-added", f"{key}:NoExecute")

    def untainted(self, key: str = UNREACHABLE) -> list[tuple[float, str]]:
        return self._of("taint-removed", f"{key}:NoExecute")

    def shut(self, key: str = UNREACHABLE) -> list[tuple[float, str]]:
        """NS: when the NoSchedule taint was put on."""
        return self._of("taint-added", f"{key}:NoSchedule")

    def reopened(self, key: str = UNREACHABLE) -> list[tuple[float, str]]:
        return self._of("taint-removed", f"{key}:NoSchedule")

    def deleted(self, controller: str = "") -> list[tuple[float, str]]:
        return self._of("delete", controller)

    def cancelled(self) -> list[tuple[float, str]]:
        return self._of("cancel")

    def gone(self) -> list[tuple[float, str]]:
        return self._of("gone")

    def zones(self, zone: str = "") -> list[tuple[float, str]]:
        """The zone's states; a new process repeats what it finds, which is not a change."""
        states: list[tuple[float, str]] = []
        for time, what, subject, state in self.facts:
            new = not states or states[-1][1] != state
            if what == "zone-state" and subject == zone and new:
                states.append((time / 1e9, state))
        return states


class Runner:
    """``run(...)``: a cold start at offset 0 unless told otherwise."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(
        self,
        release: str,
        snapshot: ClusterSnapshot,
        events: Iterable[ScenarioEvent] = (),
        *,
        horizon: float = 150,
        flags: dict[str, str] | None = None,
        timing: Timing = NO_TIMING,
        cold: bool = True,
    ) -> Outcome:
        settings = ControllerSettings(kubernetes_version=release, flags=flags or {})
        scenario = make_scenario(events, horizon=horizon, cold=cold)
        return Outcome(self.model(snapshot, scenario, settings, timing))


def silence(*names: str, last: float = 2) -> ScenarioEvent:
    """The kubelets fall silent; ``last`` is when their last renewal becomes visible."""
    return make_event(last + 0.5, "kubelet-stop", names, last_heartbeat=last)


def posts_ready(at: float, *names: str) -> ScenarioEvent:
    """The kubelets are back and post Ready=True."""
    return make_event(at, "kubelet-start", names)


def restart(at: float) -> list[ScenarioEvent]:
    """A new controller process whose first tick is at ``at``."""
    return [make_event(at - 0.01, "controller-stop"), make_event(at, "controller-start")]


def names(count: int, prefix: str = "n") -> list[str]:
    return [f"{prefix}{i:02}" for i in range(count)]


def cluster(*node_names: str) -> ClusterSnapshot:
    """Healthy nodes of one unlabelled zone that renew at 2, 12, 22, ..."""
    return make_snapshot(node_names, renewed=-8)


def two_zones(*a_names: str, b: list[str]) -> ClusterSnapshot:
    nodes = [make_node(name, zone="a") for name in a_names]
    return make_snapshot([*nodes, *(make_node(name, zone="b") for name in b)], renewed=-8)


def at(*times: float, nodes: list[str]) -> list[tuple[float, str]]:
    return list(zip(times, nodes, strict=True))


def all_at(time: float, nodes: list[str]) -> list[tuple[float, str]]:
    return [(time, name) for name in sorted(nodes)]


def in_zones(release: str, zone_a: list[str], zone_b: list[str]) -> ClusterSnapshot:
    """Zones by the label that the release reads."""
    beta = release.startswith("1.16.")
    label = "failure-domain.beta.kubernetes.io/zone" if beta else "topology.kubernetes.io/zone"
    return make_snapshot(
        [
            *(make_node(name, labels={label: "a"}) for name in zone_a),
            *(make_node(name, labels={label: "b"}) for name in zone_b),
        ],
        renewed=-8,
    )
