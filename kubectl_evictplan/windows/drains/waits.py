"""Pods that a budget keeps waiting, over all runs of a drain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import (
    EVICTION_API,
    AboutPod,
    DrainEnd,
    EvictionGivenUp,
    EvictionNotAllowed,
    PodDeleted,
    PodGone,
    Timeline,
)
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.instants import GAP_NS, Instants, NodeDrain, Within
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction

# How a wait ends (``Wait.ends``).
EVICTED, TIMED_OUT, FAILED, NEVER = "evicted", DrainEnd.TIMEOUT.value, "error", "never"


class WaitKey(NamedTuple):
    """A pod that is not evicted at once, and the budgets that refuse it: none where its namespace is Terminating."""

    process: int
    pod: str
    uid: str
    budgets: tuple[str, ...]


class Wait(NamedTuple):
    """From when a pod waits and until when. ``ends``: those of any run.

    ``by_ns``: where it is certain, when the pod is refused at the latest; None: some day.
    """

    from_ns: int
    until: Within | None
    ends: frozenset[str]
    certain: bool
    by_ns: int | None = None


class Refused(NamedTuple):
    """A refusal of one run and what came of the wait: how it ended and when (None: never)."""

    entry: EvictionNotAllowed
    ends: str
    at_ns: int | None


class Waits:
    """Fills itself run by run; ``uid_of`` leaves out pods of which nothing is told.

    ``asks`` has, by pod, the budget that is asked about it at the start: pods of one budget that are evicted in one turn
    are rivals, and which of them is refused is chance. Replacements on the node are rivals too.
    """

    def __init__(
        self,
        classes: Sequence[Sequence[Pod]],
        class_of: Mapping[str, int],
        uid_of: Callable[[AboutPod], str | None],
        asks: Mapping[str, str],
    ) -> None:
        self._members = classes
        self._class_of = class_of
        self._uid = uid_of
        self._asks = asks
        # Pods that were refused in some run, or might have been in a rival's stead.
        self.pods: set[str] = set()
        self._wait_from: Instants[WaitKey] = Instants(lambda _: GAP_NS)
        self._wait_until: Instants[WaitKey] = Instants(lambda _: GAP_NS)
        self._wait_ends: dict[WaitKey, set[str]] = {}
        self._node_of_wait: dict[WaitKey, NodeDrain] = {}
        # In how many runs the pod itself waits.
        self._runs: Counter[WaitKey] = Counter()

    def add(
        self, seed: int, timeline: Timeline, drains: Mapping[tuple[int, str], NodeDrain]
    ) -> None:
        """One more run; ``drains`` by process, as its entries have it, and node."""
        found = refusals(timeline)
        for refused in found:
            drain = drains[refused.entry.process, refused.entry.node]
            uid = self._uid(refused.entry)
            if uid is not None:
                key = WaitKey(drain.process, refused.entry.pod, uid, refused.entry.budgets)
                self._runs[key] += 1
                self._note(key, drain, seed, refused)
        if found:
            self._add_rivals(seed, timeline, drains, found)

    def _note(self, key: WaitKey, drain: NodeDrain, seed: int, refused: Refused) -> None:
        self.pods.add(key.pod)
        self._node_of_wait[key] = drain
        self._wait_from.add(key, seed, refused.entry.asked_ns)
        self._wait_ends.setdefault(key, set()).add(refused.ends)
        if refused.at_ns is not None:
            self._wait_until.add(key, seed, refused.at_ns)

    def _add_rivals(
        self,
        seed: int,
        timeline: Timeline,
        drains: Mapping[tuple[int, str], NodeDrain],
        found: Sequence[Refused],
    ) -> None:
        """Who won against a refused pod of its turn might have lost: it waits as that one does."""
        by_turn: dict[tuple[tuple[int, ...], tuple[str, ...]], list[Refused]] = {}
        for refused in found:
            by_turn.setdefault((refused.entry.because, refused.entry.budgets), []).append(refused)
        replacements = timeline.replacements()
        deleted: set[str] = set()
        for entry in timeline.entries:
            if not isinstance(entry, PodDeleted) or entry.uid in deleted:
                continue
            deleted.add(entry.uid)
            budget = self._asks.get(entry.pod)
            if budget is None or entry.uid in replacements or entry.controller != EVICTION_API:
                continue
            for refused in by_turn.get((entry.because, (budget,)), ()):
                if abs(entry.at_ns - refused.entry.asked_ns) <= GAP_NS:
                    drain = drains[refused.entry.process, refused.entry.node]
                    key = WaitKey(drain.process, entry.pod, entry.uid, (budget,))
                    self._note(key, drain, seed, refused)

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
            sum(self._runs[key] for key in keys) == always,
        )


def refusals(timeline: Timeline) -> list[Refused]:
    """What is refused in a run, replacements too.

    A wait is over when somebody has deleted the pod, also before the answer comes: whoever is refused hears so at its next try.
    """
    found: list[EvictionNotAllowed] = []
    ends: dict[int, tuple[str, int]] = {}
    # By pod and process the place of its latest refusal.
    waiting: dict[str, dict[int, int]] = {}
    deleted_ns: dict[str, int] = {}
    for entry in timeline.entries:
        if isinstance(entry, EvictionNotAllowed):
            waiting.setdefault(entry.pod, {})[entry.process] = len(found)
            if not entry.is_repeated:
                ends[len(found)] = FAILED, entry.at_ns
            elif deleted_ns.get(entry.uid, -1) >= entry.asked_ns:
                ends[len(found)] = EVICTED, deleted_ns[entry.uid]
            found.append(entry)
        elif isinstance(entry, EvictionGivenUp):
            place = waiting.get(entry.pod, {}).get(entry.process)
            if place is not None:
                ends.setdefault(place, (entry.reason.value, entry.at_ns))
        elif isinstance(entry, PodDeleted | PodGone):
            for place in waiting.get(entry.pod, {}).values():
                ends.setdefault(place, (EVICTED, entry.at_ns))
            if isinstance(entry, PodDeleted):
                deleted_ns.setdefault(entry.uid, entry.at_ns)
    never: tuple[str, None] = (NEVER, None)
    return [Refused(entry, *ends.get(place, never)) for place, entry in enumerate(found)]
