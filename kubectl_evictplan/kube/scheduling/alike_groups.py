"""Groups of replacements that nothing tells apart but their owners: what is asked of one is known of all.

A large cluster has thousands of owners whose pods need the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubectl_evictplan.kube.scheduling.answers import Chance, Group, Unknown


class AlikeGroups:
    """The kinds of groups, by their number, and the chances of each kind as far as they were found."""

    def __init__(self, groups: Sequence[Group], *, asks_for_peers: bool) -> None:
        """``asks_for_peers``: labels count, so each group is on its own."""
        self.kinds = [
            number if asks_for_peers or _is_own(one) else _kind(one)
            for number, one in enumerate(groups)
        ]
        self._known: dict[Hashable, tuple[Chance, ...]] = {}

    def find(self, number: int, unknown: Sequence[Unknown]) -> tuple[Chance, ...] | None:
        """What was found for one that is alike, of which as much is unknown."""
        return self._known.get((self.kinds[number], unknown))

    def note(self, number: int, unknown: Sequence[Unknown], chances: tuple[Chance, ...]) -> None:
        """It holds for all that are alike."""
        self._known[self.kinds[number], unknown] = chances

    def forget(self) -> None:
        """Something changed that chances depend on."""
        self._known.clear()


def _is_own(group: Group) -> bool:
    # Which volumes these are counts, not only from where they can be reached.
    return group.needs.only_own_node or bool(group.reach.attached or group.reach.exclusive)


def _kind(group: Group) -> Hashable:
    return group.kind, len(group.pods)
