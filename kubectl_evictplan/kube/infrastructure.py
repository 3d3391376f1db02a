"""What surrounds pods: namespaces, services and their endpoints, volumes, and who leads.

Only the fields that decide what an eviction costs: whether a service loses its last ready endpoint,
whether a volume can follow its pod. No addresses, no annotations, no handles of storage systems.
"""

from __future__ import annotations

import msgspec

# (key, operator, values) of each wish; all of them must hold.
Wishes = tuple[tuple[str, str, tuple[str, ...]], ...]


class LeaderLease(msgspec.Struct, frozen=True, gc=False):
    """The Lease by which replicas of one control plane component choose their leader."""

    namespace: str
    name: str
    holder_identity: str = ""
    acquire_time_ns: int | None = None
    renew_time_ns: int | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class Namespace(msgspec.Struct, frozen=True):
    """``v1.Namespace``; ``phase`` is Active or Terminating."""

    name: str
    labels: dict[str, str] = {}
    phase: str = ""


class Service(msgspec.Struct, frozen=True):
    """``v1.Service``; ``selector`` None: its endpoints are somebody else's to write. Policies "" are Cluster."""

    namespace: str
    name: str
    selector: dict[str, str] | None = None
    type: str = "ClusterIP"
    headless: bool = False
    publish_not_ready_addresses: bool = False
    external_traffic_policy: str = ""
    internal_traffic_policy: str = ""
    traffic_distribution: str = ""


class Endpoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One backend; ``pod`` is "" when it is none. None: the API field is unset (that is, true)."""

    pod: str = ""
    node_name: str = ""
    zone: str = ""
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class EndpointSlice(msgspec.Struct, frozen=True):
    """``discovery.k8s.io`` EndpointSlice of the service of that name in its namespace."""

    namespace: str
    name: str
    service: str = ""
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    # Some endpoint has hints for whose clients it is: zones, or nodes.
    hinted: bool = False


# Who attaches the volumes of plugins that were part of Kubernetes (``isCSIMigrationOn``, and the names that
# k8s.io/csi-translation-lib gives).
DRIVER_OF_PLUGIN = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


class PersistentVolume(msgspec.Struct, frozen=True):
    """``v1.PersistentVolume``; ``node_affinity`` holds terms of which one must be met."""

    name: str
    phase: str = ""
    claim_namespace: str = ""
    claim_name: str = ""
    access_modes: tuple[str, ...] = ()
    driver: str = ""
    # On the own disk of the one node that its ``node_affinity`` names.
    local: bool = False
    node_affinity: tuple[Wishes, ...] = ()
    # What its zone and region labels, of today and of old, ask of nodes.
    zones: Wishes = ()
    # A directory of whatever node its pod is on.
    host_path: bool = False
    # Its plugin, which is part of Kubernetes, attaches nothing to nodes: it is only mounted.
    mounted_only: bool = False


class PersistentVolumeClaim(msgspec.Struct, frozen=True):
    """``v1.PersistentVolumeClaim``; ``volume_name`` "" while it is bound to none."""

    namespace: str
    name: str
    volume_name: str = ""
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    storage_class: str = ""
    # spec.resources.requests.storage; None: it does not say.
    storage_bytes: int | None = None
    # It has a deletionTimestamp, and goes with the last pod that uses it (pvc-protection).
    being_deleted: bool = False


class StorageClass(msgspec.Struct, frozen=True):
    """``storage.k8s.io`` StorageClass; ``topologies`` are terms of which one must be met, none: any node will do."""

    name: str
    provisioner: str = ""
    waits_for_consumer: bool = False
    topologies: tuple[Wishes, ...] = ()


class StorageDriver(msgspec.Struct, frozen=True, gc=False):
    """``storage.k8s.io`` CSIDriver; without ``attach_required`` its volumes are mounted, never attached to nodes.

    ``storage_capacity``: it publishes how much room its storage has, and kube-scheduler asks.
    """

    name: str
    attach_required: bool = True
    storage_capacity: bool = False


class StorageCapacity(msgspec.Struct, frozen=True):
    """``storage.k8s.io`` CSIStorageCapacity: the largest volume of a class that can be made where some nodes reach it.

    ``volume_bytes_max``: maximumVolumeSize, else capacity; None: no room is told. ``nodes``: what their labels must
    meet; None: no node reaches it.
    """

    namespace: str
    name: str
    storage_class: str = ""
    volume_bytes_max: int | None = None
    nodes: Wishes | None = None


class CsiDriver(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A driver on a node; ``volumes_max`` None: it says no limit."""

    name: str
    volumes_max: int | None = None


class CsiNode(msgspec.Struct, frozen=True):
    """``storage.k8s.io`` CSINode: the drivers on the node of that name."""

    name: str
    drivers: tuple[CsiDriver, ...] = ()


class VolumeAttachment(msgspec.Struct, frozen=True, gc=False):
    """``storage.k8s.io`` VolumeAttachment: a volume at a node."""

    name: str
    attacher: str = ""
    node_name: str = ""
    volume_name: str = ""
    attached: bool = False
    deletion_timestamp_ns: int | None = None


class PodClaims(msgspec.Struct, frozen=True, array_like=True):
    """The claims that a pod's volumes use; ``ephemeral`` are those of them that go away with the pod."""

    namespace: str
    name: str
    claims: tuple[str, ...]
    ephemeral: tuple[str, ...] = ()


class Infrastructure(msgspec.Struct, frozen=True):
    """All of it, each sorted by namespace and name.

    Whether a kind was listed at all says ``ClusterSnapshot.kinds_seen``: "none" is not "unknown".
    """

    leader_leases: tuple[LeaderLease, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    endpoint_slices: tuple[EndpointSlice, ...] = ()
    persistent_volumes: tuple[PersistentVolume, ...] = ()
    persistent_volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    volume_attachments: tuple[VolumeAttachment, ...] = ()
    pod_claims: tuple[PodClaims, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CsiNode, ...] = ()
    storage_drivers: tuple[StorageDriver, ...] = ()
    storage_capacities: tuple[StorageCapacity, ...] = ()


# The name under which each is stored while it is read -> its field above.
FIELD_OF = {
    "LeaderLease": "leader_leases",
    "Namespace": "namespaces",
    "Service": "services",
    "EndpointSlice": "endpoint_slices",
    "PersistentVolume": "persistent_volumes",
    "PersistentVolumeClaim": "persistent_volume_claims",
    "VolumeAttachment": "volume_attachments",
    "PodClaims": "pod_claims",
    "StorageClass": "storage_classes",
    "CSINode": "csi_nodes",
    "CSIDriver": "storage_drivers",
    "CSIStorageCapacity": "storage_capacities",
}
