"""Pods that something happens to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import Moving
from kubectl_evictplan.impact.members import Owners
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.scenarios.scenario import Scenario


def touched_pods(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    evictions: Evictions,
    lives: Mapping[str, NodeLife],
) -> dict[str, Pod]:
    """Return by key the pods on nodes that have a life, and those that are named, in the order of the input."""
    named = {key for event in scenario.events for key in event.pods}
    named.update(
        names.key
        for group in evictions.groups
        if group.shared.node not in lives
        for names in group.pods
    )
    pods = [pod for pod in snapshot.pods if pod.node_name in lives]
    if named:
        pods = [pod for pod in snapshot.pods if pod.node_name in lives or pod.key in named]
    keys = [f"{pod.namespace}/{pod.name}" for pod in pods]
    return dict(zip(keys, pods, strict=True))


def moving_pods(
    touched: Mapping[str, Pod],
    lives: Mapping[str, NodeLife],
    owners: Owners,
    deletions: Mapping[str, Deletion],
) -> list[Moving]:
    """Return those of them that something happens to, in their order."""
    disturbed = {
        name
        for name, life in lives.items()
        if life.silences or life.unready or not life.deleted.never
    }
    pods = touched.values()
    every = zip(touched, pods, owners.of_all(pods), map(deletions.get, touched), strict=True)
    # What makes tuples of a type, without asking each for its length as ``_make`` does.
    moving = map(partial(tuple.__new__, Moving), every)
    if disturbed.issuperset({pod.node_name for pod in pods}):
        return list(moving)
    return [one for one in moving if one.deletion is not None or one.pod.node_name in disturbed]
