"""What wide bounds say of a world, held against realities of it; no exploration is needed for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from realities.contradictions import Told, node_changes
from realities.drawn_realities import World

from kubectl_evictplan.cluster.timeline import (
    SCENARIO,
    Entry,
    GarbageReason,
    PodDeleted,
    ZoneStateChanged,
)
from kubectl_evictplan.kube.taints import key_and_effect
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.windows.monitor_phase import with_visible_phase
from kubectl_evictplan.windows.outcome import follows_ticks
from kubectl_evictplan.windows.spans import NEVER_NS, Span
from kubectl_evictplan.windows.wide_bounds import WideBounds
from kubectl_evictplan.windows.wide_fates import Possible

TOLERANCE_NS = 1000


class WideWorld:
    """A world with what its wide bounds say of each pod name."""

    def __init__(self, world: World) -> None:
        configuration = with_visible_phase(world.snapshot, world.scenario, world.configuration)
        bounds = WideBounds.of(world.snapshot, world.scenario, configuration)
        fates, sure = bounds.fates, bounds.sure
        names = {node.name for node in world.snapshot.nodes}
        self._changes = bounds.changes
        self._taints_at_start = [
            (node.name, key_and_effect(taint))
            for node in world.snapshot.nodes
            for taint in node.taints
        ]
        self._zones = {zone_display_name(zone): zone for zone in bounds.rates.zones}
        versions = fates.versions(world.snapshot.pods, names)
        self._first_uids = {name: found[0].pod.uid for name, found in versions.items()}
        by_ns = {
            name: sure.first_deleted_by_ns(found, self._first_uids[name])
            for name, found in versions.items()
        }
        # Of the first pod of each name, to which nothing else happens before.
        self.certain_by_ns = {name: at_ns for name, at_ns in by_ns.items() if at_ns is not None}
        self.possible = {name: fates.possible(found) for name, found in versions.items()}

    def contradictions(self, reality: Told, horizon_ns: int) -> Iterator[str]:
        """What the reality did, or did not do, and the bounds exclude."""
        for entry in (*self.outside(reality), *self.changes_outside(reality)):
            yield f"outside its wide bound: {entry}"
        for name in self.absent(reality, horizon_ns):
            yield f"{name} surely deleted by {self.certain_by_ns[name] / 1e9}, and was not"

    def changes_outside(self, reality: Told) -> Iterator[Entry]:
        """What controllers change of nodes and zones, and the bounds exclude."""
        for entry in reality.entries:
            # The last node of another zone went before the start.
            if isinstance(entry, ZoneStateChanged) and entry.zone in self._zones:
                spans = self._changes.entered(self._zones[entry.zone], entry.state)
                if not _any_holds(spans, entry.at_ns):
                    yield entry
        for key, change, anew in node_changes(reality.entries, set(self._taints_at_start)):
            if not anew or not follows_ticks(key) or getattr(change, "by", "") == SCENARIO:
                continue
            if not _any_holds(self._changes.changes(key), change.at_ns):
                yield change

    def absent(self, reality: Told, horizon_ns: int) -> Iterator[str]:
        """Pods that are surely deleted within the horizon, but for garbage collection, and were not."""
        deleted: dict[str, int] = {}
        for entry in reality.entries:
            if isinstance(entry, PodDeleted) and entry.uid == self._first_uids.get(entry.pod):
                deleted.setdefault(entry.pod, entry.at_ns)
        for name, by_ns in self.certain_by_ns.items():
            due = by_ns + TOLERANCE_NS <= horizon_ns
            if due and deleted.get(name, NEVER_NS) > by_ns + TOLERANCE_NS:
                yield name

    def outside(self, reality: Told) -> Iterator[PodDeleted]:
        """First deletions that the bounds exclude; what is over the limit of finished pods is no part of them (``terminated_pods``)."""
        seen = set()
        for entry in reality.entries:
            if isinstance(entry, PodDeleted) and entry.garbage is GarbageReason.TERMINATED:
                continue
            if isinstance(entry, PodDeleted) and (entry.uid, entry.controller) not in seen:
                seen.add((entry.uid, entry.controller))
                if entry.pod in self.possible and not any(self._holding(entry)):
                    yield entry

    def _holding(self, deleted: PodDeleted) -> Iterator[Possible]:
        for each in self.possible[deleted.pod]:
            low_ns, high_ns = each.span
            if (each.controller, each.pod.uid) != (deleted.controller, deleted.uid):
                continue
            if low_ns - TOLERANCE_NS <= deleted.at_ns <= high_ns + TOLERANCE_NS:
                yield each


def _any_holds(spans: Iterable[Span], at_ns: int) -> bool:
    return any(low - TOLERANCE_NS <= at_ns <= high + TOLERANCE_NS for low, high in spans)
