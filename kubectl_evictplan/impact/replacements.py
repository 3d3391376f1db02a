"""Where the replacements of evicted pods can run, as far as that can be said without a scheduler.

Asked of everything at once: every pod that may be evicted is, and their replacements look for places while the
change is on its nodes, one after the other, each on the first that passes. What that leaves open is in the bounds.
"""

from __future__ import annotations

from operator import itemgetter

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.stretches import Between, last_of
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.scheduling.answers import Fit, Unknown, Verdict
from kubectl_evictplan.prediction.impact_document import FilterCount, ReplacementFit

ASSUMPTION = (
    "where replacements can run: only kube-scheduler's filters are asked, never its preferences; nobody adds nodes,"
    " and whom a replacement of higher priority would push out is not predicted"
)


# The worst first.
_VERDICTS = [
    *(Verdict.NOWHERE, Verdict.ONLY_ON_LEAVING, Verdict.NO_ROOM_LEFT),
    *(Verdict.PARTLY, Verdict.UNKNOWN, Verdict.FITS),
]


def replacement_fits(world: World) -> tuple[ReplacementFit, ...]:
    """Return where successors can run, by owner and needs: those that find no place first, then by name."""
    worst = {verdict: place for place, verdict in enumerate(_VERDICTS)}
    words: dict[tuple[Unknown, ...], tuple[str, ...]] = {}
    found: list[tuple[tuple[int, str, str, str], ReplacementFit]] = []
    for fit in world.placements.fits:
        verdict = fit.verdict
        if (unknown := words.get(fit.unknown)) is None:
            unknown = words[fit.unknown] = tuple(map(str, fit.unknown))
        one = _record(world, fit, verdict, unknown)
        found.append(((worst[verdict], one.namespace, one.workload, one.pod), one))
    found.sort(key=itemgetter(0))
    return tuple([one for _, one in found])


def _record(world: World, fit: Fit, verdict: Verdict, unknown: tuple[str, ...]) -> ReplacementFit:
    pod, chances = fit.pods[0], fit.chances
    namespace, workload = world.workload_of(world.owner_of(pod))
    # What is assumed is not sure.
    assumed = any(chance.assumed for chance in chances)
    return ReplacementFit(
        namespace=namespace,
        workload=workload,
        pod=pod.name,
        pods=len(fit.pods),
        verdict=verdict.value,
        on_nodes=fit.on_nodes,
        nodes=fit.nodes,
        placed=fit.placed,
        only_on_leaving=verdict is Verdict.ONLY_ON_LEAVING,
        nowhere=verdict is Verdict.NOWHERE,
        returns_to=fit.returns_to,
        lower_priority=fit.lower_priority,
        because=tuple([FilterCount(one.filter.value, one.nodes) for one in fit.because]),
        unknown=unknown,
        sure_of_a_node=0 if assumed else chances[0].later,
        may_find_one=chances[0].most,
        all_have_one=telling.instant(_all_have_one(world, fit)),
        assumed=assumed,
    )


def _all_have_one(world: World, fit: Fit) -> Between:
    # Mostly these are all that its owner loses.
    fates = world.fates_of(world.owner_of(fit.pods[0]))
    if len(fates) != len(fit.pods):
        fates = [world.fates[pod.key] for pod in fit.pods]
    return last_of(*{fate.successor.bound for fate in fates})
