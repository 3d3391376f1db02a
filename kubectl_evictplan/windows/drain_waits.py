"""Pods that a budget keeps waiting, over all runs of a drain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import (
    EVICTION_API,
    AboutPod,
    EvictionGivenUp,
    EvictionNotAllowed,
    PodDeleted,
    PodGone,
    Timeline,
)
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drain_instants import GAP_NS, Instants, NodeDrain, Within
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction

# The code that kubectl repeats.
_RETRIED = 429


class WaitKey(NamedTuple):
    """A pod that is not evicted at once."""

    process: int
    pod: str
    uid: str
    budgets: tuple[str, ...]


class Wait(NamedTuple):
    """From when a pod waits and until when. ``ends``: evicted, timeout, error, never, as in any run."""

    from_ns: int
    until: Within | None
    ends: frozenset[str]
    certain: bool


class Waits:
    """Fills itself run by run; ``uid_of`` leaves out pods of which nothing is told."""

    def __init__(
        self,
        classes: Sequence[Sequence[Pod]],
        class_of: Mapping[str, int],
        uid_of: Callable[[AboutPod], str | None],
    ) -> None:
        self._members = classes
        self._class_of = class_of
        self._uid = uid_of
        # Pods that were refused in some run.
        self.pods: set[str] = set()
        self._wait_from: Instants[WaitKey] = Instants(lambda _: GAP_NS)
        self._wait_until: Instants[WaitKey] = Instants(lambda _: GAP_NS)
        self._wait_ends: dict[WaitKey, set[str]] = {}
        self._node_of_wait: dict[WaitKey, NodeDrain] = {}

    def add(
        self, seed: int, timeline: Timeline, drains: Mapping[tuple[int, str], NodeDrain]
    ) -> None:
        """One more run; ``drains`` by process, as its entries have it, and node."""
        waiting: dict[tuple[str, int], WaitKey] = {}
        ends: dict[WaitKey, tuple[str, int]] = {}
        for entry in timeline.entries:
            uid = self._uid(entry) if isinstance(entry, AboutPod) else None
            if uid is None:
                continue
            if isinstance(entry, EvictionNotAllowed):
                self.pods.add(entry.pod)
                drain = drains[entry.process, entry.node]
                key = WaitKey(drain.process, entry.pod, uid, entry.budgets)
                waiting[entry.pod, entry.process] = key
                self._wait_from.add(key, seed, entry.asked_ns)
                self._node_of_wait[key] = drain
                if entry.code != _RETRIED:
                    ends[key] = "error", entry.at_ns
            elif isinstance(entry, EvictionGivenUp):
                key_of = waiting.get((entry.pod, entry.process))
                if key_of is not None:
                    ends.setdefault(key_of, (entry.reason.value, entry.at_ns))
            elif isinstance(entry, PodDeleted | PodGone):
                for (pod, _), key in waiting.items():
                    if pod == entry.pod:
                        ends.setdefault(key, ("evicted", entry.at_ns))
        for key in waiting.values():
            what, at_ns = ends.get(key, ("never", None))
            self._wait_ends.setdefault(key, set()).add(what)
            if at_ns is not None:
                self._wait_until.add(key, seed, at_ns)

    def found(
        self, evictions: Mapping[EvictionKey, PossibleEviction], runs: int
    ) -> dict[NodeDrain, dict[WaitKey, Wait]]:
        """By node and pod; what one of a class may have to wait, each of its pods may."""
        alike: dict[object, list[WaitKey]] = {}
        for key in self._wait_from.by_seed:
            group = self._class_of.get(key.pod)
            together = (key.process, key.budgets, key.pod if group is None else group)
            alike.setdefault(together, []).append(key)
        found: dict[NodeDrain, dict[WaitKey, Wait]] = {}
        for keys in alike.values():
            group = self._class_of.get(keys[0].pod)
            pods = self._members[group] if group is not None else None
            always = runs * (1 if pods is None else len(pods))
            wait = self._wait_of(keys, evictions, always)
            node = self._node_of_wait[keys[0]]
            if pods is not None:
                keys = [keys[0]._replace(pod=pod.key, uid=pod.uid) for pod in pods]
            found.setdefault(node, {}).update(dict.fromkeys(keys, wait))
        return found

    def _wait_of(
        self,
        keys: Sequence[WaitKey],
        evictions: Mapping[EvictionKey, PossibleEviction],
        always: int,
    ) -> Wait:
        untils = [self._wait_until.within(key, self._wait_from.runs[key]) for key in keys]
        known = [until for until in untils if until is not None]
        until = None
        if known:
            latest = [one.latest_ns for one in known if one.latest_ns is not None]
            ended = len(latest) == len(keys)
            # Few runs may show a wait; it can last as long as an eviction can be late.
            found = (evictions.get(EvictionKey(k.pod, k.uid, EVICTION_API, 0)) for k in keys)
            latest += [eviction.latest_ns for eviction in found if eviction is not None]
            until = Within(min(one.earliest_ns for one in known), max(latest) if ended else None)
        return Wait(
            min(self._wait_from.spans(key)[0][0] for key in keys),
            until,
            frozenset().union(*(self._wait_ends[key] for key in keys)),
            sum(self._wait_from.runs[key] for key in keys) == always,
        )
