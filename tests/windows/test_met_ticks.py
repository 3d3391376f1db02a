"""Countdowns that end before a tick takes the taint off, or after it, for what the ticks between them cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

import pytest
from building.builders import (
    NOT_READY,
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
    tolerates,
)

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.unknowns.met_ticks import MovedTicks, TickChain
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps

World = tuple[ClusterSnapshot, Scenario, ControllerConfiguration]
Span = tuple[float, float]

SILENT = make_event(2.6, "kubelet-stop", ["n0"], last_heartbeat=2.5)


def world(pod: Pod, events: Iterable[ScenarioEvent]) -> World:
    """A node to which something happens, in a zone of its own, beside one that is well; the monitor ticks every 2 s."""
    snapshot = make_snapshot(
        [make_node("n0", zone="a"), make_node("n1", zone="b")],
        [pod],
        leases=[make_lease(name, -0.3, duration_seconds=4) for name in ("n0", "n1")],
    )
    flags = {"node-monitor-period": "2s", "node-monitor-grace-period": "9s"}
    settings = ControllerSettings(kubernetes_version="1.27.16", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return snapshot, make_scenario(list(events), horizon=60), configuration


def told(given: World) -> list[Span]:
    evictions = [e for e in predict(*given).evictions if e.controller == "taint-eviction"]
    return [(w.earliest_seconds, w.latest_seconds) for e in evictions for w in e.windows]


def deleted(given: World, begins: Iterable[float]) -> Iterator[float]:
    """When the pod goes where the monitor's first tick comes at one of these instants, and ticks that cost nothing at first cost all they can later."""
    snapshot, scenario, configuration = given
    for phase in begins:
        for after in (5, 6, 7):
            costly = ns(phase) + after * ns(2)
            course = ((ns(phase), ns(2)), (costly, ns(2.01)))
            timing = Timing(ns(phase), monitor_courses=(course,), pass_phase_ns=ns(0.0001))
            entries = simulate(snapshot, scenario, configuration, timing).entries
            yield from islice((e.at_ns / 1e9 for e in entries if isinstance(e, PodDeleted)), 1)


def test_a_countdown_may_just_end_before_a_tick_takes_the_taint_off_anywhere_between_two_ends() -> (
    None
):
    # n0 gets its taint between 14.5 and 16.5, and the third tick after that, 6 s later or some hundredths more, finds it ready. At both ends
    # of the cell in which that tick comes before 21.7 it comes just 6 s later: too early for a countdown of 6 s.
    pod = make_pod("p", "n0", tolerations=default_tolerations(6))
    back = make_event(20, "kubelet-start", ["n0"])
    given = world(pod, [SILENT, back, make_event(21.7, "node-ready", ["n1"], status="False")])
    assert told(given) == [(20.5, pytest.approx(22, abs=0.02))]
    found = sorted(set(deleted(given, [phase / 20 for phase in range(40)])))
    assert found[0] < 20.6
    assert found[-1] > 21.9
    assert all(after - before < 0.1 for before, after in pairwise(found))


@pytest.mark.parametrize(("stop", "back"), [(-2, 12), (-1.6, 9.5), (-2.6, 9)])
def test_a_countdown_of_before_the_start_may_just_not_end_before_all_zones_are_down(
    stop: float, back: float
) -> None:
    """The tick that finds n1 silent takes the taint of n0 off, in some phases before 9 s: a countdown that began just now ends then."""
    down = make_node("n0", ready="Unknown", taints=[make_taint(f"{UNREACHABLE}:NoExecute")])
    snapshot = make_snapshot(
        [down, "n1"],
        [make_pod("p", "n0", tolerations=default_tolerations(9))],
        leases=[make_lease("n0", -300), make_lease("n1", stop, duration_seconds=4)],
    )
    events = [
        make_event(0.001, "kubelet-stop", ["n1"], last_heartbeat=stop),
        make_event(back, "kubelet-start", ["n1"]),
    ]
    _, _, configuration = world(make_pod("p", "n0"), [])
    scenario, found = make_scenario(events, horizon=60), set[float]()
    for phase in range(40):
        timing = Timing(ns(phase / 20), pass_phase_ns=ns(0.0001), timer_start_fraction=1.0)
        entries = simulate(snapshot, scenario, configuration, timing).entries
        found.update(islice((e.at_ns / 1e9 for e in entries if isinstance(e, PodDeleted)), 1))
    spans = told((snapshot, scenario, configuration))
    assert max(found) > 28
    assert all(any(since <= at <= until for since, until in spans) for at in found)


def test_no_countdown_ends_before_a_tick_that_no_costs_make_so_late() -> None:
    # n0 is tainted before 15, and the tick after that takes the taint off: 2.01 s later at the most.
    pod = make_pod("p", "n0", tolerations=default_tolerations(3))
    silent = make_event(1.1, "kubelet-stop", ["n0"], last_heartbeat=1)
    assert told(world(pod, [silent, make_event(15, "kubelet-start", ["n0"])])) == []


def test_a_countdown_that_an_event_begins_may_just_be_cut_short_as_well() -> None:
    # From 17 on the pod tolerates the taint for 4 s. Where a tick comes before 21, it goes for the next one: after 22 a tick gives the node up.
    events = [
        SILENT,
        make_event(17, "pod-tolerations", pods=["default/p"], tolerations=default_tolerations(4)),
        make_event(20, "kubelet-start", ["n0"]),
        make_event(22.5, "kubelet-stop", ["n0"], last_heartbeat=22.4),
    ]
    tolerations = [tolerates(NOT_READY), tolerates(UNREACHABLE)]
    given = world(make_pod("p", "n0", tolerations=tolerations), events)
    assert told(given) == [(21, 21), (38.4, pytest.approx(40.57, abs=0.02))]
    found = set(deleted(given, [phase / 20 for phase in range(40)]))
    assert any(39 < at < 40 for at in found)


def test_a_pod_may_just_come_before_a_tick_takes_the_taint_off_or_just_after_it() -> None:
    # Where that tick comes before 20.9 the pod stays until the node is given up once more, which is known to the second.
    pod = make_pod("late", "n0", created=None)
    events = [
        SILENT,
        make_event(20, "kubelet-start", ["n0"]),
        make_event(20.9, "pod-create", pod=pod),
        make_event(23, "kubelet-stop", ["n0"], last_heartbeat=22.9),
    ]
    tolerant = make_pod("p", "n0", tolerations=[tolerates(UNREACHABLE)])
    given = world(tolerant, events)
    found = set(deleted(given, [phase / 20 for phase in range(40)]))
    assert any(35 < at < 36 for at in found)
    assert all(any(since <= at <= until for since, until in told(given)) for at in found)


def test_a_tick_that_exchanges_one_taint_for_the_other_may_end_a_countdown_as_well() -> None:
    # n0 says that it is not ready, and falls silent: 12 s after its taint, or some hundredths more, a tick exchanges that for one which the pod tolerates.
    events = [
        make_event(5, "node-ready", ["n0"], status="False"),
        make_event(5.1, "kubelet-stop", ["n0"], last_heartbeat=5),
    ]
    tolerations = [tolerates(NOT_READY, 12), tolerates(UNREACHABLE)]
    given = world(make_pod("p", "n0", tolerations=tolerations), events)
    assert told(given) == [(17, pytest.approx(19.07, abs=0.01))]
    found = sorted(set(deleted(given, [phase / 20 for phase in range(40)])))
    assert found[0] < 17.1
    assert found[-1] > 18.9


def test_a_tick_that_is_held_moves_others_of_its_process_only_as_far_as_it_has_to() -> None:
    chain = TickChain((0, 10, 20, 30), (5, 16, 28, 40), TickSteps(10, 12))

    earlier = MovedTicks(chain, latest=True, place=1, to_ns=13, meets_ns=28)
    assert list(map(earlier.instant_ns, chain.last_ns)) == [3, 13, 25, 37]
    later = MovedTicks(chain, latest=False, place=2, to_ns=25, meets_ns=20)
    assert list(map(later.instant_ns, chain.first_ns)) == [1, 13, 25, 35]
    assert later.instant_ns(17) == 17


def test_no_tick_comes_outside_of_what_its_process_leaves_open() -> None:
    """Where a process may end before it begins, the same decision may be another process's at the other end."""
    every = range(20, 60, 2)
    steps = TickSteps(ns(2), ns(2.01))
    chain = TickChain([ns(at) for at in every], [ns(at + 0.5) for at in every][:-1], steps)
    assert chain.can_have(10, ns(40))
    assert chain.can_have(10, ns(40.5) + 1)
    assert not chain.can_have(10, ns(9.5))
    # The last one comes at one end only.
    assert chain.can_have(19, ns(57))
    assert not chain.can_have(19, ns(58.5))
