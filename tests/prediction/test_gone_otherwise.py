"""Pods that somebody else may delete before they are evicted: nothing is certain of those then."""

from __future__ import annotations

from building.builders import (
    START_NS,
    make_event,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

TAINTED = make_event(1, "taint", ["n1", "n2"], taint="A:NoExecute")


def predicted(snapshot: ClusterSnapshot, event: ScenarioEvent = TAINTED) -> Prediction:
    configuration = resolve_configuration(ControllerSettings("1.35.0"), snapshot.control_plane)
    return predict(snapshot, make_scenario([event], horizon=600), configuration)


def certain(prediction: Prediction) -> set[str]:
    return {one.pod for one in prediction.evictions if one.certainty == "certain"}


def of_job(name: str, node: str, seconds: int) -> Pod:
    return make_pod(name, node, owner="Job/batch", tolerations=[tolerates("A", seconds)])


def with_job(*pods: Pod, **fields: object) -> ClusterSnapshot:
    job = replace(Workload("Job", "default", "batch", replicas=len(pods)), **fields)
    return replace(make_snapshot(["n1", "n2", "n3"], pods), workloads=(job,))


def test_nothing_is_certain_of_pods_whose_namespace_is_being_deleted() -> None:
    pods = [make_pod(name, "n1", namespace=name) for name in ("closing", "open")]
    namespaces = (Namespace("closing", phase="Terminating"), Namespace("open", phase="Active"))
    snapshot = make_snapshot(["n1", "n2"], pods)
    known = replace(snapshot, infrastructure=Infrastructure(namespaces=namespaces))
    assert certain(predicted(known)) == {"open"}
    assert {one.pod for one in predicted(known).evictions} == {"closing", "open"}


def test_nothing_is_certain_of_pods_of_a_job_after_its_deadline() -> None:
    pods = of_job("soon", "n1", 5), of_job("late", "n1", 60)
    for deadline, sure in ((30, {"soon"}), (100, {"soon", "late"}), (-5, set())):
        snapshot = with_job(*pods, deadline_ns=START_NS + ns(deadline))
        assert certain(predicted(snapshot)) == sure


def test_a_job_that_another_loss_makes_fail_deletes_the_rest() -> None:
    pods = of_job("soon", "n1", 5), of_job("late", "n1", 60)
    assert certain(predicted(with_job(*pods, backoff_limit=6))) == {"soon", "late"}
    assert certain(predicted(with_job(*pods, backoff_limit=0))) == {"soon"}
    # The first loss is none too many.
    assert certain(predicted(with_job(*pods, backoff_limit=1))) == {"soon", "late"}
    third = of_job("third", "n2", 90)
    assert certain(predicted(with_job(*pods, third, backoff_limit=1))) == {"soon", "late"}
    alone = with_job(pods[1], backoff_limit=0)
    assert certain(predicted(alone)) == {"late"}
