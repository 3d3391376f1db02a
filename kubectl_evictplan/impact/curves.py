"""Curves of groups: how many are there over time. Alike pods are counted, and equal groups have one curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kubectl_evictplan.impact.availability import Availability, Group, Member, grouped, plain_group
from kubectl_evictplan.impact.fates import Fate
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
        absences = list(map(absence_of, moving))
        gains: list[int] = []
        if id(NONE) in map(id, absences):
            some = zip(moving, absences, strict=True)
            found = (one.gain_ns for one, absent in some if absent is NONE)
            gains = [gain_ns for gain_ns in found if gain_ns is not None]
        if endpoints and self._frozen:
            absences = self._thawed(absences)
        if not (limited and self._asked) and not gains:
            if (plain := self._plain(before, moving, absences)) is not None:
                return plain
        # Of those under a budget that is asked no more are away than it lets go.
        parts: dict[str, list[Member]] = {"": []}
        for one, absent in zip(moving, absences, strict=True):
            if absent is not NONE:
                limit = self._asked.get(one.key, "") if limited else ""
                parts.setdefault(limit, []).append((one.pod.node_name, absent))
        alone = len(parts) == 1
        groups = [
            grouped(members, self._spare.get(limit), alone=alone)
            for limit, members in parts.items()
        ]
        if not alone or groups[0].by_node:
            return Availability(before, groups, gains)
        return self._once(before, groups[0], gains)

    def _plain(
        self, before: int, moving: Sequence[Fate], absences: Sequence[Absence]
    ) -> Availability | None:
        """The curve where nothing limits who is away; None where nodes say more."""
        # On one node all that begins together is told by its anchors.
        if _on_one_node(moving, absences):
            return None
        # What small groups lose is mostly known before anything is counted.
        token = before, *sorted(map(id, absences))
        known = self._known.get(token)
        if known is None and (group := plain_group(absences)) is not None:
            known = self._known[token] = self._once(before, group, ())
        return known

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


def _on_one_node(moving: Sequence[Fate], absences: Sequence[Absence]) -> bool:
    """Whether all that are away at some time were on the same node; not where nobody is."""
    first: str | None = None
    for one, absent in zip(moving, absences, strict=True):
        if absent is not NONE:
            node = one.pod.node_name
            if first is None:
                first = node
            elif node != first:
                return False
    return first is not None
