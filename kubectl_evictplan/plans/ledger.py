"""Predicted against actual: ``ledger_of`` holds a prediction against what was seen.

Reality has left the windows when a deletion lies wholly outside of all its windows, when a pod went of which
that was not predicted, or when one stayed that was certain to go. Whatever cannot be told is *unknown*, with
the reason: a look that is missing never counts as "nothing happened".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import Interval
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.plans import ledger_nodes, ledger_pods
from kubectl_evictplan.plans.expectation import NOT_DONE, Begun, Expectation, Start
from kubectl_evictplan.plans.ledger_document import (
    LEFT,
    NOT_YET_DUE,
    UNKNOWN,
    DrainEntry,
    GapEntry,
    Ledger,
    NodeEntry,
    OperationEntry,
    PodEntry,
    Span,
    Summary,
)
from kubectl_evictplan.plans.sightings import PodHistories, Sightings
from kubectl_evictplan.prediction.document import CERTAIN


def ledger_of(
    expectation: Expectation, sightings: Sightings, start: Start, done: Sequence[Begun] = ()
) -> Ledger:
    """Return the ledger.

    ``done`` has the operations of the plan that were begun, by ``apply``'s journal; empty when somebody
    else carried the change out: everything then counts from ``start``. The plan's own pods count as seen
    when its snapshot was taken.
    """
    begun = {one.number: one for one in done}
    histories = PodHistories(sightings, expectation.known, expectation.known_at_ns)
    origin = ledger_pods.Origin(start.at.earliest_ns)
    pods = ledger_pods.entries(expectation, histories, sightings, start, begun)
    nodes = ledger_nodes.entries(expectation, sightings, start, begun)
    drains = ledger_nodes.drain_entries(expectation, pods, histories, sightings, start, begun)
    operations = tuple(_operations(expectation, begun, origin))
    return Ledger(
        expectation.title,
        expectation.fingerprint,
        format_rfc3339(start.at.earliest_ns),
        round(start.at.width_ns / SECOND_NS, 6),
        start.source,
        origin.span(sightings.looked),
        _summary(pods, nodes, drains, operations),
        pods,
        nodes,
        drains,
        operations,
        tuple(_gap(origin, gap.at, gap.why) for gap in sightings.gaps),
        dict(sorted(sightings.not_evaluated.items())),
        dict(sorted(sightings.unreadable.items())),
        _oddities(expectation, histories, sightings),
        expectation.prediction.fingerprint,
    )


def _oddities(
    expectation: Expectation, histories: PodHistories, sightings: Sightings
) -> dict[str, int]:
    """Return the oddities; pods that are all gone are odd only while nothing tells the cluster."""
    found = dict(sorted(histories.oddities.items()))
    ours = {one.uid for one in sightings.own} & {pod.uid for pod in expectation.known}
    uids = {node.uid for look in sightings.looks for node in look.nodes or ()}
    if ours or uids & expectation.node_uids:
        found.pop("no-known-pod", None)
    return found


def has_left(entry: PodEntry | NodeEntry | DrainEntry) -> bool:
    """Tell whether reality is not what was predicted; pods that no prediction knows do not count."""
    return entry.verdict in LEFT and entry.why not in ("created-later", "finished-before")


def goes_on(ledger: Ledger) -> bool:
    """Tell whether anything is still to come."""
    entries: list[PodEntry | NodeEntry | DrainEntry] = [
        *ledger.pods,
        *ledger.nodes,
        *ledger.drains,
    ]
    return any(one.verdict == NOT_YET_DUE and not one.why for one in entries)


def _operations(
    expectation: Expectation, begun: dict[int, Begun], origin: ledger_pods.Origin
) -> Iterable[OperationEntry]:
    for one in expectation.operations if begun else ():
        known = begun.get(one.number)
        yield OperationEntry(
            one.number,
            one.told,
            one.node,
            one.at_seconds,
            origin.span(known.at) if known and known.at else None,
            known.became if known else NOT_DONE,
            _taken_back(known, origin),
        )


def _taken_back(begun: Begun | None, origin: ledger_pods.Origin) -> Span | None:
    if begun is None or begun.undone_ns is None:
        return None
    return origin.span(Interval(begun.undone_ns, begun.undone_ns))


def _gap(origin: ledger_pods.Origin, at: Interval, why: str) -> GapEntry:
    span = origin.span(at)
    return GapEntry(span.earliest_seconds, span.latest_seconds, why)


def _summary(
    pods: Sequence[PodEntry],
    nodes: Sequence[NodeEntry],
    drains: Sequence[DrainEntry],
    operations: Sequence[OperationEntry],
) -> Summary:
    every: list[PodEntry | NodeEntry | DrainEntry] = [*pods, *nodes, *drains]
    off = [abs(one.off_by_seconds) for one in every if one.off_by_seconds]
    return Summary(
        any(map(has_left, every)),
        not any(map(_is_open, every)),
        _counts(pods),
        _counts(nodes),
        _counts(drains),
        sum(pod.by_others for pod in pods),
        max(off, default=None),
        dict(sorted(Counter(one.outcome for one in operations).items())),
    )


def _is_open(entry: PodEntry | NodeEntry | DrainEntry) -> bool:
    """Tell whether something is undecided; changes of nodes that need not happen leave no mark."""
    is_mere = isinstance(entry, NodeEntry) and entry.certainty != CERTAIN
    return entry.verdict in (UNKNOWN, NOT_YET_DUE) and not (is_mere and entry.verdict == UNKNOWN)


def _counts(entries: Iterable[PodEntry | NodeEntry | DrainEntry]) -> dict[str, int]:
    return dict(sorted(Counter(one.verdict for one in entries).items()))
