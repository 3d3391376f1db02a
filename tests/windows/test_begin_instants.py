"""What becomes of pods changes while something open lies within its window: a pod is gone, a countdown ends in time."""

from __future__ import annotations

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
    tolerates,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node, Pod
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

RESTART = (
    make_event(10, "controller-stop"),
    make_event(12, "controller-start", within_ns=ns(30)),
)
TAINTED = make_node("n1", taints=["A:NoExecute"])


def windows(
    node: Node, pod: Pod, *events: ScenarioEvent, release: str = "1.29.6"
) -> list[tuple[str, float, float]]:
    """When taint eviction deletes the pod, and whether that is certain."""
    configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
    scenario = make_scenario(list(events), horizon=120)
    snapshot = make_snapshot([node, make_node("n2", zone="b")], [pod])
    return [
        (eviction.certainty, window.earliest_seconds, window.latest_seconds)
        for eviction in predict(snapshot, scenario, configuration).evictions
        for window in eviction.windows
    ]


@pytest.mark.parametrize("release", ["1.18.6", "1.37.0"])
def test_a_new_process_deletes_what_is_on_its_way_out_for_as_long_as_it_is_there(
    release: str,
) -> None:
    pod = make_pod("p", "n1", deleted=-7, grace_seconds=30)
    # A process that runs at the start has deleted it long ago; the new one does it again.
    assert windows(TAINTED, pod, *RESTART, release=release) == [("possible", 12, 23)]


def test_a_pod_deleted_by_people_is_there_for_a_new_process_until_its_grace_period_is_over() -> (
    None
):
    pod = make_pod("p", "n1", grace_seconds=20)
    deleted = make_event(8, "pod-delete", pods=("default/p",))
    found = windows(
        make_node("n1"),
        pod,
        deleted,
        RESTART[0],
        make_event(11, "taint", "n1", taint="A:NoExecute"),
        RESTART[1],
    )
    assert found == [("possible", 12, 28)]


def test_a_countdown_that_begins_with_a_process_may_end_until_the_taint_is_taken_off() -> None:
    # It is no older than the taint, so the process before does not end a countdown of it.
    pod = make_pod("p", "n1", tolerations=(tolerates("A", 40),), created=-20)
    untaint = make_event(60, "untaint", "n1", taint="A:NoExecute")
    node = make_node("n1", taints=[make_taint("A:NoExecute", added=-20)])
    assert windows(node, pod, *RESTART, untaint) == [("possible", 52, 60)]


def test_a_pod_whose_kubelet_is_back_is_there_for_its_timer_until_its_grace_period_is_over() -> (
    None
):
    pod = make_pod("p", "n1", tolerations=default_tolerations(7), grace_seconds=1)
    found = windows(
        make_node("n1"),
        pod,
        make_event(1, "kubelet-stop", "n1", last_heartbeat=1),
        make_event(30, "pod-delete", pods=("default/p",)),
        make_event(52.2, "kubelet-start", "n1"),
    )
    # The taint is there from 46 s on, and until the first tick after 52.2 s.
    assert found == [("possible", 53, 53.2)]
