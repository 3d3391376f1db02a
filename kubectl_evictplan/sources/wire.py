"""The few JSON fields of API objects that are read at all, as decoder types.

Whatever is not named here never leaves the decoder: env values, arguments, annotations and
managedFields are skipped as bytes, which is both why loading is fast and why no secret can reach
a snapshot. ``Raw`` fields repeat among objects (labels, tolerations, owners): they are decoded
once per distinct text. Go accepts ``null`` for every field; API servers hardly write one, so an object
with one is left to ``schema``, which reads it as absent. What messages say of wrong fields is derived
from these types. Their annotations are types and no texts (no ``__future__`` import, here and in its parts):
the decoder would compile hundreds of texts at each start.
"""

from typing import Annotated, Any, Union

import msgspec
from msgspec import Meta, Raw, Struct, field

from kubectl_evictplan.kube.objects import Toleration
from kubectl_evictplan.sources import wire_needs
from kubectl_evictplan.sources.wire_control_plane import (
    OPERATOR_KINDS,
    NodeAnnotations,
    WireClusterOperator,
    WireOperator,
    WireWebhooks,
)
from kubectl_evictplan.sources.wire_needs import NULL, Int64, LabelSelector
from kubectl_evictplan.sources.wire_object import (
    LabelledMeta,
    Labels,
    ObjectMeta,
    Phase,
    Present,
    Reference,
    Timestamp,
    WireObject,
)
from kubectl_evictplan.sources.wire_storage import (
    WireAttachment,
    WireClaim,
    WireCsiDriver,
    WireCsiNode,
    WireStorageCapacity,
    WireStorageClass,
    WireVolume,
)


class Annotations(Struct, gc=False, frozen=True):
    """The allow-list of annotations."""

    config_source: str = field(default="", name="kubernetes.io/config.source")
    config_mirror: str | None = field(default=None, name="kubernetes.io/config.mirror")
    # Marks of the vertical pod autoscaler: on a pod that it wrote the requests of as it was created, and while it ran.
    vpa_updates: str | None = field(default=None, name="vpaUpdates")
    vpa_in_place_updated: str | None = field(default=None, name="vpaInPlaceUpdated")
    index_failures: str = field(default="", name="batch.kubernetes.io/job-index-failure-count")
    index_failures_ignored: str = field(
        default="", name="batch.kubernetes.io/job-index-ignored-failure-count"
    )


class WireOwner(Struct, rename="camel", gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class WireToleration(Struct, rename="camel", gc=False):
    """The one type that takes null: scenarios use it too, without ``schema``."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64 | None = None

    def toleration(self) -> Toleration:
        """Return the model's value; null counts as absent."""
        words = (self.key or "", self.operator or "", self.value or "", self.effect or "")
        return Toleration(*words, self.toleration_seconds)


# Left as bytes by the decoders of whole objects.
Owners = Annotated[Raw, Meta(extra={"holds": list[WireOwner]})]
Tolerations = Annotated[Raw, Meta(extra={"holds": list[WireToleration]})]


class OwnedMeta(ObjectMeta):
    owner_references: Owners = NULL


class WorkloadMeta(OwnedMeta):
    deletion_timestamp: Timestamp = ""


class PodMeta(OwnedMeta):
    labels: Labels = NULL
    creation_timestamp: Timestamp = ""
    deletion_timestamp: Timestamp = ""
    deletion_grace_period_seconds: Int64 | None = None
    finalizers: tuple[str, ...] = ()
    annotations: Annotations = Annotations()
    generation: Int64 = 0


class EnvName(Struct, gc=False):
    name: str = ""


class Port(Struct, rename="camel", gc=False):
    container_port: Int64 | None = None
    protocol: str = ""
    host_port: Int64 | None = None
    host_ip: str = field(default="", name="hostIP")


class Container(Struct):
    name: str = ""
    env: tuple[EnvName, ...] = ()
    ports: tuple[Port, ...] = ()
    resources: wire_needs.AnyResources = NULL


class InitContainer(Container, rename="camel"):
    restart_policy: str = ""


class ClaimSource(Struct, rename="camel", gc=False):
    claim_name: str = ""


class Volume(Struct, rename="camel"):
    name: str = ""
    empty_dir: Present | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None


class PodSpec(Struct, rename="camel", frozen=True):
    node_name: str = ""
    tolerations: Tolerations = NULL
    termination_grace_period_seconds: Int64 | None = None
    host_network: bool = False
    volumes: tuple[Volume, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[InitContainer, ...] = ()
    node_selector: wire_needs.AnySelector = NULL
    affinity: wire_needs.AnyAffinity = NULL
    topology_spread_constraints: wire_needs.AnySpread = NULL
    resources: wire_needs.AnyResources = NULL
    overhead: wire_needs.AnyQuantities = NULL
    priority: Int64 = 0
    preemption_policy: str = ""
    scheduler_name: str = ""
    resource_claims: tuple[Present, ...] = ()
    active_deadline_seconds: Int64 | None = None


class PodCondition(Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: Timestamp = ""


class ContainerStatus(Struct, rename="camel"):
    name: str = ""
    allocated_resources: wire_needs.AnyQuantities = NULL
    resources: wire_needs.AnyResources = NULL


class PodStatus(Struct, rename="camel", frozen=True):
    phase: str = ""
    reason: str = ""
    start_time: Timestamp = ""
    conditions: tuple[PodCondition, ...] = ()
    # What containers have got by now: of a release that resizes in place.
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: wire_needs.AnyQuantities = NULL
    resources: wire_needs.AnyResources = NULL
    resize: str = ""


class WirePod(WireObject, tag="Pod", kw_only=True):
    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class WireTaint(Struct, rename="camel"):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Timestamp = ""


class NodeSpec(Struct, rename="camel", frozen=True):
    # Only its scheme is kept.
    provider_id: str = field(default="", name="providerID")
    taints: tuple[WireTaint, ...] = ()
    unschedulable: bool = False


class WireCondition(PodCondition, rename="camel"):
    last_heartbeat_time: Timestamp = ""


class NodeInfo(Struct, rename="camel", gc=False, frozen=True):
    kubelet_version: str = ""


class NodeStatus(Struct, rename="camel", frozen=True):
    conditions: tuple[WireCondition, ...] = ()
    node_info: NodeInfo = NodeInfo()
    allocatable: wire_needs.AnyQuantities = NULL


class SpecFields(Struct):
    taints: Present | None = field(default=None, name="f:taints")


class FieldsV1(Struct):
    spec: SpecFields | None = field(default=None, name="f:spec")


class ManagedFields(Struct, rename="camel"):
    time: Timestamp = ""
    fields_v1: FieldsV1 | None = field(default=None, name="fieldsV1")


class NodeMeta(ObjectMeta):
    labels: Labels = NULL
    creation_timestamp: Timestamp = ""
    deletion_timestamp: Timestamp = ""
    managed_fields: tuple[ManagedFields, ...] = ()
    annotations: NodeAnnotations = NodeAnnotations()


class WireNode(WireObject, tag="Node", kw_only=True):
    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(Struct, rename="camel", frozen=True):
    lease_transitions: Int64 | None = None
    holder_identity: str = ""
    lease_duration_seconds: Int64 | None = None
    acquire_time: Timestamp = ""
    renew_time: Timestamp = ""


class WireLease(WireObject, tag="Lease"):
    spec: LeaseSpec = LeaseSpec()


class Ordinals(Struct, frozen=True, gc=False):
    start: Int64 | None = None


class ConditionPattern(Struct, frozen=True):
    type: str = ""
    status: str = ""


class FailureRule(Struct, frozen=True, rename="camel"):
    action: str = ""
    on_exit_codes: Present | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] | None = None


class FailurePolicy(Struct, frozen=True):
    rules: tuple[FailureRule, ...] = ()


class RollingUpdate(Struct, frozen=True, rename="camel"):
    max_surge: Int64 | str | None = None
    partition: Int64 | None = None


class UpdateStrategy(Struct, frozen=True, rename="camel"):
    """Of StatefulSets and DaemonSets; that of Deployments is called ``strategy``."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadSpec(Struct, frozen=True, rename="camel"):
    replicas: Int64 | None = None
    parallelism: Int64 | None = None
    pod_management_policy: str = ""
    ordinals: Ordinals = Ordinals()
    min_ready_seconds: Int64 | None = None
    backoff_limit: Int64 | None = None
    pod_replacement_policy: str = ""
    pod_failure_policy: FailurePolicy | None = None
    backoff_limit_per_index: Int64 | None = None
    template: wire_needs.PodTemplate = wire_needs.PodTemplate()
    managed_by: str = ""
    completions: Int64 | None = None
    suspend: bool = False
    max_failed_indexes: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    update_strategy: UpdateStrategy = UpdateStrategy()


class WorkloadStatus(Struct, frozen=True, rename="camel"):
    failed: Int64 | None = None
    failed_indexes: str = ""
    succeeded: Int64 | None = None
    start_time: Timestamp = ""
    conditions: tuple[PodCondition, ...] = ()
    current_revision: str = ""
    update_revision: str = ""


class WireWorkload(WireObject, kw_only=True):
    metadata: WorkloadMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class BudgetSpec(Struct, rename="camel", frozen=True):
    selector: LabelSelector | None = None
    min_available: Int64 | str | None = None
    max_unavailable: Int64 | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Struct, rename="camel"):
    disruptions_allowed: Int64 | None = None
    current_healthy: Int64 | None = None
    desired_healthy: Int64 | None = None
    expected_pods: Int64 | None = None
    observed_generation: Int64 | None = None
    disrupted_pods: dict[str, Timestamp] = {}


class BudgetMeta(ObjectMeta):
    generation: Int64 | None = None


class WireBudget(WireObject, tag="PodDisruptionBudget", kw_only=True):
    metadata: BudgetMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus | None = None


class WireNamespace(WireObject, tag="Namespace", kw_only=True):
    metadata: LabelledMeta
    status: Phase = Phase()


class ServiceSpec(Struct, rename="camel"):
    selector: dict[str, str] = {}
    type: str = ""
    cluster_ip: str = field(default="", name="clusterIP")
    publish_not_ready_addresses: bool = False
    external_traffic_policy: str = ""
    internal_traffic_policy: str = ""
    traffic_distribution: str = ""


class WireService(WireObject, tag="Service"):
    spec: ServiceSpec = field(default_factory=ServiceSpec)


class EndpointConditions(Struct, frozen=True):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class WireEndpoint(Struct, rename="camel"):
    conditions: EndpointConditions = EndpointConditions()
    target_ref: Reference | None = None
    node_name: str = ""
    zone: str = ""
    # Of discovery/v1beta1, which had neither of the two above at first.
    topology: dict[str, str] = {}
    hints: Present | None = None


class WireEndpointSlice(WireObject, tag="EndpointSlice", kw_only=True):
    metadata: LabelledMeta
    address_type: str = ""
    endpoints: tuple[WireEndpoint, ...] = ()


class Kind(Struct, frozen=True):
    """A kind that is read: its API group, the versions whose fields mean the same, its type."""

    group: str
    versions: frozenset[str]
    type: type[Struct]

    @property
    def api_version(self) -> str:
        """Its group and ``v1``, which every kind has."""
        return f"{self.group}/v1".lstrip("/")


def _kind(base: type[Struct], kind: str, group: str, *versions: str) -> Kind:
    """Return a kind that has the same fields as others; only its tag is its own."""
    return Kind(group, frozenset(versions), msgspec.defstruct(kind, [], bases=(base,), tag=kind))


WEBHOOK_KINDS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
KINDS: dict[str, Kind] = (
    {
        "Pod": Kind("", frozenset({"v1"}), WirePod),
        "Node": Kind("", frozenset({"v1"}), WireNode),
        "Lease": Kind("coordination.k8s.io", frozenset({"v1", "v1beta1"}), WireLease),
        "PodDisruptionBudget": Kind("policy", frozenset({"v1", "v1beta1"}), WireBudget),
        "ReplicationController": _kind(WireWorkload, "ReplicationController", "", "v1"),
        "Deployment": _kind(WireWorkload, "Deployment", "apps", "v1", "v1beta1", "v1beta2"),
        "ReplicaSet": _kind(WireWorkload, "ReplicaSet", "apps", "v1", "v1beta2"),
        "StatefulSet": _kind(WireWorkload, "StatefulSet", "apps", "v1", "v1beta1", "v1beta2"),
        "DaemonSet": _kind(WireWorkload, "DaemonSet", "apps", "v1", "v1beta2"),
        "Job": _kind(WireWorkload, "Job", "batch", "v1", "v1beta1"),
        "Namespace": Kind("", frozenset({"v1"}), WireNamespace),
        "Service": Kind("", frozenset({"v1"}), WireService),
        "EndpointSlice": Kind("discovery.k8s.io", frozenset({"v1", "v1beta1"}), WireEndpointSlice),
        "PersistentVolume": Kind("", frozenset({"v1"}), WireVolume),
        "PersistentVolumeClaim": Kind("", frozenset({"v1"}), WireClaim),
        "VolumeAttachment": Kind("storage.k8s.io", frozenset({"v1", "v1beta1"}), WireAttachment),
        "StorageClass": Kind("storage.k8s.io", frozenset({"v1", "v1beta1"}), WireStorageClass),
        "CSINode": Kind("storage.k8s.io", frozenset({"v1", "v1beta1"}), WireCsiNode),
        "CSIDriver": Kind("storage.k8s.io", frozenset({"v1", "v1beta1"}), WireCsiDriver),
        "CSIStorageCapacity": _kind(
            WireStorageCapacity, "CSIStorageCapacity", "storage.k8s.io", "v1", "v1beta1", "v1alpha1"
        ),
    }
    | {
        kind: _kind(WireWebhooks, kind, "admissionregistration.k8s.io", "v1", "v1beta1")
        for kind in WEBHOOK_KINDS
    }
    | {kind: _kind(WireOperator, kind, "operator.openshift.io", "v1") for kind in OPERATOR_KINDS}
    | {"ClusterOperator": Kind("config.openshift.io", frozenset({"v1"}), WireClusterOperator)}
)
WORKLOAD_KINDS = frozenset(
    name for name, kind in KINDS.items() if issubclass(kind.type, WireWorkload)
)
# extensions/v1beta1 held these before they moved to apps.
MOVED_FROM_EXTENSIONS = frozenset({"Deployment", "ReplicaSet", "DaemonSet"})
CLUSTER_SCOPED = frozenset(
    (
        *WEBHOOK_KINDS,
        *OPERATOR_KINDS,
        *("Node", "Namespace", "PersistentVolume", "VolumeAttachment", "ClusterOperator"),
        *("StorageClass", "CSINode", "CSIDriver"),
    )
)


class ListMeta(Struct):
    continue_: str | None = field(default=None, name="continue")


class Envelope(Struct, rename="camel"):
    """Top level of a document: one object, or a list with its items left as bytes."""

    api_version: str | None = None
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _Decoders(dict[str, "msgspec.json.Decoder[Any]"]):
    """The decoder of each kind, "" of them all, where the kind tells which. Made when it is asked for: snapshots need none."""

    def __missing__(self, kind: str) -> msgspec.json.Decoder[Any]:
        types = (KINDS[kind].type,) if kind else tuple(one.type for one in KINDS.values())
        found = self[kind] = msgspec.json.Decoder(Union[types])  # noqa: UP007 - made at run time
        return found


DECODERS = _Decoders()
ENVELOPE = msgspec.json.Decoder(Envelope)
LABELS = msgspec.json.Decoder(dict[str, str] | None)
TOLERATIONS = msgspec.json.Decoder(list[WireToleration] | None)
OWNERS = msgspec.json.Decoder(list[WireOwner] | None)
