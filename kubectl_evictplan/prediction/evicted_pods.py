"""Who is evicted, counted by pod: found out once for everybody who asks a Prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from kubectl_evictplan.prediction.records import CERTAIN

if TYPE_CHECKING:
    from kubectl_evictplan.prediction.document import Prediction, WorkloadReport
    from kubectl_evictplan.prediction.grouped_evictions import Evictions


class EvictedPods:
    """The pods of some evictions, by "namespace/name". Read only.

    ``every`` are all of them, ``certain`` those that surely go,
    ``by_somebody`` those among these of which no single deletion is certain, ``stuck`` those that stay Terminating in some eviction, by why.
    """

    def __init__(self, evictions: Evictions, by_somebody: Iterable[str] = ()) -> None:
        self._evictions = evictions
        sure, unsure, stuck = list[str](), list[str](), dict[str, list[str]]()
        for group in evictions.groups:
            keys = [f"{names.namespace}/{names.pod}" for names in group.pods]
            (sure if group.shared.certainty == CERTAIN else unsure).extend(keys)
            if (why := group.shared.gone.stuck) is not None:
                stuck.setdefault(why, []).extend(keys)
        certain = frozenset(sure)
        # In large clusters mostly all of them are certain: that is one set then, not two.
        self.every = certain.union(unsure) if unsure else certain
        # No pod is evicted twice: evictions can be counted instead of pods.
        self.once = len(self.every) == len(evictions)
        self.by_somebody = frozenset(by_somebody) - certain
        self.certain = certain | self.by_somebody if self.by_somebody else certain
        self.stuck = {why: set(keys) for why, keys in stuck.items()}

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


def emptied_workloads(prediction: Prediction) -> list[WorkloadReport]:
    """Return the workloads of which every pod is evicted for certain."""
    evicted = prediction.evicted
    owners = [
        (names.namespace, names.owner)
        for group in prediction.evictions.groups
        if group.shared.certainty == CERTAIN
        for names in group.pods
    ]
    if not evicted.once:
        groups = prediction.evictions.groups
        sure = {
            (names.namespace, names.owner, names.pod)
            for group in groups
            for names in group.pods
            if names.key in evicted.certain
        }
        owners = [(namespace, owner) for namespace, owner, _ in sure]
    going = Counter(owners)
    return [
        report
        for report in prediction.workloads
        if sum(going[report.namespace, owner] for owner in report.owners) >= report.pods
    ]
