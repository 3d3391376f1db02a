"""Fields of volumes, claims and what attaches them, as ``wire`` reads them."""

from msgspec import Struct

from kubectl_evictplan.sources.wire_needs import (
    NULL,
    AnyResources,
    LabelSelector,
    NodeSelector,
    Quantity,
)
from kubectl_evictplan.sources.wire_object import (
    LabelledMeta,
    ObjectMeta,
    Phase,
    Present,
    Reference,
    Timestamp,
    WireObject,
)


class DeletableMeta(ObjectMeta):
    deletion_timestamp: Timestamp = ""


class CsiSource(Struct):
    driver: str = ""


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class VolumeSpec(Struct, rename="camel", frozen=True):
    claim_ref: Reference | None = None
    access_modes: tuple[str, ...] = ()
    csi: CsiSource | None = None
    # Of plugins inside Kubernetes that drivers have taken over.
    aws_elastic_block_store: Present | None = None
    gce_persistent_disk: Present | None = None
    azure_disk: Present | None = None
    cinder: Present | None = None
    portworx_volume: Present | None = None
    local: Present | None = None
    host_path: Present | None = None
    # Of plugins that attach nothing.
    nfs: Present | None = None
    glusterfs: Present | None = None
    cephfs: Present | None = None
    azure_file: Present | None = None
    quobyte: Present | None = None
    node_affinity: VolumeNodeAffinity | None = None


class WireVolume(WireObject, tag="PersistentVolume", kw_only=True):
    metadata: LabelledMeta
    spec: VolumeSpec = VolumeSpec()
    status: Phase = Phase()


class ClaimSpec(Struct, rename="camel", frozen=True):
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    resources: AnyResources = NULL


class WireClaim(WireObject, tag="PersistentVolumeClaim", kw_only=True):
    metadata: DeletableMeta
    spec: ClaimSpec = ClaimSpec()
    status: Phase = Phase()


class TopologyExpression(Struct, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Struct, rename="camel", frozen=True):
    match_label_expressions: tuple[TopologyExpression, ...] = ()


class WireStorageClass(WireObject, tag="StorageClass", rename="camel"):
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class VolumeLimit(Struct, frozen=True):
    count: int | None = None


class NodeDriver(Struct, frozen=True):
    name: str = ""
    allocatable: VolumeLimit | None = None


class NodeDrivers(Struct, frozen=True):
    drivers: tuple[NodeDriver, ...] = ()


class WireCsiNode(WireObject, tag="CSINode"):
    spec: NodeDrivers = NodeDrivers()


class DriverSpec(Struct, rename="camel", frozen=True):
    attach_required: bool | None = None
    storage_capacity: bool | None = None


class WireCsiDriver(WireObject, tag="CSIDriver"):
    spec: DriverSpec = DriverSpec()


class WireStorageCapacity(WireObject, tag="CSIStorageCapacity", rename="camel"):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(Struct, rename="camel", frozen=True):
    persistent_volume_name: str = ""


class AttachmentSpec(Struct, rename="camel", frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class Attached(Struct, frozen=True):
    attached: bool = False


class WireAttachment(WireObject, tag="VolumeAttachment", kw_only=True):
    metadata: DeletableMeta
    spec: AttachmentSpec = AttachmentSpec()
    status: Attached = Attached()
