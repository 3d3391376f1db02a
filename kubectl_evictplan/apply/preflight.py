"""Everything that is looked at before the first mutation; each look is a ``Check``.

Order matters: rights first, as asking for them changes nothing; then the lock; then, under the lock,
the nodes, and the server's dry run of every patch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from kubectl_evictplan.apply.changes import (
    Standing,
    judge,
    made_of,
    same_taints,
    time_added,
    written_by,
)
from kubectl_evictplan.apply.cluster import Access, ClusterApi, LiveNode, Outcome, Reply, Request
from kubectl_evictplan.apply.conditions import (
    NOT_READY_NODES,
    UNREADY,
    Condition,
    comparisons,
    parse_condition,
)
from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.lock import LOCK_NAME
from kubectl_evictplan.apply.records import Check, NodeImage
from kubectl_evictplan.apply.sending import FORBIDDEN
from kubectl_evictplan.apply.working import Looking
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.plans.document import (
    AnyOperation,
    ClusterIdentity,
    Evict,
    Execution,
    Plan,
)

Checks = tuple[Callable[[], Check], ...]

DRY_RUN_ATTEMPTS = 3
# How admission says that a webhook with side effects cannot take part in a dry run.
_NO_DRY_RUN = ("does not support dry run", "dry run")

WORKLOAD_RESOURCES = {
    "Deployment": ("apps", "deployments"),
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
    "ReplicationController": ("", "replicationcontrollers"),
}


class CheckFailed(Exception):
    """A check that ends the run before anything was sent; the check is recorded first."""

    def __init__(self, check: Check, ending: Ending) -> None:
        super().__init__(check.name)
        self.check = check
        self.ending = ending


class _Gone(CheckFailed):
    """A node is not there any more."""


def instant(api: ClusterApi) -> str:
    """Return the server's time as a journal writes it."""
    return format_rfc3339(api.now_ns())


def before_the_lock(
    run: Looking, plan: Plan, lock_namespace: str, identity: ClusterIdentity
) -> Checks:
    """Return the checks that change nothing and need no lock: whose cluster, which rights, which APIs."""
    return (
        lambda: same_cluster(plan.cluster, identity),
        lambda: run.read(lambda: rights(run.api, rights_of(plan, lock_namespace))),
        lambda: run.read(lambda: evictions_served(run.api, plan.operations)),
    )


def under_the_lock(run: Looking, plan: Plan, *, may_be_absent: bool = False) -> Checks:
    """Return the checks of every node of the plan, whose state nobody else with a lock changes meanwhile."""
    uids = {node.name: node.uid for node in plan.nodes}
    return (
        lambda: nodes_as_planned(run, plan.operations, uids, may_be_absent=may_be_absent),
        lambda: dry_runs(run, plan.operations, uids, may_be_absent=may_be_absent),
    )


def same_cluster(planned: ClusterIdentity, now: ClusterIdentity) -> Check:
    """Check that this is the plan's cluster, asked by the plan's user.

    What could not be read when the plan was made, or now, is not the same; only the user may be
    unknown both times (servers before 1.28 do not tell).
    """
    differ = [
        name
        for name, one, other in (
            ("cluster", planned.cluster_uid, now.cluster_uid),
            ("user", planned.user, now.user),
        )
        if one != other or (name == "cluster" and not one)
    ]
    if differ:
        check = Check("identity", "failed", ", ".join(differ))
        raise CheckFailed(check, Ending(EndCode.DRIFT, objects=tuple(differ)))
    return Check("identity", "ok")


def evictions_served(api: ClusterApi, operations: Iterable[AnyOperation]) -> Check:
    """Check that there is an Eviction API when pods are to be evicted: nothing is deleted instead."""
    if not any(isinstance(one, Evict) for one in operations):
        return Check("eviction-api", "skipped")
    if not api.serves_evictions():
        ending = Ending(EndCode.REFUSED, message="the server has no pods/eviction")
        raise CheckFailed(Check("eviction-api", "failed"), ending)
    return Check("eviction-api", "ok")


def rights_of(plan: Plan, lock_namespace: str) -> tuple[Access, ...]:
    """Return every right that carrying the plan out may need."""
    conditions = [parse_condition(words) for words in plan.execution.abort_if]
    owners = {pod.key: pod.owner for pod in plan.pods}
    return needed(plan.operations, plan.execution, conditions, owners, lock_namespace)


def needed(
    operations: Iterable[AnyOperation],
    execution: Execution,
    conditions: Sequence[Condition],
    owners: Mapping[str, str],
    lock_namespace: str,
) -> tuple[Access, ...]:
    """Return every right that carrying this out may need, each once, in a stable order.

    ``owners`` maps "namespace/pod" to "Kind/name" of the controller.
    """
    found: dict[Access, None] = {}
    wanted = [Access("get", "nodes"), Access("list", "pods")]
    for operation in operations:
        if isinstance(operation, Evict):
            space = operation.namespace
            wanted.append(Access("get", "pods", namespace=space))
            wanted.append(Access("create", "pods", subresource="eviction", namespace=space))
            if execution.until_ready:
                wanted.extend(_workload_access(space, owners.get(operation.key, "")))
        else:
            wanted.append(Access("patch", "nodes", name=operation.node))
    for condition in conditions:
        wanted.extend(_condition_access(condition))
    if lock_namespace:
        lease = Access("create", "leases", "coordination.k8s.io", namespace=lock_namespace)
        wanted.append(lease)
        # A role names the Lease for all but its creation, when there is no name to check yet.
        named = msgspec.structs.replace(lease, name=LOCK_NAME)
        wanted.extend(msgspec.structs.replace(named, verb=verb) for verb in ("get", "update"))
    found.update(dict.fromkeys(wanted))
    return tuple(found)


def _workload_access(namespace: str, owner: str) -> list[Access]:
    kind = owner.partition("/")[0]
    if kind not in WORKLOAD_RESOURCES:
        return []
    group, resource = WORKLOAD_RESOURCES[kind]
    # One is read as a list of that name: so reading needs one verb.
    return [Access("list", resource, group, namespace=namespace)]


def _condition_access(condition: Condition) -> list[Access]:
    found = []
    for figure, argument, _, _ in comparisons(condition.rule):
        if figure == NOT_READY_NODES:
            found.append(Access("list", "nodes"))
        if figure == UNREADY:
            namespace, *rest = argument.split("/")
            kinds = rest[:-1] or WORKLOAD_RESOURCES
            found += [one for kind in kinds for one in _workload_access(namespace, f"{kind}/")]
    return found


def rights(api: ClusterApi, accesses: Iterable[Access]) -> Check:
    """Ask for every right; fails when one is refused, naming all that are."""
    refused, unknown = [], []
    for access in accesses:
        answer = api.may(access)
        if answer is None:
            unknown.append(told(access))
        elif not answer:
            refused.append(told(access))
    if refused:
        check = Check("access", "failed", ", ".join(refused))
        raise CheckFailed(check, Ending(EndCode.DENIED, objects=tuple(refused)))
    if unknown:
        return Check("access", "unknown", ", ".join(unknown))
    return Check("access", "ok")


def told(access: Access) -> str:
    """Return a right in words: ``create pods/eviction in namespace shop``."""
    resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    group = f".{access.group}" if access.group else ""
    name = f" {access.name}" if access.name else ""
    space = f" in namespace {access.namespace}" if access.namespace else ""
    return f"{access.verb} {resource}{group}{name}{space}"


def nodes_as_planned(
    run: Looking,
    operations: Iterable[AnyOperation],
    uids: Mapping[str, str],
    *,
    may_be_absent: bool = False,
) -> Check:
    """Check that each node is the plan's and that every operation on it still makes sense.

    Later operations are judged on what earlier ones will have made of the node. ``may_be_absent``: a
    node that is gone is nothing to end for.
    """
    for live, mine in _live_nodes(run, operations, uids, may_be_absent=may_be_absent):
        _each_wanted(run, live, mine, lambda _node, _wanted: None)
    return Check("nodes", "ok")


def _live_nodes(
    run: Looking,
    operations: Iterable[AnyOperation],
    uids: Mapping[str, str],
    *,
    may_be_absent: bool,
) -> Iterator[tuple[LiveNode, list[AnyOperation]]]:
    """Read each node of the operations, one after the other, and yield it with its own."""
    for node, mine in _by_node(operations).items():
        try:
            live = _node(run, node, uids[node])
        except _Gone:
            if may_be_absent:
                continue
            raise
        yield live, mine


def dry_runs(
    run: Looking,
    operations: Iterable[AnyOperation],
    uids: Mapping[str, str],
    *,
    may_be_absent: bool = False,
) -> Check:
    """Let the server try every patch without keeping it, admission webhooks included."""
    unsupported: list[str] = []
    for live, mine in _live_nodes(run, operations, uids, may_be_absent=may_be_absent):

        def tried(before: LiveNode, wanted: NodeImage) -> None:
            reply = _dry_run(run, _request(run.api, before, wanted))
            if not _accepted(before, wanted, reply):
                unsupported.append(before.name)

        _each_wanted(run, live, mine, tried)
    if unsupported:
        detail = ", ".join(dict.fromkeys(unsupported))
        return Check("dry-run", "unknown", f"a webhook does not take part: {detail}")
    return Check("dry-run", "ok")


def _by_node(operations: Iterable[AnyOperation]) -> dict[str, list[AnyOperation]]:
    found: dict[str, list[AnyOperation]] = {}
    for operation in operations:
        mine = found.setdefault(operation.node, [])
        if not isinstance(operation, Evict):
            mine.append(operation)
    return found


def _node(run: Looking, name: str, uid: str) -> LiveNode:
    run.heed_signals()
    node = run.read(lambda: run.api.get_node(name), node=name)
    if node is None or node.uid != uid:
        detail = f"{name} is gone" if node is None else f"{name} was recreated"
        ending = Ending(EndCode.DRIFT, node=name, objects=(detail,))
        kind = _Gone if node is None else CheckFailed
        raise kind(Check("nodes", "failed", detail), ending)
    return node


def _each_wanted(
    run: Looking,
    node: LiveNode,
    operations: Iterable[AnyOperation],
    visit: Callable[[LiveNode, NodeImage], None],
) -> None:
    marked = time_added(run.now_ns)
    for operation in operations:
        standing, wanted = judge(operation, node, marked)
        if standing is Standing.VIOLATED:
            by = written_by(operation, node)
            ending = Ending(EndCode.DRIFT, operation.number, node.name, changed_by=by)
            raise CheckFailed(Check("nodes", "failed", operation.told), ending)
        if wanted is not None:
            visit(node, wanted)
            node = _as_wanted(node, wanted)


def _as_wanted(node: LiveNode, wanted: NodeImage) -> LiveNode:
    return msgspec.structs.replace(
        node, raw_taints=wanted.taints, unschedulable=wanted.unschedulable
    )


def _request(api: ClusterApi, node: LiveNode, wanted: NodeImage) -> Request:
    if same_taints(wanted.taints, node.raw_taints):
        return api.cordon_request(node, wanted.unschedulable, dry_run=True)
    return api.taint_request(node, wanted.taints, dry_run=True)


def _dry_run(run: Looking, request: Request) -> Reply:
    """Send a dry run; it changes nothing, so it may be sent again."""
    reply = run.api.send(request)
    for _attempt in range(1, DRY_RUN_ATTEMPTS):
        if reply.outcome not in (Outcome.UNKNOWN, Outcome.NOT_NOW, Outcome.NOT_SENT):
            break
        run.pause(reply.retry_after_seconds or 1.0, "busy")
        reply = run.api.send(request)
    return reply


def _accepted(node: LiveNode, wanted: NodeImage, reply: Reply) -> bool:
    """Tell whether the dry run proved anything; raises CheckFailed when the patch would fail.

    A conflict proves nothing against the patch: somebody else writes the node at the moment.
    """
    changed = reply.outcome is Outcome.CHANGED or _differs(node, wanted, reply.node)
    if reply.outcome in (Outcome.APPLIED, Outcome.CONFLICT) and not changed:
        return True
    code = EndCode.CHANGED if changed else _DRY_RUN_ENDS.get(reply.outcome, EndCode.UNREACHABLE)
    if code is EndCode.REFUSED:
        if any(words in reply.message for words in _NO_DRY_RUN):
            return False
        code = EndCode.FORBIDDEN if reply.status == FORBIDDEN else EndCode.REFUSED
    ending = Ending(code, node=node.name, message=reply.message, objects=reply.causes)
    if changed and reply.node is not None:
        # A patch of taints says nothing of the other field, which an operation before it may change.
        is_cordon = same_taints(wanted.taints, node.raw_taints)
        other = wanted.unschedulable if is_cordon else reply.node.unschedulable
        asked = msgspec.structs.replace(wanted, unschedulable=other)
        unasked, missing = made_of(asked, reply.node)
        ending = msgspec.structs.replace(ending, unasked=unasked, missing=missing)
    raise CheckFailed(Check("dry-run", "failed", node.name), ending)


def _differs(node: LiveNode, wanted: NodeImage, found: LiveNode | None) -> bool:
    """Whether what a patch would write is not what it says; the other field is as it is."""
    if found is None:
        return False
    if same_taints(wanted.taints, node.raw_taints):
        return found.unschedulable != wanted.unschedulable
    return not same_taints(found.raw_taints, wanted.taints)


_DRY_RUN_ENDS = {
    Outcome.REFUSED: EndCode.REFUSED,
    Outcome.UNAUTHENTICATED: EndCode.UNAUTHENTICATED,
    Outcome.ABSENT: EndCode.DRIFT,
}
