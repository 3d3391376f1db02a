"""Which windows are exact, and which are not: ``inputs.coverage``."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.document import PARTLY, WHOLLY, Coverage, UnknownExplored
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction
from kubectl_evictplan.windows.unknowns.of_drains import DrainLatencies
from kubectl_evictplan.windows.unknowns.registry import UNKNOWNS


def coverage(
    shown: Iterable[tuple[EvictionKey, PossibleEviction]],
    alike: AlikePods,
    sampled_nodes: Collection[str] = (),
) -> Coverage:
    """Return how completely the unknowns behind all evictions were explored.

    ``sampled_nodes``: of their drains drawn runs are all that is known.
    """
    exact = outer = explored = 0
    missed: set[str] = set()
    outer_nodes: set[str] = set()
    explored_nodes = set(sampled_nodes)
    if sampled_nodes:
        missed.add(DrainLatencies.name)
    for key, found in shown:
        pods = alike.pods(key.pod, key.uid, found.node)
        missed |= found.missed
        if not found.missed:
            exact += len(pods)
        elif found.proven:
            outer += len(pods)
            outer_nodes.update(pod.node for pod in pods)
        else:
            explored += len(pods)
            explored_nodes.update(pod.node for pod in pods)
    return Coverage(
        exact,
        outer,
        explored,
        tuple(sorted(outer_nodes - explored_nodes)),
        tuple(sorted(explored_nodes)),
        tuple(
            UnknownExplored(
                unknown.name, unknown.what, PARTLY if unknown.name in missed else WHOLLY
            )
            for unknown in UNKNOWNS
        ),
    )
