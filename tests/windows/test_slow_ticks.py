"""A tick that marks many pods not ready waits for its client: windows of what follows it reach as much further."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from building.builders import make_event, make_node, make_pod, make_scenario, make_snapshot
from building.warning_runs import configured

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.windows.clients.first_ticks import FirstTicks
from kubectl_evictplan.windows.clients.late_windows import Late, put_off
from kubectl_evictplan.windows.outcome import READY, TAINT_REMOVED, Exploration, NodeChangeKey

NODES = [make_node(name, zone="a") for name in ("n1", "n2", "n3", "n4", "n5", "n6", "n7")]
UNKNOWN, TAINT = "Unknown", "node.kubernetes.io/unreachable:NoExecute"


def crowd(number: int, node: str = "n1") -> list[Pod]:
    return [
        make_pod(f"{node}-{place}", node, owner="ReplicaSet/web", ready="True")
        for place in range(number)
    ]


def told(
    release: str,
    nodes: Sequence[Node] = NODES,
    flags: dict[str, str] | None = None,
    **ready_pods: int,
) -> Prediction:
    """Kubelets of these nodes fall silent, which have so many ready pods each."""
    pods = [pod for node, number in ready_pods.items() for pod in crowd(number, node)]
    stop = make_event(1, "kubelet-stop", list(ready_pods))
    scenario = make_scenario([stop], horizon=400)
    return predict(make_snapshot(nodes, pods), scenario, configured(release, flags))


def latest(prediction: Prediction, value: str, node: str = "n1") -> float:
    [report] = [one for one in prediction.nodes if one.node == node]
    return max(change.latest_seconds for change in report.changes if change.value == value)


def evicted(prediction: Prediction) -> float:
    return max(one.latest_seconds for one in prediction.evictions)


@pytest.mark.parametrize("release", ["1.29", "1.37"])
def test_a_tick_that_marks_few_pods_is_not_late(release: str) -> None:
    none, few = told(release, n1=1), told(release, n1=7)
    assert latest(none, TAINT) == latest(few, TAINT)
    assert evicted(none) == evicted(few)
    assert few.inputs.coverage.outer_bound == 0


def test_the_tick_after_it_and_the_taint_come_as_much_later_as_marking_takes() -> None:
    few, many = told("1.29", n1=7), told("1.29", n1=110)
    assert latest(many, UNKNOWN) == latest(few, UNKNOWN)
    late = (4 + 2 * 110 + 4 - 30) / 20
    assert latest(many, TAINT) - latest(few, TAINT) == pytest.approx(late, abs=0.01)
    assert evicted(many) - latest(many, TAINT) > 15
    assert {one.certainty for one in many.evictions} == {"certain"}


def test_a_tick_takes_as_long_as_its_requests_where_its_client_has_no_limit() -> None:
    # One after the other, up to 10 ms each; every second one is an event, which somebody else tells.
    few, many = (told("1.29", NODES, {"kube-api-qps": "-1"}, n1=pods) for pods in (3, 110))
    assert latest(many, UNKNOWN) == latest(few, UNKNOWN)
    late = (4 + 2 * 110 + 4) / 2 * 0.01 - 0.1
    assert latest(many, TAINT) - latest(few, TAINT) == pytest.approx(late, abs=0.001)


def test_from_1_34_on_a_lone_node_is_in_line_before_its_pods_are_marked() -> None:
    few, many = told("1.37", n1=7), told("1.37", n1=110)
    assert latest(many, TAINT) - latest(few, TAINT) == pytest.approx(0.4, abs=0.01)


def test_of_several_nodes_of_one_tick_any_may_be_the_last() -> None:
    few, many = told("1.29", n1=3, n2=3), told("1.29", n1=40, n2=40)
    late = (2 * (4 + 2 * 40) + 4 - 30) / 20
    of_other = (4 + 2 * 40 + 4 - 30) / 20
    assert latest(many, UNKNOWN) - latest(few, UNKNOWN) == pytest.approx(of_other, abs=0.01)
    assert latest(many, TAINT) - latest(few, TAINT) == pytest.approx(late, abs=0.01)
    states = zip(few.zones, many.zones, strict=True)
    assert all(
        after.latest_seconds >= before.latest_seconds
        for one, other in states
        for before, after in zip(one.states, other.states, strict=True)
    )


@pytest.mark.parametrize(("number", "late"), [(7, 0), (8, (4 * 8 + 4 - 30) / 20)])
def test_from_eight_nodes_on_the_nodes_alone_make_a_tick_wait(number: int, late: float) -> None:
    nodes = [make_node(f"n{place}", zone="a") for place in range(1, 21)]
    one, several = (
        told("1.29", nodes, **{f"n{place}": 0 for place in range(1, most + 1)})
        for most in (1, number)
    )
    assert latest(several, UNKNOWN) - latest(one, UNKNOWN) == pytest.approx(late, abs=0.06)


MANY = 110


def of_pods(number: int, stops: list[ScenarioEvent]) -> Prediction:
    """So many ready pods on the node that falls silent first."""
    snapshot, scenario = make_snapshot(NODES, crowd(number)), make_scenario(stops, horizon=400)
    return predict(snapshot, scenario, configured("1.29"))


def test_who_is_found_silent_later_waits_for_the_tick_that_marks_many() -> None:
    stops = [make_event(1, "kubelet-stop", "n1"), make_event(3, "kubelet-stop", "n2")]
    alone, after = (of_pods(number, stops) for number in (5, MANY))
    late = (4 + 2 * MANY + 4 - 30) / 20
    assert latest(after, UNKNOWN, "n1") == latest(alone, UNKNOWN, "n1")
    assert latest(after, UNKNOWN, "n2") - latest(alone, UNKNOWN, "n2") == pytest.approx(
        late, abs=0.01
    )


def test_a_last_renewal_that_a_tick_does_not_see_while_it_waits_is_seen_by_the_next_one() -> None:
    stops = [make_event(1, "kubelet-stop", "n1"), make_event(43, "kubelet-stop", "n2")]
    few, many = (of_pods(number, stops) for number in (5, MANY))
    late = (4 + 2 * MANY + 4 - 30) / 20
    assert latest(many, UNKNOWN, "n2") - latest(few, UNKNOWN, "n2") == pytest.approx(late, abs=0.01)


def restarted(number: int, flags: dict[str, str] | None = None) -> Prediction:
    """A new process finds so many nodes tainted."""
    taints = ["node.kubernetes.io/unreachable:NoExecute"]
    down = [
        make_node(f"d{place}", zone="a", ready="Unknown", taints=taints) for place in range(number)
    ]
    up = [make_node(f"u{place}", zone="b") for place in range(12)]
    events = [make_event(10, "controller-stop"), make_event(20, "controller-start")]
    events.insert(0, make_event(0, "kubelet-stop", [node.name for node in down]))
    scenario = make_scenario(events, horizon=60)
    return predict(make_snapshot([*down, *up]), scenario, configured("1.37", flags or {}))


def test_the_first_tick_of_a_new_process_tells_of_all_nodes_and_takes_taints_off() -> None:
    few, limited = restarted(1), restarted(1, {"kube-api-qps": "5", "kube-api-burst": "5"})
    assert latest(few, TAINT, "d0") < 20.2
    assert 20.5 < latest(limited, TAINT, "d0") < 25
    many = restarted(12)
    removed = max(
        change.latest_seconds
        for report in many.nodes
        for change in report.changes
        if change.what == "taint-removed"
    )
    assert 20.5 < removed < 25


@pytest.mark.parametrize("others", [(), ("r0",)])
def test_the_first_tick_of_a_process_takes_taints_off_late_where_no_node_changes(
    others: tuple[str, ...],
) -> None:
    # All are heard again while nobody looks: GET and PATCH for each of both taints, behind an event each.
    number, keys = 12, ("NoSchedule", "NoExecute")
    taints = [f"node.kubernetes.io/unreachable:{effect}" for effect in keys]
    nodes = [
        make_node(f"r{place}", zone="a", ready="Unknown", taints=taints) for place in range(number)
    ]
    nodes += [make_node(f"u{place}", zone="b") for place in range(40)]
    events = [
        make_event(0, "controller-stop"),
        make_event(5, "kubelet-start", [f"r{place}" for place in range(number)]),
        make_event(40, "controller-start"),
        *(make_event(40.5, "untaint", name, taint="other:NoExecute") for name in others),
    ]
    scenario = make_scenario(events, horizon=120)
    found = predict(make_snapshot(nodes), scenario, configured("1.29"))
    removed = {
        (report.node, change.certainty): change.latest_seconds
        for report in found.nodes
        for change in report.changes
        if change.what == "taint-removed" and change.value.endswith("NoExecute")
    }
    requests = 2 * 2 * number
    assert min(removed.values()) >= 40 + (requests + min(requests, len(nodes)) - 30) / 20
    assert max(removed.values()) < 45
    assert {node for node, certainty in removed if certainty != "certain"} == set(others)


@pytest.mark.parametrize(
    ("given_up", "ready", "waits"),
    # Given up 3 s ago, where its pods take 9.7 s; all are marked; it was through long ago.
    [(-3, 80, True), (-3, 0, False), (-60, 80, False)],
)
def test_a_tick_that_marks_pods_still_at_the_start_makes_the_next_one_late(
    given_up: float, ready: int, waits: bool
) -> None:
    down = make_node("n0", zone="a", ready="Unknown", transition=given_up)
    pods = [
        make_pod(f"p{place}", "n0", ready="True" if place < ready else "False")
        for place in range(110)
    ]
    stop = make_event(0, "kubelet-stop", "n1", last_heartbeat=-37)
    scenario = make_scenario([stop], horizon=400)
    found = predict(make_snapshot([down, *NODES], pods), scenario, configured("1.29"))
    late = (2 * ready + 4 + 4) / 20 if waits else 0
    assert latest(found, UNKNOWN) == pytest.approx(8 + late, abs=0.6)


def test_few_nodes_without_pods_to_mark_wait_where_the_burst_is_small() -> None:
    small = {"kube-api-qps": "5", "kube-api-burst": "10"}
    scenario = make_scenario([make_event(1, "kubelet-stop", ["n1", "n2", "n3"])], horizon=400)
    usual, limited = (
        predict(make_snapshot(NODES), scenario, configured("1.29", flags)) for flags in ({}, small)
    )
    late = (2 * 4 + 4 - 10) / 5
    assert latest(limited, UNKNOWN) - latest(usual, UNKNOWN) == pytest.approx(late, abs=0.5)


def test_a_new_process_marks_ready_pods_of_nodes_that_are_not_and_its_ticks_stay_late() -> None:
    events = [
        make_event(10, "controller-stop"),
        make_event(20, "controller-start"),
        make_event(300, "kubelet-stop", "n2", last_heartbeat=299),
    ]
    nodes = [make_node("n1", zone="a", ready="False"), *NODES[1:]]
    few, many = (
        predict(
            make_snapshot(nodes, crowd(number)),
            make_scenario(events, horizon=500),
            configured("1.29"),
        )
        for number in (1, 30)
    )
    # Two requests each, and events of seven nodes.
    assert 1 < latest(many, UNKNOWN, "n2") - latest(few, UNKNOWN, "n2") < 3


def test_ticks_are_as_late_as_all_that_makes_them_late() -> None:
    # Joint statements count on it: a client that lets them wait, and writes that conflict after that.
    result, scenario = Exploration(), make_scenario([], horizon=100)
    for late_ns in (5, 2):
        put_off(result, {"n1": Late(0, late_ns, late_ns)}, scenario, frozenset())
    assert (result.ticks_late_ns, result.late_ns) == (7, 7)


def test_nothing_that_comes_late_meets_what_a_first_tick_surely_takes_off() -> None:
    result, late_ns = Exploration(), 5 * SECOND_NS
    for name in ("n1", "n2"):
        removal = NodeChangeKey(name, TAINT_REMOVED, TAINT)
        result.nodes.add((removal, 0), 10 * SECOND_NS, 10 * SECOND_NS, certain=True, runs=1)
    ready = NodeChangeKey("n2", READY, UNKNOWN)
    result.nodes.add((ready, 0), 3 * SECOND_NS, 8 * SECOND_NS, certain=True, runs=1)
    scenario = make_scenario([make_event(10, "controller-start")], horizon=100)
    first = FirstTicks(
        [event.span for event in scenario.events], lambda _: late_ns, scenario, result
    )

    put_off(result, {"n2": Late(late_ns, late_ns, late_ns)}, scenario, frozenset(), first)

    unsure = {key.node: w.unsure for (key, _), w in result.nodes.windows.items() if key != ready}
    assert unsure == {"n1": False, "n2": True}
