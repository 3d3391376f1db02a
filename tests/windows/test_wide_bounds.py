"""Wide bounds hold: what any reality does lies within them, whatever happens in its world."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from realities import Reality, World, draw_reality
from soak_worlds import CLASSES, draw_soak_world, kind_of

from builders import UNREACHABLE
from kubectl_evictplan.cluster.timeline import (
    SCENARIO,
    AboutNode,
    Entry,
    PodDeleted,
    ZoneStateChanged,
)
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.prediction.nodes import what_changes
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.change_bounds import ChangeBounds
from kubectl_evictplan.windows.explored import follows_ticks
from kubectl_evictplan.windows.latest_services import LatestServices
from kubectl_evictplan.windows.line_replay import NEVER_NS
from kubectl_evictplan.windows.monitor_phase import with_visible_phase
from kubectl_evictplan.windows.node_courses import NodeCourses
from kubectl_evictplan.windows.outcome import NodeChangeKey
from kubectl_evictplan.windows.sure_evictions import SureEvictions
from kubectl_evictplan.windows.unknowns.monitor_ticks import monitor_cost_max_ns
from kubectl_evictplan.windows.wide_fates import Possible, WideFates

TOLERANCE_NS = 1000


def worlds(seeds: range) -> Iterator[tuple[int, World]]:
    for seed in seeds:
        if kind_of(seed) in CLASSES:
            world = draw_soak_world(seed).world
            assert isinstance(world, World)
            yield seed, world


class WideWorld:
    """A world with what its wide bounds say of each pod name."""

    def __init__(self, world: World) -> None:
        configuration = with_visible_phase(world.snapshot, world.scenario, world.configuration)
        step_max_ns = configuration.node_monitor_period_ns + monitor_cost_max_ns(world.snapshot)
        given = world.snapshot, world.scenario, configuration
        courses = NodeCourses(*given, step_max_ns)
        services = LatestServices(*given, courses)
        fates = WideFates(*given, courses, services)
        sure = SureEvictions(*given, courses, services, fates)
        names = {node.name for node in world.snapshot.nodes}
        self._changes = ChangeBounds(world.scenario, courses, services)
        self._zones = {zone_display_name(zone): zone for zone in services.zones}
        versions = fates.versions(world.snapshot.pods, names)
        by_ns = {name: sure.deleted_by_ns(found[0]) for name, found in versions.items()}
        # Of names that stand for one pod, to which nothing else happens before.
        self.certain_by_ns = {
            name: at_ns
            for name, at_ns in by_ns.items()
            if at_ns is not None and len(versions[name]) == 1
        }
        self.possible = {name: fates.possible(found) for name, found in versions.items()}
        self._uids = {name: {each.pod.uid for each in found} for name, found in versions.items()}

    def changes_outside(self, reality: Reality) -> Iterator[Entry]:
        """What controllers change of nodes and zones, and the bounds exclude."""
        for entry in reality.entries:
            if isinstance(entry, ZoneStateChanged):
                spans = self._changes.entered(self._zones[entry.zone], entry.state)
            elif isinstance(entry, AboutNode) and (change := what_changes(entry)) is not None:
                key = NodeChangeKey(entry.node, *change)
                if not follows_ticks(key) or getattr(entry, "by", "") == SCENARIO:
                    continue
                spans = self._changes.changes(key)
            else:
                continue
            at_ns = entry.at_ns
            if not any(a - TOLERANCE_NS <= at_ns <= b + TOLERANCE_NS for a, b in spans):
                yield entry

    def absent(self, reality: Reality, horizon_ns: int) -> Iterator[str]:
        """Pods that are surely deleted within the horizon, but for garbage collection, and were not."""
        deleted: dict[str, int] = {}
        for entry in reality.entries:
            if isinstance(entry, PodDeleted):
                deleted.setdefault(entry.pod, entry.at_ns)
        for name, by_ns in self.certain_by_ns.items():
            due = by_ns + TOLERANCE_NS <= horizon_ns
            if due and deleted.get(name, NEVER_NS) > by_ns + TOLERANCE_NS:
                yield name

    def outside(self, reality: Reality) -> Iterator[PodDeleted]:
        """First deletions that the bounds exclude."""
        seen = set()
        for entry in reality.entries:
            if isinstance(entry, PodDeleted) and (entry.uid, entry.controller) not in seen:
                seen.add((entry.uid, entry.controller))
                if entry.pod in self.possible and not any(self._holding(entry)):
                    yield entry

    def _holding(self, deleted: PodDeleted) -> Iterator[Possible]:
        alone = self._uids[deleted.pod] == {deleted.uid}
        for each in self.possible[deleted.pod]:
            low_ns, high_ns = each.span
            if each.controller != deleted.controller or deleted.at_ns < low_ns - TOLERANCE_NS:
                continue
            # A timer may outlive its pod where the name is used again.
            if deleted.at_ns <= high_ns + TOLERANCE_NS or not alone:
                yield each


def check_worlds(seeds: range, realities: int) -> None:
    for seed, world in worlds(seeds):
        wide = WideWorld(world)
        for number in range(realities):
            reality = draw_reality(world, random.Random(f"reality {seed} {number}"))
            outside = list(wide.outside(reality))
            assert not outside, (seed, number, outside)
            assert not list(wide.changes_outside(reality)), (seed, number)
            absent = list(wide.absent(reality, world.scenario.end_ns))
            assert not absent, (seed, number, absent)


def test_every_reality_keeps_to_the_wide_bounds() -> None:
    check_worlds(range(40), 2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_every_reality_of_many_worlds_keeps_to_the_wide_bounds(block: int) -> None:
    check_worlds(range(1000 + block * 400, 1400 + block * 400), 8)


# Whose exploration is not complete: kubelets that return, processes that start within a window, flapping.
SAMPLED = (1064, 1066, 1072)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SAMPLED)
def test_what_was_not_wholly_explored_is_told_as_an_outer_bound(seed: int) -> None:
    world = draw_soak_world(seed).world
    assert isinstance(world, World)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    coverage = prediction.inputs.coverage
    assert coverage.outer_bound > 0
    assert coverage.explored == 0
    wide = WideWorld(world)
    for eviction in prediction.evictions:
        spans = [each.span for each in wide.possible[eviction.key]]
        earliest_ns = min(low_ns for low_ns, _ in spans)
        assert eviction.earliest_seconds >= earliest_ns / 1e9 - 0.001


def test_what_no_run_showed_takes_no_place_of_what_one_did() -> None:
    # In no run is n2 tainted in its first wait: what runs show is its second taint, beside which another may come before.
    world = draw_soak_world(6200491).world
    assert isinstance(world, World)
    predicted = predict(world.snapshot, world.scenario, world.configuration)
    [node] = (each for each in predicted.nodes if each.node == "n2")
    windows = [
        (each.earliest_seconds, each.latest_seconds)
        for each in node.changes
        if each.value == f"{UNREACHABLE}:NoExecute" and each.what == "taint-added"
    ]
    assert len(windows) == 2
    # A tick that finds the node silent once more at 170.2 s has it tainted five seconds later.
    assert windows[0][1] < 110
    assert windows[1][0] <= 175.2 <= windows[1][1]
