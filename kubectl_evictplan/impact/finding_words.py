"""Instants, spells and numbers in the sentences of findings."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.prediction.impact_document import Instant, Spell
from kubectl_evictplan.prediction.records import CERTAIN


def at(at_seconds: float) -> str:
    """An instant after the start, to the second."""
    return "+" + format_duration(round(at_seconds) * SECOND_NS)


def told_since(since: Instant) -> str:
    """When something begins, as one instant or two."""
    low = since.earliest_seconds or 0.0
    high = low if since.latest_seconds is None else since.latest_seconds
    return at(low) if round(low) == round(high) else f"{at(low)} to {at(high)}"


def told_spell(spell: Spell) -> str:
    """From when until when, and how sure that is."""
    first, last = spell.until.earliest_seconds, spell.until.latest_seconds
    if last is not None:
        until = f"until {at(math.ceil(last))} at the latest"
    elif spell.certainty != CERTAIN:
        until = "perhaps without end"
    elif first is not None:
        until = f"until {at(math.floor(first))} at the earliest, perhaps without end"
    else:
        until = "with no end in sight"
    may = "" if spell.certainty == CERTAIN else "possibly "
    return f"{may}from {told_since(spell.since)}, {until}"


def longest(spells: Iterable[Spell]) -> Spell | None:
    """The one to be told: certain ones first; None of none."""
    return max(spells, key=lambda one: (one.certainty == CERTAIN, lasts(one)), default=None)


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" + ("s" if number != 1 else "")


def be(number: int) -> str:
    """The verb of so many."""
    return "is" if number == 1 else "are"


def lasts(spell: Spell) -> float:
    """Seconds, at most."""
    return math.inf if spell.most_seconds is None else spell.most_seconds


def numbers(least: int, most: int) -> str:
    """One number, or from which to which."""
    return str(least) if least == most else f"{least} to {most}"
