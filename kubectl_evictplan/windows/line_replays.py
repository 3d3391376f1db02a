"""All replays of all lines of a prediction, each made once for all rules and orders that come to the same.

What a replay says of itself is what it was decided by: who was taken before whom, and which of the rules it asked about.
Whatever order and rules agree with that, give it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_replay import LineReplay
from kubectl_evictplan.windows.spans import NEVER_NS
from kubectl_evictplan.windows.zone_lines import (
    Groups,
    InLine,
    LineRules,
    Order,
    Wait,
    ZoneLine,
    exchange_those_of_one_tick,
    exchange_those_who_stay,
    keep_to_the_line,
)

if TYPE_CHECKING:
    from kubectl_evictplan.windows.line_windows import WaitWindow


class Tokens(msgspec.Struct, frozen=True):
    """The instants of a replay's tokens; ``jumps`` are those after which the next one is far off."""

    at_ns: Sequence[int]
    jumps: Sequence[int]

    @classmethod
    def spent(cls, at_ns: Sequence[int], gap_ns: int) -> Tokens:
        """Tokens at these instants; what is further apart than ``gap_ns`` is far off."""
        several = enumerate(pairwise(at_ns))
        return cls(at_ns, [i for i, (before, after) in several if after - before > gap_ns])


class Alike(msgspec.Struct, frozen=True):
    """The n-th wait of all nodes of a group in one replay."""

    tokens: Tokens
    first_token: int
    last_token: int
    eligible_ns: int
    useless_ns: int
    all_served: bool


def _alike(tokens: Tokens, members: list[Sequence[Wait]], group: tuple[str, ...]) -> list[Alike]:
    found = []
    for ordinal in range(max((len(waits) for waits in members), default=0)):
        waits = [waits[ordinal] for waits in members if ordinal < len(waits)]
        found.append(
            Alike(
                tokens,
                min(wait.first_token for wait in waits),
                max(wait.last_token for wait in waits),
                min(wait.eligible_ns for wait in waits),
                max(wait.useless_ns for wait in waits),
                len(waits) == len(group) and all(wait.served for wait in waits),
            )
        )
    return found


class Replayed(msgspec.Struct, frozen=True):
    """One replay, told by groups: the waits of each in order; its tokens; when nodes were served first."""

    rows: list[list[Alike]]
    tokens: Tokens
    services: tuple[int, ...]
    # What decided it: see ``LineHistory``.
    before: Collection[tuple[InLine, InLine]]
    pass_inside_matters: bool
    late_view_matters: bool
    # Which of the line's ``unknown_after_ready_ns`` late views may waste a token of; and before which of them nobody waits.
    late_views: frozenset[int]
    idle_views: frozenset[int]
    token_at_start_matters: bool
    # How many operations were replayed.
    operations: int

    def is_that_of(self, order: Order) -> bool:
        """Whether the order takes everybody who was taken before the same others."""
        return all(one.placed(order) < other.placed(order) for one, other in self.before)


# Rules without one thing that may be there, and what a replay by them says of whether it would have mattered.
_SIMPLER: tuple[tuple[Callable[[LineRules], LineRules], Callable[[Replayed], bool]], ...] = (
    (lambda rules: rules._replace(spent_at_start=False), attrgetter("token_at_start_matters")),
    (lambda rules: rules._replace(mid_tick_pass=False), attrgetter("pass_inside_matters")),
    (
        lambda rules: rules._replace(stale_lister=False, late_views=None, waits_for_views_ns=0),
        attrgetter("late_view_matters"),
    ),
)


class _Asked(NamedTuple):
    """What a replay depends on besides the order."""

    line: ZoneLine
    rules: LineRules
    groups: Groups
    gap_ns: int


class Replays:
    """Replays of lines, and what was found out by them."""

    def __init__(self, budget: Budget, horizon_ns: int = NEVER_NS) -> None:
        """``budget``: of what is replayed now; ``cut_short``: whether it did not last for something, since that was last set.

        ``horizon_ns``: the user's; what is told goes on for longer.
        """
        self.budget = budget
        self.horizon_ns = horizon_ns
        self.cut_short = False
        # Waits of all nodes, and when nodes were served, by all that they depend on.
        self.windows: dict[Hashable, tuple[dict[str, list[WaitWindow]], set[tuple[int, ...]]]] = {}
        self._known: dict[_Asked, list[Replayed]] = {}

    def of(
        self, line: ZoneLine, rules: LineRules, order: Order, groups: Groups, gap_ns: int
    ) -> Replayed:
        """The replay of the line; nodes are told apart as ``groups`` say."""
        if not line.is_short:
            return self._made(line, rules, order, groups, gap_ns)
        asked = _Asked(line, rules, groups, gap_ns)
        known = self._known_of(asked, order)
        if known is None:
            known = self._made(line, rules, order, groups, gap_ns)
            self._known.setdefault(asked, []).append(known)
        return known

    def _made(
        self, line: ZoneLine, rules: LineRules, order: Order, groups: Groups, gap_ns: int
    ) -> Replayed:
        made = _replayed(line, rules, order, groups, gap_ns)
        self.budget.spend(made.operations)
        return made

    def _known_of(self, asked: _Asked, order: Order) -> Replayed | None:
        """The replay, or one by simpler rules in which the difference never mattered."""
        several, rules = self._known.get(asked, ()), asked.rules
        known = next((each for each in several if each.is_that_of(order)), None)
        for without, would_matter in _SIMPLER:
            simpler = without(rules)
            if known is None and simpler != rules:
                known = self._known_of(asked._replace(rules=simpler), order)
                if known is not None and would_matter(known):
                    known = None
        return known


def _replayed(
    line: ZoneLine, rules: LineRules, order: Order, groups: Groups, gap_ns: int
) -> Replayed:
    numbers = {group[0]: len(group) for group in groups if group[0] in line.group_of}
    if line.is_plain and rules.serves_alike(line.told, numbers.values()):
        groups = tuple(group[:1] for group in groups)
        operations = line.told_of_some(numbers)
    else:
        numbers, operations = {}, line.operations
    shown_late_ns = line.seen_late_ns(rules)
    told = operations, rules, line.leaving, order, shown_late_ns, numbers
    # Where entries come again, who comes first matters even where nobody is taken.
    tells_before = line.is_short and not rules.enters_again
    history = LineReplay(*told, _tells_before=tells_before).run()
    before = history.before
    if rules.enters_again:
        before = set(pairwise(sorted(line.in_line, key=lambda one: one.placed(order))))
    services = history.first_services()
    if rules.profile.queue_mode == "REMOVE_ADD" and rules.taint_mode:
        exchange_those_who_stay(history)
    else:
        keep_to_the_line(history)
        exchange_those_of_one_tick(history)
    tokens = Tokens.spent(history.tokens_ns, gap_ns)
    rows = [
        _alike(tokens, [history.waits[name] for name in group if name in history.waits], group)
        for group in groups
    ]
    return Replayed(
        rows,
        tokens,
        services,
        before,
        history.pass_inside_matters,
        # Where nodes stood for several, nobody looked.
        bool(history.late_views_ns) or bool(numbers),
        line.places_of_views(history.late_views_ns),
        line.places_of_views(history.idle_until_ns),
        history.token_at_start_matters,
        len(operations),
    )
