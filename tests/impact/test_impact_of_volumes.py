"""Which volumes a successor waits for, and which it never gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from building.builders import default_tolerations, make_event, tolerates
from msgspec.structs import replace
from worlds import cluster, comebacks, finding, impact_of, pods_of, workload

from kubectl_evictplan.kube.infrastructure import (
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    StorageCapacity,
    StorageClass,
    StorageDriver,
)
from kubectl_evictplan.kube.needs import PodNeeds
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


def keep(node: str = "a1", **attributes: Any) -> Pod:
    """A pod of another owner that tolerates every taint."""
    [pod] = pods_of("ReplicaSet", "keep", [node], tolerations=[tolerates("", None)], **attributes)
    return pod


def test_a_volume_that_a_pod_still_uses_does_not_move() -> None:
    impact = impact_of(volume_cluster([keep()]), TAINT)
    [found] = impact.volumes
    assert (found.pod, found.code, found.free.earliest_seconds) == ("db-0", "still-used", None)
    assert found.why.startswith("another pod uses it too")
    assert workload(impact, "ReplicaSet/db").whole_again.earliest_seconds is None
    assert comebacks(impact)["db-0"].code == "volume-still-used"
    assert finding(impact, "volume-still-used").certainty == "certain"


def test_the_volume_is_perhaps_there_when_its_node_takes_pods_again() -> None:
    untaint = make_event(100, "untaint", "a1", taint="maint:NoExecute")
    impact = impact_of(volume_cluster([keep()]), TAINT, untaint)
    assert impact.volumes[0].free.earliest_seconds is not None
    assert impact.volumes[0].free.latest_seconds is None
    assert finding(impact, "volume-still-used").severity == "medium"


def test_successors_that_share_a_volume_perhaps_land_on_different_nodes() -> None:
    [_, second] = pods_of("ReplicaSet", "db", ["a1", "a1"])
    for event in (TAINT, make_event(10, "drain", ["a1"])):
        impact = impact_of(volume_cluster([second]), event)
        assert {one.code for one in impact.volumes} == {"still-used"}
        assert all(one.free.latest_seconds is None for one in impact.volumes)
        # One of them gets it: that each may never do so is not the whole truth.
        assert all(one.why.startswith("2 pods that go use it") for one in impact.volumes)
        assert workload(impact, "ReplicaSet/db").whole_again.latest_seconds is None


def test_a_claim_that_is_being_deleted_takes_its_data_along_and_no_successor_gets_it() -> None:
    going = PersistentVolumeClaim("default", "data", "pv", "Bound", ONCE, being_deleted=True)
    pods = [replace(pod, needs=PodNeeds()) for pod in pods_of("ReplicaSet", "db", ["a1"])]
    known = {
        "persistent_volume_claims": (going,),
        "persistent_volumes": (PersistentVolume("pv", access_modes=ONCE),),
    }
    impact = impact_of(
        cluster(pods, pod_claims=(PodClaims("default", "db-0", ("data",)),), **known), TAINT
    )
    assert [one.code for one in impact.volumes] == ["deleted"]
    assert finding(impact, "volume-deleted").severity == "high"
    assert comebacks(impact)["db-0"].code == "no-node"
    # A StatefulSet makes the claim anew, and its successor begins with an empty one.
    pods = [replace(pod, needs=PodNeeds()) for pod in pods_of("StatefulSet", "db", ["a1"])]
    known["persistent_volume_claims"] = (replace(going, name="data-db-0"),)
    impact = impact_of(
        cluster(pods, pod_claims=(PodClaims("default", "db-0", ("data-db-0",)),), **known), TAINT
    )
    assert finding(impact, "volume-deleted").certainty == "certain"
    assert not comebacks(impact)


def test_who_has_ended_uses_no_volume() -> None:
    impact = impact_of(volume_cluster([keep(phase="Succeeded")]), TAINT)
    assert [one.code for one in impact.volumes] == ["detach"]


def test_a_pod_whose_volume_a_silent_node_holds_does_not_come_back() -> None:
    impact = impact_of(volume_cluster(), SILENT)
    assert comebacks(impact)["db-0"].code == "volume-held"
    assert "out-of-service" in comebacks(impact)["db-0"].release
    assert (found := finding(impact, "volume-held")).severity == "high"
    assert (found.certainty, found.objects) == ("certain", ("Pod/default/db-0",))


def test_nobody_waits_for_a_volume_that_is_mounted_only() -> None:
    nfs = PersistentVolume("pv", access_modes=ONCE, mounted_only=True)
    other = PersistentVolume("pv", access_modes=ONCE, driver="files.csi")
    drivers = (StorageDriver("files.csi", attach_required=False),)
    for snapshot in (
        volume_cluster(volume=nfs),
        volume_cluster(volume=other, storage_drivers=drivers),
    ):
        impact = impact_of(snapshot, SILENT)
        assert impact.volumes == ()
        assert workload(impact, "ReplicaSet/db").whole_again.earliest_seconds is not None
        assert not comebacks(impact)


def test_drivers_attach_unless_a_listed_one_says_otherwise() -> None:
    snapshot = volume_cluster(volume=PersistentVolume("pv", access_modes=ONCE, driver="a.csi"))
    for listed in (snapshot, replace(snapshot, kinds_seen=(*snapshot.kinds_seen, "CSIDriver"))):
        impact = impact_of(listed, SILENT)
        assert [one.code for one in impact.volumes] == ["held"]
        # Where they are not listed that is assumed, and said.
        said = [one for one in impact.not_evaluated if "CSIDrivers are not in the input" in one]
        assert bool(said) == (listed is snapshot)


def test_the_directory_of_a_node_is_left_behind() -> None:
    volume = PersistentVolume("pv", access_modes=ONCE, host_path=True, mounted_only=True)
    impact = impact_of(volume_cluster(volume=volume), SILENT)
    assert [one.code for one in impact.volumes] == ["left-behind"]
    assert finding(impact, "volume-left-behind").severity == "high"
    assert workload(impact, "ReplicaSet/db").whole_again.earliest_seconds is not None
    assert not comebacks(impact)
    here = ((("kubernetes.io/hostname", "In", ("a1",)),),)
    bound = impact_of(volume_cluster(volume=replace(volume, node_affinity=here)), SILENT)
    assert [one.code for one in bound.volumes] == ["never-moves"]


def test_that_published_capacity_stays_as_it_is_is_an_assumption() -> None:
    kind = StorageClass("fast", "d.example", waits_for_consumer=True)
    claim = PersistentVolumeClaim("default", "data", "pv", "Bound", ONCE, "fast", 1 << 30)
    known = volume_cluster(
        ephemeral=True,
        storage_classes=(kind,),
        storage_drivers=(StorageDriver("d.example", storage_capacity=True),),
    )
    infrastructure = replace(
        known.infrastructure,
        persistent_volume_claims=(claim,),
        storage_capacities=(StorageCapacity("kube-system", "c", "fast", 0, ()),),
    )
    kinds = (*known.kinds_seen, "CSIDriver", "CSIStorageCapacity")
    read = replace(known, infrastructure=infrastructure, kinds_seen=kinds)
    impact = impact_of(read, TAINT)
    assert any(line.startswith("storage: the capacity") for line in impact.assumptions)
    unread = replace(known, infrastructure=replace(infrastructure, storage_capacities=()))
    impact = impact_of(unread, TAINT)
    assert not any(line.startswith("storage: ") for line in impact.assumptions)
    assert any("new volumes of fast" in line for line in impact.not_evaluated)
