"""What nobody can know about a zone's line: when passes come, what they see, and which token was just spent.

Replays have passes at once or as late as they come, and instants in between are taken to lie between theirs. Where what follows
depends on whether a token is spent before some instant, a third thing can happen that neither of them has: see ``lags_between``.
The order in the line is ``line_windows``': whichever node a token is spent on, it could have been any other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.controller import NODE_EVICTION_PERIOD_NS
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    RateLimiter,
    TokenBucketRateLimiter,
    refill_ns,
)
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.kube.durations import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.windows.unknowns.requests import WRITTEN_AGAIN_NS
from kubectl_evictplan.windows.unknowns.unknown import Unknown, settled
from kubectl_evictplan.windows.zone_lines import Held, LineRules, ZoneLine

# A pass comes every 100 ms and costs about 1 ms on recorded control planes.
PASS_LAG_MAX_NS = 105 * MILLISECOND_NS
# From the token, or the tick that puts the node in line, to a pass that comes at once: ``ready_at_ns`` is a lower bound that is tight to
# so much. With any cost the pass comes later.
SERVED_AFTER_NS = 2


def token_max_ns(rate_qps: float) -> int:
    """How long after the one before it a token is spent at the latest, where somebody waits."""
    return refill_ns(rate_qps) + MICROSECOND_NS + PASS_LAG_MAX_NS


def token_min_ns(rate_qps: float) -> int:
    """How long after the one before it a token is spent at the earliest: a bucket holds one."""
    return max(refill_ns(rate_qps) - MICROSECOND_NS, 0)


def written_late_ns(configuration: ControllerConfiguration) -> int:
    """How long after its token a node gets its taint at the most.

    From 1.34 on a pass may come while a worker writes the other taint, for the tick that finds a node silent puts it in line at once.
    """
    meets = _queues_at_once(configuration) and configuration.profile.taint_writes_conflict
    return WRITTEN_AGAIN_NS if meets else 0


def wasted_tokens_max(rate_qps: float) -> int:
    """How many tokens are wasted at the most on a node that an informer still shows as ready."""
    return 1 + int(rate_qps * STALE_LISTER_NS / SECOND_NS)


def next_pass_ns(
    limiter: RateLimiter, now_ns: int, lag_ns: int, *, passed: bool = False
) -> int | None:
    """The first pass that finds a token; None when there is never one. ``passed``: one has just been made."""
    ready_ns = limiter.ready_at_ns(now_ns)
    if ready_ns is None:
        return None
    if passed and limiter.qps * NODE_EVICTION_PERIOD_NS > SECOND_NS:
        # Tokens come faster than passes.
        ready_ns = max(ready_ns, now_ns + NODE_EVICTION_PERIOD_NS)
    return max(ready_ns, now_ns) + lag_ns + SERVED_AFTER_NS


def meeting_view_ns(
    at_ns: int, shown_late_ns: Sequence[int], limiter: RateLimiter, waits_ns: int
) -> int:
    """When the pass comes that would come at ``at_ns``, if it waits for the next late view for so long at most; not past the next token."""
    place = bisect_left(shown_late_ns, at_ns)
    if place == len(shown_late_ns):
        return at_ns
    later_ns = shown_late_ns[place] + 1
    assert isinstance(limiter, TokenBucketRateLimiter), "the other one refuses always"
    in_reach = later_ns - at_ns <= waits_ns
    return later_ns if in_reach and (later_ns - at_ns) * limiter.qps < SECOND_NS else at_ns


def pass_matters(limiter: RateLimiter, now_ns: int, lag_ns: int, planned_ns: int | None) -> bool:
    """Whether a pass now would find a token, or have the next one come at another instant than ``planned_ns``."""
    ready_ns = limiter.ready_at_ns(now_ns)
    if ready_ns is None:
        return planned_ns is not None
    return ready_ns <= now_ns or next_pass_ns(limiter, now_ns, lag_ns) != planned_ns


def later_tokens(
    limiter: TokenBucketRateLimiter, now_ns: int, rules: LineRules, number: int
) -> list[int]:
    """When passes get so many more tokens of the bucket, in order; fewer where the line ends before."""
    several = 1 << number.bit_length()  # a length that many replays have in common
    later_ns = _tokens_after(limiter.qps, limiter.level_at(now_ns), rules.lag_ns, several)
    number = min(number, bisect_right(later_ns, rules.end_ns - now_ns))
    return [now_ns + ns for ns in later_ns[:number]]


@lru_cache(maxsize=64)
def _tokens_after(qps: float, level: float, lag_ns: int, number: int) -> Sequence[int]:
    """When passes get so many tokens of a bucket that holds ``level`` now, from now on: the same in every replay."""
    limiter, tokens_ns, now_ns = TokenBucketRateLimiter(qps), list[int](), 0
    limiter.fill(level, now_ns)
    while len(tokens_ns) < number:
        while limiter.try_accept(now_ns):
            tokens_ns.append(now_ns)
        next_ns = next_pass_ns(limiter, now_ns, lag_ns)
        assert next_ns is not None, "a bucket with a rate gets ready"
        now_ns = next_ns
    return tokens_ns


class PassLag(Unknown[LineRules]):
    """Every token may wait that long for the pass that spends it."""

    name = "lag of passes"
    what = "how long after a token is there the next pass over a zone's line comes"

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """At once, and as late as it comes: tokens in between lie between."""
        for lag_ns in (0, PASS_LAG_MAX_NS):
            yield replace(part, lag_ns=lag_ns)


class StaleView(Unknown[LineRules]):
    """From 1.34 on a node is queued by the tick that writes its condition."""

    name = "stale view"
    what = "whether a pass right after the write still sees the node as ready, and wastes its token"

    def __init__(self, configuration: ControllerConfiguration) -> None:
        self._can_be = _queues_at_once(configuration)

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """Not, and where it can be."""
        for stale in (False, True) if self._can_be else (False,):
            yield replace(part, stale_lister=stale)


class PassInsideTick(Unknown[LineRules]):
    """A tick takes time: a pass may fall between its steps for nodes and those for zones."""

    name = "pass inside a tick"
    what = "whether a pass falls into the middle of a tick"

    def __init__(self, lines: Collection[ZoneLine], configuration: ControllerConfiguration) -> None:
        changes = any(line.limiter_changes or line.takes_back for line in lines)
        self._matters = changes or _queues_at_once(configuration)

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """Not, and where it can matter."""
        for inside in (False, True) if self._matters else (False,):
            yield replace(part, mid_tick_pass=inside)


def _queues_at_once(configuration: ControllerConfiguration) -> bool:
    return configuration.taint_mode and configuration.profile.taint_on_current_condition


# Few values each: all of them are always tried.
_ALL = 16


def views(
    rules: LineRules, lines: Collection[ZoneLine], configuration: ControllerConfiguration
) -> list[LineRules]:
    """What passes see, each another way for a token to be spent."""
    unknowns = (StaleView(configuration), PassInsideTick(lines, configuration))
    return settled(rules, unknowns, _ALL)


def instants(rules: LineRules, token: Unknown[LineRules] | None) -> list[LineRules]:
    """When tokens are spent: replays that differ in instants only."""
    return settled(rules, (PassLag(),) if token is None else (PassLag(), token), _ALL)


# -- lags in between ---------------------------------------------------------------------------------

Replayed = tuple[ZoneLine, LineRules]

# Passes are planned, and tokens counted, to less than that.
TIE_NS = 10

# Tokens that are held at one change of a limiter, each in replays of its own.
_HELD_MAX = 4
# Of so many numbers all are tried together.
_HELD_TOGETHER_MAX = 3


class LagsBetween(msgspec.Struct, frozen=True):
    """What else has to be replayed, and the names of unknowns that this does not wholly explore.

    ``views``: places of those that a token meets at some lags, late ones or not.
    """

    rules: Sequence[Replayed]
    missed: frozenset[str]
    views: frozenset[int]


class _Lags(msgspec.Struct, frozen=True):
    """One line with the instants of its tokens, with passes at once and as late as they come."""

    line: ZoneLine
    quick: LineRules
    early_ns: Sequence[int]
    slow: LineRules
    late_ns: Sequence[int]


def lags_between(replayed: Sequence[Replayed], tokens_ns: Sequence[Sequence[int]]) -> LagsBetween:
    """Which lags in between matter, given the instants of the tokens in each replay."""
    several = list(_pairs(replayed, tokens_ns))
    views = [found for lags in several for found in _at_views(lags)]
    late_views = [found for found in views if _is_late(found[0], found[2])]
    held, numbers = list[Replayed](), set[int]()
    missed = set[str]()
    for lags in several:
        own = [*_at_changes(lags), *_at_entries(lags)]
        numbers.update(number for number, _ in own)
        held += ((lags.line, replace(lags.quick, held=each)) for each in _held_together(own))
        turns = list(_before_turns(lags, several))
        held += ((lags.line, replace(r, held=(o,))) for o in turns for r in (lags.quick, lags.slow))
        if len(turns) > 1 or (turns and own):
            missed.add(PassLag.name)
    # Each pass has a lag of its own: several such passes may come in one line.
    if len({number for number, _, _ in late_views}) > 1:
        missed.add(StaleView.name)
    if len(numbers) > _HELD_TOGETHER_MAX:
        missed.add(PassLag.name)
    again = [(line, rules) for _, line, rules in late_views]
    return LagsBetween(again + held, frozenset(missed), frozenset(number for number, _, _ in views))


def _held_together(held: Sequence[tuple[int, Held]]) -> Iterator[tuple[Held, ...]]:
    """Each alone, and then together with others, each of another number."""
    for together in range(1, _HELD_TOGETHER_MAX + 1):
        for several in combinations(held, together):
            numbers, tokens = {number for number, _ in several}, {one[0] for _, one in several}
            if len(numbers) == len(tokens) == together:
                yield tuple(one for _, one in several)


def _is_late(place: int, rules: LineRules) -> bool:
    return rules.stale_lister and (rules.late_views is None or place in rules.late_views)


def _pairs(replayed: Sequence[Replayed], tokens_ns: Sequence[Sequence[int]]) -> Iterator[_Lags]:
    """Replays that differ by nothing but the lag."""
    together: dict[tuple[ZoneLine, LineRules], list[tuple[LineRules, Sequence[int]]]] = {}
    for (line, rules), at_ns in zip(replayed, tokens_ns, strict=True):
        together.setdefault((line, replace(rules, lag_ns=0)), []).append((rules, at_ns))
    for (line, _), runs in together.items():
        (quick, early_ns), (slow, late_ns) = runs[0], runs[-1]
        yield _Lags(line, quick, early_ns, slow, late_ns)


def _at_views(lags: _Lags) -> Iterator[tuple[int, ZoneLine, LineRules]]:
    """A view meets a token that comes before it at less lag, and after it at more. Each with the place of the view."""
    if not lags.quick.profile.taint_on_current_condition:
        return
    quick, slow, early_ns, late_ns = lags.quick, lags.slow, lags.early_ns, lags.late_ns
    for number, turn_ns in enumerate(lags.line.unknown_after_ready_ns):
        # A pass at the very instant of a tick may come before it.
        first = bisect_left(late_ns, turn_ns + STALE_LISTER_NS)
        for token in range(first, min(bisect_right(early_ns, turn_ns), len(late_ns))):
            # Tokens are rounded one after the other: a pass that should come just after the tick must not come with it.
            after_ns = turn_ns + (token + 1) * TIE_NS
            lags_ns = (slow.lag_ns - quick.lag_ns) * (after_ns - early_ns[token])
            lag_ns = quick.lag_ns - -lags_ns // (late_ns[token] - early_ns[token])
            yield number, lags.line, replace(slow, lag_ns=lag_ns)


def _at_entries(lags: _Lags) -> Iterator[tuple[int, Held]]:
    """Somebody gets in line before a pass that is late, and after one that is not: just after that both wait for its token.

    Where the other one then leaves at an instant that a later token meets at less lag only, neither end shows that it gets that one.
    Each with the number of the token, counted backwards: those of changes are others.
    """
    early_ns, late_ns, leaving_ns = lags.early_ns, lags.late_ns, lags.line.leaving_ns
    met = []
    for token, at_ns in enumerate(early_ns):
        leaves = bisect_right(leaving_ns, at_ns)  # the first one after it
        if leaves < len(leaving_ns) and (
            token >= len(late_ns) or late_ns[token] >= leaving_ns[leaves]
        ):
            met.append(token)
    for enters_ns in lags.line.entering_ns if met else ():
        first = bisect_left(late_ns, enters_ns)
        for token in range(
            first, min(bisect_left(early_ns, enters_ns), met[-1], first + _HELD_MAX)
        ):
            yield -1 - token, (token, enters_ns + 1)


def _before_turns(lags: _Lags, every: Iterable[_Lags]) -> Iterator[Held]:
    """Tokens that may come just before somebody's taint is taken off that had it too early, or just after that, and then buy a taint.

    Between a token that comes long before it and one that comes after it there is one just before it: the next one comes so much later.
    """
    for at_ns in lags.line.turns_regained_ns:
        token = bisect_left(lags.early_ns, at_ns) - 1
        if token >= 0 and any(
            at_ns <= ns for one in every for ns in one.late_ns[token : token + 1]
        ):
            yield token, at_ns - 1


def _at_changes(lags: _Lags) -> Iterator[tuple[int, Held]]:
    """A token is there when a limiter changes, and its pass comes after that: the new bucket is full. Each with the number of the change.

    With passes at once the token is spent just before, and as late as they come it is not there yet: then the new bucket is empty.
    """
    if lags.quick.mid_tick_pass:
        return  # a pass comes just before each change
    for number, change_ns in enumerate(lags.line.limiter_changes_ns(lags.quick.rate_qps)):
        spent = bisect_right(lags.early_ns, change_ns)
        surely = bisect_right(lags.late_ns, change_ns)
        for token in range(max(surely, spent - _HELD_MAX), spent):
            if lags.early_ns[token] + (token + 1) * PASS_LAG_MAX_NS > change_ns:
                for lag_ns in (1, PASS_LAG_MAX_NS):
                    yield number, (token, change_ns + lag_ns)
