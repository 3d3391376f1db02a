"""The ledger says what happened next to what was predicted, and never more than is known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from plans.ledger_worlds import (
    POD,
    START,
    at,
    deleted,
    entry_of,
    expectation,
    look,
    predicted,
    prediction_of,
)

from kubectl_evictplan.kube.objects import Taint, Warning
from kubectl_evictplan.kube.sightings import (
    Interval,
    SeenNode,
)
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.plans.document import AddTaint, Cordon, Evict
from kubectl_evictplan.plans.expectation import (
    GONE_BY_ANOTHER,
    NOT_DONE,
    Begun,
    Expectation,
    Start,
)
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.node_histories import node_histories
from kubectl_evictplan.plans.sightings import Cover, Gap, Look, OwnDeletion, Sightings
from kubectl_evictplan.prediction.document import (
    Eviction,
    NodeChange,
    NodeReport,
    TaintReference,
)


def test_a_deletion_is_the_deletion_timestamp_less_the_grace_period() -> None:
    entry = entry_of(expectation(predicted((5, 6))), look(20, deleted(POD, 5.5, grace=60)))
    assert entry.verdict == "inside"
    assert entry.deleted is not None
    assert (entry.deleted.earliest_seconds, entry.deleted.told_by) == (5.0, "deletion-timestamp")


@pytest.mark.parametrize("really", [5.0, 5.3, 5.999, 6.0, 7.5, 7.999])
def test_no_fraction_that_a_server_cuts_off_makes_a_deletion_outside(really: float) -> None:
    window = (really, really)
    assert entry_of(expectation(predicted(window)), look(20, deleted(POD, really))).verdict == (
        "inside"
    )


@pytest.mark.parametrize(
    ("seconds", "verdict", "off_by"),
    [(10.0, "inside", 0.0), (14.5, "inside", 0.0), (16.0, "outside", 3.0), (4.2, "outside", -5.0)],
)
def test_outside_is_what_lies_wholly_outside_by_more_than_a_second(
    seconds: float, verdict: str, off_by: float
) -> None:
    entry = entry_of(expectation(predicted((10, 13))), look(99, deleted(POD, seconds)))
    assert entry.verdict == verdict
    assert entry.off_by_seconds == pytest.approx(off_by, abs=1e-6)


def test_between_two_windows_is_outside_of_both() -> None:
    expected = expectation(predicted((10, 12), (30, 32)))
    entry = entry_of(expected, look(99, deleted(POD, 20)))
    assert (entry.verdict, entry.off_by_seconds) == ("outside", 8.0)


def test_a_second_delete_of_a_pod_that_goes_for_certain_explains_no_later_deletion() -> None:
    expected = expectation(predicted((10, 12)), predicted((60, 62)))
    assert entry_of(expected, look(99, deleted(POD, 61))).verdict == "outside"


def test_a_pod_that_was_certain_to_go_and_is_there_long_after_has_stayed() -> None:
    assert entry_of(expectation(predicted((10, 12))), look(20, POD)).verdict == (
        "predicted-but-stayed"
    )


def test_a_possible_eviction_that_did_not_come_is_no_surprise() -> None:
    expected = expectation(predicted((10, 12), certainty="possible"))
    assert entry_of(expected, look(20, POD)).verdict == "possible-did-not-happen"


def test_before_its_window_is_over_nothing_is_decided() -> None:
    assert entry_of(expectation(predicted((10, 12))), look(11.9, POD)).verdict == "not-yet-due"


def test_a_pod_that_vanished_was_deleted_between_two_looks() -> None:
    expected = expectation(predicted((10, 40)))
    entry = entry_of(expected, look(15, POD), look(17))
    assert entry.verdict == "inside"
    assert entry.deleted is not None
    assert entry.deleted.told_by == "disappearance"
    assert (entry.deleted.earliest_seconds, entry.deleted.latest_seconds) == (15.0, 17.0)


def test_a_pod_that_vanished_between_distant_looks_is_unknown_unless_no_window_is_near() -> None:
    near, far = expectation(predicted((10, 12))), expectation(predicted((100, 102)))
    looks = (look(5, POD), look(60))
    assert (entry_of(near, *looks).verdict, entry_of(near, *looks).why) == (
        "unknown",
        "vanished-unseen",
    )
    assert entry_of(far, *looks).verdict == "outside"


def test_a_look_that_would_not_have_shown_the_pod_tells_nothing_of_it() -> None:
    others = Cover(namespaces=frozenset({"kube-system"}))
    elsewhere = Cover(nodes=frozenset({"n2"}))
    for cover in (others, elsewhere):
        entry = entry_of(expectation(predicted((10, 12))), look(60, cover=cover))
        assert (entry.verdict, entry.why) == ("unknown", "not-observed")


def test_a_pod_of_the_same_name_and_another_uid_is_another_pod() -> None:
    newer = replace(POD, uid="u2", created_ns=at(11))
    expected = expectation(predicted((10, 12)))
    entry = entry_of(expected, look(9, POD), look(11.5, newer), look(30, newer))
    assert (entry.uid, entry.verdict) == ("u1", "inside")


def test_a_pod_of_another_cluster_is_never_taken_for_one_of_this_one() -> None:
    ledger = ledger_of(
        expectation(predicted((10, 12))),
        Sightings((look(60, replace(POD, uid="elsewhere")),)),
        START,
    )
    (entry,) = ledger.pods
    assert (entry.verdict, entry.uid) == ("unknown", "u1")
    assert ledger.oddities == {"no-known-pod": 1}


def test_a_pod_that_was_to_stay_and_went_is_not_predicted() -> None:
    kept = prediction_of("taint-basics-1.29.6").kept[0]
    row = replace(kept, namespace="default", pod="web", uid="u1", node="n1")
    entry = entry_of(expectation(kept=(row,)), look(60, deleted(POD, 20)))
    assert entry.verdict == "not-predicted"


def test_a_deletion_in_the_second_of_the_start_may_be_older_than_the_change() -> None:
    start = Start(Interval(at(0.5), at(0.5)), "given")
    expected = expectation(predicted((50, 60), pod="other", uid="u9"))
    other = replace(POD, uid="u9", name="other")
    ledger = ledger_of(expected, Sightings((look(20, deleted(POD, 0.2), other),)), start)
    entry = next(pod for pod in ledger.pods if pod.uid == "u1")
    assert (entry.verdict, entry.why) == ("unknown", "perhaps-before")
    assert not ledger.summary.left_windows


def test_what_no_prediction_can_know_is_told_and_does_not_count() -> None:
    newer = replace(POD, uid="u2", name="web-2", created_ns=at(11))
    finished = replace(POD, uid="u3", name="job", finished=True)
    expected = expectation(predicted((10, 12)))
    looks = (
        look(5, POD, finished),
        look(30, deleted(POD, 11), deleted(newer, 20), deleted(finished, 8)),
    )
    ledger = ledger_of(expected, Sightings(looks), START)
    assert {pod.pod: (pod.verdict, pod.why) for pod in ledger.pods} == {
        "web": ("inside", ""),
        "web-2": ("not-predicted", "created-later"),
        "job": ("not-predicted", "finished-before"),
    }
    assert not ledger.summary.left_windows


def test_a_new_pod_that_somebody_evicts_has_left_the_windows_unless_a_warning_said_so() -> None:
    newer = replace(POD, uid="u2", name="web-2", created_ns=at(11))
    for reason, codes, why in (
        ("EvictionByEvictionAPI", (), "evicted-later"),
        ("DeletionByTaintManager", (), "evicted-later"),
        ("PreemptionByScheduler", (), "created-later"),
        ("DeletionByTaintManager", ("replacement-may-return",), "created-later"),
        ("EvictionByEvictionAPI", ("replacement-may-return",), "evicted-later"),
        ("EvictionByEvictionAPI", ("replacement-may-be-drained",), "created-later"),
    ):
        expected = expectation(predicted((10, 12)))
        warnings = tuple(Warning(code, "it may", ("shop/web",)) for code in codes)
        expected = replace(expected, prediction=replace(expected.prediction, warnings=warnings))
        gone = replace(deleted(newer, 20), disruption=reason)
        ledger = ledger_of(
            expected, Sightings((look(5, POD), look(30, deleted(POD, 11), gone))), START
        )
        entry = next(pod for pod in ledger.pods if pod.uid == "u2")
        assert (entry.verdict, entry.why) == ("not-predicted", why), (reason, codes)
        assert ledger.summary.left_windows == (why == "evicted-later")


def test_what_happens_after_the_horizon_is_no_part_of_the_prediction() -> None:
    other = replace(POD, uid="u2", name="web-2")
    expected = expectation(predicted((10, 12)), horizon="1m")
    looks = (look(5, POD, other), look(900, deleted(POD, 11), deleted(other, 800)))
    assert [pod.uid for pod in ledger_of(expected, Sightings(looks), START).pods] == ["u1"]


# -- who ----------------------------------------------------------------------------------------------


def test_the_condition_says_who_and_the_first_who_marks_a_pod_is_believed() -> None:
    first = replace(deleted(POD, 11), disruption="DeletionByTaintManager")
    then = replace(first, disruption="DeletionByPodGC")
    entry = entry_of(expectation(predicted((10, 12))), look(20, first), look(60, then))
    assert entry.by is not None
    assert (entry.by.controller, entry.by.told_by) == ("taint-eviction", "condition")
    assert not entry.by_others


def test_somebody_else_who_deletes_a_pod_in_its_window_is_named() -> None:
    seen = replace(deleted(POD, 11), disruption="EvictionByEvictionAPI")
    ledger = ledger_of(expectation(predicted((10, 12))), Sightings((look(20, seen),)), START)
    assert (ledger.pods[0].verdict, ledger.pods[0].by_others) == ("inside", True)
    assert ledger.summary.by_others == 1


# -- clocks, gaps, operations ------------------------------------------------------------------------


def test_clocks_that_disagree_widen_what_is_known_and_are_told() -> None:
    expected = expectation(predicted((100, 102)))
    looks = (look(99, POD), look(103, deleted(POD, 20)))
    ledger = ledger_of(expected, Sightings(looks), START)
    assert ledger.pods[0].verdict == "inside"
    assert ledger.oddities == {"clocks-disagree": 1}


def test_gaps_and_what_may_not_be_read_are_part_of_the_ledger() -> None:
    seen = Sightings(
        (), gaps=(Gap(Interval(at(1), at(9)), "no answer"),), not_evaluated={"Pod": "forbidden"}
    )
    ledger = ledger_of(expectation(predicted((10, 12))), seen, START)
    assert (ledger.pods[0].verdict, ledger.pods[0].why) == ("unknown", "could-not-look")
    assert ledger.gaps[0].earliest_seconds == 1.0
    assert not ledger.summary.complete


@pytest.mark.parametrize("hidden", ["u1", ""])
def test_a_look_that_could_not_read_a_pod_never_shows_that_it_was_gone(hidden: str) -> None:
    last = replace(look(11), unreadable_pods=frozenset({hidden}))
    expected = expectation(predicted((10, 12)))
    seen = Sightings((look(9.5, POD), last, look(90, POD)), unreadable={"Pod": 1})
    assert ledger_of(expected, seen, START).pods[0].verdict == "predicted-but-stayed"
    seen = Sightings((look(9.5, POD), replace(last, at=look(90).at)), unreadable={"Pod": 1})
    ledger = ledger_of(expected, seen, START)
    assert (ledger.pods[0].verdict, ledger.pods[0].deleted) == ("unknown", None)
    assert ledger.unreadable == {"Pod": 1}
    other = replace(last, unreadable_pods=frozenset({"u7"}))
    seen = Sightings((look(9.5, POD), other))
    assert ledger_of(expected, seen, START).pods[0].deleted is not None


@pytest.mark.parametrize("hidden", ["n1", ""])
def test_a_look_that_could_not_read_a_node_never_shows_that_it_was_deleted(hidden: str) -> None:
    there, missing = look(1, nodes=(SeenNode("n1", "n"),)), look(9, nodes=())
    (gone,) = node_histories(Sightings((there, missing)), START.at.earliest_ns)["n1"].changes
    assert gone.what == "deleted"
    unread = replace(missing, unreadable_nodes=frozenset({hidden}))
    found = node_histories(Sightings((there, unread)), START.at.earliest_ns)["n1"]
    assert (found.changes, found.last_at) == ((), there.at)


TAINT = TaintReference("maint", "NoExecute")


def planned(*evictions: Eviction) -> Expectation:
    operations = (
        Cordon(1, 0.0, "n1"),
        AddTaint(2, 10.0, "n1", TAINT),
        Evict(3, 60.0, "n2", "default", "api", "u2"),
    )
    return replace(expectation(*evictions), operations=operations)


def test_windows_move_with_the_operation_that_causes_them() -> None:
    expected = planned(predicted((15, 16), taint=TAINT))
    begun = (Begun(1, Interval(at(0), at(0))), Begun(2, Interval(at(40), at(40.5))))
    seen = Sightings((look(120, deleted(POD, 45.2)),))
    (entry,) = ledger_of(expected, seen, START, begun).pods
    assert entry.verdict == "inside"
    assert (entry.windows[0].earliest_seconds, entry.windows[0].latest_seconds) == (45.0, 46.5)
    assert ledger_of(expected, seen, START).pods[0].verdict == "outside"


def test_the_taint_of_a_cordoned_node_counts_from_its_cordon_however_late_its_pods_are_evicted() -> (
    None
):
    change = NodeChange("taint-added", f"{UNSCHEDULABLE}:NoSchedule", "certain", 0.0, 0.0, 0.1)
    report = NodeReport("n1", "", "True", (), (change,))
    operations = (Cordon(1, 0.0, "n1"), Evict(2, 0.0, "n1", "default", "web", "u1"))
    expected = replace(expectation(nodes=(report,)), operations=operations)
    begun = (Begun(1, Interval(at(0), at(0.2))), Begun(2, Interval(at(120), at(120))))
    taint = Taint(UNSCHEDULABLE, "NoSchedule", time_added_ns=at(0))
    for seconds, verdict in ((0, "inside"), (40, "outside")):
        seen = SeenNode("n1", taints=(replace(taint, time_added_ns=at(seconds)),))
        looks = (Look(Interval(at(150), at(150)), nodes=(seen,)),)
        (entry,) = ledger_of(expected, Sightings(looks), START, begun).nodes
        assert (entry.verdict, entry.window.earliest_seconds) == (verdict, 0.0)


def test_what_an_operation_was_to_cause_that_never_was_is_not_due() -> None:
    expected = planned(predicted((15, 16), taint=TAINT))
    begun = (Begun(1, Interval(at(0), at(0))),)
    (entry,) = ledger_of(expected, Sightings((look(120, POD),)), START, begun).pods
    assert (entry.verdict, entry.why) == ("not-yet-due", "operation-not-done")
    (entry,) = ledger_of(expected, Sightings((look(120, deleted(POD, 15)),)), START, begun).pods
    assert (entry.verdict, entry.why) == ("not-predicted", "operation-not-done")


def test_what_stayed_because_its_taint_was_taken_back_did_not_leave_its_window() -> None:
    expected = planned(predicted((15, 16), taint=TAINT))
    for undone, verdict in ((14, "not-yet-due"), (99, "predicted-but-stayed")):
        begun = (Begun(2, Interval(at(10), at(10)), undone_ns=at(undone)),)
        ledger = ledger_of(expected, Sightings((look(120, POD),)), START, begun)
        (entry,) = ledger.pods
        back = {one.number: one.taken_back for one in ledger.operations}[2]
        assert back is not None
        assert back.earliest_seconds == undone
        assert entry.verdict == verdict
        assert entry.why == ("operation-taken-back" if undone == 14 else "")


def test_an_operation_of_which_nobody_knows_makes_its_pods_unknown_never_outside() -> None:
    expected = planned(predicted((15, 16), taint=TAINT))
    begun = (Begun(2, None, "unknown"),)
    for seen in (POD, deleted(POD, 50)):
        (entry,) = ledger_of(expected, Sightings((look(120, seen),)), START, begun).pods
        assert (entry.verdict, entry.why) == ("unknown", "operation-unknown")


def test_a_start_known_to_a_minute_moves_both_ends_of_a_window() -> None:
    start = Start(Interval(at(0), at(60)), "given")
    expected = expectation(predicted((10, 12)))
    for seconds, verdict in ((10, "inside"), (71, "inside"), (80, "outside")):
        ledger = ledger_of(expected, Sightings((look(99, deleted(POD, seconds)),)), start)
        assert ledger.pods[0].verdict == verdict


def test_what_we_evicted_ourselves_needs_nobody_who_looks() -> None:
    own = OwnDeletion("u1", Interval(at(5), at(5.1)), Interval(at(6), at(7)))
    expected = expectation(predicted((5, 6), controller="eviction-api"))
    entry = entry_of(expected, look(300), own=(own,))
    assert entry.verdict == "inside"
    assert entry.deleted is not None
    assert entry.deleted.told_by == "operation"
    assert entry.gone is not None
    assert entry.gone.latest_seconds == 7.0


# -- what was not reviewed, and what was not carried out ------------------------------------------------


def test_a_pod_made_before_its_node_was_changed_counts_though_the_plan_is_older() -> None:
    expected = planned(predicted((15, 16), taint=TAINT))
    begun = (Begun(1, Interval(at(0), at(0))), Begun(2, Interval(at(40), at(40.5))))
    for created, why in ((20, ""), (50, "created-later")):
        newer = replace(POD, uid="u9", name="precious", created_ns=at(created))
        seen = Sightings((look(120, deleted(POD, 45.2), deleted(newer, 55)),))
        ledger = ledger_of(expected, seen, START, begun)
        entry = next(pod for pod in ledger.pods if pod.uid == "u9")
        assert (entry.verdict, entry.why) == ("not-predicted", why)
        assert ledger.summary.left_windows == (not why)


def test_an_eviction_that_was_asked_for_and_refused_is_not_done() -> None:
    own = OwnDeletion("u3", Interval(at(61), at(61)))
    expected = planned(predicted((60, 70), uid="u2", pod="api", node="n2"))
    for refused, became in ((True, "not-done"), (False, "done")):
        begun = tuple(
            Begun(n, Interval(at(n), at(n)), refused=refused and n == 3) for n in (1, 2, 3)
        )
        ledger = ledger_of(expected, Sightings(own=(own,)), START, begun)
        assert ledger.operations[-1].outcome == became
        assert ledger.summary.operations.get("not-done", 0) == refused


def test_pods_that_are_all_gone_are_no_question_on_a_node_that_is_known_by_its_uid() -> None:
    expected = replace(expectation(predicted((10, 12))), node_uids=frozenset({"uid-n1"}))
    for uid, oddities in (("uid-n1", {}), ("uid-other", {"no-known-pod": 1})):
        seen = Sightings((look(60, nodes=(SeenNode("n1", uid),)),))
        assert ledger_of(expected, seen, START).oddities == oddities


def test_pods_that_are_all_gone_are_no_question_where_we_evicted_them_ourselves() -> None:
    seen = Sightings((look(60),), own=(OwnDeletion("u1", Interval(at(10), at(10))),))
    assert ledger_of(expectation(predicted((10, 12))), seen, START).oddities == {}


def test_a_pod_that_somebody_else_deleted_leaves_the_evictions_of_its_node_as_predicted() -> None:
    operations = tuple(
        Evict(number, 60.0, "n2", "default", pod, uid)
        for number, pod, uid in ((1, "web", "u1"), (2, "api", "u2"), (3, "db", "u3"))
    )
    evictions = [
        predicted((60, 70), uid=one.uid, pod=one.pod, node="n2", controller="eviction-api")
        for one in operations
    ]
    expected = replace(expectation(*evictions), operations=operations)
    asked = Interval(at(61), at(61))
    begun = (Begun(1, None, GONE_BY_ANOTHER), Begun(2, asked), Begun(3, None, NOT_DONE))
    ledger = ledger_of(expected, Sightings(own=(OwnDeletion("u2", asked),)), START, begun)
    entries = {one.uid: (one.verdict, one.why) for one in ledger.pods}
    assert entries["u2"] == ("inside", "")
    assert entries["u3"] == ("not-yet-due", "operation-not-done")
    assert ledger.operations[0].outcome == "gone-by-another"
    assert not ledger.summary.left_windows
