"""Scenario files as text: a small cluster, shorthands that load them, and their problems."""

from __future__ import annotations

import msgspec
import pytest

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    Node,
    NodeCondition,
    Pod,
    Taint,
    Toleration,
)
from kubectl_evictplan.scenarios.files import LoadedScenario, load_scenario
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent

TAKEN_AT_NS = 1_800_000_000 * SECOND_NS
READY = (NodeCondition("Ready", "True"),)
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def node(name: str, **labels: str) -> Node:
    return Node(
        name, labels={key.replace("zone", ZONE): v for key, v in labels.items()}, conditions=READY
    )


SNAPSHOT = ClusterSnapshot(
    nodes=(
        node("a1", zone="eu-1a", pool="blue"),
        node("a2", zone="eu-1a"),
        node("b1", zone="eu-1b", pool="blue"),
        Node("dark", taints=(Taint("maint", "NoExecute", "yes"),)),
    ),
    pods=(Pod("default", "web-0", tolerations=(Toleration("A", "Exists"),)), Pod("shop", "db")),
    taken_at_ns=TAKEN_AT_NS,
    taken_at_source="newest lease renewal",
)


def load(text: str, snapshot: ClusterSnapshot = SNAPSHOT) -> LoadedScenario:
    return load_scenario(text, "s.yaml", snapshot)


def with_events(*events: str, spec: str = "") -> str:
    lines = ["apiVersion: evictplan.dev/v1alpha1", "kind: Scenario", f"spec: {spec}".rstrip()]
    return "\n".join([*lines, "  events:", *(f"  - {event}" for event in events)]) + "\n"


def events_of(*events: str) -> tuple[ScenarioEvent, ...]:
    return load(with_events(*events)).scenario.events


def problems_of(text: str) -> list[str]:
    with pytest.raises(InputError) as raised:
        load(text)
    return [str(problem) for problem in raised.value.problems]


def problem_of(*events: str) -> str:
    problems = problems_of(with_events(*events))
    assert len(problems) == 1, problems
    return problems[0]


CONTRACT_EXAMPLE = """\
apiVersion: evictplan.dev/v1alpha1
kind: Scenario
metadata: {name: zone-a-maintenance}
spec:
  start: "2027-11-20T22:00:00.5Z"
  horizon: 30m
  controller:
    kubernetesVersion: "1.29.6"
    monitorPhase: 0s
    flags: {node-monitor-period: 1s, node-eviction-rate: 0.25, enable-taint-manager: true}
  events:
  - {at: 2s,  action: taint,   nodes: [a1], taint: "maint=yes:NoExecute"}
  - {at: 8s,  action: untaint, nodes: [a1], taint: "maint:NoExecute"}
  - {at: 3s,  action: kubelet-stop,  nodes: [a1], lastHeartbeat: 2.1s}
  - {at: 30s, action: kubelet-start, nodes: [a1]}
  - {at: 3s,  action: node-ready,    nodes: [a2], status: "False"}
  - {at: 50s, action: node-delete,   nodes: [a1]}
  - {at: 60s, action: node-create,   manifest: {apiVersion: v1, kind: Node, metadata: {name: a1}}}
  - {at: 12s, action: pod-create,    manifest: {apiVersion: v1, kind: Pod, metadata: {name: p}}}
  - {at: 12s, action: pod-delete,    pods: [shop/db]}
  - {at: 6s,  action: pod-tolerations, pods: [default/web-0], tolerations: [{key: A, operator: Exists}]}
  - {at: 16s, action: controller-stop}
  - {at: 21s, action: controller-start}
  - {at: 0s,  action: cordon, nodes: [a1]}
"""


def without_origins(scenario: Scenario) -> Scenario:
    events = tuple(msgspec.structs.replace(event, origin="") for event in scenario.events)
    return msgspec.structs.replace(scenario, events=events)


def without_places(settings: ControllerSettings) -> ControllerSettings:
    return msgspec.structs.replace(settings, places={})


# One event of every action; the last of the file is meant.
EXAMPLES = {
    "taint": "{at: 2s, action: taint, nodes: [a1], taint: 'maint=yes:NoExecute'}",
    "untaint": "{at: 2s, action: untaint, nodes: [dark], taint: 'maint:NoExecute'}",
    "kubelet-stop": "{at: 3s, action: kubelet-stop, zone: eu-1a}",
    "kubelet-start": "{at: 3s, action: kubelet-start, nodes: [dark]}",
    "node-ready": "{at: 3s, action: node-ready, nodes: [a1], status: 'False'}",
    "lease-touch": "{at: 6s, action: lease-touch, nodes: [a1]}",
    "node-delete": "{at: 5s, action: node-delete, selector: pool=blue}",
    "node-create": "{at: 6s, action: node-create, manifest: {apiVersion: v1, kind: Node, metadata: {name: new}}}",
    "pod-create": "{at: 6s, action: pod-create, manifest: {apiVersion: v1, kind: Pod, metadata: {name: p}}}",
    "pod-delete": "{at: 6s, action: pod-delete, pods: [default/web-0]}",
    "pod-tolerations": "{at: 6s, action: pod-tolerations, pods: [default/web-0], tolerations: []}",
    "controller-stop": "{at: 16s, action: controller-stop}",
    "controller-start": "{at: 21s, action: controller-start}",
    "cordon": "{at: 0s, action: cordon, allNodes: true}",
    "uncordon": "{at: 0s, action: uncordon, nodes: [a1]}",
    "drain": "{at: 0s, action: drain, nodes: [b1, a1], gracePeriod: 10s, ignoreDaemonsets: true}",
}
