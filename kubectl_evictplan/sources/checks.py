"""What is odd about a whole cluster: warnings only, the values stay as they were stored.

What matters only to a prediction (a node's Ready condition and zone labels, tolerations that overflow
or are not understood, pods of unknown nodes) is said with the prediction, about what it concerns.

Stored objects can be older than today's validation, and a dump is taken while things move; the
controllers run on what is there. One pass over each kind; per-pod tests are cheap because the
tolerations, which are few, are looked at once each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from kubectl_evictplan.kube import taints, validation
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import (
    NO_EXECUTE,
    ClusterSnapshot,
    Lease,
    Node,
    Pod,
    Toleration,
    Workload,
)
from kubectl_evictplan.sources import wire
from kubectl_evictplan.sources.diagnostics import Diagnostics
from kubectl_evictplan.sources.kubectl import GET_COMMAND
from kubectl_evictplan.sources.manifest_rules import budget_violations
from kubectl_evictplan.sources.marked_tree import path_text

# Components' clocks and the moment of the dump differ by a little without anything being wrong.
FUTURE_TOLERATED_NS = 60 * SECOND_NS
LONG_GRACE_SECONDS = 3600
PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_PLAIN_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

Message = tuple[str, str]


def check_cluster(
    snapshot: ClusterSnapshot, diagnostics: Diagnostics, *, manifests: set[tuple[str, str, str]]
) -> None:
    """Record warnings about the whole; ``manifests`` were validated as they were read."""
    now = snapshot.taken_at_ns
    for node in snapshot.nodes:
        for code, message in _node_oddities(
            node, snapshot, stored=("Node", "", node.name) not in manifests
        ):
            diagnostics.warning(code, message, f"Node {node.name}")
    for code, message, objects in _missing_parts(snapshot, manifests):
        for subject in objects or ("",):
            diagnostics.warning(code, message, subject)
    _check_confusable_names(snapshot, diagnostics)
    _check_overlapping_budgets(snapshot, diagnostics)
    _check_pods(snapshot, diagnostics, manifests)
    _check_uids(snapshot, diagnostics)
    _check_workloads(snapshot, diagnostics)
    for lease in snapshot.leases.values():
        for message in _lease_oddities(lease, now):
            diagnostics.warning("odd-lease", message, f"Lease {lease.name}")


def _missing_parts(
    snapshot: ClusterSnapshot, manifests: set[tuple[str, str, str]]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield what looks as if the input were not the whole cluster: code, message, objects.

    Only of objects that an API server stored: what people wrote is as small as they meant it.
    """
    pods = [pod for pod in snapshot.pods if ("Pod", pod.namespace, pod.name) not in manifests]
    if not snapshot.pods:
        yield "pods-not-listed", f"no pods: make the input with `{GET_COMMAND}`", ()
    if not pods:
        return
    namespaces = {pod.namespace for pod in pods}
    used = {pod.node_name for pod in pods if pod.node_name}
    names = {node.name for node in snapshot.nodes}
    if len(namespaces) == 1:
        message = f"all pods are in one namespace: list them with -A (`{GET_COMMAND}`)"
        yield "single-namespace", message, sorted(namespaces)
    elif idle := sorted(names - used):
        message = f"no pod runs on {len(idle)} of {len(names)} nodes: are pods missing?"
        yield "nodes-without-pods", message, idle
    missing = sorted(used - names)
    if len(missing) > max(1, len(used) / 2):
        message = f"{len(missing)} of {len(used)} nodes that pods run on are not in the input"
        yield "nodes-not-listed", message, missing


def _check_overlapping_budgets(snapshot: ClusterSnapshot, diagnostics: Diagnostics) -> None:
    """Warn of pods that several budgets cover; the eviction API refuses them all."""
    in_namespace = Counter(budget.namespace for budget in snapshot.budgets)
    shared = {namespace for namespace, count in in_namespace.items() if count > 1}
    index = BudgetIndex(snapshot.budgets) if shared else None
    for pod in snapshot.pods if index else ():
        if pod.namespace in shared and index and len(found := index.matching(pod)) > 1:
            names = " and ".join(sorted(snapshot.budgets[at].name for at in found)[:3])
            message = f"budgets {names} both cover it: the eviction API answers 500"
            diagnostics.warning("overlapping-budgets", message, f"Pod {pod.key}")


def _node_oddities(node: Node, snapshot: ClusterSnapshot, *, stored: bool) -> Iterable[Message]:
    if stored:
        yield from _stored_taint_oddities(node)
        if not _is_name(node.name):
            yield "invalid-name", "the name is not a valid one"
    yield from _taint_oddities(node, snapshot.taken_at_ns)
    yield from _condition_oddities(node, snapshot.taken_at_ns)
    if node.creation_timestamp_ns > snapshot.taken_at_ns + FUTURE_TOLERATED_NS:
        yield "future-timestamp", "creationTimestamp lies after the time of the dump"


def _stored_taint_oddities(node: Node) -> Iterable[Message]:
    for _, found in validation.validate_taints(node.taints):
        if found.message == validation.DUPLICATE_TAINT:
            yield "duplicate-taint", "two taints of equal key and effect"
        elif found.field == "effect":
            yield "unknown-taint-effect", "a taint's effect is unknown: it evicts nothing"
        else:
            yield "invalid-taint", f"a taint's {found.field} is not valid"


def _taint_oddities(node: Node, now: int) -> Iterable[Message]:
    for taint in node.taints:
        added = taint.time_added_ns
        if added is not None and added > now + FUTURE_TOLERATED_NS:
            yield "taint-time", "a taint's timeAdded lies after the time of the dump: no effect"
        elif added is not None and added < node.creation_timestamp_ns:
            yield "taint-time", "a taint's timeAdded lies before the node's creation: no effect"
    if node.unschedulable != taints.has_taint(node.taints, taints.UNSCHEDULABLE, "NoSchedule"):
        message = "spec.unschedulable and its taint disagree: the controller will align the taint"
        yield "unschedulable-mismatch", message
    if len(node.taints) > 100:
        yield "many-taints", "more than 100 taints"


def _condition_oddities(node: Node, now: int) -> Iterable[Message]:
    ready = node.condition("Ready")
    heartbeat_ns = ready.last_heartbeat_time_ns if ready is not None else None
    if heartbeat_ns is not None and heartbeat_ns > now + FUTURE_TOLERATED_NS:
        yield "future-timestamp", "the Ready heartbeat lies after the time of the dump"


def _lease_oddities(lease: Lease, now: int) -> Iterable[str]:
    if lease.renew_time_ns is None:
        yield "no renewTime: it proves nothing"
    elif lease.renew_time_ns > now + FUTURE_TOLERATED_NS:
        yield "renewTime lies after the time of the dump"
    if lease.holder_identity != lease.name:
        yield "held by another identity than its node"


def _check_pods(
    snapshot: ClusterSnapshot, diagnostics: Diagnostics, manifests: set[tuple[str, str, str]]
) -> None:
    """Look at every pod; hot, so a pod with nothing odd costs a few comparisons."""
    odd: dict[int, list[Message]] = {}
    late = snapshot.taken_at_ns + FUTURE_TOLERATED_NS
    plain = _PLAIN_NAME.fullmatch
    for pod in snapshot.pods:
        found = odd.get(id(pod.tolerations))
        if found is None:
            found = odd[id(pod.tolerations)] = list(_toleration_oddities(pod.tolerations))
        if found:
            stored = ("Pod", pod.namespace, pod.name) not in manifests
            for code, message in found:
                if stored or code != "invalid-toleration":
                    diagnostics.warning(code, message, f"Pod {pod.key}")
        if (
            pod.deletion_timestamp_ns is not None
            or pod.phase not in PHASES
            or pod.termination_grace_period_seconds > LONG_GRACE_SECONDS
            or pod.creation_timestamp_ns > late
            or not plain(pod.name)
            or len(pod.owner_references) > 1
        ):  # fmt: skip
            for code, message in _pod_oddities(pod, late):
                diagnostics.warning(code, message, f"Pod {pod.key}")


def _pod_oddities(pod: Pod, late: int) -> Iterable[Message]:
    if pod.deletion_timestamp_ns is not None and (
        pod.finalizers or pod.deletion_timestamp_ns > late + LONG_GRACE_SECONDS * SECOND_NS
    ):
        yield "stuck-terminating", "terminating, but held by a finalizer or a far deletion time"
    if pod.phase not in PHASES:
        yield "unknown-phase", "status.phase is unknown: treated as Running"
    if pod.termination_grace_period_seconds > LONG_GRACE_SECONDS:
        yield "long-grace-period", "terminationGracePeriodSeconds is more than an hour"
    if pod.creation_timestamp_ns > late:
        yield "future-timestamp", "creationTimestamp lies after the time of the dump"
    if not _is_name(pod.name):
        yield "invalid-name", "the name is not a valid one"
    if sum(owner.controller for owner in pod.owner_references) > 1:
        yield "two-controllers", "two owners say that they are its controller: owner unknown"


def _toleration_oddities(tolerations: tuple[Toleration, ...]) -> Iterable[Message]:
    for toleration in tolerations:
        seconds = toleration.toleration_seconds
        if toleration.operator in validation.NUMERIC_OPERATORS:
            if validation.parse_int64(toleration.value, canonical=True) is None:
                yield "invalid-toleration", "Lt or Gt with a value that is no plain integer"
        elif validation.validate_toleration(toleration):
            if seconds is not None and toleration.effect != NO_EXECUTE:
                message = "tolerationSeconds without effect NoExecute"
            else:
                message = "a toleration that today's API server would refuse"
            yield "invalid-toleration", message


def _check_uids(snapshot: ClusterSnapshot, diagnostics: Diagnostics) -> None:
    for kind, objects in (("Node", snapshot.nodes), ("Pod", snapshot.pods)):
        uids = [item.uid for item in objects if item.uid]
        if len(set(uids)) == len(uids):
            continue
        seen: dict[str, str] = {}
        for item in objects:
            name = item.key if isinstance(item, Pod) else item.name
            if item.uid and item.uid in seen:
                message = "has the uid of another object"
                diagnostics.warning("duplicate-uid", message, f"{kind} {name}")
            seen.setdefault(item.uid, name)


def _check_workloads(snapshot: ClusterSnapshot, diagnostics: Diagnostics) -> None:
    """Warn of owners that are listed nowhere and of ownership in circles."""
    known = {(w.kind, w.namespace, w.name): w for w in snapshot.workloads}
    listed = {workload.kind for workload in snapshot.workloads}
    for pod in snapshot.pods if listed else ():
        for owner in pod.owner_references:
            if (
                owner.controller
                and owner.kind in listed
                and (owner.kind, pod.namespace, owner.name) not in known
            ):
                message = "its owner is not in the input: owner unknown"
                diagnostics.warning("unknown-owner", message, f"Pod {pod.key}")
    # Each is walked once, however long the chains of owners are.
    settled: set[tuple[str, str, str] | None] = {None}
    for start in known:
        chain: set[tuple[str, str, str] | None] = set()
        key: tuple[str, str, str] | None = start
        while key not in settled:
            settled.add(key)
            chain.add(key)
            key = _manager(known[key]) if key in known else None
        if key in chain:
            message = "its owners own each other: owner unknown"
            diagnostics.warning("owner-cycle", message, f"{start[0]} {start[1]}/{start[2]}")


def _manager(workload: Workload) -> tuple[str, str, str] | None:
    """Return the kind, namespace and name of the workload's controller."""
    owners = (owner for owner in workload.owner_references if owner.controller)
    return next(((owner.kind, workload.namespace, owner.name) for owner in owners), None)


def _check_confusable_names(snapshot: ClusterSnapshot, diagnostics: Diagnostics) -> None:
    """Warn of nodes whose names look alike: case, zero-width and look-alike characters."""
    seen: dict[str, str] = {}
    for node in snapshot.nodes:
        skeleton = _skeleton(node.name)
        if skeleton in seen:
            message = "names that look alike"
            diagnostics.warning("confusable-names", message, f"Node {node.name}")
            diagnostics.warning("confusable-names", message, f"Node {seen[skeleton]}")
        seen.setdefault(skeleton, node.name)


def _skeleton(name: str) -> str:
    if name.isascii():
        return name.lower()
    import unicodedata

    folded = unicodedata.normalize("NFKD", name).casefold().translate(_LOOK_ALIKES)
    return "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn", "Cc"))


# The Cyrillic and Greek letters that are drawn like Latin ones.
_LOOK_ALIKES = str.maketrans("асеіјорѕхуԁһοανρτκ", "aceijopsxydhoavptk")


@lru_cache(maxsize=65_536)
def _is_name(name: str) -> bool:
    return not validation.validate_dns_subdomain(name)


def budget_oddities(decoded: wire.WireBudget) -> Iterable[str]:
    """Yield what is strange about a stored budget."""
    spec, status = decoded.spec, decoded.status
    for path, message, got in budget_violations(spec):
        yield f"{path_text(path)}: {message}" + (f' (got "{got[:40]}")' if got else "")
    if spec.min_available is None and spec.max_unavailable is None:
        yield "neither minAvailable nor maxUnavailable is set"
    if spec.selector is None:
        yield "no selector: it selects no pods"
    elif not (spec.selector.match_labels or spec.selector.match_expressions):
        everything = decoded.api_version != "policy/v1beta1"
        selects = "every pod of its namespace" if everything else "no pods (policy/v1beta1)"
        yield f"an empty selector: it selects {selects}"
    if status is None:
        yield "no status: what it allows now is unknown"
    elif (status.observed_generation or 0) < (decoded.metadata.generation or 0):
        yield "its status is older than its spec"
    elif status.expected_pods == 0:
        yield "it expects no pods: it allows no eviction"
