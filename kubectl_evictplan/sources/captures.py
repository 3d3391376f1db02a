"""Captures that people already have: what lies in them beside objects, and how they are told apart.

`kubectl cluster-info dump` (a folder, or one stream with the logs in it), must-gather and `oc adm
inspect`, folders of one file per object, and archives of them. Of manifests that people wrote every
mistake is named; a capture holds much that nobody wrote for us, so a file that is no object, or only
objects that decide nothing, is counted and not parsed. What may decide something is read as strictly
as anywhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath

import msgspec

from kubectl_evictplan.sources import wire
from kubectl_evictplan.sources.kinds import Verdict, classify
from kubectl_evictplan.sources.reading import ReadProblem, looks_like_json

_READ = (Verdict.READ, Verdict.LIST, Verdict.SNAPSHOT)
NOT_AN_OBJECT = "not Kubernetes objects"

# Keys of the outermost mapping stand at the beginning of a line, and nothing else can that looks so.
# Compiled where they are looked for: most inputs are no captures.
_YAML_KIND = rb"(?m)^(kind|apiVersion):[ \t]*[\"']?([A-Za-z0-9./-]*)"
_YAML_DOCUMENT = rb"(?m)^---"
_YAML_ITEM = rb"(?m)^- "

_LOG_START = rb"(?m)^==== START (logs for container .* of pod .* ====)\r?\n"
_LOG_END = rb"==== END (logs for container .* of pod .* ====)(?:\r?\n|\Z)"
_TOP_LEVEL_END = rb"(?m)^\}[ \t\r]*$\n?"
_REPEATED = (
    "a log in it repeats the line with which kubectl ends a log, so that logs and objects cannot be "
    "told apart: use `kubectl cluster-info dump --output-directory`"
)


class Part(msgspec.Struct, frozen=True):
    """One object's text in a stream of several, and the line at which it begins."""

    data: bytes
    line: int


def is_capture(paths: Iterable[str]) -> bool:
    """Tell by the names below a folder whether a tool captured a cluster there.

    must-gather and inspect write cluster-scoped-resources/ and namespaces/, cluster-info dump writes
    nodes and, for each namespace, pods.
    """
    tops, pods = set(), set()
    for path in paths:
        parts = PurePath(path).parts
        if "cluster-scoped-resources" in parts[:-1] or "namespaces" in parts[:-2]:
            return True
        stem = parts[-1].partition(".")[0]
        if stem == "nodes":
            tops.add(parts[:-1])
        elif stem == "pods":
            pods.add(parts[:-2])
    return bool(tops & pods)


def ignored_objects(data: bytes) -> Counter[str] | None:
    """Return the kinds of a file that decides nothing, with their numbers; None: it must be read.

    Looks at no more than kind, apiVersion and, in JSON, the number of items. What is not understood
    must be read, so that it is complained about.
    """
    return _ignored_json(data) if looks_like_json(data[:4096]) else _ignored_yaml(data)


def _ignored_json(data: bytes) -> Counter[str] | None:
    try:
        envelope = wire.ENVELOPE.decode(data)
    except (msgspec.DecodeError, RecursionError):
        # A list, or a field of another type, is no object; a syntax error is one for who reads it.
        return None if _is_cut(data) else Counter({NOT_AN_OBJECT: 1})
    count = len(envelope.items) if isinstance(envelope.items, list) else 1
    return _ignored(envelope.kind or "", envelope.api_version or "", count)


def _is_cut(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return True
    return False


def _ignored_yaml(data: bytes) -> Counter[str] | None:
    found = re.findall(_YAML_KIND, data)
    kinds = [value.decode() for key, value in found if key == b"kind"]
    versions = [value.decode() for key, value in found if key == b"apiVersion"]
    if not kinds or not versions:
        return Counter({NOT_AN_OBJECT: 1})
    if len(kinds) == len(versions) == 1 and len(re.findall(_YAML_DOCUMENT, data)) <= 1:
        return _ignored(kinds[0], versions[0], len(re.findall(_YAML_ITEM, data)))
    if len(kinds) != len(versions):
        return None
    total: Counter[str] = Counter()
    for kind, version in zip(kinds, versions, strict=True):
        ignored = _ignored(kind, version, 1)
        if ignored is None:
            return None
        total += ignored
    return total


def _ignored(kind: str, api_version: str, items: int) -> Counter[str] | None:
    if not kind or not api_version:
        return Counter({NOT_AN_OBJECT: 1})
    if kind.endswith("List") and kind != "List":
        one = kind.removesuffix("List")
        read = classify(one, api_version).verdict in _READ
        return None if read else Counter({one: items})
    return None if classify(kind, api_version).verdict in _READ else Counter({kind: 1})


def without_logs(data: bytes) -> tuple[bytes, int]:
    """Return a printed cluster-info dump with every log's lines left empty, and how many logs.

    Raises ReadProblem where a log holds the very line that ends it: a pod could otherwise print
    objects of its own into the cluster.
    """
    ends = Counter(match[1] for match in re.finditer(_LOG_END, data))
    pieces, position, logs = [], 0, 0
    log_start, log_end = re.compile(_LOG_START), re.compile(_LOG_END)
    while start := log_start.search(data, position):
        title = start[1]
        if ends[title] != 1:
            raise ReadProblem(_REPEATED if ends[title] else "cut inside a log: dump it again")
        end = next(match for match in log_end.finditer(data, start.end()) if match[1] == title)
        pieces += [
            data[position : start.start()],
            b"\n" * data.count(b"\n", start.start(), end.end()),
        ]
        position, logs = end.end(), logs + 1
    return b"".join([*pieces, data[position:]]), logs


def top_level_objects(data: bytes) -> Iterator[Part]:
    """Yield each JSON object of several that kubectl printed one after the other, indented.

    The brace that ends one stands alone at the beginning of a line. What follows the last of them is
    a part too, if it is more than blanks: it was cut.
    """
    position, line = 0, 1
    for end in re.finditer(_TOP_LEVEL_END, data):
        text = data[position : end.end()]
        blank = len(text) - len(text.lstrip())
        yield Part(text[blank:], line + text.count(b"\n", 0, blank))
        position, line = end.end(), line + text.count(b"\n")
    if rest := data[position:].strip():
        yield Part(rest, line)
