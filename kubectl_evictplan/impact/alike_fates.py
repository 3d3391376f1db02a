"""Which pods share what becomes of them: those that differ in nothing but their names, their owners' names and their deletions' ends.

A large cluster has tens of thousands of pods that something happens to, and some dozens of fates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

import msgspec

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import Fate, Moving, OwnerKey
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.impact.placements import Placement

_NOTHING = NodeLife()


class Told(msgspec.Struct, frozen=True):
    """What fates follow from besides pods and their deletions.

    ``kind_of``: all that counts of an owner; ``place_of``: when a successor finds a node, None: at once, whoever it is. By key
    ``returning``: those that come back to their node, ``own``: those that nobody is like; by identity ``absent``: those that are
    not there at the start.
    """

    lives: Mapping[str, NodeLife]
    kind_of: Callable[[OwnerKey], Hashable]
    place_of: Callable[[str, OwnerKey], Placement] | None
    returning: Collection[str]
    absent: Collection[int]
    own: Collection[str]


def alike(moving: Sequence[Moving], told: Told) -> Iterable[Hashable]:
    """Yield for each pod something that is equal for alike ones. By columns: most are the same for all."""
    # Owners of one kind, and deletions that differ in their ends only, have one number.
    numbers: dict[Hashable, int] = {}
    kinds = {
        owner: numbers.setdefault(told.kind_of(owner), len(numbers))
        for owner in {one.owner for one in moving}
    }
    deletions = {id(one.deletion): one.deletion for one in moving}
    likes = {
        at: numbers.setdefault(_without_end(deletion), len(numbers))
        for at, deletion in deletions.items()
    }
    lives, absent, place_of = told.lives, told.absent, told.place_of
    pods = [one.pod for one in moving]
    columns: list[Iterable[object]] = [
        map(id, [lives.get(pod.node_name, _NOTHING) for pod in pods]),
        [kinds[one.owner] for one in moving],
        [likes[id(one.deletion)] for one in moving],
    ]
    if absent:
        columns.append([id(pod) in absent for pod in pods])
    if told.own:
        columns.append([one.key in told.own for one in moving])
    if told.returning:
        columns.append(
            [
                pod.node_name if one.key in told.returning else ""
                for one, pod in zip(moving, pods, strict=True)
            ]
        )
    if place_of is not None:
        columns.append([id(place_of(one.key, one.owner)) for one in moving])
    return zip(*columns, strict=True)


def what_they_meet_with(fates: Sequence[Fate]) -> Hashable:
    """Equal for pods that share, one by one, all but their names, and their nodes where the others do.

    By identity: to be compared among the fates of one world.
    """
    # Alike pods share these as objects, and all else follows from them.
    parts = [(one.deletion, one.life, one.successor, one.away) for one in fates]
    shared = tuple([id(part) for four in parts for part in four])
    names = [one.pod.node_name for one in fates]
    together: tuple[int, ...] = ()
    if len(set(names)) < len(names):
        together = tuple(map(names.index, names))
    # Those that are not there at the start may become Ready.
    return shared, together, tuple([one.gain_ns for one in fates if not one.counted])


def _without_end(deletion: Deletion | None) -> str:
    """All of a deletion but the end of the object, which owners that replace at once do not wait for."""
    if deletion is None:
        return ""
    when = deletion.when
    return f"{when} {deletion.certain} {deletion.by} {deletion.taint} {deletion.tolerated_seconds}"
