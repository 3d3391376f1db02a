"""All replays of all lines of a prediction, each made once for all rules and orders that come to the same.

What a replay says of itself is what it was decided by: who was taken before whom, and which of the rules it asked about.
Whatever order and rules agree with that, give it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_replay import LineReplay
from kubectl_evictplan.windows.places_in_line import InLine, Order, Placed
from kubectl_evictplan.windows.spans import NEVER_NS
from kubectl_evictplan.windows.unknowns.lines import LagsBetween, lags_between
from kubectl_evictplan.windows.zone_lines import Groups, LineHistory, LineRules, Wait, ZoneLine

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
    """One replay, told by groups: the waits of each in order; its tokens; when nodes were served first, and all times that they were."""

    rows: list[list[Alike]]
    tokens: Tokens
    services: tuple[int, ...]
    all_services: tuple[int, ...]
    # What decided it: see ``LineHistory``.
    before: Collection[tuple[InLine, InLine]]
    pass_inside_matters: bool
    late_view_matters: bool
    # Which of the line's ``unknown_after_ready_ns`` late views may waste a token of; and before which of them nobody waits.
    late_views: frozenset[int]
    idle_views: frozenset[int]
    token_at_start_matters: bool
    left_entries_ns: int | None
    # How many operations were replayed, and how many passes.
    work: int

    def is_that_of(self, placed: Placed) -> bool:
        """Whether the order takes everybody who was taken before the same others."""
        return all(placed[one] < placed[other] for one, other in self.before)


# Rules without one thing that may be there, and what a replay by them says of whether it would have mattered.
_SIMPLER: tuple[tuple[Callable[[LineRules], LineRules], Callable[[Replayed], bool]], ...] = (
    (lambda rules: replace(rules, spent_at_start=0.0), attrgetter("token_at_start_matters")),
    (lambda rules: replace(rules, mid_tick_pass=False), attrgetter("pass_inside_matters")),
    (
        lambda rules: replace(rules, stale_lister=False, late_views=None, waits_for_views_ns=0),
        attrgetter("late_view_matters"),
    ),
)


class Asked(NamedTuple):
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
        # Nodes of which something was not wholly explored in a piece before, for another reason than the budget.
        self.missed_of: set[str] = set()
        # Waits of all nodes, and when nodes were served, by all that they depend on.
        self.windows: dict[Hashable, tuple[dict[str, list[WaitWindow]], set[tuple[int, ...]]]] = {}
        self._known: dict[Asked, list[Replayed]] = {}
        self._lags: dict[Hashable, LagsBetween] = {}
        self._placed: dict[Order, Placed] = {}

    def of(
        self, line: ZoneLine, rules: LineRules, order: Order, groups: Groups, gap_ns: int
    ) -> Replayed:
        """The replay of the line; nodes are told apart as ``groups`` say."""
        asked = Asked(line, rules, groups, gap_ns)
        if not line.is_short:
            return self._made(asked, Placed(order))
        placed = self._placed.get(order)
        if placed is None:
            placed = self._placed[order] = Placed(order)
        known = self._known_of(asked, placed)
        if known is None:
            known = self._made(asked, placed)
            self._known.setdefault(asked, []).append(known)
        return known

    def lags_between(
        self, replayed: Sequence[tuple[ZoneLine, LineRules]], runs: Sequence[Replayed]
    ) -> LagsBetween:
        """Which lags between these replays of lines by rules matter: found out once, for many orders come to the same."""
        asked = *replayed, *map(id, runs)
        found = self._lags.get(asked)
        if found is None:
            found = lags_between(replayed, [run.tokens.at_ns for run in runs])
            # Others are not kept, so that another one may be where they were.
            if all(line.is_short for line, _ in replayed):
                self._lags[asked] = found
        return found

    def _made(self, asked: Asked, placed: Placed) -> Replayed:
        made = _replayed(asked, placed)
        self.budget.spend(made.work)
        return made

    def _known_of(self, asked: Asked, placed: Placed) -> Replayed | None:
        """The replay, or one by simpler rules in which the difference never mattered."""
        several, rules = self._known.get(asked, ()), asked.rules
        known = next((each for each in several if each.is_that_of(placed)), None)
        for without, would_matter in _SIMPLER:
            simpler = without(rules)
            if known is None and simpler != rules:
                known = self._known_of(asked._replace(rules=simpler), placed)
                if known is not None and would_matter(known):
                    known = None
        return known or self._without_holding(asked, placed)

    def _without_holding(self, asked: Asked, placed: Placed) -> Replayed | None:
        """A replay in which one of the tokens that are to be held comes as late by itself."""
        held = asked.rules.held
        for token, until_ns in held if not asked.rules.lag_ns else ():
            others = tuple(other for other in held if other[0] != token)
            rules = replace(asked.rules, held=others)
            known = self._known_of(asked._replace(rules=rules), placed)
            if known is not None and all(
                at_ns >= until_ns for at_ns in known.tokens.at_ns[token : token + 1]
            ):
                return known
        return None


def _replayed(asked: Asked, placed: Placed) -> Replayed:
    line, rules, groups, gap_ns = asked
    numbers = {group[0]: len(group) for group in groups if group[0] in line.group_of}
    if line.is_plain and rules.serves_alike(line.told, numbers.values()):
        groups = tuple(group[:1] for group in groups)
        operations = line.told_of_some(numbers)
    else:
        numbers, operations = {}, line.operations
    shown_late_ns = line.seen_late_ns(rules)
    told = operations, rules, line.leaving, placed, shown_late_ns, numbers
    history = LineReplay(*told, _tells_before=line.is_short).run()
    services, all_services = (history.services(again=again) for again in (False, True))
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
        all_services,
        history.before,
        history.pass_inside_matters,
        # Where nodes stood for several, nobody looked.
        bool(history.late_views_ns) or bool(numbers),
        line.places_of_views(history.late_views_ns),
        line.places_of_views(history.idle_until_ns),
        history.token_at_start_matters,
        history.left_entries_ns,
        len(operations) + history.passes,
    )


# -- who can change places in a replay ---------------------------------------------------------------


def keep_to_the_line(history: LineHistory) -> None:
    """First in, first out: only the tokens spent on nodes of the same tick can be a wait's own."""
    for wait in _every(history):
        # Without any, each token from the wait's beginning on comes too late for it.
        none = wait.first_token, wait.first_token - 1
        first, last = history.spent_on.get(wait.placed_ns, none)
        wait.first_token = max(wait.first_token, first)
        wait.last_token = min(wait.last_token, last)


def exchange_those_of_one_tick(history: LineHistory) -> None:
    """No order among the nodes that one tick puts in line."""
    together: dict[int, list[Wait]] = {}
    for wait in _staying(history):
        together.setdefault(wait.placed_ns, []).append(wait)
    for waits in together.values():
        _share(waits, max(wait.last_token for wait in waits))


def _every(history: LineHistory) -> Iterator[Wait]:
    return (wait for waits in history.waits.values() for wait in waits)


def _staying(history: LineHistory) -> Iterator[Wait]:
    return (wait for wait in _every(history) if wait.leaves_ns == NEVER_NS)


def exchange_those_who_stay(history: LineHistory) -> None:
    """Nodes that never leave can change places while both wait: the order among them is free."""
    staying = sorted(_staying(history), key=lambda wait: wait.first_token)
    together: list[Wait] = []
    last = -1
    for wait in staying:
        if together and wait.first_token > last:
            _share(together, last)
            together = []
        together.append(wait)
        last = max(last, wait.last_token)
    _share(together, last)


def _share(waits: list[Wait], last_token: int) -> None:
    all_served = all(wait.served for wait in waits)
    for wait in waits:
        wait.last_token = last_token
        wait.served = all_served
