"""Nodes, pods and Leases one by one, as an API server shows them now."""

from __future__ import annotations

from typing import Any

import msgspec

from kubectl_evictplan.apply.cluster import LiveLease, LiveNode, SpecChange
from kubectl_evictplan.kube.objects import Pod, Taint
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document, Origin
from kubectl_evictplan.sources.items import ItemReader


class Status(msgspec.Struct, rename="camel", frozen=True):
    """``metav1.Status``, as far as it is used; of other kinds nothing but the kind."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: Details | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it is a Status that says no."""
        return self.kind == "Status" and self.status != "Success"


class Cause(msgspec.Struct, frozen=True):
    """``metav1.StatusCause``; its ``type`` is called reason on the wire."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True):
    """``metav1.StatusDetails``."""

    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] | None = None


class _Entry(msgspec.Struct, rename="camel", frozen=True):
    manager: str = ""
    time: str = ""
    fields_v1: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    managed_fields: tuple[_Entry, ...] | None = None
    annotations: dict[str, str] | None = None


class _NodeSpec(msgspec.Struct, frozen=True):
    taints: tuple[dict[str, Any], ...] | None = None
    unschedulable: bool | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _Node(msgspec.Struct, frozen=True):
    kind: str
    metadata: _Meta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _LeaseSpec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    kind: str
    metadata: _Meta
    spec: _LeaseSpec = _LeaseSpec()


class WrongObject(ValueError):
    """An answer that is not the object that was asked for."""


_WATCHED = ("taints", "unschedulable")
_NODE = msgspec.json.Decoder(_Node)
_LEASE = msgspec.json.Decoder(_Lease)
_STATUS = msgspec.json.Decoder(Status)


def status_of(body: bytes) -> Status:
    """Return the Status that a body holds; an empty one for HTML, text and other objects."""
    try:
        return _STATUS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return Status()


def node_of(body: bytes, name: str) -> LiveNode:
    """Return the node of that name; WrongObject for everything else."""
    found = _decoded(_NODE, body, "Node", name)
    assert isinstance(found, _Node)
    meta, taints = found.metadata, found.spec.taints or ()
    conditions = found.status.conditions or ()
    return LiveNode(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        taints=tuple(map(_taint, taints)),
        unschedulable=bool(found.spec.unschedulable),
        ready=next((one.status for one in conditions if one.type == "Ready"), ""),
        raw_taints=taints,
        changed_by=_writers(meta),
    )


def lease_of(body: bytes, name: str) -> LiveLease:
    """Return the Lease of that name; WrongObject for everything else."""
    found = _decoded(_LEASE, body, "Lease", name)
    assert isinstance(found, _Lease)
    meta, spec = found.metadata, found.spec
    return LiveLease(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        holder_identity=spec.holder_identity or "",
        acquire_time_ns=_time(spec.acquire_time),
        renew_time_ns=_time(spec.renew_time),
        lease_duration_seconds=spec.lease_duration_seconds,
        transitions=spec.lease_transitions or 0,
        annotations=meta.annotations or {},
    )


def pod_of(body: bytes, namespace: str, name: str) -> Pod:
    """Return the pod of that name, as a list of pods has it; WrongObject for everything else."""
    # What is no JSON at all was cut: that is not the reader's to judge.
    msgspec.json.decode(body, type=msgspec.Raw)
    assembly = Assembly(Diagnostics())
    origin = Origin(Document("pod"))
    ItemReader(assembly).read_list([msgspec.Raw(body)], origin, "Pod", version="v1")
    pod = assembly.stored["Pod"].get((namespace, name))
    if not isinstance(pod, Pod) or not pod.uid:
        raise WrongObject
    return pod


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes, kind: str, name: str) -> Any:
    try:
        found = decoder.decode(body)
    except (msgspec.ValidationError, RecursionError):
        raise WrongObject from None
    meta = found.metadata
    if found.kind != kind or meta.name != name or not (meta.uid and meta.resource_version):
        raise WrongObject
    return found


def _taint(raw: dict[str, Any]) -> Taint:
    added = raw.get("timeAdded")
    return Taint(
        str(raw.get("key") or ""),
        str(raw.get("effect") or ""),
        str(raw.get("value") or ""),
        _time(added if isinstance(added, str) else None),
    )


def _writers(meta: _Meta) -> tuple[SpecChange, ...]:
    """Return who wrote taints or unschedulable, the last one last."""
    found = []
    for entry in meta.managed_fields or ():
        spec = (entry.fields_v1 or {}).get("f:spec")
        names = spec if isinstance(spec, dict) else {}
        fields = tuple(one for one in _WATCHED if f"f:{one}" in names)
        if fields:
            found.append(SpecChange(entry.manager, entry.time, fields))
    return tuple(sorted(found, key=lambda change: change.time))


def _time(text: str | None) -> int | None:
    try:
        return parse_rfc3339_ns(text) if text else None
    except ValueError:
        return None
