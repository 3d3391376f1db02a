"""What one process of kubectl has surely done before another one begins, and what that one finds then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.rooms import Rooms
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.actions.drain import Drain, drains_among
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.drains.delays import Range
from kubectl_evictplan.windows.drains.instants import NodeDrain, Within
from kubectl_evictplan.windows.drains.listed_pods import ListedPods
from kubectl_evictplan.windows.drains.planned import DrainPlan, Leaving, PlannedTurn
from kubectl_evictplan.windows.drains.rivals import RowBounds
from kubectl_evictplan.windows.outcome import EvictionKey
from kubectl_evictplan.windows.spans import Span, merge_spans

# kubectl lists the pods of a node before it begins with it.
_LISTED_NS = SECOND_NS
# Beginnings of a scenario are proven that have so many times its nodes.
_TIMES_PROVEN = 3
# More than there ever are.
_MORE = 1 << 32


class Before(NamedTuple):
    """What is known already: by (pod, uid) the offset by which somebody has surely deleted it, and before which kubectl does not come to each node.

    ``ends_ns``: by when it is through with it, where that is known. ``earliest_ns``: by (pod, uid) the offset before which nobody deletes it.
    """

    deleted_ns: Mapping[tuple[str, str], int] = {}
    begins_ns: Mapping[NodeDrain, int] = {}
    ends_ns: Mapping[NodeDrain, int] = {}
    earliest_ns: Mapping[tuple[str, str], int] = {}


class Past(NamedTuple):
    """What is proven of a scenario without the processes that begin at ``until_ns`` or later: what happens before that is the same.

    ``starts``: when kubectl begins with each node.
    """

    until_ns: int = 0
    starts: Mapping[NodeDrain, Within] = {}
    rows: Mapping[EvictionKey, RowBounds] = {}

    def begin(self, drain: NodeDrain, low_ns: int, by_ns: int | None) -> tuple[int, int | None]:
        """When kubectl begins with a node, which is at ``low_ns`` at the earliest and at ``by_ns`` at the latest."""
        start = self.starts.get(drain)
        if start is None:
            return low_ns, by_ns
        low_ns = max(low_ns, min(start.earliest_ns, self.until_ns))
        if start.latest_ns is None or start.latest_ns >= self.until_ns:
            return low_ns, by_ns
        return low_ns, start.latest_ns if by_ns is None else min(by_ns, start.latest_ns)

    def begin_within(self, drain: NodeDrain, begin: Range) -> Range:
        """The same, where it is known by when it does."""
        low_ns, by_ns = self.begin(drain, *begin)
        assert by_ns is not None, "what is known stays so"
        return low_ns, by_ns

    def told(self, key: EvictionKey, row: RowBounds) -> RowBounds:
        """The row, without what cannot be before that offset."""
        known = self.rows.get(key)
        if known is None:
            return row
        last_ns = self.until_ns - 1
        early = [
            (max(low_ns, first_ns), min(high_ns, until_ns, last_ns))
            for low_ns, high_ns in row.spans
            for first_ns, until_ns in known.spans
        ]
        late = [(max(low_ns, self.until_ns), high_ns) for low_ns, high_ns in row.spans]
        spans = [(low_ns, high_ns) for low_ns, high_ns in (*early, *late) if low_ns <= high_ns]
        return row._replace(spans=tuple(merge_spans(sorted(spans), 1))) if spans else row


def earlier_processes(scenario: Scenario) -> Iterator[tuple[int, Scenario]]:
    """By offset the scenario without the processes that begin then or later, from the smallest on.

    Until that offset nobody can know whether they will ever begin: what happens before it is the same. To prove all of
    them costs about as much as to prove the whole: those with more nodes than that in sum are left out.
    """
    drains = drains_among(scenario.events)
    left = _TIMES_PROVEN * sum(len(event.nodes) for event in drains)
    for until_ns in sorted({event.at_ns for event in drains})[1:]:
        left -= sum(len(event.nodes) for event in drains if event.at_ns < until_ns)
        if left < 0:
            return
        events = (
            one for one in scenario.events if not isinstance(one, Drain) or one.at_ns < until_ns
        )
        yield until_ns, replace(scenario, events=tuple(events))


def with_any_room(rooms: Rooms) -> Rooms:
    """The rooms while some nodes are not cordoned yet: more replacements may find one."""
    more = tuple(replace(one, most=one.most + _MORE) for one in rooms.rooms)
    return replace(rooms, rooms=more)


def over_by(until_ns: int, rows: Mapping[EvictionKey, RowBounds]) -> dict[EvictionKey, RowBounds]:
    """What surely happens before that offset; from then on somebody may leave a pod less time to end."""
    found = {}
    for key, row in rows.items():
        if row.certain and not key.ordinal and row.spans[-1][1] < until_ns:
            gone = row.gone
            if gone is not None:
                gone = gone._replace(earliest_ns=min(gone.earliest_ns, until_ns))
            found[key] = row._replace(gone=gone)
    return found


def again_by(
    again: Mapping[tuple[str, str, str], Span], rows: Mapping[EvictionKey, RowBounds]
) -> dict[tuple[str, str, str], Span]:
    """Further deletions of pods, by (pod, uid, controller), as far as those of which ``rows`` know by when they are gone are there."""
    gone_ns = {
        (key.pod, key.uid): row.gone.latest_ns
        for key, row in rows.items()
        if row.gone is not None and row.gone.latest_ns is not None
    }
    found = {}
    for (pod, uid, controller), (first_ns, last_ns) in again.items():
        latest_ns = min(last_ns, gone_ns.get((pod, uid), last_ns))
        if first_ns <= latest_ns:
            found[pod, uid, controller] = first_ns, latest_ns
    return found


def deleted_before(
    plan: DrainPlan, rows: Mapping[EvictionKey, RowBounds], begins: Mapping[NodeDrain, int]
) -> dict[NodeDrain, PlannedTurn]:
    """Turns that change because pods are gone, or terminate, when kubectl comes: certain ``rows`` say so.

    ``begins``: before which offset kubectl does not come to each node.
    """
    deleted = {
        (key.pod, key.uid): row for key, row in rows.items() if row.certain and not key.ordinal
    }
    found = {}
    for turn in plan.turns:
        listed_ns = begins[turn.drain] - _LISTED_NS
        before = {
            (pod.key, pod.uid): row
            for pod in turn.pods
            if (row := deleted.get((pod.key, pod.uid))) and row.spans[-1][1] < listed_ns
        }
        if before:
            pods = ListedPods(pod for pod in turn.pods if (pod.key, pod.uid) not in before)
            leaving = tuple(
                _leaving(pod, row, plan.start_ns)
                for pod in turn.pods
                if (row := before.get((pod.key, pod.uid))) and not _is_gone(row, listed_ns)
            )
            found[turn.drain] = turn._replace(pods=pods, leaving=(*turn.leaving, *leaving))
    return found


def _is_gone(row: RowBounds, by_ns: int) -> bool:
    return row.gone is not None and row.gone.latest_ns is not None and row.gone.latest_ns < by_ns


def _leaving(pod: Pod, row: RowBounds, start_ns: int) -> Leaving:
    """The pod as kubectl finds it, if it is still there."""
    end_ns = row.gone.latest_ns if row.gone is not None else None
    terminating = replace(pod, deletion_timestamp_ns=start_ns + row.spans[-1][1])
    return Leaving(terminating, end_ns, end_ns)
