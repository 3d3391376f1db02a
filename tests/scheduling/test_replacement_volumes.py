"""Where replacements can run: what the scheduler asks of their volumes."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import make_node, make_pod
from msgspec.structs import replace

from kubectl_evictplan.controllers.releases import release_profile
from kubectl_evictplan.kube.infrastructure import (
    CsiDriver,
    CsiNode,
    Infrastructure,
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    VolumeAttachment,
)
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.scheduling.answers import Fit, Surroundings, Unknown, Verdict
from kubectl_evictplan.kube.scheduling.fit import fits
from kubectl_evictplan.kube.scheduling.storage_capacity import published

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVER = "disk.example"


def node(name: str, **fields: Any) -> Node:
    return replace(make_node(name, **fields), allocatable={"cpu": 4000, "pods": 10})


def pod(name: str, at: str = "gone") -> Pod:
    return replace(make_pod(name, at, owner="StatefulSet/db"), needs=PodNeeds((("cpu", 100),)))


def claims(*names: str, ephemeral: tuple[str, ...] = ()) -> tuple[PodClaims, ...]:
    """Each pod has the claim of its name."""
    return tuple(PodClaims("default", one, (one,), ephemeral) for one in names)


def bound(*names: str, mode: str = "ReadWriteOnce", **volume: Any) -> dict[str, Any]:
    return {
        "persistent_volume_claims": tuple(
            PersistentVolumeClaim("default", one, f"v-{one}", "Bound", (mode,)) for one in names
        ),
        "persistent_volumes": tuple(
            PersistentVolume(f"v-{one}", claim_name=one, **volume) for one in names
        ),
    }


def limits(**counts: int | None) -> tuple[CsiNode, ...]:
    return tuple(CsiNode(name, (CsiDriver(DRIVER, most),)) for name, most in counts.items())


def one(nodes: list[Node], *running: Pod, **infrastructure: Any) -> Fit:
    around = Surroundings(nodes, running=running, infrastructure=Infrastructure(**infrastructure))
    (found,) = fits(around, [pod("p")])
    return found


def because(fit: Fit) -> dict[str, int]:
    return {str(refusal.filter): refusal.nodes for refusal in fit.because}


def test_a_node_takes_no_more_volumes_of_a_driver_than_it_says() -> None:
    nodes = [node("full"), node("free"), node("unlimited"), node("without")]
    fit = one(
        nodes,
        pod("a", "full"),
        pod_claims=claims("p", "a"),
        csi_nodes=limits(full=1, free=2, unlimited=None),
        **bound("p", "a", driver=DRIVER),
    )
    assert because(fit) == {"NodeVolumeLimits": 1}
    assert fit.on_nodes == 3


def test_a_volume_that_is_there_already_is_not_counted_twice() -> None:
    shared = (PodClaims("default", "p", ("a",)), PodClaims("default", "a", ("a",)))
    volumes = bound("a", driver=DRIVER)
    fit = one([node("n")], pod("a", "n"), pod_claims=shared, csi_nodes=limits(n=1), **volumes)
    assert fit.verdict == Verdict.FITS


def test_attachments_that_no_pod_uses_count_too() -> None:
    attachment = VolumeAttachment("x", node_name="n", volume_name="v-old", attached=True)
    fit = one(
        [node("n")],
        pod_claims=claims("p"),
        csi_nodes=limits(n=1),
        volume_attachments=(attachment,),
        **bound("p", "old", driver=DRIVER),
    )
    assert because(fit) == {"NodeVolumeLimits": 1}


def test_placed_replacements_take_their_volumes_along() -> None:
    around = Surroundings(
        [node("n")],
        infrastructure=Infrastructure(
            pod_claims=claims("p", "q"),
            csi_nodes=limits(n=1),
            **bound("p", "q", driver=DRIVER),
        ),
    )
    assert [fit.placed for fit in fits(around, [pod("p"), pod("q")])] == [1, 0]


@pytest.mark.parametrize("key", [ZONE, OLD_ZONE])
def test_a_volume_of_some_zones_wants_a_node_there(key: str) -> None:
    nodes = [node("a", zone="a"), node("b", zone="b"), node("c", zone="c")]
    zones = ((key, "In", ("a", "b")),)
    fit = one(nodes, pod_claims=claims("p"), **bound("p", zones=zones))
    assert because(fit) == {"VolumeZone": 1}
    assert fit.nodes == ("a", "b")


def test_a_node_without_zone_and_region_takes_volumes_of_any() -> None:
    zones = ((ZONE, "In", ("a",)),)
    fit = one([node("anywhere")], pod_claims=claims("p"), **bound("p", zones=zones))
    assert fit.verdict == Verdict.FITS


def test_a_claim_for_one_pod_alone_is_free_when_nobody_uses_it() -> None:
    both = (PodClaims("default", "p", ("c",)), PodClaims("default", "other", ("c",)))
    volumes = bound("c", mode="ReadWriteOncePod")
    nodes = [node("n1"), node("n2")]
    assert one(nodes, pod_claims=both, **volumes).verdict == Verdict.FITS
    taken = one(nodes, pod("other", "n1"), pod_claims=both, **volumes)
    assert (taken.verdict, because(taken)) == (Verdict.NOWHERE, {"VolumeRestrictions": 2})


def waiting(kind: StorageClass, **more: Any) -> Fit:
    """What is said of a pod whose claim waits for its first consumer."""
    claim = PersistentVolumeClaim("default", "p", storage_class=kind.name)
    return one(
        [node("a", zone="a"), node("b", zone="b")],
        pod_claims=claims("p"),
        persistent_volume_claims=(claim,),
        storage_classes=(kind,),
        **more,
    )


def test_a_volume_is_made_only_where_its_class_allows() -> None:
    only_a = StorageClass("fast", DRIVER, True, (((ZONE, "In", ("a",)),),))
    fit = waiting(only_a)
    assert (fit.nodes, because(fit)) == (("a",), {"VolumeBinding": 1})
    # Whether it can be made there nobody says.
    assert (fit.verdict, fit.unknown) == (Verdict.UNKNOWN, (Unknown.VOLUMES,))
    nowhere = replace(only_a, topologies=(((ZONE, "In", ("z",)),),))
    assert waiting(nowhere).verdict == Verdict.NOWHERE


def test_a_class_that_makes_none_needs_a_volume_that_is_there() -> None:
    static = StorageClass("static", "kubernetes.io/no-provisioner", True)
    assert waiting(static).verdict == Verdict.NOWHERE
    free = PersistentVolume("free", "Available")
    assert waiting(static, persistent_volumes=(free,)).verdict == Verdict.UNKNOWN


def test_a_claim_that_does_not_wait_is_bound_by_others_when_they_like() -> None:
    assert waiting(StorageClass("now", DRIVER)).verdict == Verdict.UNKNOWN


def test_the_limits_of_an_ephemeral_claim_follow_its_class() -> None:
    kind = StorageClass("fast", DRIVER, True)
    claim = PersistentVolumeClaim("default", "p", "v-p", storage_class="fast")
    fit = one(
        [node("n")],
        pod_claims=claims("p", ephemeral=("p",)),
        persistent_volume_claims=(claim,),
        storage_classes=(kind,),
        csi_nodes=limits(n=0),
    )
    assert (fit.verdict, because(fit)) == (Verdict.NOWHERE, {"NodeVolumeLimits": 1})


# -- capacity that drivers publish -------------------------------------------------------------------

GIB = 1 << 30
FAST = StorageClass("fast", DRIVER, True)
PUBLISHING = (StorageDriver(DRIVER, storage_capacity=True),)


def capacity(
    zone: str, gibibytes: int | None, kind: str = "fast", **fields: Any
) -> StorageCapacity:
    most = None if gibibytes is None else gibibytes * GIB
    known = {"volume_bytes_max": most, "nodes": ((ZONE, "In", (zone,)),), **fields}
    return StorageCapacity("kube-system", f"{kind}-{zone}", kind, **known)


def wanting(
    gibibytes: int | None, *capacities: StorageCapacity, at: str = "gone", **more: Any
) -> Fit:
    """What is said of a pod whose new claim of class "fast" asks for so much."""
    size = None if gibibytes is None else gibibytes * GIB
    claim = PersistentVolumeClaim("default", "p", storage_class="fast", storage_bytes=size)
    known = {
        "pod_claims": claims("p"),
        "persistent_volume_claims": (claim,),
        "storage_classes": (FAST,),
        "storage_drivers": PUBLISHING,
        **more,
    }
    around = Surroundings(
        [node("a", zone="a"), node("b", zone="b")],
        infrastructure=Infrastructure(**known),
        storage_capacities=capacities,
    )
    (found,) = fits(around, [pod("p", at)])
    return found


def test_a_volume_is_made_only_where_its_driver_publishes_room_for_it() -> None:
    fit = wanting(10, capacity("a", 10), capacity("b", 9), capacity("b", 50, "slow"))
    assert (fit.nodes, because(fit)) == (("a",), {"VolumeBinding": 1})
    # That it is made there is not promised.
    assert fit.verdict == Verdict.UNKNOWN


@pytest.mark.parametrize(
    "capacities",
    [(), (capacity("a", 9),), (capacity("a", None),), (capacity("a", 99, nodes=None),)],
    ids=["none", "too-small", "not-told", "out-of-reach"],
)
def test_where_no_room_is_published_no_volume_is_made(
    capacities: tuple[StorageCapacity, ...],
) -> None:
    fit = wanting(10, *capacities)
    assert (fit.verdict, because(fit)) == (Verdict.NOWHERE, {"VolumeBinding": 2})


def test_storage_without_a_topology_of_its_own_is_reached_from_everywhere() -> None:
    assert wanting(10, capacity("anywhere", 10, nodes=())).on_nodes == 2


def test_storage_on_nodes_is_told_as_one_term_for_one_label() -> None:
    found = wanting(10, *(capacity(zone, 10) for zone in ("a", "b", "c")))
    assert found.on_nodes == 2


@pytest.mark.parametrize(
    "more",
    [
        {"storage_drivers": (StorageDriver(DRIVER),)},
        {"storage_drivers": ()},
        {"persistent_volumes": (PersistentVolume("free", "Available"),)},
    ],
    ids=["driver-does-not-publish", "no-driver", "a-volume-is-there"],
)
def test_capacity_is_asked_only_where_a_driver_that_publishes_it_makes_the_volume(
    more: dict[str, Any],
) -> None:
    assert wanting(10, **more).on_nodes == 2


def test_a_claim_that_asks_for_no_size_fits_any_capacity() -> None:
    assert wanting(None).on_nodes == 2


def test_storage_of_a_claim_that_goes_away_with_its_pod_may_be_free_again() -> None:
    ephemeral = claims("p", ephemeral=("p",))
    full = (capacity("a", 0), capacity("b", 0))
    fit = wanting(10, *full, at="a", pod_claims=ephemeral)
    assert (fit.nodes, fit.verdict) == (("a",), Verdict.UNKNOWN)


def test_capacity_counts_from_1_21_on_where_it_was_read_of_all_namespaces() -> None:
    read = ClusterSnapshot(0, (), (), kinds_seen=("CSIDriver", "CSIStorageCapacity"))
    asked = {
        minor: release_profile(minor).storage_capacity for minor in ("1.18", "1.20", "1.21", "1.37")
    }
    assert asked == {"1.18": False, "1.20": False, "1.21": True, "1.37": True}
    assert published(read, asked=True) == ()
    assert published(read, asked=False) is None
    assert published(replace(read, kinds_seen=("CSIDriver",)), asked=True) is None
    assert published(replace(read, pods_of_all_namespaces=False), asked=True) is None
