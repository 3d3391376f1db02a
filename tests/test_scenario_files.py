"""Scenario files: what they mean, and what is wrong with them, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.model.durations import DURATION_MAX_NS, SECOND
from kubectl_evictplan.model.objects import (
    EFFECTS,
    ClusterSnapshot,
    Node,
    NodeCondition,
    Pod,
    Taint,
    Toleration,
)
from kubectl_evictplan.model.timestamps import parse_rfc3339_ns
from kubectl_evictplan.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.scenario_events import ACTION_FIELDS
from kubectl_evictplan.scenario_files import LoadedScenario, load_scenario, write_scenario
from kubectl_evictplan.scenario_schema import scenario_schema

TAKEN_AT_NS = 1_800_000_000 * SECOND
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


def decode_manifest(manifest: dict[str, Any], location: str) -> Node | Pod:
    metadata, spec = manifest["metadata"], manifest.get("spec", {})
    if "name" not in metadata:
        raise InputError(Problem("name is missing", location=location, field="metadata.name"))
    if manifest["kind"] == "Node":
        return Node(metadata["name"], labels=metadata.get("labels", {}))
    return Pod(
        metadata.get("namespace", "default"), metadata["name"], node_name=spec.get("nodeName", "")
    )


def load(text: str, snapshot: ClusterSnapshot = SNAPSHOT) -> LoadedScenario:
    return load_scenario(text, "s.yaml", snapshot, decode_manifest)


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


def test_the_contracts_example_is_read_whole() -> None:
    loaded = load(CONTRACT_EXAMPLE)
    scenario = loaded.scenario
    assert scenario.name == "zone-a-maintenance"
    assert scenario.start_ns == parse_rfc3339_ns("2027-11-20T22:00:00.5Z")
    assert scenario.horizon_ns == 1800 * SECOND
    assert [event.action for event in scenario.events][:3] == ["cordon", "taint", "kubelet-stop"]
    assert scenario.events[2].last_heartbeat_ns == 2_100_000_000
    flags = {
        "node-monitor-period": "1s",
        "node-eviction-rate": "0.25",
        "enable-taint-manager": "true",
    }
    assert loaded.settings == ControllerSettings("1.29.6", 0, flags)


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


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            "{at: 0, action: cordon, nodes: [a9]}",
            "5:37: spec.events[0].nodes: no node is called 'a9'",
        ),
        ("{at: 0, action: cordon, nodes: []}", "the list is empty"),
        ("{at: 0, action: cordon, nodes: a1}", "expected a list, found a string"),
        ("{at: 0, action: cordon, nodes: [1]}", "a number where a string is expected: quote it"),
        ("{at: 0, action: cordon, nodes: [no]}", "quote it (got 'no')"),
        ("{at: 0, action: cordon, selector: pool=red}", "no node matches the selector 'pool=red'"),
        ('{at: 0, action: cordon, selector: "a in ("}', "column 7: found ''"),
        ('{at: 0, action: cordon, selector: ""}', "the selector is empty"),
        ("{at: 0, action: cordon, zone: eu-1c}", "did you mean 'eu-1b'?"),
        ("{at: 0, action: cordon, allNodes: false}", "only 'allNodes: true'"),
        ('{at: 0, action: cordon, allNodes: "true"}', "expected true or false"),
        ("{at: 0, action: cordon}", "one target is needed, given: none"),
        ("{at: 0, action: cordon, zone: eu-1a, nodes: [a1]}", "both 'nodes' and 'zone'"),
        ("{at: 0, action: cordon, nodes: [a1], taint: k}", "unknown key 'taint'"),
        ("{at: 0, action: cordon, node: [a1], nodes: [a1]}", "did you mean 'nodes'?"),
        ("{at: 0, action: cordn, nodes: [a1]}", "did you mean 'cordon'?"),
        ("{action: cordon, nodes: [a1]}", "required key 'at' is missing"),
        ("{at: 5, action: cordon, nodes: [a1]}", "a unit is missing after 5"),
        ("{at: -5s, action: cordon, nodes: [a1]}", "duration is negative"),
        ("{at: 1h30, action: cordon, nodes: [a1]}", "a unit is missing after 30"),
        ("{at: 1:30, action: cordon, nodes: [a1]}", "quote it"),
        ("{at: 0, action: taint, nodes: [a1]}", "required key 'taint' is missing for action taint"),
        ("{at: 0, action: taint, nodes: [a1], taint: k=v}", "invalid taint spec: k=v"),
        ('{at: 0, action: taint, nodes: [a1], taint: "k:NoExcute"}', "unsupported taint effect"),
        ("{at: 0, action: taint, nodes: [a1], taint: k-}", "write action: untaint"),
        ("{at: 0, action: untaint, nodes: [dark], taint: maint-}", "leave out the trailing '-'"),
        ('{at: 0, action: node-ready, nodes: [a1], status: "true"}', "not a status of Ready"),
        ("{at: 0, action: node-ready, nodes: [a1], status: True}", "a boolean where a string"),
        ("{at: 1s, action: kubelet-stop, nodes: [a1], lastHeartbeat: 2s}", "after the stop itself"),
        ("{at: 0, action: pod-delete, pods: [default/web-1]}", "did you mean 'default/web-0'?"),
        ("{at: 0, action: pod-delete, pods: [db]}", "expected NAMESPACE/NAME"),
        (
            "{at: 0, action: pod-create, manifest: {kind: Node, metadata: {}}}",
            "pod-create needs a Pod",
        ),
        ("{at: 0, action: pod-create, manifest: {kind: Pod, metadata: {}}}", "name is missing"),
        (
            "{at: 0, action: pod-create, manifest: {kind: Pod, metadata: {name: p}, spec: {nodeName: a9}}}",
            "no node is called 'a9'",
        ),
        (
            "{at: 0, action: pod-create, manifest: {kind: Pod, metadata: {name: p, x: 0300}}}",
            "plain decimal",
        ),
        (
            "{at: 0, action: node-create, manifest: {kind: Node, metadata: {name: a1}}}",
            "exists already",
        ),
        ("cordon", "expected a map with 'at' and 'action'"),
    ],
)
def test_a_wrong_event_is_named_with_its_place(event: str, message: str) -> None:
    problem = problem_of(event)
    assert problem.startswith("s.yaml:5:"), problem
    assert message in problem


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        ("{key: A, operator: Exists, tolerationSeconds: 5}", "effect must be 'NoExecute'"),
        ("{operator: Equal}", "operator must be Exists when `key` is empty"),
        ("{key: A, operator: exists}", 'supported values: "Equal", "Exists"'),
        ("{key: A, operator: Exists, value: x}", "value must be empty"),
        ("{key: A, effect: NoExec}", 'supported values: "NoSchedule"'),
        ('{key: A, effect: NoExecute, tolerationSeconds: "5"}', "plain decimal"),
        ("{key: A, effect: NoExecute, tolerationSeconds: 0300}", "plain decimal"),
        ("{key: A, effect: NoExecute, tolerationSeconds: 9223372036854775808}", "64 bits"),
        ("{key: A, effekt: NoExecute}", "did you mean 'effect'?"),
    ],
)
def test_tolerations_follow_the_api_servers_rules(toleration: str, message: str) -> None:
    text = f"{{at: 0, action: pod-tolerations, pods: [shop/db], tolerations: [{toleration}]}}"
    assert message in problem_of(text)


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = CONTRACT_EXAMPLE.replace("kind: Scenario", "kind: Scenario\nspek: 1")
    text = text.replace("30m", "30").replace("0s\n", "-1s\n").replace("[a2]", "[a8]")
    problems = problems_of(text)
    lines = [int(problem.split(":")[1]) for problem in problems]
    assert lines == sorted(lines) and len(problems) == 4, problems
    assert "unknown key 'spek'; did you mean 'spec'?" in problems[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml:1:1: the file is empty"),
        ("# nothing\n---\n", "the file is empty"),
        ("[]", "not a Scenario"),
        ("kind: Scenario\nspec: {events: []}", "required key 'apiVersion' is missing"),
        (
            "apiVersion: evictplan.dev/v1\nkind: Scenario\nspec: {events: []}",
            "must be evictplan.dev/v1alpha1",
        ),
        ("apiVersion: v1\nkind: List\nitems: []", "must be Scenario"),
        ("apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\n", "required key 'spec' is missing"),
        ("apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\nspec: {start: x}\n", "not a time"),
        (
            "apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\nspec: {horizon: 0s, events: []}\n",
            "longer than 0",
        ),
        ("a: 1\na: 2", "duplicate key 'a': first in line 1"),
        ("a: !!python/object/apply:os.system [x]", "tag"),
        ("a: &a [*a]", "refers to itself"),
        ("a: [" * 300, "nested deeper than 200"),
        ("a: b: c", "1:5: mapping values are not allowed here"),
        ("a: {{ .Values.x }}", "template"),
        ("a: \x07", "control character U+0007"),
        ("a: 1\n---\nb: 1\n", "a second document"),
        ('a: "\\ud800"', "not valid Unicode"),
        ("a: x\u2028b: y", "unusual line break"),
        ("%TAG ! tag:x:\n---\na: 1", "%TAG"),
        ("1: x", "a key must be a string"),
    ],
)
def test_a_wrong_document_is_named_with_its_place(text: str, message: str) -> None:
    problems = problems_of(text)
    assert any(message in problem for problem in problems), problems
    assert all(problem.startswith("s.yaml:") for problem in problems)


def test_aliases_and_merges_are_allowed_but_bombs_are_not() -> None:
    events = events_of("&e {at: 1s, action: cordon, nodes: [a1]}", "{<<: *e, nodes: [a2]}")
    assert [event.nodes for event in events] == [("a1",), ("a2",)]
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{key}: &{key} [{','.join(['*' + before] * 10)}]\n"
        for before, key in zip("abcde", "bcdef", strict=True)
    )
    assert any("aliases expand" in problem for problem in problems_of(bomb))


def test_more_than_ten_thousand_events_are_refused() -> None:
    text = '{"apiVersion": "evictplan.dev/v1alpha1", "kind": "Scenario", "spec": {"events": ['
    text += ",".join(["1"] * 10_001) + "]}}"
    assert problems_of(text) == ["s.yaml:1:81: spec.events: 10001 events: the limit is 10000"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            "kubelet-stop, nodes: [a1]",
            "kubelet-stop, zone: eu-1a",
            "a1 is already silent since s.yaml:5 (at 1s)",
        ),
        (
            "cordon, nodes: [a1]",
            "kubelet-start, nodes: [a1]",
            "was never stopped, and the node is Ready",
        ),
        (
            "kubelet-stop, nodes: [a1]",
            'node-ready, nodes: [a1], status: "True"',
            "a silent kubelet cannot",
        ),
        ("cordon, nodes: [a1]", "untaint, nodes: [a1], taint: maint", "never added before"),
        (
            "untaint, nodes: [dark], taint: maint",
            'untaint, nodes: [dark], taint: "maint:NoExecute"',
            "removed already by s.yaml:5",
        ),
        ("controller-stop", "controller-stop", "already stopped since s.yaml:5"),
        ("controller-start", "controller-start", "already running since s.yaml:5"),
        ("node-delete, nodes: [a1]", "cordon, nodes: [a1]", "'a1' is deleted at this instant"),
    ],
)
def test_events_that_contradict_each_other_name_both(first: str, second: str, message: str) -> None:
    problem = problem_of(f"{{at: 1s, action: {first}}}", f"{{at: 2s, action: {second}}}")
    assert problem.startswith("s.yaml:6:") and message in problem


def test_events_that_fit_are_no_contradiction() -> None:
    events_of(
        "{at: 1s, action: kubelet-start, nodes: [dark]}",
        "{at: 2s, action: kubelet-stop, nodes: [dark]}",
        "{at: 3s, action: node-delete, nodes: [dark]}",
        "{at: 4s, action: node-create, manifest: {kind: Node, metadata: {name: dark}}}",
        "{at: 5s, action: kubelet-stop, nodes: [dark]}",
        "{at: 6s, action: untaint, nodes: [a1], taint: node.kubernetes.io/unreachable}",
        "{at: 7s, action: controller-start}",
        "{at: 8s, action: controller-stop}",
    )


@pytest.mark.parametrize(
    ("events", "code"),
    [
        (
            ["taint, nodes: [a1], taint: 'node.kubernetes.io/unreachable:NoExecute'"],
            "controller-owned-taint",
        ),
        (["cordon, nodes: [a1]", "uncordon, allNodes: true"], "tie-at-instant"),
        (["pod-tolerations, pods: [default/web-0], tolerations: []"], "tolerations-removed"),
    ],
)
def test_surprises_are_warnings(events: list[str], code: str) -> None:
    loaded = load(with_events(*(f"{{at: 1s, action: {event}}}" for event in events)))
    assert [warning.code for warning in loaded.warnings] == [code]


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


def without_origins(scenario: Scenario) -> Scenario:
    events = tuple(msgspec.structs.replace(event, origin="") for event in scenario.events)
    return msgspec.structs.replace(scenario, events=events)


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
    st.integers(0, 4_000_000_000 * SECOND),
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


@given(st.text(alphabet="{}[]:,-&*!|>'\"%@#\n\t a1", max_size=40))
def test_no_text_escapes_as_anything_but_problems_with_a_place(text: str) -> None:
    with pytest.raises(InputError) as raised:
        load(text)
    assert all(problem.location.startswith("s.yaml:") for problem in raised.value.problems)


def test_every_action_of_the_format_is_in_the_schema() -> None:
    events = scenario_schema()["properties"]["spec"]["properties"]["events"]["items"]["oneOf"]
    assert [event["properties"]["action"]["const"] for event in events] == list(ACTION_FIELDS)


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
