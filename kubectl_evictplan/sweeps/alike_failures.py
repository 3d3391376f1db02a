"""Failures of single nodes that are alike: a few are predicted, the others are told from these. Pure.

What follows when a kubelet falls silent depends on what the node is (its *class*), on its last renewal, and for each
pod on its kind. Last renewals differ from node to node. But as between two critical phases of the monitor
(``windows/unknowns``) nothing changes between two critical renewals, where a tick just catches one or just misses
it: the answer has one structure, and each instant stays where it is or moves with the renewal. So of all nodes
of a class between the same critical renewals the first, the middle and the last one are predicted, with a pod of every
kind that the class has. Where these three do not agree in all of that, each node is predicted for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import longest_renewal_ns, renew_period_ns
from kubectl_evictplan.kube.budgets import pods_refusable
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Warning
from kubectl_evictplan.prediction.alike_pods import kind_of
from kubectl_evictplan.prediction.document import Eviction, Kept, NodeReport, Prediction
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.predict import simulated, told
from kubectl_evictplan.prediction.prepared import PreparedCluster
from kubectl_evictplan.prediction.workloads import owner_name
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.sweeps.apart import (
    CODES,
    MICROSECOND_NS,
    MICROSECONDS,
    Answer,
    Rows,
    dated,
    dated_report,
    taken_apart,
)
from kubectl_evictplan.sweeps.throttled_rows import throttled
from kubectl_evictplan.windows.unknowns.tick_meetings import (
    critical_instants,
    monitor_cost_max_ns,
)

# Fewer are predicted for themselves.
_ALIKE_MIN = 5


class _Alone(NamedTuple):
    """What is known of one of them: what takes part besides its own pods, who waits in which zone, and what comes how long after a taint.

    Delays are told by the kinds of the node's pods, and by the keys of others.
    """

    name: str
    others: ClusterSnapshot
    waiting: Mapping[str, Set[str]]
    delays_ns: Mapping[Hashable, int | None]


class _Line(NamedTuple):
    """The answers of all that are alike; ``moves`` has 1 for each instant that moves with the renewal, else 0."""

    first: Answer
    moves: tuple[int, ...]
    # By kind: its rows, and where their instants begin.
    places: dict[Hashable, tuple[Rows, int]]
    others_at: int
    # The first prediction, for what all have in common.
    like: Prediction
    alone: _Alone

    def seconds(self, renewed_us: int) -> list[float | None]:
        """Return all instants of the node that renewed then."""
        later_us = renewed_us - self.first.renewed_us
        return [
            None if at_us is None else (at_us + move * later_us) / MICROSECONDS
            for at_us, move in zip(self.first.instants_us, self.moves, strict=True)
        ]


class _Class:
    """Nodes that differ in their renewals and pods alone, and the kinds of their pods with a pod of each."""

    def __init__(self) -> None:
        self.kinds: dict[Hashable, Pod] = {}
        # What separates renewals: every multiple of a step from an anchor on.
        self.critical: list[tuple[int, int]] = []


class AlikeFailures:
    """Tells failures of single nodes from others like them. ``scenarios``: of every node that will be asked for."""

    def __init__(
        self, prepared: PreparedCluster, scenarios: Iterable[tuple[str, Scenario]]
    ) -> None:
        self._prepared = prepared
        snapshot = prepared.snapshot
        everybody = {pod.key: pod for pod in snapshot.pods} if snapshot.webhooks else {}
        self._refusable = pods_refusable(snapshot.webhooks, everybody).deleted
        self._classes: dict[Hashable, _Class] = {}
        # By class and cell the renewals (offsets) with the names of their nodes.
        self._members: dict[Hashable, list[tuple[int, str]]] = {}
        self._cell_of: dict[str, tuple[tuple[Hashable, Hashable], int]] = {}
        self._lines: dict[Hashable, _Line | None] = {}
        self._scenarios = dict(scenarios)
        for name, scenario in self._scenarios.items():
            self._enter(name, scenario)

    def _enter(self, name: str, scenario: Scenario) -> None:
        prepared = self._prepared
        of_class = prepared.silence_class(name)
        lease = prepared.snapshot.leases.get(name)
        if of_class is None or lease is None or lease.renew_time_ns is None:
            return
        renewed_ns = lease.renew_time_ns - scenario.start_ns
        # What is told is told in microseconds.
        if renewed_ns % MICROSECOND_NS:
            return
        alike = self._classes.get(of_class)
        if alike is None:
            alike = self._classes[of_class] = _Class()
            alike.critical = list(self._critical(name, scenario))
        for pod in prepared.pods_on(name):
            alike.kinds.setdefault(self._kind(pod), pod)
        sides = tuple(
            ((renewed_ns - at_ns) // step_ns, (renewed_ns - at_ns) % step_ns == 0)
            for at_ns, step_ns in alike.critical
        )
        self._cell_of[name] = (of_class, sides), renewed_ns // MICROSECOND_NS
        self._members.setdefault((of_class, sides), []).append((renewed_ns, name))

    def _kind(self, pod: Pod) -> Hashable:
        return kind_of(pod), bool(self._refusable) and pod.key in self._refusable

    def _critical(self, name: str, scenario: Scenario) -> Iterator[tuple[int, int]]:
        """Yield (instant, step) of all renewals that matter: see ``TickMeetings``."""
        whole = self._prepared
        world, configuration = whole.relevant(scenario, None), whole.configuration(scenario)
        lease = world.leases.get(name)
        yield 0, renew_period_ns(lease)
        yield 0, longest_renewal_ns(lease)
        quiet = replace(scenario, events=())
        instants = {0, *critical_instants(world, quiet, configuration)}
        for first_ns, last_ns in configuration.monitor_phases_ns:
            instants.update((first_ns, first_ns + 1, last_ns, last_ns + 1))
        if configuration.monitor_phase_ns is not None:
            instants.add(configuration.monitor_phase_ns)
        cost_ns = monitor_cost_max_ns(world)
        for step_ns in (0, cost_ns, cost_ns // 2):
            for at_ns in sorted(instants):
                yield at_ns, configuration.node_monitor_period_ns + step_ns

    # -- what is told -----------------------------------------------------------------------------------

    def prediction(self, name: str) -> Prediction | None:
        """Return the Prediction of that node's silence as far as rows ask for it; None: others do not tell it.

        Rows have all figures, nothing in words; zones, joint statements and timers are left out.
        """
        where = self._cell_of.get(name)
        line = None if where is None else self._line_of(where[0])
        if where is None or line is None:
            return None
        return self._told(name, line, line.seconds(where[1]))

    def _told(self, name: str, line: _Line, seconds: list[float | None]) -> Prediction:
        _, others, nodes = line.first.shape
        evictions: list[Eviction] = []
        kept: list[Kept] = list(others.kept)
        named = {code: list(pods) for code, pods in others.codes}
        rest = iter(seconds[line.others_at :])
        of_others = [dated(row, rest) for row in others.evictions]
        reports = tuple([dated_report(report, name, rest) for report in nodes])
        told_of, reports = self._late(name, line, seconds, of_others, reports)
        for pod in self._prepared.pods_on(name):
            kind = self._kind(pod)
            rows, own = line.places[kind][0], told_of[kind]
            who = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid, "node": name}
            who["owner"] = owner_name(pod)
            evictions += [replace(row, **who) for row in own]
            kept += [replace(row, **who) for row in rows.kept]
            for code, _ in rows.codes:
                named.setdefault(code, []).append(pod.key)
        evictions += told_of[None]
        evictions.sort(key=lambda e: (e.offset_seconds, e.namespace, e.pod, e.uid, e.controller))
        in_order = Evictions.of(evictions)
        return replace(
            line.like,
            evictions=in_order,
            kept=tuple(sorted(kept, key=lambda one: (one.namespace, one.pod))),
            nodes=reports,
            workloads=self._prepared.workloads.reports(in_order, ()),
            warnings=tuple(
                Warning(code, "", tuple(sorted(named[code]))) for code in CODES if code in named
            ),
            cancelled=(),
            zones=(),
            joint=(),
        )

    def _late(
        self,
        name: str,
        line: _Line,
        seconds: list[float | None],
        of_others: list[Eviction],
        reports: Sequence[NodeReport],
    ) -> tuple[dict[Hashable, list[Eviction]], tuple[NodeReport, ...]]:
        """By the kinds of the node's pods their rows, as late as clients can make them, with nodes; under None those of other pods."""
        kinds = Counter[Hashable]()
        pods = dict[Hashable, Pod]()
        for pod in self._prepared.pods_on(name):
            kind = self._kind(pod)
            kinds[kind] += 1
            pods.setdefault(kind, pod)
        every = list[tuple[Hashable, Eviction, int | None]]()
        for kind, pod in pods.items():
            rows, at = line.places[kind]
            at_kind = iter(seconds[at:])
            who = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid, "node": name}
            told = [replace(dated(row, at_kind), **who) for row in rows.evictions]
            every += [(kind, row, line.alone.delays_ns.get(kind)) for row in told]
        every += [(None, row, line.alone.delays_ns.get(row.key)) for row in of_others]
        numbers = {pod.key: kinds[kind] for kind, pod in pods.items() if kinds[kind] > 1}
        snapshot = replace(
            line.alone.others, pods=(*pods.values(), *line.alone.others.pods), stand_ins=numbers
        )
        scenario = self._scenarios[name]
        waiting = {
            zone: names if line.alone.name not in names else {*names, name}
            for zone, names in line.alone.waiting.items()
        }
        late, reports = throttled(
            [(row, delay_ns) for _, row, delay_ns in every],
            reports,
            name,
            waiting,
            snapshot,
            scenario,
            self._prepared.configuration(scenario),
        )
        told_of: dict[Hashable, list[Eviction]] = {None: [], **{kind: [] for kind in pods}}
        for (kind, _, _), row in zip(every, late, strict=True):
            told_of[kind].append(row)
        return told_of, reports

    def _line_of(self, cell: Hashable) -> _Line | None:
        if cell not in self._lines:
            self._lines[cell] = self._find_line(cell)
        return self._lines[cell]

    def _find_line(self, cell: Hashable) -> _Line | None:
        members = sorted(self._members[cell])
        if len(members) < _ALIKE_MIN:
            return None
        found = []
        for _, name in (members[0], members[len(members) // 2], members[-1]):
            if (answer := self._answer(name)) is None:
                return None
            found.append(answer)
        (first, like, alone), (middle, *_), (last, *_) = found
        if (moves := _moves(first, middle, last)) is None:
            return None
        places: dict[Hashable, tuple[Rows, int]] = {}
        at = 0
        kinds = self._class_of(members[0][1]).kinds
        for kind, rows in zip(kinds, first.shape.of_kind, strict=True):
            places[kind] = rows, at
            at += rows.instants
        return _Line(first, moves, places, at, like, alone)

    def _class_of(self, name: str) -> _Class:
        (of_class, _), _ = self._cell_of[name]
        return self._classes[of_class]

    def _answer(self, name: str) -> tuple[Answer, Prediction, _Alone] | None:
        """Predict one node, with one pod of every kind of its class, and without limits of clients; None when more happens to it."""
        whole, scenario = self._prepared, self._scenarios[name]
        relevant = whole.relevant(scenario, None)
        own = [replace(pod, node_name=name) for pod in self._class_of(name).kinds.values()]
        of_others = tuple([pod for pod in relevant.pods if pod.node_name != name])
        pods = [*own, *of_others]
        pods.sort(key=lambda pod: (pod.namespace, pod.name))
        found = simulated(whole, replace(relevant, pods=tuple(pods)), scenario, limited=False)
        if name not in found.exploration.only_silent:
            return None
        prediction = told(whole, found)
        answer = taken_apart(prediction, own, name, self._cell_of[name][1])
        if answer is None:
            return None
        found_rows = found.exploration.evictions.items()
        delays: dict[Hashable, int | None] = {key.pod: row.delay_ns for key, row in found_rows}
        of_kinds = {kind: delays.get(pod.key) for kind, pod in self._class_of(name).kinds.items()}
        others = replace(relevant, pods=of_others)
        alone = _Alone(name, others, found.exploration.waiting, {**delays, **of_kinds})
        return answer, prediction, alone


def _moves(first: Answer, middle: Answer, last: Answer) -> tuple[int, ...] | None:
    """Return which instants move with the renewal; None when the answers differ in more than that."""
    if not first.shape == middle.shape == last.shape:
        return None
    found = []
    for instants in zip(first.instants_us, middle.instants_us, last.instants_us, strict=True):
        offsets = [
            at_us if at_us is None else at_us - answer.renewed_us
            for at_us, answer in zip(instants, (first, middle, last), strict=True)
        ]
        if len(set(instants)) == 1:
            found.append(0)
        elif None not in instants and len(set(offsets)) == 1:
            found.append(1)
        else:
            return None
    return tuple(found)
