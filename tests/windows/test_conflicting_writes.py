"""Node lifecycle writes a taint while a worker writes the other one of the node: whoever is second tries again."""

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
    make_snapshot,
)
from building.warning_runs import configured
from msgspec.structs import replace

from kubectl_evictplan.prediction.document import PARTLY, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.unknowns.lines import PASS_LAG_MAX_NS

EFFECTS = ("NoSchedule", "NoExecute")
BOTH = [f"{UNREACHABLE}:{effect}" for effect in EFFECTS]


def begun_anew(release: str, *, wrong: bool) -> Prediction:
    """A process begins for which n0 is ready, and tainted; n1 falls silent after that. ``wrong``: it has the taint as well that a worker writes."""
    first = ("Unknown", BOTH) if wrong else ("True", BOTH[1:])
    nodes = [
        make_node("n0", zone="a", ready=first[0], taints=first[1]),
        *(make_node(f"n{place}", zone="a") for place in range(1, 5)),
    ]
    events = [
        make_event(0, "controller-stop"),
        make_event(1, "kubelet-start", "n0"),
        make_event(10, "controller-start"),
        make_event(12, "kubelet-stop", "n1"),
    ]
    pods = [make_pod("p", "n1", tolerations=default_tolerations(5))]
    scenario = make_scenario(events, horizon=200)
    return predict(make_snapshot(nodes, pods), scenario, configured(release))


def removed(
    prediction: Prediction, taint: str = f"{UNREACHABLE}:NoExecute"
) -> tuple[float, float, str]:
    # Before 1.26 it may be put on again, and taken off once more (``test_lost_writes``).
    [found, *_] = [
        (change.earliest_seconds, change.latest_seconds, change.certainty)
        for report in prediction.nodes
        for change in report.changes
        if report.node == "n0" and (change.what, change.value) == ("taint-removed", taint)
    ]
    return found


@pytest.mark.parametrize(("release", "late"), [("1.25.3", 0), ("1.25.4", 0.4), ("1.37", 0.4)])
def test_the_first_tick_of_a_process_waits_where_a_worker_corrects_the_node(
    release: str, late: float
) -> None:
    assert removed(begun_anew(release, wrong=True)) == (10, 10 + late, "certain")


@pytest.mark.parametrize(("release", "late"), [("1.25.3", 0), ("1.33", 0.4), ("1.37", 0.4)])
def test_so_does_a_pass_that_taints_a_node_at_once_and_the_tick_for_it(
    release: str, late: float
) -> None:
    # The first tick puts it in line, and a worker writes its other taint in that moment.
    nodes = [make_node(f"n{place}", zone="a") for place in range(5)]
    events = [
        make_event(0, "controller-stop"),
        make_event(1, "node-ready", "n0", status="False"),
        make_event(10, "controller-start"),
    ]
    scenario = make_scenario(events, horizon=200)
    found = predict(make_snapshot(nodes), scenario, configured(release))
    [added, *_] = [
        change.latest_seconds
        for report in found.nodes
        for change in report.changes
        if change.value == f"{NOT_READY}:NoExecute"
    ]
    assert added == pytest.approx(10.1 + late, abs=0.01)


def test_it_does_not_where_the_worker_has_nothing_to_write() -> None:
    assert removed(begun_anew("1.37", wrong=False)) == (10, 10, "certain")


def test_what_follows_that_tick_is_as_late() -> None:
    [late], [at_once] = (begun_anew("1.37", wrong=wrong).evictions for wrong in (True, False))
    assert late.latest_seconds - at_once.latest_seconds == pytest.approx(0.4, abs=0.001)
    assert late.earliest_seconds == at_once.earliest_seconds
    assert late.certainty == at_once.certainty == "certain"


@pytest.mark.parametrize("wrong", [True, False])
def test_rows_say_that_it_is_conflicts_that_were_not_tried(wrong: bool) -> None:
    coverage = begun_anew("1.37", wrong=wrong).inputs.coverage
    assert coverage is not None
    partly = {each.name for each in coverage.unknowns if each.explored == PARTLY}
    assert ("write-conflicts" in partly) is wrong
    assert "client-limits" not in partly


@pytest.mark.parametrize(("release", "late"), [("1.25.3", 0), ("1.29", 0.4)])
def test_a_tick_with_which_all_zones_are_down_waits_for_the_worker_of_the_node_it_finds(
    release: str, late: float
) -> None:
    # Its kubelet says that it is not ready, which it is tainted for, and falls silent.
    node = make_node("n0", zone="a", ready="False", taints=[f"{NOT_READY}:{e}" for e in EFFECTS])
    snapshot = make_snapshot([node, make_node("n1", zone="a")])
    scenario = make_scenario([make_event(20, "kubelet-stop", ["n0", "n1"])], horizon=200)
    found = predict(snapshot, scenario, configured(release))
    [silent] = [
        change.latest_seconds
        for report in found.nodes
        for change in report.changes
        if report.node == "n0" and (change.what, change.value) == ("ready", "Unknown")
    ]
    assert removed(found, f"{NOT_READY}:NoExecute")[1] == pytest.approx(silent + late)


def tells(prediction: Prediction, node: str, what: str, value: str) -> list[tuple[float, float]]:
    """From when to when that may happen to the node, each time."""
    return [
        (change.earliest_seconds, change.latest_seconds)
        for report in prediction.nodes
        for change in report.changes
        if (report.node, change.what, change.value) == (node, what, value)
    ]


def silent_after_false(release: str) -> Prediction:
    """The kubelet of n0 says that it is not ready, which it is tainted for, and falls silent; 12 s after it that of n1."""
    first = make_node("n0", zone="a", ready="False", taints=[f"{NOT_READY}:{e}" for e in EFFECTS])
    nodes = [first, *(make_node(f"n{place}", zone="a") for place in range(1, 5))]
    events = [
        make_event(20, "kubelet-stop", "n0", last_heartbeat=20),
        make_event(32, "kubelet-stop", "n1", last_heartbeat=32),
    ]
    pods = [make_pod("p", "n1")]
    return predict(
        make_snapshot(nodes, pods), make_scenario(events, horizon=200), configured(release)
    )


def test_from_1_34_a_tick_that_exchanges_the_taint_at_once_meets_the_worker() -> None:
    # Before that the next tick exchanges it, long after the worker has written.
    (_, silent), *_ = tells(silent_after_false("1.37"), "n0", "ready", "Unknown")
    for prediction, late in ((silent_after_false("1.33"), 5), (silent_after_false("1.37"), 0.4)):
        (_, given_up), *_ = tells(prediction, "n0", "ready", "Unknown")
        found = removed(prediction, f"{NOT_READY}:NoExecute")
        assert found[1] - given_up == pytest.approx(late, abs=0.02)
        assert found[2] == "certain"
    assert silent == pytest.approx(75, abs=0.2)


def test_who_is_given_up_after_a_tick_that_waits_may_be_so_as_late() -> None:
    (first, last), *_ = tells(silent_after_false("1.37"), "n1", "ready", "Unknown")
    assert last - first == pytest.approx(5 + 0.4, abs=0.2)


@pytest.mark.parametrize(("release", "late"), [("1.33", 0), ("1.34", 0.2)])
def test_from_1_34_a_pass_may_meet_the_worker_of_a_node_that_a_tick_has_just_put_in_line(
    release: str, late: float
) -> None:
    # One token a second, which a pass that sees the node as ready may waste.
    nodes = [make_node(f"n{place}", zone="a") for place in range(5)]
    stop = make_event(20, "kubelet-stop", "n0", last_heartbeat=20)
    snapshot = make_snapshot(nodes, [make_pod("p", "n0")])
    configuration = replace(configured(release), monitor_phase_ns=0, node_eviction_rate_qps=1.0)
    [found] = predict(snapshot, make_scenario([stop], horizon=200), configuration).evictions
    lag, wasted = PASS_LAG_MAX_NS / 1e9, late and 5
    assert found.latest_seconds - found.earliest_seconds == pytest.approx(
        wasted + 2 * lag + late, abs=0.1
    )
