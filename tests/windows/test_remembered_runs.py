"""Runs that are not made because another one gives the same: predictions with and without them are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)
from drawn.drain_worlds import DrainedWorld
from drawn.soak_worlds import draw_soak_world
from msgspec.structs import replace
from windows.lines import Line, in_order

from kubectl_evictplan.cluster.timeline import Timeline, Told
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.pod_gc import IdleGarbage
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_replays import Replays
from kubectl_evictplan.windows.places_in_line import Order
from kubectl_evictplan.windows.pod_fates import _Tried
from kubectl_evictplan.windows.pod_worlds import PodWorld
from kubectl_evictplan.windows.unknowns.of_pods import PodTiming, PodTimings
from kubectl_evictplan.windows.zone_lines import ZoneLine, groups_of

RELEASE = resolve_configuration(
    ControllerSettings(kubernetes_version="1.29.6"), ControlPlaneFlags()
)
# Small worlds of several classes in which something is remembered.
FEW = (50000158, 50000165, 50000185)
MANY = range(50000100, 50000140)


def told(seed: int) -> list[object]:
    """Everything that is explored of the world of a seed; nothing where not all is tried: what is remembered leaves more of the budget then."""
    _, world = draw_soak_world(seed)
    if isinstance(world, DrainedWorld):
        return []
    prediction: Prediction = predict(world.snapshot, world.scenario, world.configuration)
    if any(each.explored != "wholly" for each in prediction.inputs.coverage.unknowns):
        return []
    return [list(prediction.evictions), prediction.nodes, prediction.inputs.coverage]


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)]
)
def test_what_another_run_gave_is_what_this_one_gives(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = told(seed)
    monkeypatch.setattr(Replays, "_known_of", lambda *_: None)
    monkeypatch.setattr(PodWorld, "runs", each_alone)
    monkeypatch.setattr(_Tried, "end_again", lambda *_: False)
    each_run = told(seed)
    assert each_run == remembered or (not each_run and seed not in FEW)


def each_alone(
    world: PodWorld, played: Mapping[str, NodePlayback], timings: Iterable[Timing]
) -> Iterator[Timeline]:
    """What ``PodWorld.runs`` says, each run made."""
    return (world.simulate(played, timing) for timing in timings)


@pytest.mark.parametrize(("back", "deletes"), [(20, False), (75, True)])
def test_loops_that_delete_nothing_are_one_run(
    back: float, deletes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node("n0", created=None)
    pods = [make_pod("p", "n0"), make_pod("q", "n0", grace_seconds=0)]
    snapshot = make_snapshot([node, make_node("n1")], pods)
    events = [
        make_event(9, "node-delete", "n0"),
        make_event(back, "node-create", node=node),
        make_event(80, "taint", "n0", taint="own:NoExecute"),
    ]
    scenario = make_scenario(events, horizon=100)
    simulate, looks, runs = PodWorld.simulate, list[IdleGarbage](), list[Timeline]()

    def noted(world: PodWorld, played: Any, timing: Timing, *idle: IdleGarbage) -> Timeline:
        looks.extend(idle)
        runs.extend(found := [simulate(world, played, timing, *idle)])
        return found[0]

    with monkeypatch.context() as patch:
        patch.setattr(PodWorld, "simulate", noted)
        shared = predict(snapshot, scenario, RELEASE)
    monkeypatch.setattr(PodWorld, "runs", each_alone)

    assert list(shared.evictions) == list(predict(snapshot, scenario, RELEASE).evictions)
    assert any(len(each.timings) > 1 for each in looks)
    assert (len(runs) > len(looks)) == deletes == any(each.acting for each in looks)


def test_where_no_countdown_runs_at_the_start_all_histories_share_their_timings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = make_node("n0", created=None)
    events = [
        make_event(9, "node-delete", "n0"),
        make_event(20, "node-create", node=node),
        make_event(30, "kubelet-stop", "n0"),
    ]
    snapshot = make_snapshot([node, make_node("n1")], [make_pod("p", "n0")])
    of, shared = PodTimings.of, list[list[PodTiming]]()

    def noted(timings: PodTimings, *history: Any) -> list[PodTiming]:
        shared.append(found := of(timings, *history))
        return found

    monkeypatch.setattr(PodTimings, "of", noted)
    predict(snapshot, make_scenario(events), RELEASE)

    assert len(shared) > 1
    assert len({id(each) for each in shared}) == 1


def test_one_pod_is_simulated_for_all_whose_tolerations_come_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [tolerates(f"own-{number}") for number in range(3)]
    lists = [default_tolerations(9), (*default_tolerations(9), own[0]), (own[1],), (own[2],), ()]
    pods = [
        make_pod(f"{node}-{place}", node, tolerations=some)
        for node in ("n1", "n2")
        for place, some in enumerate(lists)
    ]
    snapshot = make_snapshot([make_node(name, zone="a") for name in ("n1", "n2", "n3")], pods)
    scenario = make_scenario([make_event(0, "kubelet-stop", ["n1", "n2"])])
    simulate, simulated = PodWorld.simulate, list[str]()

    def noted(world: PodWorld, *known: Any) -> Timeline:
        simulated.extend(pod.name for pod in world.snapshot.pods)
        return simulate(world, *known)

    monkeypatch.setattr(PodWorld, "simulate", noted)
    found = predict(snapshot, scenario, RELEASE).evictions

    assert sorted(row.pod for row in found) == sorted(pod.name for pod in pods)
    assert len(simulated) == 2


def test_a_pass_inside_a_tick_that_finds_no_token_changes_nothing() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.tell(8, Told.MID_TICK)
    assert not line.replay().pass_inside_matters
    line.tell(20, Told.SWAP, qps=0.5)
    line.silent(30, "c")
    line.tell(30, Told.MID_TICK)
    assert line.replay().pass_inside_matters


def replays_made(line: Line, *orders: Order, **rules: bool) -> int:
    """How many replays are made of the line: one by each order, each with and without these rules."""
    zone, replays = ZoneLine(line.told), Replays(Budget())
    groups = groups_of([zone])
    chosen = [line.rules, replace(line.rules, **rules)] if rules else [line.rules]
    return len({id(replays.of(zone, each, o, groups, 0)) for each in chosen for o in orders})


def test_orders_that_differ_in_nobody_who_was_taken_share_a_replay() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.silent(40, "c")
    line.returns(90, 95, "a")

    assert replays_made(line, in_order("a", "b", "c"), in_order("c", "a", "b")) == 1
    assert replays_made(line, in_order("a", "b", "c"), in_order("b", "a", "c")) == 2


def test_where_entries_come_again_orders_share_a_replay_until_somebody_is_taken() -> None:
    for rate, made in ((0.0, 1), (0.1, 2)):
        line = Line("1.19.3")
        line.tell(0, Told.SWAP, qps=rate)
        line.silent(5, "a", "b")
        line.silent(10, "c")

        assert replays_made(line, in_order("a", "b", "c"), in_order("b", "c", "a")) == made


def test_where_entries_come_again_only_the_order_in_a_queue_that_takes_somebody_matters() -> None:
    line = Line("1.19.3", rate=1.0)
    line.tell(0, Told.SWAP, qps=0.0)
    line.silent(5, "a", "b")
    for told in (Told.STOPPED, Told.STARTED, Told.CREATED):
        line.tell(9, told)
    line.silent(10, "c")

    assert replays_made(line, in_order("a", "b", "c"), in_order("b", "c", "a")) == 1
    line.silent(15, "a")
    assert replays_made(line, in_order("a", "b", "c"), in_order("b", "c", "a")) == 2


def test_the_token_of_the_start_matters_only_while_it_is_not_there_again() -> None:
    for silent_at, made in ((5, 2), (15, 1)):
        line = Line()
        line.tell(0, Told.SPENT)
        line.silent(silent_at, "a")

        assert replays_made(line, in_order("a"), spent_at_start=1.0) == made
