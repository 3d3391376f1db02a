"""Which views are late, one set after the other: for lines in which not all late and none late say it all.

From 1.34 on a pass may still see nodes as ready of which a tick has just written Ready=Unknown, and waste its token. Each such tick
is a *view*. What a line does follows from which of its views wasted a token: so each set of them that can have done so is replayed, where these
are few. A set that cannot have done so is left out, and so is every longer one that begins with it: what a line does up to a view does not depend on
that view, nor on later ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.windows.line_replays import Replayed, Replays
from kubectl_evictplan.windows.unknowns.lines import PASS_LAG_MAX_NS, StaleView
from kubectl_evictplan.windows.zone_lines import LineRules, ZoneLine

# Sets of one line and one order.
_SETS_MAX = 64

Replay = Callable[[ZoneLine, LineRules], Replayed]
_Views = tuple[int, ...]


class LateTogether(NamedTuple):
    """Replays in which the same views waste a token.

    ``by_lags``: some of these views meet a token at some lags only. ``missed``: unknowns not wholly explored in them.
    """

    runs: list[Replayed]
    by_lags: bool
    missed: frozenset[str]


class TooManyViews(Exception):
    """Not every set of late views can be replayed, or it is not sure which sets there are."""


def each_set(
    replayed: Sequence[tuple[ZoneLine, LineRules]], replay: Replay, known: Replays
) -> list[LateTogether] | None:
    """Replays for each set of views that can waste tokens, by otherwise the same lines and rules; None where they are too many."""
    numbers = {len(line.unknown_after_ready_ns) for line, _ in replayed}
    if len(numbers) > 1:
        return None  # the same place is not the same view in all of them
    try:
        return list(_explored(replayed, replay, known))
    except TooManyViews:
        return None


def _explored(
    replayed: Sequence[tuple[ZoneLine, LineRules]], replay: Replay, known: Replays
) -> Iterator[LateTogether]:
    number_of_views = len(replayed[0][0].unknown_after_ready_ns)
    todo, number = [_Views()], 0
    while todo:
        number += 1
        if number + len(todo) > _SETS_MAX or known.budget.is_spent:
            raise TooManyViews
        views = todo.pop()
        together = _with_late(views, replayed, replay, known)
        if together is not None:
            yield together
            newest = max(views, default=-1)
            todo += [(*views, view) for view in range(newest + 1, number_of_views)]


def _with_late(
    views: _Views,
    replayed: Sequence[tuple[ZoneLine, LineRules]],
    replay: Replay,
    known: Replays,
) -> LateTogether | None:
    """The replays in which these views are late; None where they cannot all waste a token."""
    late = frozenset(views)
    given = [
        (line, replace(rules, stale_lister=bool(views), late_views=late if views else None))
        for line, rules in replayed
    ]
    runs = list(starmap(replay, given))
    between = known.lags_between(given, runs)
    runs += starmap(replay, between.rules)
    waiting = [
        (line, replace(rules, waits_for_views_ns=PASS_LAG_MAX_NS))
        for (line, rules), run in zip(given, runs, strict=False)
        if not rules.lag_ns and not late <= run.late_views
    ]
    caught = list(starmap(replay, waiting))
    runs += caught
    if not any(late <= run.late_views for run in runs):
        if _is_out_of_reach(views, waiting, caught):
            return None
        raise TooManyViews
    by_lags = any(not late <= run.late_views for run in runs)
    if all(late <= run.late_views for run in caught):
        # From these the others of the set differ by lags alone; what is no run of the set says nothing of it.
        runs = [run for run in runs if late <= run.late_views]
    return LateTogether(runs, by_lags, between.missed - {StaleView.name})


def _is_out_of_reach(
    views: _Views, given: Sequence[tuple[ZoneLine, LineRules]], caught: Sequence[Replayed]
) -> bool:
    """Whether no lags let the newest view meet a token after all others did, for any of these lines and what lies between them.

    Their tokens are as early as they can be for that. So it is out of reach where the last token before the view cannot be so late, and the next one
    is too late: the same one in all of them. And only the last token before a view could wait for it.
    """
    newest, others = views[-1], frozenset(views[:-1])
    places = set[int]()
    for (line, rules), run in zip(given, caught, strict=True):
        tokens_ns = run.tokens.at_ns
        place = bisect_right(tokens_ns, line.unknown_after_ready_ns[newest])
        if not others <= run.late_views or place * PASS_LAG_MAX_NS * rules.rate_qps >= SECOND_NS:
            return False
        places.add(place)
    return len(places) == 1
