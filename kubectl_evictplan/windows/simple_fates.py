"""Pods of nodes that fall silent, are served once and never come back: windows by addition.

What happens to a pod then depends on nothing but the pod: its tolerations, its phase, its grace period. So
one simulation of each kind of pod tells how long after the service it is deleted, and the windows of all
pods are those of their nodes, moved by that delay. On a large outage nearly all pods are of this sort.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import PodDeleted, PodGone
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import NO_EXECUTE, Pod
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE
from kubectl_evictplan.windows.circumstances import Circumstance, Contribution, tell_spans_apart
from kubectl_evictplan.windows.line_replay import NEVER_NS
from kubectl_evictplan.windows.line_windows import Span, WaitWindow, disjoint_outcomes
from kubectl_evictplan.windows.node_runs import NodeRun, PieceRun, gap_between_outcomes_ns
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
    UntilQueued,
)
from kubectl_evictplan.windows.outer_bounds import OuterBounds
from kubectl_evictplan.windows.pod_worlds import PodWorld


class _Fate(msgspec.Struct, frozen=True):
    """How long after the service of its node a pod is deleted, and gone (None: it stays Terminating)."""

    delay_ns: int
    deleted: PodDeleted
    gone_delay_ns: int | None


class _Service(msgspec.Struct, frozen=True):
    """When the node of pods is tainted, over all runs."""

    spans: tuple[Span, ...]
    certain: bool
    circumstances: tuple[Circumstance, ...]
    missed: frozenset[str]
    proven: bool


class SimpleFates(msgspec.Struct, eq=False):
    """Remembers the fates of kinds of pods."""

    _world: Callable[[frozenset[str], list[Pod]], PodWorld]
    _configuration: ControllerConfiguration
    _horizon_ns: int
    _result: Exploration
    _bounds: OuterBounds
    _fates: dict[Hashable, _Fate | None] = {}

    def explore(self, name: str, pods: list[Pod], runs: list[PieceRun]) -> None:
        """Windows of the node's taint and of all its pods."""
        found = [(run, run.waits[name][0]) for run in runs if run.waits.get(name)]
        service = self._service(name, found, len(runs))
        if not service.spans:
            return
        # A run in which it is served first, or just waits.
        sample = min(found, key=lambda each: each[1].spans[0][0] if each[1].spans else NEVER_NS)[
            0
        ].first
        if self._configuration.taint_mode:
            self._note_taint(name, service, sample)
        self._learn(name, pods, sample, service.spans[0][0])
        for pod in pods:
            fate = self._fates[_kind(pod)]
            if fate is not None:
                self._note_pod(pod, fate, service, until_queued=partial(sample.until_queued, name))

    def _service(self, name: str, found: list[tuple[PieceRun, WaitWindow]], runs: int) -> _Service:
        """What was explored; where that is not all, what is proven."""
        missed = frozenset().union(*(run.piece.missed | wait.missed for run, wait in found))
        bounds = self._bounds.nodes.get(name)
        if missed and bounds is not None:
            proven = [bounds.served] if bounds.served[0] <= bounds.served[1] else []
            return _Service(tuple(proven), bounds.certain, (), missed, proven=True)
        if missed:
            self._result.sampled[name] = missed
        certain = not missed and len(found) == runs and all(wait.certain for _, wait in found)
        alone = self._result.waits_alone(name)
        gap_ns = gap_between_outcomes_ns(self._configuration, alone=alone)
        spans = disjoint_outcomes((span for _, wait in found for span in wait.spans), gap_ns)
        circumstances = tell_spans_apart(
            spans,
            (
                (Contribution(index, run.piece.between, 0), wait.spans)
                for index, (run, wait) in enumerate(found)
            ),
            alone=alone,
        )
        return _Service(spans, certain, circumstances, missed, proven=False)

    def _note_taint(self, name: str, service: _Service, sample: NodeRun) -> None:
        status = sample.record(name).decisions[0][1] if sample.record(name).decisions else ""
        key = NOT_READY if status == "False" else UNREACHABLE
        change = NodeChangeKey(name, TAINT_ADDED, f"{key}:{NO_EXECUTE}")
        window, runs = (service.spans[0][0], service.spans[-1][1]), self._result.runs
        explored = bool(service.missed) and not service.proven
        self._result.nodes.add(
            (change, 0), *window, certain=service.certain, runs=runs, explored=explored
        )

    def _learn(self, name: str, pods: list[Pod], run: NodeRun, served_ns: int) -> None:
        """Simulate one pod of every kind that was not met before."""
        unknown = {_kind(pod): pod for pod in pods if _kind(pod) not in self._fates}
        if not unknown:
            return
        world = self._world(frozenset({name}), list(unknown.values()))
        record = run.record(name)
        # Windows that are widened may begin before this very run puts the node in line.
        served_ns = max(served_ns, *(at_ns for at_ns, _ in record.decisions[:1]))
        played = {name: record.playback((served_ns,))}
        # Until nothing more happens, whatever the horizon.
        world = world._replace(scenario=replace(world.scenario, horizon_ns=None))
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

    def _note_pod(
        self,
        pod: Pod,
        fate: _Fate,
        service: _Service,
        *,
        until_queued: UntilQueued,
    ) -> None:
        delay_ns, horizon_ns, node_spans = fate.delay_ns, self._horizon_ns, service.spans
        spans = tuple(
            (low_ns + delay_ns, min(high_ns + delay_ns, horizon_ns))
            for low_ns, high_ns in node_spans
            if low_ns + delay_ns <= horizon_ns
        )
        if not spans:
            return
        latest_ns = node_spans[-1][1]
        gone_ns, deleted = fate.gone_delay_ns, fate.deleted
        key = EvictionKey(pod.key, pod.uid, deleted.controller, 0)
        self._result.evictions[key] = PossibleEviction(
            spans=spans,
            certain=service.certain and latest_ns + delay_ns <= horizon_ns,
            node=pod.node_name,
            taint=deleted.taint,
            toleration_index=deleted.toleration_index,
            toleration_seconds=deleted.toleration_seconds,
            until_queued=until_queued,
            delay_ns=delay_ns,
            gone_earliest_ns=None if gone_ns is None else node_spans[0][0] + gone_ns,
            gone_latest_ns=None if gone_ns is None else latest_ns + gone_ns,
            circumstances=service.circumstances[: len(spans)],
            missed=service.missed,
            proven=service.proven,
        )


def _kind(pod: Pod) -> Hashable:
    """Pods that are alike in this meet the same fate. Loaders share equal lists of tolerations."""
    owner = pod.controller()
    return (
        id(pod.tolerations),
        pod.phase,
        pod.termination_grace_period_seconds,
        pod.finalizers,
        owner.name if owner is not None and pod.finalizers else "",
        pod.deletion_timestamp_ns is not None,
        pod.deletion_grace_period_seconds,
        pod.duplicate_env_or_port,
        owner.kind if owner is not None else "",
    )
