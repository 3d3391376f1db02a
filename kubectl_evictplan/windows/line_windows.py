"""When each waiting node can be tainted: windows over every order, lag and phase of one zone's line.

Several replays of one line differ only in instants (the phase, the lag of the passes) or in the order of
service. Counted by tokens they are alike, so the n-th token of all of them together spans from its
earliest to its latest instant. Where it is spent before a node is in line in one replay, and after that
in another, there is a lag in between with which it comes right after; the same for nodes that leave.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.windows.line_replays import Alike, Replayed, Replays, Tokens
from kubectl_evictplan.windows.places_in_line import Order
from kubectl_evictplan.windows.spans import NEVER_NS, Span, disjoint_outcomes, merge_spans
from kubectl_evictplan.windows.unknowns.lines import PassLag, StaleView
from kubectl_evictplan.windows.unknowns.order_in_line import OrderInLine, Served
from kubectl_evictplan.windows.zone_lines import Groups, LineRules, ZoneLine, groups_of

# A pass is planned that long after its token, at the most.
_PLANNED_NS = 10


class WaitWindow(msgspec.Struct, frozen=True):
    """One wait of a node: the spans of instants at which it can be tainted, in order.

    ``certain``: in every replay it is tainted during this wait. ``eligible_ns`` and ``useless_ns`` are the first
    instant of the wait and the last at which a token helps, over all replays.
    """

    spans: tuple[Span, ...]
    certain: bool
    eligible_ns: int
    useless_ns: int
    # Names of unknowns of the line that were not wholly explored.
    missed: frozenset[str] = frozenset()


class Spread(msgspec.Struct, frozen=True):
    """How far apart one token can lie in replays that are taken together.

    ``base_ns`` (phases, and the token of the start), and ``per_token_ns`` more with every token before it
    (lags). Spans at most ``gap_ns`` apart are told as one; nothing is told after ``end_ns``.
    """

    base_ns: int
    per_token_ns: int
    gap_ns: int
    end_ns: int
    # How much of ``base_ns`` is when the token of the start comes: what it meets in between is in no replay.
    token_ns: int = 0
    # What replays have in common depends on lags as well: every pass has one of its own.
    lags_vary: bool = False

    def of_token(self, token: int) -> int:
        """The slack of the ``token``-th token, counted from 0."""
        return self.base_ns + self.lags_ns(token)

    def varying(self, by_lags: bool) -> Spread:
        """The same, where what replays have in common depends on lags or not."""
        return replace(self, lags_vary=by_lags)

    def lags_ns(self, token: int) -> int:
        """What lags up to the ``token``-th token add up to at the most."""
        return (token + 1) * self.per_token_ns


def _orders(
    lines: list[ZoneLine], groups: Groups, *, stale: bool, entered_again: bool
) -> list[Served]:
    """The orders of service that matter; ``stale``: passes may see nodes as they were.

    ``entered_again``: every tick puts another entry of a waiting node in line.
    """
    several = len(groups) > 1
    leavers = [g for g in groups if any(name in line.leaving for line in lines for name in g)]
    seen_late = stale and several and any(line.turning_unknown for line in lines)
    waiting = frozenset[str]().union(*(line.waiting for line in lines if entered_again))
    again = [group for group in groups if not waiting.isdisjoint(group)]
    # Those who take one token more or less by their place, and which one they take for nothing.
    lost = frozenset[str]().union(*(line.untainted for line in lines if several))
    lines_in_order = () if entered_again or not several else lines
    got = frozenset[str]().union(*(line.tainted_before_line for line in lines_in_order))
    by_hand = [group for group in groups if not (lost | got).isdisjoint(group)]
    operations = max(line.number_of_operations for line in lines)
    made_anew = any(line.is_made_anew and len(line.group_of) > 1 for line in lines)
    given = leavers, operations, again, by_hand
    return OrderInLine(*given, seen_late=seen_late, made_anew=made_anew).orders()


def wait_windows(
    line_and_rules: Iterable[tuple[ZoneLine, LineRules]],
    spread: Spread,
    padding_ns: int,
    services: set[tuple[int, ...]],
    known: Replays,
) -> dict[str, list[WaitWindow]]:
    """Each node's waits, over replays whose lines differ in instants only; alike nodes share one list.

    Spans are widened by ``padding_ns``; ``services`` get, for each replay, when nodes were served first. ``known`` has
    replays of before.
    """
    asked = tuple(line_and_rules), spread, padding_ns
    found = known.windows.get(asked)
    if found is None:
        was_cut_short, known.cut_short = known.cut_short, False
        found = _found_out(*asked, known)
        if not known.cut_short:
            known.windows[asked] = found
        known.cut_short = known.cut_short or was_cut_short
    waits, served = found
    services.update(served)
    return waits


def _found_out(
    replayed: Sequence[tuple[ZoneLine, LineRules]], spread: Spread, padding_ns: int, known: Replays
) -> tuple[dict[str, list[WaitWindow]], set[tuple[int, ...]]]:
    """The waits of all nodes, and the instants of services in each replay."""
    lines = [line for line, _ in replayed]
    groups = groups_of(lines)
    services = set[tuple[int, ...]]()
    # By group, and by the ordinal of the wait, its windows for each order.
    found: list[list[list[WaitWindow]]] = [[] for _ in groups]
    entered_again = any(rules.enters_again for _, rules in replayed)
    stale = any(rules.stale_lister for _, rules in replayed)
    served = _orders(lines, groups, stale=stale, entered_again=entered_again)
    missed = frozenset[str]().union(*(each.missed for each in served))
    # Many orders come to the same replays.
    together: dict[Hashable, _Together] = {}
    for number, each in enumerate(served):
        if number and known.budget.is_spent:
            missed |= {OrderInLine.name}
            known.cut_short = True
            break
        explored, partly = _replays_of(each.order, replayed, groups, spread, known)
        missed |= partly
        together.update((one.identity, one) for one in explored)
    for one in together.values():
        services.update(_services(one.runs))
        for group, places in enumerate(found):
            _note_windows(places, [run.rows[group] for run in one.runs], one.spread)
    left = (run.left_entries_ns for one in together.values() for run in one.runs)
    left_ns = min((at_ns for at_ns in left if at_ns is not None), default=NEVER_NS)
    if any(one.is_uneven for one in together.values()) or (
        entered_again and any(_entries_vary(replayed, one) for one in together.values())
    ):
        # Whether somebody waits once more depends on instants, as where a person takes off a taint that a token may
        # have put on just before, or how many entries somebody has in line: so there is more between the earliest replay
        # and the latest than these two show.
        missed |= {PassLag.name}
    if entered_again:
        found = [[_between_ends(windows, spread) for windows in places] for places in found]
    waits: dict[str, list[WaitWindow]] = {}
    given = spread.gap_ns, known.horizon_ns, padding_ns, len(together)
    for group_names, places in zip(groups, found, strict=True):
        merged = [_merged(windows, *given) for windows in places]
        late = [line for line, rules in replayed if rules.stale_lister]
        untried = missed
        if any(_may_see_false(wait, group_names[0], late) for wait in merged):
            untried = missed | {StaleView.name}
        merged = [_behind_entries(replace(wait, missed=untried), left_ns) for wait in merged]
        if merged:
            # One list for all of them.
            waits.update(dict.fromkeys(group_names, merged))
    return waits, services


def _services(runs: Iterable[Replayed]) -> Iterator[tuple[int, ...]]:
    """When nodes are served for the first time in each replay, and what else that may be in other orders.

    Where some wait more than once the next ones may be those of before, or others: each tick has an order of its own.
    """
    for run in runs:
        yield run.services
        if any(len(waits) > 1 for waits in run.rows):
            yield run.services[:1]
            yield run.all_services


def _behind_entries(wait: WaitWindow, left_ns: int) -> WaitWindow:
    """The wait, where entries without a node are in line from an instant on (1.19.0-8, 1.20.0-4).

    How many they are, and where, depends on the order of each tick, and here all ticks have one.
    """
    over_ns = wait.spans[-1][1] if wait.certain and wait.spans else wait.useless_ns
    if over_ns <= left_ns:
        return wait
    return replace(wait, missed=wait.missed | {OrderInLine.name})


class _Together(msgspec.Struct, frozen=True):
    """Replays that differ in instants only, and how far apart one token can lie in them."""

    runs: list[Replayed]
    spread: Spread

    @property
    def identity(self) -> Hashable:
        """Equal for those that are the very same replays."""
        return tuple(map(id, self.runs)), self.spread

    @property
    def is_uneven(self) -> bool:
        """Whether somebody waits more often in one than in another."""
        of_each = zip(*(run.rows for run in self.runs), strict=True)
        return any(len({len(row) for row in rows}) > 1 for rows in of_each)


def _entries_vary(replayed: Sequence[tuple[ZoneLine, LineRules]], together: _Together) -> bool:
    """Whether tokens are further apart than lags explain, where a node has an entry more if it is served after a tick, not before it."""
    pairs = defaultdict[tuple[ZoneLine, LineRules], list[Replayed]](list)
    for (line, rules), run in zip(replayed, together.runs, strict=False):
        pairs[line, replace(rules, lag_ns=0)].append(run)
    several = [*pairs.values(), together.runs]
    limits = [*(together.spread.lags_ns for _ in pairs), together.spread.of_token]
    return any(map(_are_apart, several, limits))


def _are_apart(runs: Iterable[Replayed], limit_ns: Callable[[int], int]) -> bool:
    tokens = zip(*(run.tokens.at_ns for run in runs), strict=False)
    return any(max(each) - min(each) > limit_ns(token) for token, each in enumerate(tokens))


def _note_windows(
    places: list[list[WaitWindow]], rows: Sequence[list[Alike]], spread: Spread
) -> None:
    """Add the waits of a group in some replays to what ``places`` has of each."""
    for ordinal in range(max(map(len, rows))):
        alike = [row[ordinal] for row in rows if ordinal < len(row)]
        if ordinal == len(places):
            places.append([])
        places[ordinal].append(_window(alike, spread, sure=len(alike) == len(rows)))


def _replays_of(
    order: Order,
    replayed: Sequence[tuple[ZoneLine, LineRules]],
    groups: Groups,
    spread: Spread,
    known: Replays,
) -> tuple[list[_Together], frozenset[str]]:
    """The replays of one order, and the names of unknowns that are not wholly explored in them."""
    replay = partial(known.of, order=order, groups=groups, gap_ns=spread.gap_ns)
    runs = list(starmap(replay, replayed))
    between = known.lags_between(replayed, runs)
    missed = between.missed
    if between.rules and known.budget.is_spent:
        known.cut_short = True
        return [_Together(runs, spread)], missed | {PassLag.name}
    runs += starmap(replay, between.rules)
    late = [(line, rules) for line, rules in replayed if rules.stale_lister]
    if late and _views_may_interact(late, runs, between.views, replay, known):
        from kubectl_evictplan.windows import late_views  # rarely needed

        each = late_views.each_set(late, replay, known)
        if each is not None:
            several = [_Together(one.runs, spread.varying(one.by_lags)) for one in each]
            lags = frozenset[str]().union(*(one.missed for one in each))
            return several, (missed - {StaleView.name}) | lags
        missed |= {StaleView.name}
    return [_Together(runs, spread)], missed


def _views_may_interact(
    replayed: Sequence[tuple[ZoneLine, LineRules]],
    late: Sequence[Replayed],
    at_some_lags: frozenset[int],
    replay: Callable[[ZoneLine, LineRules], Replayed],
    known: Replays,
) -> bool:
    """Whether replays in which every view is late, and in which none is, need not show all that late views can do.

    ``late``: the replays in which every view is late, those of ``replayed`` first; in them tokens meet some views ``at_some_lags`` only. While
    somebody waits, tokens come at the same instants whomever they are spent on: then only their number matters, and both ends of that are
    shown. And what comes before a view is over where nobody waits and a token is there, although all views were late.
    """
    if all(len(line.unknown_after_ready_ns) < 2 for line, _ in replayed):
        return False
    in_time = [(line, replace(rules, stale_lister=False)) for line, rules in replayed]
    unseen = list(starmap(replay, in_time))
    at_some_lags |= known.lags_between(in_time, unseen).views
    places = defaultdict[tuple[float, int], set[int]](set)
    for (line, rules), seen, free in zip(replayed, late, unseen, strict=False):
        for view, at_ns in enumerate(line.unknown_after_ready_ns):
            apart = view > 0 and view in free.idle_views
            if apart and (at_some_lags or not _finds_token(seen, at_ns, rules)):
                return True
            if view not in at_some_lags:
                for run in (seen, free):
                    place = bisect_right(run.tokens.at_ns, at_ns)
                    places[rules.spent_at_start, 2 * view + (run is free)].add(place)
    return len(at_some_lags) > 1 or any(len(several) > 1 for several in places.values())


def _finds_token(run: Replayed, at_ns: int, rules: LineRules) -> bool:
    """Whether a token has been there for whoever begins to wait at that instant."""
    tokens_ns = run.tokens.at_ns
    place = bisect_left(tokens_ns, at_ns)
    return place < len(tokens_ns) and tokens_ns[place] <= at_ns + rules.lag_ns + _PLANNED_NS


def _between_ends(windows: list[WaitWindow], spread: Spread) -> list[WaitWindow]:
    """Windows of a wait in orders in which the node's entries come first, and last: they may also come in between."""
    spans = {window.spans for window in windows}
    if len(spans) == 1:
        return windows
    certain = all(window.certain for window in windows)
    eligible_ns = min(window.eligible_ns for window in windows)
    useless_ns = max(window.useless_ns for window in windows)
    since_ns = min(low_ns for several in spans for low_ns, _ in several)
    until_ns = max(high_ns for several in spans for _, high_ns in several)
    if not certain:  # last is never
        until_ns = max(until_ns, min(useless_ns - 1, spread.end_ns))
    between = WaitWindow(((since_ns, until_ns),), certain, eligible_ns, useless_ns)
    return [*windows, between]


def _may_see_false(wait: WaitWindow, name: str, lines: Iterable[ZoneLine]) -> bool:
    """Whether a pass may taint the node for the Ready=False that a late informer shows."""
    written = [at_ns for line in lines for at_ns in line.unknown_after_false(name)]
    if not written:
        return False
    since_ns, until_ns = min(written), max(written) + STALE_LISTER_NS
    return any(low_ns < until_ns and since_ns <= high_ns for low_ns, high_ns in wait.spans)


def _window(replays: list[Alike], spread: Spread, *, sure: bool) -> WaitWindow:
    """The wait over replays of one order: token by token, see the module's text."""
    return WaitWindow(
        tuple(_spans(replays, spread)),
        sure and all(replay.all_served for replay in replays),
        min(replay.eligible_ns for replay in replays),
        max(replay.useless_ns for replay in replays),
    )


def _spans(replays: list[Alike], spread: Spread) -> Iterator[Span]:
    """The spans of all tokens that can be the wait's own; of those that all replays give it, stretch by stretch."""
    first = min(replay.first_token for replay in replays)
    last = max(replay.last_token for replay in replays)
    of_all = range(
        max(replay.first_token for replay in replays),
        min(replay.last_token for replay in replays) + 1,
    )
    if spread.lags_vary:
        of_all = range(0)
    for stretch in _stretches(of_all, [replay.tokens for replay in replays]):
        tokens = [replay.tokens.at_ns for replay in replays]
        ends = sorted((at_ns[stretch.start], at_ns[stretch.stop - 1]) for at_ns in tokens)
        joined = list(merge_spans(ends, spread.gap_ns))
        if len(joined) == 1:
            yield joined[0]
        else:
            for token in stretch:
                yield from _spans_of_token(token, replays, replays, spread)
    for token in (each for each in range(first, last + 1) if each not in of_all):
        own = [r for r in replays if r.first_token <= token <= r.last_token]
        if own:
            yield from _spans_of_token(token, own, replays, spread)
        elif any(_misses_it_by_lags(token, replay, spread) for replay in replays):
            since_ns = min(replay.eligible_ns for replay in replays)
            until_ns = max(replay.useless_ns for replay in replays)
            yield since_ns, max(since_ns, min(until_ns, spread.end_ns))


def _misses_it_by_lags(token: int, replay: Alike, spread: Spread) -> bool:
    """Whether the token comes too early for the wait, but need not if passes come later."""
    reach_ns = spread.lags_ns(token) - replay.eligible_ns
    return token < replay.first_token and replay.tokens.at_ns[token] + reach_ns >= 0


def _stretches(of_all: range, tokens: Iterable[Tokens]) -> Iterator[range]:
    """Stretches of tokens in which each is close to the next in every replay: they lie in one outcome."""
    jumps = {
        jump
        for each in tokens
        for jump in each.jumps[
            bisect_left(each.jumps, of_all.start) : bisect_left(each.jumps, of_all.stop - 1)
        ]
    }
    start = of_all.start
    for jump in sorted(jumps):
        yield range(start, jump + 1)
        start = jump + 1
    if start < of_all.stop:
        yield range(start, of_all.stop)


def _spans_of_token(
    token: int, own: list[Alike], replays: list[Alike], spread: Spread
) -> Iterator[Span]:
    """From when to when a token can be spent on the wait, given its instants in some replays."""
    slack_ns = spread.of_token(token)
    instants = sorted(replay.tokens.at_ns[token] for replay in own)
    several = [r.tokens.at_ns[token] for r in replays if token < len(r.tokens.at_ns)]
    # Whether a late view wastes a token depends on the lag of one pass; all the others have lags of their own.
    varies = any(token >= len(each.tokens.at_ns) and each.all_served for each in replays)
    varies = varies or spread.lags_vary or max(several) - min(several) > slack_ns
    lags_ns = spread.lags_ns(token) + spread.token_ns if varies else 0
    since_ns = min(replay.eligible_ns for replay in own)
    until_ns = min(max(replay.useless_ns for replay in own) - 1, spread.end_ns)
    elsewhere = sorted(_spent_on_others(token, own, replays))
    for low_ns, high_ns in merge_spans(((at_ns, at_ns) for at_ns in instants), slack_ns):
        # Whose token it is may change anywhere between replays.
        near = [ns for ns in elsewhere if low_ns - slack_ns <= ns <= high_ns + slack_ns]
        low_ns, high_ns = min([low_ns, *near]), max([high_ns, *near])
        # Where what follows depends on lags, or on the token of the start, it can also come with lags in between, and every pass has one of its own.
        reach_low_ns = min(low_ns, max(low_ns - lags_ns, since_ns))
        reach_high_ns = max(high_ns, min(high_ns + lags_ns, until_ns))
        for replay in replays:
            if token < replay.first_token:
                # Here the token comes too early for the node; a little later it would be its own.
                if low_ns - slack_ns <= replay.eligible_ns:
                    reach_low_ns = min(reach_low_ns, replay.eligible_ns)
            elif token > replay.last_token and not replay.all_served:
                # Here it comes too late, or never.
                tokens_ns = replay.tokens.at_ns
                at_ns = tokens_ns[token] if token < len(tokens_ns) else NEVER_NS
                left_ns = max(replay.useless_ns - 1, until_ns)
                limit_ns = min(at_ns, left_ns, high_ns + slack_ns, spread.end_ns)
                reach_high_ns = max(reach_high_ns, limit_ns)
        yield reach_low_ns, reach_high_ns


def _spent_on_others(token: int, own: list[Alike], replays: list[Alike]) -> Iterator[int]:
    """When others take the token that is a node's ``own`` in some replays only, or could if they still waited, while it waits."""
    for replay in replays:
        if replay.first_token <= token <= replay.last_token:
            continue
        instants = replay.tokens.at_ns[token : token + 1]
        if not instants and replay.all_served:
            # It would come as long after the tick that puts the node in line.
            instants = [o.tokens.at_ns[token] + replay.eligible_ns - o.eligible_ns for o in own]
        yield from (ns for ns in instants if replay.eligible_ns <= ns < replay.useless_ns)


def merge_waits(
    found: Sequence[Mapping[str, list[WaitWindow]]], gap_ns: int, horizon_ns: int
) -> dict[str, list[WaitWindow]]:
    """Waits that were found under different circumstances: any of them can be the real one.

    Nodes that share their lists in all of them share one here.
    """
    if len(found) == 1:
        return dict(found[0])
    merged: dict[tuple[int, ...], list[WaitWindow]] = {}
    waits = {}
    nowhere: list[WaitWindow] = []
    for name in {name for each in found for name in each}:
        rows = [each.get(name, nowhere) for each in found]
        same = tuple(map(id, rows))
        if same not in merged:
            merged[same] = list(_merged_rows(rows, gap_ns, horizon_ns))
        waits[name] = merged[same]
    return waits


def _merged_rows(
    rows: Sequence[Sequence[WaitWindow]], gap_ns: int, horizon_ns: int
) -> Iterator[WaitWindow]:
    for ordinal in range(max(len(row) for row in rows)):
        windows = [row[ordinal] for row in rows if ordinal < len(row)]
        window = _merged(windows, gap_ns, horizon_ns)
        yield replace(window, certain=window.certain and len(windows) == len(rows))


def _merged(
    windows: list[WaitWindow], gap_ns: int, horizon_ns: int, padding_ns: int = 0, number: int = 0
) -> WaitWindow:
    """Windows as one, certain where all are and there are at least so many of them."""
    spans = [
        (low_ns - padding_ns, high_ns + padding_ns)
        for window in windows
        for low_ns, high_ns in window.spans
    ]
    return WaitWindow(
        disjoint_outcomes(spans, gap_ns, horizon_ns),
        len(windows) >= number and all(window.certain for window in windows),
        min(window.eligible_ns for window in windows),
        max(window.useless_ns for window in windows),
        frozenset().union(*(window.missed for window in windows)),
    )


def as_one_wait(waits: list[WaitWindow], gap_ns: int, horizon_ns: int) -> WaitWindow:
    """Waits of which only the first one that ends with a taint matters: as if they were one."""
    if len(waits) == 1:
        return waits[0]
    merged = _merged(waits, gap_ns, horizon_ns)
    return replace(merged, certain=any(wait.certain for wait in waits))
