"""A tick that waits for its client takes taints off late: timers may be over before."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from building.builders import (
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
)
from building.warning_runs import configured

from kubectl_evictplan.prediction.document import Eviction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


@dataclass(frozen=True)
class Zone:
    """a0 is tainted, the two other nodes of the only zone fall silent with so many ready pods each; its own pod tolerates that for so long."""

    ready_pods: int
    tolerates: int
    tainted_at_start: bool

    def evicted(self, release: str, *more: ScenarioEvent) -> list[Eviction]:
        taints = [make_taint(f"{UNREACHABLE}:{effect}", added=-20) for effect in EFFECTS]
        first = make_node("a0", zone="a", ready="Unknown", taints=taints, heartbeat=-80)
        nodes = [
            first if self.tainted_at_start else make_node("a0", zone="a"),
            make_node("a1", zone="a"),
            make_node("a2", zone="a"),
        ]
        events = [make_event(20, "kubelet-stop", ["a1", "a2"])]
        events += more
        if not self.tainted_at_start:
            events.insert(0, make_event(0, "kubelet-stop", "a0"))
        pods = [
            make_pod(f"p-{node}-{place}", f"a{node}", ready="True")
            for node in (1, 2)
            for place in range(self.ready_pods)
        ]
        own = make_pod("own", "a0", created=-22, tolerations=default_tolerations(self.tolerates))
        snapshot = make_snapshot(nodes, [*pods, own])
        found = predict(snapshot, make_scenario(events, horizon=400), configured(release))
        return [one for one in found.evictions if one.pod == "own"]


EFFECTS = ("NoSchedule", "NoExecute")


def spans(evictions: list[Eviction]) -> list[tuple[float, float]]:
    """Of one pod."""
    (own,) = evictions
    assert own.certainty == "possible"
    return [(one.earliest_seconds, one.latest_seconds) for one in own.windows]


@pytest.mark.parametrize(("release", "tainted"), [("1.29", 40), ("1.37", 45)])
def test_a_timer_may_end_before_a_late_tick_takes_its_taint_off(release: str, tainted: int) -> None:
    # The tick 20 s later takes it off: at the latest after 26 s without limits, and 22 s later with them.
    assert not Zone(1, 40, tainted_at_start=False).evicted(release)
    assert spans(Zone(110, 40, tainted_at_start=False).evicted(release))[0][0] == tainted + 40


@pytest.mark.parametrize(("release", "again"), [("1.29", 55), ("1.37", 65)])
def test_one_that_ends_later_than_that_may_not(release: str, again: int) -> None:
    # But where the taint is put on once more while the tick waits.
    (own,) = spans(Zone(110, 60, tainted_at_start=False).evicted(release))
    assert own[0] == again + 60


@pytest.mark.parametrize("release", ["1.29", "1.37"])
def test_so_may_one_that_runs_at_the_start(release: str) -> None:
    # It began 20 s before the start, or 2 s earlier.
    assert not Zone(1, 95, tainted_at_start=True).evicted(release)
    assert spans(Zone(110, 95, tainted_at_start=True).evicted(release))[0][0] == 95 - 22


@pytest.mark.parametrize("release", ["1.29", "1.37"])
def test_so_may_one_of_a_pod_whose_tolerations_a_person_changed(release: str) -> None:
    change = make_event(
        10, "pod-tolerations", pods=["default/own"], tolerations=default_tolerations(40)
    )
    first = spans(Zone(110, 40, tainted_at_start=False).evicted(release))[0]
    assert spans(Zone(110, 9_000, tainted_at_start=False).evicted(release, change))[0] == first


def test_one_that_a_process_forgets_ends_with_it() -> None:
    # The process that took the taint for its start is gone before 10 s are over; the next one takes it off at once.
    taints = [make_taint(f"{UNREACHABLE}:{effect}", added=-20) for effect in EFFECTS]
    down = [make_node(f"a{n}", zone="a", ready="Unknown", taints=taints) for n in range(12)]
    events = [
        make_event(1, "controller-stop"),
        make_event(3, "kubelet-start", [node.name for node in down]),
        make_event(60, "controller-start"),
    ]
    own = make_pod("own", "a0", created=-22, tolerations=default_tolerations(40))
    snapshot = make_snapshot([*down, make_node("b0", zone="b")], [own])
    found = predict(snapshot, make_scenario(events, horizon=400), configured("1.37"))
    [removed] = {
        change.latest_seconds > 60
        for report in found.nodes
        for change in report.changes
        if (report.node, change.what) == ("a0", "taint-removed")
    }
    assert removed
    assert not found.evictions
