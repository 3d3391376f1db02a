"""Ticks of the node monitor wait for their client as well: how much later nodes are given up and tainted, at most.

The tick that finds a node silent writes its status and marks its pods not ready, a request or two each, and the next tick comes a period
after the end of this one. No run knows of that. What follows a tick comes at most as much later as all requests take that are made
until then: what waits in line is served no later than its own tick is late, for in a line delays do not add up.

What only comes about because a tick is late say ``old_rates`` and ``late_removals``; but for a kubelet that is heard before it, which is not told.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

import msgspec

from kubectl_evictplan.controllers.client_limits import (
    AHEAD,
    GIVEN_UP,
    OF_TAINT,
    ClientLimit,
    per_marked_pod,
    tick_limit,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.buckets import Arrivals, Bucket
from kubectl_evictplan.windows.clients.late_windows import Late, put_off
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    follows_ticks,
    is_ready,
)
from kubectl_evictplan.windows.pod_worlds import more_than_silent
from kubectl_evictplan.windows.spans import Span, in_seconds, meets, merge_spans

if TYPE_CHECKING:
    from kubectl_evictplan.windows.clients.ticks_under_way import UnderWay

_FALSE = "False"
# What the tick writes of a node that is heard: two taints less. Of one that was False: the status and one taint exchanged for another;
# two taints where that is done in the same tick.
_TURNED, _SWAPPED = 1 + 2 * OF_TAINT, 1 + 4 * OF_TAINT
# So many nodes a tick looks after at once; without pods to mark fewer have hardly anything to wait for.
_WORKERS = 8
# GET and PATCH of the pass, each behind an event.
_OF_PASS = 2 * OF_TAINT


class _Met(msgspec.Struct, frozen=True):
    """Of how many changes ticks may write within a stretch, and how late that makes them."""

    changes: int
    late_ns: int


def span_slow_ticks(result: Exploration, given: Given) -> bool:
    """Let windows of what follows ticks reach as far as requests of ticks can make that late; False where nothing is."""
    snapshot, scenario, configuration = given
    limit = tick_limit(configuration)
    changes = sum(key.what == READY for key, _ in result.nodes.windows)
    starts = [event.span for event in scenario.events if event.manager_up]
    unheard = any(node.ready_status == "Unknown" for node in snapshot.nodes)
    if not (changes or starts or unheard):
        return False
    of_pods = marks(snapshot, configuration)
    under_way = None
    if unheard:
        from kubectl_evictplan.windows.clients import ticks_under_way  # rarely needed

        under_way = ticks_under_way.tick_under_way(given, limit, of_pods)
    if not (changes or starts or under_way):
        return False
    if not (starts or "True" in snapshot.columns.distinct("ready")):
        # Without pods to mark.
        most = changes * (_SWAPPED if _says_false(result, snapshot) else GIVEN_UP)
        if most <= limit.burst:
            return False
    writes = _Writes(result, snapshot, starts, configuration, limit, of_pods, under_way)
    if not writes.wait:
        return False
    late = _late(result, writes, configuration, limit)
    first = None
    if starts:
        from kubectl_evictplan.windows.clients.first_ticks import FirstTicks  # rarely needed

        first = FirstTicks(starts, writes.late_at, scenario, result)
    # Who is given up before the start need not change any more.
    at_start_ns = writes.late_at((0, 0)) if under_way is not None else 0
    if not (late or at_start_ns or (first is not None and first.late_ns)):
        return False
    from kubectl_evictplan.windows.clients.old_rates import OldRates  # rarely needed

    sure = only_late(result, snapshot, scenario)
    together = {name for name, one in late.items() if one.together}
    at_start = under_way.nodes if under_way is not None else frozenset[str]()
    old_rates = OldRates(result, writes.late_at, together, sure, given, at_start=at_start)
    put_off(result, late, scenario, sure, first, at_start_ns)
    old_rates.put(scenario.end_ns)
    return True


class _Writes:
    """What ticks write of nodes whose Ready changes."""

    def __init__(
        self,
        result: Exploration,
        snapshot: ClusterSnapshot,
        starts: Sequence[Span],
        configuration: ControllerConfiguration,
        limit: ClientLimit,
        of_pods: Mapping[str, int],
        under_way: UnderWay | None,
    ) -> None:
        self._limit = limit
        # From 1.37 on each tick looks at the Lease of every node that is silent; at any time there is also a taint in each zone.
        silent = sum(map(len, result.waiting.values()))
        self._leases = silent if configuration.lease_circuit_breaker else 0
        self._beside = 2 * (2 * len(result.waiting) + self._leases)
        # A tick that began before a node is due is what makes the next one late; before that the bucket was full.
        self._period_ns = configuration.node_monitor_period_ns
        self._grace_ns = configuration.node_monitor_grace_period_ns
        self._since_ns = self._period_ns + int(limit.burst * SECOND_NS / limit.qps)
        self.of_change: dict[tuple[str, Span], int] = {}
        lots: dict[Span, tuple[int, int]] = {}
        turned = list(_changes(result, snapshot, configuration, of_pods))
        if under_way is not None:
            turned.append(("", (-under_way.since_ns, 0), under_way.requests + limit.burst))
        if starts:
            from kubectl_evictplan.windows.clients.first_ticks import of_first_ticks  # rarely any

            turned += list(of_first_ticks(result, snapshot, starts, of_pods, turned, limit))
        for node, span, number in turned:
            self.of_change[node, span] = number
            changes, requests = lots.get(span, (0, 0))
            lots[span] = changes + 1, requests + number
        own = ClientLimit(limit.qps, max(limit.burst - self._leases, 1))
        self._waits = Bucket(own, 1, others=None).waits(
            Arrivals(*in_seconds(span), 0, others=requests) for span, (_, requests) in lots.items()
        )
        self.wait = self._waits.any
        self._late: list[tuple[Span, _Met]] = []
        self._stretches: list[Span] = []
        self._lows = _Sums(sorted((low, *lot) for (low, _), lot in lots.items()))
        by_end = sorted(lots.items(), key=lambda one: (one[0][1], one[0][0]))
        self._untils = _Sums((high, *lot) for (_, high), lot in by_end)
        for place, ((low, high), _) in enumerate(by_end if self.wait else ()):
            met = self.met(low, high)
            if late_ns := met.late_ns:
                self._late.append(((low, high + late_ns), met))
                self._untils.is_late(place, high + late_ns)
                self._stretches = list(
                    merge_spans(sorted([*self._stretches, (low, high + late_ns)]), 0)
                )

    def met(self, low_ns: int, high_ns: int, own: int = 0) -> _Met:
        """What can be written before something that ticks do, within a stretch or as late as that makes it; but for its own."""
        since_ns = low_ns - self._since_ns
        waits = self._waits.longest(*in_seconds((since_ns, high_ns))) or meets(
            self._stretches, (since_ns, high_ns)
        )
        changes, requests = self._between(since_ns, high_ns)
        late_ns, new_ns = 0, self._made(requests - own) if waits else 0
        while new_ns > late_ns:
            late_ns = new_ns
            changes, requests = self._between(since_ns, high_ns + late_ns)
            new_ns = self._made(requests - own)
        return _Met(changes, late_ns + self._shifted(low_ns, high_ns))

    def _shifted(self, low_ns: int, high_ns: int) -> int:
        """How much later than without limits ticks saw the last renewal of who is given up then, or come after it.

        One that was renewed while a tick waited is seen by the next one; else ticks only come later in their period, from then on.
        """
        until_ns = low_ns - self._since_ns
        renewed = low_ns - self._grace_ns - self._period_ns, high_ns - self._grace_ns
        seen_ns = later_ns = 0
        for span in self._stretches:
            if span[0] <= renewed[1] and span[1] >= renewed[0]:
                seen_ns += self._made(self._between(*span)[1])
            elif span[0] < until_ns:
                later_ns += self._made(self._between(*span)[1])
        return seen_ns + min(later_ns, self._period_ns)

    def _between(self, since_ns: int, until_ns: int) -> tuple[int, int]:
        """How many changes can be then, and in how many requests."""
        before, until = self._untils.until(since_ns), self._lows.until(until_ns + 1)
        return until[0] - before[0], until[1] - before[1]

    def late_within(self, span: Span) -> list[_Met]:
        """What else is late within a stretch."""
        return [met for (low, high), met in self._late if low <= span[1] and high >= span[0]]

    def late_at(self, span: Span) -> int:
        """How late ticks within a stretch can be."""
        return max((met.late_ns for met in self.late_within(span)), default=0)

    def _made(self, requests: int) -> int:
        """How late so many are."""
        if requests + self._leases <= self._limit.burst:
            return 0  # As if nothing were beside: a pass that meets the tick comes hardly later.
        over = requests + self._beside - self._limit.burst
        return int(over * SECOND_NS / self._limit.qps)


class _Sums:
    """Instants, each with how many changes and requests, and how many of both come before any other."""

    def __init__(self, lots: Iterable[tuple[int, int, int]]) -> None:
        ordered = list(lots)
        self._at = [at for at, _, _ in ordered]
        self._changes = list(accumulate((lot[1] for lot in ordered), initial=0))
        self._requests = list(accumulate((lot[2] for lot in ordered), initial=0))

    def is_late(self, place: int, at_ns: int) -> None:
        """Let one come later, and none after it sooner."""
        before = self._at[place - 1] if place else 0
        self._at[place] = max(at_ns, before)

    def until(self, at_ns: int) -> tuple[int, int]:
        """How many come before it."""
        place = bisect_left(self._at, at_ns)
        return self._changes[place], self._requests[place]


def _changes(
    result: Exploration,
    snapshot: ClusterSnapshot,
    configuration: ControllerConfiguration,
    of_pods: Mapping[str, int],
) -> Iterator[tuple[str, Span, int]]:
    """Each change of a node's Ready: when, and how many requests ticks make of it.

    ``of_pods``: by node how many requests it takes to mark its ready pods.
    """
    turned = _SWAPPED if configuration.profile.taint_on_current_condition else _TURNED
    changes = result.nodes.windows
    swapped = _says_false(result, snapshot)
    for (key, _), window in changes.items():
        if key.what == READY:
            # Who was not ready before has no pods to mark.
            marked = 0 if key.value == "True" else of_pods.get(key.node, 0)
            number = max(GIVEN_UP + marked, turned if key.node in swapped else 0)
            yield key.node, window.span, number


def marks(snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> Counter[str]:
    """By node how many requests it takes to mark its ready pods, those included for which others stand."""
    per_pod, pods = per_marked_pod(configuration), snapshot.counted.items()
    ready = ((node, number) for (node, status), number in pods if status == "True")
    return Counter({node: per_pod * number for node, number in ready})


def _says_false(result: Exploration, snapshot: ClusterSnapshot) -> set[str]:
    """Nodes that may be False, and not Unknown."""
    found = {
        key.node for key, _ in result.nodes.windows if key.what == READY and key.value == _FALSE
    }
    found.update(node.name for node in snapshot.nodes if node.ready_status == _FALSE)
    return found


def _late(
    result: Exploration,
    writes: _Writes,
    configuration: ControllerConfiguration,
    limit: ClientLimit,
) -> dict[str, Late]:
    """By node how late it is, and what follows it."""
    profile, late = configuration.profile, dict[str, Late]()
    given_up = result.when(is_ready)
    zone_changes = [window.span for window in result.zones.windows.values()]
    period_ns = configuration.node_monitor_period_ns
    for span, names in _courses(result):
        # Thousands of nodes are given up by the same ticks.
        changes = {(own, writes.of_change[name, own]) for name in names for own in given_up[name]}
        ticks = [writes.met(low, high + period_ns) for low, high in {own for own, _ in changes}]
        beside = writes.late_within(span)
        tick_ns = max((met.late_ns for met in chain(ticks, beside)), default=0)
        if not tick_ns:
            continue
        nodes = max((met.changes for met in ticks), default=0)
        # Statuses of so few are written before any pod is marked: they wait for earlier ticks, so for other nodes.
        first = profile.ticks_in_parallel and nodes < _WORKERS
        late_ns = {
            (own, number): writes.met(*own, number if first else 0).late_ns
            for own, number in changes
        }
        up_ns = {
            name: max(
                (late_ns[own, writes.of_change[name, own]] for own in given_up[name]), default=0
            )
            for name in names
        }
        at_once = min(max(met.changes for met in chain(ticks, beside)), _WORKERS)
        soon_ns = int((_OF_PASS + AHEAD * at_once) * SECOND_NS / limit.qps)
        tainted_ns = tick_ns
        # From 1.34 on it is in line before its pods are marked; a new limiter of its zone waits for the end of the tick.
        if first and profile.taint_on_current_condition and not meets(zone_changes, span):
            tainted_ns = min(tick_ns, max(up_ns.values()) + soon_ns)
        together = len(names) > 1 and any(up_ns.values())
        late.update((name, Late(up_ns[name], tainted_ns, tick_ns, together)) for name in names)
    return late


def _courses(result: Exploration) -> Iterator[tuple[Span, list[str]]]:
    """From when nodes may be found silent until they are tainted, with those that may be in one line at once."""
    ends: dict[str, Span] = {}
    for (key, _), window in result.nodes.windows.items():
        if follows_ticks(key) and (key.what == READY or key.what == TAINT_ADDED):
            low_ns, high_ns = ends.get(key.node, window.span)
            ends[key.node] = min(low_ns, window.earliest_ns), max(high_ns, window.latest_ns)
    zone_of = result.zones_in_line()
    by_zone: defaultdict[str, list[tuple[Span, str]]] = defaultdict(list)
    for name, span in ends.items():
        by_zone[zone_of.get(name, "")].append((span, name))
    for several in by_zone.values():
        several.sort()
        together, names = several[0][0], list[str]()
        for span, name in several:
            if span[0] > together[1]:
                yield together, names
                together, names = span, []
            together = together[0], max(together[1], span[1])
            names.append(name)
        yield together, names


def only_late(result: Exploration, snapshot: ClusterSnapshot, scenario: Scenario) -> set[str]:
    """Nodes to which nothing happens but silence: what follows that comes, however late, if the process does not end before."""
    busy = more_than_silent(snapshot, scenario)
    changes = result.nodes.windows
    every = {key.node for key, _ in changes}
    # A removal that no run found is only a bound.
    heard = {
        key.node
        for (key, _), window in changes.items()
        if key.what == TAINT_REMOVED and window.runs and follows_ticks(key)
    }
    return result.only_silent | (every - heard - busy)
