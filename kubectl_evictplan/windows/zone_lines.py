"""What the queue of one zone is told in one run, and which of its nodes are alike."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import QueueOperation, Told
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE, UNKNOWN
from kubectl_evictplan.controllers.releases import ReleaseProfile
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.windows.places_in_line import InLine
from kubectl_evictplan.windows.spans import NEVER_NS

# What makes a queue anew, or its process.
_MADE_ANEW = (Told.CREATED, Told.STARTED, Told.STOPPED)

# Operations of lines whose replays are remembered: longer ones come in few pieces, and never twice.
_REMEMBERED_MAX = 1_000

_T = TypeVar("_T")

# Which token, and from when on it is spent.
Held = tuple[int, int]
# Nodes, those that are alike together.
Groups = tuple[tuple[str, ...], ...]


def is_seen_late(before: str | None, status: str | None) -> bool:
    """Whether a late view still shows as ready a node whose Ready changes so: what a kubelet posts it shows before any tick decides on it."""
    return status == UNKNOWN and before in (TRUE, None)


class LineRules(msgspec.Struct, frozen=True, cache_hash=True):
    """What a replay needs to know besides the operations; instants are offsets from the start."""

    profile: ReleaseProfile
    taint_mode: bool
    rate_qps: float
    end_ns: int
    period_ns: int
    # Where the monitor of each process ticks.
    timing: Timing
    # From when a node and a token are both there to the pass that finds them.
    lag_ns: int = 0
    # A pass falls between the node steps and the zone logic of every tick.
    mid_tick_pass: bool = False
    # The informer shows Ready=Unknown late: a pass right after the write wastes its token.
    stale_lister: bool = False
    # How much of the token of the start is spent (1.0 just before it, 0.5 half a refill before; more: later ones as well); the most.
    spent_at_start: float = 0.0
    spent_at_most: float = 1.0
    # The limiter of the start was stopped before, and still is.
    stopped_at_start: bool = False
    # Tokens of which the pass comes then, or at once if it can only come later, whatever the lag says.
    held: tuple[Held, ...] = ()
    # Which of the line's ``unknown_after_ready_ns`` a ``stale_lister`` shows late, by their places; None: each of them.
    late_views: frozenset[int] | None = None
    # The pass of a token comes later, by so much at the most for each token until then, where it meets a late view so.
    waits_for_views_ns: int = 0

    @property
    def enters_again(self) -> bool:
        """Whether every tick puts another entry of a waiting node in line."""
        return self.taint_mode and self.profile.queue_mode == "SETREMOVE"

    def serves_alike(self, operations: Iterable[QueueOperation], numbers: Iterable[int]) -> bool:
        """Whether each token taints whoever is at the head, and those of one tick who wait can change places.

        ``numbers``: how many nodes are alike, of all groups. A token that a late view wastes on one of them changes nothing for
        the others where tokens cannot get through with a group before the next tick, which puts that node back.
        """
        if not self.taint_mode or self.enters_again:
            return False
        rates_qps = self.rate_qps, *(each.qps for each in operations if each.told is Told.SWAP)
        # A bucket without a rate serves all of them at once, or nobody.
        if min(rates_qps) <= 0:
            return False
        tokens = 2 + 2 * max(rates_qps) * self.period_ns / SECOND_NS
        return not self.stale_lister or all(number > tokens for number in numbers)


class Wait(msgspec.Struct, eq=False):
    """A node's wait in line: which tokens could have been its own.

    Tokens are counted from 0 in the order in which the replay spends them; the wait may be served with
    any from ``first_token`` to ``last_token`` (none when the latter is smaller). From ``useless_ns`` on a token buys
    no taint: the node is ready or deleted, or the process has ended. ``placed_ns``: of the tick that put it in line.
    """

    eligible_ns: int
    placed_ns: int
    # When it stops making sense if it is not served before; NEVER_NS when it does not.
    leaves_ns: int
    first_token: int
    last_token: int
    served: bool = False
    useless_ns: int = NEVER_NS


class LineHistory(msgspec.Struct, frozen=True):
    """What one replay found: the instants of all tokens, and each node's waits in order."""

    tokens_ns: Sequence[int]
    waits: Mapping[str, Sequence[Wait]]
    # The first and the last token that was spent on nodes which a tick at an instant put in line.
    spent_on: Mapping[int, tuple[int, int]]
    # Where nodes stand for several: which tokens served nobody, each of the others another node. None where no node does.
    wasted: Collection[int] | None
    # What the rules say of passes inside ticks had a say in it.
    pass_inside_matters: bool
    # Of each token for which somebody in line could still be seen as ready: when Ready=Unknown was written of that node.
    late_views_ns: Sequence[int]
    # When a tick wrote Ready=Unknown before which nobody waited, whoever else it put in line.
    idle_until_ns: Collection[int]
    token_at_start_matters: bool
    # Who was taken before whom that could have been taken as well: the replay is the same in every order that says so.
    before: Collection[tuple[InLine, InLine]]
    # See ``RateLimitedTimedQueue``.
    left_entries_ns: int | None
    passes: int

    def services(self, *, again: bool) -> tuple[int, ...]:
        """The instants at which nodes are served for the first time, sorted; ``again``: and those at which they are once more."""
        if self.wasted is not None:
            tokens = enumerate(self.tokens_ns)
            return tuple(at_ns for token, at_ns in tokens if token not in self.wasted)
        served = (
            [self.tokens_ns[wait.last_token] for wait in waits if wait.served]
            for waits in self.waits.values()
        )
        return tuple(sorted(at_ns for each in served for at_ns in (each if again else each[:1])))


class ZoneLine:
    """What one zone's queue is told in one run, and who in it is alike.

    ``told`` is told of one node where several are alike, its ``members``.
    """

    def __init__(
        self,
        told: Sequence[QueueOperation],
        members: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.told = told
        of_each: dict[str, list[tuple[int, object, str | None]]] = {}
        for operation in told:
            if operation.name:
                of_each.setdefault(operation.name, []).append(
                    (operation.at_ns, operation.told, operation.status)
                )
        self._members = {name: members[name] for name in of_each if name in members}
        # Equal for nodes that are told apart by nothing: whatever happens to one can happen to each.
        numbers: dict[tuple[object, ...], int] = {}
        self.group_of = self._of_members(
            {
                name: numbers.setdefault(tuple(operations_of_it), len(numbers))
                for name, operations_of_it in of_each.items()
            }
        )
        self.leaving = self._of_members(_leaving_instants(told))

    def _of_members(self, found: Mapping[str, _T]) -> dict[str, _T]:
        """What was found of one node of those that are alike, of all of them."""
        of_all: dict[str, _T] = {}
        for name, each in found.items():
            of_all.update(dict.fromkeys(self._members.get(name, (name,)), each))
        return of_all

    def _everybody(self, names: Iterable[str]) -> frozenset[str]:
        """These, and all that are alike."""
        return frozenset(self._of_members(dict.fromkeys(names)))

    @cached_property
    def operations(self) -> Sequence[QueueOperation]:
        """What is told of each node, of alike ones as if a tick had come to one after the other."""
        return list(_told_of_all(self.told, self._members)) if self._members else self.told

    @cached_property
    def number_of_operations(self) -> int:
        """How many these are."""
        more = (len(self._members.get(each.name, " ")) for each in self.told)
        return sum(more) if self._members else len(self.told)

    @property
    def identity(self) -> Hashable:
        """Equal for lines that were told the same: one of them stands for all."""
        return tuple(self.told), tuple(self._members.items())

    @property
    def is_short(self) -> bool:
        """Whether it is worth remembering what replays of it gave."""
        return self.number_of_operations <= _REMEMBERED_MAX

    @cached_property
    def limiter_changes(self) -> bool:
        """Whether the line's limiter changes after the start."""
        swaps = [operation for operation in self.told if operation.told is Told.SWAP]
        rates = {operation.qps for operation in swaps}
        return len(rates) > 1 or any(o.told is Told.STARTED for o in self.told)

    @cached_property
    def limiter_stays_until_ns(self) -> int:
        """Until when the limiter of the start is the line's; ``NEVER_NS`` where it stays."""
        qps: float | None = None
        for each in self.told:
            swapped = each.told is Told.SWAP and qps is not None and each.qps != qps
            if each.at_ns > 0 and (swapped or each.told in _MADE_ANEW):
                return each.at_ns
            if each.told is Told.SWAP:
                qps = each.qps
        return NEVER_NS

    def limiter_changes_ns(self, rate_qps: float) -> Iterator[int]:
        """When a tick exchanges the line's limiter for one with another rate; the first one has ``rate_qps``, neither may be 0."""
        qps = rate_qps
        for each in self.told:
            if each.told is Told.SWAP:
                if qps > 0 and each.qps > 0 and qps != each.qps:
                    yield each.at_ns
                qps = each.qps
            elif each.told in _MADE_ANEW:
                qps = rate_qps

    def rate_at_start_qps(self, rate_qps: float) -> float:
        """Of the limiter whose token may have been used just before the start; a new one has ``rate_qps``."""
        qps = rate_qps
        for each in self.told:
            if each.told is Told.SPENT:
                break
            if each.told is Told.SWAP:
                qps = each.qps
        return qps

    @cached_property
    def _written_since_ns(self) -> int:
        """From when on ticks write what is told: what is told at 0 was so before the start, unless a process begins then."""
        begins = any(each.told is Told.STARTED and each.at_ns == 0 for each in self.told)
        return 0 if begins else 1

    @cached_property
    def turning_unknown(self) -> frozenset[str]:
        """Nodes of which a tick writes Ready=Unknown."""
        since_ns = self._written_since_ns
        told = (each for each in self.told if each.told is Told.STATUS and each.at_ns >= since_ns)
        return self._everybody(each.name for each in told if each.status == UNKNOWN)

    @cached_property
    def unknown_after_ready_ns(self) -> list[int]:
        """When ticks write Ready=Unknown of nodes that were ready or new, sorted: a late view shows them ready."""
        return sorted({at for name in self._turns_unknown for at in self.unknown_after_ready(name)})

    def unknown_after_ready(self, name: str) -> list[int]:
        """When ticks write Ready=Unknown of that node, which was ready or new."""
        since_ns, turns = self._written_since_ns, self._turns_unknown.get(name, ())
        return [at_ns for at_ns, was in turns if at_ns >= since_ns and is_seen_late(was, UNKNOWN)]

    def places_of_views(self, instants: Iterable[int]) -> frozenset[int]:
        """Which of them these are."""
        views_ns = self.unknown_after_ready_ns
        return frozenset(views_ns.index(at_ns) for at_ns in instants if at_ns in views_ns)

    def seen_late_ns(self, rules: LineRules) -> Sequence[int]:
        """Which of them passes see late by these rules."""
        if not rules.stale_lister or rules.late_views is None:
            return self.unknown_after_ready_ns if rules.stale_lister else ()
        return [self.unknown_after_ready_ns[place] for place in sorted(rules.late_views)]

    def unknown_after_false(self, name: str) -> list[int]:
        """When ticks write Ready=Unknown of a node that posted Ready=False and fell silent."""
        return [at_ns for at_ns, was in self._turns_unknown.get(name, ()) if was == FALSE]

    @cached_property
    def _turns_unknown(self) -> Mapping[str, tuple[tuple[int, str | None], ...]]:
        """When it is written of each node that it is Unknown, and what was before; None where nothing was told."""
        newest: dict[str, str | None] = {}
        found: dict[str, tuple[tuple[int, str | None], ...]] = {}
        for each in self.told:
            if each.told is Told.STATUS:
                if each.status == UNKNOWN:
                    turn = each.at_ns, newest.get(each.name)
                    found[each.name] = (*found.get(each.name, ()), turn)
                newest[each.name] = each.status
        return self._of_members(found)

    @cached_property
    def waiting(self) -> frozenset[str]:
        """Nodes that a tick puts in line."""
        return self._everybody(each.name for each in self.told if each.told is Told.MARK)

    @cached_property
    def leaving_ns(self) -> list[int]:
        """When somebody stops being worth a token, sorted."""
        return sorted({at_ns for several in self.leaving.values() for at_ns in several})

    @cached_property
    def waits_begin_ns(self) -> list[int]:
        """Sorted, for each wait an instant before which it does not begin: each node waits once, and once more whenever it has left."""
        first: dict[str, int] = {}
        for each in self.told:
            if each.name and each.told not in (Told.STATUS, Told.NODE_GONE, Told.REACHABLE):
                first.setdefault(each.name, each.at_ns)
        again = (at_ns for several in self.leaving.values() for at_ns in several)
        return sorted((*self._of_members(first).values(), *again))

    @cached_property
    def entering_ns(self) -> list[int]:
        """When ticks put somebody in line after the start, sorted."""
        return sorted({each.at_ns for each in self.told if each.told is Told.MARK and each.at_ns})

    @cached_property
    def is_made_anew(self) -> bool:
        """Whether a process makes it anew and puts nodes there that were in it before, with or without their taint."""
        marked: set[str] = set()
        before: set[str] = set()
        for each in self.told:
            if each.told is Told.CREATED:
                before |= marked
            elif each.told in (Told.STARTED, Told.STOPPED):
                marked, before = set(), set()
            elif each.told is Told.MARK and each.name in before:
                return True
            elif each.told is Told.MARK:
                marked.add(each.name)
            elif each.told in (Told.REACHABLE, Told.NODE_GONE):
                marked.discard(each.name)
                before.discard(each.name)
        return False

    @cached_property
    def tainted_without_token(self) -> frozenset[str]:
        """Nodes that have a taint before they wait, or whose taint a tick exchanges for another."""
        kinds = Told.SWAPPED, Told.TAINTED_BEFORE
        return self._everybody(each.name for each in self.told if each.told in kinds)

    @cached_property
    def untainted(self) -> frozenset[str]:
        """Nodes whose taint a person takes off; nobody knows whether it is there then."""
        return self._everybody(each.name for each in self.told if each.told is Told.UNTAINTED)

    @cached_property
    def tainted_before_line(self) -> frozenset[str]:
        """Nodes on which a person puts the taint before a tick puts them in line: each costs a token there all the same."""
        in_line, found = set[str](), set[str]()
        for each in self.told:
            if each.told in _MADE_ANEW:
                in_line.clear()
            elif each.told is Told.MARK:
                in_line.add(each.name)
            elif each.told in (Told.REACHABLE, Told.NODE_GONE):
                in_line.discard(each.name)
            elif each.told is Told.TAINTED and each.name not in in_line:
                found.add(each.name)
        return self._everybody(found)

    @cached_property
    def turns_regained_ns(self) -> list[int]:
        """When people take such a taint off, sorted: from then on the node's turn buys one, if it is not over."""
        told = (each for each in self.told if each.told is Told.UNTAINTED)
        return sorted({each.at_ns for each in told if each.name in self.tainted_before_line})

    @cached_property
    def in_line(self) -> list[InLine]:
        """Every node, for each of its waits."""
        return [
            InLine(name, at_ns)
            for name in self.group_of
            for at_ns in (*self.leaving.get(name, ()), NEVER_NS)
        ]

    @cached_property
    def takes_back(self) -> bool:
        """Whether a tick takes nodes out of line at its end, because all zones are down."""
        waiting: set[str] = set()
        mid_tick_ns = -1
        for operation in self.told:
            if operation.told is Told.MID_TICK:
                mid_tick_ns = operation.at_ns
            elif operation.told is Told.MARK:
                waiting.add(operation.name)
            elif operation.told is Told.REACHABLE and operation.name in waiting:
                if operation.at_ns == mid_tick_ns:
                    return True
                waiting.discard(operation.name)
        return False

    @cached_property
    def is_plain(self) -> bool:
        """Whether nodes only join the line, not ready, and stay: then nobody needs to know who is served."""
        not_ready: set[str] = set()
        for operation in self.told:
            if operation.told is Told.STATUS and operation.status != TRUE:
                not_ready.add(operation.name)
            elif operation.told is Told.MARK:
                if operation.name not in not_ready:
                    return False
            elif operation.name or (not_ready and operation.told in _MADE_ANEW):
                return False
        return True

    def told_of_some(self, names: Iterable[str]) -> Sequence[QueueOperation]:
        """What is told of these nodes only."""
        if not self._members:
            chosen = {"", *names}
            return [each for each in self.told if each.name in chosen]
        some: dict[str, list[str]] = {name: [] for name in self._stands_for.values()}
        for name in names:
            some[self._stands_for[name]].append(name)
        return list(_told_of_all(self.told, some))

    @cached_property
    def _stands_for(self) -> dict[str, str]:
        return self._of_members({each.name: each.name for each in self.told if each.name})

    @property
    def ran_before_start(self) -> bool:
        """Whether a process may have used the zone's token: one that starts at that very instant has spent nothing."""
        return any(operation.told is Told.SPENT for operation in self.told)


def _leaving_instants(operations: Iterable[QueueOperation]) -> dict[str, list[int]]:
    """When each node stops being worth a token, in order."""
    instants: dict[str, list[int]] = {}
    for operation in operations:
        ready = operation.told is Told.STATUS and operation.status == TRUE
        if ready or operation.told in (Told.NODE_GONE, Told.REACHABLE):
            instants.setdefault(operation.name, []).append(operation.at_ns)
    return instants


def groups_of(lines: Iterable[ZoneLine]) -> Groups:
    """Nodes that no line tells apart."""
    found: dict[tuple[int | None, ...], list[str]] = {}
    several = list({id(line): line for line in lines}.values())
    names = sorted({name for line in several for name in line.group_of})
    keys = zip(*[map(line.group_of.get, names) for line in several], strict=True)
    for name, key in zip(names, keys, strict=True):
        found.setdefault(key, []).append(name)
    return tuple(tuple(names) for names in found.values())


def _told_of_all(
    told: Iterable[QueueOperation], members: Mapping[str, Sequence[str]]
) -> Iterator[QueueOperation]:
    for (_, name), together in groupby(told, key=lambda each: (each.at_ns, each.name)):
        names = members.get(name)
        if names is None:
            yield from together
        else:
            block = tuple(together)
            yield from (replace(each, name=name) for name in names for each in block)
