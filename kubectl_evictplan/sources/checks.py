"""What is odd about a whole cluster, and what the API server would refuse in a manifest.

Stored objects can be older than today's validation, and a dump is taken while things move; the
controllers run on what is there. So of them there are warnings only, the values stay as they were
stored. One pass over each kind; per-pod tests are cheap because the tolerations, which are few, are
looked at once each. What matters only to a prediction (a node's Ready condition and zone labels,
tolerations that overflow or are not understood, pods of unknown nodes) is said with the prediction,
about what it concerns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

from kubectl_evictplan.kube import taints, validation
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    ClusterSnapshot,
    Node,
    Pod,
    Toleration,
)
from kubectl_evictplan.sources import wire
from kubectl_evictplan.sources.assembly import NEWEST_RENEWAL
from kubectl_evictplan.sources.diagnostics import Diagnostics
from kubectl_evictplan.sources.marked_tree import WrongField, path_text
from kubectl_evictplan.sources.model_builder import ModelBuilder
from kubectl_evictplan.sources.needs_checks import HAS_VALUES, WRONG_VALUES, needs_violations
from kubectl_evictplan.sources.reading import GET_COMMAND

# Components' clocks and the moment of the dump differ by a little without anything being wrong.
FUTURE_TOLERATED_NS = 60 * SECOND_NS
LONG_GRACE_SECONDS = 3600
PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_COMPARISON_OPERATORS_SINCE = (1, 35)
_PLAIN_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

# Code, message, object ("" for the whole).
Oddity = tuple[str, str, str]
# Kinds, namespaces and names of what people wrote.
Manifests = set[tuple[str, str, str]]


def check_cluster(
    snapshot: ClusterSnapshot,
    diagnostics: Diagnostics,
    *,
    manifests: Manifests,
    whole_cluster: bool = False,
) -> None:
    """Record warnings about the whole; ``manifests`` were validated as they were read.

    ``whole_cluster``: it is known that nothing is missing, so that nobody need guess.
    """
    for code, message, subject in chain(
        _odd_nodes(snapshot, manifests),
        () if whole_cluster else _missing_parts(snapshot, manifests),
        _confusable_names(snapshot),
        _overlapping_budgets(snapshot),
        _odd_pods(snapshot, manifests),
        _repeated_uids(snapshot),
        _unknown_owners(snapshot),
        _owner_cycles(snapshot),
        _odd_leases(snapshot),
    ):
        diagnostics.warning(code, message, subject)


def _missing_parts(snapshot: ClusterSnapshot, manifests: Manifests) -> Iterator[Oddity]:
    """Yield what looks as if the input were not the whole cluster.

    Only of objects that an API server stored: what people wrote is as small as they meant it.
    """
    pods = [pod for pod in snapshot.pods if ("Pod", pod.namespace, pod.name) not in manifests]
    if not snapshot.pods:
        yield "pods-not-listed", f"no pods: make the input with `{GET_COMMAND}`", ""
    if not pods:
        return
    namespaces = {pod.namespace for pod in pods}
    used = {pod.node_name for pod in pods if pod.node_name}
    names = {node.name for node in snapshot.nodes}
    if len(namespaces) == 1:
        message = f"all pods are in one namespace: list them with -A (`{GET_COMMAND}`)"
        yield "single-namespace", message, namespaces.pop()
    elif idle := names - used:
        message = f"no pod runs on {len(idle)} of {len(names)} nodes: are pods missing?"
        for name in idle:
            yield "nodes-without-pods", message, name
    missing = used - names
    if len(missing) > max(1, len(used) / 2):
        message = f"{len(missing)} of {len(used)} nodes that pods run on are not in the input"
        for name in missing:
            yield "nodes-not-listed", message, name


def _overlapping_budgets(snapshot: ClusterSnapshot) -> Iterator[Oddity]:
    """Yield pods that several budgets cover; the eviction API refuses them all."""
    in_namespace = Counter(budget.namespace for budget in snapshot.budgets)
    shared = {namespace for namespace, count in in_namespace.items() if count > 1}
    index = BudgetIndex(snapshot.budgets)
    for pod in snapshot.pods if shared else ():
        if pod.namespace in shared and len(found := index.matching(pod)) > 1:
            names = " and ".join(sorted(snapshot.budgets[at].name for at in found)[:3])
            message = f"budgets {names} both cover it: the eviction API answers 500"
            yield "overlapping-budgets", message, f"Pod {pod.key}"


def _odd_nodes(snapshot: ClusterSnapshot, manifests: Manifests) -> Iterator[Oddity]:
    late = snapshot.taken_at_ns + FUTURE_TOLERATED_NS
    for node in snapshot.nodes:
        subject = f"Node {node.name}"
        for code, message in _node_oddities(node, late):
            yield code, message, subject
        if ("Node", "", node.name) in manifests:
            continue
        if not _is_name(node.name):
            yield "invalid-name", "the name is not a valid one", subject
        for _, found in validation.validate_taints(node.taints):
            if found.message == validation.DUPLICATE_TAINT:
                yield "duplicate-taint", "two taints of equal key and effect", subject
            elif found.field == "effect":
                message = "a taint's effect is unknown: it evicts nothing"
                yield "unknown-taint-effect", message, subject
            else:
                yield "invalid-taint", f"a taint's {found.field} is not valid", subject


def _node_oddities(node: Node, late: int) -> Iterator[tuple[str, str]]:
    for taint in node.taints:
        added = taint.time_added_ns
        if added is not None and added > late:
            yield "taint-time", "a taint's timeAdded lies after the time of the dump: no effect"
        elif added is not None and added < node.creation_timestamp_ns:
            yield "taint-time", "a taint's timeAdded lies before the node's creation: no effect"
    if node.unschedulable != taints.has_taint(node.taints, taints.UNSCHEDULABLE, NO_SCHEDULE):
        message = "spec.unschedulable and its taint disagree: the controller will align the taint"
        yield "unschedulable-mismatch", message
    if len(node.taints) > 100:
        yield "many-taints", "more than 100 taints"
    ready = node.condition("Ready")
    if ready is not None and (ready.last_heartbeat_time_ns or 0) > late:
        yield "future-timestamp", "the Ready heartbeat lies after the time of the dump"
    if node.creation_timestamp_ns > late:
        yield "future-timestamp", "creationTimestamp lies after the time of the dump"


def _odd_leases(snapshot: ClusterSnapshot) -> Iterator[Oddity]:
    yield from _ahead_of_others(snapshot)
    late = snapshot.taken_at_ns + FUTURE_TOLERATED_NS
    for lease in snapshot.leases.values():
        subject = f"Lease {lease.name}"
        if lease.renew_time_ns is None:
            yield "odd-lease", "no renewTime: it proves nothing", subject
        elif lease.renew_time_ns > late:
            yield "odd-lease", "renewTime lies after the time of the dump", subject
        if lease.holder_identity != lease.name:
            yield "odd-lease", "held by another identity than its node", subject


def _ahead_of_others(snapshot: ClusterSnapshot) -> Iterator[Oddity]:
    """The newest renewal is when the dump was taken: most nodes may be silent, or one clock is ahead."""
    at_ns, leases = snapshot.taken_at_ns, snapshot.leases
    if snapshot.taken_at_source != NEWEST_RENEWAL:
        return
    found = [(leases[n.name], n.ready_status) for n in snapshot.nodes if n.name in leases]
    known = [(one.renew_time_ns, one, status) for one, status in found if one.renew_time_ns]
    late = [
        status == "True"
        for renewed_ns, one, status in known
        if at_ns - renewed_ns > one.lease_duration_seconds * SECOND_NS // 2
    ]
    if sum(late) <= len(known) - len(late):
        return
    newest = next((name for name, one in leases.items() if one.renew_time_ns == at_ns), "")
    message = f"newer than those of {sum(late)} nodes that say they are ready: these count as silent, but its clock may be ahead"
    yield "odd-lease", message, f"Lease {newest}"


def _odd_pods(snapshot: ClusterSnapshot, manifests: Manifests) -> Iterator[Oddity]:
    """Look at every pod; hot, so a pod with nothing odd costs a few comparisons."""
    odd: dict[int, list[str]] = {}
    late = snapshot.taken_at_ns + FUTURE_TOLERATED_NS
    plain = _PLAIN_NAME.fullmatch
    for pod in snapshot.pods:
        found = odd.get(id(pod.tolerations))
        if found is None:
            found = odd[id(pod.tolerations)] = list(_toleration_oddities(pod.tolerations))
        if found and ("Pod", pod.namespace, pod.name) not in manifests:
            for message in found:
                yield "invalid-toleration", message, f"Pod {pod.key}"
        if (
            pod.deletion_timestamp_ns is not None
            or pod.phase not in PHASES
            or pod.termination_grace_period_seconds > LONG_GRACE_SECONDS
            or pod.creation_timestamp_ns > late
            or not plain(pod.name)
            or len(pod.owner_references) > 1
        ):
            for code, message in _pod_oddities(pod, late):
                yield code, message, f"Pod {pod.key}"


def _pod_oddities(pod: Pod, late: int) -> Iterator[tuple[str, str]]:
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


def _toleration_oddities(tolerations: tuple[Toleration, ...]) -> Iterator[str]:
    for toleration in tolerations:
        seconds = toleration.toleration_seconds
        if toleration.operator in validation.NUMERIC_OPERATORS:
            if validation.parse_int64(toleration.value, canonical=True) is None:
                yield "Lt or Gt with a value that is no plain integer"
        elif validation.validate_toleration(toleration):
            if seconds is not None and toleration.effect != NO_EXECUTE:
                yield "tolerationSeconds without effect NoExecute"
            else:
                yield "a toleration that today's API server would refuse"


def _repeated_uids(snapshot: ClusterSnapshot) -> Iterator[Oddity]:
    for kind, objects in (("Node", snapshot.nodes), ("Pod", snapshot.pods)):
        uids = [item.uid for item in objects if item.uid]
        # Hot: hardly ever is there anything to look for.
        repeated = len(set(uids)) < len(uids)
        seen = {""}
        for item in objects if repeated else ():
            if item.uid and item.uid in seen:
                name = item.key if isinstance(item, Pod) else item.name
                yield "duplicate-uid", "has the uid of another object", f"{kind} {name}"
            seen.add(item.uid)


def _unknown_owners(snapshot: ClusterSnapshot) -> Iterator[Oddity]:
    known = {(w.kind, w.namespace, w.name) for w in snapshot.workloads}
    listed = {workload.kind for workload in snapshot.workloads}
    for pod in snapshot.pods if listed else ():
        for owner in pod.owner_references:
            if (
                owner.controller
                and owner.kind in listed
                and (owner.kind, pod.namespace, owner.name) not in known
            ):
                message = "its owner is not in the input: owner unknown"
                yield "unknown-owner", message, f"Pod {pod.key}"


def _owner_cycles(snapshot: ClusterSnapshot) -> Iterator[Oddity]:
    managers = {
        (owned.kind, owned.namespace, owned.name): (owner.kind, owned.namespace, owner.name)
        for owned in snapshot.workloads
        for owner in reversed(owned.owner_references)
        if owner.controller
    }
    # Each is walked once, however long the chains of owners are.
    settled: set[tuple[str, str, str]] = set()
    for start in managers:
        walked: set[tuple[str, str, str]] = set()
        key = start
        while key in managers and key not in settled:
            settled.add(key)
            walked.add(key)
            key = managers[key]
        if key in walked:
            message = "its owners own each other: owner unknown"
            yield "owner-cycle", message, f"{start[0]} {start[1]}/{start[2]}"


def _confusable_names(snapshot: ClusterSnapshot) -> Iterator[Oddity]:
    """Yield nodes whose names look alike: case, zero-width and look-alike characters."""
    seen: dict[str, str] = {}
    for node in snapshot.nodes:
        like = seen.setdefault(_skeleton(node.name), node.name)
        for name in (like, node.name) if like != node.name else ():
            yield "confusable-names", "names that look alike", f"Node {name}"


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


def violations(kind: str, decoded: Any, build: ModelBuilder, version: str) -> Iterator[WrongField]:
    """Yield what is wrong for the API server of that version; "" is the newest."""
    meta = decoded.metadata
    if kind in ("Node", "Pod"):
        for key, message, got in validation.validate_labels(build.labels[bytes(meta.labels)]):
            yield WrongField(("metadata", "labels", key), message, got)
    for field, value, rule in (
        ("name", meta.name, validation.validate_dns_subdomain),
        ("namespace", meta.namespace, validation.validate_dns_label),
    ):
        for message in rule(value) if value else ():
            yield WrongField(("metadata", field), message, value)
    if kind == "PodDisruptionBudget":
        yield from budget_violations(decoded.spec)
    listed, found = "tolerations", []
    if kind == "Pod":
        found = validation.validate_tolerations(
            build.tolerations[bytes(decoded.spec.tolerations)],
            comparison_operators=_knows_comparison_operators(version),
        )
        yield from needs_violations(decoded.spec)
    elif kind == "Node":
        listed, found = "taints", validation.validate_taints(build.node(decoded).taints)
    for index, (field, message, got) in found:
        path = ("spec", listed, index, field) if field else ("spec", listed, index)
        yield WrongField(path, message, got)


def _knows_comparison_operators(version: str) -> bool:
    """Tell whether the API server of that version may know Lt and Gt (gate, off by default)."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return match is None or (int(match[1]), int(match[2])) >= _COMPARISON_OPERATORS_SINCE


def budget_violations(spec: wire.BudgetSpec) -> Iterator[WrongField]:
    """Yield what the API server refuses in a disruption budget."""
    if spec.min_available is not None and spec.max_unavailable is not None:
        message = "minAvailable and maxUnavailable are mutually exclusive, both are set"
        yield WrongField(("spec",), message, "")
    for field, value in (
        ("minAvailable", spec.min_available),
        ("maxUnavailable", spec.max_unavailable),
    ):
        if message := _count_problem(value):
            yield WrongField(("spec", field), message, str(value))
    expressions = spec.selector.match_expressions if spec.selector else ()
    for index, item in enumerate(expressions):
        path = ("spec", "selector", "matchExpressions", index, "operator")
        if item.operator not in HAS_VALUES:
            message = "unknown operator: In, NotIn, Exists or DoesNotExist"
            yield WrongField(path, message, item.operator)
        elif bool(item.values) != HAS_VALUES[item.operator]:
            yield WrongField(path, WRONG_VALUES, item.operator)


def _count_problem(value: int | str | None) -> str:
    if isinstance(value, int):
        return "a negative number of pods" if value < 0 else ""
    if value is None:
        return ""
    percent = value.removesuffix("%")
    if percent == value or not (percent.isascii() and percent.isdigit()):
        return "neither a number nor a percentage"
    return "a percentage above 100" if len(percent) > 3 or int(percent) > 100 else ""


def budget_oddities(decoded: wire.WireBudget) -> Iterable[str]:
    """Yield what is strange about a stored budget."""
    spec, status = decoded.spec, decoded.status
    for path, message, got, _ in budget_violations(spec):
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
