"""Before 1.26 writes of taints do not fail where the node was written meanwhile: what another one wrote is lost."""

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

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict

EFFECTS = ("NoSchedule", "NoExecute")
Told = list[tuple[str, float, int, str]]


def told(prediction: Prediction, key: str) -> Told:
    """What happens to the NoExecute taint of n0."""
    return [
        (one.what, one.earliest_seconds, round(one.latest_seconds), one.certainty)
        for report in prediction.nodes
        for one in report.changes
        if report.node == "n0" and one.value == f"{key}:NoExecute"
    ]


def begun_anew(
    release: str, *effects: str, ready: str = "Unknown", status: str = "True"
) -> Prediction:
    """A process begins after the kubelet of n0 is back, which is tainted so; new pods tolerate that for 3 s, and for 30 s."""
    taints = [f"{UNREACHABLE}:{effect}" for effect in effects]
    nodes = [
        make_node("n0", zone="a", ready=ready, taints=taints),
        *(make_node(f"n{place}", zone="a") for place in range(1, 5)),
    ]
    events = [
        make_event(0, "controller-stop"),
        make_event(1, "node-ready", "n0", status=status),
        make_event(10, "controller-start"),
    ]
    for seconds in (3, 30):
        pod = make_pod(f"p{seconds}", "n0", tolerations=default_tolerations(seconds), created=None)
        events.append(make_event(5, "pod-create", pod=pod))
    events.sort(key=lambda one: one.at_ns)
    return predict(make_snapshot(nodes), make_scenario(events, horizon=100), configured(release))


@pytest.mark.parametrize("release", ["1.16.15", "1.20.15", "1.25.3"])
def test_a_worker_may_put_a_taint_on_again_that_a_first_tick_takes_off(release: str) -> None:
    found = begun_anew(release, *EFFECTS)
    assert told(found, UNREACHABLE) == [
        ("taint-removed", 10, 10, "certain"),
        ("taint-added", 10, 10, "possible"),
        ("taint-removed", 10, 15, "possible"),
    ]
    # Whoever tolerates it for longer than until the next tick stays.
    assert [(one.pod, one.earliest_seconds, one.certainty) for one in found.evictions] == [
        ("p3", 13, "possible")
    ]


def test_it_puts_nothing_on_again_where_it_has_nothing_to_write_or_writes_fail() -> None:
    assert len(told(begun_anew("1.25.3", "NoExecute", ready="True"), UNREACHABLE)) == 1
    assert len(told(begun_anew("1.26.1", *EFFECTS), UNREACHABLE)) == 1


@pytest.mark.parametrize(("release", "by"), [("1.16.15", 100), ("1.25.3", 40)])
def test_a_worker_may_take_off_again_what_a_first_pass_puts_on(release: str, by: int) -> None:
    # The next tick puts the node in line again; up to 1.18.16 none does.
    found = begun_anew(release, ready="True", status="False")
    assert told(found, NOT_READY) == [
        ("taint-added", 10, 10, "certain"),
        ("taint-removed", 10, 10, "possible"),
        ("taint-added", 15, by, "possible"),
    ]
    first, _ = found.evictions
    assert (first.earliest_seconds, first.certainty) == (13, "possible")
    assert first.latest_seconds == pytest.approx(min(by + 3, 100), abs=0.5)


def test_where_all_zones_are_down_what_is_put_on_again_stays() -> None:
    # Its kubelet says that it is not ready, which it is tainted for, and falls silent.
    node = make_node("n0", zone="a", ready="False", taints=[f"{NOT_READY}:{e}" for e in EFFECTS])
    pod = make_pod("p", "n0", tolerations=default_tolerations(60))
    snapshot = make_snapshot([node, make_node("n1", zone="a")], [pod])
    scenario = make_scenario([make_event(20, "kubelet-stop", ["n0", "n1"])], horizon=200)
    for release, ends in (("1.25.3", [60, 121]), ("1.29.6", [60])):
        [found] = predict(snapshot, scenario, configured(release)).evictions
        assert [one.latest_seconds for one in found.windows] == pytest.approx(ends, abs=0.5)
        assert found.certainty == "possible"
