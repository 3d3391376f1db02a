"""What is proven of a node whose pods go one after the other, are answered with an error, or may never be let go."""

from __future__ import annotations

import pytest
from building.builders import START_NS, make_event, ns
from drawn.drain_worlds import (
    ROUND,
    App,
    drain,
    drained_cluster,
    latest,
    make_budget,
    proven,
    row,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import EVICTION_API, KUBECTL_DELETE, DrainEnd
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.objects import ClusterSnapshot, PodWebhook
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.delays import CONFLICT, REFUSED
from kubectl_evictplan.windows.drains.told import TurnBounds

# Up to 1.18 budgets are asked about whoever terminates, and count whoever is not Ready.
OLD = EvictionRules(ignores_pending=False, lets_unready_go=False)

# -- one process ---------------------------------------------------------------------------------------------


def test_pods_of_a_set_in_order_that_are_away_together_are_made_one_after_the_other() -> None:
    apart = App("s", ["a1", "a1", "b1"], "StatefulSet", most=2, grace=1)
    alike = apart._replace(parallel=True)
    in_order = proven(drained_cluster(apart._replace(most=1)), drain("a1", "b1"))
    assert in_order.exit_codes == {0: frozenset({0})}
    for app in (apart, alike):
        bounds = proven(drained_cluster(app), drain("a1", "b1"))
        assert row(bounds, "s-2").certain
        assert bounds.exit_codes == {0: frozenset({0})}


def test_pods_that_go_one_after_the_other_ask_their_budget_one_after_the_other() -> None:
    web = App("web", ["a1", "a1", "a1", "b1"], most=1, grace=1)
    bounds = proven(drained_cluster(web), drain("a1", at=1, parallel=1))
    assert row(bounds, "web-2").certain
    assert bounds.exit_codes == {0: frozenset({0})}
    [turn] = bounds.turns.values()
    assert turn.end is not None
    assert turn.end.latest_ns is not None
    assert turn.end.latest_ns / 1e9 > 1 + 2 * ROUND


def test_a_pod_under_two_budgets_fails_and_the_others_go_one_after_the_other() -> None:
    web, both = App("web", ["a1", "a1", "b1"], most=1), App("both", ["a1", "b1"])
    budgets = [make_budget("x", app="both", most=1), make_budget("y", app="both", most=1)]
    snapshot = drained_cluster(web, both, budgets=budgets)
    bounds = proven(snapshot, drain("a1", at=1, parallel=1))
    assert bounds.exit_codes == {0: frozenset({1})}
    [turn] = bounds.turns.values()
    assert turn.reasons == {DrainEnd.ERROR}
    assert [wait.certain for key, wait in turn.waits.items() if key.pod == "default/both-0"] == [
        True
    ]


def under_two_budgets(*nodes: str, replicas: int) -> ClusterSnapshot:
    """An app whose pods two budgets cover, and whose owner wants so many."""
    web = App("web", nodes, least=1)
    snapshot = drained_cluster(web, budgets=[make_budget("zw", app="web", least=1)])
    wanted = (replace(one, replicas=replicas) for one in snapshot.workloads)
    return replace(snapshot, workloads=tuple(wanted))


def only_turn(bounds: DrainBounds, process: int = 0) -> TurnBounds:
    [found] = [turn for key, turn in bounds.turns.items() if key.process == process]
    return found


def test_a_new_pod_under_two_budgets_goes_while_it_is_pending_and_kubectl_waits_for_it() -> None:
    whole = only_turn(proven(under_two_budgets("b1", "b1", replicas=2), drain("a1", at=0)))
    assert whole.end is not None
    assert whole.end.latest_ns is not None
    assert whole.end.latest_ns < ns(1)
    short = only_turn(proven(under_two_budgets("b1", "b1", replicas=3), drain("a1", at=0)))
    assert short.end is not None
    assert short.end.latest_ns is not None
    # It may be Running in the moment of its DELETE, and is asked for once more.
    assert ns(32) < short.end.latest_ns < ns(32.2)
    assert short.reasons == {DrainEnd.DRAINED, DrainEnd.ERROR}


def test_under_two_budgets_a_pod_fails_for_certain_only_if_it_is_not_pending_any_more() -> None:
    snapshot = under_two_budgets("a1", "b1", replicas=2)
    young = {"ready": "False", "creation_timestamp_ns": snapshot.taken_at_ns - ns(1)}
    for phase, reasons in (
        ("Pending", {DrainEnd.DRAINED, DrainEnd.ERROR}),
        ("Running", {DrainEnd.ERROR}),
    ):
        first, other = snapshot.pods
        pods = replace(first, phase=phase, **young), other
        bounds = proven(replace(snapshot, pods=pods), drain("a1", at=1))
        turn = only_turn(bounds)
        assert turn.reasons == reasons
        assert {wait.certain for wait in turn.waits.values()} == {phase == "Running"}
        assert (0 in bounds.sure.exit_codes) == (phase == "Running")


def test_under_two_budgets_a_pod_goes_once_more_if_another_process_has_deleted_it() -> None:
    snapshot = under_two_budgets("a1", "b1", replicas=2)
    deleting = drain("a1", at=1, disable_eviction=True)
    bounds = proven(snapshot, deleting, drain("a1", at=1))
    turn = only_turn(bounds, process=1)
    assert turn.end is not None
    assert turn.end.latest_ns is not None
    assert turn.end.latest_ns > ns(31)
    assert not row(bounds, "web-0").certain


def test_who_is_let_go_at_once_for_certain_waits_for_no_budget() -> None:
    app = App("db", ["a1", "a1", "b1"], "StatefulSet", most=1, unready=[1])
    bounds = proven(drained_cluster(app), drain("a1", at=0))
    assert row(bounds, "db-1").certain
    assert latest(bounds, "db-1") < 1
    assert {key.pod for key in only_turn(bounds).waits} == {"default/db-0"}


def test_a_pod_that_starts_may_be_asked_about_when_kubectl_comes() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1"], least=2))
    pods = tuple(
        replace(
            pod, phase="Pending", ready="False", creation_timestamp_ns=snapshot.taken_at_ns - ns(1)
        )
        if pod.name == "web-0"
        else pod
        for pod in snapshot.pods
    )
    bounds = proven(replace(snapshot, pods=pods), drain("a1", at=1))
    assert not [one for one in bounds.rows.values() if one.certain]
    assert bounds.exit_codes[0] != {0}


def test_a_pod_that_may_be_ready_in_the_moment_of_its_delete_may_be_asked_for_once_more() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b1"], least=1, unready=[0]))

    def proven_of(age: float) -> DrainBounds:
        pods = tuple(
            replace(pod, creation_timestamp_ns=START_NS - ns(age)) if pod.ready != "True" else pod
            for pod in snapshot.pods
        )
        return proven(replace(snapshot, pods=pods), drain("a1"))

    assert latest(proven_of(100), "web-0") < 2
    starting = proven_of(0)
    assert latest(starting, "web-0") - latest(proven_of(100), "web-0") > 10
    [wait] = next(iter(starting.turns.values())).waits.values()
    assert (wait.certain, wait.ends) == (False, {"evicted"})


def test_a_pending_pod_that_another_process_deletes_meanwhile_is_read_once_more() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1"], unready=[0]))
    found = []
    for phase in ("Running", "Pending"):
        pods = tuple(
            replace(pod, phase=phase) if pod.ready != "True" else pod for pod in snapshot.pods
        )
        bounds = proven(replace(snapshot, pods=pods), drain("a1"), drain("a1"))
        again = bounds.again["default/web-0", "uid-default-web-0", EVICTION_API]
        found.append((row(bounds, "web-0").spans, again[1]))
    (running, running_ns), (pending, pending_ns) = found
    # Of a Pending pod the DELETE must find it as it was read (shouldEnforceResourceVersion).
    assert (pending, pending_ns - running_ns) == (running, CONFLICT[1])


def test_a_pod_that_changes_as_another_process_deletes_it_is_answered_for_and_asked_for_again() -> (
    None
):
    snapshot = drained_cluster(App("web", ["a1", "b1", "b1"], least=1, unready=[0]))
    alone, beside = proven(snapshot, drain("a1")), proven(snapshot, drain("a1"), drain("a1"))
    # So its first deletion is not later than by one process alone.
    assert latest(beside, "web-0") == latest(alone, "web-0")
    _, again_ns = beside.again["default/web-0", "uid-default-web-0", EVICTION_API]
    # Read, found changed and answered; ten seconds; read and deleted, or asked for once more.
    assert again_ns - ns(latest(alone, "web-0")) >= ns(10) + 2 * REFUSED[1]
    # Nobody refuses it where it is asked for once.
    for bounds, waiting in ((alone, set()), (beside, {"default/web-0"})):
        for turn in bounds.turns.values():
            assert {key.pod for key in turn.waits} == waiting


def test_whoever_may_be_refused_beside_a_pod_that_is_never_let_go_is_told() -> None:
    never = App("bare", ["a1", "b1"], "", least=2)
    unready = App("web", ["a1", "a1", "b1"], least=1, unready=[0])
    bounds = proven(drained_cluster(never, unready), drain("a1", force=True), rules=OLD)
    assert only_turn(bounds).reasons == {None}
    found = {key.pod: wait.certain for key, wait in only_turn(bounds).waits.items()}
    assert found == {"default/bare-0": True, "default/web-0": False, "default/web-1": False}


def test_a_terminating_pod_under_two_budgets_may_fail_where_budgets_are_asked_about_it() -> None:
    snapshot = under_two_budgets("a1", "b1", replicas=2)
    pods = tuple(
        replace(pod, deletion_timestamp_ns=START_NS + ns(20)) if pod.name == "web-0" else pod
        for pod in snapshot.pods
    )
    bounds = proven(replace(snapshot, pods=pods), drain("a1", at=1), rules=OLD)
    [wait] = only_turn(bounds).waits.values()
    assert (wait.ends, wait.certain) == ({"error"}, False)


@pytest.mark.parametrize("deletes", [True, False])
def test_where_a_webhook_is_asked_before_a_pod_is_evicted_nobody_knows_how_the_drain_ends(
    *, deletes: bool
) -> None:
    snapshot = drained_cluster(App("free", ["a1", "b1"]), App("other", ["b1"]))
    labels = (("app", "In", ("free",)),) if deletes else ()
    asked = PodWebhook("guard", labels, of_deletion=deletes, of_eviction=not deletes)
    guarded = replace(snapshot, webhooks=(asked,))
    assert proven(snapshot, drain("a1")).exit_codes == {0: frozenset({0})}
    bounds = proven(guarded, drain("a1", disable_eviction=deletes))
    if deletes:
        assert not row(bounds, "free-0", KUBECTL_DELETE).certain
    else:
        assert (bounds.rows, len(bounds.unbounded)) == ({}, 1)
    [turn] = bounds.turns.values()
    # It fails, or answers that it is to be tried again.
    assert turn.reasons == {DrainEnd.DRAINED, DrainEnd.ERROR, None}
    assert bounds.exit_codes == {0: frozenset({0, 1, None})}
    assert bounds.sure.exit_codes == {}
    unasked = [drain("a1", disable_eviction=not deletes)]
    if deletes:
        unasked.append(drain("b1", pod_selector="app=other", disable_eviction=True))
    for event in unasked:
        assert proven(guarded, event).exit_codes == {0: frozenset({0})}


def test_what_an_owner_lacks_may_come_to_a_node_that_nothing_else_couples_it_to() -> None:
    snapshot = drained_cluster(App("web", ["b1"], least=1), App("free", ["a1", "b1"], grace=1))
    wanting = tuple(
        replace(one, replicas=2) if one.name == "web" else one for one in snapshot.workloads
    )
    assert proven(snapshot, drain("a1", at=20)).exit_codes == {0: frozenset({0})}
    bounds = proven(replace(snapshot, workloads=wanting), drain("a1", at=20, timeout_ns=ns(9)))
    assert row(bounds, "free-0").certain
    # Its pod uses its grace period of 30 s, and kubectl gives up.
    assert bounds.exit_codes == {0: frozenset({0, 1})}


def test_nobody_in_a_terminating_namespace_is_evicted_and_the_drain_ends_some_day_or_never() -> (
    None
):
    snapshot = drained_cluster(App("free", ["a1", "b1"]), App("web", ["a1", "b1"], least=1))
    namespace = Infrastructure(namespaces=(Namespace("default", phase="Terminating"),))
    closing = replace(snapshot, infrastructure=namespace)
    bounds = proven(closing, drain("a1"))
    assert bounds.rows == {}
    [turn] = bounds.turns.values()
    assert (turn.end is not None and turn.end.latest_ns) is None
    assert turn.reasons == {DrainEnd.DRAINED, None}
    assert {key.budgets for key in turn.waits} == {()}
    assert bounds.exit_codes == {0: frozenset({0, None})}
    limited = proven(closing, drain("a1", timeout_ns=ns(12)))
    assert limited.exit_codes == {0: frozenset({0, 1})}
    silent = EvictionRules(tells_of_terminating_namespaces=False)
    failing = proven(closing, drain("a1"), rules=silent)
    assert failing.rows == {}
    assert failing.exit_codes == {0: frozenset({0, 1})}
    # DELETE is allowed there.
    deleting = proven(closing, drain("a1", disable_eviction=True))
    assert deleting.exit_codes == {0: frozenset({0})}


def test_a_negative_status_may_fail_the_drain_until_it_is_corrected() -> None:
    snapshot = drained_cluster(App("free", ["a1", "b1"]), App("web", ["a1", "b1"], least=1))
    budgets = tuple(replace(one, disruptions_allowed=-1) for one in snapshot.budgets)
    bounds = proven(replace(snapshot, budgets=budgets), drain("a1"))
    assert row(bounds, "free-0").certain
    assert not row(bounds, "web-0").certain
    [turn] = bounds.turns.values()
    assert turn.reasons == {DrainEnd.DRAINED, DrainEnd.ERROR}
    assert bounds.exit_codes == {0: frozenset({0, 1})}
    assert bounds.sure.exit_codes == {}


# -- nodes that kubectl may never come to ------------------------------------------------------------------------


def test_beside_a_pod_that_keeps_its_place_for_ever_no_failure_is_certain() -> None:
    full, both = App("full", ["a1", "b1"], least=2), App("two", ["a1", "b1"], least=1)
    snapshot = drained_cluster(full, both, budgets=[make_budget("z", app="two", most=1)])
    told = {
        places: [
            wait.certain
            for turn in proven(snapshot, drain("a1", parallel=places)).turns.values()
            for key, wait in turn.waits.items()
            if key.pod == "default/two-0"
        ]
        for places in (0, 1)
    }
    assert told == {0: [True], 1: [False]}


def test_a_budget_opens_again_as_surely_where_a_process_restarts_and_no_surer() -> None:
    snapshot = drained_cluster(App("web", ["a1", "a1", "b1"], most=1))
    # Which pod of its owner a new one is like nobody knows: perhaps the budget covers none.
    pods = tuple(replace(pod, labels={}) if pod.name == "web-2" else pod for pod in snapshot.pods)
    restart = make_event(0.2, "controller-stop"), make_event(0.4, "controller-start")
    for events in ((), restart):
        bounds = proven(replace(snapshot, pods=pods), *events, drain("a1"))
        assert bounds.exit_codes == {0: {0, None}}
        bounds = proven(snapshot, *events, drain("a1"))
        assert bounds.exit_codes == {0: {0}}


def test_no_pod_surely_goes_that_waits_for_a_place_which_may_never_be_free() -> None:
    full, free = App("full", ["a1", "b1"], least=2), App("web", ["a1", "b1"], least=1)
    sure = {
        places: {
            key.pod
            for key in proven(
                drained_cluster(full, free), drain("a1", parallel=places)
            ).sure.evicted
        }
        for places in (0, 1, 2)
    }
    assert sure == {0: {"default/web-0"}, 1: set(), 2: {"default/web-0"}}


def test_pods_at_a_time_may_end_by_the_timeout_before_the_one_that_fails_is_asked() -> None:
    full, both = App("full", ["a1", "b1"], least=2), App("two", ["a1", "b1"], least=1)
    snapshot = drained_cluster(full, both, budgets=[make_budget("z", app="two", most=1)])
    told = {
        places: proven(snapshot, drain("a1", parallel=places, timeout_ns=ns(20))).turns
        for places in (0, 1)
    }
    assert [one.reasons for one in told[0].values()] == [{DrainEnd.ERROR}]
    assert [one.reasons for one in told[1].values()] == [{DrainEnd.ERROR, DrainEnd.TIMEOUT}]


def test_a_status_older_than_its_budget_costs_a_wait_of_client_go_also_beyond_the_timeout() -> None:
    web = App("web", ["a1", "b1"], least=1)
    now = drained_cluster(web)
    old = replace(now, budgets=tuple(replace(one, generation=2) for one in now.budgets))
    assert latest(proven(old, drain("a1")), "web-0") > 1 + 10
    assert latest(proven(old, drain("a1", timeout_ns=ns(8))), "web-0") > 1 + 8 + 10
    assert latest(proven(now, drain("a1", timeout_ns=ns(8))), "web-0") < 2


def test_of_a_node_that_kubectl_may_never_come_to_no_failure_and_no_way_to_end_is_certain() -> None:
    stuck = App("web", ["a1", "a1", "b1"], most=1)
    both = App("two", ["a2", "b1"], least=1)
    snapshot = drained_cluster(stuck, both, budgets=[make_budget("z", app="two", most=1)])
    bounds = proven(snapshot, drain("a1", "a2"), ready=(ns(3), None))
    [turn] = [one for key, one in bounds.turns.items() if key.node == "a2"]
    assert [wait.certain for wait in turn.waits.values()] == [False]
    assert turn.reasons == {DrainEnd.ERROR, None}
    assert turn.start.latest_ns is None
