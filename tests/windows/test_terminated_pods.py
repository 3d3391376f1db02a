"""Terminated pods over ``--terminated-pod-gc-threshold``: the first loop of garbage collection, of which nobody knows when it comes."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from building.builders import tolerates as tolerating
from realities.contradictions import contradictions
from realities.drawn_realities import World, draw_reality

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.finalizers import JOB_TRACKING
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.processes_up import ProcessLife
from kubectl_evictplan.windows.terminated_pods import first_loops

# A period of the loop, and what one may take.
LOOP = 20.025
TAINTED = make_event(30, "taint", "n0", taint="A=x:NoExecute")
TOLERATED = (tolerating("A", 60),)


def finished(number: int, **fields: object) -> Pod:
    given = {"phase": "Succeeded", "created": -1000 + number, "tolerations": TOLERATED}
    return make_pod(f"p{number}", "n0", **given | fields)  # type: ignore[arg-type]


def predicted(
    *events: ScenarioEvent, pods: Iterable[Pod], threshold: int = 1, horizon: float = 300
) -> Prediction:
    """What is told; no reality contradicts it."""
    flags = {"terminated-pod-gc-threshold": str(threshold)}
    settings = ControllerSettings(kubernetes_version="1.29.6", flags=flags)
    snapshot = make_snapshot(["n0", "n1", "n2"], pods)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario(list(events), horizon=horizon)
    prediction = predict(snapshot, scenario, configuration)
    world = World(snapshot, scenario, configuration)
    for number in range(4):
        reality = draw_reality(world, random.Random(f"reality {number}"))
        assert not list(contradictions(scenario.end_ns, prediction, reality))
    return prediction


def rows(prediction: Prediction) -> dict[tuple[str, str], tuple[str, list[tuple[float, float]]]]:
    return {
        (each.pod, each.controller): (
            each.certainty,
            [(window.earliest_seconds, window.latest_seconds) for window in each.windows],
        )
        for each in prediction.evictions
    }


def test_the_oldest_go_with_the_first_loop_and_nobody_else_deletes_them() -> None:
    prediction = predicted(TAINTED, pods=map(finished, range(3)))
    assert rows(prediction) == {
        ("p0", "pod-gc"): ("certain", [(0, LOOP)]),
        ("p1", "pod-gc"): ("certain", [(0, LOOP)]),
        ("p2", "taint-eviction"): ("certain", [(90, 90)]),
    }
    assert (prediction.inputs.coverage.exact, prediction.inputs.coverage.outer_bound) == (3, 0)


def test_neither_is_certain_where_the_taint_or_a_person_may_come_first() -> None:
    tainted = make_event(5, "taint", "n0", taint="B:NoExecute")
    deleted = make_event(5, "pod-delete", pods=["default/p2"])
    by_taint = predicted(tainted, pods=map(finished, range(3)))
    assert rows(by_taint) == {
        ("p0", "pod-gc"): ("possible", [(0, LOOP)]),
        ("p1", "pod-gc"): ("possible", [(0, LOOP)]),
        ("p0", "taint-eviction"): ("possible", [(5, 5)]),
        ("p1", "taint-eviction"): ("possible", [(5, 5)]),
        ("p2", "taint-eviction"): ("certain", [(5, 5)]),
    }
    assert (by_taint.inputs.coverage.exact, by_taint.inputs.coverage.outer_bound) == (1, 4)
    by_person = rows(predicted(deleted, TAINTED, pods=map(finished, range(3))))
    assert by_person["p1", "pod-gc"] == ("possible", [(0, LOOP)])
    assert by_person["p1", "taint-eviction"][0] == "possible"


def test_nothing_is_certain_of_who_goes_where_one_of_them_terminates_already() -> None:
    pods = [finished(0), finished(1, deleted=-8)]
    assert rows(predicted(pods=pods))["p0", "pod-gc"] == ("possible", [(0, LOOP)])


def test_pods_of_a_silent_node_are_held_against_it_too() -> None:
    pods = [finished(number, tolerations=default_tolerations(60)) for number in range(3)]
    found = rows(predicted(make_event(1, "kubelet-stop", "n0"), pods=pods))
    assert set(found) == {("p0", "pod-gc"), ("p1", "pod-gc"), ("p2", "taint-eviction")}


def test_one_that_a_scenario_creates_may_make_any_of_them_go_in_the_loop_after_it() -> None:
    late = make_pod("late", "n1", phase="Succeeded", created=None)
    elsewhere = make_pod("elsewhere", "n2", phase="Failed")
    created = make_event(6, "pod-create", pod=late)
    prediction = predicted(TAINTED, created, pods=[finished(0), elsewhere], threshold=2)
    found = rows(prediction)
    assert found.pop(("p0", "taint-eviction")) == ("possible", [(90, 90)])
    assert set(found) == {(pod, "pod-gc") for pod in ("p0", "elsewhere", "late")}
    assert list(found.values()) == [("possible", [(6, 6 + LOOP)])] * 3
    assert "terminated-pod-gc" in [warning.code for warning in prediction.warnings]


def test_within_the_threshold_nothing_changes() -> None:
    found = rows(predicted(TAINTED, pods=map(finished, range(3)), threshold=3))
    assert list(found.values()) == [("certain", [(90, 90)])] * 3


def test_one_that_finalizers_hold_may_be_deleted_by_others_as_well() -> None:
    held = [finished(0, finalizers=["example.com/hold"]), finished(1)]
    found = rows(predicted(TAINTED, pods=held))
    assert found["p0", "pod-gc"] == ("certain", [(0, LOOP)])
    assert found["p0", "taint-eviction"][0] == "possible"


@pytest.mark.parametrize(("finalizer", "first"), [(JOB_TRACKING, 0), ("example.com/hold", None)])
def test_the_job_controller_lets_go_whom_garbage_collection_takes_first(
    finalizer: str, first: float | None
) -> None:
    held = finished(0, finalizers=[finalizer], owner="Job/counted")
    prediction = predicted(TAINTED, pods=[held, finished(1)])
    gone = {each.controller: each.gone for each in prediction.evictions if each.pod == "p0"}
    assert gone["pod-gc"].earliest_seconds == first


FOREVER_NS = ns(10_000)
WARM = ProcessLife((0, 0), FOREVER_NS, warm=True)


@pytest.mark.parametrize(
    ("lives", "since", "expected"),
    [
        ([WARM], 0, [(0, LOOP, True)]),
        ([WARM], 7, [(7, 7 + LOOP, True)]),
        # A new process loops at once.
        ([ProcessLife((ns(4), ns(9)), FOREVER_NS)], 0, [(4, 9, True)]),
        ([ProcessLife((ns(4), ns(9)), FOREVER_NS)], 6, [(6, 9 + LOOP, True)]),
        # One that ends before its loop leaves that to the next one.
        (
            [ProcessLife((0, 0), ns(5), warm=True), ProcessLife((ns(8), ns(8)), FOREVER_NS)],
            0,
            [(0, 5, False), (8, 8, True)],
        ),
        ([ProcessLife((0, 0), ns(5), warm=True)], 0, [(0, 5, False)]),
    ],
)
def test_the_first_loop_comes_within_a_period_of_a_process_that_runs(
    lives: list[ProcessLife], since: float, expected: list[tuple[float, float, bool]]
) -> None:
    found = [(low / 1e9, high / 1e9, sure) for (low, high), sure in first_loops(lives, ns(since))]
    assert found == expected


def test_a_process_that_ends_after_a_loop_that_deleted_pods_leaves_no_loop_behind() -> None:
    events = [
        make_event(0.5, "node-delete", "n1"),
        make_event(3, "controller-stop"),
        make_event(4, "controller-start"),
    ]
    snapshot = make_snapshot(["n0", "n1"], [*map(finished, range(3)), make_pod("orphan", "n1")])
    flags = {"terminated-pod-gc-threshold": "1"}
    settings = ControllerSettings(kubernetes_version="1.29.6", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    timing = Timing(pod_gc_phase_ns=ns(1))
    run = simulate(snapshot, make_scenario(events, horizon=90), configuration, timing)
    deleted = [(each.pod, each.at_ns) for each in run.entries if isinstance(each, PodDeleted)]
    # Not at 41: the new process counts the quarantine from its own first loop.
    assert deleted == [("default/p0", ns(1)), ("default/p1", ns(1)), ("default/orphan", ns(44))]


def test_garbage_that_finalizers_hold_may_leave_its_place_to_others_and_is_never_told() -> None:
    # Already deleted for good: whoever deletes it once more changes nothing.
    held = finished(1, finalizers=["example.com/hold"])
    events = [
        make_event(3, "pod-delete", pods=[held.key]),
        make_event(28, "node-delete", "n0"),
    ]
    older = make_pod("older", "n1", phase="Failed", created=-9000)
    found = rows(predicted(*events, pods=[older, finished(0), held], threshold=1))
    assert found["p0", "pod-gc"][0] == "possible"
    assert ("p1", "pod-gc") not in found


def test_one_that_the_taint_takes_as_it_is_created_is_not_counted_any_more() -> None:
    late = make_pod("late", "n0", phase="Succeeded", created=None)
    tainted = make_event(2, "taint", "n0", taint="B:NoExecute")
    created = make_event(6, "pod-create", pod=late)
    pods = [make_pod("p1", "n1", phase="Failed"), make_pod("p2", "n1", phase="Failed")]
    found = rows(predicted(tainted, created, pods=pods, threshold=1))
    assert found["late", "taint-eviction"][0] == "possible"


def test_of_one_age_those_go_first_whose_names_come_first_whatever_their_namespaces() -> None:
    pods = [
        make_pod(name, "n0", namespace=namespace, phase="Failed", created=-1000)
        for namespace, name in (("a", "zz"), ("b", "aa"), ("c", "mm"))
    ]
    assert rows(predicted(pods=pods)) == {
        ("aa", "pod-gc"): ("certain", [(0, LOOP)]),
        ("mm", "pod-gc"): ("certain", [(0, LOOP)]),
    }


def test_nobody_knows_which_of_one_name_and_age_go() -> None:
    pods = [
        make_pod(name, "n0", namespace=namespace, phase="Failed", created=-1000)
        for namespace, name in (("a", "same"), ("b", "same"), ("c", "first"))
    ]
    told = predicted(pods=pods)
    assert {(one.namespace, one.pod): one.certainty for one in told.evictions} == {
        ("a", "same"): "possible",
        ("b", "same"): "possible",
        ("c", "first"): "certain",
    }
