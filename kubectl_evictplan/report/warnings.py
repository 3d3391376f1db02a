"""Warnings sorted by how much they matter to somebody who reads the answer at night."""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Finding, Findings
from kubectl_evictplan.report.verdict import TOLD_CODES

# The input is not the whole cluster: an all-clear may be false. Said first.
LOUD_CODES = {"nodes-not-listed", "nodes-without-pods", "pods-not-listed"}
LOUD_CODES |= {"kind-not-readable", "single-namespace"}
# They tell why windows are wide, in nearly every prediction; wide explains them.
ROUTINE_CODES = {"monitor-phase-unknown", "queue-order-unknown", "flags-assumed", "large-dump"}
# What the verdict says of every pod that is stuck.
_TOLD = {*TOLD_CODES, "unreachable-stuck-terminating"}

_OBJECTS_MAX = 3
_OBJECTS_MAX_WIDE = 100


def alerts(warnings: Iterable[Warning]) -> Findings | None:
    """Return what makes the whole answer doubtful."""
    loud = _findings((w for w in warnings if w.code in LOUD_CODES), _OBJECTS_MAX)
    if not loud:
        return None
    title = "THE INPUT MAY NOT BE THE WHOLE CLUSTER: what it lacks is missing in this answer."
    return Findings(title, loud, "loud")


def warnings_that_matter(warnings: Iterable[Warning]) -> Findings | None:
    """Return what the rest of the report does not say already; of routine the codes alone."""
    elsewhere = LOUD_CODES | ROUTINE_CODES | _TOLD
    found = _findings((w for w in warnings if w.code not in elsewhere), _OBJECTS_MAX)
    routine = list(dict.fromkeys(w.code for w in warnings if w.code in ROUTINE_CODES))
    if routine:
        found += (Finding("noted", f"{', '.join(routine)} (-o wide explains)"),)
    return Findings("Warnings", found) if found else None


def all_warnings(warnings: Iterable[Warning]) -> Findings | None:
    """Return every warning with (nearly) all its objects."""
    found = _findings(warnings, _OBJECTS_MAX_WIDE)
    return Findings("Warnings", found) if found else None


def warnings_about(warnings: Iterable[Warning], pod: str) -> Findings | None:
    """Return the warnings that name a pod ("namespace/name", perhaps with its kind)."""
    named = [
        Finding(w.code, w.message)
        for w in warnings
        if any(one == pod or one.endswith(f" {pod}") for one in w.objects)
    ]
    return Findings("About this pod", tuple(named)) if named else None


def _findings(warnings: Iterable[Warning], objects_max: int) -> tuple[Finding, ...]:
    """Return one finding per code and message, codes in the order they come, with all objects."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for warning in warnings:
        objects = found.setdefault((warning.code, warning.message), {})
        objects.update(dict.fromkeys(warning.objects))
    codes = list(dict.fromkeys(code for code, _ in found))
    return tuple(
        Finding(*named, words.listed(objects, objects_max))
        for named, objects in sorted(found.items(), key=lambda item: codes.index(item[0][0]))
    )
