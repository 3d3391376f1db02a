"""Curves of groups: how many are there over time. Alike pods are counted, and equal groups have one curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from kubectl_evictplan.impact.availability import Availability, Group, Member, grouped, says_more
from kubectl_evictplan.impact.fates import OF_SHARED, Fate, SharedFate, node_name_of, shared_of
from kubectl_evictplan.impact.node_lives import Frozen, thawed_absence
from kubectl_evictplan.impact.stretches import NONE, Absence


class _Alike:
    """How many of some pods are alike: whatever is asked of the same ones, they are counted once."""

    def __init__(self, fates: Sequence[Fate]) -> None:
        self.fates = fates
        self.numbers = Counter(map(shared_of, fates))

    @cached_property
    def one_of(self) -> Mapping[SharedFate, Fate]:
        """One of those that share each."""
        return dict(zip(map(shared_of, self.fates), self.fates, strict=True))

    @cached_property
    def on_nodes(self) -> Mapping[tuple[SharedFate, str], int]:
        """How many share each on each node."""
        return Counter(zip(map(shared_of, self.fates), map(node_name_of, self.fates), strict=True))

    @cached_property
    def are_on_one_node(self) -> bool:
        """Whether all are on the same node; not where there is nobody."""
        for one in self.fates:
            if one.pod.node_name != self.fates[0].pod.node_name:
                return False
        return bool(self.fates)


class Curves:
    """Makes curves, each once.

    ``frozen``: when nobody writes endpoints. ``asked``: by the key of a pod what limits how many of its like are away at
    one time; ``spare``: how many these are.
    """

    def __init__(
        self, frozen: Sequence[Frozen], asked: Mapping[str, str], spare: Mapping[str, int]
    ) -> None:
        self._frozen, self._asked, self._spare = frozen, asked, spare
        self._known: dict[object, Availability] = {}
        self._of_alike: dict[object, Availability] = {}
        # Those of whom it was asked last, mostly several things.
        self._last: _Alike | None = None

    def curve(
        self,
        before: int,
        fates: Iterable[Fate],
        absence_of: Callable[[Fate], Absence],
        *,
        endpoints: bool,
        limited: bool = True,
    ) -> Availability:
        """See ``World.availability``."""
        moving = fates if isinstance(fates, list) else list(fates)
        is_late = bool(endpoints and self._frozen)
        if absence_of in OF_SHARED and not (limited and self._asked):
            known = self._of_shared(before, moving, absence_of, is_late=is_late)
            if known is not None:
                return known
        absences = list(map(absence_of, moving))
        some = zip(moving, absences, strict=True)
        found = [one.gain_ns for one, absent in some if absent is NONE]
        gains = [gain_ns for gain_ns in found if gain_ns is not None]
        if is_late:
            absences = self._thawed(absences)
        parts = {"": _members(moving, absences)}
        if limited and self._asked:
            parts = self._by_limit(moving, absences)
        alone = len(parts) == 1
        groups = [
            grouped(members, self._spare.get(limit), alone=alone)
            for limit, members in parts.items()
        ]
        if not alone or groups[0].by_node:
            return Availability(before, groups, gains)
        return self._once(before, groups[0], gains)

    def _by_limit(
        self, moving: Sequence[Fate], absences: Sequence[Absence]
    ) -> dict[str, list[Member]]:
        """Of those under a budget that is asked no more are away than it lets go."""
        parts: dict[str, list[Member]] = {"": []}
        for one, absent in zip(moving, absences, strict=True):
            if absent is not NONE:
                limit = self._asked.get(one.key, "")
                parts.setdefault(limit, []).append((one.pod.node_name, absent))
        return parts

    def _of_shared(
        self,
        before: int,
        moving: Sequence[Fate],
        absence_of: Callable[[Fate], Absence],
        *,
        is_late: bool,
    ) -> Availability | None:
        """The curve by what alike pods share; None where somebody is not away, who may be one more."""
        alike = self._alike(moving)
        # On one node all that begins together is told by its anchors.
        alone, numbers = alike.are_on_one_node, alike.numbers
        token = before, absence_of, is_late, frozenset(numbers.items())
        if not alone and (known := self._of_alike.get(token)) is not None:
            return known
        each = {shared: absence_of(fate) for shared, fate in alike.one_of.items()}
        if is_late:
            each = dict(zip(each, self._thawed(list(each.values())), strict=True))
        if any(absent is NONE for absent in each.values()):
            return None
        counted = _merged(each, numbers)
        if alone or any(map(says_more, counted)):
            pairs = alike.on_nodes.items()
            by_node = [(each[one], node, number) for (one, node), number in pairs]
            return Availability(before, [Group(counted, None, by_node)])
        found = self._of_alike[token] = self._once(before, Group(counted), ())
        return found

    def _alike(self, fates: Sequence[Fate]) -> _Alike:
        if self._last is None or self._last.fates is not fates:
            self._last = _Alike(fates)
        return self._last

    def _once(self, before: int, group: Group, gains: Sequence[int]) -> Availability:
        """The curve of a single group, of which nodes tell nothing more; such groups are thousands, curves a few."""
        numbers = frozenset([(id(absent), number) for absent, number in group.absences])
        token = before, numbers, tuple(sorted(gains))
        if (known := self._known.get(token)) is None:
            known = self._known[token] = Availability(before, [group], gains)
        return known

    def _thawed(self, absences: Sequence[Absence]) -> list[Absence]:
        """The same as endpoints show it. Alike pods share one object, and go on doing so."""
        later = {
            id(one): one if one is NONE else thawed_absence(one, self._frozen) for one in absences
        }
        return [later[id(one)] for one in absences]


def _members(moving: Sequence[Fate], absences: Sequence[Absence]) -> list[Member]:
    """Those of them that may be away."""
    every = zip(moving, absences, strict=True)
    return [(one.pod.node_name, absent) for one, absent in every if absent is not NONE]


def _merged(
    each: Mapping[SharedFate, Absence], numbers: Mapping[SharedFate, int]
) -> list[tuple[Absence, int]]:
    """How many have which absence, by what alike pods share."""
    found: dict[int, tuple[Absence, int]] = {}
    for shared, absent in each.items():
        known = found.get(id(absent), (absent, 0))
        found[id(absent)] = absent, numbers[shared] + known[1]
    return list(found.values())
