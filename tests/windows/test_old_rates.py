"""While a tick waits for its client its zone keeps the rate that it had: nodes may be tainted that are not otherwise."""

from __future__ import annotations

import pytest
from building.builders import (
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from building.warning_runs import configured

from kubectl_evictplan.controllers.node_lifecycle.zone_states import PARTIAL
from kubectl_evictplan.prediction.document import NodeChange, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.old_rates import OldRates
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    Exploration,
    NodeChangeKey,
    WindowOverRuns,
    ZoneStateKey,
)

TAINT = "node.kubernetes.io/unreachable:NoExecute"


def told(
    pods: int, *, of: int, release: str = "1.37", zones: str = "ab", wait: int = 0
) -> Prediction:
    """Six nodes of a zone of so many fall silent, which have so many ready pods each."""
    nodes = [make_node(f"a{place}", zone="a") for place in range(of)]
    nodes += [make_node(f"b{place}", zone="b") for place in range(5) if "b" in zones]
    ready = [
        make_pod(
            f"p-{node}-{place}", f"a{node}", ready="True", tolerations=default_tolerations(wait)
        )
        for node in range(6)
        for place in range(pods)
    ]
    stop = make_event(1, "kubelet-stop", [f"a{place}" for place in range(6)])
    scenario = make_scenario([stop], horizon=400)
    return predict(make_snapshot(nodes, ready), scenario, configured(release))


def changes(prediction: Prediction, what: str) -> list[NodeChange]:
    return [
        change
        for report in prediction.nodes
        for change in report.changes
        if (change.what, change.value) == (what, TAINT)
    ]


@pytest.mark.parametrize("release", ["1.29", "1.37"])
def test_nodes_of_a_zone_that_is_stopped_may_be_tainted_while_the_tick_waits(release: str) -> None:
    few, many = (told(pods, of=8, release=release) for pods in (1, 110))
    assert len(changes(many, "taint-added")) == 6 >= len(changes(few, "taint-added"))
    assert {change.certainty for change in changes(many, "taint-added")} == {"possible"}
    # 6 * (4 + 2 * 110) requests at 20 a second.
    assert all(100 < change.latest_seconds < 300 for change in changes(many, "taint-added"))
    assert {one.pod for one in many.evictions} == {
        f"p-{n}-{p}" for n in range(6) for p in range(110)
    }
    assert {one.certainty for one in many.evictions} == {"possible"}


def test_pods_that_the_scenario_makes_or_changes_go_with_them() -> None:
    for_ever = [tolerates(UNREACHABLE, None)]
    nodes = [make_node(f"a{place}", zone="a") for place in range(8)]
    nodes += [make_node(f"b{place}", zone="b") for place in range(5)]
    pods = [
        make_pod(f"p-{node}-{place}", f"a{node}", ready="True", tolerations=for_ever)
        for node in range(6)
        for place in range(110)
    ]
    made = make_pod("made", "a0", created=None, tolerations=[tolerates(UNREACHABLE, 30)])
    changed = [tolerates(UNREACHABLE, 7)]
    events = [
        make_event(1, "kubelet-stop", [f"a{place}" for place in range(6)]),
        make_event(20, "pod-create", pod=made),
        make_event(21, "pod-tolerations", pods=["default/p-1-0"], tolerations=changed),
    ]
    found = predict(
        make_snapshot(nodes, pods), make_scenario(events, horizon=400), configured("1.29")
    )
    assert {one.pod for one in found.evictions} == {"made", "p-1-0"}
    assert all(one.latest_seconds > 100 for one in found.evictions)


def test_so_may_nodes_where_all_are_down_and_keep_taints_that_the_tick_does_not_see() -> None:
    many = told(50, of=6, zones="a", wait=300)
    added, removed = changes(many, "taint-added"), changes(many, "taint-removed")
    assert len(added) == len(removed) == 6
    assert {change.certainty for change in (*added, *removed)} == {"possible"}
    assert len(many.evictions) == 300
    assert {one.certainty for one in many.evictions} == {"possible"}


def test_a_zone_that_keeps_its_rate_has_nothing_to_wait_for() -> None:
    few, many = (told(pods, of=6, wait=5) for pods in (1, 20))
    assert {one.certainty for one in many.evictions} == {"certain"}
    earliest = (min(one.earliest_seconds for one in each.evictions) for each in (few, many))
    assert len(set(earliest)) == 1


def test_what_is_surely_deleted_before_stays_certain() -> None:
    nodes = [make_node(f"a{place}", zone="a") for place in range(8)]
    nodes += [make_node(f"b{place}", zone="b") for place in range(5)]
    pods = [
        make_pod(f"p-{node}-{place}", f"a{node}", ready="True", tolerations=default_tolerations(0))
        for node in range(6)
        for place in range(110)
    ]
    events = [
        make_event(1, "kubelet-stop", [f"a{place}" for place in range(6)]),
        make_event(2, "taint", "a0", taint="a=b:NoExecute"),
    ]
    found = predict(
        make_snapshot(nodes, pods), make_scenario(events, horizon=400), configured("1.37")
    )
    early = [one for one in found.evictions if one.node == "a0" and one.latest_seconds < 40]
    assert {one.certainty for one in early} == {"certain"}
    assert len(early) == 110


@pytest.mark.parametrize(("given_up", "tainted"), [(-3, {"a1", "a2"}), (-60, set())])
def test_a_zone_has_its_rate_still_where_the_tick_that_stops_it_is_under_way(
    given_up: float, tainted: set[str]
) -> None:
    # Three of four nodes: the zone is stopped, at the end of a tick that marks 80 pods of each.
    keys = [f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"]
    nodes = [
        make_node(f"a{n}", zone="a", ready="Unknown", transition=given_up, taints=keys[: 2 - n])
        for n in range(2)
    ]
    nodes += [
        make_node("a2", zone="a", ready="Unknown", transition=given_up, taints=keys[:1]),
        make_node("a3", zone="a"),
    ]
    pods = [
        make_pod(f"p-{n}-{place}", f"a{n}", ready="True", tolerations=default_tolerations(0))
        for n in range(3)
        for place in range(80)
    ]
    found = predict(make_snapshot(nodes, pods), make_scenario([], horizon=400), configured("1.37"))
    told = {report.node for report in found.nodes for change in report.changes}
    assert told == tainted
    assert {one.node for one in found.evictions if one.earliest_seconds == 0} >= tainted
    # 3 * (4 + 2 * 80) requests at 20 a second.
    assert all(change.latest_seconds < 27 for change in changes(found, "taint-added"))


def test_what_runs_show_stays_where_a_taint_before_the_start_was_the_first_one() -> None:
    """The n-th window of a change need not have n - 1 before it."""
    result = Exploration()
    added = NodeChangeKey("a0", TAINT_ADDED, TAINT)
    result.nodes.windows[NodeChangeKey("a0", READY, "Unknown"), 0] = WindowOverRuns(ns(50), ns(55))
    result.nodes.windows[added, 1] = WindowOverRuns(ns(200), ns(220))
    result.zones.windows[ZoneStateKey("/a", PARTIAL), 0] = WindowOverRuns(ns(50), ns(55))
    snapshot = make_snapshot([make_node("a0", zone="a"), make_node("a1", zone="a")])
    scenario, configuration = make_scenario([], horizon=400), configured("1.29")
    late = OldRates(
        result, lambda _: ns(10), set(), set(), Given(snapshot, scenario, configuration)
    )
    late.put(scenario.end_ns)
    spans = {
        (window.earliest_ns, window.latest_ns)
        for (key, _), window in result.nodes.windows.items()
        if key == added
    }
    assert spans == {(ns(55), ns(65)), (ns(200), ns(220))}
