"""Countdowns that nothing in the snapshot tells of.

Up to 1.16.14, 1.17.11 and 1.18.8 one goes on where all that is left is tolerated for ever (rule 19); in all releases where its
node is deleted (rule 21).
"""

from __future__ import annotations

import random

import pytest
from building.builders import (
    NOT_READY,
    UNREACHABLE,
    epoch_ns,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    tolerates,
)
from msgspec.structs import replace
from realities.running_countdowns import Countdown, DrawnPast

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags, Pod
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

HORIZON = 600
DARK = make_node("n1", ready="Unknown", taints=[make_taint(f"{UNREACHABLE}:NoExecute", added=-20)])
POD = make_pod(
    "p", "n1", tolerations=[tolerates(UNREACHABLE), tolerates(NOT_READY, 60)], created=-900
)


def told(
    release: str, *events: ScenarioEvent, leads_since: float = -9000
) -> list[tuple[str, float, float]]:
    """What is told of deletions of the pod: how certain, from when, to when."""
    configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
    scenario = make_scenario(list(events), horizon=HORIZON)
    return [
        (each.certainty, window.earliest_seconds, window.latest_seconds)
        for each in predict(cluster(leads_since), scenario, configuration).evictions
        for window in each.windows
    ]


def cluster(leads_since: float) -> ClusterSnapshot:
    """The dark node with its pod, and since when the present process leads."""
    flags = ControlPlaneFlags(leader_acquire_time_ns=epoch_ns(leads_since))
    return replace(make_snapshot([DARK, make_node("n2")], [POD]), control_plane=flags)


@pytest.mark.parametrize("release", ["1.16.14", "1.17.11", "1.18.8"])
def test_it_may_end_within_the_longest_of_the_pods_seconds(release: str) -> None:
    assert told(release) == [("possible", 0, 60)]


@pytest.mark.parametrize("release", ["1.16.15", "1.17.12", "1.18.9", "1.29.6"])
def test_later_releases_cancel_it(release: str) -> None:
    assert told(release) == []


def test_no_process_has_one_from_before_its_time() -> None:
    assert told("1.18.6", leads_since=-10) == [("possible", 50, 60)]


def test_what_comes_later_is_not_certain_for_the_pod_may_be_gone_by_then() -> None:
    found = told("1.18.6", make_event(100, "taint", ["n1"], taint="A:NoExecute"))
    assert found == [("possible", 0, 60), ("possible", 100, 100)]


def test_every_past_that_has_one_ends_it_in_the_window() -> None:
    configuration = resolve_configuration(ControllerSettings("1.18.6"), ControlPlaneFlags())
    [(_, earliest, latest)] = told("1.18.6", leads_since=-50)
    ends = []
    for seed in range(100):
        past = DrawnPast(random.Random(seed))
        found = past.countdown(DARK, POD, cluster(-50), epoch_ns(0), configuration)
        if isinstance(found, Countdown):
            ends.append(found.due_ns)
    assert len(ends) > 20
    assert epoch_ns(earliest) <= min(ends)
    assert max(ends) <= epoch_ns(latest)


def of_a_node_that_is_gone(
    grace_period: int = 30,
    deletion: float | None = None,
    finalizers: tuple[str, ...] = (),
    phase: str = "Running",
) -> list[tuple[str, str, float]]:
    """Of a pod whose Node was deleted before the start: who may delete it, how certain, and by when."""
    given = {"tolerations": [tolerates("A", 300)], "grace_seconds": grace_period}
    pod = make_pod("p", "gone", created=-900, phase=phase, **given)
    deletion_ns = None if deletion is None else epoch_ns(deletion)
    pod = replace(pod, deletion_timestamp_ns=deletion_ns, finalizers=finalizers)
    if deletion is not None:
        pod = replace(pod, deletion_grace_period_seconds=grace_period)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    scenario = make_scenario([make_event(1, "kubelet-stop", ["n2"])], horizon=HORIZON)
    prediction = predict(make_snapshot([make_node("n2")], [pod]), scenario, configuration)
    return [(each.controller, each.certainty, each.latest_seconds) for each in prediction.evictions]


def test_a_countdown_may_go_on_until_garbage_collection_takes_a_pod_whose_node_is_gone() -> None:
    by_taint, by_garbage = sorted(of_a_node_that_is_gone(), reverse=True)
    assert by_garbage[:2] == ("pod-gc", "certain")
    assert by_taint == ("taint-eviction", "possible", by_garbage[2])


def test_who_has_no_grace_period_may_be_gone_before_garbage_collection_looks() -> None:
    assert {certainty for _, certainty, _ in of_a_node_that_is_gone(0)} == {"possible"}


def test_so_may_who_has_finished() -> None:
    assert {each[1] for each in of_a_node_that_is_gone(phase="Succeeded")} == {"possible"}


@pytest.mark.parametrize("deletion", [None, -57])
def test_what_a_finalizer_keeps_may_be_deleted_until_the_countdown_ends(
    deletion: float | None,
) -> None:
    """Neither garbage collection nor a deletion that has begun ends it."""
    found = of_a_node_that_is_gone(deletion=deletion, finalizers=("example.com/keep",))
    assert ("taint-eviction", "possible", 300) in found


def test_a_pod_that_terminates_may_be_deleted_again_where_its_node_is_gone() -> None:
    assert ("taint-eviction", "possible") in [
        each[:2] for each in of_a_node_that_is_gone(deletion=-57)
    ]


def test_who_terminates_without_a_grace_period_is_gone_with_another_delete() -> None:
    assert {each[1] for each in of_a_node_that_is_gone(0, deletion=0)} == {"possible"}


def made_again(release: str, pod: Pod, new: Pod) -> list[tuple[str, str, float]]:
    """Of a pod that people delete at 10 s and make again at once, on a node with a taint: how certain, by whom, and when at the earliest."""
    node = make_node("n0", taints=[make_taint("A:NoExecute", added=-100)])
    configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
    events = [
        make_event(10, "pod-delete", pods=[pod.key]),
        make_event(10, "pod-create", pod=new),
    ]
    prediction = predict(
        make_snapshot([node], [pod]), make_scenario(events, horizon=HORIZON), configuration
    )
    return [
        (each.certainty, each.controller, each.earliest_seconds)
        for each in prediction.evictions
        if each.uid == new.uid
    ]


@pytest.mark.parametrize(
    ("release", "expected"), [("1.17.0", [("possible", "taint-eviction", 10)]), ("1.18.20", [])]
)
def test_who_goes_by_one_may_make_room_for_another_pod_of_its_name(
    release: str, expected: list[tuple[str, str, float]]
) -> None:
    pod = make_pod("p", "n0", tolerations=[tolerates("A"), tolerates("B", 30)], grace_seconds=30)
    assert made_again(release, pod, make_pod("p", "n0", created=None, uid="new")) == expected


def test_nothing_is_certain_of_that_one() -> None:
    pod = make_pod("p", "gone", tolerations=[tolerates("B", 30)], grace_seconds=0)
    new = make_pod("p", "n0", tolerations=[tolerates("A", 20)], created=None, uid="new")
    assert made_again("1.29.6", pod, new) == [("possible", "taint-eviction", 30)]
