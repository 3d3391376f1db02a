"""Bounds as the document tells them: seconds instead of nanoseconds, null instead of for ever."""

from __future__ import annotations

from functools import lru_cache

from kubectl_evictplan.impact.availability import Availability, Dip
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.impact_document import Count, Instant, Spell, Step
from kubectl_evictplan.prediction.records import CERTAIN, POSSIBLE

# More steps of one curve nobody sees.
STEPS_MAX = 60


@lru_cache(maxsize=100_000)  # pods of one node share their instants
def seconds_or_null(at_ns: int) -> float | None:
    """Seconds; null for never."""
    return None if at_ns >= FOREVER_NS else seconds(at_ns)


@lru_cache(maxsize=100_000)
def instant(when: Between) -> Instant:
    """A window of the document."""
    return Instant(seconds_or_null(when.earliest_ns), seconds_or_null(when.latest_ns))


def spell(dip: Dip) -> Spell:
    """A stretch in which there are too few."""
    low_ns, high_ns = dip.possible
    most = None if high_ns >= FOREVER_NS else seconds(high_ns - low_ns)
    least = None if dip.least_ns >= FOREVER_NS // 2 else seconds(dip.least_ns)
    certainty = CERTAIN if dip.certain else POSSIBLE
    return Spell(certainty, instant(dip.since), instant(dip.until), least, most)


def spells(availability: Availability, wanted: int) -> tuple[Spell, ...]:
    """When there are fewer than wanted."""
    return tuple(map(spell, availability.below(wanted)))


def fewest(availability: Availability) -> Count:
    """The least number over time."""
    return Count(*availability.fewest)


def whole_again(availability: Availability, mark: int | None = None) -> Instant:
    """From when on as many are there as before, or ``mark``."""
    dips = availability.below(availability.before if mark is None else mark)
    if not dips:
        return Instant(0.0, 0.0)
    certain = [dip for dip in dips if dip.certain]
    earliest_ns = certain[-1].until.earliest_ns if certain else dips[0].possible[0]
    return Instant(seconds_or_null(earliest_ns), seconds_or_null(dips[-1].possible[1]))


def steps(availability: Availability) -> tuple[Step, ...]:
    """The curve, from the first change on; neighbours become one where there are too many, bounds stay bounds."""
    found = list(availability.steps())
    if len(found) <= STEPS_MAX:
        return tuple(Step(seconds_or_null(at) or 0.0, low, high) for at, low, high in found)
    size = -(-len(found) // STEPS_MAX)
    parts = [found[at : at + size] for at in range(0, len(found), size)]
    return tuple(
        Step(seconds_or_null(part[0][0]) or 0.0, min(s[1] for s in part), max(s[2] for s in part))
        for part in parts
    )
