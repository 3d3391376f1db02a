"""What events tell of deletions that nobody saw.

Events name a pod, seldom its UID; equal ones are counted together, and after an hour they are gone. So an
event helps only where it can mean one pod alone, and its absence tells nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import (
    KILLING,
    MARKING,
    NODE_CONTROLLER_EVICTION,
    STOPPING,
    TAINT_MANAGER_EVICTION,
    Interval,
    SeenEvent,
    SeenPod,
)

# The event is written just before the DELETE (``deletePodHandler``), which is tried a few times; the
# controller's clock may differ from the API server's.
_BEFORE_NS = SECOND_NS
_AFTER_NS = 2 * SECOND_NS
# How long a kubelet that is alive takes to stop a deleted pod's containers. Assumed, so it makes a
# deletion likely, never sure.
KUBELET_REACTION_NS = 5 * SECOND_NS

DISAPPEARANCE, EVENT, KILLING_EVENT = "disappearance", "event", "killing-event"


class Deletion(msgspec.Struct, frozen=True):
    """When a pod was first deleted: certainly in ``sure``, and probably in ``likely``."""

    sure: Interval
    likely: Interval | None
    told_by: str
    # Of the event that tells it.
    reason: str = ""
    ambiguous: bool = False


class EventIndex:
    """Events about pods, by the pod that they can mean."""

    def __init__(self, events: Iterable[SeenEvent], pods: Iterable[SeenPod]) -> None:
        self._by_pod: dict[str, list[SeenEvent]] = defaultdict(list)
        self._of_name = Counter(pod.key for pod in pods)
        for event in dict.fromkeys(event for event in events if event.kind == "Pod"):
            self._by_pod[f"{event.namespace}/{event.name}"].append(event)

    def deletion(self, pod: SeenPod, vanished: Interval) -> Deletion:
        """Return when a pod that vanished was deleted, as closely as events tell."""
        events = [one for one in self._by_pod[pod.key] if one.uid in ("", pod.uid)]
        ambiguous = False
        for event in events:
            if event.reason in (TAINT_MANAGER_EVICTION, NODE_CONTROLLER_EVICTION) and (
                event.told == MARKING
            ):
                instants = _instants(event, vanished)
                if len(instants) == 1 and self._means(event, pod):
                    near = Interval(
                        instants[0].earliest_ns - _BEFORE_NS, instants[0].latest_ns + _AFTER_NS
                    )
                    sure = near.common(vanished)
                    assert sure is not None
                    return Deletion(sure, None, EVENT, event.reason)
                ambiguous = ambiguous or bool(instants)
        return self._stopped(pod, vanished, events, ambiguous)

    def _stopped(
        self, pod: SeenPod, vanished: Interval, events: list[SeenEvent], ambiguous: bool
    ) -> Deletion:
        """Return what the kubelet's stopping of containers tells."""
        stops = [
            instant
            for event in events
            if event.reason == KILLING and event.told == STOPPING and event.uid == pod.uid
            for instant in _instants(event, vanished)
        ]
        if not stops:
            return Deletion(vanished, None, DISAPPEARANCE, ambiguous=ambiguous)
        first = min(stops)
        near = Interval(first.earliest_ns - KUBELET_REACTION_NS, first.latest_ns + SECOND_NS)
        return Deletion(vanished, near.common(vanished), KILLING_EVENT, KILLING)

    def _means(self, event: SeenEvent, pod: SeenPod) -> bool:
        """Tell whether the event is about this pod alone."""
        return event.uid == pod.uid or self._of_name[pod.key] == 1


def _instants(event: SeenEvent, within: Interval) -> list[Interval]:
    """Return the occurrences that can be meant; those between the first and the last are lost."""
    known = [event.first] if event.count <= 1 or event.first == event.last else []
    known = known or [event.first, event.last]
    near = Interval(within.earliest_ns - _AFTER_NS, within.latest_ns + _BEFORE_NS)
    found = [instant for instant in known if instant.meets(near)]
    lost = event.count > 2 and Interval(event.first.latest_ns, event.last.earliest_ns).meets(near)
    return found + found if lost else found
