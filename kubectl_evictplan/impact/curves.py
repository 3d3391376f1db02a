"""Curves of groups: how many are there over time. Alike pods are counted, and equal groups have one curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from kubectl_evictplan.impact.availability import Availability, Group, Member, grouped, says_more
from kubectl_evictplan.impact.fates import OF_SHARED, Fate, shared_of
from kubectl_evictplan.impact.node_lives import Frozen, thawed_absence
from kubectl_evictplan.impact.stretches import NONE, Absence


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
        self._of_alike: dict[object, Availability | None] = {}

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
        moving = list(fates)
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
        going = [one for one in zip(moving, absences, strict=True) if one[1] is not NONE]
        parts = self._by_limit(going) if limited and self._asked else {"": _members(going)}
        alone = len(parts) == 1
        groups = [
            grouped(members, self._spare.get(limit), alone=alone)
            for limit, members in parts.items()
        ]
        if not alone or groups[0].by_node:
            return Availability(before, groups, gains)
        return self._once(before, groups[0], gains)

    def _by_limit(self, going: Sequence[tuple[Fate, Absence]]) -> dict[str, list[Member]]:
        """Of those under a budget that is asked no more are away than it lets go."""
        parts: dict[str, list[Member]] = {"": []}
        for one, absent in going:
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
        """The curve by what alike pods share, of which most groups have the same; None where pods, or their nodes, say more."""
        # On one node all that begins together is told by its anchors.
        if _on_one_node(moving):
            return None
        numbers = Counter(map(shared_of, moving))
        token = before, absence_of, is_late, frozenset(numbers.items())
        if token not in self._of_alike:
            each = dict(zip(map(shared_of, moving), map(absence_of, moving), strict=True))
            absences = self._thawed(list(each.values())) if is_late else each.values()
            counted = list(zip(absences, map(numbers.__getitem__, each), strict=True))
            self._of_alike[token] = self._plain(before, counted)
        return self._of_alike[token]

    def _plain(self, before: int, counted: Sequence[tuple[Absence, int]]) -> Availability | None:
        """``counted``: how many have an absence. Whoever has none may be one more."""
        if any(absent is NONE for absent, _ in counted) or any(map(says_more, counted)):
            return None
        together: dict[int, tuple[Absence, int]] = {}
        for absent, number in counted:
            known = together.get(id(absent), (absent, 0))
            together[id(absent)] = absent, number + known[1]
        return self._once(before, Group(list(together.values())), ())

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


def _members(going: Iterable[tuple[Fate, Absence]]) -> list[Member]:
    return [(one.pod.node_name, absent) for one, absent in going]


def _on_one_node(moving: Sequence[Fate]) -> bool:
    """Whether all are on the same node; not where there is nobody."""
    for one in moving:
        if one.pod.node_name != moving[0].pod.node_name:
            return False
    return bool(moving)
