"""Scheduling gates: nobody schedules a pod that has one, however much room there is."""

from __future__ import annotations

from building.builders import make_event
from msgspec.structs import replace
from worlds import cluster, comebacks, finding, impact_of, pods_of, workload

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Workload
from kubectl_evictplan.prediction.impact_document import Impact

TAINT = make_event(10, "taint", "a1", taint="maint:NoExecute")


def gated(kind: str) -> Impact:
    """Of a workload with one pod on the tainted node, and room for it elsewhere."""
    owner = Workload(kind, "default", "web", replicas=1, scheduling_gates=("example.com/quota",))
    pods = [replace(pod, needs=PodNeeds()) for pod in pods_of(kind, "web", ["a1"])]
    return impact_of(cluster(pods, workloads=[owner]), TAINT)


def test_whether_a_gated_successor_fits_is_unknown_until_somebody_takes_its_gates_off() -> None:
    impact = gated("ReplicaSet")
    [fit] = impact.replacements
    assert (fit.verdict, fit.unknown[0], fit.sure_of_a_node) == ("unknown", "gates", 0)
    [spell] = workload(impact, "ReplicaSet/web").zero
    assert (spell.until.earliest_seconds, spell.until.latest_seconds) == (30, None)
    assert comebacks(impact)["web-0"].code == "gated"


def test_the_gates_are_named_to_whoever_has_to_take_them_off() -> None:
    found = finding(gated("StatefulSet"), "replacement-gated")
    assert (found.certainty, found.objects) == ("certain", ("StatefulSet/default/web",))
    assert found.summary.endswith("these gates off: example.com/quota")


def test_a_gated_pod_of_a_daemon_set_does_not_come_back_by_itself_either() -> None:
    untaint = make_event(100, "untaint", "a1", taint="maint:NoExecute")
    owner = Workload("DaemonSet", "default", "agent", scheduling_gates=("example.com/quota",))
    impact = impact_of(
        cluster(pods_of("DaemonSet", "agent", ["a1"]), workloads=[owner]), TAINT, untaint
    )
    assert workload(impact, "DaemonSet/agent").whole_again.latest_seconds is None
    assert comebacks(impact)["agent-0"].code == "gated"
