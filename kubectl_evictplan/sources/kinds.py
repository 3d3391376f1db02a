"""Which objects are read, which are counted, and which are mistakes.

A kind counts only together with its API group: a CRD may well be called Node.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec

from kubectl_evictplan.sources.wire import KINDS, MOVED_FROM_EXTENSIONS

OUR_GROUP = "evictplan.dev"


class Verdict(Enum):
    """What to do with an object."""

    READ = "read"
    LIST = "list"
    SNAPSHOT = "snapshot"
    IGNORED = "ignored"
    MISTAKE = "mistake"
    # Not a cluster's object at all, but a file that lies beside manifests.
    NOT_KUBERNETES = "not Kubernetes"


class Classified(msgspec.Struct, frozen=True):
    """The verdict, and its reason when there is one to tell."""

    verdict: Verdict
    reason: str = ""


READ = Classified(Verdict.READ)
LIST = Classified(Verdict.LIST)
IGNORED = Classified(Verdict.IGNORED)

_NOT_STATE = {
    "Table": "a table, not objects: use `kubectl get -o json`",
    "Status": "an API server's answer, not an object: did the kubectl command fail?",
    "WatchEvent": "a watch, not a list: use `kubectl get -o json` without -w",
}
# Kinds of Kubernetes that look like a misspelled one of those that are read.
_LIKE_OURS = frozenset({"Endpoints"})
_OUR_FILES = {
    "Scenario": "a scenario, not cluster objects: use `what-if scenario FILE`",
    "Prediction": "a prediction, not cluster objects: `diff` and `verify` take it",
    "Plan": "a plan, not cluster objects: `kubectl evictplan apply` takes it",
}
# Files that lie beside manifests, by the keys that they have.
_FILES_BESIDE = {
    "docker-compose": {"services"},
    "Chart.yaml": {"name", "version"},
    "kustomization.yaml": {"resources"},
}


def classify(kind: str | None, api_version: str | None, tree: Any = None) -> Classified:
    """Decide by kind and apiVersion; ``tree`` helps to name what has neither."""
    if not isinstance(kind, str) or not kind:
        return _without_kind(tree)
    if kind in _NOT_STATE:
        return Classified(Verdict.MISTAKE, _NOT_STATE[kind])
    if not isinstance(api_version, str) or not api_version:
        return Classified(Verdict.MISTAKE, "apiVersion is missing")
    group, _, version = api_version.rpartition("/")
    if group == OUR_GROUP:
        if kind == "Snapshot":
            return Classified(Verdict.SNAPSHOT)
        return Classified(Verdict.MISTAKE, _OUR_FILES.get(kind, f"unknown kind {kind}"))
    if group == "kustomize.config.k8s.io":
        reason = "a Kustomization: build it first (kubectl kustomize)"
        return Classified(Verdict.NOT_KUBERNETES, reason)
    if kind in KINDS:
        return _known(kind, group, version)
    if kind == "List" or item_kind(kind):
        return LIST
    if near := _nearest(kind, group):
        return Classified(Verdict.MISTAKE, f'unknown kind "{kind}": did you mean {near}?')
    # Lists of other kinds are opened too: their items are then counted one by one.
    holds_items = isinstance(tree, dict) and isinstance(tree.get("items"), list)
    return LIST if kind.endswith("List") and holds_items else IGNORED


def item_kind(list_kind: str) -> str:
    """Return the kind of a typed list's items when it is one that is read, else ""."""
    kind = list_kind.removesuffix("List")
    return kind if kind != list_kind and kind in KINDS else ""


def _known(kind: str, group: str, version: str) -> Classified:
    home = KINDS[kind]
    if group == "extensions" and kind in MOVED_FROM_EXTENSIONS:
        return READ
    if group != home.group:
        if "." in group:
            return IGNORED
        # Only Kubernetes' own groups have no dot: this is no custom resource.
        found = f"{group}/{version}".lstrip("/")
        reason = f"{kind} is of apiVersion {home.api_version}, not {found}"
        return Classified(Verdict.MISTAKE, reason)
    if version in home.versions:
        return READ
    reason = f"version {version} of {kind} is not known: treated as an unknown kind"
    return Classified(Verdict.IGNORED, reason)


@lru_cache(maxsize=1024)
def _nearest(kind: str, group: str) -> str:
    """Return the kind that was probably meant, unless it is a custom resource's."""
    if "." in group and group not in {home.group for home in KINDS.values()}:
        return ""
    if kind in _LIKE_OURS:
        return ""
    import difflib

    candidates = {name.lower(): name for name in KINDS}
    lower = kind.lower()
    if lower.removesuffix("s") in candidates:
        return candidates[lower.removesuffix("s")]
    close = difflib.get_close_matches(lower[:80], candidates, n=1, cutoff=0.75)
    return candidates[close[0]] if close else ""


def _without_kind(tree: Any) -> Classified:
    keys = set(tree) if isinstance(tree, dict) else set()
    if {"object", "type"} <= keys:
        return Classified(Verdict.MISTAKE, _NOT_STATE["WatchEvent"])
    for file, its_keys in _FILES_BESIDE.items():
        if its_keys <= keys and "metadata" not in keys:
            reason = f"not a Kubernetes object (looks like {file})"
            return Classified(Verdict.NOT_KUBERNETES, reason)
    return Classified(Verdict.MISTAKE, "not a Kubernetes object: kind is missing")


def plural(kind: str) -> str:
    """Return the name of many objects of a kind."""
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def command_to_add(kinds: Iterable[str]) -> str:
    """Return the command whose output adds all objects of these kinds to an input, "" where none of them is read."""
    read = [plural(kind).lower() for kind in kinds if kind in KINDS]
    return f"kubectl get {','.join(read)} -A -o json" if read else ""
