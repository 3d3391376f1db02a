"""Pods, nodes and events as sightings, decoded from an API server's bytes.

Only what tells when something happened and who did it: of an event's message no more than which of a
few known beginnings it has. Whatever is not as an API server writes it raises ``Unreadable``.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.sightings import (
    CANCELLING,
    EVENT_REASONS,
    MARKING,
    STOPPING,
    Interval,
    SeenEvent,
    SeenNode,
    SeenPod,
    whole_second,
)
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns

_BEGINNINGS = (
    ("Marking for deletion", MARKING),
    ("Cancelling deletion", CANCELLING),
    ("Stopping container", STOPPING),
)
# A grace period or a count beyond this is no API server's.
_COUNT_MAX = 2**31 - 1


class Unreadable(ValueError):
    """Not such an object as an API server writes."""


class _Meta(Struct, rename="camel", frozen=True):
    name: str = ""
    namespace: str | None = ""
    uid: str | None = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Identity(NamedTuple):
    """What can be told of an object that cannot be read; "" where not even that."""

    name: str
    uid: str


class _Named(Struct, frozen=True):
    metadata: dict[str, Any] | None = None


_NAMED = msgspec.json.Decoder(_Named)


def _text_or_nothing(value: object) -> str:
    return value if isinstance(value, str) else ""


class UnreadableObjects:
    """The objects that could not be read, by kind; each counts once, however often it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def add(self, kind: str, raw: Raw | bytes) -> Identity:
        """Take in one object; returns what can be told of it all the same."""
        try:
            metadata = _NAMED.decode(raw).metadata or {}
        except (msgspec.DecodeError, RecursionError):
            metadata = {}
        found = Identity(*(_text_or_nothing(metadata.get(field)) for field in ("name", "uid")))
        namespace = _text_or_nothing(metadata.get("namespace"))
        own = found.uid or (found.name and f"{namespace}/{found.name}")
        self._seen.setdefault(kind, set()).add(own or sha256(bytes(raw)).hexdigest())
        return found

    def counts(self) -> dict[str, int]:
        """Return how many there are of each kind."""
        return {kind: len(seen) for kind, seen in sorted(self._seen.items())}


class _Condition(Struct, rename="camel", frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = ""
    last_transition_time: str | None = None


class _PodSpec(Struct, rename="camel", frozen=True):
    node_name: str | None = ""


class _PodStatus(Struct, frozen=True):
    phase: str | None = ""
    conditions: tuple[_Condition, ...] | None = ()


class _Pod(Struct, frozen=True):
    metadata: _Meta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus | None = None


class _Taint(Struct, rename="camel", frozen=True):
    key: str = ""
    effect: str = ""
    value: str | None = ""
    time_added: str | None = None


class _SpecFields(Struct, frozen=True):
    taints: Any = msgspec.field(default=None, name="f:taints")


class _Fields(Struct, frozen=True):
    spec: _SpecFields | None = msgspec.field(default=None, name="f:spec")


class _Managed(Struct, rename="camel", frozen=True):
    time: str | None = None
    fields_v1: _Fields | None = msgspec.field(default=None, name="fieldsV1")


class _NodeMeta(_Meta, frozen=True):
    managed_fields: tuple[_Managed, ...] | None = ()


class _NodeSpec(Struct, frozen=True):
    taints: tuple[_Taint, ...] | None = ()


class _NodeStatus(Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = ()


class _Node(Struct, frozen=True):
    metadata: _NodeMeta
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _Reference(Struct, frozen=True):
    kind: str | None = ""
    namespace: str | None = ""
    name: str | None = ""
    uid: str | None = ""


class _Series(Struct, rename="camel", frozen=True):
    count: int | None = None
    last_observed_time: str | None = None


class _Source(Struct, frozen=True):
    component: str | None = ""


class _Event(Struct, rename="camel", frozen=True):
    """An Event of v1 or of events.k8s.io, which says the same in other words."""

    involved_object: _Reference | None = None
    regarding: _Reference | None = None
    reason: str | None = ""
    message: str | None = ""
    note: str | None = ""
    count: int | None = None
    deprecated_count: int | None = None
    first_timestamp: str | None = None
    deprecated_first_timestamp: str | None = None
    last_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    source: _Source | None = None
    reporting_component: str | None = ""
    reporting_controller: str | None = ""


_POD = msgspec.json.Decoder(_Pod)
_NODE = msgspec.json.Decoder(_Node)
_EVENT = msgspec.json.Decoder(_Event)


def seen_pod(raw: Raw | bytes) -> SeenPod:
    """Return a pod as it is."""
    found = _decoded(_POD, raw)
    meta, status = found.metadata, found.status or _PodStatus()
    disruption = [
        condition.reason or ""
        for condition in status.conditions or ()
        if condition.type == "DisruptionTarget" and condition.status == "True"
    ]
    grace = meta.deletion_grace_period_seconds
    if grace is not None and not 0 <= grace <= _COUNT_MAX:
        raise Unreadable("deletionGracePeriodSeconds")
    return SeenPod(
        meta.namespace or "",
        meta.name,
        meta.uid or "",
        found.spec.node_name or "",
        _instant(meta.creation_timestamp) or 0,
        _instant(meta.deletion_timestamp),
        grace,
        status.phase in ("Succeeded", "Failed"),
        disruption[0] if disruption else "",
    )


def seen_node(raw: Raw | bytes) -> SeenNode:
    """Return a node as it is."""
    found = _decoded(_NODE, raw)
    ready = next(
        (
            condition
            for condition in (found.status or _NodeStatus()).conditions or ()
            if condition.type == "Ready"
        ),
        _Condition(),
    )
    changed = [
        ns
        for entry in found.metadata.managed_fields or ()
        if entry.fields_v1 and entry.fields_v1.spec and entry.fields_v1.spec.taints is not None
        if (ns := _instant(entry.time)) is not None
    ]
    return SeenNode(
        found.metadata.name,
        found.metadata.uid or "",
        tuple(
            Taint(one.key, one.effect, one.value or "", _instant(one.time_added))
            for one in (found.spec or _NodeSpec()).taints or ()
        ),
        ready.status,
        _instant(ready.last_transition_time),
        max(changed, default=None),
    )


def seen_event(raw: Raw | bytes) -> SeenEvent | None:
    """Return what an event tells of a pod's or a node's end; None for the many that tell nothing."""
    found = _decoded(_EVENT, raw)
    about = found.involved_object or found.regarding or _Reference()
    kind, reason = about.kind or "", found.reason or ""
    if reason not in EVENT_REASONS.get(kind, ()) or not about.name:
        return None
    series = found.series or _Series()
    exactly = _exactly(found.event_time)
    first = _cut(found.first_timestamp or found.deprecated_first_timestamp) or exactly
    last = _cut(found.last_timestamp or found.deprecated_last_timestamp)
    last = _exactly(series.last_observed_time) or last or first
    first = first or last
    if first is None or last is None:
        raise Unreadable("no time")
    # What a recorder of events.k8s.io wrote says more exactly when the first one was.
    first = exactly if exactly is not None and exactly.meets(first) else first
    message = found.message or found.note or ""
    told = next((word for start, word in _BEGINNINGS if message.startswith(start)), "")
    component = found.reporting_component or found.reporting_controller or ""
    return SeenEvent(
        kind,
        about.namespace or "",
        about.name,
        about.uid or "",
        reason,
        min(first, last),
        max(first, last),
        max(1, min(series.count or found.count or found.deprecated_count or 1, _COUNT_MAX)),
        told,
        component or (found.source or _Source()).component or "",
    )


def _decoded(decoder: msgspec.json.Decoder[Any], raw: Raw | bytes) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise Unreadable("no such object") from None


def _instant(text: str | None) -> int | None:
    try:
        return parse_rfc3339_ns(text) if text else None
    except ValueError as error:
        raise Unreadable(str(error)) from None


def _cut(text: str | None) -> Interval | None:
    """Return when it was by a ``metav1.Time``, which is cut to seconds."""
    ns = _instant(text)
    return None if ns is None else whole_second(ns)


def _exactly(text: str | None) -> Interval | None:
    """Return when it was by a ``metav1.MicroTime``."""
    ns = _instant(text)
    return None if ns is None else Interval(ns, ns + 999)
