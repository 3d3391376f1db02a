"""How many deletions are made again: so many as taints are written and processes begin, and of a countdown no more than its length allows."""

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

from kubectl_evictplan.kube.objects import Toleration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.buckets import within
from kubectl_evictplan.windows.clients.repeated_deletions import Due, RepeatedDeletions

PODS = 10
# Somebody writes taints ten times within a second, a hundred seconds after the start.
WRITTEN = {"n1": [((ns(100), ns(101)), 10, 10)]}


def at_once_in(
    seconds: float, *tolerations: Toleration, gone_ns: tuple[int, int] = (0, ns(500))
) -> float:
    """How many are made again within so many seconds of the node's ten pods, which go within ``gone_ns`` for the first time."""
    snapshot = make_snapshot(["n1"], [make_pod("p", "n1", tolerations=tolerations)])
    given = Given(snapshot, make_scenario([]), configured("1.37", {}))
    repeated = RepeatedDeletions(given, {"n1": {UNREACHABLE}})
    due: dict[Due, int] = {(gone_ns, repeated._countdown_ns("n1", "default/p"), False): PODS}
    arrivals = list(repeated.arrivals(WRITTEN, [], {"n1": due}, 1.0))
    return max(within(arrivals, since, since + seconds) for since in range(0, 500, 5))


def test_whom_a_taint_has_go_at_once_goes_again_each_time_that_taints_are_written() -> None:
    assert at_once_in(10) == 10 * PODS


def test_countdowns_of_one_pod_end_one_after_the_other() -> None:
    hundred = default_tolerations(100)
    # Where the first one of each may be among them, which counts already, ...
    assert at_once_in(10, *hundred) == pytest.approx(PODS * 1 / 100)
    # ... and where it is over: they begin within one second.
    assert PODS <= at_once_in(10, *hundred, gone_ns=(0, ns(50))) <= PODS * 1.01


def test_what_has_not_gone_by_then_does_not_go_again() -> None:
    assert at_once_in(500, gone_ns=(ns(102), ns(500))) == 0


def test_countdowns_that_begin_anew_with_a_process_wait_for_nothing_where_they_are_few() -> None:
    nodes = [make_node("n1", ready="Unknown", taints=[f"{UNREACHABLE}:NoExecute"])]
    nodes += [make_node(name) for name in ("n2", "n3")]
    tolerations = [tolerates(UNREACHABLE, 60)]
    pods = [
        make_pod(f"p{n}", "n1", owner="ReplicaSet/web", tolerations=tolerations) for n in range(2)
    ]
    restart = [make_event(10, "controller-stop"), make_event(12, "controller-start")]
    given = make_snapshot(nodes, pods), make_scenario(restart, horizon=None)
    limited, unlimited = (
        predict(*given, configured("1.37", flags)).evictions
        for flags in ({}, {"kube-api-qps": "-1"})
    )
    assert limited == unlimited
    assert len(limited) == 2


@pytest.mark.parametrize("counted_from", [None, 190])
@pytest.mark.parametrize("excluded", [True, False])
def test_a_node_that_counts_in_no_zone_has_its_taint_written_by_every_tick(
    excluded: bool, counted_from: int | None
) -> None:
    """Its line is made anew each time; whoever is on its way out there is deleted once more each time."""
    labels = {"node.kubernetes.io/exclude-disruption": ""} if excluded else {}
    node = make_node("n1", zone="a", labels=labels)
    pods = [make_pod(f"p{n}", "n1", ready="False", grace_seconds=300) for n in range(8)]
    late = make_pod("late", "n1", ready="False", tolerations=default_tolerations(20))
    snapshot = make_snapshot([node, make_node("n2", zone="b")], [late, *pods])
    posted = make_event(5, "node-ready", "n1", status="False")
    events = [posted]
    if counted_from is not None:
        # Until then no other node of the zone counts.
        events.append(make_event(counted_from, "node-create", node=make_node("n3", zone="a")))
    scenario = make_scenario(events, horizon=200)
    prediction = predict(snapshot, scenario, configured("1.37", {}))
    (told,) = (each for each in prediction.evictions if each.pod == "late")
    # A tick, a pass, 20 s, and what the client lets wait.
    assert (told.latest_seconds > 5 + 5.3 + 20 + 1) is excluded
