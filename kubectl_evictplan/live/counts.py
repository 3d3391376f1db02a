"""How many of something are ready now: the few counts that applying a plan watches.

Lists all of them, by name where one object is meant: so the rights of reading are enough.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubectl_evictplan.apply.cluster import LiveWorkload
from kubectl_evictplan.live.lists import Page, read_list
from kubectl_evictplan.live.problems import refused, unreachable
from kubectl_evictplan.live.resources import NODES, RESOURCES, Resource
from kubectl_evictplan.live.transport import Transport

_COUNTED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None


class _Status(msgspec.Struct, rename="camel", frozen=True):
    conditions: tuple[_Condition, ...] | None = None
    ready_replicas: int | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_OBJECT = msgspec.json.Decoder(_Object)


def workload_counts(
    transport: Transport, namespace: str, kind: str, name: str
) -> LiveWorkload | None:
    """Return the counts of one workload; None: it is not there, or its kind has none.

    Raises AccessError when the kind may not be listed, UnreachableError when no usable answer comes.
    """
    if kind not in _COUNTED:
        return None
    (resource,) = [one for one in RESOURCES if one.kind == kind]
    selector = f"metadata.name={name}"
    for found in _listed(transport, resource, namespace, selector, chunk_size=0):
        if found.metadata.name == name:
            # Left out, it is one (SetDefaults_Deployment); ready ones are left out when none is.
            wanted = 1 if found.spec.replicas is None else found.spec.replicas
            return LiveWorkload(wanted=wanted, ready=found.status.ready_replicas or 0)
    return None


def not_ready_nodes(transport: Transport, *, chunk_size: int) -> int:
    """Count the nodes whose condition Ready is not True; raises as ``workload_counts`` does."""
    nodes = _listed(transport, NODES, "", "", chunk_size=chunk_size)
    return sum(1 for node in nodes if not _is_ready(node))


def _is_ready(node: _Object) -> bool:
    conditions = node.status.conditions or ()
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def _listed(
    transport: Transport, resource: Resource, namespace: str, selector: str, *, chunk_size: int
) -> list[_Object]:
    objects: list[_Object] = []

    def begin() -> Callable[[Page], None]:
        objects.clear()
        return take

    def take(page: Page) -> None:
        for raw in page.items:
            try:
                objects.append(_OBJECT.decode(raw))
            except (msgspec.DecodeError, RecursionError):
                message = f"list {resource.plural}: an object that no API server stores"
                raise unreachable(message, location=transport.where()) from None

    found = read_list(
        transport,
        resource,
        namespace=namespace,
        chunk_size=chunk_size,
        field_selector=selector,
        begin=begin,
    )
    if found.not_evaluated:
        message = f"list {resource.plural}: {found.not_evaluated}"
        error = refused if found.denied else unreachable
        raise error(message, location=transport.where())
    return objects
