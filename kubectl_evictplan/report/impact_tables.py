"""What a change costs, as tables: Services, workloads, budgets, volumes, what does not come back, and findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from kubectl_evictplan.impact.finding_kinds import SEVERITIES
from kubectl_evictplan.impact.replacement_words import fit_sentence
from kubectl_evictplan.prediction.impact_document import (
    BudgetImpact,
    Count,
    Impact,
    Instant,
    Spell,
)
from kubectl_evictplan.prediction.records import CERTAIN
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import (
    Block,
    Column,
    Figures,
    Finding,
    Findings,
    Phrase,
    Row,
    Table,
    Tone,
    columns,
)

_NOTHING = "none"
_TONES: dict[str, Tone] = {"critical": "loud", "high": "certain", "medium": "possible"}


def finding_table(impact: Impact) -> Table | None:
    """Return what a reviewer must know, the worst first; None without any."""
    if not impact.findings:
        return None
    found = sorted(impact.findings, key=lambda one: (-SEVERITIES.index(one.severity), one.code))
    rows: list[Row] = [
        (
            Phrase(one.severity, _TONES.get(one.severity, "plain")),
            one.code,
            one.summary if one.certainty == CERTAIN else f"{one.summary} (possible)",
            one.remedy or _NOTHING,
        )
        for one in found
    ]
    heads = columns("SEVERITY", "CODE", "WHAT", "WHAT TO DO")
    note = "`kubectl evictplan explain CODE` tells more of each.".replace("`", "")
    return Table(heads, rows, "Findings", notes=(note,))


def impact_tables(impact: Impact) -> Iterator[Block]:
    """Yield the tables that have rows, the worst hit first in each."""
    yield from _named("Services", _services(impact), _SERVICE)
    yield from _named("Workloads", _workloads(impact), _WORKLOAD)
    yield from _named("Disruption budgets", _budgets(impact), _BUDGET)
    yield from _named("Groups that need a majority", _quorums(impact), _QUORUM)
    yield from _named("Where replacements can run", _replacements(impact), _REPLACEMENT)
    yield from _named("Volumes", _volumes(impact), _VOLUME)
    yield from _named("What does not come back by itself", _lost(impact), _LOST)


def not_evaluated(impact: Impact | None, assumptions: Iterable[str]) -> Iterator[Block]:
    """Yield what was assumed, and what nobody looked at."""
    told = list(assumptions)
    if impact is None:
        gaps: Sequence[str] = ("what the change costs Services and workloads",)
    else:
        told += [one for one in impact.assumptions if one not in told]
        gaps = impact.not_evaluated
    if told:
        yield Figures("Assumed", tuple((str(at), text) for at, text in enumerate(told, 1)))
    if gaps:
        found = tuple(Finding("not-evaluated", text) for text in gaps)
        yield Findings("Not evaluated", found, "loud")


def _named(title: str, rows: Iterable[Row], heads: tuple[Column, ...]) -> Iterator[Table]:
    if found := list(rows):
        yield Table(heads, found, title)


# -- rows -------------------------------------------------------------------------------------------

_SERVICE = columns(
    *(
        "NAMESPACE",
        "SERVICE",
        "READY",
        "FEWEST",
        "NOBODY ANSWERS",
        "FOR",
        "UNDETECTED",
        "WHOLE AGAIN",
    ),
)
_WORKLOAD = columns(
    *(
        "NAMESPACE",
        "WORKLOAD",
        "READY",
        "FEWEST",
        "NOBODY READY",
        "FOR",
        "FEWER FOR",
        "WHOLE AGAIN",
    ),
    "NEVER REPLACED",
)
_BUDGET = columns("NAMESPACE", "BUDGET", "WANTS", "FEWEST", "BROKEN", "FOR", "ASKED")
_QUORUM = columns("GROUP", "MEMBERS", "NEEDED", "FEWEST", "MAJORITY LOST", "FOR", "TOLD BY")
_VOLUME = columns("NAMESPACE", "CLAIM", "POD", "NODE", "WHAT", "FREE", "WHY")
_LOST = columns("NAMESPACE", "POD", "NODE", "WHAT", "WHY", "RELEASED BY")

_REPLACEMENT = columns("NAMESPACE", "WORKLOAD", "PODS", "WHAT", "NODES")
# The verdicts of ``ReplacementFit``, the worst first.
_FITS: dict[str, Tone] = {
    "nowhere": "stuck",
    "onlyOnLeaving": "stuck",
    "noRoomLeft": "stuck",
    "partly": "possible",
    "unknown": "possible",
    "fits": "good",
}


def _services(impact: Impact) -> Iterator[Row]:
    touched = [
        one
        for one in impact.services
        if min(one.fewest_ready.least, one.fewest_answering.least) < one.endpoints_before
        or one.nobody_answers
    ]
    for one in sorted(
        touched,
        key=lambda s: (badness(s.nobody_answers), s.namespace, s.service),
    ):
        yield (
            words.name(one.namespace),
            words.name(one.service),
            str(one.endpoints_before),
            _count(one.fewest_answering),
            *_spells(one.nobody_answers),
            _spells(() if one.undetected is None else (one.undetected,))[1],
            instant(one.whole_again),
        )


def _workloads(impact: Impact) -> Iterator[Row]:
    touched = [
        one for one in impact.workloads if one.below_before or one.zero or one.never_replaced
    ]
    for one in sorted(
        touched,
        key=lambda w: (badness(w.zero), badness(w.below_before), w.namespace, w.workload),
    ):
        yield (
            words.name(one.namespace),
            words.name(one.workload),
            str(one.ready_before),
            _count(one.fewest_ready),
            *_spells(one.zero),
            _spells(one.below_before)[1],
            instant(one.whole_again),
            words.listed(one.never_replaced, 3) or _NOTHING,
        )


def _budgets(impact: Impact) -> Iterator[Row]:
    for one in sorted(impact.budgets, key=lambda b: (badness(b.broken), b.namespace, b.budget)):
        yield (
            words.name(one.namespace),
            words.name(one.budget),
            words.UNKNOWN if one.desired_healthy is None else str(one.desired_healthy),
            _count(one.fewest_healthy),
            *(("short before", _NOTHING) if _was_short(one) else _spells(one.broken)),
            ", ".join(map(words.name, one.paths)) or _NOTHING,
        )


def _was_short(one: BudgetImpact) -> bool:
    """Whether fewer than it wants are healthy all along, and the change takes none of these."""
    return not one.broken and one.healthy_before < (one.desired_healthy or 0)


def _quorums(impact: Impact) -> Iterator[Row]:
    for one in sorted(impact.quorums, key=lambda q: (badness(q.majority_lost), q.name)):
        yield (
            words.name(one.name),
            str(one.members),
            str(one.needed),
            _count(one.fewest_voting),
            *_spells(one.majority_lost),
            words.name(one.told_by),
        )


def _volumes(impact: Impact) -> Iterator[Row]:
    for one in impact.volumes:
        what = (one.namespace, one.claim, one.pod, one.node, one.code)
        yield (*map(words.name, what), instant(one.free), one.why)


def _replacements(impact: Impact) -> Iterator[Row]:
    ranks = list(_FITS)
    for one in sorted(
        impact.replacements, key=lambda r: (ranks.index(r.verdict), r.namespace, r.workload)
    ):
        yield (
            words.name(one.namespace),
            words.name(one.workload),
            str(one.pods),
            Phrase(fit_sentence(one), _FITS[one.verdict]),
            _nodes(one.nodes, one.on_nodes - len(one.nodes)) or _NOTHING,
        )


@lru_cache(maxsize=10_000)  # many groups of replacements fit on the same nodes
def _nodes(names: tuple[str, ...], more: int) -> str:
    return ", ".join((*map(words.name, names), *((f"{more} more",) if more > 0 else ())))


def _lost(impact: Impact) -> Iterator[Row]:
    for one in impact.not_coming_back:
        named = map(words.name, (one.namespace, one.pod, one.node, one.code))
        yield (*named, one.why, one.release or "nothing")


# -- words ------------------------------------------------------------------------------------------


@lru_cache(maxsize=10_000)  # many workloads lose as much at the same time
def instant(found: Instant) -> str:
    """Return when something happens, or that it never does."""
    if found.earliest_seconds is None:
        return "never"
    return words.window(found.earliest_seconds, found.latest_seconds)


def _count(found: Count) -> str:
    return words.between(found.least, found.most)


@lru_cache(maxsize=10_000)
def _spells(spells: tuple[Spell, ...]) -> tuple[Phrase | str, str]:
    """Return when they begin and end, and how long they last together."""
    if not spells:
        return _NOTHING, _NOTHING
    sure = any(one.certainty == CERTAIN for one in spells)
    first, more = spells[0], len(spells) - 1
    until = instant(first.until)
    text = f"from {instant(first.since)}" + (
        ", without end" if until == "never" else f", until {until}"
    )
    if not sure:
        # It need not begin at all: only how far it can reach is known.
        last = first.until.latest_seconds
        span = words.window(first.since.earliest_seconds, last)
        text = f"possibly {'at ' if last is None else 'within '}{span}"
    if more:
        text += " and once more" if more == 1 else f" and {more} times more"
    sums = (_sum(one.least_seconds for one in spells), _sum(one.most_seconds for one in spells))
    return Phrase(text, "certain" if sure else "possible"), words.lasting(*sums)


def _sum(lasting: Iterable[float | None]) -> float | None:
    """Return how long they last together; None without an end."""
    found = list(lasting)
    known = [one for one in found if one is not None]
    return None if len(known) < len(found) else sum(known)


@lru_cache(maxsize=10_000)
def badness(spells: tuple[Spell, ...]) -> tuple[float, float]:
    """Return a sort key: certain before possible before none, longer before shorter."""
    if not spells:
        return 2, 0.0
    sure = any(one.certainty == CERTAIN for one in spells)
    lasting = [math.inf if one.most_seconds is None else one.most_seconds for one in spells]
    return (0 if sure else 1), -sum(lasting)
