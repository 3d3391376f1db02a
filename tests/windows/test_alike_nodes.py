"""Silent nodes that a node run cannot tell apart: one of them counts for all, and nothing changes by that."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from building.builders import (
    encoded,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace
from realities.drawn_realities import NO_RESTART, SILENCE_ONLY, World, draw_world

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.alike_nodes import AlikeNodes
from kubectl_evictplan.windows.line_replays import Asked, _replayed
from kubectl_evictplan.windows.node_runs import NodeRunner
from kubectl_evictplan.windows.piece_runs import line_rules
from kubectl_evictplan.windows.places_in_line import Placed
from kubectl_evictplan.windows.unknowns.lines import PASS_LAG_MAX_NS
from kubectl_evictplan.windows.unknowns.of_node_runs import pieces
from kubectl_evictplan.windows.zone_lines import ZoneLine, groups_of

SECOND_NS = 1_000_000_000


def outage(
    seed: int, release: str, nodes: int = 14, *, back: bool = True, rate: str = "0.1"
) -> World:
    """Most nodes of two zones fall silent, some later than others; one of them comes back."""
    rng = random.Random(seed)
    names = [f"n{index:02}" for index in range(nodes)]
    node_list = [make_node(name, zone=rng.choice("ab")) for name in names]
    leases = [make_lease(name, -round(rng.random() * 10, 3)) for name in names]
    silent = rng.sample(names, nodes - 3)
    events = [
        make_event(0.5, "kubelet-stop", sorted(silent[:-4])),
        make_event(7.5, "kubelet-stop", sorted(silent[-4:])),
        make_event(rng.choice((48.0, 90.0)), "kubelet-start", silent[0]),
    ][: None if back else 2]
    snapshot = make_snapshot(node_list, [make_pod(f"p-{n}", n) for n in names], leases=leases)
    settings = ControllerSettings(
        kubernetes_version=release,
        flags={"large-cluster-size-threshold": "3", "node-eviction-rate": rate},
    )
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return World(snapshot, make_scenario(events, horizon=rng.choice((100, 400))), configuration)


@pytest.mark.parametrize("release", ["1.18.6", "1.29.6", "1.37.0"])
def test_a_run_with_one_node_of_each_kind_tells_what_the_run_with_all_of_them_tells(
    release: str,
) -> None:
    world = outage(1, release)
    alike = AlikeNodes(world.snapshot, world.configuration)
    runner = NodeRunner(world.snapshot, world.configuration, alike)
    shortened = 0
    for piece in pieces(world.snapshot, world.scenario, world.configuration, 40, alike)[::5]:
        for last in (False, True):
            run = runner.run(piece, last=last)
            whole = runner._whole.of(run.scenario, run.timing)
            shortened += len(run.members)
            assert run.stops == whole.stops
            assert dict(run.nodes) == dict(whole.nodes)
            assert {
                zone: sorted(line.operations, key=repr) for zone, line in run.lines.items()
            } == {zone: sorted(line.operations, key=repr) for zone, line in whole.lines.items()}
    assert shortened


LAGS_NS = 0, 40_000_000, PASS_LAG_MAX_NS


def replays(world: World) -> list[tuple[str, bool, Any, tuple[int, ...]]]:
    """What every replay of every line tells: waits by groups, and when nodes are served."""
    alike = AlikeNodes(world.snapshot, world.configuration)
    runner = NodeRunner(world.snapshot, world.configuration, alike)
    found = []
    for piece in pieces(world.snapshot, world.scenario, world.configuration, 40, alike)[::5]:
        run = runner.run(piece)
        for zone, line in sorted(run.lines.items()):
            groups = groups_of([line])
            late = {False, world.configuration.profile.taint_on_current_condition}
            for inside, lag_ns, stale in product((False, True), LAGS_NS, sorted(late)):
                rules = replace(
                    line_rules(run, world.configuration),
                    lag_ns=lag_ns,
                    mid_tick_pass=inside,
                    stale_lister=stale,
                )
                asked = Asked(line, rules, groups, 10 * SECOND_NS)
                told = _replayed(asked, Placed(lambda *_: ""))
                found.append((zone, line.is_plain, told.rows, told.services))
    return found


@pytest.mark.parametrize(
    ("release", "rate", "nodes"),
    [
        *[(release, rate, 20) for release in ("1.18.6", "1.29.6") for rate in ("0.1", "2", "30")],
        *[("1.37.0", "0.1", 80), ("1.37.0", "0.2", 24), ("1.37.0", "1.9", 72), ("1.37.0", "2", 20)],
    ],
)
def test_a_line_that_nobody_leaves_is_served_as_with_each_node_in_it(
    release: str, rate: str, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list[Any]()
    for seed in range(1, 5):
        world = outage(seed, release, nodes=nodes, back=False, rate=rate)
        found = replays(world)
        assert all(plain for _, plain, *_ in found)
        lines += found
        with monkeypatch.context() as each_alone:
            each_alone.setattr(ZoneLine, "is_plain", False)
            assert [one[2:] for one in found] == [one[2:] for one in replays(world)]
    assert any(len(set(row[0].tokens.at_ns)) > 3 for *_, rows, _ in lines for row in rows)


def check_that_windows_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known = world.snapshot, world.scenario, world.configuration
    found = encoded(predict(*known))
    with monkeypatch.context() as each_alone:
        each_alone.setattr(AlikeNodes, "_courses", lambda *_: {})
        each_alone.setattr(ZoneLine, "is_plain", False)
        assert found == encoded(predict(*known))


@pytest.mark.slow
def test_chains_of_nodes_that_were_not_simulated_tell_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = outage(2, "1.29.6", nodes=7)
    check_that_windows_stay(world, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.18.6", "1.20.4", "1.23.13", "1.29.6", "1.35.0", "1.37.0"])
@pytest.mark.parametrize("seed", range(2))
def test_an_outage_is_predicted_as_with_every_node_simulated(
    seed: int, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_that_windows_stay(outage(seed, release, nodes=7), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2040))
def test_that_holds_in_every_world(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    actions = SILENCE_ONLY if seed % 2 else NO_RESTART
    world = draw_world(seed, actions=actions, down_at_start=seed % 3 == 0)
    check_that_windows_stay(world, monkeypatch)


def test_a_node_that_is_made_later_falls_silent_although_others_that_do_are_alike() -> None:
    nodes = [make_node(name) for name in ("n0", "n1")]
    snapshot = make_snapshot(nodes, leases=[make_lease(name, -1) for name in ("n0", "n1")])
    silent = ("n0", "n1", "new")
    events = [
        make_event(5, "node-create", node=make_node("new", created=None, heartbeat=5)),
        make_event(8, "kubelet-stop", silent, last_heartbeat=7),
    ]
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version="1.29.6"), snapshot.control_plane
    )
    prediction = predict(snapshot, make_scenario(events, horizon=200), configuration)
    of_nodes = {report.node: report.changes for report in prediction.nodes}
    given_up = {
        (change.earliest_seconds, change.latest_seconds, change.certainty)
        for name in silent
        for change in of_nodes[name]
        if (change.what, change.value) == ("ready", "Unknown")
    }
    [(earliest, latest, certainty)] = given_up
    assert latest - earliest > 5 and certainty == "certain"
