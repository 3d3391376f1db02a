"""From 1.34 on passes may see any tick late that writes Ready=Unknown, each for itself, and each pass has a lag of its own."""

from __future__ import annotations

import random

import pytest
from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from msgspec.structs import replace
from realities.contradictions import contradictions
from realities.drawn_realities import World, draw_reality
from windows.lines import LAG, LAGS_ONLY, Line

from kubectl_evictplan.cluster.timeline import Told
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows import late_views
from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_replays import Replays
from kubectl_evictplan.windows.line_windows import WaitWindow, wait_windows
from kubectl_evictplan.windows.zone_lines import ZoneLine


def waits_of(line: Line) -> dict[str, list[WaitWindow]]:
    """The waits of all nodes of the line, with passes at once and as late as they come."""
    told, late = ZoneLine(line.told), replace(line.rules, lag_ns=ns(LAG))
    replayed = [(told, line.rules), (told, late)]
    return wait_windows(replayed, LAGS_ONLY, 0, set(), Replays(Budget()))


def seconds(wait: WaitWindow) -> list[tuple[float, float]]:
    return [(round(low / 1e9, 1), round(high / 1e9, 1)) for low, high in wait.spans]


def test_a_late_view_may_waste_a_token_that_an_earlier_one_left() -> None:
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a")
    line.silent(18, "b")
    waits = waits_of(line)
    # b at 18; at 25, when the first view is late; at 28, when only the second is.
    [(low, high)] = seconds(waits["b"][0])
    assert low == 18 and 28 < high < 28.5
    assert waits["b"][0].certain and not waits["b"][0].missed


def test_who_gets_in_line_with_the_tick_of_a_late_view_did_not_wait_before_it() -> None:
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a")
    line.status(16, "False", "b")
    line.tell(18, Told.MARK, "b")  # before the tick comes to c
    line.silent(18, "c")
    # The first view is not late, and the token of 18 is wasted on c, which also gets the next one.
    [(low, high)] = seconds(waits_of(line)["b"][0])
    assert low == 18 and 38 < high < 38.5


def test_several_late_views_waste_tokens_that_only_some_lags_of_passes_let_them_meet() -> None:
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a", "b", "c", "d")
    line.silent(25.1, "e")
    line.silent(45.1, "f")
    waits = waits_of(line)
    # Six nodes and three wasted tokens: the ninth comes 80 s after the first, and each of nine passes later than the one before.
    [(low, high)] = seconds(waits["e"][0])
    assert low <= 25.2 and 85.9 <= high <= 86.3
    assert not waits["e"][0].missed


@pytest.mark.parametrize("view", [35.01, 35.05, 35.09])
def test_passes_that_just_come_after_the_tick_of_a_late_view_waste_its_token(view: float) -> None:
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a", "b", "c", "d")
    line.silent(23, "e")
    line.silent(view, "f")
    # Without lag the fourth token is spent just before the last view, with all of it long after that; in between it is wasted.
    [(_, high)] = seconds(waits_of(line)["f"][0])
    assert 75.6 < high < 76.1


def test_late_views_that_no_lags_let_meet_a_token_after_the_others_are_left_out() -> None:
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a")
    line.silent(12, "b")
    line.silent(22, "c")
    waits = waits_of(line)
    # A view wastes a token where nobody waits before it: that of 5, or of 12, or of 22 with that of 5 or without.
    assert not waits["c"][0].missed
    assert seconds(waits["c"][0])[-1][1] < 36


def test_too_many_sets_of_late_views_are_told_as_not_wholly_explored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late_views, "_SETS_MAX", 2)
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a")
    line.silent(18, "b")
    assert waits_of(line)["b"][0].missed == {"stale view"}


def test_places_of_views_that_differ_by_run_are_told_as_not_wholly_explored() -> None:
    several = []
    for ticks in ((5, 18), (5, 18, 60)):
        line = Line("1.34.4", stale_lister=True)
        for name, tick in zip("abc", ticks, strict=False):
            line.silent(tick, name)
        line.tell(90, Told.MID_TICK)
        several.append((ZoneLine(line.told), line.rules))
    waits = wait_windows(several, LAGS_ONLY, 0, set(), Replays(Budget()))
    assert "stale view" in waits["b"][0].missed


@pytest.mark.parametrize("stops", [(20, 33, 51), (20, 28, 28, 61), (20, 24.9, 36, 44.8)])
def test_late_views_are_explored_wholly_and_no_reality_of_them_lies_outside(
    stops: tuple[float, ...],
) -> None:
    names = [f"n{index}" for index in range(len(stops))]
    nodes = [make_node(name, zone="a") for name in [*names, *"uvwxyz"]]
    pods = [make_pod(f"p-{name}", name, tolerations=()) for name in names]
    leases = [make_lease(node.name, -0.5) for node in nodes]
    snapshot = make_snapshot(nodes, pods, leases=leases)
    events = [
        make_event(at, "kubelet-stop", name, last_heartbeat=at)
        for name, at in zip(names, stops, strict=True)
    ]
    scenario = make_scenario(events, horizon=300)
    configuration = resolve_configuration(ControllerSettings("1.37.0"), snapshot.control_plane)
    prediction = predict(snapshot, scenario, configuration)
    assert prediction.inputs.coverage.exact == len(stops)
    world = World(snapshot, scenario, configuration)
    for number in range(120):
        reality = draw_reality(world, random.Random(f"late {number}"), free=number % 3 > 0)
        assert not list(contradictions(scenario.end_ns, prediction, reality))
