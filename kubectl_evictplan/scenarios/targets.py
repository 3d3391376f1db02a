"""Which objects a scenario or command means: by name, label selector, zone, or all of them.

Rules: a name that does not exist, and a selector or zone that matches nothing, is a ``WrongWord`` with
the names that it is like, never an empty target: a typing error must not read as "nothing happens".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from kubectl_evictplan.errors import WrongWord
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.selectors import LabelSelector, parse_label_selector
from kubectl_evictplan.kube.topology import get_zone_key, zone_display_name
from kubectl_evictplan.scenarios.names import (
    NAME_MAX,
    POD_WORDS,
    did_you_mean,
    listed,
    natural,
    shown,
    similar,
)

_MATCHES_MAX = 50


def node_by_name(nodes: Mapping[str, Node], name: str) -> Node:
    """Return the node of that name; WrongWord when there is none."""
    if name in nodes:
        return nodes[name]
    names = sorted(nodes, key=natural)
    is_pattern = any(sign in name for sign in "*?[")
    matching = [other for other in names if fnmatchcase(other, name)] if is_pattern else []
    if matching:
        message = f"names are written out, or chosen with --selector: {shown(name, NAME_MAX)} is a pattern"
        raise WrongWord(message, name, matching[:_MATCHES_MAX], together=True)
    _refuse_list("nodes", name, names)
    close = similar(name, names)
    message = f"no node is called {shown(name, NAME_MAX)}{did_you_mean(close)}"
    if not close and names:
        message += f"; nodes are {listed(names)}"
    raise WrongWord(message, name, close or names[::-1])


def nodes_by_selector(nodes: Mapping[str, Node], selector: str) -> list[Node]:
    """Return the nodes whose labels match, sorted; ValueError for bad syntax or no match."""
    parsed = parse_label_selector(selector)
    if not parsed.requirements:
        raise ValueError("the selector is empty: to select every node, say so (--all, allNodes)")
    selected = [nodes[name] for name in sorted(nodes) if parsed.matches(nodes[name].labels)]
    if not selected:
        raise _no_match(nodes, parsed)
    return selected


def nodes_by_zone(nodes: Mapping[str, Node], zone: str) -> list[Node]:
    """Return the nodes of ``zone`` or ``region/zone``, sorted; WrongWord when there are none.

    Both the stable and the beta labels count. A zone name that exists in several regions is
    ambiguous, because node-lifecycle treats those as different zones.
    """
    region, _, wanted = zone.rpartition("/")
    places = {name: _place_of(node.labels) for name, node in nodes.items()}
    selected = {
        name: place
        for name, place in places.items()
        if wanted and place == (region or place[0], wanted)
    }
    if not selected:
        known = zones_of(nodes)
        _refuse_list("zones", zone, known)
        hint = f"zones are {listed(known)}" if known else "no node has a zone label"
        close = similar(wanted, known) or similar(re.split("[:.]", wanted)[-1], known)
        message = f"no node is in zone {shown(zone, NAME_MAX)}{did_you_mean(close)}"
        raise WrongWord(f"{message} ({hint})", zone, close or known)
    regions = sorted({place[0] for place in selected.values()})
    if len(regions) > 1:
        choices = [f"{name}/{wanted}" for name in regions]
        message = f"zone {zone!r} exists in several regions: write one of {', '.join(choices)}"
        raise WrongWord(message, zone, choices)
    return [nodes[name] for name in sorted(selected)]


def zones_of(nodes: Mapping[str, Node], region: str | None = None) -> list[str]:
    """Return the names of the zones that nodes are in, sorted; with ``region``, of that one."""
    places = {_place_of(node.labels) for node in nodes.values()}
    return sorted({zone for place, zone in places if zone and region in (None, place)})


def pod_key(keys: Iterable[str], typed: str) -> str:
    """Return the "namespace/name" that NAMESPACE/NAME, pod/NAME or a unique NAME means.

    WrongWord when no pod or more than one is meant.
    """
    known = frozenset(keys)
    parts = [part for part in typed.split("/") if part.lower() not in POD_WORDS]
    word = "/".join(parts)
    if typed in known or word in known:
        return typed if typed in known else word
    same_name = sorted(key for key in known if parts and key.partition("/")[2] == parts[-1])
    if len(parts) == 1 and len(same_name) == 1:
        return same_name[0]
    if len(parts) == 1 and same_name:
        message = f"several namespaces have a pod {word!r}: {', '.join(same_name[:5])}"
        raise WrongWord(message, typed, same_name)
    if len(parts) == 1:
        near = set(similar(word, {key.partition("/")[2] for key in known}))
        close = sorted((key for key in known if key.partition("/")[2] in near), key=natural)
    else:
        close = same_name or similar(word, known)
    close = close or similar(typed.replace(".", "/", 1), known)
    raise WrongWord(f"no pod is called {shown(typed, NAME_MAX)}{did_you_mean(close)}", typed, close)


def _refuse_list(kind: str, typed: str, known: Iterable[str]) -> None:
    """Raise for known names that a comma joins."""
    exact = frozenset(known)
    pieces = [piece for piece in typed.split(",") if piece]
    close = [
        [piece] if piece in exact else similar(piece, exact) for piece in pieces[:_MATCHES_MAX]
    ]
    if "," in typed and all(len(found) == 1 for found in close):
        names = [found[0] for found in close]
        message = f"{kind} are separated by spaces, not by commas: {shown(typed, NAME_MAX)}"
        raise WrongWord(message, typed, names, together=True)


def _no_match(nodes: Mapping[str, Node], selector: LabelSelector) -> WrongWord:
    """Say which requirement no node meets, and what labels there are."""
    message = f"no node matches the selector {shown(selector.text, NAME_MAX)}"
    for requirement in selector.requirements:
        key = requirement.key
        if any(requirement.matches(node.labels) for node in nodes.values()):
            continue
        found = {node.labels[key] for node in nodes.values() if key in node.labels}
        if found:
            values = sorted(found, key=natural)
            wrong = next(iter(requirement.values), "")
            close = similar(wrong, values) or values
            message += f": {key} is one of {listed(values)}"
        else:
            labels = {label for node in nodes.values() for label in node.labels}
            ends = [label for label in sorted(labels) if label.rpartition("/")[2] == key]
            wrong, close = key, ends or similar(key, labels)
            message += f": no node has a label {key!r}{did_you_mean(close)}"
            if not close:
                return WrongWord(message, selector.text, _some_selectors(nodes))
        before, _, after = selector.text.partition(key)
        texts = [
            f"{before}{key}{after.replace(wrong, other, 1)}" if found else f"{before}{other}{after}"
            for other in close
        ]
        return WrongWord(message, selector.text, texts)
    message += ": each part matches some nodes, all together none"
    return WrongWord(message, selector.text, [each.key for each in selector.requirements])


def _some_selectors(nodes: Mapping[str, Node]) -> list[str]:
    """Return selectors that match some nodes, those of zones first; none or several."""
    found = {(key, value) for node in nodes.values() for key, value in node.labels.items()}
    ranked = sorted(found, key=lambda label: (not label[0].endswith("/zone"), label))
    # Several, even of one label: none of them is what was meant.
    return [f"{key}={value}" for key, value in ranked] * 2


def _place_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return (region, zone); the beta label wins when present, as upstream's ``GetZoneKey``."""
    region, _, zone = zone_display_name(get_zone_key(labels, ga_labels=True)).partition("/")
    return region, zone
