"""From decoded API objects to ``kube.infrastructure``: services, volumes, namespaces, leaders."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kubectl_evictplan.kube.infrastructure import (
    DRIVER_OF_PLUGIN,
    CsiDriver,
    CsiNode,
    Endpoint,
    EndpointSlice,
    LeaderLease,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    Service,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    VolumeAttachment,
    Wishes,
)
from kubectl_evictplan.kube.objects import NAMESPACE_SYSTEM
from kubectl_evictplan.kube.quantities import parse_quantity
from kubectl_evictplan.kube.topology import HOSTNAME, STABLE_LABELS, ZONE
from kubectl_evictplan.sources import wire, wire_needs, wire_storage
from kubectl_evictplan.sources.model_builder import ModelBuilder
from kubectl_evictplan.sources.needs_builder import selector_wishes

# Of whatever cloud, and under the names that distributions give them.
_LEADERS = ("controller-manager", "kube-scheduler")
# Before topology labels moved into a field of their own, in discovery/v1.
# ``topologyLabels`` of the scheduler's VolumeZone.
VOLUME_ZONE_LABELS = (*STABLE_LABELS, *STABLE_LABELS.values())


def leader_lease(build: ModelBuilder, decoded: wire.WireLease) -> LeaderLease | None:
    """Return the lease of a control plane component's leader; None for any other lease."""
    meta, spec = decoded.metadata, decoded.spec
    if meta.namespace != NAMESPACE_SYSTEM or not meta.name.endswith(_LEADERS):
        return None
    return LeaderLease(
        meta.namespace,
        meta.name,
        spec.holder_identity,
        build.times[spec.acquire_time],
        build.times[spec.renew_time],
        spec.lease_duration_seconds,
        spec.lease_transitions,
    )


def pod_claims(decoded: wire.WirePod) -> PodClaims | None:
    """Return the claims of a pod, None when it has none."""
    claims, ephemeral = [], []
    for volume in decoded.spec.volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            # PersistentVolumeClaimName of component-helpers/storage/ephemeral.
            ephemeral.append(f"{decoded.metadata.name}-{volume.name}")
    claims += ephemeral
    if not claims:
        return None
    namespace, name = sys.intern(decoded.metadata.namespace), decoded.metadata.name
    return PodClaims(namespace, name, tuple(claims), tuple(ephemeral))


def _namespace(build: ModelBuilder, decoded: wire.WireNamespace) -> Namespace:
    meta = decoded.metadata
    return Namespace(meta.name, build.labels[bytes(meta.labels)], decoded.status.phase)


def _service(_: ModelBuilder, decoded: wire.WireService) -> Service:
    meta, spec = decoded.metadata, decoded.spec
    return Service(
        sys.intern(meta.namespace),
        meta.name,
        dict(sorted(spec.selector.items())) or None,
        sys.intern(spec.type or "ClusterIP"),
        spec.cluster_ip == "None",
        spec.publish_not_ready_addresses,
        sys.intern(spec.external_traffic_policy),
        sys.intern(spec.internal_traffic_policy),
        sys.intern(spec.traffic_distribution),
    )


def _endpoint_slice(build: ModelBuilder, decoded: wire.WireEndpointSlice) -> EndpointSlice:
    meta = decoded.metadata
    shared = sys.intern
    return EndpointSlice(
        shared(meta.namespace),
        meta.name,
        build.labels[bytes(meta.labels)].get("kubernetes.io/service-name", ""),
        shared(decoded.address_type),
        tuple(
            Endpoint(
                one.target_ref.name if one.target_ref and one.target_ref.kind == "Pod" else "",
                shared(one.node_name or one.topology.get(HOSTNAME, "")),
                shared(one.zone or one.topology.get(ZONE, "")),
                one.conditions.ready,
                one.conditions.serving,
                one.conditions.terminating,
            )
            for one in decoded.endpoints
        ),
        any(one.hints is not None for one in decoded.endpoints),
    )


def _persistent_volume(build: ModelBuilder, decoded: wire_storage.WireVolume) -> PersistentVolume:
    spec = decoded.spec
    affinity = spec.node_affinity
    required = affinity.required.node_selector_terms if affinity and affinity.required else ()
    claim = spec.claim_ref
    labels = build.labels[bytes(decoded.metadata.labels)]
    return PersistentVolume(
        decoded.metadata.name,
        sys.intern(decoded.status.phase),
        sys.intern(claim.namespace) if claim else "",
        claim.name if claim else "",
        tuple(map(sys.intern, spec.access_modes)),
        _driver(spec),
        spec.local is not None,
        tuple(_wishes(term) for term in required),
        tuple(
            # LabelZonesToSet of k8s.io/cloud-provider.
            (key, "In", tuple(sorted({one.strip() for one in labels[key].split("__")})))
            for key in VOLUME_ZONE_LABELS
            if key in labels
        ),
        spec.host_path is not None,
        _mounted_only(spec),
    )


def _mounted_only(spec: wire_storage.VolumeSpec) -> bool:
    """Whether it is of a plugin that is no ``AttachableVolumePlugin``."""
    plugins = (spec.nfs, spec.glusterfs, spec.cephfs, spec.azure_file, spec.quobyte)
    return any(one is not None for one in (*plugins, spec.host_path, spec.local))


def _driver(spec: wire_storage.VolumeSpec) -> str:
    """The driver that attaches the volume, "" for none."""
    if spec.csi is not None:
        return sys.intern(spec.csi.driver)
    taken_over = {
        "kubernetes.io/aws-ebs": spec.aws_elastic_block_store,
        "kubernetes.io/gce-pd": spec.gce_persistent_disk,
        "kubernetes.io/azure-disk": spec.azure_disk,
        "kubernetes.io/cinder": spec.cinder,
        "kubernetes.io/portworx-volume": spec.portworx_volume,
    }
    plugins = (DRIVER_OF_PLUGIN[name] for name, source in taken_over.items() if source is not None)
    return next(plugins, "")


def _claim(build: ModelBuilder, decoded: wire_storage.WireClaim) -> PersistentVolumeClaim:
    meta, spec = decoded.metadata, decoded.spec
    return PersistentVolumeClaim(
        sys.intern(meta.namespace),
        meta.name,
        spec.volume_name,
        sys.intern(decoded.status.phase),
        tuple(map(sys.intern, spec.access_modes)),
        sys.intern(spec.storage_class_name),
        build.requested(spec.resources).get("storage"),
        bool(meta.deletion_timestamp),
    )


def _storage_class(_: ModelBuilder, decoded: wire_storage.WireStorageClass) -> StorageClass:
    return StorageClass(
        decoded.metadata.name,
        sys.intern(DRIVER_OF_PLUGIN.get(decoded.provisioner, decoded.provisioner)),
        decoded.volume_binding_mode == "WaitForFirstConsumer",
        tuple(
            tuple((one.key, "In", one.values) for one in term.match_label_expressions)
            for term in decoded.allowed_topologies
        ),
    )


def _csi_node(_: ModelBuilder, decoded: wire_storage.WireCsiNode) -> CsiNode:
    return CsiNode(
        decoded.metadata.name,
        tuple(
            CsiDriver(sys.intern(one.name), one.allocatable.count if one.allocatable else None)
            for one in decoded.spec.drivers
        ),
    )


def _storage_driver(_: ModelBuilder, decoded: wire_storage.WireCsiDriver) -> StorageDriver:
    # Unset is true (``SetDefaults_CSIDriver``).
    spec = decoded.spec
    return StorageDriver(
        decoded.metadata.name, spec.attach_required is not False, spec.storage_capacity is True
    )


def _storage_capacity(
    _: ModelBuilder, decoded: wire_storage.WireStorageCapacity
) -> StorageCapacity:
    """maximumVolumeSize is preferred (``volumeLimit``; from 1.21 on, before that nobody asks by default)."""
    most = decoded.maximum_volume_size
    told = decoded.capacity if most is None else most
    return StorageCapacity(
        sys.intern(decoded.metadata.namespace),
        decoded.metadata.name,
        sys.intern(decoded.storage_class_name),
        None if told is None else parse_quantity(told),
        selector_wishes(decoded.node_topology),
    )


def _attachment(build: ModelBuilder, decoded: wire_storage.WireAttachment) -> VolumeAttachment:
    spec = decoded.spec
    return VolumeAttachment(
        decoded.metadata.name,
        sys.intern(spec.attacher),
        sys.intern(spec.node_name),
        spec.source.persistent_volume_name,
        decoded.status.attached,
        build.times[decoded.metadata.deletion_timestamp],
    )


def _wishes(term: wire_needs.NodeSelectorTerm) -> Wishes:
    return tuple((one.key, one.operator, one.values) for one in term.match_expressions)


BUILDERS: dict[str, Callable[[ModelBuilder, Any], Any]] = {
    "Namespace": _namespace,
    "Service": _service,
    "EndpointSlice": _endpoint_slice,
    "PersistentVolume": _persistent_volume,
    "PersistentVolumeClaim": _claim,
    "VolumeAttachment": _attachment,
    "StorageClass": _storage_class,
    "CSINode": _csi_node,
    "CSIDriver": _storage_driver,
    "CSIStorageCapacity": _storage_capacity,
}
