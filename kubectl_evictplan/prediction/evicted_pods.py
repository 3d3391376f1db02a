"""Who is evicted, counted by pod: found out once for everybody who asks a Prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kubectl_evictplan.prediction.records import CERTAIN

if TYPE_CHECKING:
    from kubectl_evictplan.prediction.document import Eviction, Prediction, WorkloadReport


class EvictedPods:
    """The pods of some evictions, by "namespace/name". Read only.

    ``keys`` are those of the evictions, in their order; ``every`` all of them, ``certain`` those that surely go,
    ``by_somebody`` those among these of which no single deletion is certain, ``stuck`` those that stay Terminating in some eviction, by why.
    """

    def __init__(self, evictions: Sequence[Eviction], by_somebody: Iterable[str] = ()) -> None:
        self.keys = keys = [f"{entry.namespace}/{entry.pod}" for entry in evictions]
        self.every = frozenset(keys)
        # No pod is evicted twice: evictions can be counted instead of pods.
        self.once = len(self.every) == len(keys)
        certain, stuck = set[str](), dict[str, set[str]]()
        for key, entry in zip(keys, evictions, strict=True):
            if entry.certainty == CERTAIN:
                certain.add(key)
            why = entry.gone.stuck
            if why is not None:
                if (known := stuck.get(why)) is None:
                    known = stuck[why] = set()
                known.add(key)
        self.by_somebody = frozenset(by_somebody) - certain
        self.certain = frozenset(certain) | self.by_somebody
        self.stuck = stuck

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
    sure = [entry for entry in prediction.evictions if entry.certainty == CERTAIN]
    owners = [(entry.namespace, entry.owner) for entry in sure]
    if not evicted.once:
        entries = zip(evicted.keys, prediction.evictions, strict=True)
        sure = [entry for key, entry in entries if key in evicted.certain]
        pods = {(entry.namespace, entry.owner, entry.pod) for entry in sure}
        owners = [(namespace, owner) for namespace, owner, _ in pods]
    going = Counter(owners)
    return [
        report
        for report in prediction.workloads
        if sum(going[report.namespace, owner] for owner in report.owners) >= report.pods
    ]
