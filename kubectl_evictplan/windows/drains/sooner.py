"""What is proven of a node by the steps of its drain, without what another proof says cannot be so late."""

from __future__ import annotations

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.windows.drains.contests import Priced
from kubectl_evictplan.windows.drains.tasks import Contest
from kubectl_evictplan.windows.drains.turn_bounds import PodFate, TurnFates

_DRAINED = frozenset((DrainEnd.DRAINED,))


def told_sooner(fates: TurnFates, contest: Contest, priced: Priced) -> TurnFates:
    """The fates of a node whose end is known both ways; ``contest`` is proven of the same begin, whoever is let through first."""
    by_ns = {
        (task.pod.key, task.pod.uid): task.latest_ns
        for task in contest.tasks
        if task.goes and task.place is None and task.latest_ns is not None and not task.replacement
    }
    pods = [_sooner(fate, by_ns.get((fate.pod.key, fate.pod.uid))) for fate in fates.pods]
    passing = fates.passing
    if (
        passing is not None
        and passing.reasons == _DRAINED
        and priced.start_ns is not None
        and priced.end_ns is not None
    ):
        first_ns, last_ns = passing.until
        last_ns = max(min(last_ns, priced.end_ns - priced.start_ns), first_ns)
        passing = passing._replace(until=(first_ns, last_ns))
    return fates._replace(pods=pods, passing=passing)


def _sooner(fate: PodFate, by_ns: int | None) -> PodFate:
    if by_ns is None or not fate.certain:
        return fate
    spans = tuple((low, min(high, by_ns)) for low, high in fate.spans if low <= by_ns)
    return fate._replace(spans=spans) if spans else fate
