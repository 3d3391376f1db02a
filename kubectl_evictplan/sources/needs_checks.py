"""What the API server refuses in what a manifest says a pod needs of its node.

Upstream: ``ValidateNodeSelectorTerm``, ``ValidatePodAffinityTerm``, ``validateTopologySpreadConstraints`` and
``validateContainerPorts`` of pkg/apis/core/validation. Only what decides where a pod can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubectl_evictplan.kube.needs import HONOR, IGNORE, NODE_NAME_FIELD
from kubectl_evictplan.kube.validation import parse_int64
from kubectl_evictplan.sources import wire, wire_needs
from kubectl_evictplan.sources.marked_tree import Path, WrongField

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Whether each operator of a label selector has values, and what is said where it is not so.
HAS_VALUES = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
WRONG_VALUES = "In and NotIn need values, Exists and DoesNotExist have none"
_COMPARING = ("Gt", "Lt")
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_PORT_MAX = 65_535


def needs_violations(spec: wire.PodSpec) -> Iterator[WrongField]:
    """Yield every wrong field, with its path in the pod."""
    affinity = wire_needs.AFFINITY.decode(spec.affinity) or wire_needs.Affinity()
    yield from _node_affinity(affinity.node_affinity)
    for name, terms in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        for index, term in enumerate(terms.required if terms else ()):
            yield from _pod_term(term, ("spec", "affinity", name, _REQUIRED, index))
    constraints = wire_needs.SPREAD.decode(spec.topology_spread_constraints) or ()
    for index, one in enumerate(constraints):
        yield from _constraint(one, ("spec", "topologySpreadConstraints", index))
    for at, container in enumerate(spec.containers):
        for index, port in enumerate(container.ports):
            if port.host_port is not None and not 0 <= port.host_port <= _PORT_MAX:
                path = ("spec", "containers", at, "ports", index, "hostPort")
                yield WrongField(path, "must be a port, 1 to 65535", str(port.host_port))


def _node_affinity(affinity: wire_needs.RequiredNodes | None) -> Iterator[WrongField]:
    if affinity is None or affinity.required is None:
        return
    place: Path = ("spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    terms = affinity.required.node_selector_terms
    if not terms:
        yield WrongField(place, "must have at least one node selector term", "")
    for index, term in enumerate(terms):
        for at, wish in enumerate(term.match_expressions):
            yield from _wish(wish, (*place, index, "matchExpressions", at), compares=True)
        for at, wish in enumerate(term.match_fields):
            path = (*place, index, "matchFields", at)
            if wish.key != NODE_NAME_FIELD:
                yield WrongField((*path, "key"), f"must be {NODE_NAME_FIELD}", wish.key)
            if wish.operator not in ("In", "NotIn"):
                yield WrongField((*path, "operator"), "must be In or NotIn", wish.operator)
            elif len(wish.values) != 1:
                yield WrongField((*path, "values"), "must have one element", "")


def _pod_term(term: wire_needs.PodTerm, path: Path) -> Iterator[WrongField]:
    if not term.topology_key:
        yield WrongField((*path, "topologyKey"), "is missing", "")
    yield from _selector(term.label_selector, (*path, "labelSelector"))
    yield from _selector(term.namespace_selector, (*path, "namespaceSelector"))


def _constraint(one: wire_needs.SpreadConstraint, path: Path) -> Iterator[WrongField]:
    if one.max_skew < 1:
        yield WrongField((*path, "maxSkew"), "must be more than 0", str(one.max_skew))
    if not one.topology_key:
        yield WrongField((*path, "topologyKey"), "is missing", "")
    if one.when_unsatisfiable not in _WHEN_UNSATISFIABLE:
        message = f"must be {' or '.join(_WHEN_UNSATISFIABLE)}"
        yield WrongField((*path, "whenUnsatisfiable"), message, one.when_unsatisfiable)
    if one.min_domains is not None and one.min_domains < 1:
        yield WrongField((*path, "minDomains"), "must be more than 0", str(one.min_domains))
    for field, policy in (
        ("nodeAffinityPolicy", one.node_affinity_policy),
        ("nodeTaintsPolicy", one.node_taints_policy),
    ):
        if policy not in ("", HONOR, IGNORE):
            yield WrongField((*path, field), f"must be {HONOR} or {IGNORE}", policy)
    yield from _selector(one.label_selector, (*path, "labelSelector"))


def _selector(selector: wire_needs.LabelSelector | None, path: Path) -> Iterator[WrongField]:
    wishes: Iterable[wire_needs.Requirement] = selector.match_expressions if selector else ()
    for index, wish in enumerate(wishes):
        yield from _wish(wish, (*path, "matchExpressions", index), compares=False)


def _wish(wish: wire_needs.Requirement, path: Path, *, compares: bool) -> Iterator[WrongField]:
    if compares and wish.operator in _COMPARING:
        if len(wish.values) != 1 or parse_int64(wish.values[0]) is None:
            yield WrongField((*path, "values"), "Gt and Lt need one integer", "")
    elif wish.operator not in HAS_VALUES:
        known = (*HAS_VALUES, *(_COMPARING if compares else ()))
        yield WrongField((*path, "operator"), f"must be one of {', '.join(known)}", wish.operator)
    elif bool(wish.values) != HAS_VALUES[wish.operator]:
        yield WrongField((*path, "values"), WRONG_VALUES, "")
