"""Claims of pods that go away, as the document tells them."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.volumes import (
    DELETED,
    DETACH,
    FORCE_DETACH,
    HELD,
    LEFT_BEHIND,
    NEVER_MOVES,
    SHARED,
    STILL_USED,
    UNKNOWN,
    Hold,
)
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.prediction.impact_document import VolumeImpact

_WHY = {
    FORCE_DETACH: (
        "nobody can confirm the unmount: the attach-detach controller waits six minutes after the pod's end"
    ),
    DETACH: "it is detached after the pod's end and its unmount",
    NEVER_MOVES: "it lies on this node's own disk",
    LEFT_BEHIND: "it is a directory of this node: on another node the successor finds other data, or none",
    HELD: "the object of the old pod stays, and with it the attachment",
    STILL_USED: (
        "another pod uses it too: it is attached to one node at a time, and the scheduler does not see to it that its"
        " users share one"
    ),
    DELETED: (
        "it is being deleted: it goes with the last pod that uses it, and its data too where the volume's reclaim policy is"
        " Delete"
    ),
    UNKNOWN: "the claim is not in the input",
}


# Where all users go, each that is found to wait for ever would be one too many.
_ONE_OF_THEM = (
    "{number} pods that go use it, and it is attached to one node at a time: whichever of their successors comes first has it,"
    " with those that the scheduler puts beside it; the others wait as long as these run, and which that is is not known"
)


def volume_impacts(world: World) -> tuple[VolumeImpact, ...]:
    """Every claim that a successor may have to wait for, sorted."""
    return tuple(sorted(_claims(world), key=lambda one: (one.namespace, one.claim, one.pod)))


def _claims(world: World) -> Iterator[VolumeImpact]:
    claiming = world.volumes.claiming
    for fate in [fate for key, fate in world.fates.items() if key in claiming]:
        for hold in world.holds(fate.pod):
            if hold.code != SHARED:
                yield VolumeImpact(
                    namespace=fate.pod.namespace,
                    claim=hold.claim,
                    pod=fate.pod.name,
                    node=fate.pod.node_name,
                    code=hold.code,
                    why=_why(world, fate, hold),
                    free=telling.instant(hold.free),
                )


def _why(world: World, fate: Fate, hold: Hold) -> str:
    users = world.volumes.rivals.users_of(fate.pod.namespace, hold.claim)
    going = [world.deletions.get(key) for key in users]
    if hold.code == STILL_USED and going and all(one is not None and one.certain for one in going):
        return _ONE_OF_THEM.format(number=len(users))
    return _WHY[hold.code]
