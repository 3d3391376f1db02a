"""One small cluster, real or simulated, whose answers to mutations are asked for step by step.

Node a1 with the pods ``one`` to ``four``, Ready, and nobody who changes anything by itself: no
controllers run. ``STEPS`` are made in order; each returns what an operator's program sees of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Protocol

from kubectl_evictplan.apply.cluster import Access, ClusterApi, LiveNode, Reply

PODS = ("one", "two", "three", "four")
OURS = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
THEIRS = {"key": "theirs", "effect": "NoSchedule"}
NOBODYS_UID = "00000000-0000-0000-0000-000000000000"
LOCK = ("default", "evictplan-apply")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|uid-[\w/-]+")


class Stage(Protocol):
    """The cluster, by three users, and what happens to it behind their backs."""

    admin: ClusterApi
    nobody: ClusterApi
    stranger: ClusterApi

    def set_taints(self, taints: list[dict[str, str]]) -> None:
        """Change the node's taints as somebody else."""

    def budget(self, name: str, app: str, **status: int) -> None:
        """Create a budget over ``app``, and give it that status."""

    def allowed(self, name: str) -> int:
        """Return the disruptions that a budget allows."""


def told(reply: Reply) -> dict[str, Any]:
    """Return what a reply tells, but for UIDs."""
    return {
        "outcome": reply.outcome.value,
        "status": reply.status,
        "reason": reply.reason,
        # Long ones are cut, and UIDs are not of one length.
        "message": _UID.sub("UID", reply.message)[:120],
        "causes": [_UID.sub("UID", cause) for cause in reply.causes],
        "retry after": reply.retry_after_seconds,
        "has an Audit-Id": bool(reply.audit_id),
    }


def node(stage: Stage) -> LiveNode:
    found = stage.admin.get_node("a1")
    assert found is not None
    return found


def taints(reply: Reply) -> list[Any]:
    assert reply.node is not None
    return [(one.key, one.value, one.effect) for one in reply.node.taints]


def patch(stage: Stage, new: list[dict[str, str]], *, dry_run: bool = False) -> Reply:
    return stage.admin.send(stage.admin.taint_request(node(stage), new, dry_run=dry_run))


def evict(stage: Stage, name: str, uid: str = "", *, dry_run: bool = False) -> Reply:
    pod = stage.admin.get_pod("default", name)
    uid = uid or (pod.uid if pod else NOBODYS_UID)
    return stage.admin.send(stage.admin.evict_request("default", name, uid, None, dry_run=dry_run))


def stale_resource_version(stage: Stage) -> Any:
    before = node(stage)
    stage.set_taints([THEIRS])
    reply = stage.admin.send(stage.admin.taint_request(before, [OURS]))
    return told(reply), [one.key for one in node(stage).taints]


def taint_beside_theirs(stage: Stage) -> Any:
    before = node(stage)
    reply = stage.admin.send(stage.admin.taint_request(before, [*before.raw_taints, OURS]))
    after = node(stage)
    writers = [(one.manager, one.fields) for one in after.changed_by]
    is_newer = reply.resource_version == after.resource_version != before.resource_version
    return told(reply), taints(reply), is_newer, writers[-1]


def same_taints_again(stage: Stage) -> Any:
    before = node(stage)
    reply = patch(stage, list(before.raw_taints))
    return told(reply), reply.resource_version == before.resource_version


def dry_taint(stage: Stage) -> Any:
    before = node(stage)
    reply = patch(stage, [], dry_run=True)
    return told(reply), taints(reply), node(stage) == before


def time_added(stage: Stage) -> Any:
    """Of a taint of ours, in our own words, as it comes back."""
    ours = {**OURS, "timeAdded": "2026-11-22T04:00:00Z"}
    reply = patch(stage, [THEIRS, ours])
    assert reply.node is not None
    return told(reply), reply.node.raw_taints


def one_taint_twice(stage: Stage) -> Any:
    reply = patch(stage, [OURS, {**OURS, "value": "no"}])
    return reply.outcome, reply.status, reply.reason, bool(reply.causes), bool(reply.message)


def no_taint_left(stage: Stage) -> Any:
    reply = patch(stage, [])
    return told(reply), taints(reply)


def missing_node(stage: Stage) -> Any:
    gone = LiveNode("nobody", NOBODYS_UID, "1", (), False, "True")
    reply = stage.admin.send(stage.admin.taint_request(gone, [OURS]))
    return told(reply), stage.admin.get_node("nobody")


def cordon_and_uncordon(stage: Stage) -> Any:
    found = []
    for wanted in (True, True, False):
        before = node(stage)
        reply = stage.admin.send(stage.admin.cordon_request(before, wanted))
        same = reply.resource_version == before.resource_version
        found.append((told(reply), node(stage).unschedulable, same))
    return found


def forbidden(stage: Stage) -> Any:
    reply = stage.nobody.send(stage.nobody.taint_request(node(stage), [OURS]))
    return reply.outcome, reply.status, reply.reason


def unknown_user(stage: Stage) -> Any:
    return told(stage.stranger.send(stage.stranger.taint_request(node(stage), [OURS])))


def wrong_uid(stage: Stage) -> Any:
    return told(evict(stage, "one", NOBODYS_UID))


def wrong_uid_spends_the_budget(stage: Stage) -> Any:
    stage.budget("one", "one", disruptionsAllowed=1, currentHealthy=1, desiredHealthy=1)
    return told(evict(stage, "one", NOBODYS_UID)), stage.allowed("one")


def spent_budget(stage: Stage) -> Any:
    return told(evict(stage, "one")), told(evict(stage, "one", dry_run=True))


def dry_evictions_spend_nothing(stage: Stage) -> Any:
    stage.budget("two", "two", disruptionsAllowed=1, currentHealthy=1, desiredHealthy=0)
    both = [told(evict(stage, "two", dry_run=True)) for _ in range(2)]
    pod = stage.admin.get_pod("default", "two")
    return both, stage.allowed("two"), pod is not None and pod.deletion_timestamp_ns


def eviction(stage: Stage) -> Any:
    reply = evict(stage, "two")
    pod = stage.admin.get_pod("default", "two")
    assert pod is not None
    is_deleted = pod.deletion_timestamp_ns is not None
    return told(reply), is_deleted, pod.deletion_grace_period_seconds, stage.allowed("two")


def eviction_of_what_is_going(stage: Stage) -> Any:
    return told(evict(stage, "two")), stage.allowed("two")


def unobserved_budget(stage: Stage) -> Any:
    stage.budget("three", "three", observedGeneration=0)
    return told(evict(stage, "three"))


def two_budgets(stage: Stage) -> Any:
    for name in ("four", "fourth"):
        stage.budget(name, "four", disruptionsAllowed=1, currentHealthy=1, desiredHealthy=0)
    return told(evict(stage, "four")), stage.allowed("four")


def missing_pod(stage: Stage) -> Any:
    return told(evict(stage, "five")), stage.admin.get_pod("default", "five")


def pods_of_the_node(stage: Stage) -> Any:
    return [pod.name for pod in stage.admin.list_pods("a1")]


def lease_by_compare_and_swap(stage: Stage) -> Any:
    admin, (namespace, name) = stage.admin, LOCK
    found: list[Any] = [admin.get_lease(*LOCK)]
    found += [told(admin.create_lease(*LOCK, holder, 60)) for holder in ("jane", "joe")]
    first = admin.get_lease(*LOCK)
    assert first is not None
    found += [told(admin.update_lease(first, holder, 60)) for holder in ("jane", "joe")]
    second = admin.get_lease(*LOCK)
    assert second is not None
    found += [first.holder_identity, second.holder_identity, second.transitions]
    found.append(told(admin.update_lease(second, "joe", 30)))
    third = admin.get_lease(*LOCK)
    assert third is not None
    found += [third.holder_identity, third.lease_duration_seconds, third.transitions]
    found.append(told(admin.update_lease(third, "", 30)))
    released = admin.get_lease(*LOCK)
    assert released is not None
    found += [released.holder_identity, released.lease_duration_seconds, namespace, name]
    found.append(second.acquire_time_ns == first.acquire_time_ns)
    return found


def access(stage: Stage) -> Any:
    wanted = [
        Access("patch", "nodes", name="a1"),
        Access("create", "pods", subresource="eviction", namespace="default"),
        Access("update", "leases", "coordination.k8s.io", "", *LOCK),
    ]
    return [[api.may(one) for one in wanted] for api in (stage.admin, stage.nobody)]


def request_of_an_eviction(stage: Stage) -> Any:
    return json.loads(stage.admin.evict_request("default", "one", "uid", 5).body)


STEPS: tuple[Callable[[Stage], Any], ...] = (
    stale_resource_version, taint_beside_theirs, same_taints_again, dry_taint, time_added,
    one_taint_twice, no_taint_left, missing_node, cordon_and_uncordon, forbidden, unknown_user,
    wrong_uid, wrong_uid_spends_the_budget, spent_budget, dry_evictions_spend_nothing, eviction,
    eviction_of_what_is_going, unobserved_budget, two_budgets, missing_pod, pods_of_the_node,
    lease_by_compare_and_swap, access, request_of_an_eviction,
)  # fmt: skip


def answers(stage: Stage) -> dict[str, Any]:
    """Make every step; return what each of them told."""
    return {step.__name__: step(stage) for step in STEPS}
