"""Scenario files: what they mean, and what about them is surprising."""

from __future__ import annotations

import json

import pytest
from building.scenario_texts import (
    CONTRACT_EXAMPLE,
    REGION,
    TAKEN_AT_NS,
    ZONE,
    events_of,
    load,
    problems_of,
    with_events,
    without_places,
)

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    Node,
)
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.scenarios.schema import scenario_schema


def test_an_example_with_everything_is_read_whole() -> None:
    loaded = load(CONTRACT_EXAMPLE)
    scenario = loaded.scenario
    assert scenario.name == "zone-a-maintenance"
    assert scenario.start_ns == parse_rfc3339_ns("2027-11-20T22:00:00.5Z")
    assert scenario.horizon_ns == 1800 * SECOND_NS
    assert [event.action for event in scenario.events][:3] == ["cordon", "taint", "kubelet-stop"]
    assert scenario.events[2].last_heartbeat_ns == 2_100_000_000
    flags = {
        "node-monitor-period": "1s",
        "node-eviction-rate": "0.25",
        "enable-taint-manager": "true",
    }
    assert without_places(loaded.settings) == ControllerSettings("1.29.6", 0, flags)


def test_json_is_yaml() -> None:
    document = {
        "apiVersion": "evictplan.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "\U0001f600"},
        "spec": {"events": [{"at": "1s", "action": "cordon", "nodes": ["a1"]}]},
    }
    assert load(json.dumps(document, indent="\t")).scenario.name == "\U0001f600"


def test_events_are_ordered_by_instant_and_then_by_the_file() -> None:
    events = events_of(
        "{at: 2s, action: cordon, nodes: [a1]}",
        "{at: 1s, action: cordon, nodes: [a2]}",
        "{at: 2s, action: cordon, nodes: [b1]}",
    )
    assert [event.nodes for event in events] == [("a2",), ("a1",), ("b1",)]
    assert [event.origin for event in events] == ["s.yaml:6", "s.yaml:5", "s.yaml:7"]


def test_the_start_defaults_to_the_instant_of_the_snapshot() -> None:
    assert load(with_events()[:-1] + " []").scenario.start_ns == TAKEN_AT_NS


def test_a_start_before_the_snapshot_is_an_error() -> None:
    text = with_events(spec='\n  start: "2020-01-01T00:00:00Z"')[:-1] + " []"
    (problem,) = problems_of(text)
    assert "before the snapshot was taken" in problem and "newest lease renewal" in problem


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("nodes: [b1, a1, a1]", ("a1", "b1")),
        ("selector: pool=blue", ("a1", "b1")),
        ('selector: "pool=blue,!gone"', ("a1", "b1")),
        ("zone: eu-1a", ("a1", "a2")),
        ("allNodes: true", ("a1", "a2", "b1", "dark")),
    ],
)
def test_targets_become_sorted_node_names(target: str, names: tuple[str, ...]) -> None:
    (event,) = events_of(f"{{at: 0, action: cordon, {target}}}")
    assert event.nodes == names


def test_a_zone_may_be_written_with_its_region() -> None:
    nodes = (
        Node("n1", labels={REGION: "eu", ZONE: "a"}),
        Node("n2", labels={REGION: "us", ZONE: "a"}),
    )
    snapshot = ClusterSnapshot(nodes)
    loaded = load(with_events("{at: 0, action: cordon, zone: eu/a}"), snapshot)
    assert loaded.scenario.events[0].nodes == ("n1",)
    with pytest.raises(InputError, match="several regions: write one of eu/a, us/a"):
        load(with_events("{at: 0, action: cordon, zone: a}"), snapshot)


def test_beta_zone_labels_count_too() -> None:
    snapshot = ClusterSnapshot((Node("n", labels={"failure-domain.beta.kubernetes.io/zone": "z"}),))
    loaded = load(with_events("{at: 0, action: cordon, zone: z}"), snapshot)
    assert loaded.scenario.events[0].nodes == ("n",)


def test_tolerations_that_are_left_out_are_a_warning() -> None:
    event = "{at: 1s, action: pod-tolerations, pods: [default/web-0], tolerations: []}"
    assert [w.code for w in load(with_events(event)).warnings] == ["tolerations-removed"]


def test_events_after_the_horizon_are_a_warning() -> None:
    loaded = load(with_events("{at: 2s, action: cordon, nodes: [a1]}", spec="\n  horizon: 1s"))
    assert [warning.code for warning in loaded.warnings] == ["event-after-horizon"]


def test_two_taints_at_one_instant_are_no_tie() -> None:
    loaded = load(
        with_events(
            "{at: 0, action: taint, nodes: [a1], taint: 'a:NoExecute'}",
            "{at: 0, action: taint, nodes: [a1], taint: 'b:NoExecute'}",
        )
    )
    assert loaded.warnings == ()


def test_every_action_of_the_format_is_in_the_schema() -> None:
    events = scenario_schema()["$defs"]["Spec"]["properties"]["events"]["items"]["oneOf"]
    assert events == [{"$ref": f"#/$defs/{action}"} for action in ACTIONS]
