"""From a decoded pod to what it needs of a node; pods of one template share one value.

Hot code: ``needs`` runs for every pod of the cluster. What decides is compared as the bytes in which it
arrived, and read once for each distinct combination of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import msgspec

from kubectl_evictplan.kube.infrastructure import Wishes
from kubectl_evictplan.kube.needs import (
    CPU,
    HONOR,
    IGNORE,
    NODE_NAME_FIELD,
    OWN_NODE,
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodNeeds,
    TopologySpreadConstraint,
)
from kubectl_evictplan.kube.pod_requests import (
    INIT,
    RUNS,
    SIDECAR,
    effective,
    in_order,
    whole,
)
from kubectl_evictplan.kube.quantities import MILLI, BadQuantity, parse_quantity
from kubectl_evictplan.sources import wire, wire_needs

DEFAULT_SCHEDULER = "default-scheduler"
# More distinct ones than templates can explain: forgotten, and read anew.
MEMO_SIZE_MAX = 200_000
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - compared, nothing listens
_NODE_NAME_BYTES = NODE_NAME_FIELD.encode()
_NULL_BYTES = bytes(wire_needs.NULL)

Requests = Mapping[str, int]


class NeedsBuilder:
    """Reads needs and remembers them."""

    def __init__(self) -> None:
        self._of_texts: dict[object, PodNeeds] = {}
        self._equal: dict[PodNeeds, PodNeeds] = {}
        self._requests: dict[bytes, Requests] = {}

    def needs(self, spec: wire.PodSpec) -> PodNeeds | None:
        """Return what the pod needs; equal needs are one object. None for a pod without its containers."""
        key: tuple[object, ...] = (spec.priority, spec.preemption_policy, spec.scheduler_name)
        special = _is_special(spec)
        for container in spec.containers:
            key += (bytes(container.resources),)
            for port in container.ports:
                if port.host_port:
                    special = True
        if special:
            key += _rest(spec)
        found = self._of_texts.get(key)
        if found is None:
            if not spec.containers:
                return None
            found = self._read(spec)
            found = self._equal.setdefault(found, found)
            if len(self._of_texts) > MEMO_SIZE_MAX:
                self._of_texts.clear()
            self._of_texts[key] = found
        return found

    def _read(self, spec: wire.PodSpec) -> PodNeeds:
        affinity = wire_needs.AFFINITY.decode(_affinity(spec)) or wire_needs.Affinity()
        scheduler = spec.scheduler_name
        return PodNeeds(
            self._effective_requests(spec),
            tuple(sorted((wire.LABELS.decode(spec.node_selector) or {}).items())),
            _node_terms(affinity.node_affinity),
            _pod_terms(affinity.pod_affinity),
            _pod_terms(affinity.pod_anti_affinity),
            _spread(wire_needs.SPREAD.decode(spec.topology_spread_constraints) or ()),
            tuple(
                HostPort(port, protocol or "TCP", "" if address == _ALL_ADDRESSES else address)
                for port, protocol, address in sorted(set(_host_ports(spec)))
            ),
            spec.priority,
            spec.preemption_policy == "Never",
            "" if scheduler == DEFAULT_SCHEDULER else sys.intern(scheduler),
            bool(spec.resource_claims),
        )

    def _effective_requests(self, spec: wire.PodSpec) -> tuple[tuple[str, int], ...]:
        """Return what the scheduler reserves for a new pod (``PodRequests``)."""
        containers = (
            (how_it_runs(one), self.requested(one.resources)) for one in all_containers(spec)
        )
        of_pod = self.requested(spec.resources)
        return in_order(whole(effective(containers), of_pod, amounts(bytes(spec.overhead))))

    def requested(self, resources: msgspec.Raw) -> Requests:
        """Return requests; a limit without a request is one (``SetDefaults_Pod``)."""
        raw = bytes(resources)
        found = self._requests.get(raw)
        if found is None:
            decoded = wire_needs.RESOURCES.decode(raw) or wire_needs.Resources()
            found = self._requests[raw] = _amounts({**decoded.limits, **decoded.requests})
        return found


def amounts(raw: bytes) -> dict[str, int]:
    """Return a list of resources as whole numbers: cpu in thousandths, others in whole units."""
    return {} if raw == _NULL_BYTES else _amounts(wire_needs.QUANTITIES.decode(raw) or {})


def _amounts(quantities: Mapping[str, str | float]) -> dict[str, int]:
    found = {
        sys.intern(name): parse_quantity(value, MILLI if name == CPU else 1)
        for name, value in quantities.items()
    }
    if min(found.values(), default=0) < 0:
        raise BadQuantity("negative")
    return found


def _is_special(spec: wire.PodSpec) -> bool:
    """Tell whether more decides than requests and ports of containers, which is rare."""
    null = wire_needs.NULL
    return bool(
        spec.affinity is not null
        or spec.node_selector is not null
        or spec.topology_spread_constraints is not null
        or spec.init_containers
        or spec.host_network
        or spec.overhead is not null
        or spec.resources is not null
        or spec.resource_claims
    )


def _rest(spec: wire.PodSpec) -> tuple[object, ...]:
    """Return the rest of what decides, in a form that can be compared."""
    return (
        *[(one.restart_policy, bytes(one.resources)) for one in spec.init_containers],
        bytes(spec.node_selector),
        _affinity(spec),
        bytes(spec.topology_spread_constraints),
        bytes(spec.resources),
        bytes(spec.overhead),
        not spec.resource_claims,
        *_host_ports(spec),
    )


def _host_ports(spec: wire.PodSpec) -> list[tuple[int, str, str]]:
    """Return port, protocol and address of what the pod takes of the node's own ports.

    In the node's network every port is one (``SetDefaults_Pod``).
    """
    return [
        (number, port.protocol, port.host_ip)
        for container in (*spec.containers, *filter(_is_sidecar, spec.init_containers))
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    ]


def _affinity(spec: wire.PodSpec) -> bytes:
    """Return the text of the affinity, with ``OWN_NODE`` for the node that the pod is bound to."""
    text = bytes(spec.affinity)
    if spec.node_name and _NODE_NAME_BYTES in text:
        return text.replace(b'"%b"' % spec.node_name.encode(), b'"%b"' % OWN_NODE.encode())
    return text


def _is_sidecar(container: wire.InitContainer) -> bool:
    return container.restart_policy == "Always"


def all_containers(spec: wire.PodSpec) -> Iterable[wire.Container]:
    """Those that run beside each other, then those before them."""
    return (*spec.containers, *spec.init_containers)


def how_it_runs(container: wire.Container) -> str:
    """RUNS, INIT or SIDECAR."""
    if not isinstance(container, wire.InitContainer):
        return RUNS
    return SIDECAR if _is_sidecar(container) else INIT


def _node_terms(affinity: wire_needs.RequiredNodes | None) -> tuple[NodeSelectorTerm, ...] | None:
    if affinity is None or affinity.required is None:
        return None
    return tuple(
        NodeSelectorTerm(_wishes(term.match_expressions), _wishes(term.match_fields))
        for term in affinity.required.node_selector_terms
    )


def _pod_terms(affinity: wire_needs.RequiredPods | None) -> tuple[PodAffinityTerm, ...]:
    return tuple(
        PodAffinityTerm(
            sys.intern(term.topology_key),
            selector_wishes(term.label_selector),
            tuple(sorted(set(term.namespaces))),
            selector_wishes(term.namespace_selector),
        )
        for term in (affinity.required if affinity else ())
    )


def _spread(
    constraints: Iterable[wire_needs.SpreadConstraint],
) -> tuple[TopologySpreadConstraint, ...]:
    return tuple(
        TopologySpreadConstraint(
            sys.intern(one.topology_key),
            one.max_skew,
            selector_wishes(one.label_selector),
            1 if one.min_domains is None else one.min_domains,
            one.match_label_keys,
            one.node_affinity_policy or HONOR,
            one.node_taints_policy or IGNORE,
        )
        for one in constraints
        if one.when_unsatisfiable == "DoNotSchedule"
    )


def selector_wishes(selector: wire_needs.LabelSelector | None) -> Wishes | None:
    """Return the parts of a selector that all must hold; None for none."""
    if selector is None:
        return None
    wanted = ((key, "In", (value,)) for key, value in sorted(selector.match_labels.items()))
    return (*wanted, *_wishes(selector.match_expressions))


def _wishes(requirements: Iterable[wire_needs.Requirement]) -> Wishes:
    return tuple((one.key, one.operator, one.values) for one in requirements)
