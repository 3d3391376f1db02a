"""``--explain``: find the one pod that is meant and reduce the prediction to it."""

from __future__ import annotations

import difflib

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.prediction.document import Cancelled, Eviction, Kept, Prediction

_SUGGESTIONS_MAX = 3

PodEntry = Eviction | Kept | Cancelled


def only_pod(prediction: Prediction, name: str) -> Prediction:
    """Return ``prediction`` with the entries of pod ``name`` alone; the rest stays as it is.

    ``name`` is "NAMESPACE/POD" ("pod/POD" and plain "POD" are fine while one namespace has that
    pod). Raises InputError when no pod or more than one is meant.
    """
    namespace, pod = _find(prediction, name)

    def is_meant(entry: PodEntry) -> bool:
        return entry.namespace == namespace and entry.pod == pod

    return msgspec.structs.replace(
        prediction,
        evictions=tuple(filter(is_meant, prediction.evictions)),
        kept=tuple(filter(is_meant, prediction.kept)),
        cancelled=tuple(filter(is_meant, prediction.cancelled)),
    )


def _find(prediction: Prediction, name: str) -> tuple[str, str]:
    pods = {
        (entry.namespace, entry.pod)
        for entries in (prediction.evictions, prediction.kept, prediction.cancelled)
        for entry in entries
    }
    namespace, slash, pod = name.rpartition("/")
    if slash and (namespace, pod) in pods:
        return namespace, pod
    found = sorted(key for key in pods if key[1] == pod) if namespace in ("", "pod") else []
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(_ambiguous(name, found))
    raise InputError(_unknown(name, pods))


def _ambiguous(name: str, found: list[tuple[str, str]]) -> Problem:
    return Problem(
        "several namespaces have a pod of that name",
        location="--explain",
        got=name,
        expected="one of " + ", ".join(f"{namespace}/{pod}" for namespace, pod in found),
    )


def _unknown(name: str, pods: set[tuple[str, str]]) -> Problem:
    known = sorted(f"{namespace}/{pod}" for namespace, pod in pods)
    close = difflib.get_close_matches(name, known[:5000], n=_SUGGESTIONS_MAX)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return Problem(
        "no such pod on a node that this scenario affects: it is not there, "
        "or nothing happens to it" + hint,
        location="--explain",
        got=name,
        expected="NAMESPACE/POD",
    )
