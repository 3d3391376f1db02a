"""Stretches of time with bounds: when something may be away, and when it surely is.

Instants are offsets in integer nanoseconds, ``FOREVER_NS`` means never. A stretch is half open: (from, until). What is
away in one admissible run and there in another is *possibly* away; what is away in all is *surely* away.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

FOREVER_NS = 1 << 62
Stretch = tuple[int, int]


class Between(NamedTuple):
    """Something happens between the two; ``latest_ns`` FOREVER_NS: perhaps never; both: never."""

    earliest_ns: int
    latest_ns: int

    def later(self, least_ns: int, most_ns: int) -> Between:
        """So long after it, at least and at most."""
        return Between(_add(self.earliest_ns, least_ns), _add(self.latest_ns, most_ns))

    @property
    def never(self) -> bool:
        """Whether it happens in no run."""
        return self.earliest_ns >= FOREVER_NS


NEVER = Between(FOREVER_NS, FOREVER_NS)


def exactly(at_ns: int) -> Between:
    """An instant that is known."""
    return Between(at_ns, at_ns)


def _add(at_ns: int, delay_ns: int) -> int:
    return FOREVER_NS if at_ns >= FOREVER_NS or delay_ns >= FOREVER_NS else at_ns + delay_ns


def first_of(*instants: Between) -> Between:
    """Whichever comes first."""
    return Between(min([one[0] for one in instants]), min([one[1] for one in instants]))


def last_of(*instants: Between) -> Between:
    """Whichever comes last."""
    return Between(max([one[0] for one in instants]), max([one[1] for one in instants]))


class Anchor(NamedTuple):
    """The certain beginning of an absence, somewhere in a window, that lasts at least so long.

    Absences on one node with one ``together`` (None: nothing is known) begin at the same instant: their windows are
    one unknown, not several.
    """

    since: Between
    least_ns: int
    together: Hashable
    # The absence is sure from the end of the window on: the anchor only tells better how long it lasts.
    seen: bool


class Absence(NamedTuple):
    """When one pod is not there: disjoint sorted stretches, and certain beginnings."""

    possible: tuple[Stretch, ...] = ()
    sure: tuple[Stretch, ...] = ()
    anchors: tuple[Anchor, ...] = ()


NONE = Absence()


def absence(
    since: Between,
    until: Between,
    *,
    certain: bool,
    least_ns: int = 0,
    together: Hashable = None,
) -> Absence:
    """One absence from one instant to another; ``least_ns`` is how long it lasts at least."""
    if since.never:
        return NONE
    possible = (
        ((since.earliest_ns, until.latest_ns),) if until.latest_ns > since.earliest_ns else ()
    )
    if not certain or since.latest_ns >= FOREVER_NS:
        return Absence(possible)
    sure = ((since.latest_ns, until.earliest_ns),) if until.earliest_ns > since.latest_ns else ()
    lasts_ns = max(least_ns, until.earliest_ns - since.latest_ns)
    anchors = (Anchor(since, lasts_ns, together, bool(sure)),) if lasts_ns > 0 else ()
    return Absence(possible, sure, anchors)


def union(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Sorted and disjoint; stretches that touch become one."""
    merged: list[Stretch] = []
    for low_ns, high_ns in sorted(stretches):
        if merged and low_ns <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high_ns)
        else:
            merged.append((low_ns, high_ns))
    return tuple(merged)


def together(*absences: Absence) -> Absence:
    """One pod's absences as one."""
    found = [one for one in absences if one.possible]
    if not found:
        return NONE
    whole = found[0]
    for one in found[1:]:
        whole = whole if _covers(whole, one) else one
    if all(one is whole or _covers(whole, one) for one in found):
        return whole
    sure = union(stretch for one in found for stretch in one.sure)
    anchors = dict.fromkeys(anchor for one in found for anchor in one.anchors)
    return Absence(
        union(stretch for one in found for stretch in one.possible),
        sure,
        # Who is surely away already does not go.
        tuple(anchor for anchor in anchors if not meets(anchor.since, sure)),
    )


def _covers(whole: Absence, part: Absence) -> bool:
    """Whether one absence, of one stretch, says all that another does; the usual case, told quickly."""
    if len(whole.possible) != 1 or len(whole.sure) > 1:
        return False
    low_ns, high_ns = whole.possible[0]
    if part.possible[0][0] < low_ns or part.possible[-1][1] > high_ns:
        return False
    if not whole.sure:
        return not part.sure and not part.anchors
    low_ns, high_ns = whole.sure[0]
    if part.sure and (part.sure[0][0] < low_ns or part.sure[-1][1] > high_ns):
        return False
    return all(meets(anchor.since, whole.sure) for anchor in part.anchors)


def meets(when: Between, stretches: Iterable[Stretch]) -> bool:
    """Whether a window and one of the stretches have an instant in common."""
    earliest_ns, latest_ns = when
    for low_ns, high_ns in stretches:  # noqa: SIM110 - asked several times of every pod
        if low_ns < latest_ns and high_ns > earliest_ns:
            return True
    return False


def first_outside(at_ns: int, stretches: Iterable[Stretch]) -> int:
    """The first instant from ``at_ns`` on that lies in none of the sorted stretches."""
    for low_ns, high_ns in stretches:
        if low_ns <= at_ns < high_ns:
            at_ns = high_ns
    return at_ns
