"""Pods of nodes that fall silent, are served once and never come back: windows by addition.

What happens to a pod then depends on nothing but the pod: its tolerations, its phase, its grace period. So
one simulation of each kind of pod tells how long after the service it is deleted, and the windows of all
pods are those of their nodes, moved by that delay. On a large outage nearly all pods are of this sort.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import PodDeleted, PodGone
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import Decision
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import NO_EXECUTE, Pod, Taint
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE
from kubectl_evictplan.windows.circumstances import Circumstance, Contribution, tell_spans_apart
from kubectl_evictplan.windows.node_runs import NodeRun
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
)
from kubectl_evictplan.windows.outer_bounds import NodeBounds, OuterBounds
from kubectl_evictplan.windows.piece_runs import PieceRun, gap_between_outcomes_ns
from kubectl_evictplan.windows.pod_worlds import PodWorlds
from kubectl_evictplan.windows.spans import NEVER_NS, Span, disjoint_outcomes


class _Fate(msgspec.Struct, frozen=True):
    """How long after the service of its node a pod is deleted, and gone at the latest (None: it stays Terminating)."""

    delay_ns: int
    deleted: PodDeleted
    gone_delay_ns: int | None


class _Service(msgspec.Struct, frozen=True):
    """When the node of pods is tainted, over all runs."""

    spans: tuple[Span, ...]
    certain: bool
    circumstances: tuple[Circumstance, ...]
    missed: frozenset[str]
    # A run in which it is served first, or just waits.
    sample: NodeRun
    proven: bool = False


class SimpleFates(msgspec.Struct, eq=False):
    """Remembers the fates of kinds of pods, and the services of nodes that no run tells apart."""

    _worlds: PodWorlds
    _configuration: ControllerConfiguration
    _horizon_ns: int
    _result: Exploration
    _bounds: OuterBounds
    _fates: dict[Hashable, _Fate | None] = {}
    # By the identity of a list of tolerations what it means for the pods that have it.
    _tolerating: dict[int, Hashable] = {}
    # By the course of a node over all runs.
    _services: dict[tuple[int, ...], _Service | None] = {}
    # What is proven where that is not enough: by the identity of what was explored, and the bounds.
    _proven: dict[tuple[int, NodeBounds], _Service] = {}
    # What the evictions of pods of one fate have in common where their nodes have one service, by the identities of both.
    _evictions: dict[tuple[int, int], PossibleEviction | None] = {}

    def explore(
        self, name: str, pods: list[Pod], runs: list[PieceRun], course: tuple[int, ...]
    ) -> None:
        """Windows of the node's taint and of all its pods; nodes of one ``course`` are alike in every run."""
        if course not in self._services:
            self._services[course] = self._explored(name, runs)
        explored = self._services[course]
        service = None if explored is None else self._as_proven(name, explored)
        if service is None or not service.spans:
            return
        if self._configuration.taint_mode:
            self._note_taint(name, service)
        kinds = list(map(self._kind, pods))
        self._learn(name, pods, kinds, service)
        until_queued = partial(service.sample.until_queued, name)
        for pod, kind in zip(pods, kinds, strict=True):
            fate = self._fates[kind]
            found = None if fate is None else self._eviction(fate, service)
            if fate is not None and found is not None:
                # Of tens of thousands: without asking for their length, as calling the type does.
                key = tuple.__new__(EvictionKey, (pod.key, pod.uid, fate.deleted.controller, 0))
                self._result.evictions[key] = found.on_node(name, until_queued)

    def _explored(self, name: str, runs: list[PieceRun]) -> _Service | None:
        """What was explored; None where the node waits in no run."""
        found = [(run, run.waits[name][0]) for run in runs if run.waits.get(name)]
        if not found:
            return None
        missed = frozenset().union(*(run.piece.missed | wait.missed for run, wait in found))
        certain = not missed and len(found) == len(runs) and all(wait.certain for _, wait in found)
        alone = self._result.waits_alone(name)
        gap_ns = gap_between_outcomes_ns(self._configuration, alone=alone)
        # Who is in line since before the start has not been served yet.
        every = ((max(low, 0), high) for _, wait in found for low, high in wait.spans)
        spans = disjoint_outcomes(every, gap_ns, self._horizon_ns)
        circumstances = tell_spans_apart(
            spans,
            (
                (Contribution(index, run.piece.between, 0), wait.spans)
                for index, (run, wait) in enumerate(found)
            ),
            alone=alone,
        )
        first = min(found, key=lambda each: each[1].spans[0][0] if each[1].spans else NEVER_NS)
        return _Service(spans, certain, circumstances, missed, first[0].first)

    def _as_proven(self, name: str, explored: _Service) -> _Service:
        """What was explored; where that is not all, what is proven."""
        bounds, missed = self._bounds.nodes.get(name), explored.missed
        if not missed:
            return explored
        if bounds is None:
            self._result.sampled[name] = missed
            return explored
        key = id(explored), bounds
        if key not in self._proven:
            low_ns, high_ns = bounds.served
            spans = ((max(low_ns, 0), high_ns),) if low_ns <= high_ns else ()
            sample = explored.sample
            proven = _Service(spans, bounds.certain, (), missed, sample, proven=True)
            self._proven[key] = proven
        return self._proven[key]

    def _note_taint(self, name: str, service: _Service) -> None:
        decisions = service.sample.record(name).decisions
        status = decisions[0][1] if decisions else ""
        key = NOT_READY if status == "False" else UNREACHABLE
        change = NodeChangeKey(name, TAINT_ADDED, f"{key}:{NO_EXECUTE}")
        window, runs = (service.spans[0][0], service.spans[-1][1]), self._result.runs
        explored = bool(service.missed) and not service.proven
        self._result.nodes.add(
            (change, 0), *window, certain=service.certain, runs=runs, explored=explored
        )

    def _learn(
        self, name: str, pods: list[Pod], kinds: Sequence[Hashable], service: _Service
    ) -> None:
        """Simulate one pod of every kind that was not met before."""
        unknown = {
            kind: pod for pod, kind in zip(pods, kinds, strict=True) if kind not in self._fates
        }
        if not unknown:
            return
        world = self._worlds.of(frozenset({name}), list(unknown.values()))
        record = service.sample.record(name)
        # Windows that are widened may begin before this very run puts the node in line.
        served_ns = max(service.spans[0][0], *(at_ns for at_ns, _ in record.decisions[:1]))
        played = {name: record.playback((served_ns,))}
        # Until nothing more happens, whatever the horizon.
        world = replace(world, scenario=replace(world.scenario, horizon_ns=None))
        timeline = world.simulate(played, Timing())
        deleted: dict[str, PodDeleted] = {}
        gone_ns: dict[str, int] = {}
        for entry in timeline.entries:
            if isinstance(entry, PodDeleted):
                deleted.setdefault(entry.pod, entry)
            elif isinstance(entry, PodGone):
                gone_ns.setdefault(entry.pod, entry.at_ns)
        for kind, pod in unknown.items():
            delete = deleted.get(pod.key)
            if delete is None:
                self._fates[kind] = None
                continue
            gone = gone_ns.get(pod.key)
            self._fates[kind] = _Fate(
                delete.at_ns - served_ns, delete, None if gone is None else gone - served_ns
            )

    def _kind(self, pod: Pod) -> Hashable:
        """Pods that are alike in this meet the same fate. Loaders share equal lists of tolerations."""
        tolerating = self._tolerating.get(id(pod.tolerations))
        if tolerating is None:
            comparison = self._configuration.comparison_operators
            tolerating = tuple(
                [Decision((taint,), pod.tolerations, comparison).look for taint in _TAINTS]
            )
            self._tolerating[id(pod.tolerations)] = tolerating
        owner = pod.controller()
        if owner is None:
            return tolerating, _LOOK(pod)
        return tolerating, owner.kind, owner.name if pod.finalizers else "", _LOOK(pod)

    def _eviction(self, fate: _Fate, service: _Service) -> PossibleEviction | None:
        """What evictions of pods of that fate have in common; None where they come after the horizon."""
        key = id(fate), id(service)
        if key not in self._evictions:
            self._evictions[key] = self._eviction_of_any(fate, service)
        return self._evictions[key]

    def _eviction_of_any(self, fate: _Fate, service: _Service) -> PossibleEviction | None:
        delay_ns, horizon_ns, node_spans = fate.delay_ns, self._horizon_ns, service.spans
        spans = tuple(
            (low_ns + delay_ns, min(high_ns + delay_ns, horizon_ns))
            for low_ns, high_ns in node_spans
            if low_ns + delay_ns <= horizon_ns
        )
        if not spans:
            return None
        latest_ns = node_spans[-1][1]
        gone_ns, deleted = fate.gone_delay_ns, fate.deleted
        return PossibleEviction(
            spans=spans,
            certain=service.certain and latest_ns + delay_ns <= horizon_ns,
            node="",
            taint=deleted.taint,
            toleration_index=deleted.toleration_index,
            toleration_seconds=deleted.toleration_seconds,
            delay_ns=delay_ns,
            # The run has the latest end there is: who takes off a finalizer may be quicker.
            gone_earliest_ns=None if gone_ns is None else spans[0][0],
            gone_latest_ns=None if gone_ns is None else latest_ns + gone_ns,
            circumstances=service.circumstances[: len(spans)],
            missed=service.missed,
            proven=service.proven,
        )


# The only NoExecute taints that a node gets which had none and to which nothing happens but silence.
_TAINTS = tuple(Taint(key, NO_EXECUTE) for key in (NOT_READY, UNREACHABLE))
_LOOK = attrgetter(
    "phase",
    "termination_grace_period_seconds",
    "finalizers",
    "deletion_timestamp_ns",
    "deletion_grace_period_seconds",
    "duplicate_env_or_port",
)
