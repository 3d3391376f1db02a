"""Who is shown the objects of files as they are, before reading reduces them to what decides.

Predictions need none of it; whoever asks what happened does: when pods were deleted, who did it, and what
events tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from kubectl_evictplan.kube.sightings import SeenEvent, SeenNode, SeenPod
from kubectl_evictplan.sources import wire
from kubectl_evictplan.sources.sightings import (
    Unreadable,
    UnreadableObjects,
    seen_event,
    seen_node,
    seen_pod,
)

EVENTS_MAX = 200_000
# The kind of an object that does not even tell that.
UNKNOWN_KIND = "unknown"


class Witness:
    """Keeps what it sees of pods, nodes and events.

    ``unreadable`` has what no API server writes, ``left_out`` files of events that are too large.
    """

    def __init__(self) -> None:
        self.pods: dict[str, SeenPod] = {}
        self.nodes: dict[str, SeenNode] = {}
        self.events: dict[SeenEvent, None] = {}
        self.events_seen = False
        self.unreadable = UnreadableObjects()
        self.left_out = 0

    def wants(self, kinds: Mapping[str, int]) -> bool:
        """Tell whether a file with objects of these kinds is worth reading."""
        return "Event" in kinds

    def see(self, raw: msgspec.Raw | bytes, kind: str = "") -> None:
        """Take in one object; ``kind`` is what its list says, "" when it says so itself."""
        try:
            kind = kind or wire.ENVELOPE.decode(raw).kind or ""
            self._see(raw, kind)
        except (msgspec.DecodeError, RecursionError, Unreadable):
            self.unreadable.add(kind or UNKNOWN_KIND, raw)

    def see_tree(self, tree: dict[str, Any], kind: str) -> None:
        """Take in one object that was parsed already."""
        if kind in ("Pod", "Node", "Event"):
            self.see(json.dumps(tree, default=str).encode(), kind)

    def _see(self, raw: msgspec.Raw | bytes, kind: str) -> None:
        if kind == "Pod":
            pod = seen_pod(raw)
            known = self.pods.get(pod.uid)
            # Nothing of a deletion is undone: the state that shows one is the later of two.
            if known is None or known.deletion_timestamp_ns is None:
                self.pods[pod.uid] = pod
        elif kind == "Node":
            node = seen_node(raw)
            self.nodes[node.name] = node
        elif kind == "Event":
            self.events_seen = True
            event = seen_event(raw)
            if event is not None and len(self.events) < EVENTS_MAX:
                self.events[event] = None
