"""The last sign of life of each kubelet before it falls silent: a renewal, or a status that it posts after that (``status_posts``).

The snapshot shows the last renewal before it was taken; a kubelet that stops later has renewed in between,
every quarter of the lease's duration and up to 4 % more. What the monitor sees of a last renewal is the first
tick after it: so it is settled together with the ticks (``tick_orders``), and here only where these do not fit into the budget.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import (
    is_silent_at,
    is_up_at_start,
    is_up_when_created,
    longest_renewal_ns,
    observed_at_ns,
    renew_period_ns,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.scenarios.actions.processes import PostReady, StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.windows.alike_nodes import AlikeNodes
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.spans import Span, merge_spans
from kubectl_evictplan.windows.unknowns.status_posts import posts_between
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps
from kubectl_evictplan.windows.unknowns.unknown import Unknown, sequence

# Parts of a window that are sampled; both ends carry most of the weight.
_LEVELS = (0.0, 1.0, 0.5, 0.0, 1.0, 0.25, 0.75)
# (node, spans of last heartbeats), by the index of the event.
HeartbeatWindows = dict[int, list[tuple[str, tuple[Span, ...]]]]


class LastHeartbeats(Unknown[Piece]):
    """Of every kubelet that stops at an instant of which the snapshot does not show its last renewal."""

    name = "last heartbeats"
    what = (
        "when each kubelet renewed its Lease for the last time before it fell silent, and whether it posted "
        "its status after that, where one was due"
    )

    def __init__(self, snapshot: ClusterSnapshot, alike: AlikeNodes, steps: TickSteps) -> None:
        self._snapshot = snapshot
        self._alike = alike
        self._steps = steps
        # By the scenario's identity.
        self._windows: dict[int, tuple[Scenario, HeartbeatWindows]] = {}
        self._kinds: dict[int, dict[str, Hashable]] = {}

    def fewest(self, part: Piece) -> int:
        """All early, all late, and in turn both ways."""
        return (1, 2, 4)[min(how_many_open(self._windows_of(part.scenario)), 2)]

    def kinds_and_spans(self, scenario: Scenario) -> Iterator[tuple[Hashable, tuple[Span, ...]]]:
        """Of each that the scenario leaves open: equal for nodes that are alike, and when it can lie."""
        for index, nodes in self._windows_of(scenario).items():
            for name, spans in nodes:
                yield (index, self._kinds[id(scenario)][name], spans), spans

    def with_last(self, scenario: Scenario, last_ns: Sequence[int]) -> Scenario:
        """The scenario with these, in the order of ``kinds_and_spans``."""
        return _filled_in(scenario, self._windows_of(scenario), last_ns)

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """The part with those that are known; ``tick_orders`` has every choice of the others, ``corners`` has some."""
        windows = self._windows_of(part.scenario)
        if not windows:
            yield part
        elif not self.is_known(part.scenario):
            yield from self.corners(part)
        else:
            yield self._filled_in(part, windows, [low_ns for low_ns, _ in _hulls(windows)])

    def corners(self, part: Piece) -> Iterator[Piece]:
        """All of them early, all late, and in turn both ways, where not every choice can be tried."""
        windows = self._windows_of(part.scenario)
        hulls = list(_hulls(windows))
        for way in ((0, 0), (1, 1), (0, 1), (1, 0))[: self.fewest(part)]:
            chosen = [hull[way[place % 2]] for place, hull in enumerate(hulls)]
            yield self._filled_in(part.missing(self.name), windows, chosen)

    def drawn(self, part: Piece, index: int) -> Piece:
        """Every one of them somewhere, another choice for every ``index``."""
        windows = self._windows_of(part.scenario)
        chosen = _levels_of(windows, index)
        return self._filled_in(replace(part.missing(self.name), drawn=index), windows, chosen)

    def is_known(self, scenario: Scenario) -> bool:
        """Whether there is nothing to choose."""
        return not how_many_open(self._windows_of(scenario))

    def _filled_in(self, part: Piece, windows: HeartbeatWindows, chosen: Sequence[int]) -> Piece:
        last = part.last_scenario
        if last is not None:
            last = _filled_in(last, self._windows_of(last), chosen)
        scenario = _filled_in(part.scenario, windows, chosen)
        return replace(part, scenario=scenario, last_scenario=last)

    def _windows_of(self, scenario: Scenario) -> HeartbeatWindows:
        found = self._windows.get(id(scenario))
        if found is None:
            windows = heartbeat_windows(self._snapshot, scenario, self._steps)
            found = self._windows[id(scenario)] = scenario, windows
            self._kinds[id(scenario)] = self._kinds_of(scenario)
        return found[1]

    def _kinds_of(self, scenario: Scenario) -> dict[str, Hashable]:
        """By the names of nodes that something happens to: equal for those to which the same happens."""
        touching: dict[str, list[int]] = {}
        for index, event in enumerate(scenario.events):
            for name in event.touched_nodes:
                touching.setdefault(name, []).append(index)
        return {
            name: (
                tuple(indices),
                self._alike.look(name) if self._alike.is_healthy(name, scenario) else name,
            )
            for name, indices in touching.items()
        }


# -- windows of last heartbeats ----------------------------------------------------------------------------


def how_many_open(windows: HeartbeatWindows) -> int:
    """How many last heartbeats are not known exactly."""
    return sum(spans[0][0] != spans[-1][1] for nodes in windows.values() for _, spans in nodes)


def _filled_in(scenario: Scenario, windows: HeartbeatWindows, chosen: Iterable[int]) -> Scenario:
    """The scenario with these heartbeats, in the order of events and nodes."""
    events: list[ScenarioEvent] = []
    last_ns = iter(chosen)
    for index, event in enumerate(scenario.events):
        if index not in windows:
            events.append(event)
            continue
        for name, _ in windows[index]:
            events.append(replace(event, nodes=(name,), last_heartbeat_ns=next(last_ns)))
        heard = {name for name, _ in windows[index]}
        rest = tuple(name for name in event.nodes if name not in heard)
        if rest:
            events.append(event.restricted_to(rest, ()))
    return replace(scenario, events=tuple(events))


def heartbeat_windows(
    snapshot: ClusterSnapshot, scenario: Scenario, steps: TickSteps
) -> HeartbeatWindows:
    """Windows of every unknown last heartbeat; of kubelets that nobody has heard there is none."""
    nodes = {node.name: node for node in snapshot.nodes}
    return {
        index: [
            (name, last_heartbeat_spans(snapshot, scenario, index, name, steps))
            for name in event.nodes
            if _is_heard(snapshot, scenario, index, name, nodes.get(name))
        ]
        for index, event in enumerate(scenario.events)
        if isinstance(event, StopKubelet) and event.last_heartbeat_ns is None
    }


def _is_heard(
    snapshot: ClusterSnapshot, scenario: Scenario, index: int, name: str, node: Node | None
) -> bool:
    """Whether the kubelet that stops with the event at ``index`` was heard before: its Lease, its status or an event says so."""
    lease = snapshot.leases.get(name)
    if lease is not None and lease.renew_time_ns is not None:
        return True
    if node is not None and is_up_at_start(
        node, lease, observed_at_ns(snapshot, scenario.start_ns)
    ):
        return True
    return any(
        (event.kubelets_up and name in event.nodes)
        or (event.node is not None and event.node.name == name and is_up_when_created(event.node))
        for event in scenario.events[:index]
    )


def last_heartbeat_window(
    snapshot: ClusterSnapshot, scenario: Scenario, index: int, name: str, steps: TickSteps
) -> Span:
    """Earliest and latest of ``last_heartbeat_spans``."""
    spans = last_heartbeat_spans(snapshot, scenario, index, name, steps)
    return spans[0][0], spans[-1][1]


def last_heartbeat_spans(
    snapshot: ClusterSnapshot, scenario: Scenario, index: int, name: str, steps: TickSteps
) -> tuple[Span, ...]:
    """Offsets of the last renewal before the stop event at ``index``, or of one that is as good as what was posted later; disjoint, in order.

    The renewal is known exactly while the next one after the Lease's renewTime is not yet due. What lies after the look was written by
    a clock that is ahead, nobody knows by how much, and tells nothing. Ticks come so far apart as ``steps`` say: the one after
    the tick that sees the post accepts the Lease once more.
    """
    at_ns = scenario.events[index].at_ns
    lease = snapshot.leases.get(name)
    period_ns, longest_ns = renew_period_ns(lease), longest_renewal_ns(lease)
    known, silent = _known_renewals(snapshot, scenario, index, name)
    spans: list[Span] = []
    for known_ns in known:
        if known_ns is None:
            spans = [(at_ns - longest_ns, at_ns)]
            break
        if silent:
            spans.append((known_ns, known_ns))
        else:
            spans += last_renewal_spans(known_ns, at_ns, period_ns, longest_ns)
    if not silent:
        since_ns = min(low_ns for low_ns, _ in spans)
        for low_ns, high_ns in posts_between(snapshot, scenario, index, name, since_ns):
            spans.append((low_ns + steps.shortest_ns, high_ns + steps.longest_ns))
    return tuple(merge_spans(sorted(spans), 0))


def _known_renewals(
    snapshot: ClusterSnapshot, scenario: Scenario, index: int, name: str
) -> tuple[list[int | None], bool]:
    """One of these is the newest renewal that is known before the event at ``index`` (None: none is), and whether nothing followed it."""
    lease = snapshot.leases.get(name)
    longest_ns = longest_renewal_ns(lease)
    known: list[int | None] = [None]
    silent = False
    seen_ns = observed_at_ns(snapshot, scenario.start_ns)
    if lease is not None and lease.renew_time_ns is not None and lease.renew_time_ns <= seen_ns:
        known = [lease.renew_time_ns - scenario.start_ns]
        silent = is_silent_at(lease, seen_ns)
    up: bool | None = None
    for event in scenario.events[:index]:
        made = event.node is not None and event.node.name == name and event.node.ready_status
        if isinstance(event, PostReady) and name in event.nodes:
            if up is None:
                up = _was_up(snapshot, name, seen_ns)
            # One that is up goes on renewing as before, or begins anew; one that was silent is back.
            known = [*known, event.at_ns] if up else [event.at_ns]
            silent, up = False, True
        elif (event.kubelets_up and name in event.nodes) or (made and made != "Unknown"):
            # Within the window of a return nobody knows when it renewed.
            known = [event.at_ns if event.latest_ns == event.at_ns else None]
            silent, up = False, True
        elif event.kubelets_up is False and name in event.nodes:
            # It renewed for the last time before that: nothing later counts.
            known = [event.at_ns - longest_ns if each is None else each for each in known]
            silent, up = True, False
    return known, silent


def _was_up(snapshot: ClusterSnapshot, name: str, seen_ns: int) -> bool:
    """Whether the node's kubelet renews at the start."""
    node = next((node for node in snapshot.nodes if node.name == name), None)
    return node is not None and is_up_at_start(node, snapshot.leases.get(name), seen_ns)


def last_renewal_window(known_ns: int, at_ns: int, period_ns: int, longest_ns: int) -> Span:
    """Earliest and latest instant of the last renewal at ``at_ns`` of a kubelet that renewed at ``known_ns``."""
    spans = list(last_renewal_spans(known_ns, at_ns, period_ns, longest_ns))
    return spans[0][0], spans[-1][1]


def last_renewal_spans(
    known_ns: int, at_ns: int, period_ns: int, longest_ns: int
) -> Iterator[Span]:
    """When it can lie, in order: the n-th renewal after ``known_ns``, if the next one may come after ``at_ns``."""
    elapsed_ns = at_ns - known_ns
    if elapsed_ns < period_ns:
        known_ns = min(known_ns, at_ns)
        yield known_ns, known_ns
        return
    fewest = max(0, -(-elapsed_ns // longest_ns) - 1)
    end_ns: int | None = None
    begin_ns = at_ns
    for number in range(fewest, elapsed_ns // period_ns + 1):
        low_ns = max(at_ns - longest_ns, known_ns + number * period_ns)
        high_ns = min(at_ns, known_ns + number * longest_ns)
        if end_ns is None or low_ns > end_ns:
            if end_ns is not None:
                yield begin_ns, end_ns
            begin_ns = low_ns
        end_ns = high_ns
    assert end_ns is not None, "some number of renewals fits"
    yield begin_ns, end_ns


# -- drawn ones ----------------------------------------------------------------------------------------------


def sampled_heartbeats(scenario: Scenario, windows: HeartbeatWindows, index: int) -> Scenario:
    """The scenario with every unknown last heartbeat somewhere in its window."""
    return _filled_in(scenario, windows, _levels_of(windows, index))


def _levels_of(windows: HeartbeatWindows, index: int) -> list[int]:
    return [
        low_ns + round((high_ns - low_ns) * _LEVELS[int(sequence(dimension, index) * len(_LEVELS))])
        for dimension, (low_ns, high_ns) in enumerate(_hulls(windows), 3)
    ]


def _hulls(windows: HeartbeatWindows) -> Iterator[Span]:
    for nodes in windows.values():
        yield from ((spans[0][0], spans[-1][1]) for _, spans in nodes)
