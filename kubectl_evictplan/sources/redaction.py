"""A snapshot to show to others: every name replaced, every prediction the same.

Each name, label value, key and uid becomes a pseudonym: its rank among all of them, then a keyed hash.
The rank keeps the order in which nodes and pods are looked at, so that even the choice among equals
stays what it was; equal strings get equal pseudonyms, so that owners, leases, selectors, zones and
claims still fit. What is kept are numbers, times and Kubernetes' own words: the fields of ``KEPT``.
A field that nobody has thought of is replaced.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kubectl_evictplan.kube.needs import NODE_NAME_FIELD, PodNeeds, is_standard_resource
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    OwnerReference,
    Reading,
    Warning,
    Workload,
)
from kubectl_evictplan.kube.selectors import SET_BY_CONTROLLERS
from kubectl_evictplan.kube.topology import is_master_by_name
from kubectl_evictplan.sources.snapshot import snapshot_digest

# Type and field of what holds Kubernetes' own words.
KEPT = frozenset(
    {
        *("Taint.effect", "Toleration.operator", "Toleration.effect"),
        *("NodeCondition.type", "NodeCondition.status", "NodeCondition.reason"),
        *("OwnerReference.kind", "OwnerReference.api_version", "Workload.kind"),
        *("Workload.pod_management_policy", "PodDisruptionBudget.unhealthy_pod_eviction_policy"),
        *("Node.resource_version", "Pod.resource_version", "Pod.phase", "Pod.ready"),
        *("Pod.config_source", "Pod.status_reason"),
        *("ControlPlaneFlags.kubernetes_version", "ControlPlaneFlags.newest_kubelet_version"),
        *("ControlPlaneFlags.controller_manager", "ControlPlaneFlags.api_server"),
        *("Namespace.phase", "PersistentVolume.phase", "PersistentVolumeClaim.phase"),
        *("PersistentVolume.access_modes", "PersistentVolumeClaim.access_modes"),
        *("Service.type", "Service.external_traffic_policy", "Service.internal_traffic_policy"),
        *(
            "Service.traffic_distribution",
            "ControlPlaneFlags.provider",
            "ControlPlaneFlags.provider_marks",
        ),
        *("EndpointSlice.address_type", "ObjectReference.kind"),
        *("PodDisruptionBudget.unhealthy_pod_eviction_policy", "Workload.pod_management_policy"),
        *("TopologySpreadConstraint.node_affinity_policy", "HostPort.protocol"),
        *("TopologySpreadConstraint.node_taints_policy", "FailureRule.on", "FailureRule.action"),
        "ContainerRequests.how",
    }
)
# (key, operator, values) each; an operator is no name.
WISHES = frozenset(
    {
        *("PodDisruptionBudget.match_expressions", "PersistentVolume.node_affinity"),
        *("PersistentVolume.zones", "StorageClass.topologies"),
        "StorageCapacity.nodes",
        *("PodWebhook.object_selector", "PodWebhook.namespace_selector"),
        *("NodeSelectorTerm.match_expressions", "NodeSelectorTerm.match_fields"),
        *("PodAffinityTerm.selector", "PodAffinityTerm.namespace_selector"),
        "TopologySpreadConstraint.selector",
    }
)
# By resource: those that Kubernetes names are no names of anybody's.
RESOURCES = frozenset(
    {
        *("Node.allocatable", "PodNeeds.requests", "ContainerRequests.requests"),
        *("Resized.by_container", "Resized.by_pod", "Resized.of_pod", "Resized.overhead"),
    }
)
# By component and flag.
KEYS_KEPT = frozenset({"ControlPlaneFlags.seen_in", "ControlPlaneFlags.origins"})
# Compared as numbers by the operators Lt and Gt.
_NUMERIC = frozenset({"Taint.value", "Toleration.value"})
_INTEGER = re.compile("-?[0-9]{1,19}", re.ASCII)
# Where the rest of the key, too, is a word of Kubernetes'.
_PUBLIC_KEY = re.compile(
    r"((node|topology|failure-domain\.beta|beta|node\.cloudprovider)\.)?kubernetes\.io/[\w.-]{1,63}"
    r"|node-role\.kubernetes\.io/(control-plane|master)",
    re.ASCII,
)
_WORD = re.compile(r"[^\s/,;:()\"'`=\[\]]+")
_KIND = re.compile("[A-Z][A-Za-z]{2,40}", re.ASCII)
_HASH_DIGITS = 8
# Of the reason why a list was not read: the server's own words follow.
_REASON_END = " ("

Change = Callable[[str], str]


def redact(snapshot: ClusterSnapshot, key: bytes) -> ClusterSnapshot:
    """Return the snapshot with pseudonyms instead of names; equal keys give equal pseudonyms."""
    names = pseudonyms(snapshot, key)
    changed = _Walk(lambda text: names.get(text, text)).snapshot(snapshot)
    redacted = msgspec.structs.replace(
        changed,
        leases={lease.name: lease for lease in changed.leases.values()},
        warnings=tuple(_warning(warning, names) for warning in snapshot.warnings),
        reading=_reading(snapshot.reading),
        digest="",
    )
    return msgspec.structs.replace(redacted, digest=snapshot_digest(redacted))


def pseudonyms(snapshot: ClusterSnapshot, key: bytes) -> dict[str, str]:
    """Return a pseudonym for each name of the snapshot, in the same order as the names."""
    found: set[str] = set()

    def note(text: str) -> str:
        found.add(text)
        return text

    _Walk(note).snapshot(snapshot)
    found -= _compared_numbers(snapshot)
    found -= SET_BY_CONTROLLERS
    texts = sorted(text for text in found if text and not _PUBLIC_KEY.fullmatch(text))
    width = len(str(len(texts)))
    names = {}
    for rank, text in enumerate(texts):
        digest = hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        # Up to 1.20 a name that looks like a master's keeps its node out of its zone's count.
        end = "-master" if is_master_by_name(text) else ""
        names[text] = f"r{rank:0{width}d}-{digest[:_HASH_DIGITS]}{end}"
    sets = {one.name for one in _owners(snapshot) if one.kind == "StatefulSet"}
    for text in texts:
        owner, dash, ordinal = text.rpartition("-")
        # The pods of a StatefulSet are known, and follow each other, by the number behind its name.
        if dash and owner in sets and ordinal.isascii() and ordinal.isdecimal():
            names[text] = f"{names[owner]}-{ordinal}"
    return names


def _compared_numbers(snapshot: ClusterSnapshot) -> set[str]:
    """Return the numbers that node affinity compares by Gt and Lt, in affinities and in labels."""
    terms = {
        term
        for needs in {id(pod.needs): pod.needs for pod in snapshot.pods}.values()
        for term in (needs.node_affinity or () if needs else ())
    }
    compared = {
        (key, value)
        for term in terms
        for key, how, values in term.match_expressions
        for value in (values if how in ("Gt", "Lt") else ())
    }
    numbers = {value for _, value in compared}
    for key in {key for key, _ in compared}:
        numbers.update(node.labels.get(key, "") for node in snapshot.nodes)
    return {text for text in numbers if _INTEGER.fullmatch(text)}


def _owners(snapshot: ClusterSnapshot) -> Iterator[Workload | OwnerReference]:
    yield from snapshot.workloads
    for pod in snapshot.pods:
        yield from pod.owner_references


class _Walk:
    """Passes every name of a value through ``change`` and builds the value anew."""

    def __init__(self, change: Change) -> None:
        self._change = change
        # Labels, tolerations and needs repeat among pods, as one object each.
        self._shared: dict[int, tuple[Any, Any]] = {}

    def snapshot(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return the snapshot with all objects walked; what is said about it is left."""
        parts = (
            *("nodes", "pods", "workloads", "budgets", "webhooks", "infrastructure"),
            *("control_plane", "observed"),
        )
        walked = {part: self._value(getattr(snapshot, part), part) for part in parts}
        leases = {name: self._value(lease, "leases") for name, lease in snapshot.leases.items()}
        return msgspec.structs.replace(snapshot, leases=leases, **walked)

    def _value(self, value: Any, place: str) -> Any:
        if isinstance(value, str):
            is_number = place in _NUMERIC and _INTEGER.fullmatch(value)
            return value if is_number or not value else self._name(value, place)
        if isinstance(value, PodNeeds):
            return self._once(value, place)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, tuple | dict):
            return self._once(value, place)
        return value

    def _name(self, text: str, place: str) -> str:
        if place in RESOURCES and is_standard_resource(text):
            return text
        # "configuration/webhook" are two names.
        parts = text.split("/") if place == "PodWebhook.name" else [text]
        return "/".join(map(self._change, parts))

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        kind = type(value).__name__
        changed = {}
        for field in value.__struct_fields__:
            old = getattr(value, field)
            place = f"{kind}.{field}"
            if place in KEPT:
                continue
            new = self._wishes(old) if place in WISHES and old else self._value(old, place)
            if new is not old:
                changed[field] = new
        return msgspec.structs.replace(value, **changed) if changed else value

    def _once(self, value: Any, place: str) -> Any:
        known = self._shared.get(id(value))
        if known is not None:
            return known[1]
        new: Any
        if isinstance(value, PodNeeds):
            new = self._struct(value)
        elif isinstance(value, dict):
            keys = value if place in KEYS_KEPT else [self._name(key, place) for key in value]
            new = {
                key: self._value(one, place) for key, one in zip(keys, value.values(), strict=True)
            }
        else:
            new = tuple(self._value(one, place) for one in value)
        # Kept with the original, whose identity must not be given to another object meanwhile.
        self._shared[id(value)] = (value, new)
        return new

    def _wishes(self, wishes: Any) -> Any:
        """Return wishes, or terms of wishes, with keys and values changed."""
        if wishes and isinstance(wishes[0], tuple) and wishes[0] and isinstance(wishes[0][0], str):
            return tuple(
                (key if key == NODE_NAME_FIELD else self._change(key), how, self._texts(values))
                for key, how, values in wishes
            )
        return tuple(self._wishes(term) for term in wishes)

    def _texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text and self._change(text) for text in texts)


def _warning(warning: Warning, names: dict[str, str]) -> Warning:
    """Return the warning with the names in its text replaced, word by word."""

    def replaced(text: str) -> str:
        return _WORD.sub(lambda word: names.get(word[0], word[0]), text)

    def subject(text: str) -> str:
        """Return "KIND NS/NAME" with both replaced; "" for what is no object, such as a file."""
        kind, _, name = text.partition(" ")
        parts = name.split("/")
        known = _KIND.fullmatch(kind) and all(part in names for part in parts)
        return f"{kind} {'/'.join(names[part] for part in parts)}" if known else ""

    objects = tuple(sorted(filter(None, map(subject, warning.objects))))
    return Warning(warning.code, replaced(warning.message), objects)


def _reading(reading: Reading | None) -> Reading | None:
    """Return how it was read without who answered whom."""
    if reading is None:
        return None
    lists = tuple(
        msgspec.structs.replace(one, not_evaluated=one.not_evaluated.partition(_REASON_END)[0])
        for one in reading.lists
    )
    return msgspec.structs.replace(reading, server="", context="", namespace="", lists=lists)
