"""Who is evicted, counted by pod: found out once for everybody who asks a Prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kubectl_evictplan.prediction.records import CERTAIN

if TYPE_CHECKING:
    from kubectl_evictplan.prediction.document import Prediction, WorkloadReport
    from kubectl_evictplan.prediction.grouped_evictions import EvictionGroup, Evictions


class EvictedPods:
    """The pods of some evictions, by "namespace/name". Read only.

    ``every`` are all of them, ``certain`` those that surely go,
    ``by_somebody`` those among these of which no single deletion is certain, ``stuck`` those that stay Terminating in some eviction, by why.
    How many they are is told without their names where it can be.
    """

    def __init__(self, evictions: Evictions, by_somebody: Iterable[str] = ()) -> None:
        self._evictions = evictions
        self._by_somebody = frozenset(by_somebody)

    @cached_property
    def once(self) -> bool:
        """Whether no pod is evicted twice: evictions can be counted instead of pods."""
        return self._evictions.once or len(self.every) == len(self._evictions)

    @cached_property
    def _sure_and_unsure(self) -> tuple[frozenset[str], Sequence[str]]:
        """Those of which a deletion is certain, and those of the other deletions."""
        sure, unsure = list[str](), list[str]()
        for group in self._evictions.groups:
            (sure if group.shared.certainty == CERTAIN else unsure).extend(_keys(group))
        return frozenset(sure), unsure

    @cached_property
    def every(self) -> frozenset[str]:
        """All of them."""
        sure, unsure = self._sure_and_unsure
        # In large clusters mostly all of them are certain: that is one set then, not two.
        return sure.union(unsure) if unsure else sure

    @cached_property
    def by_somebody(self) -> frozenset[str]:
        """Those that surely go, but not surely by whom."""
        return self._by_somebody and self._by_somebody - self._sure_and_unsure[0]

    @cached_property
    def certain(self) -> frozenset[str]:
        """Those that surely go."""
        sure, _ = self._sure_and_unsure
        return sure | self.by_somebody if self.by_somebody else sure

    @cached_property
    def stuck(self) -> Mapping[str, set[str]]:
        """Those that stay Terminating in some eviction, by why."""
        found: dict[str, set[str]] = {}
        for group in self._evictions.groups:
            if (why := group.shared.gone.stuck) is not None:
                found.setdefault(why, set()).update(_keys(group))
        return found

    @cached_property
    def number(self) -> int:
        """How many they are."""
        return len(self._evictions) if self.once else len(self.every)

    @cached_property
    def number_certain(self) -> int:
        """How many surely go."""
        if not self.once or self._by_somebody:
            return len(self.certain)
        groups = self._evictions.groups
        return sum([len(one.pods) for one in groups if one.shared.certainty == CERTAIN])

    @cached_property
    def is_all_certain(self) -> bool:
        """Whether all of them surely go."""
        if self.once and not self._by_somebody:
            return self.number_certain == self.number
        return self.every <= self.certain

    @cached_property
    def numbers_stuck(self) -> Mapping[str, int]:
        """How many stay Terminating in some eviction, by why."""
        if not self.once:
            return {why: len(keys) for why, keys in self.stuck.items()}
        numbers = Counter[str]()
        for group in self._evictions.groups:
            if (why := group.shared.gone.stuck) is not None:
                numbers[why] += len(group.pods)
        return numbers

    @cached_property
    def keys(self) -> list[str]:
        """The pod of every row, in the order of rows."""
        return [names.key for names, _ in self._evictions.in_order]

    @property
    def possible(self) -> frozenset[str]:
        """Those that go in some runs only."""
        return self.every - self.certain

    @property
    def all_stuck(self) -> frozenset[str]:
        """Those that stay Terminating in some eviction, for whatever reason."""
        return frozenset().union(*self.stuck.values())


def _keys(group: EvictionGroup) -> list[str]:
    return [f"{names.namespace}/{names.pod}" for names in group.pods]


def emptied_workloads(prediction: Prediction) -> list[WorkloadReport]:
    """Return the workloads of which every pod is evicted for certain."""
    going = _certain_by_owner(prediction)
    return [
        report
        for report in prediction.workloads
        if sum([going.get((report.namespace, owner), 0) for owner in report.owners]) >= report.pods
    ]


def _certain_by_owner(prediction: Prediction) -> Mapping[tuple[str, str], int]:
    """How many pods of each (namespace, owner) are evicted for certain; of bare pods it may say nothing."""
    evicted, evictions = prediction.evicted, prediction.evictions
    if evicted.once:
        return {
            (namespace, owner): len([one for one in some if one.certainty == CERTAIN])
            for (namespace, owner, _), some in evictions.by_owner.items()
        }
    sure = {
        (names.namespace, names.owner, names.pod)
        for group in evictions.groups
        for names in group.pods
        if names.key in evicted.certain
    }
    return Counter((namespace, owner) for namespace, owner, _ in sure)
