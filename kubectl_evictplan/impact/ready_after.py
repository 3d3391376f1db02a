"""How long a replacement takes to be Ready: given, learnt from the owner's own pods, or the default.

A pod that is Ready since shortly after its creation tells how long its template takes. One whose Ready changed later
(a probe that failed once, a node that was lost) tells too much, so what lies far above the owner's quickest pods is
not counted. Times in the API are whole seconds: each may be a second off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kubectl_evictplan.impact.stretches import FOREVER_NS
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.impact_document import ReadyAfter

# Pods that took longer than so many times the median did something else meanwhile.
_FAR_ABOVE_MEDIAN = 3
# What is so short may differ by chance alone.
_ALWAYS_COUNTED_SECONDS = 10
GIVEN, LEARNT, DEFAULT = "given", "learnt", "default"


class Readiness(NamedTuple):
    """How long after its creation a replacement is Ready; FOREVER_NS: perhaps never."""

    least_ns: int
    most_ns: int
    source: str
    samples: int = 0

    def document(self) -> ReadyAfter:
        """As the answer tells it."""
        most = None if self.most_ns >= FOREVER_NS else seconds(self.most_ns)
        return ReadyAfter(seconds(self.least_ns), most, self.source, self.samples)


def learnt(pods: Iterable[Pod]) -> Readiness | None:
    """What the pods of one owner tell; None when none of them is Ready since it was started."""
    known = sorted(
        pod.ready_after_seconds
        for pod in pods
        if pod.ready == "True" and pod.ready_after_seconds is not None
    )
    if not known:
        return None
    limit = max(_FAR_ABOVE_MEDIAN * known[(len(known) - 1) // 2], _ALWAYS_COUNTED_SECONDS)
    counted = [number for number in known if number <= limit]
    if not counted:
        return None
    least_ns = max(counted[0] - 1, 0) * SECOND_NS
    return Readiness(least_ns, (counted[-1] + 1) * SECOND_NS, LEARNT, len(counted))
