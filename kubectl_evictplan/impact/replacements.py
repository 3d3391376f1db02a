"""Where the replacements of evicted pods can run, as far as that can be said without a scheduler.

Asked of everything at once: every pod that may be evicted is, and their replacements look for places while the
change is on its nodes, one after the other, each on the first that passes. What that leaves open is in the bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.stretches import last_of
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.owners import OwnerKey
from kubectl_evictplan.kube.scheduling.answers import Fit, Refusal, Unknown, Verdict
from kubectl_evictplan.prediction.impact_document import FilterCount, Instant, ReplacementFit
from kubectl_evictplan.prediction.records import NotableRows

ASSUMPTION = (
    "where replacements can run: only kube-scheduler's filters are asked, never its preferences; nobody adds nodes,"
    " and whom a replacement of higher priority would push out is not predicted"
)


# The worst first.
_VERDICTS = [
    *(Verdict.NOWHERE, Verdict.ONLY_ON_LEAVING, Verdict.NO_ROOM_LEFT),
    *(Verdict.PARTLY, Verdict.UNKNOWN, Verdict.FITS),
]


def replacement_fits(world: World) -> Sequence[ReplacementFit]:
    """Where successors can run, by owner and needs: those that find no place first, then by name.

    Notable are all but those that surely find one.
    """
    placements = world.placements

    def find() -> tuple[ReplacementFit, ...]:
        if placements.sure:
            return ()
        return _rows(world, [fit for fit in placements.fits if not _finds_a_node(fit)])

    return NotableRows(lambda: _rows(world, placements.fits), find)


def _finds_a_node(fit: Fit) -> bool:
    """Whether all of them do, as far as anybody can know."""
    return fit.verdict is Verdict.FITS and not fit.unknown and not _assumed(fit)


def _rows(world: World, fits: Iterable[Fit]) -> tuple[ReplacementFit, ...]:
    worst = {verdict: place for place, verdict in enumerate(_VERDICTS)}
    words, because, instants = _Words(), _Because(), dict[int, Instant]()
    found: list[tuple[tuple[int, str, str, str], ReplacementFit]] = []
    for fit in fits:
        verdict = fit.verdict
        owner = world.owner_of(fit.pods[0])
        all_have_one = _all_have_one(world, owner, fit, instants)
        told = words[fit.unknown], because[fit.because], all_have_one
        one = _record(world.workload_of(owner), fit, verdict, told)
        found.append(((worst[verdict], one.namespace, one.workload, one.pod), one))
    found.sort(key=itemgetter(0))
    return tuple([one for _, one in found])


class _Words(dict[tuple[Unknown, ...], tuple[str, ...]]):
    """What is unknown, in words; the same few of thousands of groups."""

    def __missing__(self, unknown: tuple[Unknown, ...]) -> tuple[str, ...]:
        found = self[unknown] = tuple(map(str, unknown))
        return found


class _Because(dict[tuple[Refusal, ...], tuple[FilterCount, ...]]):
    """What refuses, as it is told."""

    def __missing__(self, refusals: tuple[Refusal, ...]) -> tuple[FilterCount, ...]:
        found = tuple([FilterCount(one.filter.value, one.nodes) for one in refusals])
        self[refusals] = found
        return found


_Told = tuple[tuple[str, ...], tuple[FilterCount, ...], Instant]


def _record(workload: tuple[str, str], fit: Fit, verdict: Verdict, told: _Told) -> ReplacementFit:
    unknown, because, all_have_one = told
    pod, chances = fit.pods[0], fit.chances
    # What is assumed is not sure.
    assumed = _assumed(fit)
    return ReplacementFit(
        *workload,
        pod.name,
        len(fit.pods),
        verdict.value,
        fit.on_nodes,
        fit.nodes,
        fit.placed,
        verdict is Verdict.ONLY_ON_LEAVING,
        verdict is Verdict.NOWHERE,
        fit.returns_to,
        fit.lower_priority,
        because,
        unknown,
        0 if assumed else chances[0].later,
        chances[0].most,
        all_have_one,
        assumed,
    )


def _assumed(fit: Fit) -> bool:
    """Whether the input does not hold what speaks against a node."""
    return True in [chance.assumed for chance in fit.chances]


def _all_have_one(world: World, owner: OwnerKey, fit: Fit, known: dict[int, Instant]) -> Instant:
    """``known``: of owners whose pods meet with the same."""
    if len(world.fates_of(owner)) != len(fit.pods):
        # Mostly these are all that its owner loses.
        return _last_bound([world.fates[pod.key] for pod in fit.pods])
    kind = world.kind_of_fates(owner)
    if (found := known.get(kind)) is None:
        found = known[kind] = _last_bound(world.fates_of(owner))
    return found


def _last_bound(fates: Iterable[Fate]) -> Instant:
    return telling.instant(last_of(*[fate.shared.successor.bound for fate in fates]))
