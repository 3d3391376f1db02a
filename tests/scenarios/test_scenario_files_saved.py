"""A scenario that was written loads back to the same scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building.builders import event_of, make_snapshot
from building.scenario_texts import (
    load,
    without_origins,
    without_places,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_evictplan.kube.durations import DURATION_MAX_NS, SECOND_NS
from kubectl_evictplan.kube.objects import (
    EFFECTS,
    ClusterSnapshot,
    Node,
    Pod,
    Taint,
    Toleration,
)
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.field_types import Manifest
from kubectl_evictplan.scenarios.files import load_scenario
from kubectl_evictplan.scenarios.outages import outage_events
from kubectl_evictplan.scenarios.scenario import (
    ControllerSettings,
    Outage,
    OutagePart,
    Scenario,
    ScenarioEvent,
)
from kubectl_evictplan.scenarios.taint_words import TaintRemoval
from kubectl_evictplan.scenarios.writer import write_scenario
from kubectl_evictplan.sources.items import decode_manifest_object

names = st.sampled_from(
    ["a1", "no", "1e3", "0300", "n:1", "on", "null", "x.y", "~", "#", "- a", "\u00e9"]
)
keys = st.sampled_from(["k", "example.com/k-1", "on", "1e3", "0300"])
offsets = st.integers(0, DURATION_MAX_NS)
node_sets = st.sets(names, min_size=1).map(lambda found: tuple(sorted(found)))
effects = st.sampled_from(EFFECTS)
taints = st.builds(Taint, keys, effects, st.sampled_from(["", "yes", "1", "0x1"]))
tolerations = st.builds(
    Toleration,
    keys,
    st.just("Exists"),
    st.just(""),
    st.just("NoExecute"),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)
ANY_NODES = ClusterSnapshot(
    tuple(
        Node(name)
        for name in [
            "a1",
            "no",
            "1e3",
            "0300",
            "n:1",
            "on",
            "null",
            "x.y",
            "~",
            "#",
            "- a",
            "\u00e9",
        ]
    ),
    (Pod("default", "on"), Pod("1e3", "x")),
    taken_at_ns=-(2**62),
)


outage_parts = st.none() | st.builds(
    OutagePart, st.sampled_from([one.value for one in Outage]), st.none() | offsets
)


def manifest(kind: str, name: str) -> Manifest:
    written = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
    return Manifest(decode_manifest_object(written, ""), written)


pod_sets = st.just(("1e3/x", "default/on"))


def event(action: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[ScenarioEvent]:
    return st.builds(event_of, offsets, st.just(action), **fields)


EVENTS = {
    "taint": event("taint", nodes=node_sets, taint=taints),
    "untaint": event(
        "untaint",
        nodes=node_sets,
        removal=st.builds(TaintRemoval, st.just("node.kubernetes.io/x"), st.just("") | effects),
    ),
    "kubelet-stop": st.builds(
        lambda at, ago, nodes: event_of(
            at, "kubelet-stop", nodes=nodes, last_heartbeat_ns=None if ago is None else at - ago
        ),
        offsets,
        st.none() | offsets,
        node_sets,
    ),
    "kubelet-start": event(
        "kubelet-start", nodes=node_sets, within_ns=offsets, outage=outage_parts
    ),
    "node-ready": event("node-ready", nodes=node_sets, status=st.sampled_from(["True", "False"])),
    "lease-touch": event("lease-touch", nodes=node_sets),
    "node-delete": event("node-delete", nodes=node_sets),
    "node-create": event("node-create", manifest=st.just(manifest("Node", "new"))),
    "pod-create": event("pod-create", manifest=st.just(manifest("Pod", "1e3"))),
    "pod-delete": event("pod-delete", pods=pod_sets),
    "pod-tolerations": event(
        "pod-tolerations",
        pods=pod_sets,
        tolerations=st.lists(tolerations, max_size=3).map(tuple),
    ),
    "controller-stop": event("controller-stop", outage=outage_parts),
    "controller-start": event("controller-start", within_ns=offsets, outage=outage_parts),
    "cordon": event("cordon", nodes=node_sets),
    "uncordon": event("uncordon", nodes=node_sets),
    "drain": event(
        "drain",
        nodes=node_sets.flatmap(st.permutations).map(tuple),
        grace_period_seconds=st.integers(-1, 100_000),
        timeout_ns=offsets,
        force=st.booleans(),
        ignore_daemonsets=st.booleans(),
        delete_emptydir_data=st.booleans(),
        skip_wait_for_delete_timeout_seconds=st.integers(0, 100_000),
        disable_eviction=st.booleans(),
        pod_selector=st.sampled_from(["", "app in (a,b),!canary", "no"]),
    ),
}
# Those that never contradict another event.
free = (
    "taint",
    "untaint",
    "lease-touch",
    "pod-delete",
    "pod-tolerations",
    "cordon",
    "uncordon",
    "drain",
)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_of_the_table_is_read_back_as_it_was_written(action: str) -> None:
    @given(EVENTS[action])
    @settings(max_examples=10)
    def read_back(event: ScenarioEvent) -> None:
        scenario = Scenario(0, (event,))
        text = write_scenario(scenario, ControllerSettings())
        loaded = load_scenario(text, "saved.yaml", ANY_NODES)
        assert without_origins(loaded.scenario) == scenario

    read_back()


@given(
    st.lists(st.one_of([EVENTS[action] for action in free]), max_size=6),
    st.integers(0, 4_000_000_000 * SECOND_NS),
    st.none() | st.integers(1, DURATION_MAX_NS),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    st.dictionaries(
        st.sampled_from(["a-b", "on", "1"]), st.sampled_from(["1s", "0.25", "true", "", "no", " x"])
    ),
)
def test_a_saved_scenario_loads_back_to_the_same_one(
    happening: list[ScenarioEvent],
    start_ns: int,
    horizon_ns: int | None,
    name: str,
    flags: dict[str, str],
) -> None:
    ordered = tuple(sorted(happening, key=lambda event: event.at_ns))
    scenario = Scenario(start_ns, ordered, horizon_ns, name)
    controller = ControllerSettings("1.30", None, flags)
    text = write_scenario(scenario, controller)
    loaded = load_scenario(text, "saved.yaml", ANY_NODES)
    assert without_origins(loaded.scenario) == scenario
    assert without_places(loaded.settings) == controller


def test_recorded_scenarios_are_read(fixtures_path: Path) -> None:
    for path in sorted(fixtures_path.glob("traces/*/scenario.yaml")):
        items = json.loads((path.parent / "cluster.json").read_text())["items"]
        nodes = tuple(Node(item["metadata"]["name"]) for item in items if item["kind"] == "Node")
        pods = tuple(
            Pod(item["metadata"]["namespace"], item["metadata"]["name"])
            for item in items
            if item["kind"] == "Pod"
        )
        loaded = load(path.read_text(), ClusterSnapshot(nodes, pods))
        text = write_scenario(loaded.scenario, loaded.settings)
        again = load(text, ClusterSnapshot(nodes, pods))
        assert without_origins(again.scenario) == without_origins(loaded.scenario)


def test_created_objects_are_saved_as_they_were_written() -> None:
    text = """\
apiVersion: evictplan.dev/v1alpha1
kind: Scenario
spec:
  events:
  - at: 1s
    action: node-create
    manifest:
      apiVersion: v1
      kind: Node
      metadata: {name: "0300", uid: u, labels: {"on": "1e3"}}
      spec: {taints: [{key: k, effect: NoExecute, timeAdded: "2026-11-20T22:00:00Z"}]}
      status: {conditions: [{type: Ready, status: "False"}]}
  - at: 2s
    action: pod-create
    manifest:
      apiVersion: v1
      kind: Pod
      metadata: {name: p, namespace: "1e3", finalizers: [a/b], annotations: {note: "{{ x }}"}}
      spec:
        nodeName: "0300"
        terminationGracePeriodSeconds: 0
        containers: [{name: c, image: i, ports: [{containerPort: 1}]}]
"""
    first = load_scenario(text, "s.yaml", ClusterSnapshot(()))
    saved = write_scenario(first.scenario, first.settings)
    again = load_scenario(saved, "saved.yaml", ClusterSnapshot(()))
    assert without_origins(again.scenario).events == without_origins(first.scenario).events


def test_an_outage_is_saved_with_what_it_is() -> None:
    """Else its kubelets fall silent for good, and their pods answer nobody."""
    snapshot = make_snapshot(["a1", "a2"])
    events = outage_events(Outage.API_SERVER, 600 * SECOND_NS, snapshot, 20 * SECOND_NS, "x")
    scenario = Scenario(snapshot.taken_at_ns, tuple(events))
    text = write_scenario(scenario, ControllerSettings())
    assert "outage: {component: apiserver, until: 10m0s}" in text
    loaded = load_scenario(text, "s.yaml", snapshot).scenario.events
    assert [one.outage for one in loaded] == [one.outage for one in events]
    assert {one.outage for one in loaded} == {OutagePart("apiserver", 600 * SECOND_NS)}
