"""How many pods surely find a place among some nodes, whatever the scheduler prefers and whoever comes before them.

A node refuses a pod that it has room for now only when others have taken that room: so much of one resource that less
is left than the pod asks for. Everything is counted in units, of each resource as large as one likes: a node takes
so many to be full, each of the others brings at most so many to the one node that it sits on. Where all the others
together bring fewer units than all nodes take, one node at least is left. In units of what the pod itself asks for
that is "there are as many places as pods that look for one"; finer units count small pods as what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate, islice, repeat
from operator import mul

import msgspec

from kubectl_evictplan.kube.needs import PODS, PodNeeds
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, places

Requests = tuple[tuple[str, int], ...]


class Competing(msgspec.Struct, frozen=True):
    """``number`` pods with such needs that may come to ``nodes`` and to no others."""

    needs: PodNeeds
    number: int
    nodes: NodeSet = -1


# Units are made after a node with little to spare, or with more than so many hundredths of them.
_TYPICAL = (0, 10, 25, 50, 75)
# Of many nodes fewer ways to count are tried: there units hardly matter, and each costs a look at every node.
_MANY_NODES = 500
_TYPICAL_OF_MANY = (10, 50)
# So many pods at most are taken to fill a node each; leaving one out makes the bound no less right.
_LARGE_MAX = 100
# So many (needs, node) and (needs, needs that compete) are looked at, in every way to count: about half a microsecond each,
# so some seconds on the slowest machines. Hundreds of different needs on 5,000 nodes stay far below.
COUNTED_MAX = 6_000_000
# So many units make all that such a node can spare, where they are fine.
_FINE = 1 << 20


class _Unit(msgspec.Struct, frozen=True):
    """An amount of a resource counts ``per`` units for each ``amount`` of it, rounded up."""

    amount: int
    per: int = 1


Units = Mapping[str, _Unit]


class _Brought(msgspec.Struct, frozen=True):
    """Units that pods bring: as much for each of the ``number``."""

    units: int
    number: int


class _Count:
    """One way to count. ``own``: units of one pod that is asked about; ``total``: of all that compete.

    ``nodes``: units that take a node up, the most first, and ``taken_up`` those that take up the first so many of them;
    ``brought``: those that compete and may bring more than the smallest node takes, who brings the most first.
    """

    def __init__(
        self, own: int, nodes: list[int], units: Sequence[int], numbers: Sequence[int]
    ) -> None:
        """``units``: what those that compete bring each, ``numbers``: how many bring as much."""
        self.own, self.nodes = own, nodes
        self.taken_up = [0, *accumulate(nodes)]
        self.total: int = sum(map(mul, units, numbers))
        self.brought = _most_brought(units, numbers, nodes[-1])
        # Groups of as many pods with equal needs get one answer.
        self._answers: dict[tuple[int, int, bool], int] = {}

    def at_least(self, count: int, blockers: int, *, alone: bool) -> int:
        """How many of ``count`` find a place; each of ``blockers`` keeps them off a node, and they each other if ``alone``."""
        key = count, blockers, alone
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = self._find(count, blockers, alone=alone)
        return found

    def _find(self, count: int, blockers: int, *, alone: bool) -> int:
        others = self.total - self.own * count
        if not alone and self.taken_up[-1] - others > self.own * (count - 1):
            return count
        least, most = 0, count
        while least < most:
            placed = (least + most) // 2
            if self._filled(count, placed, blockers, alone=alone) < self.taken_up[-1]:
                least = placed + 1
            else:
                most = placed
        return least

    def _filled(self, count: int, placed: int, blockers: int, *, alone: bool) -> int:
        """How many units at most are taken up by the others and so many of them: each fills one node, not more."""
        one_node_each = blockers + (placed if alone else 0)
        bring = 0 if alone else placed
        if one_node_each >= len(self.nodes):
            return self.taken_up[-1]
        rest = self.total - self.own * (count - bring)
        filled = self.taken_up[one_node_each] + rest
        for units in islice(self._large(count - bring), _LARGE_MAX):
            one_node_each += 1
            if one_node_each > len(self.nodes):
                break
            rest -= units
            filled = min(filled, self.taken_up[one_node_each] + rest)
        return filled

    def _large(self, missing: int) -> Iterator[int]:
        """What each brings that may bring more than a node takes, the most first; ``missing``: so many like own are not there."""
        for one in self.brought:
            there = one.number
            if one.units == self.own:
                there = max(one.number - missing, 0)
                missing -= one.number - there
            yield from repeat(one.units, there)


class TooMany(Exception):
    """More would have to be counted than ``COUNTED_MAX``."""


class _Requests(msgspec.Struct, frozen=True):
    """What ``number`` of those that compete for ``nodes`` ask for, their place as a pod too."""

    asked: Mapping[str, int]
    number: int
    nodes: NodeSet


class Guarantee:
    """Answers for one capacity and one set of pods that compete for it."""

    def __init__(self, capacity: Capacity, competing: Iterable[Competing]) -> None:
        """``competing``: all pods that look for a place; those that are asked about are among them."""
        self._capacity = capacity
        # How many (needs, node) and (needs, needs that compete) were looked at.
        self.counted = 0
        numbers: Counter[tuple[Requests, NodeSet]] = Counter()
        self._with_ports: Counter[NodeSet] = Counter()
        # Alike groups compete as one object.
        every = list(competing)
        times = Counter(map(id, every))
        for at, one in {id(one): one for one in every}.items():
            number = one.number * times[at]
            numbers[one.needs.requests, one.nodes] += number
            if one.needs.host_ports:
                self._with_ports[one.nodes] += number
        self._competing = [
            _Requests({**dict(requests), PODS: 1}, number, nodes)
            for (requests, nodes), number in numbers.items()
        ]
        self._counts: dict[tuple[NodeSet, Requests], tuple[list[_Count], Iterator[_Count]]] = {}
        # Those of which some ways to count were left out: from then on nobody new is asked about.
        self._cut_short: set[tuple[NodeSet, Requests]] = set()

    def at_least(self, needs: PodNeeds, count: int, nodes: NodeSet, conflicts: int = 0) -> int:
        """Return how many of ``count`` such pods surely find a place on ``nodes``, which have room for one each.

        ``conflicts``: how many others may keep them off a node by being there at all, those asked about too. Raises
        TooMany.
        """
        if not nodes:
            return 0
        if needs.host_ports:
            with_ports = sum(n for their, n in self._with_ports.items() if their & nodes)
            conflicts = max(conflicts, with_ports)
        best, blockers = 0, max(conflicts - count, 0)
        for one in self._ways_to_count(needs, nodes):
            best = max(best, one.at_least(count, blockers, alone=conflicts > 0))
            if best == count:
                break
        return best

    def fewest(
        self, needs: PodNeeds, count: int, domains: Iterable[NodeSet], conflicts: int
    ) -> int:
        """Return how many at least find a place on one of these sets of nodes, whichever it is; raises TooMany."""
        several = list(domains)
        # Of thousands of domains the first that has no room says it.
        if not all(several):
            return 0
        fewest = count
        for nodes in several:
            fewest = min(fewest, self.at_least(needs, count, nodes, conflicts))
            if not fewest:
                break
        return fewest if several else 0

    def _ways_to_count(self, needs: PodNeeds, nodes: NodeSet) -> Iterator[_Count]:
        """Yield those that were asked for before, then new ones: the first mostly is enough."""
        key = nodes, needs.requests
        if key not in self._counts:
            if self._cut_short:
                raise TooMany
            self._counts[key] = [], self._count(needs, nodes)
        known, more = self._counts[key]
        yield from known
        if key in self._cut_short:
            raise TooMany
        try:
            for one in more:
                known.append(one)
                yield one
        except TooMany:
            self._cut_short.add(key)
            raise

    def _count(self, needs: PodNeeds, nodes: NodeSet) -> Iterator[_Count]:
        asked = {name: amount for name, amount in needs.requests if amount and name != PODS}
        asked[PODS] = 1
        listed = list(places(nodes))
        rivals = [one for one in self._competing if one.nodes & nodes]
        numbers = [one.number for one in rivals]
        columns = {name: [one.asked.get(name, 0) for one in rivals] for name in asked}
        spare = {name: self._spare(name, amount, listed) for name, amount in asked.items()}
        own = {**dict(needs.requests), PODS: 1}
        for units in _units(asked, spare):
            self._look_at(len(listed) + len(rivals))
            # Of thousands of nodes: no call for each.
            filled = [
                [-(-(amount + 1) * unit.per // unit.amount) for amount in spare[name]]
                for name, unit in units.items()
            ]
            # Each node once more, as ``min`` wants two.
            full = sorted(map(min, filled[0], *filled), reverse=True)
            (brings,) = _brought(units, {name: [own.get(name, 0)] for name in units})
            yield _Count(brings, full, _brought(units, columns), numbers)

    def _look_at(self, more: int) -> None:
        if self.counted + more > COUNTED_MAX:
            raise TooMany
        self.counted += more

    def _spare(self, name: str, amount: int, listed: list[int]) -> list[int]:
        """What each of these nodes has beyond what the pod asks for."""
        column = self._capacity.column(name)
        return [column[place] - amount for place in listed]


def _units(asked: Mapping[str, int], spare: Mapping[str, list[int]]) -> Iterator[Units]:
    """Yield units for each resource, all worth counting in; any would be right."""
    ordered = {name: sorted(column) for name, column in spare.items()}
    many = len(next(iter(ordered.values()))) > _MANY_NODES
    if not many:
        yield {name: _Unit(amount) for name, amount in asked.items()}
    for hundredths in _TYPICAL_OF_MANY if many else _TYPICAL:
        typical = {
            name: column[len(column) * hundredths // 100] for name, column in ordered.items()
        }
        # A typical node is full with as many more such pods, of every resource.
        more = min(typical[name] // amount for name, amount in asked.items())
        yield {name: _Unit(typical[name] + 1, _FINE) for name in asked}
        yield {
            name: _Unit(max(amount, typical[name] // more if more else typical[name] + 1))
            for name, amount in asked.items()
        }


def _most_brought(units: Sequence[int], numbers: Sequence[int], above: int) -> list[_Brought]:
    """Those that bring more than so many, who brings the most first; no more than are ever looked at."""
    largest = nlargest(_LARGE_MAX + 1, {one for one in units if one > above})
    found = dict.fromkeys(largest, 0)
    if found:
        for brought, number in zip(units, numbers, strict=True):
            if brought in found:
                found[brought] += number
    return [_Brought(*one) for one in found.items()]


def _brought(units: Units, asked: Mapping[str, Sequence[int]]) -> list[int]:
    """How many units at most pods bring to a node that ask for so much of each resource, in their order."""
    brought = [
        [-(-amount * unit.per // unit.amount) for amount in asked[name]]
        for name, unit in units.items()
    ]
    return list(map(max, brought[0], *brought))
