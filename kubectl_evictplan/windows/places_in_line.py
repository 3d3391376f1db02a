"""Where nodes stand among those that one tick puts in line: upstream's order is that of a hash map, a replay has one of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import msgspec


class InLine(msgspec.Struct, frozen=True, cache_hash=True):
    """A node that waits: when it leaves unserved (``NEVER_NS``: it stays), and whether passes still see it as ready."""

    name: str
    leaves_ns: int
    seen_late: bool = False

    def placed(self, order: Order) -> str:
        """Its place as text, another one for each node: the smaller the earlier. Who may cost a token for nothing comes first."""
        return f"{int(not self.seen_late)}{order(self)}/{self.name}"


# A node's place among those that one tick puts in line, as text, the smaller the earlier.
Order = Callable[[InLine], str]


class Placed(dict[InLine, str]):
    """The places of all nodes in one order, each found out when it is first asked for."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self._order = order

    def __missing__(self, one: InLine) -> str:
        place = self[one] = one.placed(self._order)
        return place


class PlacesInLine(msgspec.Struct, eq=False):
    """What the queue of a replay calls nodes: it orders those of one tick by their names, so here they are called by their places."""

    _placed: Placed
    # Who was taken before whom that could have been taken as well: the replay is the same in every order that says so.
    before: set[tuple[InLine, InLine]] = set()
    _place_of: dict[str, str] = {}
    _in_line: dict[str, InLine] = {}
    # All that the queue has ever had since it was made, and of how many of them the order is noted.
    _entered: set[str] = set()
    _noted: int = 0

    def of(self, name: str) -> str | None:
        """The node's place; None where it has none."""
        return self._place_of.get(name)

    def give(self, one: InLine) -> str:
        """Give the node its place."""
        place = self._placed[one]
        self._place_of[one.name], self._in_line[place] = place, one
        return place

    def take(self, name: str) -> str:
        """Let the node get another place if it waits once more; the one that it had."""
        return self._place_of.pop(name)

    def at(self, place: str) -> InLine:
        """Who has that place, or had it."""
        return self._in_line[place]

    def enter(self, place: str) -> None:
        """Note that the queue has an entry of it."""
        self._entered.add(place)

    def made_anew(self) -> None:
        """Note that another queue begins, in which nobody is."""
        self._entered.clear()
        self._noted = 0

    def note_rivals(self, head: InLine, rivals: Iterable[InLine]) -> None:
        """Note whom the head was taken before."""
        self.before.update((head, rival) for rival in rivals)

    def note_entered(self) -> None:
        """Note the order of all that the queue ever had, where entries stay that nobody takes out.

        Where they are in its heap depends on it, and so who is taken. Before somebody is it decides nothing.
        """
        if self._noted < len(self._entered):
            self.before.update(pairwise(map(self._in_line.__getitem__, sorted(self._entered))))
            self._noted = len(self._entered)
