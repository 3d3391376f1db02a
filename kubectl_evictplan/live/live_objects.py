"""Nodes, pods and Leases one by one, as an API server shows them now."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kubectl_evictplan.apply.cluster import LiveLease, LiveNode, SpecChange
from kubectl_evictplan.kube.objects import Pod, Taint
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.live.answers import Answer
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document, Origin
from kubectl_evictplan.sources.items import ItemReader


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


Found = TypeVar("Found", _Node, _Lease)


class WrongObject(ValueError):
    """An answer that is not the object that was asked for."""


_WATCHED = ("taints", "unschedulable")
_NODE = msgspec.json.Decoder(_Node)
_LEASE = msgspec.json.Decoder(_Lease)
_ANY = msgspec.json.Decoder(msgspec.Raw)


def node_of(answer: Answer, name: str) -> LiveNode:
    """Return the node of that name; Unusable when the answer was cut, WrongObject for everything else."""
    found = _decoded(answer, _NODE, "Node", name)
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


def lease_of(answer: Answer, name: str) -> LiveLease:
    """Return the Lease of that name; Unusable when the answer was cut, WrongObject for everything else."""
    found = _decoded(answer, _LEASE, "Lease", name)
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


def pod_of(answer: Answer, namespace: str, name: str) -> Pod:
    """Return the pod of that name, as a list of pods has it; Unusable when the answer was cut, WrongObject for everything else."""
    # What is no JSON at all was cut: that is not the reader's to judge.
    body = answer.decoded(_ANY)
    assembly = Assembly(Diagnostics())
    origin = Origin(Document("pod"))
    ItemReader(assembly).read_list([body], origin, "Pod", version="v1")
    pod = assembly.stored["Pod"].get((namespace, name))
    if not isinstance(pod, Pod) or not pod.uid:
        raise WrongObject
    return pod


def _decoded(answer: Answer, decoder: msgspec.json.Decoder[Found], kind: str, name: str) -> Found:
    try:
        found = answer.decoded(decoder)
    except msgspec.ValidationError:
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
