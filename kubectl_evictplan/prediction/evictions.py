"""The evictions of a Prediction: nominal instants from one run, windows from all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import PodDeleted, PodGone, Timeline
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.prediction.causes import ChainCache, seconds
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    POSSIBLE,
    Eviction,
    OutcomeWindow,
    TaintReference,
    TolerationReference,
    Window,
)
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, Occurrence


class _Nominal(NamedTuple):
    entry: PodDeleted
    place: int


def owner_name(pod: Pod | None) -> str:
    """``Kind/name`` of the managing owner; "" for a bare pod."""
    controller = pod.controller() if pod is not None else None
    return f"{controller.kind}/{controller.name}" if controller is not None else ""


class EvictionList:
    """Builds the sorted list of evictions."""

    def __init__(
        self,
        scenario: Scenario,
        nominal: Timeline,
        exploration: Exploration,
        pods: Mapping[str, Pod],
        silent_at_start: Iterable[str],
    ) -> None:
        self._scenario = scenario
        self._nominal = nominal
        self._exploration = exploration
        self._pods = pods
        self._chains: dict[int, ChainCache] = {}
        self._times: dict[int, str] = {}
        self._deletes: dict[EvictionKey, _Nominal] = {}
        self._gone: dict[tuple[str, str], int] = {}
        self._silent = _silence_spans(scenario, silent_at_start)
        ordinals: dict[tuple[str, str, str], int] = {}
        for index, entry in enumerate(nominal.entries):
            if isinstance(entry, PodDeleted):
                key = (entry.pod, entry.uid, entry.controller)
                ordinal = ordinals[key] = ordinals.get(key, -1) + 1
                self._deletes[EvictionKey(*key, ordinal)] = _Nominal(entry, index)
            elif isinstance(entry, PodGone):
                self._gone.setdefault((entry.pod, entry.uid), entry.at_ns)

    def build(self) -> tuple[Eviction, ...]:
        """All evictions, sorted by offset, namespace, name."""
        keys = sorted(set(self._exploration.evictions) | set(self._deletes))
        evictions = [self._eviction(key) for key in keys]
        evictions.sort(key=lambda e: (e.offset_seconds, e.namespace, e.pod, e.uid))
        return tuple(evictions)

    def _eviction(self, key: EvictionKey) -> Eviction:
        nominal = self._deletes.get(key)
        occurrence = self._exploration.evictions.get(key)
        entry = nominal.entry if nominal is not None else None
        if occurrence is None:
            assert entry is not None
            earliest_ns = latest_ns = entry.at_ns
            certain = False
        else:
            earliest_ns, latest_ns = occurrence.earliest_ns, occurrence.latest_ns
            certain = occurrence.certain
            if entry is not None:
                earliest_ns, latest_ns = min(earliest_ns, entry.at_ns), max(latest_ns, entry.at_ns)
        earliest_ns = max(earliest_ns, 0)
        offset_ns = entry.at_ns if entry is not None else earliest_ns
        namespace, _, name = key.pod.partition("/")
        taint = entry.taint if entry is not None else occurrence.taint if occurrence else None
        return Eviction(
            namespace=namespace,
            pod=name,
            uid=key.uid,
            node=entry.node if entry is not None else occurrence.node if occurrence else "",
            certainty=CERTAIN if certain else POSSIBLE,
            offset_seconds=seconds(offset_ns),
            earliest_seconds=seconds(earliest_ns),
            latest_seconds=seconds(latest_ns),
            windows=(OutcomeWindow(seconds(earliest_ns), seconds(latest_ns)),),
            time=self._time(offset_ns),
            controller=key.controller,
            taint=TaintReference(taint.key, taint.effect, taint.value) if taint else None,
            toleration=_toleration(entry, occurrence),
            gone=self._gone_window(key, earliest_ns, latest_ns, occurrence),
            owner=owner_name(self._pods.get(key.pod)),
            because=self._because(nominal, occurrence),
        )

    def _time(self, offset_ns: int) -> str:
        # Pods of one node share their instants: format each one once.
        text = self._times.get(offset_ns)
        if text is None:
            text = format_rfc3339(_to_millisecond(self._scenario.start_ns + offset_ns))
            self._times[offset_ns] = text
        return text

    def _because(self, nominal: _Nominal | None, occurrence: Occurrence | None) -> tuple:  # type: ignore[type-arg]
        if nominal is not None:
            return self._cache(self._nominal).chain(nominal.place)
        if occurrence is not None and occurrence.sample is not None:
            timeline, index = occurrence.sample
            return self._cache(timeline).chain(index)
        return ()

    def _cache(self, timeline: Timeline) -> ChainCache:
        cache = self._chains.get(id(timeline))
        if cache is None:
            cache = self._chains[id(timeline)] = ChainCache(timeline)
        return cache

    def _gone_window(
        self,
        key: EvictionKey,
        earliest_ns: int,
        latest_ns: int,
        occurrence: Occurrence | None,
    ) -> Window:
        """The object's end: a kubelet that is up finishes within the grace period, never before."""
        if occurrence is not None:
            first_ns, last_ns = occurrence.gone_earliest_ns, occurrence.gone_latest_ns
        else:
            first_ns, last_ns = self._gone.get((key.pod, key.uid)), None
        first = None if first_ns is None else seconds(max(first_ns, earliest_ns, 0))
        if last_ns is not None:
            return Window(first, seconds(max(last_ns, latest_ns)))
        return Window(first, None, self._why_stuck(key, earliest_ns))

    def _why_stuck(self, key: EvictionKey, at_ns: int) -> str:
        pod = self._pods.get(key.pod)
        if pod is not None and pod.finalizers:
            return "finalizers hold the object: " + ", ".join(pod.finalizers)
        node = pod.node_name if pod is not None else ""
        if any(start <= at_ns < end for start, end in self._silent.get(node, ())):
            return (
                "its kubelet is silent; that ends when the kubelet is back, the Node is deleted, the "
                "node gets the out-of-service taint, or somebody force-deletes the pod"
            )
        return "its end is not certain within the horizon"


def _toleration(
    entry: PodDeleted | None, occurrence: Occurrence | None
) -> TolerationReference | None:
    index = entry.toleration_index if entry is not None else None
    given = entry.toleration_seconds if entry is not None else None
    if entry is None and occurrence is not None:
        index, given = occurrence.toleration_index, occurrence.toleration_seconds
    return TolerationReference(index, given) if index is not None else None


def _to_millisecond(at_ns: int) -> int:
    return at_ns // 1_000_000 * 1_000_000


def _silence_spans(
    scenario: Scenario, silent_at_start: Iterable[str]
) -> dict[str, list[tuple[int, int]]]:
    spans: dict[str, list[tuple[int, int]]] = {name: [(0, 2**62)] for name in silent_at_start}
    for event in scenario.events:
        for name in event.nodes:
            if event.kubelets_up is False:
                spans.setdefault(name, []).append((event.at_ns, 2**62))
            elif event.kubelets_up and name in spans:
                spans[name][-1] = (spans[name][-1][0], event.at_ns)
    return spans
