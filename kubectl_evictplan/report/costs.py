"""What a prediction costs, in the few sentences that matter most: services with nobody, majorities and budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubectl_evictplan.impact.replacement_words import stays_pending
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.scheduling.answers import Unknown
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Prediction
from kubectl_evictplan.prediction.impact_document import (
    BudgetImpact,
    ReplacementFit,
    Spell,
)
from kubectl_evictplan.prediction.records import notable
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Phrase, Tone
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS

_NAMED_MAX = 3


class _Hit(msgspec.Struct, frozen=True):
    """One line: ``seconds`` None, it may last for ever; ``endless``: it does."""

    name: str
    certainty: str
    seconds: float | None
    endless: bool


def costs(prediction: Prediction) -> Iterator[Phrase]:
    """Yield at most one sentence each for what is certain and what is possible; nothing where nothing is hit."""
    impact = prediction.impact
    if impact is None:
        return
    # Who is sent to pods that are ending may have an answer while nobody is ready.
    services = notable(impact.services)
    unready = [s for s in services if _sure(s.nobody_ready) and not _sure(s.nobody_answers)]
    answers = _hits(
        (f"{s.namespace}/{s.service}", (*s.nobody_answers, *s.nobody_ready))
        for s in services
        if s not in unready
    )
    noun = "service" if any(one.source != "labels" for one in services) else "app"
    yield from _services(noun, answers, "answers for")
    ready = _hits((f"{s.namespace}/{s.service}", s.nobody_ready) for s in unready)
    yield from _services(noun, ready, "is ready behind")
    for one in impact.quorums:
        if one.majority_lost:
            sure = any(spell.certainty == CERTAIN for spell in one.majority_lost)
            verb = "loses" if sure else "may lose"
            yield Phrase(
                f"{words.name(one.name)} {verb} its majority: {one.needed} of {one.members} are needed.",
                "stuck",
            )
    yield from _budgets(impact.budgets)
    replacements = notable(impact.replacements)
    yield from _pending(replacements)
    yield from _gated(replacements)
    yield from _assumed(replacements)


def _pending(replacements: Sequence[ReplacementFit]) -> Iterator[Phrase]:
    """Say whose replacements find no node at all."""
    names = _named(filter(stays_pending, replacements))
    if names:
        text = f"Replacements of {words.count(len(names), 'workload')} fit on no node that is left"
        yield Phrase(f"{text}: {words.listed(names, _NAMED_MAX)}.", "stuck")


def _gated(replacements: Sequence[ReplacementFit]) -> Iterator[Phrase]:
    """Say whose replacements nobody schedules yet."""
    names = _named(one for one in replacements if Unknown.GATES in one.unknown)
    if names:
        text = f"Replacements of {words.count(len(names), 'workload')} wait until somebody takes"
        yield Phrase(
            f"{text} their scheduling gates off: {words.listed(names, _NAMED_MAX)}.", "stuck"
        )


def _named(fits: Iterable[ReplacementFit]) -> list[str]:
    return list(dict.fromkeys(f"{one.namespace}/{one.workload.partition('/')[2]}" for one in fits))


def _assumed(replacements: Sequence[ReplacementFit]) -> Iterator[Phrase]:
    """Say where ends of outages rest on places that nobody knows of."""
    assumed = sum(one.assumed for one in replacements)
    if assumed:
        yield Phrase(
            "What pods need, or what nodes have left, is not in the input: replacements of "
            f"{words.count(assumed, 'group')} of pods count as if they found a node at once.",
            "possible",
        )


def _hits(named: Iterable[tuple[str, Iterable[Spell]]]) -> list[_Hit]:
    found: list[_Hit] = []
    for name, spells in named:
        some = list(spells)
        sure = [spell for spell in some if spell.certainty == CERTAIN]
        lasting = [spell.most_seconds for spell in sure or some]
        if some:
            longest = None if None in lasting else max(filter(None, lasting), default=0.0)
            endless = any(spell.least_seconds is None for spell in sure)
            found.append(_Hit(name, CERTAIN if sure else POSSIBLE, longest, endless))
    return found


def _sure(spells: Iterable[Spell]) -> bool:
    return any(spell.certainty == CERTAIN for spell in spells)


def _services(noun: str, hits: Sequence[_Hit], verb: str) -> Iterator[Phrase]:
    """``verb``: what nobody does."""
    for certainty in (CERTAIN, POSSIBLE):
        some = [hit for hit in hits if hit.certainty == certainty]
        if some:
            some.sort(key=lambda hit: (hit.seconds is not None, -(hit.seconds or 0.0), hit.name))
            nobody = f"Nobody {verb}" if certainty == CERTAIN else f"Perhaps nobody {verb}"
            names = words.listed([_lasting(hit) for hit in some], _NAMED_MAX)
            tone: Tone = "stuck" if certainty == CERTAIN else "possible"
            yield Phrase(f"{nobody} {words.count(len(some), noun)}: {names}.", tone)


def _lasting(hit: _Hit) -> str:
    if hit.seconds is None or hit.seconds * SECOND_NS >= HORIZON_DEFAULT_MAX_NS:
        return f"{hit.name} ({'no end in sight' if hit.endless else 'perhaps without end'})"
    return f"{hit.name} (up to {words.offset(float(math.ceil(hit.seconds))).removeprefix('+')})"


def _budgets(budgets: Iterable[BudgetImpact]) -> Iterator[Phrase]:
    broken = [one for one in budgets if any(s.certainty == CERTAIN for s in one.broken)]
    if not broken:
        return
    broken.sort(key=lambda one: (-one.broken_by.most, one.namespace, one.budget))
    names = [
        f"{one.namespace}/{one.budget} ({one.fewest_healthy.least} healthy of {one.desired_healthy} wanted)"
        for one in broken
    ]
    asked = "" if any("asked" in one.paths for one in broken) else " by deletions that ask none"
    text = f"{words.count(len(broken), 'disruption budget')} {words.verb(len(broken), 'is', 'are')} broken{asked}"
    yield Phrase(f"{text}: {words.listed(names, _NAMED_MAX)}.", "stuck")
