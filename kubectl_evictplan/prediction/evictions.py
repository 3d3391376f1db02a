"""The evictions of a Prediction: nominal instants, windows from all runs, and which of these are exact."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import (
    EVICTION_API,
    NODE_LIFECYCLE,
    POD_GC,
    TAINT_EVICTION,
    Entry,
    PodCreated,
    PodDeleted,
    RunEntries,
)
from kubectl_evictplan.kube.budgets import RefusablePods
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.prediction import document
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.causes import (
    ChainCache,
    ChainOfKind,
    CutChain,
    EntryInRun,
    describe_circumstance,
    link,
    seconds,
)
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    PARTLY,
    POSSIBLE,
    WHOLLY,
    Coverage,
    UnknownExplored,
)
from kubectl_evictplan.prediction.grouped_evictions import (
    Chain,
    EvictionGroup,
    Evictions,
    PodNames,
)
from kubectl_evictplan.prediction.pod_ends import EvictedKind, PodEnds
from kubectl_evictplan.prediction.workloads import OwnerNames
from kubectl_evictplan.windows.circumstances import Circumstance
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction
from kubectl_evictplan.windows.spans import Span, merge_spans
from kubectl_evictplan.windows.unknowns.of_drains import DrainLatencies
from kubectl_evictplan.windows.unknowns.registry import UNKNOWNS


def eviction_list(
    start_ns: int,
    kinds: Sequence[EvictedKind],
    ends: PodEnds,
    names: NamesOfAlike,
    refusable: RefusablePods,
    gone_from: Mapping[str, int],
) -> Evictions:
    """All evictions: ``kinds`` with all that are alike.

    ``refusable`` are pods that an admission webhook may keep: their evictions are never certain. Nor are those of pods that may be
    ``gone_from`` an offset on, if they may come later.
    """
    chains: dict[int, ChainCache] = {}
    rows = _Rows(start_ns, ends)
    groups: list[EvictionGroup] = []
    for kind in kinds:
        offset_ns, find_chain = _in_one_run(kind.key, kind.found, chains)
        row = rows.of(kind, offset_ns)
        chain = ChainOfKind(kind.key.pod, kind.found.node, find_chain)
        for node, pods in names.of(kind):
            here = row if node == row.node else replace(row, node=node)
            kept = refusable.evicted if kind.key.controller == EVICTION_API else refusable.deleted
            if here.certainty == CERTAIN and (kept or gone_from):
                unsure = _Unsure(kept, gone_from, kind.found.latest_ns)
                groups += _groups(here, chain, pods, unsure)
            else:
                groups.append(EvictionGroup(here, pods, chain))
    if len({(kind.key.pod, kind.key.uid) for kind in kinds}) < len(kinds):
        from kubectl_evictplan.prediction.object_ends import with_one_end

        return Evictions.of(with_one_end(Evictions(groups)))
    # Pods of the snapshot have each a name of their own, and are of one lot.
    once = all(kind.lots for kind in kinds) and len({kind.key.pod for kind in kinds}) == len(kinds)
    return Evictions(groups, names.owners(kinds), once=once)


class NamesOfAlike:
    """The names of all pods that took part, made in one pass."""

    def __init__(self, alike: AlikePods, owners: OwnerNames) -> None:
        self._alike, self._owners = alike, owners
        self._names = owners.names(alike.pods)
        self._by_lot = alike.by_lot(self._names)

    def of(self, kind: EvictedKind) -> list[tuple[str, list[PodNames]]]:
        """Those of all pods of a kind, node by node."""
        by_lot = self._by_lot
        if kind.lots:
            return [(lot.pod.node_name, by_lot[lot.place]) for lot in kind.lots]
        return [(kind.found.node, [self._alone(kind)])]

    def owners(self, kinds: Iterable[EvictedKind]) -> set[tuple[str, str]]:
        """The (namespace, owner) of all pods of some kinds, each once."""
        lots = [lot for kind in kinds for lot in kind.lots]
        found = set(map(_OWNED, self._alike.chosen(self._names, lots)))
        return found | {_OWNED(self._alone(kind)) for kind in kinds if not kind.lots}

    def _alone(self, kind: EvictedKind) -> PodNames:
        (namespace, _, name), owner, pod = kind.key.pod.partition("/"), "", kind.pod
        if pod is not None:
            owner = self._owners.of(pod)
            # It may be another of that name.
            pod = pod if pod.uid == kind.key.uid else None
        return PodNames(namespace, name, kind.key.uid, owner, pod)


_OWNED = attrgetter("namespace", "owner")


class _Rows:
    """Rows of which names, owner and chain are still missing: made once for all that differ in node and instant only."""

    def __init__(self, start_ns: int, ends: PodEnds) -> None:
        self._start_ns, self._ends = start_ns, ends
        self._known: dict[Hashable, document.Eviction] = {}

    def of(self, kind: EvictedKind, offset_ns: int) -> document.Eviction:
        """What the rows of all pods of a kind on the node of that which was simulated have in common."""
        found = kind.found
        # Pods of one fate share what is large as objects, which live as long as what was found.
        what = (
            kind.key.controller,
            id(found.spans),
            id(found.circumstances),
            found.certain,
            found.taint,
            found.toleration_index,
            found.toleration_seconds,
            found.gone_earliest_ns,
            found.gone_latest_ns,
            kind.at_once,
            self._ends.why(kind),
        )
        shared = self._known.get(what)
        if shared is None:
            shared = self._known[what] = self._shared(kind)
        return replace(
            shared,
            node=found.node,
            offset_seconds=seconds(offset_ns),
            time=_rfc3339(self._start_ns + offset_ns),
        )

    def _shared(self, kind: EvictedKind) -> document.Eviction:
        found = kind.found
        index, toleration = found.toleration_index, None
        if index is not None:
            toleration = _toleration(index, found.toleration_seconds)
        return document.Eviction(
            namespace="",
            pod="",
            uid="",
            node="",
            certainty=CERTAIN if found.certain else POSSIBLE,
            offset_seconds=0,
            earliest_seconds=seconds(found.earliest_ns),
            latest_seconds=seconds(found.latest_ns),
            windows=_windows(found.spans, found.circumstances),
            time="",
            controller=kind.key.controller,
            taint=None if found.taint is None else _taint(found.taint),
            toleration=toleration,
            gone=self._ends.window(kind),
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


class _Unsure(Struct):
    """Keys of the pods that somebody may refuse to delete, or that may be gone by the latest instant of that."""

    refusable: Collection[str]
    gone_from: Mapping[str, int]
    latest_ns: int

    def __contains__(self, key: str) -> bool:
        return key in self.refusable or self.gone_from.get(key, self.latest_ns) < self.latest_ns


def _groups(
    row: document.Eviction,
    chain: ChainOfKind,
    pods: list[PodNames],
    unsure: _Unsure,
) -> list[EvictionGroup]:
    """The evictions of pods of a kind on one node: those that need not happen and the others."""
    perhaps = [names for names in pods if names.key in unsure]
    others = [names for names in pods if names.key not in unsure]
    groups = [(replace(row, certainty=POSSIBLE), perhaps), (row, others)]
    return [EvictionGroup(row, some, chain) for row, some in groups if some]


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
    if isinstance(entry, PodDeleted) and entry.at_ns <= found.spans[-1][1]:
        return entry.at_ns, EntryInRun(cache, index, key.pod)
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


# Only what is drawn should leave out the nominal run.
_FOUND_BY_NO_OTHER_RUN = frozenset({DrainLatencies.name})
# These are explored, not drawn.
_EXPLORED = (TAINT_EVICTION, NODE_LIFECYCLE, POD_GC)


def unexplored_nodes(shown: Mapping[EvictionKey, PossibleEviction]) -> set[str]:
    """Nodes on which controllers delete a pod in the nominal run, and in no other: that one instant is no window."""
    return {
        found.node
        for key, found in shown.items()
        if found.missed is _FOUND_BY_NO_OTHER_RUN and key.controller in _EXPLORED
    }


def with_nominal(
    explored: Mapping[EvictionKey, PossibleEviction], nominal: RunEntries, period_ns: int
) -> dict[EvictionKey, PossibleEviction]:
    """What was found over all runs, with the nominal run as the sample where it evicts as well.

    Of deletes that only the nominal run knows the first one of each object counts.
    """
    found = dict(explored)
    ordinals: dict[tuple[str, str, str], int] = {}
    run = nominal.run
    replacements = run.replacements() if nominal.places(PodCreated) else {}
    make_key = tuple.__new__  # of tens of thousands
    for index, entry in zip(nominal.places(PodDeleted), nominal.of(PodDeleted), strict=True):
        if entry.uid in replacements:
            continue
        name = (entry.pod, entry.uid, entry.controller)
        ordinal = ordinals[name] = ordinals.get(name, -1) + 1
        key, at_ns = make_key(EvictionKey, (*name, ordinal)), entry.at_ns
        other = explored.get(key)
        if other is None and ordinal:
            continue  # of an object that was deleted before: it changes nothing any more
        if other is None:
            other = _found_by_no_other_run(at_ns)
        spans = other.spans
        for earliest_ns, latest_ns in spans:
            if earliest_ns <= at_ns <= latest_ns:
                break
        else:
            spans = _stretched(other, at_ns, period_ns)
        found[key] = other.told_by((run, index), spans)
    return found


def _found_by_no_other_run(at_ns: int) -> PossibleEviction:
    instant = ((at_ns, at_ns),)
    return PossibleEviction(instant, False, "", None, None, None, missed=_FOUND_BY_NO_OTHER_RUN)


def _stretched(found: PossibleEviction, at_ns: int, period_ns: int) -> tuple[Span, ...]:
    """Windows that hold the instant as well; one stretch where windows are no more than what was tried."""
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


def coverage(kinds: Iterable[EvictedKind]) -> Coverage:
    """Return how completely the unknowns behind all evictions were explored."""
    exact = outer = explored = 0
    missed: set[str] = set()
    outer_nodes: set[str] = set()
    explored_nodes: set[str] = set()
    for kind in kinds:
        found = kind.found
        if not found.missed:
            exact += kind.number
            continue
        missed |= found.missed
        if found.proven:
            outer += kind.number
            outer_nodes.update(kind.nodes)
        else:
            explored += kind.number
            explored_nodes.update(kind.nodes)
    return Coverage(
        exact,
        outer,
        explored,
        tuple(sorted(outer_nodes - explored_nodes)),
        tuple(sorted(explored_nodes)),
        tuple(
            UnknownExplored(
                unknown.name, unknown.what, PARTLY if unknown.name in missed else WHOLLY
            )
            for unknown in UNKNOWNS
        ),
    )
