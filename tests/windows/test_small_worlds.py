"""Small worlds in which every choice is tried: windows are the hull of all that can happen, exactly.

Up to three nodes, seconds in coarse steps. Every phase of the monitor (a grid, and both sides of whatever a
tick can just catch), every cost and lag (a grid), every order among the nodes, a token at the start or none,
every race of a pass with a tick, and every head of a line that is seen late: each combination is one run of the controllers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import permutations, product
from typing import NamedTuple

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from realities.drawn_realities import World, rename_scenario, rename_snapshot

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.document import CERTAIN
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.unknowns.lines import PASS_LAG_MAX_NS, written_late_ns

PERIOD_NS = ns(2)
FLAGS = {
    "node-monitor-period": "2s",
    "node-monitor-grace-period": "6s",
    "node-eviction-rate": "0.5",
}
TICK_COST_MAX_NS = 10 * MILLISECOND_NS
PASS_PERIOD_NS = 100 * MILLISECOND_NS
PASS_COST_MAX_NS = 5 * MILLISECOND_NS
# A cluster of three nodes adds a little to the cost of a tick; windows are rounded to a microsecond.
ROUNDING_S = 0.001


# Heads of lines in a run whose status may or may not be seen late, each by itself; those after them are seen at once.
HEADS = 4


class ViewedTiming(Timing, frozen=True, dict=True):
    """A ``Timing`` that says of each head of a line whether its status is seen late, as often as it is asked."""

    late: tuple[bool, ...] = ()

    @cached_property
    def _left(self) -> Iterator[bool]:
        return iter(self.late)

    @property
    def stale_lister(self) -> bool:  # type: ignore[override]
        """Asked for each head of a line in each pass."""
        return next(self._left, False)


class Steps(NamedTuple):
    """How finely the unknown is divided."""

    phase_ns: int
    pass_ns: int

    @property
    def slack(self) -> float:
        """How far an end of a window can lie from the nearest run: two passes, each in such steps."""
        return 2 * self.pass_ns / 1e9 + ROUNDING_S


COARSE = Steps(ns(2), 50 * MILLISECOND_NS)
FINE = Steps(ns(0.5), 25 * MILLISECOND_NS)


def small_world(
    events: Iterable[ScenarioEvent],
    *,
    zones: str = "aaa",
    release: str = "1.29.6",
    seconds: int = 1,
    horizon: float = 40,
    down: Sequence[str] = (),
) -> World:
    """Nodes n0, n1, ... in these zones, each with a pod that tolerates its end for some seconds."""
    names = [f"n{index}" for index in range(len(zones))]
    nodes = [
        make_node(name, zone=zone, ready="Unknown" if name in down else "True")
        for name, zone in zip(names, zones, strict=True)
    ]
    pods = [make_pod(f"p-{name}", name, tolerations=default_tolerations(seconds)) for name in names]
    leases = [make_lease(name, -60 if name in down else -0.5, duration_seconds=8) for name in names]
    settings = ControllerSettings(kubernetes_version=release, flags=FLAGS)
    return World(
        make_snapshot(nodes, pods, leases=leases),
        make_scenario(events, horizon=horizon),
        resolve_configuration(settings, ControlPlaneFlags()),
    )


def stop(at: float, *names: str, last: float | None = None) -> ScenarioEvent:
    return make_event(at, "kubelet-stop", names, last_heartbeat=at if last is None else last)


# -- every run ------------------------------------------------------------------------------------


def timings(world: World, steps: Steps) -> Iterator[Timing]:
    """Every phase, cost, lag, token and race."""
    current = world.configuration.profile.taint_on_current_condition
    spent = any(node.ready_status != "True" for node in world.snapshot.nodes)
    for cost_ns in (0, TICK_COST_MAX_NS):
        for phase_ns, pass_ns, pass_cost_ns, token, mid_tick, late in product(
            phases(world, PERIOD_NS + cost_ns, steps),
            (*range(0, PASS_PERIOD_NS, steps.pass_ns), PASS_PERIOD_NS - 1),
            (0, PASS_COST_MAX_NS),
            (True, False) if spent else (True,),
            (False, True),
            tuple(product((False, True), repeat=HEADS)) if current else ((),),
        ):
            yield ViewedTiming(
                monitor_phase_ns=phase_ns,
                monitor_cost_ns=cost_ns,
                pass_phase_ns=pass_ns,
                pass_cost_ns=pass_cost_ns,
                mid_tick_pass=mid_tick,
                late=late,
                initial_token=token,
            )


def phases(world: World, step_ns: int, steps: Steps) -> list[int]:
    """A grid, and both sides of whatever a tick can just catch."""
    found = set(range(0, step_ns, steps.phase_ns)) | {step_ns - 1}
    for event in world.scenario.events:
        for at_ns in {event.at_ns, event.critical_ns or 0, 0}:
            found |= {at_ns % step_ns, (at_ns - 1) % step_ns}
    return sorted(found)


def outcomes(world: World, steps: Steps) -> list[dict[str, float]]:
    """When each pod is deleted first, in every run."""
    others = [node.name for node in world.snapshot.nodes]
    names = sorted({name for event in world.scenario.events for name in event.nodes})
    same = {name: name for name in others}
    found = []
    for order in permutations(names):
        renamed = same | dict(zip(names, order, strict=True))
        snapshot = rename_snapshot(world.snapshot, renamed)
        scenario = rename_scenario(world.scenario, renamed)
        for timing in timings(world, steps):
            timeline = simulate(snapshot, scenario, world.configuration, timing)
            instants: dict[str, float] = {}
            for entry in timeline.entries:
                if isinstance(entry, PodDeleted):
                    instants.setdefault(entry.pod, entry.at_ns / 1e9)
            found.append(instants)
    return found


def check_hull(world: World, steps: Steps, lags: int = 0) -> None:
    """Each window is from the first to the last of its instants; certain is what every run has.

    ``lags``: after how many tokens, each up to a lag of a pass later, a window may end that no run reaches. Nor does any write a taint again.
    """
    runs = outcomes(world, steps)
    seen: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for pod, at in run.items():
            seen[pod].append(at)
    assert world.scenario.horizon_ns is not None
    horizon = world.scenario.horizon_ns / 1e9
    later = steps.slack + lags * PASS_LAG_MAX_NS / 1e9 + written_late_ns(world.configuration) / 1e9
    told: dict[str, list[tuple[float, float]]] = defaultdict(list)
    certain: set[str] = set()
    for eviction in predict(world.snapshot, world.scenario, world.configuration).evictions:
        told[eviction.key] += [(w.earliest_seconds, w.latest_seconds) for w in eviction.windows]
        if eviction.certainty == CERTAIN:
            certain.add(eviction.key)
    assert set(told) == set(seen)
    for pod, instants in seen.items():
        for at in instants:
            assert any(a - ROUNDING_S <= at <= b + ROUNDING_S for a, b in told[pod]), (pod, at)
        for low, high in told[pod]:
            inside = [at for at in instants if low - ROUNDING_S <= at <= high + ROUNDING_S]
            assert inside, f"{pod} never goes within {low}..{high}"
            assert min(inside) - low <= steps.slack, (pod, low, min(inside))
            assert high - max(inside) <= later or high == horizon, (pod, high, max(inside))
    assert certain == {pod for pod, instants in seen.items() if len(instants) == len(runs)}


# -- worlds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["1.29.6", "1.37.0"])
def test_the_window_of_a_lone_node_is_the_hull_of_all_its_runs(release: str) -> None:
    check_hull(small_world([stop(3.3, "n0")], zones="ab", release=release, horizon=20), COARSE)


def test_the_windows_of_two_nodes_of_one_line_are_the_hull_of_all_orders() -> None:
    check_hull(small_world([stop(3.3, "n0"), stop(3.9, "n1")], zones="aab", horizon=20), COARSE)


WORLDS = {
    "three-in-line": [stop(3.3, "n0", "n1", "n2")],
    "a-return": [stop(3.3, "n0", "n1"), make_event(13.1, "kubelet-start", ("n0",))],
    "a-flap": [
        stop(3.3, "n0"),
        make_event(11.5, "kubelet-start", ("n0",)),
        stop(14.2, "n0"),
    ],
    "not-ready": [make_event(3.3, "node-ready", ("n0",), status="False")],
    "a-taint-taken-off": [
        stop(3.3, "n0"),
        make_event(14.4, "untaint", ("n0",), taint="node.kubernetes.io/unreachable:NoExecute"),
    ],
    "a-restart": [
        stop(3.3, "n0"),
        make_event(7.3, "controller-stop"),
        make_event(8.1, "controller-start"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.18.6", "1.21.14", "1.29.6", "1.35.0", "1.37.0"])
@pytest.mark.parametrize("zones", ["aaa", "aab"])
@pytest.mark.parametrize("name", WORLDS)
def test_windows_are_the_hull_of_all_runs(name: str, zones: str, release: str) -> None:
    # Tokens that who leaves, or is seen late, costs the other one at small lags only: the span reaches to when they
    # are spent at large ones.
    lags = 3 if name == "a-return" and release in ("1.35.0", "1.37.0") else 0
    check_hull(small_world(WORLDS[name], zones=zones, release=release, seconds=2), FINE, lags)
