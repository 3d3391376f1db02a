"""Warnings about what is asked: tolerations and the scenario's events.

Cases that need a run use the simulator; a few give the timeline or the evictions by hand.
"""

from __future__ import annotations

import pytest
from building.builders import (
    NOT_READY,
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    tolerates,
)
from building.warning_runs import TAINT, configured, message, objects, warn

from kubectl_evictplan.kube.objects import (
    Toleration,
)

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@pytest.mark.parametrize(
    ("seconds", "means"),
    [
        (9223372037, "counts as forever"),
        (18446744074, "counts as 290.448384ms"),
        (2**63 - 1, "counts as forever"),
    ],
)
def test_overflowed_seconds_say_what_they_become(seconds: int, means: str) -> None:
    pods = [
        make_pod("odd", "n1", tolerations=[tolerates("maint", seconds)]),
        make_pod("sane", "n1", tolerations=[tolerates("maint", 9223372036)]),
        make_pod("elsewhere", "n2", tolerations=[tolerates("maint", seconds)]),
    ]
    warnings = warn(["n1", "n2"], pods, [TAINT])
    assert objects(warnings, "toleration-seconds-overflow") == ["default/odd"]
    assert means in message(warnings, "toleration-seconds-overflow")


@pytest.mark.parametrize(
    ("tolerations", "words"),
    [
        ([tolerates("", 60), tolerates("maint")], "so the pod is evicted"),
        ([tolerates(""), tolerates("maint", 60)], "so the seconds never count"),
        ([tolerates("maint", 60), tolerates("maint", 3600)], "the first in the list"),
        ([tolerates("maint", 60), tolerates("other")], ""),
        ([tolerates("maint", 60), tolerates("", 60)], ""),
    ],
)
def test_first_match_surprises(tolerations: list[Toleration], words: str) -> None:
    warnings = warn(["n1"], [make_pod("p", "n1", tolerations=tolerations)], [TAINT])
    expected = ["default/p"] if words else None
    assert objects(warnings, "first-match-surprise") == expected
    if words:
        assert words in message(warnings, "first-match-surprise")


def test_not_ready_toleration_with_a_value_is_named_when_the_taint_comes() -> None:
    wrong = Toleration(UNREACHABLE, "Equal", "x", "NoExecute", 300)
    pods = [
        make_pod("wrong", "n1", tolerations=[wrong]),
        make_pod("right", "n1", tolerations=default_tolerations()),
        make_pod("healed", "n1", tolerations=[wrong, *default_tolerations()]),
    ]
    warnings = warn(["n1", "n2", "n3"], pods, [make_event(3, "kubelet-stop", "n1")])
    assert objects(warnings, "not-ready-toleration-wrong-value") == ["default/wrong"]
    assert objects(warn(["n1"], pods, [TAINT]), "not-ready-toleration-wrong-value") is None


@pytest.mark.parametrize(
    ("release", "flags", "words"),
    [
        ("1.29", {}, "does not know them"),
        ("1.35", {}, "is off"),
        ("1.35", {"feature-gates": "TaintTolerationComparisonOperators=true"}, None),
    ],
)
def test_lt_and_gt_with_the_gate_off(
    release: str, flags: dict[str, str], words: str | None
) -> None:
    pod = make_pod("p", "n1", tolerations=[Toleration("sla", "Gt", "95", "NoExecute")])
    event = make_event(1, "taint", "n1", taint="sla=99:NoExecute")
    warnings = warn(["n1"], [pod], [event], configuration=configured(release, flags))
    assert objects(warnings, "lt-gt-operator-gate-off") == (["default/p"] if words else None)
    if words:
        assert words in message(warnings, "lt-gt-operator-gate-off")


@pytest.mark.parametrize(("release", "said"), [("1.28.3", True), ("1.28.4", False)])
def test_duplicate_env_in_the_server_side_apply_window(release: str, said: bool) -> None:
    pods = [
        make_pod("twice", "n1", duplicate_env_or_port=True),
        make_pod("for-ever", "n1", duplicate_env_or_port=True, tolerations=[tolerates("maint")]),
        make_pod("once", "n1"),
    ]
    warnings = warn(["n1"], pods, [TAINT], configuration=configured(release))
    assert objects(warnings, "ssa-condition-fails") == (["default/twice"] if said else None)


@pytest.mark.parametrize(("gate", "said"), [("true", True), ("false", False)])
def test_the_broken_gate_of_1_25(gate: str, said: bool) -> None:
    configuration = configured("1.25", {"feature-gates": f"PodDisruptionConditions={gate}"})
    warnings = warn(["n1"], [make_pod("p", "n1")], [TAINT], configuration=configuration)
    assert objects(warnings, "broken-eviction-1-25") == (["default/p"] if said else None)


@pytest.mark.parametrize(
    ("taint", "words"),
    [
        (f"{NOT_READY}:NoExecute", "takes it off a ready node in its next tick (every 5s)"),
        (f"{UNREACHABLE}:NoSchedule", "takes it off at once unless the node's conditions ask"),
        ("node.kubernetes.io/unschedulable:NoSchedule", "unless spec.unschedulable asks"),
        ("node.kubernetes.io/unschedulable:NoExecute", "and neither does uncordon"),
        ("node.kubernetes.io/memory-pressure:NoExecute", "with this effect it never takes it off"),
        (f"{OUT_OF_SERVICE}:NoExecute", "force-deletes its terminating pods"),
    ],
)
def test_controller_owned_taints_say_what_will_happen(taint: str, words: str) -> None:
    warnings = warn(["n1"], [], [make_event(1, "taint", "n1", taint=taint)])
    assert objects(warnings, "controller-owned-taint") == ["n1"]
    assert words in message(warnings, "controller-owned-taint")


@pytest.mark.parametrize(
    ("release", "words"), [("1.18.3", "does not put"), ("1.29", "puts it back as soon as")]
)
def test_removing_a_controllers_taint(release: str, words: str) -> None:
    node = make_node("n1", ready="Unknown", taints=[f"{UNREACHABLE}:NoExecute"])
    event = make_event(1, "untaint", "n1", taint=f"{UNREACHABLE}:NoExecute")
    warnings = warn([node, "n2"], [], [event], configuration=configured(release))
    assert words in message(warnings, "controller-owned-taint")


def test_own_keys_are_no_controllers_taint() -> None:
    assert objects(warn(["n1"], [], [TAINT]), "controller-owned-taint") is None


def test_a_taint_that_is_there_and_one_that_is_not() -> None:
    events = [
        make_event(1, "taint", ["n1", "n2"], taint="a:NoExecute"),
        make_event(2, "untaint", ["n1", "n2"], taint="b:NoExecute"),
        make_event(3, "untaint", ["n1"], taint="a:NoExecute"),
        make_event(4, "taint", ["n1"], taint="a:NoExecute"),
    ]
    warnings = warn([make_node("n1", taints=["a:NoExecute", "b:NoExecute"]), "n2"], [], events)
    said = {w.message.split(" ")[0]: w.objects for w in warnings if w.code == "taint-not-applied"}
    assert said == {"a:NoExecute": ("n1",), "b:NoExecute-": ("n2",)}


def test_events_that_find_nothing_to_do() -> None:
    events = [
        make_event(1, "cordon", ["n1", "n2"]),
        make_event(2, "node-delete", "n2"),
        make_event(3, "taint", "n2", taint="a:NoExecute"),
    ]
    warnings = warn([make_node("n1", unschedulable=True), "n2", "n3"], [], events)
    said = {w.message: w.objects for w in warnings if w.code == "event-without-effect"}
    assert said == {
        "cordon at 1s does nothing: the node is cordoned already or does not exist then": ("n1",),
        "taint at 3s does nothing: the node does not exist then": ("n2",),
    }


def test_a_pod_is_not_created_beside_one_of_its_name() -> None:
    events = [
        make_event(1, "pod-create", pod=make_pod("p", "n2")),
        make_event(2, "pod-create", pod=make_pod("q", "n2")),
        make_event(3, "pod-delete", pods=["default/p"]),
        make_event(90, "pod-create", pod=make_pod("p", "n2")),
    ]
    warnings = warn(["n1", "n2"], [make_pod("p", "n1")], events)
    said = {w.message: w.objects for w in warnings if w.code == "event-without-effect"}
    assert said == {"pod-create at 1s does nothing: a pod of that name exists then": ("default/p",)}


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_effects_that_evict_nothing(effect: str) -> None:
    event = make_event(1, "taint", "n1", taint=f"a:{effect}")
    assert objects(warn(["n1"], [], [event]), "effect-evicts-nothing") == ["n1"]
    assert objects(warn(["n1"], [], [TAINT]), "effect-evicts-nothing") is None


def test_cordon_evicts_nothing_and_names_drain() -> None:
    warnings = warn(["n1"], [make_pod("p", "n1")], [make_event(1, "cordon", "n1")])
    assert objects(warnings, "cordon-evicts-nothing") == ["n1"]
    assert "kubectl drain" in message(warnings, "cordon-evicts-nothing")


def test_a_restart_starts_countdowns_anew() -> None:
    events = [make_event(20, "controller-stop"), make_event(25, "controller-start")]
    warnings = warn(["n1"], [make_pod("p", "n1", tolerations=[tolerates("maint", 60)])], events)
    assert objects(warnings, "controller-restart-resets-timers") == []
    assert objects(warnings, "controller-stays-stopped") is None


def test_a_cold_start_is_no_restart() -> None:
    warnings = warn(["n1"], scenario=make_scenario([TAINT], cold=True))
    assert objects(warnings, "controller-restart-resets-timers") is None


def test_a_controller_that_stays_away() -> None:
    warnings = warn(["n1"], [], [make_event(20, "controller-stop")])
    assert objects(warnings, "controller-stays-stopped") == []


def test_a_taint_removed_in_the_instant_the_timer_fires_is_a_tie() -> None:
    pods = [
        make_pod("tie", "n1", tolerations=[tolerates("maint", 30)]),
        make_pod("clear", "n1", tolerations=[tolerates("maint", 29)]),
    ]
    untaint = make_event(40, "untaint", "n1", taint="maint:NoExecute")
    warnings = warn(["n1"], pods, [TAINT, untaint])
    assert objects(warnings, "tie-at-instant") == ["default/tie"]


def test_a_running_timer_is_moved_by_nothing() -> None:
    pods = [
        make_pod("p", "n1", tolerations=[tolerates("maint", 300), tolerates("b", 5)]),
        make_pod("edited", "n2", tolerations=[tolerates("maint", 300)]),
    ]
    events = [
        make_event(10, "taint", ["n1", "n2"], taint="maint:NoExecute"),
        make_event(15, "taint", "n1", taint="b:NoExecute"),
        make_event(
            20, "pod-tolerations", pods="default/edited", tolerations=[tolerates("maint", 5)]
        ),
    ]
    warnings = warn(["n1", "n2"], pods, events)
    assert objects(warnings, "timer-keeps-first-start") == ["default/p"]
    assert objects(warnings, "toleration-seconds-ignored") == ["default/edited"]


def test_an_untolerated_second_taint_does_end_the_timer() -> None:
    pod = make_pod("p", "n1", tolerations=[tolerates("maint", 300)])
    events = [TAINT, make_event(15, "taint", "n1", taint="b:NoExecute")]
    assert objects(warn(["n1"], [pod], events), "timer-keeps-first-start") is None


def test_a_name_reused_while_its_timer_runs_exposes_the_new_pod() -> None:
    pod = make_pod("db-0", "n1", tolerations=[tolerates("maint", 300)], owner="StatefulSet/db")
    other = make_pod("web", "n1", tolerations=[tolerates("maint", 300)], owner="ReplicaSet/web")
    delete = make_event(20, "pod-delete", pods=["default/db-0", "default/web"])
    warnings = warn(["n1"], [pod, other], [TAINT, delete])
    assert objects(warnings, "wrong-pod-deletion-exposure") == ["default/db-0"]


def test_a_timer_that_was_cancelled_before_is_not_kept() -> None:
    pod = make_pod("p", "n1", tolerations=[tolerates("maint", 300)])
    untaint = make_event(15, "untaint", "n1", taint="maint:NoExecute")
    again = make_event(20, "taint", "n1", taint="maint:NoExecute")
    warnings = warn(["n1"], [pod], [TAINT, untaint, again])
    assert objects(warnings, "timer-keeps-first-start") is None
