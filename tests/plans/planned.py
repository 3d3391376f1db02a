"""Plans of a small cluster, and the cluster as it is some time later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from building.builders import START_NS, make_event, make_scenario, ns
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster
from msgspec.structs import replace

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import ClusterIdentity, Execution, Plan
from kubectl_evictplan.plans.drift import Fresh, differences, nodes_are_there
from kubectl_evictplan.plans.making import execution_of, make_plan
from kubectl_evictplan.plans.operations import operations_of
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.scenarios.writer import scenario_document

IDENTITY = ClusterIdentity(
    "uid-kube-system", "https://a:6443", "sha256:ca", "jane", "dev", "1.37.0"
)
TAINT = make_event(0, "taint", ["a1"], taint="maint=yes:NoExecute")
DRAIN = drain("a1", force=True, parallel=2)
SECONDS_30 = (ns(30), ns(30))


def small_cluster() -> ClusterSnapshot:
    """a1 has two pods of web, one of db and a bare one; b1 and b2 the others."""
    cluster = drained_cluster(
        App("web", ["a1", "a1", "b1"], most=1),
        App("db", ["a1", "b2"], "StatefulSet"),
        App("bare", ["a1"], ""),
    )
    nodes = [replace(node, uid=f"uid-{node.name}") for node in cluster.nodes]
    return replace(cluster, nodes=tuple(nodes))


def predicted(cluster: ClusterSnapshot, scenario: Scenario) -> Prediction:
    return predict(cluster, scenario, CONFIGURATION, assume_ready=SECONDS_30)


def plan_of(cluster: ClusterSnapshot, *events: ScenarioEvent, **execution: Any) -> Plan:
    """Return the plan of the events on the cluster, made when it was read."""
    scenario = replace(make_scenario(events, horizon=None), start_ns=cluster.taken_at_ns)
    return make_plan(
        cluster,
        scenario,
        predicted(cluster, scenario),
        written=scenario_document(scenario, ControllerSettings()),
        assume_ready_ns=SECONDS_30,
        identity=IDENTITY,
        execution=Execution(**execution),
        created_at_ns=START_NS,
    )


def later(
    plan: Plan,
    cluster: ClusterSnapshot,
    *events: ScenarioEvent,
    minutes: float = 1,
    identity: ClusterIdentity = IDENTITY,
    compare: Callable[[Plan, Fresh], tuple[Difference, ...]] = differences,
) -> tuple[Difference, ...]:
    """Return how the cluster differs from the plan of the same events some minutes later."""
    now_ns = START_NS + ns(60 * minutes)
    leases = {
        name: replace(lease, renew_time_ns=now_ns - ns(5)) for name, lease in cluster.leases.items()
    }
    cluster = replace(cluster, taken_at_ns=now_ns, leases=leases)
    fresh = Fresh(identity, cluster, now_ns)
    if nodes_are_there(plan, cluster):
        scenario = replace(make_scenario(events, horizon=None), start_ns=now_ns)
        try:
            fresh = replace(
                fresh,
                operations=operations_of(scenario, cluster),
                execution=execution_of(scenario, plan.execution),
                prediction=predicted(cluster, scenario),
            )
        except InputError as error:
            fresh = replace(fresh, impossible=str(error))
    return compare(plan, fresh)


def kinds(found: Sequence[Difference]) -> list[str]:
    return [one.kind for one in found]


def with_node(
    cluster: ClusterSnapshot, name: str, change: Callable[[Node], Node]
) -> ClusterSnapshot:
    nodes = tuple(change(node) if node.name == name else node for node in cluster.nodes)
    return replace(cluster, nodes=nodes)


def with_pod(cluster: ClusterSnapshot, name: str, change: Callable[[Pod], Pod]) -> ClusterSnapshot:
    pods = tuple(change(pod) if pod.name == name else pod for pod in cluster.pods)
    return replace(cluster, pods=pods)


def without_pod(cluster: ClusterSnapshot, name: str) -> ClusterSnapshot:
    return replace(cluster, pods=tuple(pod for pod in cluster.pods if pod.name != name))


def with_more(cluster: ClusterSnapshot, *pods: Pod) -> ClusterSnapshot:
    every = sorted((*cluster.pods, *pods), key=lambda pod: (pod.namespace, pod.name))
    return replace(cluster, pods=tuple(every))
