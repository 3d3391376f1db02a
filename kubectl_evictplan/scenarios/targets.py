"""Which objects a scenario or command means: by name, label selector, zone, or all of them.

Rules: a name that does not exist, and a selector or zone that matches nothing, is an error with the
nearest known name, never an empty target: a typing error must not read as "nothing happens".
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.selectors import parse_label_selector
from kubectl_evictplan.kube.topology import BETA_REGION, BETA_ZONE, REGION, ZONE

# Comparing a name with every other is quadratic in its length; beyond this many candidates only
# those that share a beginning are compared.
_COMPARED_MAX = 20_000
# No name of Kubernetes is longer.
_NAME_MAX = 253
_LISTED_MAX = 10


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name most like this one, or "" when none is close."""
    candidates = list(known)
    if len(candidates) > _COMPARED_MAX:
        candidates = [other for other in candidates if other[:3] == name[:3]][:_COMPARED_MAX]
    matches = difflib.get_close_matches(name[:_NAME_MAX], candidates, n=1, cutoff=0.5)
    return matches[0] if matches else ""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that does not exist, with the nearest that does."""
    close = nearest(name, known)
    hint = f"; did you mean {close!r}?" if close else ""
    shown = name if len(name) <= _NAME_MAX else name[:_NAME_MAX] + "..."
    return f"no {kind} is called {shown!r}{hint}"


def listed(names: Sequence[str]) -> str:
    """Return the names in one line, the first ten of many."""
    shown = ", ".join(names[:_LISTED_MAX])
    rest = len(names) - _LISTED_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown


def nodes_by_name(nodes: Mapping[str, Node], names: Sequence[str]) -> list[Node]:
    """Return the named nodes, sorted, each once; ValueError names every unknown one."""
    unknown = [name for name in dict.fromkeys(names) if name not in nodes]
    if unknown:
        raise ValueError("; ".join(unknown_name("node", name, nodes) for name in unknown))
    return [nodes[name] for name in sorted(set(names))]


def nodes_by_selector(nodes: Mapping[str, Node], selector: str) -> list[Node]:
    """Return the nodes whose labels match, sorted; ValueError for bad syntax or no match."""
    parsed = parse_label_selector(selector)
    if not parsed.requirements:
        raise ValueError("the selector is empty: to select every node, say so (--all, allNodes)")
    selected = [nodes[name] for name in sorted(nodes) if parsed.matches(nodes[name].labels)]
    if not selected:
        raise ValueError(f"no node matches the selector {selector!r}")
    return selected


def nodes_by_zone(nodes: Mapping[str, Node], zone: str) -> list[Node]:
    """Return the nodes of ``zone`` or ``region/zone``, sorted; ValueError when there are none.

    Both the stable and the beta labels count. A zone name that exists in several regions is
    ambiguous, because node-lifecycle treats those as different zones.
    """
    places = {name: _zone_of(node.labels) for name, node in nodes.items()}
    region, _, wanted = zone.rpartition("/")
    selected = {
        name: place
        for name, place in places.items()
        if place[1] == wanted and wanted and (not region or place[0] == region)
    }
    if not selected:
        known = sorted({place[1] for place in places.values() if place[1]})
        hint = f"zones are {listed(known)}" if known else "no node has a zone label"
        close = nearest(zone, known)
        hint = f"did you mean {close!r}? {hint}" if close else hint
        raise ValueError(f"no node is in zone {zone!r}; {hint}")
    regions = sorted({place[0] for place in selected.values()})
    if len(regions) > 1:
        choices = ", ".join(f"{name}/{wanted}" if name else f"/{wanted}" for name in regions)
        raise ValueError(f"zone {zone!r} exists in several regions: write one of {choices}")
    return [nodes[name] for name in sorted(selected)]


def _zone_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return (region, zone); the beta label wins when present, as upstream's ``GetZoneKey``."""
    region = labels[BETA_REGION] if BETA_REGION in labels else labels.get(REGION, "")
    zone = labels[BETA_ZONE] if BETA_ZONE in labels else labels.get(ZONE, "")
    return region, zone
