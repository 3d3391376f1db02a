"""Which volumes a successor waits for, and which it never gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from worlds import cluster, comebacks, impact_of, pods_of, workload

from builders import default_tolerations, make_event
from kubectl_evictplan.kube.infrastructure import (
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod

TAINT = make_event(10, "taint", "a1", taint="maint=yes:NoExecute")
SILENT = make_event(10, "kubelet-stop", "a1")
ONCE = ("ReadWriteOnce",)


def volume_cluster(
    pods: Iterable[Pod] = (),
    *,
    ephemeral: bool = False,
    volume: PersistentVolume | None = None,
    **infrastructure: Any,
) -> ClusterSnapshot:
    """``db-0`` of a ReplicaSet on a1, and ``pods``: all of them use one claim."""
    tolerations = default_tolerations(60)
    pods = [*pods_of("ReplicaSet", "db", ["a1"], tolerations=tolerations), *pods]
    gone_with_it = ("data",) if ephemeral else ()
    return cluster(
        pods,
        pod_claims=tuple(PodClaims("default", p.name, ("data",), gone_with_it) for p in pods),
        persistent_volume_claims=(PersistentVolumeClaim("default", "data", "pv", "Bound", ONCE),),
        persistent_volumes=(volume or PersistentVolume("pv", access_modes=ONCE),),
        **infrastructure,
    )


def test_nobody_waits_for_a_claim_that_goes_away_with_its_pod() -> None:
    for event in (TAINT, SILENT, make_event(10, "drain", ["a1"])):
        impact = impact_of(volume_cluster(ephemeral=True), event)
        assert impact.volumes == ()
        # Whether one can be made elsewhere is not known; nothing has to be freed for it.
        assert (workload(impact, "ReplicaSet/db").whole_again.earliest_seconds or 0) < 136
        assert not comebacks(impact)
