"""Predictions of drains: their windows, and what is said of waits and ends."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from building.builders import make_event, make_pod, ns
from drawn.drain_worlds import (
    CONFIGURATION,
    READY,
    App,
    drain,
    drained_cluster,
    drains,
    draw_drained_world,
    make_budget,
)
from msgspec.structs import replace

from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.objects import ClusterSnapshot, OwnerReference, Workload
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    POSSIBLE,
    DrainReport,
    Prediction,
    WaitingPod,
)
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.sources.redaction import pseudonyms, redact

WIDE = (ns(5), ns(60))


def predicted(snapshot: ClusterSnapshot, *events: ScenarioEvent, **options: Any) -> Prediction:
    horizon = options.pop("horizon", None)
    options.setdefault("assume_ready", READY)
    return predict(snapshot, drains(*events, horizon=horizon), CONFIGURATION, **options)


def only_drain(prediction: Prediction) -> DrainReport:
    [report] = prediction.drains
    return report


def codes(prediction: Prediction) -> set[str]:
    return {warning.code for warning in prediction.warnings}


WEB = App("web", ["a1", "a1", "b1"], most=1)
FREE = App("free", ["a1", "b1"])
FULL = App("web", ["a1", "b1"], least="100%")


# -- windows ------------------------------------------------------------------------------------------


def test_exchangeable_pods_share_their_windows_and_a_statement_counts_them() -> None:
    prediction = predicted(drained_cluster(WEB), drain("a1"))
    first, second = prediction.evictions
    assert first.windows == second.windows
    assert {one.certainty for one in prediction.evictions} == {CERTAIN}
    early, late = prediction.joint
    assert (early.scope, early.least, early.most, early.of) == ("node/a1", 1, 1, 2)
    assert (late.least, late.most) == (2, 2)


def test_the_nominal_instant_lies_in_a_window_and_its_chain_begins_with_the_command() -> None:
    prediction = predicted(drained_cluster(WEB, FREE), drain("a1", "b1"))
    for eviction in prediction.evictions:
        assert any(
            window.earliest_seconds <= eviction.offset_seconds <= window.latest_seconds
            for window in eviction.windows
        )
        assert eviction.because[0].what.startswith("kubectl drain")


def test_pods_younger_than_their_assumed_readiness_become_ready() -> None:
    snapshot = drained_cluster(WEB)
    starting = tuple(
        replace(pod, ready="False", creation_timestamp_ns=snapshot.taken_at_ns - ns(1))
        for pod in snapshot.pods
    )
    [budget] = snapshot.budgets
    unready = replace(budget, current_healthy=0, disruptions_allowed=0)
    prediction = predicted(replace(snapshot, pods=starting, budgets=(unready,)), drain("a1"))
    assert only_drain(prediction).end_reason == "drained"
    assert all(eviction.earliest_seconds >= 2 for eviction in prediction.evictions)


def test_a_status_that_miscounts_the_pods_beside_it_is_corrected_soon_and_said_to_be_old() -> None:
    snapshot = drained_cluster(WEB)
    [budget] = snapshot.budgets
    old = replace(budget, current_healthy=0, disruptions_allowed=0)
    prediction = predicted(replace(snapshot, budgets=(old,)), drain("a1"))
    assert only_drain(prediction).end_reason == "drained"
    first = min(eviction.latest_seconds for eviction in prediction.evictions)
    now = min(one.latest_seconds for one in predicted(snapshot, drain("a1")).evictions)
    assert first >= now + 5
    [said] = [one for one in prediction.warnings if one.code == "budget-without-status"]
    assert "counts 0 healthy pods" in said.message


def took(seconds: int, *apps: App) -> ClusterSnapshot:
    """A cluster whose pods of the first app were Ready so long after their creation."""
    snapshot = drained_cluster(*apps)
    pods = [
        replace(pod, ready_after_seconds=seconds) if pod.name.startswith(apps[0].name) else pod
        for pod in snapshot.pods
    ]
    return replace(snapshot, pods=tuple(pods))


def last_of(prediction: Prediction) -> tuple[float, float]:
    web = [one for one in prediction.evictions if one.pod.startswith("web")]
    last = max(web, key=lambda one: one.latest_seconds)
    return last.windows[-1].earliest_seconds, last.windows[-1].latest_seconds


def test_a_drain_waits_for_replacements_as_long_as_their_owners_pods_took() -> None:
    """Who goes second waits for the first one's replacement, and for kubectl's next request."""
    learnt = predicted(took(100, WEB), drain("a1"), assume_ready=None)
    earliest, latest = last_of(learnt)
    assert earliest >= 99
    assert latest <= 101 + 12
    assert "as its owner's pods took" in " ".join(learnt.inputs.assumptions)
    default = predicted(drained_cluster(WEB), drain("a1"), assume_ready=None)
    assert 30 <= last_of(default)[0] <= last_of(default)[1] <= 42
    # What is given counts more, and what other owners' pods tell does not count.
    given = predicted(took(100, WEB), drain("a1"), assume_ready=READY)
    assert last_of(given)[1] < 30
    other = predicted(took(100, FREE, WEB), drain("a1"), assume_ready=None)
    assert last_of(other)[1] <= 42


def test_a_possible_eviction_by_a_live_kubelet_has_an_end() -> None:
    wait = drain("a1", timeout_ns=ns(8))
    prediction = predicted(drained_cluster(WEB), wait, assume_ready=(ns(60), ns(60)))
    assert {eviction.certainty for eviction in prediction.evictions} == {POSSIBLE}
    assert all(eviction.gone.stuck is None for eviction in prediction.evictions)
    assert all(29 < (eviction.gone.latest_seconds or 0) < 33 for eviction in prediction.evictions)


def test_a_long_grace_period_moves_no_eviction_that_waits_for_nobody() -> None:
    database = App("db", ["a1", "b1"], kind="StatefulSet", grace=1800)
    prediction = predicted(drained_cluster(database, FREE), drain("a1", at=1))
    assert len(prediction.evictions) == 2
    assert all(one.earliest_seconds > 1 and one.latest_seconds < 2 for one in prediction.evictions)


def test_nodes_beside_a_drained_one_stay_as_certain_as_they_are() -> None:
    silent = make_event(1, "kubelet-stop", "b1", last_heartbeat=0)
    [became] = [
        change
        for node in predicted(drained_cluster(WEB), drain("a1"), silent).nodes
        for change in node.changes
        if (node.node, change.value) == ("b1", "Unknown")
    ]
    assert became.certainty == CERTAIN


def test_nothing_is_counted_of_pods_that_a_taint_evicts_as_well() -> None:
    taint = make_event(3, "taint", "a1", taint="maintenance:NoExecute")
    prediction = predicted(drained_cluster(WEB), drain("a1"), taint)
    assert {one.controller for one in prediction.evictions} == {"eviction-api", "taint-eviction"}
    assert [one for one in prediction.joint if one.scope == "node/a1"] == []


def test_readiness_in_a_range_widens_what_waits_for_it() -> None:
    def width(low: float, high: float) -> float:
        ready = ns(low), ns(high)
        [*_, last] = predicted(drained_cluster(WEB), drain("a1"), assume_ready=ready).evictions
        return last.latest_seconds - last.earliest_seconds

    assert width(3, 40) > width(3, 3) + 30


def test_a_replacement_that_may_never_be_ready_makes_the_end_open() -> None:
    prediction = predicted(drained_cluster(WEB), drain("a1"), assume_ready=(ns(3), None))
    report = only_drain(prediction)
    assert report.end_earliest_seconds is not None
    assert (report.end_latest_seconds, report.exit_code, report.end_reason) == (None, None, None)
    assert {eviction.certainty for eviction in prediction.evictions} == {POSSIBLE}


def test_what_happens_after_the_horizon_is_left_out_or_not_certain() -> None:
    prediction = predicted(drained_cluster(WEB), drain("a1"), horizon=5)
    assert all(eviction.latest_seconds <= 5 for eviction in prediction.evictions)
    assert all(eviction.certainty == POSSIBLE for eviction in prediction.evictions)


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (predicted(drained_cluster(WEB), drain("a1")) for _ in range(2))
    assert first == second


def test_a_stateful_sets_pod_may_be_evicted_again_where_its_replacement_lands() -> None:
    db = App("db", ["a1", "b1"], kind="StatefulSet", grace=1)
    prediction = predicted(drained_cluster(db), drain("a1"), drain("a2", at=20))
    [first, again] = [eviction for eviction in prediction.evictions if eviction.pod == "db-0"]
    assert (first.node, first.certainty) == ("a1", CERTAIN)
    assert (again.node, again.certainty, again.uid) == ("a2", POSSIBLE, "")
    assert again.earliest_seconds > 20
    assert "replacement-may-be-drained" in codes(prediction)


def test_a_redacted_snapshot_predicts_the_same_but_for_the_names() -> None:
    db = App("db", ["a1", "a1", "b1"], kind="StatefulSet", most=1)
    unready = App("sick", ["a1", "b1", "b1"], least=1, unready=[0], policy="AlwaysAllow")
    snapshot = drained_cluster(WEB, FREE, db, unready)
    # Nobody can delete it, which its pseudonym does not tell.
    namespaces = Infrastructure(namespaces=(Namespace("default", phase="Active"),))
    snapshot = replace(snapshot, infrastructure=namespaces)
    names = pseudonyms(snapshot, b"key")

    def told(snapshot: ClusterSnapshot, node: str) -> list[object]:
        prediction = predicted(snapshot, drain(node))
        report = only_drain(prediction)
        ends = (report.end_earliest_seconds, report.end_latest_seconds, report.exit_code)
        waits = [(one.from_seconds, one.until_latest_seconds) for one in report.waiting]
        return [
            *ends,
            *waits,
            *([w.latest_seconds for w in e.windows] for e in prediction.evictions),
        ]

    assert told(redact(snapshot, b"key"), names["a1"]) == told(snapshot, "a1")


@pytest.mark.parametrize("seed", range(3))
def test_no_drain_ends_before_its_last_wait_can_be_over(seed: int) -> None:
    world = draw_drained_world(random.Random(seed))
    prediction = predict(*world, assume_ready=WIDE)
    for report in prediction.drains:
        over = [wait.until_latest_seconds for wait in report.waiting]
        if report.end_latest_seconds is not None:
            assert report.end_latest_seconds >= max(
                (at for at in over if at is not None), default=0
            )


def test_readiness_anywhere_in_a_range_leaves_no_holes_but_before_the_first_retry() -> None:
    snapshot = drained_cluster(App("web", ["a1"] * 4, most=1))
    prediction = predict(snapshot, drains(drain("a1")), CONFIGURATION, assume_ready=WIDE)
    for eviction in prediction.evictions:
        at_once, later = eviction.windows
        assert at_once.latest_seconds < 2
        # Whoever is refused asks again 5 s later, and may have to until the last of four was Ready.
        assert 5 < later.earliest_seconds < 7
        assert later.latest_seconds > 180


# -- waits and ends -----------------------------------------------------------------------------------


def test_a_drain_without_end_is_told_with_the_budget_that_it_waits_for() -> None:
    prediction = predicted(drained_cluster(FULL), drain("a1"))
    report = only_drain(prediction)
    assert (report.end_earliest_seconds, report.end_latest_seconds) == (None, None)
    assert (report.exit_code, report.end_reason) == (None, "never")
    [wait] = report.waiting
    assert (wait.pod, wait.budget, wait.ends) == ("default/web-0", "default/web", "never")
    assert (wait.until_earliest_seconds, wait.until_latest_seconds) == (None, None)
    assert {"drain-never-ends", "budget-allows-nothing"} <= codes(prediction)
    assert [(kept.pod, kept.code) for kept in prediction.kept] == [("web-0", "budget-waits")]


@pytest.mark.parametrize(
    "kind", ["ReplicaSet", pytest.param("StatefulSet", marks=pytest.mark.slow)]
)
def test_a_budget_whose_owner_lacks_a_pod_may_allow_one_when_it_is_made(kind: str) -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1"], kind, least=2))
    wanting = tuple(replace(one, replicas=3) for one in snapshot.workloads)
    short = replace(snapshot, workloads=wanting)
    assert "budget-allows-nothing" not in codes(predicted(short, drain("a1", timeout_ns=ns(9))))


def test_a_node_that_kubectl_never_comes_to_has_no_start() -> None:
    prediction = predicted(drained_cluster(FULL, App("free", ["a2", "b1"])), drain("a1", "a2"))
    second = prediction.drains[1]
    assert (second.start_seconds, second.end_reason) == (None, "never")
    assert ("free-0", "drain-not-reached") in {(kept.pod, kept.code) for kept in prediction.kept}


def test_of_a_pod_on_a_node_that_kubectl_may_come_to_it_is_not_said_that_it_never_does() -> None:
    stuck, both = App("web", ["a1", "a1", "b1"], most=1), App("two", ["a2", "b1"], least=1)
    snapshot = drained_cluster(stuck, both, budgets=[make_budget("z", app="two", most=1)])
    prediction = predict(
        snapshot, drains(drain("a1", "a2")), CONFIGURATION, assume_ready=(ns(300), None)
    )
    assert prediction.drains[1].start_seconds is not None
    assert {(kept.pod, kept.code) for kept in prediction.kept} == {
        ("two-0", "drain-perhaps-not-reached")
    }


def test_several_budgets_are_a_failure_and_not_a_wait() -> None:
    snapshot = drained_cluster(
        App("web", ["a1", "b1"], least=1), budgets=[make_budget("z", app="web", most=1)]
    )
    prediction = predicted(snapshot, drain("a1"))
    report = only_drain(prediction)
    assert [(one.pod, one.budgets) for one in report.failed] == [
        ("default/web-0", ("default/web", "default/z"))
    ]
    assert (report.waiting, report.exit_code, report.end_reason) == ((), 1, "error")
    assert "two-budgets" in codes(prediction)


def test_a_uid_of_the_input_never_makes_a_pod_a_replacement() -> None:
    snapshot = drained_cluster(FREE)
    odd = tuple(replace(pod, uid=f"replacement {pod.name}") for pod in snapshot.pods)
    prediction = predicted(replace(snapshot, pods=odd), drain("a1"))
    assert [one.pod for one in prediction.evictions] == ["free-0"]


def test_a_wait_names_one_budget_in_json_and_holds_several_apart() -> None:
    one = WaitingPod("default/p", "default/b", 0.0, None, None, "never", CERTAIN)
    several = replace(one, budget="default/a, default/b", budgets=("default/a", "default/b"))
    assert "budgets" not in msgspec.to_builtins(one)
    assert one.every_budget == ("default/b",)
    read = msgspec.json.decode(msgspec.json.encode(several), type=WaitingPod)
    assert read.every_budget == ("default/a", "default/b")


def test_a_refused_node_names_every_pod_and_the_flag() -> None:
    prediction = predicted(drained_cluster(FREE, App("bare", ["a1"], kind="")), drain("a1"))
    report = only_drain(prediction)
    assert [(one.pod, one.reason) for one in report.refused] == [("default/bare-0", "unmanaged")]
    assert (prediction.evictions, report.exit_code) == ((), 1)
    assert {kept.code for kept in prediction.kept} == {"drain-refused"}


def test_budgets_that_may_not_be_read_leave_the_end_and_every_eviction_open() -> None:
    snapshot = replace(drained_cluster(FREE), denied=("PodDisruptionBudget",))
    prediction = predicted(snapshot, drain("a1"))
    assert {eviction.certainty for eviction in prediction.evictions} == {POSSIBLE}
    report = only_drain(prediction)
    assert (report.end_latest_seconds, report.exit_code) == (None, None)
    assert "budget-not-readable" in codes(prediction)


def test_budgets_that_are_not_in_the_input_make_evictions_possible_only() -> None:
    listed = drained_cluster(FREE)
    unlisted = replace(listed, kinds_seen=("Lease", "Node", "Pod"))
    assert predicted(listed, drain("a1")).evictions[0].certainty == CERTAIN
    prediction = predicted(unlisted, drain("a1"))
    assert prediction.evictions[0].certainty == POSSIBLE
    assert "budget-not-readable" in codes(prediction)


def test_a_drain_asks_budgets_and_is_not_told_to_bypass_them_as_a_taint_is() -> None:
    snapshot = drained_cluster(WEB)
    assert "disruption-budget-bypassed" not in codes(predicted(snapshot, drain("a1")))
    taint = make_event(1, "taint", "a1", taint="x=y:NoExecute")
    assert "disruption-budget-bypassed" in codes(predicted(snapshot, taint))


def test_a_controller_that_is_back_within_a_window_lets_budgets_recover_within_it() -> None:
    events = (
        make_event(0.5, "controller-stop"),
        drain("a1"),
        make_event(20, "controller-start", within_ns=ns(30)),
    )
    prediction = predicted(drained_cluster(WEB), *events, horizon=200)
    report = only_drain(prediction)
    assert report.end_earliest_seconds is not None
    assert report.end_latest_seconds is not None
    # The second pod goes when the first one's replacement, created by the new process, is Ready.
    assert report.end_earliest_seconds < 28
    assert report.end_latest_seconds > 50 + 3


def test_a_scenario_without_a_drain_has_none_and_assumes_nothing_about_them() -> None:
    taint = make_event(1, "taint", "a1", taint="x=y:NoExecute")
    prediction = predicted(drained_cluster(WEB), taint)
    assert prediction.drains == ()
    assert not any("assume-ready" in line for line in prediction.inputs.assumptions)


def test_a_taint_on_a_drained_node_evicts_what_the_drain_leaves() -> None:
    events = drain("a1"), make_event(20, "taint", "a1", taint="x=y:NoExecute")
    prediction = predicted(drained_cluster(FULL, FREE), *events, horizon=60)
    by_pod = {(e.pod, e.controller): e for e in prediction.evictions}
    assert by_pod["free-0", "eviction-api"].certainty == CERTAIN
    assert by_pod["web-0", "taint-eviction"].certainty == CERTAIN
    # Nobody asks a budget about a pod that is terminating: kubectl's next try is let through.
    assert by_pod["web-0", "eviction-api"].earliest_seconds >= 20


def test_a_pod_that_one_of_two_surely_deletes_goes_for_certain_whoever_it_is() -> None:
    taint = make_event(3, "taint", "a1", taint="x=y:NoExecute")
    prediction = predicted(drained_cluster(WEB, FREE), drain("a1"), taint, horizon=100)
    of_web = [one for one in prediction.evictions if one.pod.startswith("web")]
    assert {one.certainty for one in of_web} == {POSSIBLE}
    assert prediction.evicted.by_somebody == {"default/web-0", "default/web-1"}
    assert prediction.evicted.certain == {"default/free-0", "default/web-0", "default/web-1"}
    assert {one.pod: (one.least, one.most) for one in prediction.joint} == {
        "default/web-0": (1, 1),
        "default/web-1": (1, 1),
    }


def test_nobody_surely_deletes_a_pod_whose_budgets_are_not_known() -> None:
    unlisted = replace(drained_cluster(WEB), kinds_seen=("Lease", "Node", "Pod"), budgets=())
    taint = make_event(3, "taint", "a1", taint="x=y:NoExecute")
    assert predicted(unlisted, drain("a1"), taint).evicted.by_somebody == frozenset()


def test_an_object_that_two_controllers_delete_ends_once_and_not_before_it_is_deleted() -> None:
    deleted = make_event(3, "node-delete", "a1")
    prediction = predicted(drained_cluster(WEB), drain("a1"), deleted, horizon=200)
    assert {one.controller for one in prediction.evictions} == {"eviction-api", "pod-gc"}
    ends: dict[str, set[float | None]] = {}
    for one in prediction.evictions:
        ends.setdefault(one.pod, set()).add(one.gone.latest_seconds)
        assert one.gone.earliest_seconds is not None
        assert one.gone.earliest_seconds >= one.earliest_seconds
    assert {len(found) for found in ends.values()} == {1}


def test_a_drain_that_ends_beyond_the_horizon_is_going_on_at_it_and_names_what_waits() -> None:
    prediction = predicted(drained_cluster(WEB, FREE), drain("a1", "b1"), horizon=4)
    first, second = prediction.drains
    assert (first.end_earliest_seconds, first.end_reason, first.exit_code) == (
        None,
        "horizon",
        None,
    )
    assert {(one.pod, one.ends) for one in first.waiting} == {
        ("default/web-0", "horizon"),
        ("default/web-1", "horizon"),
    }
    assert (second.start_seconds, second.end_reason) == (None, "horizon")


def test_of_an_end_that_may_lie_beyond_the_horizon_only_the_earliest_is_known() -> None:
    snapshot = drained_cluster(FREE)
    whole = only_drain(predicted(snapshot, drain("a1")))
    cut = only_drain(predicted(snapshot, drain("a1"), horizon=20))
    assert whole.end_latest_seconds is not None
    assert whole.end_latest_seconds > 20
    assert cut.end_earliest_seconds == whole.end_earliest_seconds
    assert (cut.end_latest_seconds, cut.end_reason) == (None, "drained")


def test_pods_that_the_filters_leave_alone_are_told_with_the_filter() -> None:
    snapshot = drained_cluster(FREE)
    owner = OwnerReference("DaemonSet", "agent", "u", controller=True, api_version="apps/v1")
    agent = replace(make_pod("agent", "a1"), owner_references=(owner,))
    static = replace(make_pod("static", "a1"), mirror=True)
    snapshot = replace(
        snapshot,
        pods=(*snapshot.pods, agent, static),
        workloads=(*snapshot.workloads, Workload("DaemonSet", "default", "agent", "u", 1)),
    )
    report = only_drain(predicted(snapshot, drain("a1", ignore_daemonsets=True)))
    assert [(one.pod, one.reason) for one in report.skipped] == [
        ("default/agent", "daemon-set"),
        ("default/static", "mirror-pod"),
    ]


def test_only_coupled_pods_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    from kubectl_evictplan.windows.drains import world as drain_world

    crowd = [App(f"other{n}", ["b1", "b2"] * 20, most=1) for n in range(5)]
    scenario: Scenario = drains(drain("a1"))
    world = drain_world.drain_world(drained_cluster(WEB, FREE, *crowd), scenario, CONFIGURATION)
    names = sorted(pod.name for pod in world.snapshot.pods)
    assert names == ["free-0", "web-0", "web-1", "web-2"]
    assert [budget.name for budget in world.budgets] == ["web"]


def test_a_failure_that_may_come_after_the_horizon_is_not_certain() -> None:
    two = App("two", ["a2", "b1"], least=1)
    snapshot = drained_cluster(FREE, two, budgets=[make_budget("z", app="two", most=1)])
    told = {
        horizon: predicted(snapshot, drain("a1", "a2"), horizon=horizon).drains[1].failed[0]
        for horizon in (20, 60)
    }
    assert {horizon: one.certainty for horizon, one in told.items()} == {
        20: "possible",
        60: "certain",
    }
