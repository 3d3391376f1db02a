"""What events and nodes tell of deletions and changes that nobody saw."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from plans.ledger_worlds import (
    POD,
    START,
    at,
    deleted,
    entry_of,
    event,
    expectation,
    look,
    predicted,
)

from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.sightings import (
    CANCELLING,
    KILLING,
    STOPPING,
    Interval,
    SeenNode,
)
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.sightings import Change, Look, Sightings
from kubectl_evictplan.prediction.document import (
    DrainReport,
    NodeChange,
    NodeReport,
)

# -- events -------------------------------------------------------------------------------------------


VANISHED = (look(1, POD), look(300))


def test_the_taint_managers_event_tells_when_a_pod_went_that_nobody_saw_go() -> None:
    expected = expectation(predicted((100, 102)))
    inside = entry_of(expected, *VANISHED, events=(event(101),))
    outside = entry_of(expected, *VANISHED, events=(event(150),))
    assert (inside.verdict, outside.verdict) == ("inside", "outside")
    assert inside.deleted is not None
    assert inside.deleted.told_by == "event"
    assert inside.by is not None
    assert inside.by.controller == "taint-eviction"


def test_a_cancelled_deletion_is_no_deletion() -> None:
    expected = expectation(predicted((100, 102)))
    assert entry_of(expected, *VANISHED, events=(event(101, told=CANCELLING),)).verdict == "unknown"


def test_an_event_that_may_mean_another_pod_of_the_name_tells_nothing() -> None:
    newer = replace(POD, uid="u2", created_ns=at(50))
    looks = (look(1, POD), look(60, newer), look(300))
    ledger = ledger_of(
        expectation(predicted((40, 42)), predicted((200, 201), pod="x", uid="u9")),
        Sightings(looks, events=(event(41),)),
        START,
    )
    entry = next(pod for pod in ledger.pods if pod.uid == "u1")
    assert (entry.verdict, entry.why) == ("unknown", "ambiguous-name")


def test_occurrences_between_the_first_and_the_last_of_many_are_not_guessed() -> None:
    expected = expectation(predicted((100, 102)))
    entry = entry_of(expected, *VANISHED, events=(event(2, 250, count=9),))
    assert entry.verdict == "unknown"


def test_containers_that_are_stopped_make_a_deletion_likely_but_never_outside() -> None:
    expected = expectation(predicted((100, 102)))
    stop = {"reason": KILLING, "told": STOPPING, "uid": "u1"}
    assert entry_of(expected, *VANISHED, events=(event(104, **stop),)).verdict == "inside"
    assert entry_of(expected, *VANISHED, events=(event(200, **stop),)).verdict == "unknown"


# -- nodes --------------------------------------------------------------------------------------------

UNREACHABLE = Taint("node.kubernetes.io/unreachable", "NoExecute")


def report(*changes: NodeChange) -> NodeReport:
    return NodeReport("n1", "z", "True", (), changes)


def change(what: str, value: str, earliest: float, latest: float) -> NodeChange:
    return NodeChange(what, value, "certain", earliest, earliest, latest, "node-lifecycle")


def node_look(seconds: float, *nodes: SeenNode) -> Look:
    return Look(Interval(at(seconds), at(seconds)), None, nodes)


@pytest.mark.parametrize(("added", "verdict"), [(45, "inside"), (60, "outside")])
def test_a_taint_tells_when_it_was_added(added: float, verdict: str) -> None:
    expected = expectation(
        nodes=(report(change("taint-added", "node.kubernetes.io/unreachable:NoExecute", 40, 46)),)
    )
    taint = replace(UNREACHABLE, time_added_ns=at(added))
    (entry,) = ledger_of(
        expected, Sightings((node_look(300, SeenNode("n1", "n", (taint,))),)), START
    ).nodes
    assert entry.verdict == verdict


def test_a_taint_that_two_rows_of_a_prediction_may_add_is_added_once() -> None:
    value = "node.kubernetes.io/unreachable:NoExecute"
    late = replace(change("taint-added", value, 41, 47), certainty="possible")
    taint = replace(UNREACHABLE, time_added_ns=at(45))
    seen = Sightings((node_look(300, SeenNode("n1", "n", (taint,))),))
    for between, rows in (
        ((), ["inside"]),
        ((change("taint-removed", value, 40.5, 40.6),), ["inside", "unknown", "unknown"]),
    ):
        changes = (change("taint-added", value, 40, 46), *between, late)
        ledger = ledger_of(expectation(nodes=(report(*changes),)), seen, START)
        assert sorted(entry.verdict for entry in ledger.nodes) == rows


def test_a_node_that_never_was_unknown_did_not_do_what_was_certain() -> None:
    expected = expectation(nodes=(report(change("ready", "Unknown", 40, 46)),))
    seen = Sightings((node_look(300, SeenNode("n1", "n", (), "True", at(-900))),))
    assert ledger_of(expected, seen, START).nodes[0].verdict == "predicted-but-stayed"


def test_what_came_and_went_between_two_looks_is_unknown() -> None:
    expected = expectation(
        nodes=(report(change("ready", "Unknown", 40, 46), change("ready", "True", 90, 95)),)
    )
    seen = Sightings((node_look(300, SeenNode("n1", "n", (), "True", at(92))),))
    first, second = ledger_of(expected, seen, START).nodes
    assert (first.verdict, first.why, second.verdict) == ("unknown", "not-observed", "inside")


def test_an_event_tells_when_a_node_was_given_up() -> None:
    expected = expectation(nodes=(report(change("ready", "Unknown", 40, 46)),))
    seen = Sightings(
        (node_look(300, SeenNode("n1", "n", (), "True", at(200))),),
        events=(event(44, kind="Node", namespace="", name="n1", reason="NodeNotReady", told=""),),
    )
    assert ledger_of(expected, seen, START).nodes[0].verdict == "inside"


def test_a_node_of_another_uid_says_that_the_first_was_deleted() -> None:
    expected = expectation(nodes=(report(change("deleted", "", 40, 46)),))
    looks = (node_look(40, SeenNode("n1", "old")), node_look(45, SeenNode("n1", "new")))
    assert ledger_of(expected, Sightings(looks), START).nodes[0].verdict == "inside"


# -- drains -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen_gone", "verdict"),
    [((5, 8), "inside"), ((5, 9), "unknown"), ((7, 12), "inside"), ((20, 22), "outside")],
)
def test_a_drain_ends_where_a_watch_tells_that_its_last_pod_was_gone(
    seen_gone: tuple[float, float], verdict: str
) -> None:
    drain = DrainReport("n1", 0.0, 0.0, 7.0, 15.0, 0, "drained", (), (), ())
    expected = expectation(predicted((5, 5.5), controller="eviction-api"), drains=(drain,))
    gone = Change(Interval(*map(at, seen_gone)), deleted(POD, 5), gone=True)
    (entry,) = ledger_of(
        expected, Sightings((look(1, POD), look(30)), changes=(gone,)), START
    ).drains
    assert entry.verdict == verdict


def test_an_event_that_comes_twice_is_one_event() -> None:
    expected = expectation(predicted((100, 102)))
    twice = (event(101), event(101))
    assert entry_of(expected, *VANISHED, events=twice).verdict == "inside"


def test_two_events_that_may_be_meant_tell_nothing() -> None:
    expected = expectation(predicted((100, 102)))
    entry = entry_of(expected, *VANISHED, events=(event(101, 150, count=2),))
    assert (entry.verdict, entry.why) == ("unknown", "ambiguous-name")
