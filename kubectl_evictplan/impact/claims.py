"""Claims of pods that go away, as the document tells them."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.volumes import (
    DETACH,
    FORCE_DETACH,
    HELD,
    LEFT_BEHIND,
    NEVER_MOVES,
    SHARED,
    STILL_USED,
    UNKNOWN,
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
    UNKNOWN: "the claim is not in the input",
}


def volume_impacts(world: World) -> tuple[VolumeImpact, ...]:
    """Every claim that a successor may have to wait for, sorted."""
    return tuple(sorted(_claims(world), key=lambda one: (one.namespace, one.claim, one.pod)))


def _claims(world: World) -> Iterator[VolumeImpact]:
    for fate in world.fates.values():
        for hold in world.holds(fate.pod):
            if hold.code != SHARED:
                yield VolumeImpact(
                    namespace=fate.pod.namespace,
                    claim=hold.claim,
                    pod=fate.pod.name,
                    node=fate.pod.node_name,
                    code=hold.code,
                    why=_WHY[hold.code],
                    free=telling.instant(hold.free),
                )
