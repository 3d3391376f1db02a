"""What is proven of drains, without any run."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import epoch_ns, make_event, ns
from drawn.drain_worlds import (
    CONFIGURATION,
    READY,
    App,
    drain,
    drained_cluster,
    drains,
    make_budget,
    proven,
    row,
    synced,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import EVICTION_API, DrainEnd, NodeDrainEnded
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.replication import missing_pods
from kubectl_evictplan.kube.finalizers import JOB_TRACKING
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    OwnerReference,
    PodWebhook,
    Workload,
)
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Prediction, Sourced
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.drains.allowance import Allowance, evictions_in_turn
from kubectl_evictplan.windows.drains.world import drain_world

FREE = App("free", ["a1", "a1", "b1"])
# Of its three pods one may be away.
WEB = App("web", ["a1", "a1", "b1"], most=1)
DRAINED = frozenset((DrainEnd.DRAINED,))
BUDGET = "PodDisruptionBudget"


def seconds(spans: Any) -> list[tuple[float, float]]:
    return [(round(low / 1e9, 3), round(high / 1e9, 3)) for low, high in spans]


# -- one node ------------------------------------------------------------------------------------------


def test_without_a_budget_a_window_is_the_sum_of_the_steps_and_exact() -> None:
    found = row(proven(drained_cluster(FREE), drain("a1", at=1)), "free-0")
    # Start of kubectl 25 to 250 ms, a cordon 2 to 40, the list 4 to 150, arrival 0 to 25, the answer 2 to 40.
    assert seconds(found.spans) == [(1.033, 1.505)]
    assert (found.certain, found.exact) == (True, True)


def test_kubectl_is_through_with_a_node_at_a_look_after_the_last_pod_is_gone() -> None:
    bounds = proven(drained_cluster(FREE), drain("a1", at=1))
    [turn] = bounds.turns.values()
    assert turn.end is not None
    # At the earliest 150 ms after the eviction, seen 1 s after the first look; at the latest 30.6 s after it.
    assert seconds([turn.end]) == [(2.034, 32.535)]
    assert (turn.reasons, bounds.exit_codes) == (DRAINED, {0: frozenset({0})})


def test_the_second_of_a_budget_goes_at_a_retry_after_the_replacement_of_the_first_is_ready() -> (
    None
):
    first, second = evictions_in_turn(Allowance(1, (), (ns(7), ns(8)), 9, 0, False), 2, 0) or ()
    assert seconds(first.spans) == [(0.004, 0.145)]
    # Every 5.003 to 5.07 s: the try after 5 s is too early, and so may no other be.
    assert [low for low, _ in seconds(second.spans)] == [10.01]
    assert (first.held_up, second.held_up, second.certain) == (False, True, True)


def test_writes_of_the_budget_can_hold_up_a_request_as_often_as_others_are_evicted() -> None:
    three = evictions_in_turn(Allowance(3, (), None, 0, 0, False), 3, 0) or ()
    latest = [one.within[1] for one in three]
    assert latest[1] - latest[0] == latest[2] - latest[1] == 590_000_000


def test_whom_a_closed_budget_refuses_again_when_it_is_written_asks_in_the_same_rhythm() -> None:
    # Two pods must be Ready again before anybody may go: when the first of them is, the budget is written and stays closed.
    coming = (ns(9), ns(10)), (ns(11), ns(15))
    given = Allowance(-1, coming, None, 0, 0, False, one_at_a_time=True)
    [found] = evictions_in_turn(given, 1, 0) or ()
    # Arrival 25 ms, three tries of 5.07 s, the answer with each of them, and then 120 ms until the DELETE.
    assert found.within[1] == pytest.approx(ns(0.025 + 3 * 5.07 + 0.12), abs=1000)


def test_a_budget_that_allows_nothing_keeps_kubectl_for_ever() -> None:
    full = App("web", ["a1", "b1"], least="100%")
    bounds = proven(drained_cluster(full, FREE), drain("a1", "b1"))
    first = next(iter(bounds.turns.values()))
    assert (first.end, first.reasons) == (None, {None})
    assert bounds.exit_codes == {0: frozenset({None})}
    assert [drain.node for drain in bounds.never_begun] == ["b1"]
    assert row(bounds, "free-0").certain


def test_where_a_replacement_may_never_be_ready_only_who_needs_none_is_certain() -> None:
    alone = App("one", ["a1", "b1"], most=1)
    bounds = proven(drained_cluster(WEB, alone), drain("a1"), ready=(ns(3), None))
    assert {key.pod for key in bounds.rows} == {"default/one-0"}
    [turn] = bounds.turns.values()
    assert turn.end is not None
    assert turn.end.latest_ns is None
    assert bounds.exit_codes == {0: frozenset({0, None})}


def rolled_out(*unready: int) -> ClusterSnapshot:
    """Deployment web between two ReplicaSets, two pods of each; one of its four pods may be away."""
    apps = App("old", ["a1", "b1"]), App("new", ["a1", "b2"], unready=unready)
    above = OwnerReference("Deployment", "web", "uid-web", controller=True)
    snapshot = drained_cluster(
        *apps, budgets=[replace(make_budget("web", most=1), match_labels={})]
    )
    sets = tuple(replace(one, owner_references=(above,)) for one in snapshot.workloads)
    workloads = (Workload("Deployment", "default", "web", "uid-web", 4), *sets)
    return synced(replace(snapshot, workloads=workloads))


def test_replica_sets_of_one_deployment_are_one_owner_for_its_budget() -> None:
    bounds = proven(rolled_out(), drain("a1"))
    assert [row(bounds, pod).certain for pod in ("old-0", "new-0")] == [True, True]
    assert bounds.exit_codes == {0: frozenset({0})}
    stuck = proven(rolled_out(1), drain("a1", timeout_ns=ns(12)))
    assert (stuck.rows, stuck.exit_codes) == ({}, {0: frozenset({1})})


def test_a_wish_of_two_owners_depends_on_who_is_there_and_nothing_is_proven() -> None:
    apart = rolled_out()
    sets = tuple(replace(one, owner_references=()) for one in apart.workloads)
    assert proven(replace(apart, workloads=sets), drain("a1")).rows == {}


def leaving(left: float, **about: Any) -> ClusterSnapshot:
    """Two pods of free on a1, of which the second terminates and has so many seconds left."""
    snapshot = drained_cluster(App("free", ["a1", "a1", "b1", "b1"]))
    first, second, *rest = snapshot.pods
    end_ns = epoch_ns(left)
    end = replace(second, deletion_timestamp_ns=end_ns, deletion_grace_period_seconds=30)
    sets = tuple(replace(one, replicas=3) for one in snapshot.workloads)
    return replace(snapshot, pods=(first, replace(end, **about), *rest), workloads=sets)


def test_beside_a_pod_that_terminates_already_the_others_are_as_certain_as_without_it() -> None:
    found = proven(leaving(20), drain("a1", at=1))
    assert row(found, "free-0") == row(proven(drained_cluster(FREE), drain("a1", at=1)), "free-0")
    # It may be gone before kubectl lists pods; nobody waits for it longer than its own grace period.
    assert not row(found, "free-1").certain
    assert found.exit_codes == {0: frozenset({0})}
    late = proven(leaving(90), drain("a1", at=1, timeout_ns=ns(60)))
    assert row(late, "free-0").certain
    assert late.exit_codes == {0: frozenset({0, 1})}


def test_a_terminating_pod_that_nobody_ends_leaves_only_the_end_of_the_drain_open() -> None:
    for held in (leaving(20, finalizers=("example.com/held",)), leaving(-600)):
        found = proven(held, drain("a1"))
        assert row(found, "free-0").certain
        [turn] = found.turns.values()
        assert turn.end is not None
        assert turn.end.latest_ns is None
        assert (found.exit_codes, found.sure.exit_codes) == ({0: frozenset({0, None})}, {})


def leaving_under_a_budget(wanted: int) -> ClusterSnapshot:
    """Three of web, of which one may be away, and a fourth on b2 that terminates; its owner wants so many."""
    snapshot = drained_cluster(App("web", ["a1", "a1", "b1", "b2"], most=1))
    *rest, last = snapshot.pods
    end = replace(last, deletion_timestamp_ns=epoch_ns(20), deletion_grace_period_seconds=30)
    workloads = tuple(replace(one, replicas=wanted) for one in snapshot.workloads)
    return synced(replace(snapshot, pods=(*rest, end), workloads=workloads))


def test_a_budget_decides_as_without_the_pod_that_terminates_if_nobody_has_to_replace_it() -> None:
    replaced = proven(leaving_under_a_budget(3), drain("a1"))
    alone = proven(drained_cluster(App("web", ["a1", "a1", "b1"], most=1)), drain("a1"))
    assert replaced.rows == alone.rows
    assert replaced.exit_codes == {0: frozenset({0})}
    # Its replacement is Ready nobody knows when.
    assert proven(leaving_under_a_budget(4), drain("a1")).rows == {}


def test_a_terminating_pod_that_kubectl_may_refuse_leaves_open_whether_anybody_goes() -> None:
    bounds = proven(leaving(20, owner_references=()), drain("a1"))
    assert not any(row.certain for row in bounds.rows.values())
    [turn] = bounds.turns.values()
    assert DrainEnd.REFUSED in turn.reasons and DrainEnd.DRAINED in turn.reasons


def test_who_finds_a_budget_closed_meets_no_writes_of_it() -> None:
    one = proven(drained_cluster(App("web", ["a1", "a1", "b1"], least=2)), drain("a1", at=1))
    _, (_, last) = seconds(row(one, "web-0").spans)
    # The second one may lose to the first, and to the end of its object when the budget has opened again: not to what
    # is written before that.
    assert last == pytest.approx(1.585 + 5.07 + 2 * 0.59)
    # Where two may go at a time each write may come while it is open.
    two = proven(drained_cluster(App("web", ["a1"] * 3 + ["b1"], least=2)), drain("a1", at=1))
    assert seconds(row(two, "web-0").spans)[-1][1] > last + 1


# -- several nodes -------------------------------------------------------------------------------------


def test_nodes_that_a_budget_couples_are_one_account() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1, grace=1)
    slow = proven(drained_cluster(web), drain("a1", "b1", at=1), ready=(ns(60), ns(60)))
    # The second node is begun after 2 s, and waits for the replacement of the first one's pod.
    assert slow.turns
    begun = max(turn.start for turn in slow.turns.values())
    assert begun[1] < ns(5)
    [(low, high)] = seconds([(row(slow, "web-1").spans[0][0], row(slow, "web-1").spans[-1][1])])
    assert 61 < low < high < 71
    assert row(slow, "web-1").certain


def test_what_is_over_before_anything_else_happens_is_certain_and_nothing_later() -> None:
    taint = make_event(20, "taint", "a1", taint="x=y:NoExecute")
    bounds = proven(drained_cluster(FREE), drain("a1", at=1), taint)
    assert row(bounds, "free-0").certain
    [turn] = bounds.turns.values()
    # What else happens may take the pods away, or bring some that kubectl refuses the node for.
    assert DrainEnd.REFUSED in turn.reasons
    assert (bounds.exit_codes, bounds.sure.evicted) == ({0: frozenset({0, 1})}, set())


# -- what is said of it ----------------------------------------------------------------------------------


def predicted(snapshot: ClusterSnapshot, *events: ScenarioEvent) -> Prediction:
    return predict(snapshot, drains(*events), CONFIGURATION, assume_ready=READY)


def counted(prediction: Prediction) -> tuple[int, int, int]:
    found = prediction.inputs.coverage
    assert found is not None
    return found.exact, found.outer_bound, found.explored


@pytest.mark.parametrize(
    ("app", "expected"), [(FREE, (2, 0, 0)), (WEB, (0, 2, 0))], ids=["no budget", "a budget"]
)
def test_coverage_counts_sums_as_exact_and_what_budgets_decide_as_outer_bounds(
    app: App, expected: tuple[int, int, int]
) -> None:
    assert counted(predicted(drained_cluster(app), drain("a1"))) == expected


def test_whom_a_budget_keeps_that_somebody_else_takes_pods_from_may_go_at_any_time() -> None:
    deleted = make_event(1.1, "pod-delete", pods="default/web-2")
    prediction = predicted(drained_cluster(WEB), drain("a1"), deleted)
    assert counted(prediction) == (0, len(prediction.evictions), 0)
    assert {one.certainty for one in prediction.evictions} == {POSSIBLE}
    assert {one.latest_seconds for one in prediction.evictions} == {86_400.0}
    assert {one.exit_code for one in prediction.drains} == {None}


def test_whom_something_unseen_may_keep_may_go_at_any_time_from_an_instant_on() -> None:
    snapshot = drained_cluster(WEB)
    unread = replace(snapshot, kinds_seen=tuple(k for k in snapshot.kinds_seen if k != BUDGET))
    webhook = PodWebhook("guard", of_deletion=False, of_eviction=True)
    asked = replace(drained_cluster(FREE), webhooks=(webhook,))
    for found in (replace(unread, budgets=()), asked):
        prediction = predicted(found, drain("a1"))
        assert counted(prediction) == (0, 2, 0)
        assert {one.certainty for one in prediction.evictions} == {POSSIBLE}
        assert {one.latest_seconds for one in prediction.evictions} == {86_400.0}
        assert prediction.inputs.horizon == Sourced("24h0m0s", "at most 24h")


# -- Jobs ------------------------------------------------------------------------------------------------


def test_a_pod_of_a_job_is_gone_when_the_job_controller_has_taken_its_finalizer() -> None:
    snapshot = drained_cluster(App("sums", ["a1", "b1"], "Job", grace=10))
    tracked = tuple(replace(pod, finalizers=(JOB_TRACKING,)) for pod in snapshot.pods)
    held = replace(snapshot, pods=tracked)
    [free], [turn] = (proven(one, drain("a1")).turns.values() for one in (snapshot, held))
    assert free.end is not None and free.end.latest_ns is not None and turn.end is not None
    assert turn.reasons == DRAINED
    assert 0 < (turn.end.latest_ns or 0) - free.end.latest_ns <= ns(2.3)
    # Nobody takes it where the controller does not run, or another one manages the Job.
    settings = ControllerSettings("1.37.0", flags={"controllers": "*,-job-controller"})
    alone = resolve_configuration(settings, ControlPlaneFlags())
    [report] = predict(held, drains(drain("a1")), alone, assume_ready=READY).drains
    assert (report.end_reason, report.exit_code) == ("never", None)
    elsewhere = tuple(replace(one, managed_elsewhere=True) for one in held.workloads)
    bounds = proven(replace(held, workloads=elsewhere), drain("a1"))
    assert bounds.exit_codes == {0: frozenset({None})}


def test_a_pod_that_kubectl_passes_over_is_as_certain_to_go_as_without_it() -> None:
    snapshot = drained_cluster(FREE)
    static = tuple(replace(pod, mirror=True) for pod in snapshot.pods)
    taint = make_event(5, "taint", "a1", taint="x=y:NoExecute")
    prediction = predicted(replace(snapshot, pods=static), drain("a1", at=1), taint)
    assert {one.certainty for one in prediction.evictions} == {CERTAIN}
    assert EVICTION_API not in {one.controller for one in prediction.evictions}


# -- what takes the ground from a proof ----------------------------------------------------------------------


def test_pods_of_a_node_that_is_gone_are_collected_so_their_budget_promises_nothing() -> None:
    for owner in ("", "ReplicaSet"):
        alone = App("w", ["a1"])
        lost = App("lost", ["gone"], owner)
        budget = replace(make_budget("both", least=1), match_labels={})
        snapshot = drained_cluster(alone, lost, budgets=[budget])
        assert [one.disruptions_allowed for one in snapshot.budgets] == [1]
        for timeout_ns in (0, ns(60)):
            bounds = proven(snapshot, drain("a1", at=100, timeout_ns=timeout_ns))
            assert {one.certain for one in bounds.rows.values()} <= {False}
            assert len(bounds.exit_codes[0]) == 2
            assert (bounds.sure.evicted, bounds.sure.exit_codes) == (set(), {})


def test_who_is_made_anew_for_a_pod_of_a_gone_node_may_be_there_before_kubectl_cordons() -> None:
    lost = App("lost", ["gone"], grace=120)
    bounds = proven(drained_cluster(FREE, lost), drain("a1", at=100))
    assert row(bounds, "free-0").certain
    [turn] = bounds.turns.values()
    assert turn.end is not None
    assert turn.end[1] - turn.start[0] > ns(120)


@pytest.mark.parametrize(("role", "end"), [({}, "drained"), ({"role": "leader"}, None)])
def test_a_new_pod_may_be_under_the_budget_of_a_sibling_that_no_drain_comes_to(
    role: dict[str, str], end: str | None
) -> None:
    budget = replace(make_budget("role", least=1), match_labels={"role": "leader"})
    snapshot = drained_cluster(App("web", ["a1", "b1"]), budgets=[budget])
    first, second = snapshot.pods
    pods = (first, replace(second, labels={**second.labels, **role}))
    scenario = drains(drain("a1"), drain("a2", at=100))
    found = predict(replace(snapshot, pods=pods), scenario, CONFIGURATION, assume_ready=READY)
    assert [one.end_reason for one in found.drains] == ["drained", end]


@pytest.mark.parametrize("replicas", [3, 2])
def test_a_new_pod_may_be_like_a_sibling_elsewhere_that_its_budget_does_not_cover(
    replicas: int,
) -> None:
    budget = replace(make_budget("role", least=1), match_labels={"role": "leader"})
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"]), budgets=[budget])
    sets = tuple(replace(one, replicas=replicas) for one in snapshot.workloads)
    for leaders in (2, 3):
        roles: list[dict[str, str]] = [{"role": "leader"} if n < leaders else {} for n in range(3)]
        pods = tuple(
            replace(pod, labels={**pod.labels, **role})
            for pod, role in zip(snapshot.pods, roles, strict=True)
        )
        made = synced(replace(snapshot, pods=pods, workloads=sets))
        found = proven(made, drain("a1", "b1"))
        # Of two leaders one goes, and nobody knows whether another one is made, so that the second may.
        sure = leaders == replicas == 3
        second = any(key.pod == "default/web-1" for key in found.rows)
        assert (second, found.sure.exit_codes) == (sure, {0: 0} if sure else {})


def ordered(*budgets: str) -> ClusterSnapshot:
    """Pods s-0 to s-3 of a StatefulSet on a1, a1, a2, a2; of each budget ("" none) one may be away."""
    snapshot = drained_cluster(App("s", ["a1", "a1", "a2", "a2"], "StatefulSet", grace=10))
    pods = tuple(
        replace(pod, labels={**pod.labels, "app": name or "nobody"})
        for pod, name in zip(snapshot.pods, budgets, strict=True)
    )
    names = sorted({*budgets} - {""})
    found = tuple(make_budget(name, least=budgets.count(name) - 1) for name in names)
    return synced(replace(snapshot, pods=pods, budgets=found))


def test_in_order_a_pod_is_made_at_once_only_where_one_budget_limits_all_that_go() -> None:
    event = drain("a1", "a2")
    at_once = row(proven(ordered("x", "x", "x", "x"), event), "s-3")
    assert at_once.certain
    for budgets in (("x", "y", "y", "x"), ("x", "", "x", "x")):
        later = row(proven(ordered(*budgets), event), "s-3")
        assert later.certain
        assert later.spans[-1][1] > at_once.spans[-1][1] + ns(10)
    # Those that stay where they are need no budget.
    assert row(proven(ordered("x", "x", "", ""), drain("a1")), "s-0").certain


def test_a_refusal_is_certain_only_where_nobody_else_comes_to_the_node() -> None:
    bare = App("bare", ["a1"], "")
    refused = proven(drained_cluster(bare, FREE), drain("a1", at=60))
    assert refused.exit_codes == {0: frozenset({1})}
    first = drain("a1", at=1, force=True, pod_selector="app=bare")
    bounds = proven(drained_cluster(bare, FREE), first, drain("a1", at=60))
    assert 1 not in bounds.sure.exit_codes
    # Who was not evicted because of it may be after all.
    assert bounds.left_alone == frozenset()


def wanting(app: App, replicas: int) -> ClusterSnapshot:
    """The app, whose owner wants more pods than there are."""
    snapshot = drained_cluster(app)
    sets = tuple(replace(one, replicas=replicas) for one in snapshot.workloads)
    return synced(replace(snapshot, workloads=sets))


def test_an_owner_that_lacks_pods_makes_them_so_its_budget_never_keeps_kubectl_for_ever() -> None:
    for kind in ("ReplicaSet", "StatefulSet"):
        app = App("r", ["b1", "a1"], kind, least=2)
        assert {None} in [
            turn.reasons for turn in proven(drained_cluster(app), drain("a1")).turns.values()
        ]
        bounds = proven(wanting(app, 3), drain("a1"))
        assert (bounds.rows, bounds.exit_codes) == ({}, {0: frozenset({0, None})})
    short = wanting(App("r", ["b1", "a1"], least=2), 3)
    assert missing_pods(short) == {("ReplicaSet", "default", "r"): 1}
    gone = replace(
        short, workloads=tuple(replace(one, being_deleted=True) for one in short.workloads)
    )
    assert missing_pods(gone) == {}
    timeline = simulate(short, drains(drain("a1")), CONFIGURATION)
    assert [one.reason for one in timeline.entries if isinstance(one, NodeDrainEnded)] == [
        DrainEnd.DRAINED
    ]


@pytest.mark.parametrize(("replicas", "latest"), [(2, 1), (3, 33)])
def test_kubectl_may_wait_for_what_an_owner_without_a_budget_makes_because_it_lacks_it(
    replicas: int, latest: float
) -> None:
    prediction = predicted(wanting(App("web", ["b1", "b2"]), replicas), drain("a1", at=0))
    [told] = prediction.drains
    assert told.end_latest_seconds is not None
    assert latest - 1 < told.end_latest_seconds < latest


def test_no_owner_lacks_the_pods_that_are_left_out_of_the_world_of_a_drain() -> None:
    whole = drained_cluster(App("web", ["a1", "b1", "b2"]))
    world = drain_world(whole, drains(drain("a1")), CONFIGURATION).snapshot
    assert [pod.name for pod in world.pods] == ["web-0"]
    assert (world.left_out, missing_pods(world)) == ({"ReplicaSet/default/web": 2}, {})
    short = wanting(App("web", ["a1", "b1", "b2"]), 4)
    world = drain_world(short, drains(drain("a1")), CONFIGURATION).snapshot
    assert missing_pods(world) == {("ReplicaSet", "default", "web"): 1}


def test_a_node_that_is_named_twice_has_one_turn() -> None:
    assert drain("a1", "b1", "a1").nodes == ("a1", "b1")
    assert len(proven(drained_cluster(FREE), drain("a1", "a1")).turns) == 1


def test_who_may_come_may_have_the_finalizers_of_any_pod_of_its_owner() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], most=1), App("free", ["a2"]))
    first, drain_late = drain("a1", at=1), drain("a2", at=1.1)
    assert proven(snapshot, first, drain_late).sure.exit_codes == {0: 0, 1: 0}
    held = tuple(
        replace(pod, finalizers=("example.com/x",)) if pod.name == "web-1" else pod
        for pod in snapshot.pods
    )
    # The new pod of a1 may come to a2 before the second kubectl has cordoned it.
    assert 1 not in proven(replace(snapshot, pods=held), first, drain_late).sure.exit_codes


def test_a_stateful_set_of_which_a_budget_covers_one_pod_is_there_as_a_whole() -> None:
    web, db = App("web", ["a1", "b1"], least=1), App("db", ["b1", "b1", "b2"], kind="StatefulSet")
    cluster = drained_cluster(web, db)
    alike = [replace(p, labels={"app": "web"}) if p.name == "db-2" else p for p in cluster.pods]
    healthy = [
        replace(b, current_healthy=3, expected_pods=3, disruptions_allowed=2)
        for b in cluster.budgets
    ]
    cluster = replace(cluster, pods=tuple(alike), budgets=tuple(healthy))
    found = proven(cluster, drain("a1"))
    assert found.exit_codes == {0: {0}}
    assert [row.certain for row in found.rows.values()] == [True]
