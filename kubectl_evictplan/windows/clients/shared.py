"""Up to 1.28 ticks, passes and deletions go through one client: what node lifecycle writes waits behind pods that are deleted meanwhile.

Whoever asks one request after the other is through when the client is that was busy then (``busy``). So a tick is as late as
the one that is under way when it is due, and by its own writes; a taint by its ticks and its pass. What follows is late as well, and
may meet others then: it is asked again until nothing is later, with all requests there are as the last bound.

Where that moves something past what decides otherwise (a process that ends, a kubelet that is heard, a zone that is slowed or
stopped), other orders than those of runs come about. The bounds that need no run tell these (``wide_bounds``), with ticks and passes
that may be as late.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.client_limits import (
    GIVEN_UP,
    OF_TAINT,
    ClientLimit,
    client_limit,
    per_marked_pod,
)
from kubectl_evictplan.controllers.node_lifecycle.zone_states import NORMAL
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode, changes_lifecycle_taints
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.arrivals import (
    DeletionArrivals,
    Row,
    line_qps,
    rows_by_windows,
)
from kubectl_evictplan.windows.clients.buckets import Arrivals, line
from kubectl_evictplan.windows.clients.busy import BusyClient
from kubectl_evictplan.windows.clients.late_windows import Late, follows_lifecycle, put_off
from kubectl_evictplan.windows.clients.slow_ticks import marks, only_late
from kubectl_evictplan.windows.noticing import Lateness
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
    follows_ticks,
)
from kubectl_evictplan.windows.spans import NEVER_NS, Span, in_seconds, later_spans, merge_spans

# An event for each node, at once.
_NEW_PROCESS = NodeChangeKey("", READY, "")
# So often it is asked how late what is late makes others.
_ROUNDS = 6
# Of so many nodes each is asked for without what is deleted because of it.
_APART_MAX = 24


class _Write(msgspec.Struct, frozen=True):
    """What node lifecycle writes of a node within a span."""

    key: NodeChangeKey
    span: Span
    requests: int


def span_shared_client(result: Exploration, given: Given, sent: int = 0) -> bool:
    """Let windows span what ticks and passes wait for deletions; False where they wait for none, and nothing is done."""
    snapshot, scenario, configuration = given
    limit = client_limit(configuration)
    if limit is None or configuration.separate_taint_eviction or not result.nodes.windows:
        return False
    alike = rows_by_windows(result.evictions).get(TAINT_EVICTION, [])
    if not alike:
        return False
    shared = _SharedClient(result, given, limit, sent, alike)
    if not shared.meets():
        return False
    longest_ns, late = shared.late()
    if shared.decides_otherwise(late):
        from kubectl_evictplan.windows.clients.late_bounds import bound_late  # rarely needed

        bound_late(result, given, Lateness(2 * longest_ns, longest_ns))
        return True
    put_off(result, late, scenario, only_late(result, snapshot, scenario))
    return True


class _SharedClient:
    """That of one exploration, with the rows of taint eviction by their windows."""

    def __init__(
        self,
        result: Exploration,
        given: Given,
        limit: ClientLimit,
        sent: int,
        alike: Sequence[Sequence[Row]],
    ) -> None:
        snapshot, scenario, configuration = given
        self._result, self._scenario, self._configuration = result, scenario, configuration
        self._given = given
        self._limit, self._sent, self._alike = limit, sent, alike
        self._line_qps = line_qps(configuration)
        self._period_ns = configuration.node_monitor_period_ns
        self._zone_of = result.zones_in_line()
        self._writes = list(_writes(result, given))
        self._of_lifecycle = list(self._written(0))
        self._names = {write.key.node for write in self._writes}
        # Of whom nothing is deleted before it is tainted for the first time.
        added = Counter(write.key.node for write in self._writes if write.key.what == TAINT_ADDED)
        tainted = {
            node.name
            for node in snapshot.nodes
            if any(taint.effect == NO_EXECUTE for taint in node.taints)
        }
        nodes = {row.node for several in alike for _, row in several}
        apart = nodes & added.keys() - tainted if len(nodes) <= _APART_MAX else set()
        self._apart = {name for name in apart if added[name] == 1}

    # -- what is asked for ------------------------------------------------------------------------------

    def meets(self) -> bool:
        """Whether deletions make anything wait that node lifecycle writes: with what a new process tells of nodes more than is made at once.

        Ticks and passes ask for one thing after the other: of fewer deletions they wait for hardly anything.
        """
        arrivals = DeletionArrivals(self._result, self._given, self._limit, self._sent)
        if not arrivals.alone(TAINT_EVICTION, self._alike, self._of_new_processes()).longest:
            return False
        alone, every = BusyClient(self._limit, self._of_lifecycle), self._client(0, gone=False)
        clients: dict[str, BusyClient] = {}
        for write in self._writes:
            ends = in_seconds(write.span)
            if every.within(*ends) > alone.within(*ends):
                own = self._client_for(write, every, clients, 0, gone=False)
                if own.within(*ends) > alone.within(*ends):
                    return True
        return False

    def _of_new_processes(self) -> Iterator[Arrivals]:
        """What they tell of nodes, and what their first ticks and passes write."""
        begins = [write.span for write in self._writes if write.key == _NEW_PROCESS]
        for write in self._writes:
            if any(low_ns <= write.span[0] <= high_ns for low_ns, high_ns in begins):
                yield Arrivals(*in_seconds(write.span), write.requests)

    def _client(self, late_ns: int, but_of: str = "", *, gone: bool = True) -> BusyClient:
        """Where what node lifecycle does may come so much later; without what is deleted for the taint of that node."""
        arrivals = DeletionArrivals(
            self._result, self._given, self._limit, self._sent, late_ns, gone=gone
        )
        rows = [several for several in self._rows(late_ns, but_of) if several]
        return BusyClient(
            self._limit, [*self._written(late_ns), *arrivals.requests(TAINT_EVICTION, rows)]
        )

    def _client_for(
        self,
        write: _Write,
        every: BusyClient,
        known: dict[str, BusyClient],
        late_ns: int,
        *,
        gone: bool = True,
    ) -> BusyClient:
        name = write.key.node
        if name not in self._apart or write.key.what == TAINT_REMOVED:
            return every
        if name not in known:
            known[name] = self._client(late_ns, name, gone=gone)
        return known[name]

    def _rows(self, late_ns: int, but_of: str) -> Iterator[Sequence[Row]]:
        for several in self._alike:
            key, row = several[0]
            if not follows_lifecycle(key, row):
                yield several
                continue
            rows = list(several)
            if but_of:
                rows = [each for each in several if each[1].node != but_of]
            if rows and late_ns:
                key, row = rows[0]
                rows[0] = key, row._replace(spans=later_spans(row.spans, late_ns))
            yield rows

    def _written(self, late_ns: int) -> Iterator[Arrivals]:
        """What node lifecycle asks for: of each node no more than one tick writes at once, and of those in line one after the other."""
        lines: Counter[tuple[str, Span]] = Counter()
        by_node: defaultdict[str, list[_Write]] = defaultdict(list)
        for write in self._writes:
            zone = self._zone_of.get(write.key.node)
            if write.key.what == TAINT_ADDED and zone is not None and self._line_qps:
                low_ns, high_ns = write.span
                lines[zone, (low_ns, high_ns + late_ns)] += 1
            else:
                by_node[write.key.node].append(write)
        together: dict[tuple[float, float], Arrivals] = {}
        for one in chain.from_iterable(self._of_node(each, late_ns) for each in by_node.values()):
            span = one.low, one.high
            found = together.get(span)
            together[span] = one if found is None else found.with_other(one)
        yield from together.values()
        for (_, span), nodes in lines.items():
            yield line(*in_seconds(span), nodes, 1, self._line_qps or 0.0).in_requests(OF_TAINT)

    def _of_node(self, writes: list[_Write], late_ns: int) -> Iterator[Arrivals]:
        """Changes of one node whose windows meet come in ticks of their own."""
        writes.sort(key=lambda each: each.span)
        period = self._period_ns / SECOND_NS
        for low_ns, high_ns in merge_spans((each.span for each in writes), 0):
            met = [each for each in writes if low_ns <= each.span[0] <= high_ns]
            most: dict[NodeChangeKey, int] = {}
            for each in met:
                most[each.key] = max(each.requests, most.get(each.key, 0))
            ready = max((number for key, number in most.items() if key.what == READY), default=0)
            taints = sum(number for key, number in most.items() if key.what != READY)
            at_once, every = ready + min(taints, 2 * OF_TAINT), sum(each.requests for each in met)
            ends = in_seconds((low_ns, high_ns + late_ns))
            if every <= at_once:
                yield Arrivals(*ends, every)
            else:
                yield Arrivals(*ends, at_once, at_once / period, every)

    # -- how late that makes it -------------------------------------------------------------------------

    def late(self) -> tuple[int, dict[str, Late]]:
        """How long anybody has to do with the client, and how late what happens to each node is."""
        late_ns = 0
        for _ in range(_ROUNDS):
            every = self._client(late_ns)
            longest_ns = _ns(every.longest)
            found = self._late_of_nodes(every, longest_ns, late_ns)
            later_ns = max(max(each.tick_ns, each.tainted_ns) for each in found.values())
            if later_ns <= late_ns:
                return longest_ns, found
            late_ns = later_ns
        most_ns = _ns(self._client(late_ns).requests / self._limit.qps)
        return most_ns, dict.fromkeys(self._names, Late(most_ns, most_ns, most_ns))

    def _late_of_nodes(self, every: BusyClient, longest_ns: int, late_ns: int) -> dict[str, Late]:
        clients: dict[str, BusyClient] = {}
        by_node: defaultdict[str, list[_Write]] = defaultdict(list)
        for write in self._writes:
            by_node[write.key.node].append(write)
        spans = sorted((write.span, write.key.node) for write in self._writes)
        found: dict[str, Late] = {}
        # By what is written when of nodes that wait in one line: these are as late as each other.
        alike: dict[object, Late] = {}
        for name, writes in by_node.items():
            writes.sort(key=lambda each: each.span[0])
            looks = self._zone_of.get(name), tuple((each.key.what, each.span) for each in writes)
            same = (name, *looks) if name in self._apart else looks
            if same not in alike:
                own = [self._client_for(write, every, clients, late_ns) for write in writes]
                before = [
                    self._before(client, spans, write, longest_ns)
                    for client, write in zip(own, writes, strict=True)
                ]
                alike[same] = self._late_of(name, list(zip(writes, own, before, strict=True)))
            found[name] = alike[same]
        return found

    def _late_of(self, name: str, writes: Iterable[tuple[_Write, BusyClient, int]]) -> Late:
        """How late one node is: of these writes, in their order, each with its client and how late its tick may be."""
        up_ns, tick_ns, tainted_ns = 0, 0, 0
        for write, own, before_ns in writes:
            low_ns, high_ns = write.span
            own_ns = before_ns + _after_ns(own, (low_ns, high_ns + before_ns))
            if write.key.what == TAINT_ADDED:
                # By the tick itself that exchanges taints, or by a pass when the tick is over that puts it in line.
                line_ns = tick_ns + _after_ns(own, (low_ns, high_ns + tick_ns))
                in_line = low_ns, high_ns + line_ns
                lost_ns = self._lost(name, _ns(own.within(*in_seconds(in_line))))
                pass_ns = line_ns + _after_ns(own, in_line) + lost_ns
                tainted_ns = max(tainted_ns, own_ns, pass_ns)
                continue
            tick_ns = max(tick_ns, own_ns)
            if write.key.what == READY:
                up_ns = max(up_ns, own_ns)
        return Late(up_ns, max(tainted_ns, tick_ns), tick_ns)

    def _before(
        self, client: BusyClient, spans: Iterable[tuple[Span, str]], write: _Write, longest_ns: int
    ) -> int:
        """How late the tick may be that is under way then, if it has something to write, or waits for a pass that has."""
        low_ns, high_ns = write.span[0] - self._period_ns - longest_ns, write.span[1]
        others = any(
            span[0] <= high_ns and span[1] + longest_ns >= low_ns and name != write.key.node
            for span, name in spans
        )
        return _ns(client.within(*in_seconds((low_ns, high_ns)))) if others else 0

    def _lost(self, name: str, pass_ns: int) -> int:
        """What is lost where a pass takes longer than the next token: that one comes late, for each who may be before the node."""
        zone = self._zone_of.get(name)
        if zone is None or not self._line_qps:
            return 0
        over_ns = pass_ns - int(SECOND_NS / self._line_qps)
        return max(over_ns, 0) * (len(self._result.waiting[zone]) - 1)

    # -- what decides otherwise -------------------------------------------------------------------------

    def decides_otherwise(self, late: Mapping[str, Late]) -> bool:
        """Whether something comes late enough to meet what no run has before it."""
        ticks_ns = max((each.tick_ns for each in late.values()), default=0)
        zones = self._result.zones.windows
        if ticks_ns and self._result.waiting and any(key.state != NORMAL for key, _ in zones):
            return True
        instants = [
            (event.at_ns, min(event.latest_ns, NEVER_NS))
            for event in self._scenario.events
            if _decides(event)
        ]
        ends = [
            (*window.span, key.node) for (key, _), window in self._result.cancels.windows.items()
        ]
        for write in self._writes:
            of_node, high_ns = late[write.key.node], write.span[1]
            late_ns = max(of_node.tick_ns, of_node.tainted_ns, of_node.given_up_ns)
            if not late_ns:
                continue
            if any(at <= high_ns + late_ns and latest > high_ns for at, latest in instants):
                return True
            removed = write.key.what == TAINT_REMOVED
            if removed and any(node == write.key.node for _, _, node in ends):
                return True
        return False


def _decides(event: ScenarioEvent) -> bool:
    """Whether what ticks and passes do depends on it, but for silence."""
    return (
        event.manager_up is not None
        or bool(event.kubelets_up)
        or event.node is not None
        or isinstance(event, DeleteNode)
        or changes_lifecycle_taints(event)
    )


def _writes(result: Exploration, given: Given) -> Iterator[_Write]:
    """All that node lifecycle writes of nodes; at the start of a process an event for each node."""
    snapshot, scenario, configuration = given
    of_pods = marks(snapshot, configuration)
    for event in scenario.events:
        if event.pod is not None:
            of_pods[event.pod.node_name] += per_marked_pod(configuration)
        if event.manager_up:
            yield _Write(_NEW_PROCESS, event.span, len(snapshot.nodes))
    for (key, _), window in result.nodes.windows.items():
        span = window.span
        if key.what == READY:
            marked = 0 if key.value == "True" else of_pods[key.node]
            yield _Write(key, span, GIVEN_UP + marked)
        elif follows_ticks(key) and key.effect == NO_EXECUTE:
            yield _Write(key, span, OF_TAINT)


def _after_ns(client: BusyClient, span: Span) -> int:
    return _ns(client.after(*in_seconds(span)))


def _ns(seconds: float) -> int:
    """In whole milliseconds: what is the same at another time is told the same."""
    return -int(-round(seconds * SECOND_NS) // MILLISECOND_NS) * MILLISECOND_NS
