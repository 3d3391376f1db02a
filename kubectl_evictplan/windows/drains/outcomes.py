"""What happens in the runs of a drain, put together to windows.

Exchangeable pods (same node, owner, budgets and state) are gathered as one class: which of them comes first is
chance, so the n-th eviction of the class has a window, and each of its pods can be the n-th.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import (
    BY_DRAINS,
    EVICTION_API,
    AboutPod,
    DrainEnd,
    DrainProcessEnded,
    NodeDrainEnded,
    NodeDrainStarted,
    PodDeleted,
    PodGone,
    PodPassedOver,
    PodRefused,
    Timeline,
)
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.simulated_cluster import EventApplied
from kubectl_evictplan.windows.drains.drained_again import deleted_again
from kubectl_evictplan.windows.drains.instants import Instants, NodeDrain, Within
from kubectl_evictplan.windows.drains.margins import DrawnWorld, Margins
from kubectl_evictplan.windows.drains.turns import Turns
from kubectl_evictplan.windows.drains.waits import TIMED_OUT, Wait, WaitKey, Waits
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction
from kubectl_evictplan.windows.spans import Span, disjoint_outcomes


class Refusal(NamedTuple):
    """A pod because of which a node is refused: the filter's word, and what kubectl says."""

    pod: str
    reason: str
    why: str


class Skipped(NamedTuple):
    """A pod that kubectl leaves alone, and the filter's word."""

    pod: str
    reason: str


class DrainOutcome(NamedTuple):
    """The drain of one node over all runs. ``start``, ``end`` None: in no run.

    ``exit_codes`` are those of kubectl's process; None among them: it never exits.
    """

    start: Within | None
    end: Within | None
    reasons: frozenset[DrainEnd | None]
    exit_codes: frozenset[int | None]
    refused: tuple[Refusal, ...]
    skipped: tuple[Skipped, ...]
    waits: Mapping[WaitKey, Wait]
    # False: as in drawn runs, of which nothing is certain.
    proven: bool = False


class _Deleted(NamedTuple):
    """An EvictionKey, or the n-th deletion of a class: its number instead of the pod, and no uid."""

    pod: str | int
    uid: str
    controller: str
    ordinal: int


class _Deletion(NamedTuple):
    at_ns: int
    number: int
    key: EvictionKey


class DrainGathered:
    """Fills itself run by run."""

    def __init__(self, world: DrawnWorld) -> None:
        self._world = world
        self._drains = world.drains
        self._members = world.classes
        self._class_of = {
            pod.key: place for place, pods in enumerate(world.classes) for pod in pods
        }
        self.runs = 0
        self._waits = Waits(world.classes, self._class_of, self._uid, world.asks)
        self._margins = Margins(world, self._class_of, self._waits.pods)
        # Deletions by EvictionKey, and the n-th of a class.
        self._deletions: Instants[_Deleted] = Instants(self._gap_of_deletion)
        self._samples: dict[EvictionKey, tuple[Timeline, int]] = {}
        self._gone: Instants[tuple[str, str]] = Instants(
            lambda key: self._margins.gap_of_pod(key[0])
        )
        self._turns = Turns(world.drains)
        self._reasons: dict[NodeDrain, set[DrainEnd | None]] = {}
        self._exits: dict[int, set[int | None]] = {}
        self._refused: dict[NodeDrain, dict[Refusal, None]] = {}
        self._skipped: dict[NodeDrain, dict[Skipped, None]] = {}
        # Of the run that is being added: whose controllers made the pods that replace others, by uid.
        self._replacements: dict[str, str] = {}
        self._replaced_owners: set[str] = set()

    def _gap_of_deletion(self, key: _Deleted) -> int:
        group = key.pod
        return self._margins.gap_of_pod(
            group if isinstance(group, str) else self._members[group][0].key
        )

    # -- one run ------------------------------------------------------------------------------------

    def add(self, seed: int, timeline: Timeline, drains: Sequence[NodeDrain]) -> None:
        """One more run."""
        self.runs += 1
        self._replacements = timeline.replacements()
        number_of = _processes(timeline, self._drains)
        by_name = {
            (process, drain.node): drain
            for drain in drains
            for process, number in number_of.items()
            if number == drain.process
        }
        ended: dict[NodeDrain, NodeDrainEnded] = {}
        exits: dict[int, int] = {}
        turns: dict[int, NodeDrain] = {}
        for index, entry in enumerate(timeline.entries):
            if isinstance(entry, NodeDrainStarted):
                turns[index] = by_name[entry.process, entry.node]
            elif isinstance(entry, NodeDrainEnded):
                ended[by_name[entry.process, entry.node]] = entry
            elif isinstance(entry, DrainProcessEnded):
                exits[number_of[entry.process]] = entry.exit_code
            elif isinstance(entry, PodRefused):
                drain = by_name[entry.process, entry.node]
                refusal = Refusal(entry.pod, entry.reason.value, entry.why)
                self._refused.setdefault(drain, {})[refusal] = None
            elif isinstance(entry, PodPassedOver):
                drain = by_name[entry.process, entry.node]
                self._skipped.setdefault(drain, {})[Skipped(entry.pod, entry.reason.value)] = None
        for index, drain in turns.items():
            end = ended.get(drain)
            start_ns = timeline.entries[index].at_ns
            timed_out = end is not None and end.reason is DrainEnd.TIMEOUT
            end_ns = end.at_ns if end is not None else None
            self._turns.add(drain, seed, start_ns, end_ns, timed_out=timed_out)
        self._add_deletions(seed, timeline, turns)
        for drain in drains:
            end = ended.get(drain)
            self._reasons.setdefault(drain, set()).add(end.reason if end is not None else None)
            self._exits.setdefault(drain.process, set()).add(exits.get(drain.process))
        self._waits.add(seed, timeline, by_name)

    def _add_deletions(self, seed: int, timeline: Timeline, turns: Mapping[int, NodeDrain]) -> None:
        ordinals: dict[EvictionKey, int] = {}
        deletions: list[_Deletion] = []
        gone_of: dict[tuple[str, str], int] = {}
        for index, entry in enumerate(timeline.entries):
            if isinstance(entry, PodDeleted):
                uid = self._uid(entry)
                if uid is None:
                    continue
                first = EvictionKey(entry.pod, uid, entry.controller, 0)
                ordinal = ordinals[first] = ordinals.get(first, -1) + 1
                key = first._replace(ordinal=ordinal)
                deletions.append(_Deletion(entry.at_ns, index, key))
            elif isinstance(entry, PodGone) and (uid := self._uid(entry)) is not None:
                gone_of[entry.pod, uid] = entry.at_ns
        nth: dict[object, int] = {}
        for deletion in sorted(deletions):
            key = deletion.key
            self._samples.setdefault(key, (timeline, deletion.number))
            group = self._class_of.get(key.pod)
            deleted = _Deleted(*key)
            if group is not None and key.ordinal == 0:
                place = nth[group, key.controller] = nth.get((group, key.controller), -1) + 1
                deleted = _Deleted(group, "", key.controller, place)
            self._deletions.add(deleted, seed, deletion.at_ns)
            # What kubectl deletes, it deletes because it came to the node.
            because = timeline.entries[deletion.number].because[:1]
            if because and (drain := turns.get(because[0])) is not None:
                after_ns = deletion.at_ns - timeline.entries[because[0]].at_ns
                self._turns.add_within(deleted, drain, seed, after_ns)
            if (key.pod, key.uid) in gone_of:
                self._gone.add((key.pod, key.uid), seed, gone_of.pop((key.pod, key.uid)))

    def _uid(self, entry: AboutPod) -> str | None:
        """The uid; "" of a replacement whose name is known (a StatefulSet's), None of any other."""
        owner = self._replacements.get(entry.uid)
        if owner is None:
            return entry.uid
        if isinstance(entry, PodDeleted):
            self._replaced_owners.add(owner)
        return "" if entry.pod in self._world.node_of else None

    # -- over all runs -------------------------------------------------------------------------------

    @cached_property
    def evictions(self) -> dict[EvictionKey, PossibleEviction]:
        """Deletions with their windows, those of a class with the windows of all its members.

        As all that follows: to be asked for only when the last run is in.
        """
        found = {}
        controllers: dict[int, dict[str, PodDeleted]] = {}
        for key, (timeline, index) in self._samples.items():
            group = self._class_of.get(key.pod)
            if group is not None and key.ordinal == 0:
                entry = timeline.entries[index]
                assert isinstance(entry, PodDeleted), "samples are deletions"
                controllers.setdefault(group, {})[key.controller] = entry
            else:
                spans = self._spans(_Deleted(*key), self._margins.gap_of_pod(key.pod))
                certain = self._deletions.runs[_Deleted(*key)] == self.runs
                found[key] = self._eviction(key, spans, certain=certain)
        self._share_spans(found)
        found = {
            key: one._replace(spans=self._padded(one.spans, key)) for key, one in found.items()
        }
        for group, by_controller in controllers.items():
            for controller, entry in by_controller.items():
                spans, certain = self._spans_of_class(group, controller)
                for pod in self._members[group]:
                    key = EvictionKey(pod.key, pod.uid, controller, 0)
                    padded = self._padded(spans, key)
                    found[key] = self._eviction(key, padded, certain=certain, like=entry)
        if self._margins.contested:
            found.update(deleted_again(found, self._turns, self._drains, self._turns_of_pods()))
        return found

    def _turns_of_pods(self) -> dict[str, set[NodeDrain]]:
        seen: dict[str, set[NodeDrain]] = {}
        for what, turns in self._turns.in_which().items():
            assert isinstance(what, _Deleted), "nothing else is noted"
            names = (
                [what.pod]
                if isinstance(what.pod, str)
                else [pod.key for pod in self._members[what.pod]]
            )
            for name in names:
                seen.setdefault(name, set()).update(turns)
        return seen

    def _share_spans(self, found: dict[EvictionKey, PossibleEviction]) -> None:
        for pods in self._world.siblings:
            for controller in sorted(BY_DRAINS):
                keys = [EvictionKey(pod.key, pod.uid, controller, 0) for pod in pods]
                keys = [key for key in keys if key in found]
                spans = [span for key in keys for span in found[key].spans]
                for key in keys:
                    joined = disjoint_outcomes(spans, self._margins.gap_of_pod(key.pod))
                    found[key] = found[key]._replace(spans=joined)

    def _padded(self, spans: tuple[Span, ...], key: EvictionKey) -> tuple[Span, ...]:
        """The spans, wider where they depend on when other pods are gone or Ready."""
        timeline, index = self._samples.get(key, (None, 0))
        entry = timeline.entries[index] if timeline is not None else None
        # A replacement is evicted from another node than its name was at the start.
        node = entry.node if isinstance(entry, PodDeleted) else self._world.node_of.get(key.pod, "")
        start_ns = self._turns.first_start_ns(node)
        by_drain = key.controller in BY_DRAINS
        if by_drain and self._margins.depends_on_others(node, key.pod):
            spans = self._margins.padded(spans, node, key.pod, start_ns)
        elif key.controller == EVICTION_API:
            spans = self._margins.sent_together(spans, start_ns)
        if key.controller != EVICTION_API:
            return spans
        return self._margins.conflicted(spans, key.pod)

    def _spans_of_class(self, group: int, controller: str) -> tuple[tuple[Span, ...], bool]:
        pieces: list[Span] = []
        certain = True
        gap_ns = self._margins.gap_of_pod(self._members[group][0].key)
        for place in range(len(self._members[group])):
            nth = _Deleted(group, "", controller, place)
            if nth in self._deletions.by_seed:
                pieces += self._spans(nth, gap_ns)
            certain = certain and self._deletions.runs.get(nth, 0) == self.runs
        return disjoint_outcomes(pieces, gap_ns), certain

    def _spans(self, deleted: _Deleted, gap_ns: int) -> tuple[Span, ...]:
        """When it happens: as in the runs, and as long after its node's start as in some run."""
        spans = (*self._deletions.spans(deleted), *self._turns.within(deleted))
        return disjoint_outcomes(spans, gap_ns)

    @property
    def classes(self) -> Sequence[Sequence[Pod]]:
        """Lists of pods that may take each other's place."""
        return self._members

    def _eviction(
        self,
        key: EvictionKey,
        spans: tuple[Span, ...],
        *,
        certain: bool,
        like: PodDeleted | None = None,
    ) -> PossibleEviction:
        sample = self._samples.get(key)
        entry = sample[0].entries[sample[1]] if sample is not None else like
        assert isinstance(entry, PodDeleted), "samples are deletions"
        gone = self._gone_within(key, entry.controller)
        return PossibleEviction(
            spans=spans,
            certain=certain,
            node=entry.node,
            taint=entry.taint,
            toleration_index=entry.toleration_index,
            toleration_seconds=entry.toleration_seconds,
            sample=sample,
            delay_ns=None,
            gone_earliest_ns=gone.earliest_ns if gone is not None else None,
            gone_latest_ns=gone.latest_ns if gone is not None else None,
        )

    def _gone_within(self, key: EvictionKey, controller: str) -> Within | None:
        """When the object of a deleted pod ends; without a latest end if it stays in some run."""
        group = self._class_of.get(key.pod)
        if group is None:
            return self._gone.within((key.pod, key.uid), self._deletions.runs[_Deleted(*key)])
        members = self._members[group]
        names = [(pod.key, pod.uid) for pod in members]
        spans = [span for name in names for span in self._gone.spans(name)]
        if not spans:
            return None
        nths = [_Deleted(group, "", controller, place) for place in range(len(members))]
        deleted = sum(self._deletions.runs.get(nth, 0) for nth in nths)
        stays = sum(self._gone.runs.get(name, 0) for name in names) < deleted
        latest_ns = None if stays else max(high_ns for _, high_ns in spans)
        return Within(min(low_ns for low_ns, _ in spans), latest_ns)

    @cached_property
    def outcomes(self) -> dict[NodeDrain, DrainOutcome]:
        """Every node of every process, in their order."""
        found = self._waits.found(self.evictions, self.runs)
        waits = {
            drain: {key: self._padded_wait(drain, wait) for key, wait in of_node.items()}
            for drain, of_node in found.items()
        }
        return {
            drain: DrainOutcome(
                start=self._padded_start(drain),
                end=self._padded_end(drain, waits.get(drain, {}).values()),
                reasons=frozenset(self._reasons.get(drain, ())),
                exit_codes=frozenset(self._exits.get(drain.process, ())),
                refused=tuple(self._refused.get(drain, ())),
                skipped=tuple(sorted(self._skipped.get(drain, ()))),
                waits=waits.get(drain, {}),
            )
            for drain in self._reasons
        }

    def _padded_start(self, drain: NodeDrain) -> Within | None:
        """When kubectl comes to the node: to the first as soon as it can, to another after the end of one that is drawn."""
        start = self._turns.start_within(drain, self.runs)
        if start is None or not drain.place:
            return start
        padding_ns = self._margins.padding_ns(drain.node)
        begun_ns = min(
            self._turns.started(one)[0][0]
            for one in self._turns.all()
            if one.process == drain.process
        )
        latest_ns = None if start.latest_ns is None else start.latest_ns + padding_ns
        return Within(max(start.earliest_ns - padding_ns, begun_ns), latest_ns)

    def _padded_wait(self, drain: NodeDrain, wait: Wait) -> Wait:
        """The wait, as long and as short as the eviction or the end of the drain that ends it."""
        if wait.until is None:
            return wait
        earliest_ns, latest_ns = wait.until
        padding_ns = self._margins.padding_ns(drain.node)
        if latest_ns is not None and TIMED_OUT in wait.ends:
            latest_ns = max(latest_ns, self._turns.ended(drain)[-1][1])
        return wait._replace(
            until=Within(
                max(earliest_ns - padding_ns, wait.from_ns),
                None if latest_ns is None else latest_ns + padding_ns,
            )
        )

    def _padded_end(self, drain: NodeDrain, waits: Iterable[Wait]) -> Within | None:
        """When kubectl is through with the node: never before the last of its waits can be over."""
        end = self._turns.end_within(drain, self.runs)
        if end is None:
            return end
        padding_ns = self._margins.padding_ns(drain.node)
        start_ns = self._turns.started(drain)[0][0]
        latest_ns = None
        if end.latest_ns is not None:
            over = [wait.until.latest_ns for wait in waits if wait.until is not None]
            latest_ns = max(end.latest_ns + padding_ns, *(ns for ns in over if ns is not None), 0)
        return Within(max(end.earliest_ns - padding_ns, start_ns), latest_ns)

    @property
    def replaced_owners(self) -> frozenset[str]:
        """Owners ("namespace/Kind/name") whose replacements are evicted themselves in some run."""
        return frozenset(self._replaced_owners)


def _processes(timeline: Timeline, drains: Sequence[Drain]) -> dict[int, int]:
    """The place among the scenario's drains of the processes of a run."""
    return {
        index: drains.index(entry.event)
        for index, entry in enumerate(timeline.entries)
        if isinstance(entry, EventApplied) and isinstance(entry.event, Drain)
    }
