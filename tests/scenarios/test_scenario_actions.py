"""The table of actions: what every row must say, and what single rows do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from building.builders import (
    event_of,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from building.scenario_texts import EXAMPLES, events_of, problem_of

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.drain_filters import DrainOptions
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.field_types import TARGET_KEYS, TARGET_TYPES, file_fields
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.scenarios.schema import scenario_schema

EVERY_ACTION = pytest.mark.parametrize("action", ACTIONS)
ROW = re.compile(r"^\| `([a-z-]+)` \| ([^|]*)\| ([^|]+) \|$", re.MULTILINE)


def example(action: str) -> ScenarioEvent:
    return events_of(EXAMPLES[action])[-1]


@EVERY_ACTION
def test_every_action_is_documented_with_its_fields(action: str, fixtures_path: Path) -> None:
    text = (fixtures_path.parent / "docs" / "scenarios.md").read_text(encoding="utf-8")
    rows = {name: fields for name, fields, _ in ROW.findall(text)}
    described = file_fields(ACTIONS[action])
    keys = ["target" if field.type in TARGET_TYPES else f"`{field.key}`" for field in described]
    wanted = [
        key if field.required else f"{key}?" for key, field in zip(keys, described, strict=True)
    ]
    assert rows[action].strip() == ", ".join(wanted)


@EVERY_ACTION
def test_every_action_is_in_the_schema_with_its_fields(action: str) -> None:
    schema = scenario_schema()["$defs"][action]
    assert schema["properties"]["action"] == {"const": action}
    described = file_fields(ACTIONS[action])
    keys = {field.key for field in described}
    if any(field.type in TARGET_TYPES for field in described):
        keys |= set(TARGET_KEYS)
        assert schema["oneOf"] == [{"required": [key]} for key in TARGET_KEYS]
    assert set(schema["properties"]) == {"at", "action"} | keys
    assert schema["additionalProperties"] is False


@EVERY_ACTION
def test_every_action_says_what_happens(action: str) -> None:
    event = example(action)
    assert event.action == action
    assert len(event.told.format(detail=event.detail).split()) > 1


@EVERY_ACTION
def test_every_action_is_told_in_the_answer(action: str) -> None:
    scenario = make_scenario([example(action)])
    snapshot = make_snapshot([make_node("a1")], [make_pod("web-0", "a1")])
    configuration = resolve_configuration(ControllerSettings("1.29"), ControlPlaneFlags())
    (told,) = predict(snapshot, scenario, configuration).inputs.events
    assert (told.action, told.nodes, told.pods) == (
        action,
        example(action).nodes,
        example(action).pods,
    )


@EVERY_ACTION
def test_an_event_on_what_does_not_exist_changes_nothing(action: str) -> None:
    scenario = make_scenario([example(action)])
    configuration = resolve_configuration(ControllerSettings("1.29"), ControlPlaneFlags())
    prediction = predict(make_snapshot([]), scenario, configuration)
    assert prediction.evictions == ()


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        (make_event(0, "taint", "n", taint="k=v:NoExecute"), "k=v:NoExecute"),
        (make_event(0, "taint", "n", taint="k:NoSchedule"), "k:NoSchedule"),
        (make_event(0, "untaint", "n", taint="k"), "k"),
        (make_event(0, "node-ready", "n", status="False"), "False"),
        (make_event(3, "kubelet-stop", "n", last_heartbeat=2.1), "lastHeartbeat 2.1s"),
        (make_event(3, "kubelet-stop", "n"), ""),
        (make_event(3, "cordon", "n"), ""),
        (make_event(3, "drain", "n"), ""),
        (make_event(3, "drain", "n", force=True, timeout_ns=ns(60)), "timeout 1m0s force"),
        (make_event(3, "drain", "n", grace_period_seconds=0), "gracePeriod 0s"),
        (make_event(3, "drain", "n", pod_selector="app=web"), "podSelector app=web"),
    ],
)
def test_an_event_is_told_with_its_values_as_they_are_written(
    event: ScenarioEvent, detail: str
) -> None:
    assert event.detail == detail


def test_a_monitor_tick_sees_the_last_heartbeat_of_a_kubelet_that_stops() -> None:
    assert make_event(3, "kubelet-stop", "n", last_heartbeat=2).critical_ns == ns(2)
    assert make_event(3, "kubelet-stop", "n").critical_ns is None


@pytest.mark.parametrize(
    ("taint", "seen"),
    [
        ("node.kubernetes.io/unreachable:NoExecute", True),
        ("node.kubernetes.io/not-ready:NoExecute", True),
        # It decides by NoExecute taints alone.
        ("node.kubernetes.io/unreachable:NoSchedule", False),
        ("maint:NoExecute", False),
    ],
)
@pytest.mark.parametrize("action", ["taint", "untaint"])
def test_a_monitor_tick_sees_only_the_taints_that_node_lifecycle_owns(
    action: str, taint: str, seen: bool
) -> None:
    assert make_event(3, action, "n", taint=taint).seen_by_monitor is seen


def test_a_monitor_tick_sees_that_all_taints_of_a_key_go() -> None:
    assert make_event(3, "untaint", "n", taint="node.kubernetes.io/unreachable").seen_by_monitor
    assert not make_event(3, "untaint", "n", taint="maint").seen_by_monitor


def test_pods_cordons_and_drains_are_nothing_to_the_monitor() -> None:
    nothing = {action for action in ACTIONS if not example(action).seen_by_monitor}
    pods = {"pod-create", "pod-delete", "pod-tolerations"}
    assert pods == {action for action, row in ACTIONS.items() if row.pods_only}
    assert nothing == pods | {
        "taint",
        "untaint",
        "cordon",
        "uncordon",
        "drain",
        "controller-start",
        "kubelet-stop",
    }


def test_only_deleted_nodes_and_the_out_of_service_taint_feed_garbage_collection() -> None:
    assert [action for action in ACTIONS if example(action).feeds_pod_gc] == ["node-delete"]
    assert make_event(
        0, "taint", "n", taint="node.kubernetes.io/out-of-service:NoExecute"
    ).feeds_pod_gc


def test_a_created_pod_touches_the_node_that_it_is_bound_to() -> None:
    event = make_event(0, "pod-create", pod=make_pod("p", "n1"))
    assert (event.nodes, event.pods, event.touched_nodes) == ((), ("default/p",), ("n1",))


def test_an_event_can_be_restricted_to_some_of_its_objects() -> None:
    cordon = make_event(0, "cordon", ("n1", "n2"))
    assert cordon.restricted_to({"n2"}, ()).nodes == ("n2",)
    delete = make_event(0, "pod-delete", pods=("default/p", "default/q"))
    assert delete.restricted_to((), {"default/q"}).pods == ("default/q",)
    stop = event_of(0, "controller-stop")
    assert stop.restricted_to((), ()) is stop


@pytest.mark.parametrize(
    ("first", "second", "commute"),
    [
        ("taint, nodes: [a1], taint: 'a:NoExecute'", "untaint, nodes: [dark], taint: maint", True),
        (
            "taint, nodes: [a1], taint: 'a:NoExecute'",
            "taint, nodes: [a1], taint: 'a:NoSchedule'",
            True,
        ),
        (
            "taint, nodes: [a1], taint: 'a:NoExecute'",
            "taint, nodes: [a1], taint: 'a=x:NoExecute'",
            False,
        ),
        ("taint, nodes: [a1], taint: 'a:NoExecute'", "cordon, nodes: [a1]", False),
        (
            "pod-create, manifest: {apiVersion: v1, kind: Pod, metadata: {name: p}}",
            "pod-create, manifest: {apiVersion: v1, kind: Pod, metadata: {name: q}}",
            True,
        ),
    ],
)
def test_taints_of_another_key_or_effect_and_different_pods_do_not_tie(
    first: str, second: str, commute: bool
) -> None:
    events = events_of(f"{{at: 0, action: {first}}}", f"{{at: 0, action: {second}}}")
    assert events[0].commutes_with(events[1]) is commute


@pytest.mark.parametrize("ready", [None, "False"])
@pytest.mark.parametrize("release", ["1.18", "1.29"])
def test_a_node_may_be_created_deleted_and_created_again(release: str, ready: str | None) -> None:
    new = make_node("new", ready=ready, created=None)
    events = [
        make_event(1, "node-create", node=new),
        make_event(70, "node-delete", "new"),
        make_event(130, "node-create", node=new),
    ]
    configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
    prediction = predict(make_snapshot([make_node("a")]), make_scenario(events), configuration)
    unknown = [change for change in prediction.nodes[0].changes if change.value == "Unknown"]
    assert [report.node for report in prediction.nodes] == ["new"]
    assert len(unknown) == (0 if ready == "False" else 2)


def test_a_drain_takes_nodes_in_the_order_in_which_they_are_named() -> None:
    (event,) = events_of("{at: 0s, action: drain, nodes: [b1, a1, b1]}")
    assert event.nodes == ("b1", "a1")


def test_a_drain_by_selector_takes_nodes_in_the_order_of_the_server() -> None:
    (event,) = events_of("{at: 0s, action: drain, selector: pool=blue}")
    assert event.nodes == ("a1", "b1")


def test_a_drain_has_kubectls_flags() -> None:
    (event,) = events_of(
        "{at: 0s, action: drain, nodes: [a1], gracePeriod: 1m, timeout: 1.5s, force: true, "
        "ignoreDaemonsets: true, deleteEmptydirData: true, skipWaitForDeleteTimeout: 5s, "
        "disableEviction: true, podSelector: app=web}"
    )
    assert isinstance(event, Drain)
    assert event.options == DrainOptions(
        force=True,
        ignore_daemonsets=True,
        delete_emptydir_data=True,
        grace_period_seconds=60,
        timeout_ns=ns(1.5),
        skip_wait_for_delete_timeout_ns=ns(5),
        disable_eviction=True,
        pod_selector="app=web",
    )
    (plain,) = events_of("{at: 0s, action: drain, nodes: [a1]}")
    assert isinstance(plain, Drain)
    assert plain.options == DrainOptions()


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("gracePeriod: 1.5s", "must be whole seconds"),
        ("gracePeriod: -1s", "duration is negative: it must be 0 or more"),
        ("timeout: 30", "a unit is missing after 30"),
        ("podSelector: '=x'", "found '='"),
        ("force: yes please", "must be a boolean"),
        ("deleteLocalData: true", "unknown key 'deleteLocalData'"),
    ],
)
def test_a_wrong_flag_of_a_drain_is_named(field: str, message: str) -> None:
    assert message in problem_of(f"{{at: 0s, action: drain, nodes: [a1], {field}}}")
