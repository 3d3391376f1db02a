"""When a zone has its first token after the start, which it may have used just before: cut where that meets something.

A token of the start that is there, and one that comes as late as it can, show what happens between them only as long as it, and each one
after it, comes on one side of whatever changes the line: who leaves it, its limiter, what passes see.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import refill_ns
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.windows.spans import NEVER_NS
from kubectl_evictplan.windows.spent_tokens import EntriesLeft
from kubectl_evictplan.windows.unknowns.lines import (
    PASS_LAG_MAX_NS,
    TIE_NS,
    wasted_tokens_max,
)
from kubectl_evictplan.windows.unknowns.unknown import Unknown
from kubectl_evictplan.windows.zone_lines import LineRules, ZoneLine, groups_of


class FirstToken(NamedTuple):
    """When a line has its first token after the start, if it was spent just before that (0: it never has), and at the latest.

    The latter is later where that token, or one after it, may be wasted on who was in line before, and shows it no more.
    """

    refill_ns: int
    latest_ns: int

    @classmethod
    def of(
        cls, line: ZoneLine, rate_qps: float, left: EntriesLeft, first_tick_ns: int
    ) -> FirstToken:
        """Of a line that may still hold ``left`` entries of before the start, some of them until the first tick."""
        refilled_ns = refill_ns(line.rate_at_start_qps(rate_qps))
        until_ns = min(first_tick_ns, left.back * refilled_ns) if left.back else 0
        return cls(refilled_ns, refilled_ns + until_ns + left.gone * refilled_ns)


class TokenAtStart(Unknown[LineRules]):
    """A zone can only have used its token on a node that was not ready: see ``zones_without_token``."""

    name = "token at the start"
    what = "whether a zone in which nodes wait had just used its token before the start"

    def __init__(
        self, token: FirstToken, since: _Meeting | None = None, until: _Meeting | None = None
    ) -> None:
        """In one line: it is there at the start, or when it meets ``since``, to ``until`` it meets the next, or as late as it comes."""
        self._refill_ns, self._latest_ns = token
        self._since, self._until = since, until

    @property
    def width_ns(self) -> int:
        """From when to when it can come."""
        since_ns = self._since.token_ns(self._refill_ns, PASS_LAG_MAX_NS) if self._since else 0
        until_ns = self._until.token_ns(self._refill_ns) if self._until else self._latest_ns
        return max(min(until_ns, self._latest_ns) - max(since_ns, 0), 0)

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """Both ends: just after a pass with that token meets who leaves, and just before."""
        lag_ns = part.lag_ns
        part = replace(part, spent_at_most=self._most)
        yield replace(part, spent_at_start=self._spent(self._since, 0.0, lag_ns - TIE_NS))
        yield replace(part, spent_at_start=self._spent(self._until, self._most, lag_ns + TIE_NS))

    @property
    def _most(self) -> float:
        return self._latest_ns / self._refill_ns

    def _spent(self, meeting: _Meeting | None, otherwise: float, lag_ns: int) -> float:
        if meeting is None:
            return otherwise
        share = meeting.token_ns(self._refill_ns, lag_ns) / self._refill_ns
        return min(max(share, 0.0), self._most)


class _NoTokenAtStart(TokenAtStart):
    """It was spent, and a bucket without a rate gets no other one."""

    def __init__(self) -> None:
        super().__init__(FirstToken(0, 0))

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """Never."""
        yield replace(part, spent_at_start=1.0)


class _NoLimiterAtStart(TokenAtStart):
    """There is none, nor another one after it, as long as the limiter of the start stays: it was stopped before."""

    def __init__(self) -> None:
        super().__init__(FirstToken(0, 0))

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """None."""
        yield replace(part, stopped_at_start=True)


class TokenStretch(msgspec.Struct, frozen=True):
    """A stretch of time in which the token of the start comes, and how wide it is, in each of some lines that differ in instants only."""

    # None: it is there already.
    of_lines: Sequence[TokenAtStart | None]
    width_ns: int


class Stretches(NamedTuple):
    """All stretches, in the order of time, and whether the token meets nothing else within any of them."""

    several: Sequence[TokenStretch]
    are_all: bool = True


def stopped_stretch(lines: Sequence[ZoneLine]) -> TokenStretch:
    """That no token comes, because the limiter of the start was stopped before and still is."""
    return TokenStretch([_NoLimiterAtStart()] * len(lines), 0)


# So often the token of the start is told apart by what it meets.
_MEETINGS_MAX = 12


class _Meeting(msgspec.Struct, frozen=True):
    """A pass spends the token of the start, or the ``number``-th after it, at an instant of the line."""

    at_ns: int
    number: int

    def token_ns(self, refill_ns: int, lag_ns: int = 0) -> int:
        """When the token of the start is there so, if each pass comes so much after its token."""
        return self.at_ns - self.number * refill_ns - (self.number + 1) * lag_ns

    def is_met(self, token: FirstToken) -> bool:
        """Whether it can be, at some lag, by one that comes after the start."""
        late_ns = self.token_ns(token.refill_ns, PASS_LAG_MAX_NS)
        return self.token_ns(token.refill_ns) > 0 and late_ns < token.latest_ns


def token_stretches(
    lines: Sequence[ZoneLine], first: Sequence[FirstToken] | None, *, seen_late: bool
) -> Stretches:
    """When the token of the start can come, cut where it meets somebody who leaves the line, the end of its limiter, or a late view.

    ``first``: of each line; None where it is sure that none is spent. ``seen_late``: views are late.
    """
    there = TokenStretch([None] * len(lines), 0)
    if first is None or not any(line.ran_before_start for line in lines):
        return Stretches([there])
    if not any(token.refill_ns for token in first):
        # Without a rate it is there or never is: there is nothing between these two.
        return Stretches([there, TokenStretch([_NoTokenAtStart()] * len(lines), 0)])
    met, are_all = _met(lines, first, seen_late=seen_late)
    cuts: list[Sequence[_Meeting | None]] = [[None] * len(lines), *met, [None] * len(lines)]
    # A limiter that gets another rate meanwhile may lose what it has.
    told = met and not any(line.limiter_changes for line in lines)
    widest_ns = max(token.latest_ns for token in first)
    stretches = []
    for since, until in pairwise(cuts):
        tokens = [TokenAtStart(*each) for each in zip(first, since, until, strict=True)]
        width_ns = max(token.width_ns for token in tokens)
        stretches.append(TokenStretch(tokens, width_ns if told else max(width_ns, widest_ns)))
    return Stretches(stretches, are_all)


def _instants(
    lines: Sequence[ZoneLine], stays_ns: Sequence[int], *, seen_late: bool
) -> Iterator[Sequence[int] | None]:
    """In each line, of each thing that the token may meet while the line has the limiter of the start; None: it is not in all of them.

    The end of the limiter, which ``stays_ns``; somebody who leaves; both ends of a view in which a token is wasted.
    """
    if min(stays_ns) < NEVER_NS:
        yield stays_ns
    seen_late = seen_late and not any(line.limiter_changes for line in lines)
    for name, *_ in groups_of(lines):
        kinds = [[line.leaving.get(name, ()) for line in lines]]
        if seen_late:
            kinds.append([line.unknown_after_ready(name) for line in lines])
        for leaves, several in enumerate(kinds):
            if len(set(map(len, several))) > 1:
                yield None
                continue
            for at_ns in zip(*several, strict=True):
                ends = zip(at_ns, stays_ns, strict=True)
                if max(at_ns) > 0 and any(at <= stays for at, stays in ends):
                    yield at_ns
                    if leaves:
                        yield [at + STALE_LISTER_NS for at in at_ns]


def _met(
    lines: Sequence[ZoneLine], first: Sequence[FirstToken], *, seen_late: bool
) -> tuple[list[Sequence[_Meeting]], bool]:
    """What the token of the start meets so that it makes a difference: of each line, in the order of time; and whether that is all."""
    if not all(token.refill_ns for token in first):
        return [], False
    found: dict[tuple[int, ...], Sequence[_Meeting]] = {}
    are_all = True
    # It may be later by so many tokens; and where passes are late it may be the token before the newest one.
    later = max(-(-token.latest_ns // token.refill_ns) for token in first)
    stays_ns = [line.limiter_stays_until_ns for line in lines]
    for instants in _instants(lines, stays_ns, seen_late=seen_late):
        if instants is None:
            are_all = False
            continue
        numbers = [at // token.refill_ns for at, token in zip(instants, first, strict=True)]
        own = list(zip(lines, instants, strict=True))
        most = max(bisect_left(line.waits_begin_ns, at) for line, at in own)
        if seen_late:
            views = max(bisect_right(line.unknown_after_ready_ns, at) for line, at in own)
            most += views * wasted_tokens_max(SECOND_NS / first[0].refill_ns)
        # One more than are spent may be there as the limiter ends.
        most += instants is stays_ns
        for number in range(max(min(numbers) - later, 0), min(max(numbers) + 1, most)):
            meetings = [_Meeting(at_ns, number) for at_ns in instants]
            each = list(zip(meetings, first, strict=True))
            if any(meeting.is_met(token) for meeting, token in each):
                told_ns = tuple(meeting.token_ns(token.refill_ns) for meeting, token in each)
                found.setdefault(told_ns, meetings)
    chain: list[tuple[int, ...]] = []
    for told_ns in sorted(found):
        # Where two change places from one line to the other neither tells the token apart in both of them.
        if not chain or all(a <= b for a, b in zip(chain[-1], told_ns, strict=True)):
            chain.append(told_ns)
    are_all = are_all and len(chain) == len(found) and len(chain) <= _MEETINGS_MAX
    return [found[told_ns] for told_ns in chain[:_MEETINGS_MAX]], are_all
