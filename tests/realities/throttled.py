"""What clients of the controllers make of a run in which nothing waits: deletions as their requests come through, one by one.

Deletions influence neither health nor taints, so the run stays as it is but for them. Of garbage collection each loop begins as much
later as those before it took longer. A process that ends forgets what waits: such runs are not for this.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from random import Random

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    POD_GC,
    TAINT_EVICTION,
    Entry,
    PodDeleted,
    PodGone,
)
from kubectl_evictplan.controllers.client_limits import ClientLimit, client_limit
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS


class TokenBucket:
    """Who asks is served when the tokens before its own are spent and there is one."""

    def __init__(self, limit: ClientLimit) -> None:
        self._limit = limit
        self._tokens, self._at = float(limit.burst), 0.0

    def served(self, asked: float) -> float:
        """When a request goes that is made at that instant; they are made in order."""
        qps, burst = self._limit.qps, self._limit.burst
        self._tokens = min(self._tokens + (asked - self._at) * qps, burst) - 1
        self._at = asked
        return asked + max(-self._tokens, 0) / qps


def chains_through(
    limit: ClientLimit, instants: Iterable[float], chain: int, events: int, random: Random
) -> Iterator[tuple[int, float]]:
    """When each of several chains of requests is through, by its place.

    Who of several asks first at one instant is drawn, and how slowly the one who writes ``events`` does it.
    """
    bucket = TokenBucket(limit)
    waiting, writes, slow = 0, False, random.choice((0, 0, 0.01, 0.3))
    # (instant, drawn, place or -1 for the writer, how many requests are through).
    asking = [(at, random.random(), place, 0) for place, at in enumerate(instants)]
    heapq.heapify(asking)
    while asking:
        at, _, place, through = heapq.heappop(asking)
        if place < 0:
            writes = bool(waiting)
            if writes:
                waiting -= 1
                written = bucket.served(at) + random.uniform(0, slow)
                heapq.heappush(asking, (written, random.random(), -1, 0))
            continue
        if through == chain:
            yield place, at
            continue
        if not through and events:
            waiting += events
            if not writes:
                writes = True
                heapq.heappush(asking, (at, random.random(), -1, 0))
        heapq.heappush(asking, (bucket.served(at), random.random(), place, through + 1))


def throttled(
    entries: Iterable[Entry],
    configuration: ControllerConfiguration,
    horizon_ns: int,
    random: Random,
    ended: Container[str] = (),
) -> list[Entry]:
    """The entries of a run as they are with the clients' limits, up to the horizon; ``ended``: keys of pods that have finished."""
    limit, every = client_limit(configuration), list(entries)
    if limit is None:
        return every
    later = dict[int, int]()
    by_controller = defaultdict[str, list[int]](list)
    for place, entry in enumerate(every):
        if isinstance(entry, PodDeleted):
            by_controller[entry.controller].append(place)
    of_taints = by_controller[TAINT_EVICTION]
    random.shuffle(of_taints)
    chain = 3 if configuration.disruption_condition else 1
    instants = [every[place].at_ns / SECOND_NS for place in of_taints]
    for number, at in chains_through(limit, instants, chain, 1, random):
        later[of_taints[number]] = int(at * SECOND_NS)
    own = 2 if configuration.disruption_condition else 1
    later.update(_in_loops(limit, every, by_controller[POD_GC], own, ended))
    later.update(_in_loops(limit, every, by_controller[NODE_LIFECYCLE], 3))
    return list(_moved(every, later, horizon_ns))


def _in_loops(
    limit: ClientLimit,
    every: list[Entry],
    places: list[int],
    requests: int,
    ended: Container[str] = (),
) -> Iterator[tuple[int, int]]:
    """One after the other, each loop as much later as those before it took longer."""
    bucket, behind, before = TokenBucket(limit), 0.0, 0.0
    for place in places:
        at = every[place].at_ns / SECOND_NS
        begins = max(at + behind, before)
        entry = every[place]
        # Who has ended is not written as failed first.
        once = isinstance(entry, PodDeleted) and entry.pod in ended
        for _ in range(1 if once else requests):
            before = max(before, bucket.served(max(begins, before)))
        behind = max(behind, before - at)
        yield place, int(before * SECOND_NS)


def _moved(every: list[Entry], later: Mapping[int, int], horizon_ns: int) -> Iterator[Entry]:
    """In the order of time; who is gone before its DELETE comes through is not deleted."""
    deleted_ns = dict[str, int]()
    for place, at_ns in later.items():
        entry = every[place]
        assert isinstance(entry, PodDeleted)
        deleted_ns[entry.pod] = min(at_ns, deleted_ns.get(entry.pod, at_ns))
    moved = list[Entry]()
    for place, entry in enumerate(every):
        at_ns = later.get(place, entry.at_ns)
        if isinstance(entry, PodGone):
            at_ns = max(at_ns, deleted_ns.get(entry.pod, at_ns))
        moved.append(entry if at_ns == entry.at_ns else replace(entry, at_ns=at_ns))
    gone_ns = {entry.pod: entry.at_ns for entry in moved if isinstance(entry, PodGone)}
    for entry in sorted(moved, key=lambda entry: entry.at_ns):
        too_late = isinstance(entry, PodDeleted) and entry.at_ns > gone_ns.get(
            entry.pod, entry.at_ns
        )
        if not too_late and entry.at_ns <= horizon_ns:
            yield entry
