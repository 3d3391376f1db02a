"""What leads to one of several disjoint outcomes rather than to the others.

Either the monitor's phase decides (each outcome has pieces of its own: a tick falls between two moments),
or which of a node's waits it is tainted in, or its place in the line, or whether an older countdown runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from kubectl_evictplan.windows.spans import Span


class MomentKind(Enum):
    """Why it matters whether a tick comes before or after a moment."""

    LAST_HEARTBEAT = "last heartbeat"
    EVENT = "event"
    STARTUP_DEADLINE = "startup deadline"
    START = "start"
    PROCESS_START = "process start"
    REFILL = "refill"
    TIMER = "timer"


class Moment(msgspec.Struct, frozen=True):
    """An offset at which it matters whether a tick of the node monitor comes just before or after."""

    at_ns: int
    kind: MomentKind
    node: str


class TickBetween(msgspec.Struct, frozen=True):
    """A tick of the node monitor falls after the one moment and before the other."""

    after: Moment
    before: Moment


class TaintedInWait(msgspec.Struct, frozen=True):
    """The node is tainted in its ``number``-th wait (from 1), not in an earlier one."""

    number: int


class PlaceInLine(msgspec.Struct, frozen=True):
    """The node is tainted before, or after, other nodes of its zone that wait as well."""

    first: bool


class OlderCountdown(msgspec.Struct, frozen=True):
    """A countdown runs on that began for a taint which is gone: see ``older_countdowns``."""


Circumstance = TickBetween | TaintedInWait | PlaceInLine | OlderCountdown | None


class Contribution(msgspec.Struct, frozen=True):
    """One piece's share in an outcome.

    ``between`` are the moments at both ends of its phases, if known; ``wait`` is the first wait in which the
    node is served (None: not at all).
    """

    piece: int
    between: tuple[Moment, Moment] | None
    wait: int | None


def tell_spans_apart(
    spans: Sequence[Span],
    found: Iterable[tuple[Contribution, Sequence[Span]]],
    *,
    alone: bool = False,
) -> tuple[Circumstance, ...]:
    """What leads to each of several spans, given where the share of every piece falls.

    ``alone``: nobody else waits, so it is no place in the line.
    """
    if len(spans) < 2:
        return ()
    shares = list(found)
    return tuple(
        tell_apart(
            [
                [share for share, own in shares if any(a <= high and low <= b for a, b in own)]
                for low, high in spans
            ],
            alone=alone,
        )
    )


def tell_apart(
    outcomes: Sequence[Sequence[Contribution]], *, alone: bool = False
) -> list[Circumstance]:
    """For each of several outcomes, in the order of time, what leads to it; None where nothing simple does."""
    pieces = [{contribution.piece for contribution in outcome} for outcome in outcomes]
    if sum(map(len, pieces)) == len(set().union(*pieces)):
        return [_between(outcome) for outcome in outcomes]
    waits = [{contribution.wait for contribution in outcome} for outcome in outcomes]
    numbers = [next(iter(wait)) for wait in waits if len(wait) == 1]
    if len(numbers) == len(set(numbers)) == len(outcomes) and None not in numbers:
        return [TaintedInWait(number + 1) for number in numbers if number is not None]
    if not alone and len(set().union(*waits)) == 1 and None not in set().union(*waits):
        return [PlaceInLine(first=index == 0) for index in range(len(outcomes))]
    return [None] * len(outcomes)


def _between(outcome: Sequence[Contribution]) -> TickBetween | None:
    """The moments around the phases of an outcome, if these are one stretch."""
    stretches = sorted(
        {c.between for c in outcome if c.between is not None}, key=lambda s: s[0].at_ns
    )
    if not stretches:
        return None
    starts = {after for after, _ in stretches} - {before for _, before in stretches}
    ends = {before for _, before in stretches} - {after for after, _ in stretches}
    if len(starts) != 1 or len(ends) != 1:
        return None
    after, before = starts.pop(), ends.pop()
    if sum(b.at_ns - a.at_ns for a, b in stretches) != before.at_ns - after.at_ns:
        return None  # stretches of different periods
    return TickBetween(after, before)
