"""What a report says, in which order: a prediction as blocks, for any renderer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from kubectl_evictplan.prediction.document import PARTLY, Coverage, Inputs, Prediction, Renewals
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Block, Figures, Table, Verdict, columns
from kubectl_evictplan.report.evictions import PODS_MAX, group_table, pod_table, wide_table
from kubectl_evictplan.report.verdict import (
    alerts,
    all_warnings,
    verdict,
    warnings_that_matter,
)
from kubectl_evictplan.report.what_happens import timeline
from kubectl_evictplan.report.words import Clock

_GROUPS_MAX = 40
# The label of an assumption among the facts.
ASSUMED = "Assumed"


def contents(
    prediction: Prediction,
    *,
    wide: bool,
    by: str | None,
    zone: tzinfo | None,
    explain: str | None,
    rows_only: bool,
) -> Iterator[Block]:
    """Yield the blocks of a report; ``rows_only`` leaves the table of evictions, all columns."""
    clock = Clock(str(prediction.inputs.start.value), zone)
    if explain is not None:
        from kubectl_evictplan.report.explanation import story

        yield from story(prediction, explain, clock, wide=wide)
        return
    if rows_only:
        yield _evictions(prediction, clock, wide=wide, by=by or "pod", all_columns=True)
        return
    loud = alerts(prediction.warnings)
    if loud is not None:
        yield loud
    yield Verdict(tuple(verdict(prediction, clock, complete=loud is None)))
    if prediction.drains:
        from kubectl_evictplan.report.drains import drain_tables

        yield from drain_tables(prediction, wide=wide)
    if prediction.evictions:
        yield _evictions(prediction, clock, wide=wide, by=by)
    if wide:
        yield from details(prediction)
    if (moments := timeline(prediction, clock, wide=wide)) is not None:
        yield moments
    found = (all_warnings if wide else warnings_that_matter)(prediction.warnings)
    if found is not None:
        yield found
    if wide:
        yield Figures("Inputs", tuple(facts(prediction.inputs, clock)))
    else:
        yield _provenance(prediction.inputs, clock)


def plain_verdict(prediction: Prediction, zone: tzinfo | None) -> tuple[str, ...]:
    """Return the sentences of the answer alone."""
    clock = Clock(str(prediction.inputs.start.value), zone)
    complete = alerts(prediction.warnings) is None
    return tuple(sentence.text for sentence in verdict(prediction, clock, complete=complete))


def _evictions(
    prediction: Prediction,
    clock: Clock,
    *,
    wide: bool,
    by: str | None,
    all_columns: bool = False,
) -> Table:
    if by not in (None, "pod"):
        return group_table(prediction, by)
    if wide:
        return wide_table(prediction.evictions, clock)
    if by is None and len(prediction.evictions) > PODS_MAX:
        return group_table(prediction, "workload", _GROUPS_MAX)
    return pod_table(prediction.evictions, all_columns=all_columns)


def details(prediction: Prediction) -> Iterator[Block]:
    """Yield by name what the verdict counts."""
    if prediction.kept:
        yield Table(
            columns("NAMESPACE", "POD", "NODE", "WHY", "OWNER", "REASON"),
            [
                tuple(map(words.name, (k.namespace, k.pod, k.node, k.code, k.owner, k.reason)))
                for k in prediction.kept
            ],
            "Pods that stay",
        )
    if prediction.cancelled:
        yield Table(
            columns("NAMESPACE", "POD", "NODE", "CERTAINTY", "STARTED", "CANCELLED", "REASON"),
            [
                (
                    *map(words.name, (c.namespace, c.pod, c.node, c.certainty)),
                    *(words.gone(window, exact=True) for window in (c.started, c.cancelled)),
                    words.name(c.reason),
                )
                for c in prediction.cancelled
            ],
            "Timers that are cancelled",
        )


def _provenance(inputs: Inputs, clock: Clock) -> Figures:
    """Return the lines at the end of every report: where the answer comes from."""
    release, horizon = words.sourced(inputs.release), words.sourced(inputs.horizon)
    start = clock.start() or str(inputs.start.value)
    gained = [("Renewals", _gained(inputs.renewals))] if inputs.renewals is not None else []
    return Figures(
        "",
        (
            ("Read", f"{_read(inputs)}; Kubernetes {release}; -o wide tells all"),
            ("Flags", words.flags(inputs)),
            ("Start", f"{start} ({inputs.start.source}) is +0s; horizon {horizon}"),
            *gained,
            *_not_exact(inputs.coverage),
        ),
    )


def _not_exact(found: Coverage | None) -> Iterator[tuple[str, str]]:
    """Say in one line that some windows shown are not exact; nothing where all are."""
    if found is None:
        return
    told = []
    if found.outer_bound:
        told.append(
            f"{words.count(found.outer_bound, 'eviction')} (may be wider than what can happen)"
        )
    if found.explored:
        told.append(f"{words.count(found.explored, 'eviction')} (may be too narrow)")
    if told:
        yield "Windows", f"not exact: {', '.join(told)}; -o wide tells why"


def facts(inputs: Inputs, clock: Clock) -> Iterator[tuple[str, str]]:
    """Yield everything that decided the result."""
    yield "Kubernetes", words.sourced_wholly(inputs.release)
    yield "Provider", words.sourced_wholly(inputs.provider)
    yield "Leader since", words.sourced_wholly(inputs.leader_since)
    yield "Read", _read(inputs)
    ignored = [f"{number} {kind}" for kind, number in sorted(inputs.ignored_kinds.items())]
    yield "Ignored", ", ".join(ignored) or words.NONE
    yield "Digest", inputs.source_digest or words.NONE
    yield "Start", f"{words.sourced(inputs.start)}; {clock.start() or words.UNKNOWN}"
    yield "Horizon", words.sourced(inputs.horizon)
    yield "Monitor phase", words.sourced_wholly(inputs.monitor_phase)
    if inputs.renewals is not None:
        yield "Renewals", _renewals(inputs.renewals)
    for flag, value in sorted(inputs.flags.items()) + sorted(inputs.api_server_flags.items()):
        yield "Flag", f"{flag}={words.sourced_wholly(value)}"
    if inputs.coverage is not None:
        yield "Windows", covered(inputs.coverage)
    for assumption in inputs.assumptions:
        yield ASSUMED, assumption
    yield "Made by", f"kubectl-evictplan {inputs.tool_version}"


def covered(found: Coverage) -> str:
    """Say which windows are exact, and what the others are."""
    told = []
    if found.exact:
        told.append(f"{words.count(found.exact, 'eviction')} with exact windows")
    if found.outer_bound:
        nodes = words.count(len(found.outer_bound_nodes), "node")
        told.append(
            f"{words.count(found.outer_bound, 'eviction')} of {nodes} with outer bounds, which are "
            "proven to hold and may be wider than what can happen"
        )
    if found.explored:
        nodes = words.count(len(found.explored_nodes), "node")
        told.append(
            f"{words.count(found.explored, 'eviction')} of {nodes} with windows over the runs that were "
            "tried, which may be too narrow"
        )
    partly = [unknown.name for unknown in found.unknowns if unknown.explored == PARTLY]
    because = f"; not every choice could be tried of: {', '.join(partly)}" if partly else ""
    if partly:
        because += "; changes of nodes and zones may rest on the same and are not counted here"
    return ("; ".join(told) or "no eviction has a window") + because


def _renewals(found: Renewals) -> str:
    """Say what a second look at the leases gained."""
    return (
        f"two looks {found.apart_seconds:g}s apart: last ones known exactly of {found.exact_now} of "
        f"{words.count(found.kubelets, 'kubelet')}, {found.exact_before} by the first look; of the others "
        f"to within {found.widest_now_seconds:g}s, {found.widest_before_seconds:g}s by the first"
    )


def _gained(found: Renewals) -> str:
    """Say by how much windows that begin with a kubelet's last renewal became narrower."""
    return (
        f"last ones known to within {found.widest_now_seconds:g}s instead of "
        f"{found.widest_before_seconds:g}s by two looks {found.apart_seconds:g}s apart"
    )


def _read(inputs: Inputs) -> str:
    nodes, pods = words.count(inputs.nodes, "node"), words.count(inputs.pods, "pod")
    return f"{nodes}, {pods} in {words.count(inputs.namespaces, 'namespace')}"
