"""Which objects a scenario or command means: by name, label selector, zone, or all of them.

Rules: a name that does not exist, and a selector or zone that matches nothing, is a ``WrongWord`` with
the names that it is like, never an empty target: a typing error must not read as "nothing happens".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from fnmatch import fnmatchcase

from kubectl_evictplan.errors import WrongWord
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.selectors import LabelSelector, parse_label_selector
from kubectl_evictplan.kube.topology import BETA_REGION, BETA_ZONE, REGION, ZONE

# The types of objects as kubectl's users write them.
NODE_WORDS = ("node", "nodes", "no")
POD_WORDS = ("pod", "pods", "po")
OTHER_TYPES = (
    *POD_WORDS,
    *("deployment", "deployments", "deploy", "replicaset", "replicasets", "rs"),
    *("statefulset", "statefulsets", "sts", "daemonset", "daemonsets", "ds", "job", "jobs"),
    *("service", "services", "svc", "namespace", "namespaces", "ns", "pdb", "pvc", "pv"),
)

# No name of Kubernetes is longer.
_NAME_MAX = 253
_NAMES_SHOWN_MAX = 4
_LISTED_MAX = 10
_MATCHES_MAX = 50
# A fifth or so of the letters may be wrong, in short names a third. So many names are compared at most: hostile input cannot
# make an error slow.
_RATIO_MIN, _RATIO_MIN_SHORT, _SHORT = 0.75, 0.6, 5
_COMPARED_MAX = 500
# What programs for writing put in place of a hyphen, and what nobody means in a name.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212_ "
_QUOTES = "\u201c\u201d\u201e\u2018\u2019\"'`,;\u200b\u00a0"
_MEANT = str.maketrans({**dict.fromkeys(_DASHES, "-"), **dict.fromkeys(_QUOTES)})


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that a typed one may stand for, in order; empty when none is like it.

    Those that differ only in case and punctuation, else those fewest typing errors away, else those
    with the same first label (a name with and without its domain), else those that contain it.
    """
    folded = _folded(name[:_NAME_MAX])
    if not folded:
        return []
    names = {other: _folded(other) for other in sorted(known, key=_natural)}
    bare = folded.replace("-", "")
    host = folded.partition(".")[0]
    found = (
        [other for other, text in names.items() if text == folded]
        or [other for other, text in names.items() if text.replace("-", "") == bare]
        or _closest(folded, names)
        or [other for other, text in names.items() if text.partition(".")[0] == host and host]
    )
    if not found and len(folded) > 1:
        found = [other for other, text in names.items() if folded in text]
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name most like this one, or "" when none is close."""
    return next(iter(similar(name, known)), "")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that does not exist, with those that it is like."""
    return f"no {kind} is called {_shown(name)}{did_you_mean(similar(name, known))}"


def did_you_mean(names: Sequence[str]) -> str:
    """Return "; did you mean ...?", or "" without names."""
    if not names:
        return ""
    quoted = [repr(name) for name in names[:_NAMES_SHOWN_MAX]]
    if len(names) > len(quoted):
        quoted[-1:] = [f"{len(names) - len(quoted) + 1} more"]
        return f"; did you mean one of {', '.join(quoted[:-1])} and {quoted[-1]}?"
    return f"; did you mean {' or '.join(filter(None, (', '.join(quoted[:-1]), quoted[-1])))}?"


def listed(names: Sequence[str]) -> str:
    """Return the names in one line, the first ten of many."""
    shown = ", ".join(names[:_LISTED_MAX])
    rest = len(names) - _LISTED_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown


def nodes_by_name(nodes: Mapping[str, Node], names: Sequence[str]) -> list[Node]:
    """Return the named nodes, sorted, each once; WrongWord for the first that is unknown."""
    for name in names:
        if name not in nodes:
            raise _unknown_node(nodes, name)
    return [nodes[name] for name in sorted(set(names))]


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
    places = {name: _place_of(node.labels) for name, node in nodes.items()}
    region, _, wanted = zone.rpartition("/")
    selected = {
        name: place
        for name, place in places.items()
        if place[1] == wanted and wanted and (not region or place[0] == region)
    }
    if not selected:
        known = zones_of(nodes)
        _refuse_list("zones", zone, known)
        hint = f"zones are {listed(known)}" if known else "no node has a zone label"
        close = similar(wanted, known) or similar(re.split("[:.]", wanted)[-1], known)
        message = f"no node is in zone {_shown(zone)}{did_you_mean(close)}"
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
        close = sorted((key for key in known if key.partition("/")[2] in near), key=_natural)
    else:
        close = same_name or similar(word, known)
    close = close or similar(typed.replace(".", "/", 1), known)
    raise WrongWord(f"no pod is called {_shown(typed)}{did_you_mean(close)}", typed, close)


def _unknown_node(nodes: Mapping[str, Node], name: str) -> WrongWord:
    names = sorted(nodes, key=_natural)
    matching = [other for other in names if fnmatchcase(other, name)]
    if set("*?[") & set(name) and matching:
        message = f"names are written out, or chosen with --selector: {_shown(name)} is a pattern"
        return WrongWord(message, name, matching[:_MATCHES_MAX], together=True)
    _refuse_list("nodes", name, names)
    close = similar(name, names)
    message = f"no node is called {_shown(name)}{did_you_mean(close)}"
    if not close and names:
        message += f"; nodes are {listed(names)}"
    return WrongWord(message, name, close or names[::-1])


def _refuse_list(kind: str, typed: str, known: Iterable[str]) -> None:
    """Raise for known names that a comma joins."""
    exact = frozenset(known)
    pieces = [piece for piece in typed.split(",") if piece]
    close = [
        [piece] if piece in exact else similar(piece, exact) for piece in pieces[:_MATCHES_MAX]
    ]
    if "," in typed and all(len(found) == 1 for found in close):
        names = [found[0] for found in close]
        message = f"{kind} are separated by spaces, not by commas: {_shown(typed)}"
        raise WrongWord(message, typed, names, together=True)


def _no_match(nodes: Mapping[str, Node], selector: LabelSelector) -> WrongWord:
    """Say which requirement no node meets, and what labels there are."""
    message = f"no node matches the selector {_shown(selector.text)}"
    for requirement in selector.requirements:
        key = requirement.key
        if any(requirement.matches(node.labels) for node in nodes.values()):
            continue
        found = {node.labels[key] for node in nodes.values() if key in node.labels}
        if found:
            values = sorted(found, key=_natural)
            wrong = next(iter(requirement.values), "")
            close = similar(wrong, values) or values
            message += f": {key} is one of {listed(values)}"
        else:
            labels = {label for node in nodes.values() for label in node.labels}
            ends = [label for label in sorted(labels) if label.rpartition("/")[2] == key]
            wrong, close = key, ends or similar(key, labels)
            message += f": no node has a label {key!r}{did_you_mean(close)}"
        before, _, after = selector.text.partition(key)
        texts = [
            f"{before}{key}{after.replace(wrong, other, 1)}" if found else f"{before}{other}{after}"
            for other in close
        ]
        return WrongWord(message, selector.text, texts)
    return WrongWord(f"{message}: each part matches some nodes, all together none")


def _closest(typed: str, names: Mapping[str, str]) -> list[str]:
    """Return the names with the most letters in common, in the order typed; few typing errors only."""
    matcher = SequenceMatcher(b=typed, autojunk=False)
    best = _RATIO_MIN_SHORT if len(typed) < _SHORT else _RATIO_MIN
    found, compared = list[str](), 0
    for name, text in names.items():
        matcher.set_seq1(text)
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < best:
            continue
        ratio = matcher.ratio()
        if ratio > best:
            best, found = ratio, [name]
        elif ratio == best:
            found.append(name)
        compared += 1
        if compared >= _COMPARED_MAX:
            break
    return found


def _folded(name: str) -> str:
    """Return a name without what tired typing changes: case, kinds of dash, quotes."""
    return name.translate(_MEANT).lower().strip("-")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts worker-10 behind worker-9."""
    words = re.split(r"([0-9]+)", name)
    return [(index % 2 and len(word), word) for index, word in enumerate(words)]


def _shown(name: str) -> str:
    return repr(name if len(name) <= _NAME_MAX else name[:_NAME_MAX] + "...")


def _place_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return (region, zone); the beta label wins when present, as upstream's ``GetZoneKey``."""
    region = labels[BETA_REGION] if BETA_REGION in labels else labels.get(REGION, "")
    zone = labels[BETA_ZONE] if BETA_ZONE in labels else labels.get(ZONE, "")
    return region, zone
