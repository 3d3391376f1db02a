"""All pods that are bound to one node, now."""

from __future__ import annotations

from collections.abc import Callable

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.live.lists import Page, read_list
from kubectl_evictplan.live.problems import forbidden, unreachable
from kubectl_evictplan.live.resources import PODS
from kubectl_evictplan.live.transport import Transport
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document, Origin
from kubectl_evictplan.sources.items import ItemReader


def pods_of_node(transport: Transport, node: str, *, chunk_size: int) -> tuple[Pod, ...]:
    """Read them, in order of namespace and name.

    Raises AccessError when pods may not be listed, UnreachableError when no usable answer comes.
    """
    origin = Origin(Document(f"{transport.where()} pods"))
    read: list[Assembly] = []

    def begin() -> Callable[[Page], None]:
        assembly = Assembly(Diagnostics())
        read[:] = [assembly]
        items = ItemReader(assembly)
        return lambda page: items.read_list(page.items, origin, "Pod", version=page.api_version)

    selector = f"spec.nodeName={node}"
    found = read_list(transport, PODS, chunk_size=chunk_size, begin=begin, field_selector=selector)
    if found.not_evaluated:
        message = f"list pods of node {node}: {found.not_evaluated}"
        error = forbidden if found.denied else unreachable
        raise error(message, location=transport.where())
    pods = read[0].stored["Pod"]
    return tuple(pods[key] for key in sorted(pods))
