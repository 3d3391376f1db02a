"""Names that people type: the types of objects, and what a name that does not exist is like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

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
NAME_MAX = 253
_NAMES_SHOWN_MAX = 4
_LISTED_MAX = 10
# A fifth or so of the letters may be wrong, in short names a third.
_RATIO_MIN, _RATIO_MIN_SHORT, _SHORT = 0.75, 0.6, 5
# So many names are compared at most: hostile input cannot make an error slow.
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
    folded = _folded(name[:NAME_MAX])
    if not folded:
        return []
    names = {other: _folded(other) for other in sorted(known, key=natural)}
    bare, host = folded.replace("-", ""), folded.partition(".")[0]
    return (
        [other for other, text in names.items() if text == folded]
        or [other for other, text in names.items() if text.replace("-", "") == bare]
        or _closest(folded, names)
        or [other for other, text in names.items() if text.partition(".")[0] == host and host]
        or [other for other, text in names.items() if folded in text and len(folded) > 1]
    )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name that does not exist, with those that it is like."""
    return f"no {kind} is called {shown(name, NAME_MAX)}{did_you_mean(similar(name, known))}"


def did_you_mean(names: Sequence[str]) -> str:
    """Return "; did you mean ...?", or "" without names."""
    if not names:
        return ""
    quoted = [repr(name) for name in names[:_NAMES_SHOWN_MAX]]
    if len(names) > len(quoted):
        rest = len(names) - len(quoted) + 1
        return f"; did you mean one of {', '.join(quoted[:-1])} and {rest} more?"
    return f"; did you mean {either(quoted)}?"


def either(words: Sequence[str]) -> str:
    """Return "a, b or c"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def listed(names: Sequence[str], most: int = _LISTED_MAX) -> str:
    """Return the names in one line: the first ``most`` of them, and how many more there are."""
    text, rest = ", ".join(names[:most]), len(names) - most
    return f"{text} and {rest} more" if rest > 0 else text


def shown(text: str, most: int = 60) -> str:
    """Return a text in quotes, only the beginning of an absurd one."""
    return repr(text if len(text) <= most else text[:most] + "...")


def _closest(typed: str, names: Mapping[str, str]) -> list[str]:
    """Return the names with the most letters in common, in the order typed; few typing errors only."""
    from difflib import SequenceMatcher  # only where a word is wrong

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


def natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts worker-10 behind worker-9."""
    words = re.split(r"([0-9]+)", name)
    return [(index % 2 and len(word), word) for index, word in enumerate(words)]
