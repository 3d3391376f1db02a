"""Where the replacements of evicted pods can run, as far as that can be said without a scheduler.

Asked of everything at once: every pod that may be evicted is, and their replacements look for places while the
change is on its nodes. Pods that wait for a place already are left out, they may take what is counted here.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_evictplan.impact.later_nodes import later_nodes
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.answers import Fit, Surroundings, Verdict
from kubectl_evictplan.kube.scheduling.fit import fits
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.impact_document import FilterCount, ReplacementFit

# Nobody makes pods of these anew, or only where they were.
_NOT_REPLACED = frozenset({"Pod", "Node", "DaemonSet"})
ASSUMPTION = (
    "where replacements can run: only the scheduler's filters are asked, never its preferences; each"
    " takes the first node that passes, those of higher priority first, and nothing else moves; limits of"
    " volumes per node, ReadWriteOncePod claims and pods that wait already are left out"
)


# The worst first.
_VERDICTS = [
    *(Verdict.NOWHERE, Verdict.ONLY_ON_LEAVING, Verdict.NO_ROOM_LEFT),
    *(Verdict.PARTLY, Verdict.UNKNOWN, Verdict.FITS),
]


def replacement_fits(world: World) -> tuple[ReplacementFit, ...]:
    """Return where successors can run, by owner and needs: those that find no place first, then by name."""
    evicted = _evicted(world)
    replaced = [pod for pod in evicted.values() if world.owner_of(pod)[1] not in _NOT_REPLACED]
    if not replaced:
        return ()
    found = [_record(world, fit) for fit in fits(_surroundings(world, evicted), replaced)]
    worst = {verdict: place for place, verdict in enumerate(_VERDICTS)}
    found.sort(key=lambda one: (worst[Verdict(one.verdict)], one.namespace, one.workload, one.pod))
    return tuple(found)


def _evicted(world: World) -> dict[str, Pod]:
    """Pods by their keys, in the order in which they may be deleted first."""
    fates = world.fates
    order = sorted((one.when.earliest_ns, key) for key, one in world.deletions.items())
    return {key: fates[key].pod for _, key in order if key in fates}


def _surroundings(world: World, evicted: Mapping[str, Pod]) -> Surroundings:
    snapshot, deletions = world.snapshot, world.deletions
    stuck = {key for key in evicted if deletions[key].gone.latest_ns >= FOREVER_NS}
    gone = {id(pod) for key, pod in evicted.items() if key not in stuck}
    instants = [deletions[key].when for key in evicted]
    then = later_nodes(
        snapshot.nodes,
        world.prediction.nodes,
        world.scenario.events,
        {pod.node_name for pod in evicted.values()},
        (seconds(min(instants).earliest_ns), seconds(_last(instants))),
    )
    running = [pod for pod in snapshot.pods if id(pod) not in gone]
    infrastructure = snapshot.infrastructure
    return Surroundings(
        then.nodes,
        then.leaving,
        running,
        stuck,
        infrastructure,
        {one.name: one.labels for one in infrastructure.namespaces}
        if "Namespace" in snapshot.kinds_seen and "Namespace" not in snapshot.denied
        else None,
        snapshot.pods_of_all_namespaces,
    )


def _last(instants: list[Between]) -> int:
    """Return the latest instant that is one; of those that may never come the earliest."""
    return max(
        one.earliest_ns if one.latest_ns >= FOREVER_NS else one.latest_ns for one in instants
    )


def _record(world: World, fit: Fit) -> ReplacementFit:
    pod = fit.pods[0]
    namespace, workload = world.workload_of(world.owner_of(pod))
    verdict = fit.verdict
    return ReplacementFit(
        namespace=namespace,
        workload=workload,
        pod=pod.name,
        pods=len(fit.pods),
        verdict=str(verdict),
        on_nodes=fit.on_nodes,
        nodes=fit.nodes,
        placed=fit.placed,
        only_on_leaving=verdict is Verdict.ONLY_ON_LEAVING,
        nowhere=verdict is Verdict.NOWHERE,
        returns_to=fit.returns_to,
        lower_priority=fit.lower_priority,
        because=tuple(FilterCount(str(one.filter), one.nodes) for one in fit.because),
        unknown=tuple(map(str, fit.unknown)),
    )
