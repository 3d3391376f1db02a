"""Zones that do not matter to one another are explored each for itself, and what is found is the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows import exploration, zones_apart
from kubectl_evictplan.windows.outcome import Exploration

# Of each zone but "c" some fall silent, each at a moment of its own, and one comes back.
FALLING = (
    make_event(12, "kubelet-stop", ("a0",)),
    make_event(13, "kubelet-stop", ("a1", "b0")),
    make_event(40, "kubelet-stop", ("b1",)),
    make_event(90, "kubelet-start", ("b0",)),
)
SETTINGS = ControllerSettings("1.29.6")


def cluster(zones: str = "aaaabbbcc") -> ClusterSnapshot:
    """A node for each letter, in the zone of that name, with a pod that no tick has to mark."""
    names = [f"{zone}{zones[:place].count(zone)}" for place, zone in enumerate(zones)]
    return make_snapshot(
        [make_node(name, zone=name[0]) for name in names],
        [make_pod(f"p-{name}", name, ready="False") for name in names],
        leases=[make_lease(name, -1 - place / 4) for place, name in enumerate(names)],
    )


def parts(
    events: Sequence[ScenarioEvent], *, zones: str = "aaaabbb", well: int = 2
) -> list[zones_apart.Part]:
    """``well`` nodes of zone "c" only count."""
    snapshot = replace(cluster(zones), bystanders={":\x00:c": well} if well else {})
    configuration = resolve_configuration(SETTINGS, snapshot.control_plane)
    return zones_apart.parts(snapshot, make_scenario(events), configuration)


def nodes_of(part: zones_apart.Part) -> str:
    return " ".join(node.name for node in part.snapshot.nodes)


def test_each_part_has_its_own_nodes_and_events_and_all_others_are_well() -> None:
    of_a, of_b = parts(FALLING)
    assert (nodes_of(of_a), nodes_of(of_b)) == ("a0 a1 a2 a3", "b0 b1 b2")
    assert [event.nodes for event in of_a.scenario.events] == [("a0",), ("a1",)]
    assert [event.nodes for event in of_b.scenario.events] == [("b0",), ("b1",), ("b0",)]
    assert dict(of_a.snapshot.bystanders) == {":\x00:c": 2, ":\x00:b": 3}
    assert {pod.node_name[0] for pod in of_b.snapshot.pods} == {"b"}


def test_zones_stay_together_where_all_may_be_down_at_once() -> None:
    assert not parts(FALLING, well=0)


def test_zones_stay_together_where_a_pod_is_made_anew_on_a_node_of_the_other() -> None:
    again = make_event(60, "pod-create", pod=make_pod("p-a0", "b2"))
    assert not parts([*FALLING, make_event(50, "pod-delete", pods="default/p-a0"), again])


def test_zones_stay_together_where_a_node_is_made_anew_in_the_other() -> None:
    again = make_event(60, "node-create", node=make_node("a0", zone="b"))
    assert not parts([*FALLING, make_event(50, "node-delete", ("a0",)), again])


def test_zones_stay_together_where_a_process_begins_anew_or_a_zone_may_vanish() -> None:
    away = make_event(20, "controller-stop"), make_event(21, "controller-start")
    assert not parts([*FALLING, *away])
    assert not parts([*FALLING, make_event(95, "node-delete", ("b0", "b1", "b2"))])


def test_where_one_zone_only_meets_anything_there_is_nothing_to_take_apart() -> None:
    assert not parts(FALLING[:1])


def predicted(
    snapshot: ClusterSnapshot, events: Iterable[ScenarioEvent], together: int
) -> Prediction:
    configuration = resolve_configuration(SETTINGS, snapshot.control_plane)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploration, "_PIECES_TOGETHER", together)
        return predict(snapshot, make_scenario(events, horizon=400), configuration)


def test_what_is_found_apart_is_what_is_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    put_together, numbers = zones_apart.put_together, list[int]()

    def counted(explored: Sequence[tuple[zones_apart.Part, Exploration]]) -> Exploration:
        numbers.append(len(explored))
        return put_together(explored)

    monkeypatch.setattr(zones_apart, "put_together", counted)
    apart = predicted(cluster(), FALLING, together=0)
    assert numbers == [2]
    together = predicted(cluster(), FALLING, together=10_000)
    assert together.evictions
    assert [e.windows for e in apart.evictions] == [e.windows for e in together.evictions]
    assert [e.certainty for e in apart.evictions] == [e.certainty for e in together.evictions]
    assert apart.nodes == together.nodes
    assert (apart.zones, apart.joint) == (together.zones, together.joint)
    assert (apart.kept, apart.cancelled) == (together.kept, together.cancelled)
    assert apart.inputs.coverage == together.inputs.coverage


def test_a_node_that_is_gone_may_have_used_the_token_of_any_zone() -> None:
    early = make_event(1, "node-ready", ("b0",), status="False"), *FALLING[:3:2]
    snapshot = cluster()
    snapshot = replace(snapshot, pods=(*snapshot.pods, make_pod("orphan", "gone")))
    apart, together = (predicted(snapshot, early, together=most) for most in (0, 10_000))
    assert [e.windows for e in apart.evictions] == [e.windows for e in together.evictions]
    [of_b0] = [e for e in apart.evictions if e.pod == "p-b0"]
    # Its entry may be left in line, and waste the next one as well.
    assert of_b0.latest_seconds == pytest.approx(20.1, abs=0.01)


def test_what_is_open_in_several_zones_adds_up_and_does_not_multiply() -> None:
    # Each kubelet's last renewal may be seen by one tick or by the next.
    events = [
        make_event(60 + number / 8, "kubelet-stop", (f"{zone}{number}",))
        for zone in "ab"
        for number in range(3)
    ]
    coverage = predicted(cluster("aaaabbbbc"), events, together=10_000).inputs.coverage
    assert coverage is not None
    assert (coverage.exact, coverage.outer_bound) == (6, 0)
