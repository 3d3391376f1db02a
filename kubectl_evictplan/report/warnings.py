"""Warnings sorted by how much they matter to somebody who reads the answer at night."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.report.blocks import Finding, Findings
from kubectl_evictplan.report.verdict import TOLD_CODES

# The input is not the whole cluster: an all-clear may be false. Said first.
LOUD_CODES = frozenset(
    (
        *("kind-not-readable", "nodes-not-listed", "nodes-without-pods", "pods-not-listed"),
        *("single-namespace",),
    )
)
# They tell why windows are wide, in nearly every prediction; wide explains them.
ROUTINE_CODES = frozenset(
    ("monitor-phase-unknown", "queue-order-unknown", "flags-assumed", "large-dump")
)
# What the verdict says of every pod that is stuck.
_TOLD = frozenset((*TOLD_CODES, "unreachable-stuck-terminating"))

_OBJECTS_MAX = 3
_OBJECTS_MAX_WIDE = 100


def alerts(warnings: Iterable[Warning]) -> Findings | None:
    """Return what makes the whole answer doubtful."""
    loud = _findings(w for w in warnings if w.code in LOUD_CODES)
    if not loud:
        return None
    title = "THE INPUT MAY NOT BE THE WHOLE CLUSTER: what it lacks is missing in this answer."
    return Findings(title, loud, _OBJECTS_MAX, "loud")


def warnings_that_matter(warnings: Iterable[Warning]) -> Findings | None:
    """Return what the rest of the report does not say already; of routine the codes alone."""
    elsewhere = LOUD_CODES | ROUTINE_CODES | _TOLD
    found = _findings(w for w in warnings if w.code not in elsewhere)
    routine = list(dict.fromkeys(w.code for w in warnings if w.code in ROUTINE_CODES))
    if routine:
        found += (Finding("noted", f"{', '.join(routine)} (-o wide explains)"),)
    return Findings("Warnings", found, _OBJECTS_MAX) if found else None


def all_warnings(warnings: Iterable[Warning]) -> Findings | None:
    """Return every warning with (nearly) all its objects."""
    found = _findings(warnings)
    return Findings("Warnings", found, _OBJECTS_MAX_WIDE) if found else None


def warnings_about(warnings: Iterable[Warning], pod: str) -> Findings | None:
    """Return the warnings that name a pod ("namespace/name", perhaps with its kind)."""
    named = [
        Finding(w.code, w.message)
        for w in warnings
        if any(one == pod or one.endswith(f" {pod}") for one in w.objects)
    ]
    return Findings("About this pod", tuple(named), 0) if named else None


def _findings(warnings: Iterable[Warning]) -> tuple[Finding, ...]:
    """Return one finding per code and message, codes in the order they come, with all objects."""
    by_code: dict[str, dict[str, dict[str, None]]] = {}
    for warning in warnings:
        objects = by_code.setdefault(warning.code, {}).setdefault(warning.message, {})
        objects.update(dict.fromkeys(warning.objects))
    return tuple(_each(by_code))


def _each(by_code: dict[str, dict[str, dict[str, None]]]) -> Iterator[Finding]:
    for code, messages in by_code.items():
        for message, objects in messages.items():
            yield Finding(code, message, tuple(objects))
