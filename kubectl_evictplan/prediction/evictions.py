"""The evictions of a Prediction: nominal instants, windows from all runs, and ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache, partial
from itertools import repeat

from msgspec.structs import replace

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    EVICTION_API,
    KUBECTL_DELETE,
    NODE_LIFECYCLE,
    POD_GC,
    Entry,
    PodDeleted,
    Timeline,
)
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.finalizers import Jobs, lasting_finalizers
from kubectl_evictplan.kube.objects import Node, Pod, Taint
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.prediction import document
from kubectl_evictplan.prediction.alike_pods import AlikePods, SomePod
from kubectl_evictplan.prediction.causes import (
    ChainCache,
    ChainOfKind,
    CutChain,
    describe_circumstance,
    link,
    seconds,
)
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE
from kubectl_evictplan.prediction.grouped_evictions import (
    Chain,
    EvictionGroup,
    Evictions,
    PodNames,
)
from kubectl_evictplan.prediction.workloads import OwnerNames
from kubectl_evictplan.windows.circumstances import Circumstance
from kubectl_evictplan.windows.line_windows import Span, merge_spans
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction
from kubectl_evictplan.windows.unknowns.of_drains import DrainLatencies


class Stuck(Enum):
    """Why the object of a deleted pod stays, in the words of ``gone.stuck``."""

    FINALIZERS = "finalizers hold the object"
    KUBELET_SILENT = (
        "its kubelet is silent; that ends when the kubelet is back, the Node is deleted, the node gets "
        "the out-of-service taint, or somebody force-deletes the pod"
    )
    KUBELET_NOT_READY = (
        "its kubelet reports Ready=False: whether it can end the containers is not known"
    )
    NO_NODE = "its node does not exist: Terminating until pod garbage collection deletes it"
    NOT_CERTAIN = "its end is not certain within the horizon"


class PodEnds:
    """When the object of a deleted pod is gone, and what holds it if it is not: decided once, for everybody.

    A DELETE ends nothing by itself: the kubelet ends the containers and confirms. Which kubelets can do so
    is read from the nominal run: it follows from the snapshot and the scenario, the same in every run.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Mapping[str, Pod],
        nominal: Timeline,
        *,
        job_controller: bool = True,
        elsewhere: Jobs = (),
    ) -> None:
        """``job_controller``: it runs in the end, and takes its finalizer from what is deleted, but not of Jobs ``elsewhere``."""
        self.pods = pods
        self._job_controller, self._elsewhere = job_controller, elsewhere
        self._by_node = _why_nodes_end_no_pods(nodes, nominal)
        self.silent_nodes = frozenset(
            name for name, why in self._by_node.items() if why is Stuck.KUBELET_SILENT
        )

    def stuck_pods(
        self, shown: Mapping[EvictionKey, PossibleEviction], alike: AlikePods
    ) -> dict[Stuck | None, set[str]]:
        """Evicted pods by what holds them."""
        found: dict[Stuck | None, set[str]] = {}
        for key, deleted in shown.items():
            held = found.setdefault(self.why_stuck(key, deleted), set())
            held.update([pod.key for pod in alike.pods(key.pod, key.uid, deleted.node)])
        return found

    def why_stuck(self, key: EvictionKey, deleted: PossibleEviction) -> Stuck | None:
        """What holds the object of an evicted pod; None when it ends within the horizon."""
        pod = self.pods.get(key.pod)
        return None if self._ends_at_once(key, pod) else self._held_by(pod, deleted)

    def _held_by(self, pod: Pod | None, deleted: PossibleEviction) -> Stuck | None:
        if deleted.gone_latest_ns is not None:
            return None
        if pod is not None and pod.finalizers and self._lasting(pod):
            return Stuck.FINALIZERS
        return self._by_node.get(deleted.node, Stuck.NO_NODE)

    def window(self, key: EvictionKey, deleted: PossibleEviction) -> document.Window:
        """The object's end, which never comes before its deletion."""
        pod = self.pods.get(key.pod)
        if self._ends_at_once(key, pod):
            return _end(deleted.earliest_ns, deleted.latest_ns)
        stuck = self._held_by(pod, deleted)
        first_ns, last_ns = deleted.gone_earliest_ns, deleted.gone_latest_ns
        if stuck is Stuck.KUBELET_NOT_READY:
            first_ns = deleted.earliest_ns
        if first_ns is not None:
            first_ns = max(first_ns, deleted.earliest_ns)
        if stuck is None:
            return _end(first_ns, max(last_ns or 0, deleted.latest_ns))
        why = stuck.value
        if stuck is Stuck.FINALIZERS and pod is not None:
            why += ": " + ", ".join(self._lasting(pod))
            # Who takes them off still waits for the kubelet, or for what ends its silence.
            if deleted.node in self.silent_nodes:
                why += f"; and {Stuck.KUBELET_SILENT.value}"
        return _end(first_ns, None, why)

    def _lasting(self, pod: Pod) -> tuple[str, ...]:
        return lasting_finalizers(
            pod, job_controller=self._job_controller, elsewhere=self._elsewhere
        )

    @staticmethod
    def _ends_at_once(key: EvictionKey, pod: Pod | None) -> bool:
        """A DELETE with no grace period is the end of an object that no finalizer holds."""
        if pod is None or pod.finalizers or key.controller in (EVICTION_API, KUBECTL_DELETE):
            return False  # drains may ask for another grace period: the runs tell
        if key.controller == POD_GC:
            return True  # it forces the deletion
        terminating = pod.deletion_timestamp_ns is not None
        return not terminating and ClusterState.effective_grace_seconds(pod) == 0


@lru_cache(maxsize=1000)  # nodes that are alike share their windows
def _end(first_ns: int | None, last_ns: int | None, stuck: str | None = None) -> document.Window:
    first, last = (None if ns is None else seconds(ns) for ns in (first_ns, last_ns))
    return document.Window(first, last, stuck)


def _why_nodes_end_no_pods(nodes: Iterable[Node], nominal: Timeline) -> dict[str, Stuck]:
    """What keeps pods of each node when nothing more happens; NOT_CERTAIN: not the node."""

    def posted(status: str) -> Stuck:
        return Stuck.KUBELET_NOT_READY if status == "False" else Stuck.NOT_CERTAIN

    states = {}
    for node in nodes:
        ready = node.condition("Ready")
        states[node.name] = posted(ready.status if ready is not None else "")
    for entry in nominal.entries:
        if isinstance(entry, timeline.KubeletSilent):
            states[entry.node] = Stuck.KUBELET_SILENT
        elif isinstance(entry, timeline.NodeReadyPosted | timeline.NodeCreated):
            states[entry.node] = posted(entry.status)
        elif isinstance(entry, timeline.NodeDeleted):
            states[entry.node] = Stuck.NO_NODE
    return states


# -- evictions ----------------------------------------------------------------------------------------


def eviction_list(
    start_ns: int,
    shown: Mapping[EvictionKey, PossibleEviction],
    alike: AlikePods,
    ends: PodEnds,
    refusable: Collection[str],
) -> Evictions:
    """All evictions: those of ``shown`` and of all pods that are ``alike``.

    ``refusable`` are pods whose DELETE an admission webhook may refuse: never certain.
    """
    chains: dict[int, ChainCache] = {}
    owners = OwnerNames()
    groups: list[EvictionGroup] = []
    for key, found in shown.items():
        offset_ns, find_chain = _in_one_run(key, found, chains)
        row = _shared_row(key, found, start_ns, offset_ns, ends)
        pods = alike.pods(key.pod, key.uid, found.node)
        chain = ChainOfKind(key.pod, found.node, find_chain)
        groups += _groups(row, chain, _names_by_node(pods, ends.pods, owners), refusable)
    if len({(key.pod, key.uid) for key in shown}) < len(shown):
        from kubectl_evictplan.prediction.object_ends import with_one_end

        return Evictions.of(with_one_end(Evictions(groups)))
    return Evictions(groups)


def _shared_row(
    key: EvictionKey, found: PossibleEviction, start_ns: int, offset_ns: int, ends: PodEnds
) -> document.Eviction:
    """What the rows of all pods of a kind have in common."""
    index, toleration = found.toleration_index, None
    if index is not None:
        toleration = _toleration(index, found.toleration_seconds)
    return document.Eviction(
        namespace="",
        pod="",
        uid="",
        node=found.node,
        certainty=CERTAIN if found.certain else POSSIBLE,
        offset_seconds=seconds(offset_ns),
        earliest_seconds=seconds(found.earliest_ns),
        latest_seconds=seconds(found.latest_ns),
        windows=_windows(found.spans, found.circumstances),
        time=_rfc3339(start_ns + offset_ns),
        controller=key.controller,
        taint=None if found.taint is None else _taint(found.taint),
        toleration=toleration,
        gone=ends.window(key, found),
    )


@lru_cache(maxsize=1000)  # nodes that are alike share their windows
def _windows(
    spans: tuple[Span, ...], circumstances: tuple[Circumstance, ...]
) -> tuple[document.OutcomeWindow, ...]:
    # One of the runs may have a span more than is explained.
    explained = len(circumstances) == len(spans)
    whens = map(describe_circumstance, circumstances) if explained else repeat("")
    return tuple(
        document.OutcomeWindow(seconds(low_ns), seconds(high_ns), when)
        for (low_ns, high_ns), when in zip(spans, whens, strict=False)
    )


@lru_cache  # a cluster has few
def _taint(taint: Taint) -> document.TaintReference:
    return document.TaintReference(taint.key, taint.effect, taint.value)


@lru_cache  # a cluster has few
def _toleration(index: int, toleration_seconds: int | None) -> document.TolerationReference:
    return document.TolerationReference(index, toleration_seconds)


def _names_by_node(
    pods: Sequence[SomePod], known: Mapping[str, Pod], owners: OwnerNames
) -> dict[str, list[PodNames]]:
    found: dict[str, list[PodNames]] = {}
    for some in pods:
        pod = some.pod or known.get(some.key)
        if pod is None:
            namespace, _, name = some.key.partition("/")
            names = PodNames(namespace, name, some.uid, "")
        else:
            names = PodNames(pod.namespace, pod.name, some.uid, owners.of(pod))
        if (there := found.get(some.node)) is None:
            there = found[some.node] = []
        there.append(names)
    return found


def _groups(
    row: document.Eviction,
    chain: ChainOfKind,
    on_nodes: Mapping[str, Sequence[PodNames]],
    refusable: Collection[str],
) -> Iterator[EvictionGroup]:
    """The evictions of all pods of a kind: on each node those that may be refused and the others."""
    for node, pods in on_nodes.items():
        here = row if node == row.node else replace(row, node=node)
        find_chain = partial(chain.on, node)
        if refusable and row.certainty == CERTAIN:
            refused = [names for names in pods if names.key in refusable]
            if refused:
                yield EvictionGroup(replace(here, certainty=POSSIBLE), refused, find_chain)
                pods = [names for names in pods if names.key not in refusable]
        if pods:
            yield EvictionGroup(here, pods, find_chain)


def _in_one_run(
    key: EvictionKey, found: PossibleEviction, chains: dict[int, ChainCache]
) -> tuple[int, Callable[[], CutChain]]:
    """When the pod is deleted in the sample run, and how to find the chain of causes that ends with that."""
    sample = found.sample
    if sample is None and found.until_queued is not None:
        sample = found.until_queued()
    if sample is None:
        at_ns = found.earliest_ns
        return at_ns, lambda: ((), _links_after_the_wait(key, found, at_ns, at_ns))
    run, index = sample
    if (cache := chains.get(id(run))) is None:
        cache = chains[id(run)] = ChainCache(run)
    entry = run.entries[index]
    if isinstance(entry, PodDeleted) and entry.at_ns <= found.latest_ns:
        return entry.at_ns, partial(cache.cut, index)
    # The run stops short of the deletion (it has no pods) or goes on after the horizon.
    delay_ns = found.delay_ns or 0
    offset_ns = max(found.earliest_ns, min(entry.at_ns + delay_ns, found.latest_ns))

    def find_chain() -> CutChain:
        rest = _links_after_the_wait(key, found, offset_ns - delay_ns, offset_ns)
        wait_ends = rest[0].offset_seconds or 0
        before = (c for c in cache.chain(index) if (c.offset_seconds or 0) <= wait_ends)
        return tuple(before), rest

    return offset_ns, find_chain


def _links_after_the_wait(
    key: EvictionKey, found: PossibleEviction, tainted_ns: int, deleted_ns: int
) -> Chain:
    return tuple(map(link, _after_the_wait(key, found, tainted_ns, deleted_ns)))


# Only what is drawn can leave out the nominal run.
_FOUND_BY_NO_OTHER_RUN = frozenset({DrainLatencies.name})


def with_nominal(
    explored: Mapping[EvictionKey, PossibleEviction], nominal: Timeline, period_ns: int
) -> dict[EvictionKey, PossibleEviction]:
    """What was found over all runs, with the nominal run as the sample where it evicts as well.

    Of deletes that only the nominal run knows the first one of each object counts.
    """
    found = dict(explored)
    ordinals: dict[tuple[str, str, str], int] = {}
    replacements = nominal.replacements()
    for index, entry in enumerate(nominal.entries):
        if not isinstance(entry, PodDeleted) or entry.uid in replacements:
            continue
        name = (entry.pod, entry.uid, entry.controller)
        ordinal = ordinals[name] = ordinals.get(name, -1) + 1
        key, at_ns = EvictionKey(*name, ordinal), entry.at_ns
        other = explored.get(key)
        if other is None and ordinal:
            continue  # of an object that was deleted before: it changes nothing any more
        spans = other.spans if other else ()
        if not any(earliest_ns <= at_ns <= latest_ns for earliest_ns, latest_ns in spans):
            spans = _stretched(other, at_ns, period_ns)
        found[key] = PossibleEviction(
            spans=spans,
            certain=other.certain if other else False,
            node=entry.node,
            taint=entry.taint,
            toleration_index=entry.toleration_index,
            toleration_seconds=entry.toleration_seconds,
            sample=(nominal, index),
            delay_ns=None,
            gone_earliest_ns=other.gone_earliest_ns if other else None,
            gone_latest_ns=other.gone_latest_ns if other else None,
            circumstances=other.circumstances if other else (),
            missed=other.missed if other else _FOUND_BY_NO_OTHER_RUN,
            proven=other.proven if other else False,
        )
    return found


def _stretched(found: PossibleEviction | None, at_ns: int, period_ns: int) -> tuple[Span, ...]:
    """Windows that hold the instant as well; one stretch where windows are no more than what was tried."""
    if found is None:
        return ((at_ns, at_ns),)
    if found.missed == _FOUND_BY_NO_OTHER_RUN or not found.missed:
        return tuple(merge_spans(sorted((*found.spans, (at_ns, at_ns))), 0))
    earliest_ns = min(found.earliest_ns, max(at_ns - period_ns, 0))
    return ((earliest_ns, max(found.latest_ns, at_ns + period_ns)),)


def _after_the_wait(
    key: EvictionKey, found: PossibleEviction, tainted_ns: int, deleted_ns: int
) -> Iterator[Entry]:
    """What happens to a pod whose node waits for its taint in the sample run."""
    pod = (key.pod, key.uid, found.node)
    decision = (found.taint, found.toleration_index, found.toleration_seconds)
    if found.delay_ns is not None and found.taint is not None:
        rule = "doNoExecuteTaintingPass"
        yield timeline.TaintAdded(tainted_ns, (), found.node, found.taint, NODE_LIFECYCLE, rule)
        if found.toleration_seconds is not None:
            yield timeline.EvictionScheduled(tainted_ns, (), *pod, *decision, due_ns=deleted_ns)
    yield PodDeleted(deleted_ns, (), *pod, key.controller, *decision)


@lru_cache  # pods of one node share their instants
def _rfc3339(at_ns: int) -> str:
    """To the millisecond."""
    return format_rfc3339(at_ns // MILLISECOND_NS * MILLISECOND_NS)
