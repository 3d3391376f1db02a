"""A fact of the impact, as one side of a comparison has it, in a few words; instants to the millisecond."""

from __future__ import annotations

from kubectl_evictplan.prediction.difference_document import ImpactSide
from kubectl_evictplan.prediction.impact_document import Instant, Spell
from kubectl_evictplan.prediction.records import CERTAIN
from kubectl_evictplan.report import words


def told(side: ImpactSide | None) -> str:
    """Return e.g. ``0 to 2``, ``+378s .. +400s`` or ``+50s until never (possible)``."""
    if side is None:
        return words.NONE
    if side.count is not None:
        least, most = side.count.least, side.count.most
        return f"{least}" if least == most else f"{least} to {most}"
    if side.instant is not None:
        return _instant(side.instant)
    several = [words.name(one) for one in side.names or ()] + list(map(_spell, side.spells or ()))
    return "; ".join(several) or "none"


def _spell(spell: Spell) -> str:
    possible = "" if spell.certainty == CERTAIN else " (possible)"
    return f"{_instant(spell.since)} until {_instant(spell.until)}{possible}"


def _instant(value: Instant) -> str:
    first, last = value.earliest_seconds, value.latest_seconds
    if first is None:
        return "never"
    if last is None:
        return f"+{first:.10g}s or later, perhaps never"
    return f"+{first:.10g}s" if first == last else f"+{first:.10g}s .. +{last:.10g}s"
