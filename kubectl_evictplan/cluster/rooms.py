"""How many replacements find a node that no drain empties, where the scheduler's filters do not let all of them in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from kubectl_evictplan.kube.objects import Pod


class Room(msgspec.Struct, frozen=True):
    """So many of a group surely find a node, and never more than ``most``."""

    least: int
    most: int


class Rooms(msgspec.Struct, frozen=True):
    """``group_of``: by ``room_key`` the place in ``rooms``; whoever is not in it is not limited by them."""

    group_of: Mapping[Hashable, int] = {}
    rooms: Sequence[Room] = ()

    @property
    def sure(self) -> bool:
        """Whether it is known of all how many find one."""
        return all(room.least == room.most for room in self.rooms)


# Whoever looks for a node finds one.
NO_LIMITS = Rooms()


def room_key(pod: Pod) -> Hashable:
    """What a replacement is known by: a StatefulSet's keeps its name and its claims, any other only its owner."""
    owner = pod.controller()
    if owner is None or owner.kind == "StatefulSet":
        return pod.key
    return owner.kind, pod.namespace, owner.name
