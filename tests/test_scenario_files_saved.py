"""A scenario that was written loads back to the same scenario."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from scenario_texts import (
    decode_manifest,
    load,
    without_origins,
)

from kubectl_evictplan.kube.durations import DURATION_MAX_NS, SECOND_NS
from kubectl_evictplan.kube.objects import (
    EFFECTS,
    ClusterSnapshot,
    Node,
    Pod,
    Taint,
    Toleration,
)
from kubectl_evictplan.scenarios.files import load_scenario, write_scenario
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent

names = st.sampled_from(
    ["a1", "no", "1e3", "0300", "n:1", "on", "null", "x.y", "~", "#", "- a", "\u00e9"]
)
keys = st.sampled_from(["k", "example.com/k-1", "on", "1e3", "0300"])
offsets = st.integers(0, DURATION_MAX_NS)
node_sets = st.sets(names, min_size=1).map(lambda found: tuple(sorted(found)))
taints = st.builds(Taint, keys, st.sampled_from(EFFECTS), st.sampled_from(["", "yes", "1", "0x1"]))
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
pod_sets = st.just(("1e3/x", "default/on"))
events = st.one_of(
    st.builds(ScenarioEvent, offsets, st.just("taint"), node_sets, taints),
    st.builds(ScenarioEvent, offsets, st.sampled_from(["cordon", "uncordon"]), node_sets),
    st.builds(
        ScenarioEvent,
        offsets,
        st.just("node-ready"),
        node_sets,
        status=st.sampled_from(["True", "False"]),
    ),
    st.builds(ScenarioEvent, offsets, st.just("pod-delete"), pods=pod_sets),
    st.builds(
        ScenarioEvent,
        offsets,
        st.just("pod-tolerations"),
        pods=pod_sets,
        tolerations=st.lists(tolerations, max_size=3).map(tuple),
    ),
    st.builds(
        lambda at, key: ScenarioEvent(
            at, "untaint", ("a1",), taint_key=f"node.kubernetes.io/{key}"
        ),
        offsets,
        st.just("x"),
    ),
    st.builds(
        lambda at, ago: ScenarioEvent(at, "kubelet-stop", (), last_heartbeat_ns=at - ago),
        offsets,
        offsets,
    ).flatmap(
        lambda event: node_sets.map(lambda nodes: msgspec.structs.replace(event, nodes=nodes))
    ),
)
one_stop = st.lists(events, max_size=6).filter(
    lambda found: (
        sum(event.action == "kubelet-stop" for event in found) <= 1
        and not {"kubelet-stop", "node-ready"} <= {event.action for event in found}
    )
)


@given(
    one_stop,
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
    settings = ControllerSettings("1.30", None, flags)
    text = write_scenario(scenario, settings)
    loaded = load_scenario(text, "saved.yaml", ANY_NODES, decode_manifest)
    assert without_origins(loaded.scenario) == scenario
    assert loaded.settings == settings


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
