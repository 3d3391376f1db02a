"""What is changed in a cluster, and what is never: one request, one mutation, with its precondition."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from live import api_server as faults
from live.api_server import Fault, VirtualWorld
from live.changing import (
    TAINT,
    changing,
    evict_request,
    node,
    small_writable_cluster,
    taint_request,
)
from live.requests_answered import Asked, failure
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import Access, ClusterApi, LiveWorkload, Outcome
from kubectl_evictplan.errors import AccessError, UnreachableError

FOREIGN = {"key": "theirs", "effect": "NoSchedule", "timeAdded": "2026-11-20T10:00:00Z"}


@pytest.fixture
def api() -> Iterator[WritableServer]:
    with small_writable_cluster().serve() as server:
        assert isinstance(server, WritableServer)
        yield server


@pytest.fixture
def cluster(api: WritableServer) -> Iterator[ClusterApi]:
    with changing(api) as connected:
        yield connected


def body(request: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.body)
    return found


# Taints and cordons.


def test_a_taint_goes_with_the_whole_list_at_the_resource_version_it_was_read_at(
    api: WritableServer, cluster: ClusterApi
) -> None:
    api.set_taints("n1", [FOREIGN])
    before = node(cluster)
    request = taint_request(cluster)
    reply = cluster.send(request)

    assert request.method == "PATCH"
    assert request.path == "/api/v1/nodes/n1?fieldManager=kubectl-evictplan&timeout=30s"
    assert request.content_type == "application/strategic-merge-patch+json"
    assert body(request) == {
        "metadata": {"resourceVersion": before.resource_version},
        "spec": {"taints": [FOREIGN, TAINT]},
    }
    assert reply.outcome is Outcome.APPLIED
    assert reply.node is not None
    assert reply.resource_version == reply.node.resource_version != before.resource_version
    assert reply.audit_id.startswith("audit-")
    assert api.node("n1")["spec"]["taints"] == [FOREIGN, TAINT]


def test_a_foreign_taint_that_came_meanwhile_survives(
    api: WritableServer, cluster: ClusterApi
) -> None:
    request = taint_request(cluster)
    api.set_taints("n1", [FOREIGN])
    reply = cluster.send(request)
    assert (reply.outcome, reply.status, reply.reason) == (Outcome.CONFLICT, 409, "Conflict")
    assert api.node("n1")["spec"]["taints"] == [FOREIGN]
    assert api.executed == []
    (change,) = node(cluster).changed_by
    assert (change.manager, change.fields) == ("somebody-else", ("taints",))


def test_a_node_made_anew_is_not_touched(api: WritableServer, cluster: ClusterApi) -> None:
    request = taint_request(cluster)
    api.recreate("nodes", "n1")
    assert cluster.send(request).outcome is Outcome.CONFLICT


def test_a_node_that_is_gone_is_absent(api: WritableServer, cluster: ClusterApi) -> None:
    request = taint_request(cluster)
    api.remove("nodes", api.node("n1"))
    assert cluster.send(request).outcome is Outcome.ABSENT
    assert cluster.get_node("n1") is None


def test_fields_of_foreign_taints_that_nobody_here_knows_go_back_as_they_came(
    api: WritableServer, cluster: ClusterApi
) -> None:
    odd = {**FOREIGN, "value": "\u202e\x1b[2J", "newIn2030": {"deep": [1, 2.5, None]}}
    api.set_taints("n1", [odd])
    assert cluster.send(taint_request(cluster)).outcome is Outcome.APPLIED
    assert api.node("n1")["spec"]["taints"][0] == odd


def test_the_last_taint_can_be_taken_off(api: WritableServer, cluster: ClusterApi) -> None:
    api.set_taints("n1", [TAINT])
    reply = cluster.send(cluster.taint_request(node(cluster), []))
    assert reply.outcome is Outcome.APPLIED
    assert "taints" not in api.node("n1")["spec"]


@pytest.mark.parametrize("unschedulable", [True, False])
def test_a_cordon_touches_nothing_but_itself(
    api: WritableServer, cluster: ClusterApi, unschedulable: bool
) -> None:
    api.set_taints("n1", [FOREIGN])
    api.node("n1")["spec"]["unschedulable"] = not unschedulable
    request = cluster.cordon_request(node(cluster), unschedulable)
    assert body(request)["spec"] == {"unschedulable": unschedulable}
    assert cluster.send(request).outcome is Outcome.APPLIED
    assert bool(api.node("n1")["spec"].get("unschedulable")) == unschedulable
    assert api.node("n1")["spec"]["taints"] == [FOREIGN]


def test_a_dry_run_changes_nothing_and_is_answered_as_if(
    api: WritableServer, cluster: ClusterApi
) -> None:
    before = node(cluster)
    patch = cluster.taint_request(before, [TAINT], dry_run=True)
    pod = cluster.get_pod("shop", "web-0")
    assert pod is not None
    eviction = cluster.evict_request("shop", "web-0", pod.uid, 5, dry_run=True)

    assert "dryRun=All" in patch.path
    assert "dryRun=All" in eviction.path
    assert body(eviction)["deleteOptions"]["dryRun"] == ["All"]
    assert [cluster.send(one).outcome for one in (patch, eviction)] == [Outcome.APPLIED] * 2
    assert api.executed == []
    assert node(cluster) == before


def lose_the_taint(asked: Asked, changed: dict[str, Any]) -> None:
    if asked.plural == "nodes":
        changed["spec"]["taints"] = [
            one for one in changed["spec"]["taints"] if one["key"] != "maintenance"
        ]


def turn_around(asked: Asked, changed: dict[str, Any]) -> None:
    if asked.plural == "nodes":
        changed["spec"]["taints"].reverse()


def deny(asked: Asked, changed: dict[str, Any]) -> None:
    message = 'admission webhook "guard.example" denied the request: freeze'
    raise failure(403, message)


def test_a_webhook_that_changes_the_taints_is_found_out(
    api: WritableServer, cluster: ClusterApi
) -> None:
    api.set_taints("n1", [FOREIGN])
    api.webhooks.append(lose_the_taint)
    reply = cluster.send(taint_request(cluster))
    assert reply.outcome is Outcome.CHANGED
    assert reply.node is not None
    assert reply.node.raw_taints == (FOREIGN,)


def test_a_webhook_that_only_orders_them_is_none_to_mind(
    api: WritableServer, cluster: ClusterApi
) -> None:
    api.set_taints("n1", [FOREIGN])
    api.webhooks.append(turn_around)
    assert cluster.send(taint_request(cluster)).outcome is Outcome.APPLIED


def test_a_webhook_that_refuses_is_quoted(api: WritableServer, cluster: ClusterApi) -> None:
    requests = [taint_request(cluster), evict_request(cluster)]
    api.webhooks.append(deny)
    for request in requests:
        reply = cluster.send(request)
        assert reply.outcome is Outcome.REFUSED
        assert "freeze" in reply.message


# Evictions.


def test_an_eviction_names_the_pod_by_its_uid(api: WritableServer, cluster: ClusterApi) -> None:
    request = evict_request(cluster)
    assert request.path.startswith("/api/v1/namespaces/shop/pods/web-0/eviction?")
    assert body(request) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-0", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "uid-Pod-shop/web-0"}},
    }
    assert cluster.send(request).outcome is Outcome.APPLIED
    pod = cluster.get_pod("shop", "web-0")
    assert pod is not None
    assert pod.deletion_grace_period_seconds == 30


def test_a_pod_ends_after_its_own_grace_or_the_one_given(
    api: WritableServer, cluster: ClusterApi
) -> None:
    api.exit_after_seconds = 1000
    uid = "uid-Pod-shop/web-1"
    assert cluster.send(cluster.evict_request("shop", "web-1", uid, 7)).outcome is Outcome.APPLIED
    api.clock.advance(6.9)
    assert cluster.get_pod("shop", "web-1") is not None
    api.clock.advance(0.2)
    assert cluster.get_pod("shop", "web-1") is None


def test_a_pod_of_another_uid_is_never_evicted(api: WritableServer, cluster: ClusterApi) -> None:
    request = evict_request(cluster)
    api.recreate("pods", "web-0", "shop")
    reply = cluster.send(request)
    assert (reply.outcome, reply.status) == (Outcome.CONFLICT, 409)
    assert "UID in the precondition" in reply.message
    assert api.executed == []


def test_servers_before_1_22_are_asked_in_the_version_that_they_have() -> None:
    with (
        small_writable_cluster(eviction_version="v1beta1").serve() as api,
        changing(api) as cluster,
    ):
        request = evict_request(cluster)
        assert body(request)["apiVersion"] == "policy/v1beta1"
        assert cluster.send(request).outcome is Outcome.APPLIED


def test_without_an_eviction_api_nothing_is_deleted() -> None:
    with small_writable_cluster(eviction_version="").serve() as api, changing(api) as cluster:
        assert cluster.send(evict_request(cluster)).outcome is Outcome.REFUSED
        assert "DELETE" not in {seen.method for seen in api.seen}
        assert cluster.get_pod("shop", "web-0") is not None


def spent(api: WritableServer) -> None:
    api.objects["poddisruptionbudgets"][0]["spec"] |= {"minAvailable": 6}


def unobserved(api: WritableServer) -> None:
    one = api.objects["poddisruptionbudgets"][0]
    one["metadata"]["generation"], one["status"]["observedGeneration"] = 7, 6


def two(api: WritableServer) -> None:
    second = copy.deepcopy(api.objects["poddisruptionbudgets"][0])
    second["metadata"] |= {"name": "second", "uid": "uid-2"}
    api.objects["poddisruptionbudgets"].append(second)


@pytest.mark.parametrize(
    ("change", "outcome", "status", "retry_after", "cause"),
    [
        (spent, Outcome.BUDGET, 429, None, "needs 6 healthy pods and has 6 currently"),
        (unobserved, Outcome.BUDGET, 429, 10, "still being processed by the server"),
        (two, Outcome.SEVERAL_BUDGETS, 500, None, ""),
    ],
)
def test_budgets_say_no_in_three_ways(
    api: WritableServer,
    cluster: ClusterApi,
    change: Any,
    outcome: Outcome,
    status: int,
    retry_after: int | None,
    cause: str,
) -> None:
    change(api)
    reply = cluster.send(evict_request(cluster))
    found = (reply.outcome, reply.status, reply.retry_after_seconds)
    assert found == (outcome, status, retry_after)
    assert cause in "".join(reply.causes)
    assert api.executed == []


# Leases.


def test_a_lease_is_created_renewed_taken_over_and_released(
    api: WritableServer, cluster: ClusterApi
) -> None:
    assert cluster.get_lease("default", "evictplan-apply") is None
    assert cluster.create_lease("default", "evictplan-apply", "jane", 60).outcome is Outcome.APPLIED
    first = cluster.get_lease("default", "evictplan-apply")
    assert first is not None
    assert (first.holder_identity, first.lease_duration_seconds) == ("jane", 60)
    assert first.acquire_time_ns == first.renew_time_ns == cluster.now_ns()

    api.clock.advance(15)
    assert cluster.update_lease(first, "jane", 60).outcome is Outcome.APPLIED
    renewed = cluster.get_lease("default", "evictplan-apply")
    assert renewed is not None
    assert renewed.acquire_time_ns == first.acquire_time_ns
    assert renewed.renew_time_ns == cluster.now_ns()
    assert renewed.transitions == 0

    assert cluster.update_lease(renewed, "joe", 60).outcome is Outcome.APPLIED
    taken = cluster.get_lease("default", "evictplan-apply")
    assert taken is not None
    assert (taken.holder_identity, taken.transitions) == ("joe", 1)
    assert taken.acquire_time_ns == cluster.now_ns()

    assert cluster.update_lease(taken, "", 60).outcome is Outcome.APPLIED
    released = cluster.get_lease("default", "evictplan-apply")
    assert released is not None
    assert released.holder_identity == ""


def test_who_comes_second_to_a_lease_is_told(api: WritableServer, cluster: ClusterApi) -> None:
    cluster.create_lease("default", "evictplan-apply", "jane", 60)
    second = cluster.create_lease("default", "evictplan-apply", "joe", 60)
    assert (second.outcome, second.reason) == (Outcome.CONFLICT, "AlreadyExists")
    lease = cluster.get_lease("default", "evictplan-apply")
    assert lease is not None
    cluster.update_lease(lease, "jane", 60)
    late = cluster.update_lease(lease, "joe", 60)
    assert (late.outcome, late.reason) == (Outcome.CONFLICT, "Conflict")


# Reads.


def test_pods_of_a_node_are_those_that_the_scheduler_put_there(
    api: WritableServer, cluster: ClusterApi
) -> None:
    assert [pod.name for pod in cluster.list_pods("n1")] == ["web-0", "web-4"]


def test_an_object_that_is_not_there_is_none_but_a_missing_api_is_an_error(
    api: WritableServer, cluster: ClusterApi
) -> None:
    assert cluster.get_pod("shop", "nobody") is None
    api.missing.add("pods")
    with pytest.raises(UnreachableError, match="answered 404"):
        cluster.get_pod("shop", "nobody")


def test_what_may_not_be_read_is_said(api: WritableServer, cluster: ClusterApi) -> None:
    api.rules = []
    for read in (
        lambda: cluster.get_node("n1"),
        lambda: cluster.list_pods("n1"),
        lambda: cluster.get_workload("shop", "ReplicaSet", "web"),
        cluster.count_not_ready_nodes,
    ):
        with pytest.raises(AccessError):
            read()


def test_workloads_and_nodes_are_counted(api: WritableServer, cluster: ClusterApi) -> None:
    (workload,) = api.objects["replicasets"]
    workload["spec"]["replicas"], workload["status"] = 6, {"readyReplicas": 4}
    api.node("n2")["status"]["conditions"][0]["status"] = "Unknown"
    assert cluster.get_workload("shop", "ReplicaSet", "web") == LiveWorkload(wanted=6, ready=4)
    assert cluster.get_workload("shop", "ReplicaSet", "gone") is None
    assert cluster.get_workload("shop", "DaemonSet", "web") is None
    assert cluster.count_not_ready_nodes() == 1


RULES = [
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews"],
        "verbs": ["create"],
    },
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["evictplan-apply"],
        "verbs": ["update"],
    },
]


def test_the_server_is_asked_what_may_be_done(api: WritableServer, cluster: ClusterApi) -> None:
    api.rules = RULES
    lease = Access("update", "leases", "coordination.k8s.io", "", "default", "evictplan-apply")
    assert cluster.may(Access("patch", "nodes", name="n1"))
    assert cluster.may(Access("create", "pods", subresource="eviction", namespace="shop"))
    assert cluster.may(lease)
    assert cluster.may(msgspec.structs.replace(lease, name="another")) is False
    assert cluster.may(Access("delete", "pods")) is False


def test_a_server_that_does_not_say_what_may_be_done_is_unknown(
    api: WritableServer, cluster: ClusterApi
) -> None:
    site = "create selfsubjectaccessreviews"
    said = {"kind": "SelfSubjectAccessReview", "status": {"allowed": False, "evaluationError": "x"}}
    for action in (faults.json_body(said), faults.status(403, "Forbidden", "no")):
        api.faults.append(Fault(site, action))
        assert cluster.may(Access("patch", "nodes")) is None


def test_now_is_the_servers_time() -> None:
    clock = VirtualWorld(skew_seconds=-300)
    with small_writable_cluster(clock=clock).serve() as api, changing(api) as cluster:
        cluster.get_node("n1")
        assert abs(cluster.now_ns() - api.now_ns()) < 1_000_000_000  # type: ignore[attr-defined]


def test_what_is_to_be_certain_is_read_over_a_new_connection(
    api: WritableServer, cluster: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    from urllib3.connection import HTTPConnection

    made = []
    connect = HTTPConnection.connect
    monkeypatch.setattr(
        HTTPConnection, "connect", lambda self: (made.append(self), connect(self))[-1]
    )
    cluster.get_node("n1")
    cluster.get_node("n1")
    assert len(made) == 1
    cluster.get_node("n1", fresh=True)
    cluster.get_pod("shop", "web-0", fresh=True)
    assert len(made) == 3


def test_a_budget_is_spent_also_by_an_eviction_that_meets_another_uid(
    api: WritableServer, cluster: ClusterApi
) -> None:
    api.counts_budgets = False
    status = api.objects["poddisruptionbudgets"][0]["status"]
    status["disruptionsAllowed"] = 1
    reply = cluster.send(cluster.evict_request("shop", "web-0", "of-another", None))
    assert reply.outcome is Outcome.CONFLICT
    assert status["disruptionsAllowed"] == 0
