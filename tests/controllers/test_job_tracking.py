"""The finalizer of the Job controller: taken from deleted pods while it runs, and kept where it does not."""

from __future__ import annotations

import pytest
from building.builders import make_event, make_pod, make_scenario, make_snapshot
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import PodGone
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.finalizers import JOB_TRACKING
from kubectl_evictplan.kube.objects import Pod, Workload
from kubectl_evictplan.prediction.document import Eviction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate

TAINT = make_event(1, "taint", "a1", taint="m=y:NoExecute")
STOP = make_event(1, "controller-stop")
START = make_event(100, "controller-start")
BY_HAND = make_event(2, "pod-delete", pods="default/sums-0")


def job_pod(*others: str, owner: str = "Job/sums") -> Pod:
    return make_pod("sums-0", "a1", owner=owner, finalizers=(JOB_TRACKING, *others))


def predicted(pod: Pod, *events: ScenarioEvent, controllers: str = "*") -> Eviction:
    settings = ControllerSettings("1.37", flags={"controllers": controllers})
    snapshot = make_snapshot(["a1", "b1"], [pod])
    configuration = resolve_configuration(settings, snapshot.control_plane)
    [eviction] = predict(snapshot, make_scenario(events, horizon=300), configuration).evictions
    return eviction


def gone_by_hand(*events: ScenarioEvent, listed: bool = True) -> list[float]:
    jobs = (Workload("Job", "default", "sums"),) if listed else ()
    snapshot = replace(make_snapshot(["a1", "b1"], [job_pod()]), workloads=jobs)
    settings = ControllerSettings("1.37")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    played = simulate(snapshot, make_scenario(events, horizon=300), configuration)
    return [entry.at_ns / SECOND_NS for entry in played.entries if isinstance(entry, PodGone)]


@pytest.mark.parametrize("owner", ["Job/sums", ""])
def test_the_job_controller_removes_its_finalizer_and_the_pod_ends_with_its_containers(
    owner: str,
) -> None:
    gone = predicted(job_pod(owner=owner), TAINT).gone
    assert gone.stuck is None
    assert 31 <= (gone.latest_seconds or 0) <= 34


@pytest.mark.parametrize(
    ("pod", "controllers", "held_by"),
    [
        (job_pod("example.com/hold"), "*", "example.com/hold"),
        (job_pod(), "*,-job-controller", JOB_TRACKING),
        (job_pod(owner="Flow/sums"), "*", JOB_TRACKING),
    ],
)
def test_what_no_running_controller_removes_holds_the_pod(
    pod: Pod, controllers: str, held_by: str
) -> None:
    gone = predicted(pod, TAINT, controllers=controllers).gone
    assert gone.latest_seconds is None
    assert gone.stuck.endswith(f"object: {held_by}")


def test_a_silent_kubelet_holds_the_pod_of_a_job_not_the_finalizer() -> None:
    gone = predicted(job_pod(), make_event(1, "kubelet-stop", "a1")).gone
    assert gone.stuck.startswith("its kubelet is silent")


def test_who_has_no_grace_period_on_a_silent_node_may_be_gone_with_its_deletion() -> None:
    pod = replace(job_pod(), termination_grace_period_seconds=0)
    told = predicted(pod, make_event(1, "kubelet-stop", "a1"))
    gone = told.gone
    assert gone.stuck is None and gone.earliest_seconds == told.earliest_seconds
    assert 0 < (gone.latest_seconds or 0) - told.latest_seconds < 3


def test_a_job_that_waits_for_the_end_gives_its_finalizer_up_only_then() -> None:
    patient = Workload("Job", "default", "sums", replaces_failed_pods_only=True)
    snapshot = replace(make_snapshot(["a1", "b1"], [job_pod()]), workloads=(patient,))
    configuration = resolve_configuration(ControllerSettings("1.37"), snapshot.control_plane)
    played = simulate(snapshot, make_scenario([BY_HAND], horizon=300), configuration)
    [end] = [entry.at_ns / SECOND_NS for entry in played.entries if isinstance(entry, PodGone)]
    assert 32 < end <= 33.5


def test_a_job_that_nobody_listed_may_wait_for_the_end() -> None:
    [end] = gone_by_hand(BY_HAND, listed=False)
    assert 32 < end <= 33.5


def test_without_its_controller_the_finalizer_stays_until_that_is_back() -> None:
    assert gone_by_hand(BY_HAND) == [32]
    assert gone_by_hand(STOP, BY_HAND) == []
    [end] = gone_by_hand(STOP, BY_HAND, START)
    assert 100 <= end <= 101.5


def test_the_finalizer_of_a_job_that_another_controller_manages_is_that_controllers_to_take() -> (
    None
):
    job = Workload("Job", "default", "sums", managed_elsewhere=True)
    snapshot = replace(make_snapshot(["a1", "b1"], [job_pod()]), workloads=(job,))
    configuration = resolve_configuration(ControllerSettings("1.37"), snapshot.control_plane)
    found = predict(snapshot, make_scenario([TAINT], horizon=300), configuration)
    [eviction] = found.evictions
    assert JOB_TRACKING in (eviction.gone.stuck or "")
    assert "finalizers-block" in {warning.code for warning in found.warnings}
