"""The few JSON fields of API objects that are read at all, as decoder types.

Whatever is not named here never leaves the decoder: env values, arguments, annotations and
managedFields are skipped as bytes, which is both why loading is fast and why no secret can reach
a snapshot. ``Raw`` fields repeat among objects (labels, tolerations, owners): they are decoded
once per distinct text. Go accepts ``null`` for every field, so every type here does.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct, field

NULL = Raw(b"null")
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Present(Struct, gc=False):
    """An object of which only the existence matters."""


class Annotations(Struct, gc=False):
    """The allow-list of annotations."""

    config_source: str | None = field(default=None, name="kubernetes.io/config.source")
    config_mirror: str | None = field(default=None, name="kubernetes.io/config.mirror")


class ObjectMeta(Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: Int64 | None = None
    labels: Raw = NULL
    owner_references: Raw = NULL
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    finalizers: list[str] | None = None
    annotations: Annotations | None = None


class WireOwner(Struct, rename="camel", gc=False):
    kind: str = ""
    name: str = ""
    uid: str | None = None
    api_version: str | None = None
    controller: bool | None = None


class WireToleration(Struct, rename="camel", gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64 | None = None


class EnvName(Struct, gc=False):
    name: str | None = None


class Port(Struct, rename="camel", gc=False):
    container_port: Int64 | None = None
    protocol: str | None = None


class Container(Struct):
    env: list[EnvName] | None = None
    ports: list[Port] | None = None


class Volume(Struct, rename="camel"):
    empty_dir: Present | None = None


class PodSpec(Struct, rename="camel"):
    node_name: str | None = None
    tolerations: Raw = NULL
    termination_grace_period_seconds: Int64 | None = None
    host_network: bool | None = None
    volumes: list[Volume] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class PodCondition(Struct, gc=False):
    type: str | None = None
    status: str | None = None


class PodStatus(Struct):
    phase: str | None = None
    reason: str | None = None
    conditions: list[PodCondition] | None = None


class WireObject(Struct, rename="camel", tag_field="kind"):
    """Base of the tagged kinds; the group in ``api_version`` is checked after decoding."""

    metadata: ObjectMeta
    api_version: str | None = None


class WirePod(WireObject, tag="Pod"):
    spec: PodSpec | None = None
    status: PodStatus | None = None


class WireTaint(Struct, rename="camel"):
    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: str | None = None


class NodeSpec(Struct):
    taints: list[WireTaint] | None = None
    unschedulable: bool | None = None


class WireCondition(Struct, rename="camel"):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeInfo(Struct, rename="camel", gc=False):
    kubelet_version: str | None = None


class NodeStatus(Struct, rename="camel"):
    conditions: list[WireCondition] | None = None
    node_info: NodeInfo | None = None


class SpecFields(Struct):
    taints: Present | None = field(default=None, name="f:taints")


class FieldsV1(Struct):
    spec: SpecFields | None = field(default=None, name="f:spec")


class ManagedFields(Struct, rename="camel"):
    time: str | None = None
    fields_v1: FieldsV1 | None = field(default=None, name="fieldsV1")


class NodeMeta(ObjectMeta):
    managed_fields: list[ManagedFields] | None = None


class WireNode(Struct, rename="camel", tag_field="kind", tag="Node"):
    metadata: NodeMeta
    api_version: str | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class LeaseSpec(Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: Int64 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class WireLease(WireObject, tag="Lease"):
    spec: LeaseSpec | None = None


class WorkloadSpec(Struct):
    replicas: Int64 | None = None
    parallelism: Int64 | None = None


class WireDeployment(WireObject, tag="Deployment"):
    spec: WorkloadSpec | None = None


class WireReplicaSet(WireObject, tag="ReplicaSet"):
    spec: WorkloadSpec | None = None


class WireStatefulSet(WireObject, tag="StatefulSet"):
    spec: WorkloadSpec | None = None


class WireDaemonSet(WireObject, tag="DaemonSet"):
    spec: WorkloadSpec | None = None


class WireJob(WireObject, tag="Job"):
    spec: WorkloadSpec | None = None


class WireReplicationController(WireObject, tag="ReplicationController"):
    spec: WorkloadSpec | None = None


class Requirement(Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class BudgetSpec(Struct, rename="camel"):
    selector: LabelSelector | None = None
    min_available: Int64 | str | None = None
    max_unavailable: Int64 | str | None = None


class BudgetStatus(Struct, rename="camel"):
    disruptions_allowed: Int64 | None = None
    current_healthy: Int64 | None = None
    desired_healthy: Int64 | None = None
    expected_pods: Int64 | None = None
    observed_generation: Int64 | None = None


class WireBudget(WireObject, tag="PodDisruptionBudget"):
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


WORKLOADS = (
    WireDeployment,
    WireReplicaSet,
    WireStatefulSet,
    WireDaemonSet,
    WireJob,
    WireReplicationController,
)
WireWorkload = (
    WireDeployment
    | WireReplicaSet
    | WireStatefulSet
    | WireDaemonSet
    | WireJob
    | WireReplicationController
)
AnyWire = WirePod | WireNode | WireLease | WireWorkload | WireBudget

# The API group of each kind that is read, and its versions whose used fields mean the same.
GROUPS: dict[str, tuple[str, frozenset[str]]] = {
    "Pod": ("", frozenset({"v1"})),
    "Node": ("", frozenset({"v1"})),
    "ReplicationController": ("", frozenset({"v1"})),
    "Lease": ("coordination.k8s.io", frozenset({"v1", "v1beta1"})),
    "Deployment": ("apps", frozenset({"v1", "v1beta1", "v1beta2"})),
    "ReplicaSet": ("apps", frozenset({"v1", "v1beta2"})),
    "StatefulSet": ("apps", frozenset({"v1", "v1beta1", "v1beta2"})),
    "DaemonSet": ("apps", frozenset({"v1", "v1beta2"})),
    "Job": ("batch", frozenset({"v1", "v1beta1"})),
    "PodDisruptionBudget": ("policy", frozenset({"v1", "v1beta1"})),
}
# extensions/v1beta1 held these before they moved to apps.
MOVED_FROM_EXTENSIONS = frozenset({"Deployment", "ReplicaSet", "DaemonSet"})
CLUSTER_SCOPED = frozenset({"Node"})


class ListMeta(Struct):
    continue_: str | None = field(default=None, name="continue")


class Envelope(Struct, rename="camel"):
    """Top level of a document: one object, or a list with its items left as bytes."""

    api_version: str | None = None
    kind: str | None = None
    metadata: ListMeta | None = None
    items: list[Raw] | msgspec.UnsetType | None = msgspec.UNSET


class ControlPlaneContainer(Struct):
    """Read only for kube-controller-manager and kube-apiserver; of it only known flags are kept."""

    name: str | None = None
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None


class ControlPlaneSpec(Struct):
    containers: list[ControlPlaneContainer] | None = None


class ControlPlanePod(Struct):
    spec: ControlPlaneSpec | None = None


OBJECT = msgspec.json.Decoder(AnyWire)
BY_KIND: dict[str, msgspec.json.Decoder[Any]] = {
    "Pod": msgspec.json.Decoder(WirePod),
    "Node": msgspec.json.Decoder(WireNode),
    "Lease": msgspec.json.Decoder(WireLease),
    "PodDisruptionBudget": msgspec.json.Decoder(WireBudget),
    "Deployment": msgspec.json.Decoder(WireDeployment),
    "ReplicaSet": msgspec.json.Decoder(WireReplicaSet),
    "StatefulSet": msgspec.json.Decoder(WireStatefulSet),
    "DaemonSet": msgspec.json.Decoder(WireDaemonSet),
    "Job": msgspec.json.Decoder(WireJob),
    "ReplicationController": msgspec.json.Decoder(WireReplicationController),
}
ENVELOPE = msgspec.json.Decoder(Envelope)
CONTROL_PLANE_POD = msgspec.json.Decoder(ControlPlanePod)
LABELS = msgspec.json.Decoder(dict[str, str] | None)
TOLERATIONS = msgspec.json.Decoder(list[WireToleration] | None)
OWNERS = msgspec.json.Decoder(list[WireOwner] | None)
