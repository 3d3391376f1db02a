"""Pods that terminate at the start on a tainted node: whether they are deleted once more is never certain (rule 22)."""

from __future__ import annotations

import pytest
from building.builders import (
    UNREACHABLE,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
    tolerates,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node, Pod, Toleration
from kubectl_evictplan.kube.topology import EXCLUDE_DISRUPTION
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, OutagePart, ScenarioEvent

HORIZON = 120
TAINTED = make_node("n0", taints=["A:NoExecute", "B:NoExecute"])


def told(
    node: Node, pod: Pod, *events: ScenarioEvent, release: str = "1.29.6"
) -> list[tuple[str, float, float]]:
    """What is told of deletions of the pod: how certain, from when, to when."""
    snapshot = make_snapshot([node, "n1"], [pod])
    configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
    scenario = make_scenario(list(events), horizon=HORIZON)
    return [
        (each.certainty, window.earliest_seconds, window.latest_seconds)
        for each in predict(snapshot, scenario, configuration).evictions
        for window in each.windows
    ]


def going(*tolerations: Toleration) -> Pod:
    """Deleted before the start, and something holds its object."""
    return make_pod("p", "n0", tolerations=list(tolerations), deleted=-40, finalizers=["held"])


@pytest.mark.parametrize("release", ["1.29.6", "1.33.4"])
def test_a_pod_that_terminates_is_perhaps_deleted_again_when_a_taint_of_its_node_changes(
    release: str,
) -> None:
    untaint = make_event(10, "untaint", ["n0"], taint="A")
    assert told(TAINTED, going(), untaint, release=release) == [("possible", 10, 10)]


def test_the_countdown_that_a_change_of_taints_begins_is_its_latest_end() -> None:
    pod, taint = going(tolerates("C", 20)), make_event(10, "taint", ["n0"], taint="C:NoExecute")
    assert told(TAINTED, pod, taint)[-1] == ("possible", 10, 30)


def test_nothing_deletes_it_again_where_nothing_changes() -> None:
    assert told(TAINTED, going(), make_event(10, "kubelet-stop", ["n1"])) == []


def test_a_countdown_may_run_that_began_before_a_person_deleted_the_pod() -> None:
    node = make_node("n0", taints=[make_taint("A:NoExecute", added=-50)])
    [(certainty, earliest, latest)] = told(node, going(tolerates("A", 60)))
    assert (certainty, latest) == ("possible", 60)
    assert earliest <= 10


def test_a_taint_is_perhaps_written_once_more_while_its_node_may_be_in_line() -> None:
    """What stands in the lines of 1.20.4 nobody can see; of other releases only what is young."""
    for release, added, rows in (("1.20.4", -100, 1), ("1.29.6", -100, 0), ("1.29.6", -5, 1)):
        taint = make_taint(f"{UNREACHABLE}:NoExecute", added=added)
        node = make_node("n0", taints=[taint], ready="Unknown", transition=-110)
        assert len(told(node, going(), release=release)) == rows, (release, added)


@pytest.mark.parametrize(("counts", "rows"), [(True, []), (False, [("possible", 0, HORIZON)])])
def test_an_old_taint_is_written_once_more_where_no_node_of_the_zone_counts(
    *, counts: bool, rows: list[tuple[str, float, float]]
) -> None:
    """Nearly every tick makes the line of such a zone anew, with all in it who are not ready."""
    taint = make_taint(f"{UNREACHABLE}:NoExecute", added=-100)
    node = make_node("n0", zone="a", taints=[taint], ready="Unknown", transition=-110)
    if not counts:
        node = replace(node, labels={**node.labels, EXCLUDE_DISRUPTION: "true"})
    assert told(node, going()) == rows


def test_whom_its_kubelet_ends_is_deleted_again_only_before_that() -> None:
    pod = make_pod("p", "n0", deleted=-7, grace_seconds=30)
    for at, rows in ((22, [("possible", 22, 22)]), (24, [])):
        assert told(TAINTED, pod, make_event(at, "untaint", ["n0"], taint="A")) == rows


def test_a_kubelet_that_nobody_hears_tells_no_end_of_a_pod() -> None:
    """The API server is away when the pod's time is over: a process that begins later may still find it."""
    ends_soon = make_pod("p", "n0", deleted=-10)
    nobody = make_event(0, "controller-stop"), make_event(15, "controller-start", within_ns=ns(60))
    assert told(TAINTED, ends_soon, *nobody) == [("possible", 15, 20)]
    of_outage = [replace(one, outage=OutagePart("control-plane", ns(15))) for one in nobody]
    assert told(TAINTED, ends_soon, *of_outage) == [("possible", 15, 75)]


@pytest.mark.parametrize(("deleted", "rows"), [(-31, 1), (-29, 0)])
def test_who_should_be_gone_by_the_start_may_have_a_kubelet_that_began_anew(
    deleted: float, rows: int
) -> None:
    """It counts the whole grace period of 30 s from then, which may be as lately as the start."""
    pod = make_pod("p", "n0", deleted=deleted, grace_seconds=30)
    assert len(told(TAINTED, pod, make_event(20, "untaint", ["n0"], taint="A"))) == rows
    assert told(TAINTED, pod, make_event(31, "untaint", ["n0"], taint="A")) == []


def test_a_pod_that_should_be_gone_may_be_deleted_again_by_the_first_taint_of_its_node() -> None:
    taint = make_event(5, "taint", ["n0"], taint="A:NoExecute")
    plain, overdue = make_node("n0"), make_pod("p", "n0", deleted=-2)
    assert told(plain, overdue, taint) == [("possible", 5, 5)]
    assert told(plain, overdue) == []


def test_a_kubelet_that_falls_silent_just_then_may_not_have_told_the_end_of_a_pod() -> None:
    """It tells so up to 600 ms after the pod has ended; the node is tainted 40 s after its last sign of life."""
    pod = make_pod("p", "n0", deleted=-27, grace_seconds=30)
    for at, rows in ((2.9, 1), (3, 1), (3.5, 1), (3.7, 0)):
        found = told(make_node("n0"), pod, make_event(at, "kubelet-stop", ["n0"]), release="1.29.6")
        assert [certainty for certainty, *_ in found] == ["possible"] * rows, at
