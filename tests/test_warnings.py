"""Every warning of a prediction: when it is said, about whom, and when it is not.

Cases that need a run use the simulator; a few give the timeline or the evictions by hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import (
    NOT_READY,
    START_NS,
    UNREACHABLE,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from kubectl_evictplan.bounds.outcome import EvictionKey, Occurrence
from kubectl_evictplan.cautions.budgets import BudgetIndex
from kubectl_evictplan.cautions.situation import caution
from kubectl_evictplan.controllers.configuration import (
    ControllerConfiguration,
    resolve_configuration,
)
from kubectl_evictplan.model.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    Node,
    Pod,
    PodDisruptionBudget,
    Toleration,
    Warning,
)
from kubectl_evictplan.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.simulation import simulate
from kubectl_evictplan.timeline import DELETE, GONE, Entry, Timeline
from kubectl_evictplan.warnings import find_warnings, merge_warnings

REPOSITORY = Path(__file__).resolve().parent.parent
TAINT = make_event(10, "taint", "n1", taint="maint=yes:NoExecute")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def configured(
    release: str = "1.29", flags: dict[str, str] | None = None, phase: float | None = None
) -> ControllerConfiguration:
    settings = ControllerSettings(
        kubernetes_version=release,
        flags=flags or {},
        monitor_phase_ns=None if phase is None else ns(phase),
    )
    return resolve_configuration(settings, ControlPlaneFlags())


def evictions_of(timeline: Timeline) -> dict[EvictionKey, Occurrence]:
    """The deletes of one run, as if nothing about it were unknown."""
    gone = {(e.subject, e.uid): e.at_ns for e in timeline.entries if e.kind == GONE}
    found: dict[EvictionKey, Occurrence] = {}
    for index, entry in enumerate(timeline.entries):
        if entry.kind != DELETE:
            continue
        ordinal = sum((k.pod, k.uid) == (entry.subject, entry.uid) for k in found)
        end_ns = gone.get((entry.subject, entry.uid))
        found[EvictionKey(entry.subject, entry.uid, entry.value, ordinal)] = Occurrence(
            entry.at_ns,
            entry.at_ns,
            True,
            entry.node,
            entry.taint,
            entry.toleration_index,
            entry.toleration_seconds,
            (timeline, index),
            end_ns,
            end_ns,
        )
    return found


def warn(
    nodes: Iterable[Node | str],
    pods: Iterable[Pod] = (),
    events: Iterable[ScenarioEvent] = (),
    *,
    configuration: ControllerConfiguration | None = None,
    horizon: float = 1000,
    snapshot: ClusterSnapshot | None = None,
    affected: Iterable[str] | None = None,
    scenario: Scenario | None = None,
) -> list[Warning]:
    """Warnings of the nominal run; every node is affected unless said otherwise."""
    configuration = configuration or configured()
    snapshot = snapshot or make_snapshot(nodes, pods)
    scenario = scenario or make_scenario(events, horizon=horizon)
    timeline = simulate(snapshot, scenario, configuration)
    names = {node.name for node in snapshot.nodes} | {p.node_name for p in snapshot.pods}
    names |= {event.node.name for event in scenario.events if event.node is not None}
    names = names - {""} if affected is None else set(affected)
    return find_warnings(snapshot, scenario, configuration, timeline, names, evictions_of(timeline))


def objects(warnings: Iterable[Warning], code: str) -> list[str] | None:
    """All objects of one code, None when the code is not there."""
    found = [warning.objects for warning in warnings if warning.code == code]
    return sorted({name for names in found for name in names}) if found else None


def message(warnings: Iterable[Warning], code: str) -> str:
    return next(warning.message for warning in warnings if warning.code == code)


# -- tolerations -------------------------------------------------------------------------------------


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


# -- the scenario's events ---------------------------------------------------------------------------


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


# -- what happens to the pods ------------------------------------------------------------------------


def budget(name: str, allowed: int | None, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget("default", name, labels, (), allowed)


def test_budgets_are_counted_against_what_they_allow() -> None:
    pods = [make_pod(f"web-{i}", "n1", labels={"app": "web"}) for i in range(3)]
    pods.append(make_pod("done", "n1", labels={"app": "web"}, phase="Succeeded"))
    snapshot = replace(
        make_snapshot(["n1"], pods),
        budgets=(
            budget("enough", 3, app="web"),
            budget("little", 1, app="web"),
            budget("other", 0, app="db"),
            budget("unknown", None, app="web"),
        ),
    )
    warnings = warn([], events=[TAINT], snapshot=snapshot)
    said = [w for w in warnings if w.code == "disruption-budget-bypassed"]
    assert [w.message.split(" and ")[0] for w in said] == [
        "PodDisruptionBudget default/little allows 1",
        "PodDisruptionBudget default/unknown allows an unknown number",
    ]
    assert {w.objects for w in said} == {("default/web-0", "default/web-1", "default/web-2")}


def test_budgets_that_were_not_listed_are_unknown_not_absent() -> None:
    pods = [make_pod("p", "n1")]
    listed = replace(make_snapshot(["n1"], pods), kinds_seen=("Node", "PodDisruptionBudget"))
    assert objects(warn(["n1"], pods, [TAINT]), "budgets-not-listed") == []
    assert objects(warn([], events=[TAINT], snapshot=listed), "budgets-not-listed") is None
    assert objects(warn(["n1"], [], [TAINT]), "budgets-not-listed") is None


@pytest.mark.parametrize(
    ("expression", "covered"),
    [
        (("app", "In", ("web", "db")), True),
        (("app", "NotIn", ("web",)), False),
        (("tier", "NotIn", ("web",)), True),
        (("app", "Exists", ()), True),
        (("tier", "Exists", ()), False),
        (("tier", "DoesNotExist", ()), True),
        (("app", "Near", ("web",)), False),
    ],
)
def test_budget_expressions(expression: tuple[str, str, tuple[str, ...]], covered: bool) -> None:
    index = BudgetIndex([PodDisruptionBudget("default", "b", {}, (expression,))])
    assert index.matching(make_pod("p", labels={"app": "web"})) == ([0] if covered else [])


def test_a_null_selector_covers_nothing_an_empty_one_everything_of_its_namespace() -> None:
    index = BudgetIndex(
        [
            PodDisruptionBudget("default", "null", None),
            PodDisruptionBudget("default", "empty", {}),
            PodDisruptionBudget("other", "empty", {}),
        ]
    )
    assert index.matching(make_pod("p")) == [1]


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


@given(st.lists(LABELS, max_size=8), LABELS)
def test_the_budget_index_finds_what_asking_each_budget_finds(
    selectors: list[dict[str, str]], labels: dict[str, str]
) -> None:
    budgets = [PodDisruptionBudget("default", str(i), s) for i, s in enumerate(selectors)]
    expected = [i for i, s in enumerate(selectors) if s.items() <= labels.items()]
    assert sorted(BudgetIndex(budgets).matching(make_pod("p", labels=labels))) == expected


def test_pods_of_silent_nodes_stay_terminating() -> None:
    pods = [
        make_pod("db-0", "n1", tolerations=default_tolerations(), owner="StatefulSet/db"),
        make_pod("web", "n1", tolerations=default_tolerations(), owner="ReplicaSet/web"),
        make_pod("at-once", "n1", tolerations=default_tolerations(), grace_seconds=0),
        make_pod("elsewhere", "n2", tolerations=default_tolerations()),
    ]
    silent = make_event(3, "kubelet-stop", "n1")
    warnings = warn(["n1", "n2", "n3"], pods, [silent])
    assert objects(warnings, "unreachable-stuck-terminating") == ["default/db-0", "default/web"]
    assert objects(warnings, "statefulset-waits-for-name") == ["default/db-0"]
    back = make_event(500, "kubelet-start", "n1")
    assert objects(warn(["n1", "n2"], pods, [silent, back]), "statefulset-waits-for-name") is None


def test_what_an_eviction_takes_away() -> None:
    scratch = replace(make_pod("scratch", "n1", owner="ReplicaSet/s"), empty_dir=True)
    done = replace(make_pod("done", "n1", owner="Job/j", phase="Succeeded"), empty_dir=True)
    mirror = replace(make_pod("mirror", "n1"), mirror=True)
    pods = [
        scratch,
        done,
        mirror,
        make_pod("bare", "n1"),
        make_pod("held", "n1", owner="ReplicaSet/s", finalizers=["example.com/hold"]),
        make_pod("going", "n1", owner="ReplicaSet/s", deleted=-1, grace_seconds=600),
        make_pod("agent", "n1", owner="DaemonSet/agent"),
        make_pod("stays", "n1", tolerations=[tolerates("maint")], finalizers=["x"]),
    ]
    warnings = warn(["n1"], pods, [TAINT])
    assert objects(warnings, "empty-dir-lost") == ["default/scratch"]
    assert objects(warnings, "finished-pod-deleted") == ["default/done"]
    assert objects(warnings, "mirror-pod-recreated") == ["default/mirror"]
    assert objects(warnings, "bare-pod-lost") == ["default/bare"]
    assert objects(warnings, "finalizers-block") == ["default/held"]
    assert objects(warnings, "pod-already-terminating") == ["default/going"]
    assert objects(warnings, "daemonset-deleted-and-not-recreated") == ["default/agent"]


def test_replacements_may_return_to_a_node_that_they_tolerate_for_a_while() -> None:
    finite = [tolerates("maint", 60)]
    pods = [
        make_pod("back", "n1", tolerations=finite, owner="ReplicaSet/r"),
        make_pod("at-once", "n1", owner="ReplicaSet/r"),
        make_pod("bare", "n1", tolerations=finite),
    ]
    assert objects(warn(["n1"], pods, [TAINT]), "replacement-may-return") == ["default/back"]
    cordon = make_event(1, "cordon", "n1")
    assert objects(warn(["n1"], pods, [cordon, TAINT]), "replacement-may-return") is None
    closed = make_node("n1", taints=["closed:NoSchedule"])
    assert objects(warn([closed], pods, [TAINT]), "replacement-may-return") is None


@pytest.mark.parametrize(("release", "said"), [("1.32", True), ("1.33", False)])
def test_stale_keys_threaten_reused_names_up_to_1_32(release: str, said: bool) -> None:
    pods = [
        make_pod("db-0", "n1", owner="StatefulSet/db", grace_seconds=0),
        make_pod("bare", "n1", phase="Succeeded"),
        make_pod("web", "n1", owner="ReplicaSet/web", grace_seconds=0),
        make_pod("slow-0", "n1", owner="StatefulSet/slow"),
        make_pod("held", "n1", grace_seconds=0, finalizers=["x"]),
    ]
    warnings = warn(["n1"], pods, [TAINT], configuration=configured(release))
    expected = ["default/bare", "default/db-0"] if said else None
    assert objects(warnings, "stale-nil-key-exposure") == expected


# -- controllers, rates and limits -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "flags", "code", "words"),
    [
        (
            "1.29",
            {"controllers": "*,-taint-eviction-controller"},
            "taint-eviction-disabled",
            "no taint evicts",
        ),
        (
            "1.26",
            {"enable-taint-manager": "false"},
            "taint-eviction-disabled",
            "--pod-eviction-timeout=5m0s",
        ),
        (
            "1.29",
            {"controllers": "*,-node-lifecycle-controller"},
            "node-lifecycle-disabled",
            "silent kubelets",
        ),
    ],
)
def test_controllers_that_do_not_run(
    release: str, flags: dict[str, str], code: str, words: str
) -> None:
    pods = [make_pod("p", "n1")]
    warnings = warn(["n1"], pods, [TAINT], configuration=configured(release, flags))
    assert words in message(warnings, code)
    assert objects(warn(["n1"], pods, [TAINT]), code) is None


def test_pod_gc_that_does_not_run_is_named_when_a_node_goes() -> None:
    configuration = configured(flags={"controllers": "*,-pod-garbage-collector-controller"})
    delete = make_event(5, "node-delete", "n1")
    warnings = warn(["n1", "n2"], [make_pod("p", "n1")], [delete], configuration=configuration)
    assert objects(warnings, "pod-gc-disabled") == []
    assert (
        objects(warn(["n1"], [], [TAINT], configuration=configuration), "pod-gc-disabled") is None
    )


def test_a_small_zone_in_partial_disruption_taints_nobody() -> None:
    names = [f"n{i}" for i in range(5)]
    warnings = warn(names, [], [make_event(3, "kubelet-stop", names[:3])])
    assert objects(warnings, "zone-stopped") == names[:3]
    assert "(2 ready, 3 not ready)" in message(warnings, "zone-stopped")
    assert objects(warnings, "queue-order-unknown") is None
    assert objects(warnings, "master-disruption") is None


def test_all_zones_down_is_master_disruption() -> None:
    names = ["n0", "n1"]
    warnings = warn(names, [], [make_event(3, "kubelet-stop", names)])
    assert objects(warnings, "master-disruption") == names


def test_the_rate_one_bug_needs_a_stop() -> None:
    configuration = configured(flags={"node-eviction-rate": "1"})
    names = [f"n{i}" for i in range(5)]
    stop = make_event(3, "kubelet-stop", names[:3])
    one = make_event(3, "kubelet-stop", names[:1])
    assert objects(warn(names, [], [stop], configuration=configuration), "rate-one-bug") == []
    assert objects(warn(names, [], [one], configuration=configuration), "rate-one-bug") is None


@pytest.mark.parametrize("rate", ["0", "-1"])
def test_a_rate_of_nothing(rate: str) -> None:
    configuration = configured(flags={"node-eviction-rate": rate})
    names = [f"n{i}" for i in range(4)]
    warnings = warn(
        names, [], [make_event(3, "kubelet-stop", names[:2])], configuration=configuration
    )
    assert objects(warnings, "eviction-rate-zero") == names[:2]
    assert f"={rate}:" in message(warnings, "eviction-rate-zero")


def test_the_order_of_waiting_nodes_is_unknown_within_a_zone() -> None:
    nodes = [make_node(f"a{i}", zone="a") for i in range(4)]
    nodes += [make_node(f"b{i}", zone="b") for i in range(4)]
    warnings = warn(nodes, [], [make_event(3, "kubelet-stop", ["a0", "a1", "b0"])])
    assert objects(warnings, "queue-order-unknown") == ["a0", "a1"]
    assert objects(warnings, "queue-duplicates-bug") is None


@pytest.mark.parametrize(("release", "said"), [("1.19.8", True), ("1.19.9", False)])
def test_releases_that_queue_duplicates(release: str, said: bool) -> None:
    names = [f"n{i}" for i in range(6)]
    warnings = warn(
        names,
        [],
        [make_event(3, "kubelet-stop", names[:2])],
        configuration=configured(release),
        horizon=120,
    )
    assert objects(warnings, "queue-duplicates-bug") == (names[:2] if said else None)


def test_unknown_phase_and_flags_matter_when_the_monitor_does() -> None:
    stop = make_event(3, "kubelet-stop", "n1")
    warnings = warn(["n1", "n2"], [], [stop])
    assert objects(warnings, "monitor-phase-unknown") == []
    assert "--node-monitor-grace-period=40s" in message(warnings, "flags-assumed")
    known = configured(
        "1.29",
        {
            "node-monitor-period": "5s",
            "node-monitor-grace-period": "40s",
            "node-eviction-rate": "0.1",
        },
        phase=0,
    )
    warnings = warn(["n1", "n2"], [], [stop], configuration=known)
    assert objects(warnings, "monitor-phase-unknown") is None
    assert objects(warnings, "flags-assumed") is None
    quiet = warn(["n1"], [make_pod("p", "n1")], [TAINT])
    assert objects(quiet, "monitor-phase-unknown") is None
    assert objects(quiet, "flags-assumed") is None


def test_the_lease_breaker_of_1_37() -> None:
    stop = make_event(3, "kubelet-stop", "n1")
    for release, expected in (("1.37", []), ("1.36", None)):
        warnings = warn(["n1", "n2"], [], [stop], configuration=configured(release))
        assert objects(warnings, "lease-breaker") == expected


@pytest.mark.parametrize(
    ("release", "flags", "delay"),
    [
        ("1.29", {}, "13.5s"),
        ("1.25", {}, "3.5s"),
        ("1.29", {"kube-api-qps": "-1"}, None),
        ("1.29", {"kube-api-qps": "1000", "kube-api-burst": "1000"}, None),
        ("1.25", {"kube-api-qps": "0", "kube-api-burst": "0"}, "18s"),
    ],
)
def test_the_controllers_own_client_limit(
    release: str, flags: dict[str, str], delay: str | None
) -> None:
    pods = [make_pod(f"p{i}", "n1") for i in range(100)]
    warnings = warn(["n1"], pods, [TAINT], configuration=configured(release, flags))
    assert objects(warnings, "api-throttling") == (["n1"] if delay else None)
    if delay:
        assert f"about {delay} later" in message(warnings, "api-throttling")


def test_marking_many_pods_not_ready_takes_the_monitor_time() -> None:
    pods = [make_pod(f"p{i}", "n1", tolerations=[tolerates("")]) for i in range(100)]
    warnings = warn(["n1", "n2"], pods, [make_event(3, "kubelet-stop", "n1")])
    assert objects(warnings, "api-throttling") == ["n1"]
    assert "100 pods are marked not ready" in message(warnings, "api-throttling")


def test_denied_kinds_and_webhooks() -> None:
    snapshot = replace(
        make_snapshot(["n1"], [make_pod("p", "n1")]),
        denied=("PodDisruptionBudget",),
        ignored_kinds={"ValidatingWebhookConfiguration": 1},
    )
    warnings = warn([], events=[TAINT], snapshot=snapshot)
    assert "PodDisruptionBudget" in message(warnings, "kind-not-readable")
    assert objects(warnings, "delete-webhook-not-evaluated") == []


def test_a_horizon_that_cuts_off_timers() -> None:
    pod = make_pod("p", "n1", tolerations=[tolerates("maint", 300)])
    assert objects(warn(["n1"], [pod], [TAINT], horizon=60), "horizon-reached") == []
    assert objects(warn(["n1"], [pod], [TAINT], horizon=600), "horizon-reached") is None


# -- odd nodes ---------------------------------------------------------------------------------------


def test_missing_leases_of_affected_nodes_only() -> None:
    snapshot = replace(make_snapshot(["n1", "n2", "n3"]), leases={"n1": make_lease("n1")})
    warnings = warn([], events=[TAINT], snapshot=snapshot, affected=["n1", "n2"])
    assert objects(warnings, "missing-lease") == ["n2"]
    none = replace(snapshot, leases={})
    assert "no Leases at all" in message(warn([], events=[TAINT], snapshot=none), "missing-lease")


@pytest.mark.parametrize(("release", "crashes"), [("1.29", True), ("1.30", False)])
def test_a_node_without_ready(release: str, crashes: bool) -> None:
    nodes = [make_node("n1", ready=None), "n2"]
    warnings = warn(nodes, configuration=configured(release))
    assert objects(warnings, "node-without-ready") == ["n1"]
    assert objects(warnings, "missing-ready-crash") == (["n1"] if crashes else None)


def test_a_ready_condition_that_says_something_odd() -> None:
    odd = make_node("n1")
    conditions = tuple(
        replace(c, status="unknown", last_heartbeat_time_ns=None) if c.type == "Ready" else c
        for c in odd.conditions
    )
    twice = make_node("n2")
    twice = replace(twice, conditions=(*twice.conditions, twice.conditions[-1]))
    snapshot = make_snapshot([replace(odd, conditions=conditions), twice, "n3"])
    timeline = Timeline(START_NS)
    warnings = find_warnings(
        snapshot, make_scenario(), configured(), timeline, {"n1", "n2", "n3"}, {}
    )
    said = {w.message[:28]: w.objects for w in warnings if w.code == "odd-ready-condition"}
    assert said == {
        "Ready has no heartbeat time": ("n1",),
        "several Ready conditions: th": ("n2",),
        "the status of Ready is none ": ("n1",),
    }


def test_times_after_the_snapshot_are_skewed() -> None:
    nodes = [make_node("n1", created=60), make_node("n2", heartbeat=60), "n3", "n4"]
    snapshot = make_snapshot(nodes, leases=[make_lease("n3", 60)])
    timeline = Timeline(START_NS)
    names = {node.name for node in snapshot.nodes}
    warnings = find_warnings(snapshot, make_scenario(), configured(), timeline, names, {})
    assert objects(warnings, "skewed-timestamps") == ["n1", "n2", "n3"]


def test_a_start_far_from_the_snapshot() -> None:
    later = replace(make_snapshot(["n1"]), taken_at_ns=epoch_ns(-3600))
    assert "1h0m0s after" in message(warn([], snapshot=later), "start-not-at-snapshot")
    assert objects(warn(["n1"]), "start-not-at-snapshot") is None


def test_conflicting_zone_labels_name_the_zone_that_counts() -> None:
    beta = {"failure-domain.beta.kubernetes.io/zone": "old"}
    warnings = warn([make_node("n1", zone="new", labels=beta), make_node("n2", zone="new")])
    assert objects(warnings, "conflicting-zone-labels") == ["n1"]
    assert "old" in message(warnings, "conflicting-zone-labels").rpartition("counts in")[2]


def test_pods_on_nodes_that_are_not_in_the_input() -> None:
    warnings = warn(["n1"], [make_pod("p", "ghost"), make_pod("q", "n1")])
    assert objects(warnings, "pod-on-unknown-node") == ["default/p"]


def test_running_timers_are_windows_and_their_leader_may_be_unknown() -> None:
    node = make_node("n1", taints=["maint:NoExecute"])
    pods = [
        make_pod("runs", "n1", tolerations=[tolerates("maint", 3000)]),
        make_pod("stays", "n1", tolerations=[tolerates("maint")]),
        make_pod("fresh", "n2", tolerations=[tolerates("maint", 3000)]),
        make_pod("going", "n1", tolerations=[tolerates("maint", 3000)], deleted=-1),
    ]
    warnings = warn([node, "n2"], pods)
    assert objects(warnings, "running-timer-window") == ["default/runs"]
    assert objects(warnings, "leader-lease-unknown") == []
    known = replace(
        make_snapshot([node, "n2"], pods),
        control_plane=ControlPlaneFlags(leader_acquire_time_ns=epoch_ns(-9999)),
    )
    assert objects(warn([], snapshot=known), "leader-lease-unknown") is None


def test_more_finished_pods_than_garbage_collection_leaves() -> None:
    pods = [make_pod(f"p{i}", "n1", phase="Succeeded", created=-100 + i) for i in range(3)]
    configuration = configured(flags={"terminated-pod-gc-threshold": "2"})
    warnings = warn(["n1"], pods, configuration=configuration)
    assert objects(warnings, "terminated-pod-gc") == ["default/p0"]
    assert objects(warn(["n1"], pods), "terminated-pod-gc") is None


# -- the whole ---------------------------------------------------------------------------------------


def test_a_plain_prediction_has_few_warnings() -> None:
    pod = make_pod("web", "n1", owner="ReplicaSet/web", tolerations=default_tolerations())
    snapshot = replace(make_snapshot(["n1"], [pod]), kinds_seen=("PodDisruptionBudget",))
    assert warn([], events=[TAINT], snapshot=snapshot) == []


def test_a_cluster_that_is_left_alone_has_none() -> None:
    assert warn(["n1"], [make_pod("p", "n1")]) == []


def test_objects_are_sorted_and_named_once() -> None:
    assert caution("c", "m", ["b", "a", "b"]) == [Warning("c", "m", ("a", "b"))]
    assert caution("c", "m", []) == []


def test_nodes_that_are_not_affected_are_not_named() -> None:
    odd = make_node("n2", ready=None, labels={"failure-domain.beta.kubernetes.io/zone": "x"})
    snapshot = replace(make_snapshot(["n1", odd]), leases={"n1": make_lease("n1")})
    warnings = find_warnings(
        snapshot, make_scenario([TAINT]), configured(), Timeline(START_NS), {"n1"}, {}
    )
    assert not any("n2" in warning.objects for warning in warnings)


def test_an_eviction_of_another_admissible_run_counts() -> None:
    """The nominal run may not evict what some other run does."""
    pod = make_pod("p", "n1", tolerations=[tolerates("", 60), tolerates(UNREACHABLE)])
    taint = make_event(0, "taint", "n1", taint=f"{UNREACHABLE}:NoExecute").taint
    occurrence = Occurrence(0, ns(60), False, "n1", taint, 0, 60, None, None, None)
    warnings = find_warnings(
        make_snapshot(["n1"], [pod]),
        make_scenario(),
        configured(),
        Timeline(START_NS),
        {"n1"},
        {EvictionKey(pod.key, pod.uid, "taint-eviction", 0): occurrence},
    )
    assert objects(warnings, "first-match-surprise") == ["default/p"]
    assert objects(warnings, "bare-pod-lost") == ["default/p"]


def test_merging_keeps_the_better_word() -> None:
    mine = [Warning("conflicting-zone-labels", "m", ("n1",))]
    loaders = [Warning("zone-labels", "m", ("Node n1", "Node n9")), Warning("odd-lease", "m", ())]
    assert merge_warnings(mine, loaders) == [mine[0], loaders[1]]
    assert merge_warnings([], loaders) == loaders


def test_throttling_adds_up_over_neighbouring_instants() -> None:
    timeline = Timeline(START_NS)
    for second in range(10):
        for pod in range(30):
            timeline.append(
                Entry(ns(second), DELETE, f"default/p{second}-{pod}", "taint-eviction", node="n1")
            )
    warnings = find_warnings(
        make_snapshot(["n1"]), make_scenario(), configured("1.25"), timeline, {"n1"}, {}
    )
    # 300 requests in 9 seconds against 30 at once and 20 a second: 90 are left over.
    assert "about 4.5s later" in message(warnings, "api-throttling")


# -- documentation -----------------------------------------------------------------------------------


def emitted_codes() -> set[str]:
    """First arguments, as literals, of everything that makes a warning in the package."""
    makers = {
        "Warning",
        "ClusterWarning",
        "FileWarning",
        "warning",
        "caution",
        "caution_by_message",
    }
    found = set()
    for path in (REPOSITORY / "kubectl_evictplan").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                first = node.args[0]
                if name in makers and isinstance(first, ast.Constant):
                    found.add(first.value)
    return {code for code in found if isinstance(code, str) and re.fullmatch(r"[a-z0-9-]+", code)}


def documented_codes() -> list[str]:
    text = (REPOSITORY / "docs" / "warnings.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \|", text, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`([a-z0-9-]+)`", cell)]


def test_every_code_is_documented_once() -> None:
    documented = documented_codes()
    assert len(documented) == len(set(documented))
    assert emitted_codes() - set(documented) == set()


def test_every_documented_code_is_emitted() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in (REPOSITORY / "kubectl_evictplan").rglob("*.py")
    )
    assert [code for code in documented_codes() if f'"{code}"' not in sources] == []
