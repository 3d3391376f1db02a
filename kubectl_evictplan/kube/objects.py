"""The few fields of Kubernetes objects that decide an eviction, as frozen values.

Every source (snapshot, JSON or YAML manifests) produces exactly these types, so a prediction can
never depend on where the objects came from. Times are integer nanoseconds since the Unix epoch;
``None`` means the API field is unset (Go's zero time counts as unset).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Annotated

import msgspec

from kubectl_evictplan.kube.columns import PodColumns, stretches
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.infrastructure import Infrastructure
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.pod_requests import ContainerRequests, Resized

_NAMESPACE = attrgetter("namespace")

# Bounds are checked where these values are decoded, that is in our own snapshots.
Count = Annotated[int, msgspec.Meta(ge=0)]
PositiveCount = Annotated[int, msgspec.Meta(ge=1)]

# ``metav1.NamespaceSystem``.
NAMESPACE_SYSTEM = "kube-system"
# The type of the condition that says whether a node is ready.
READY = "Ready"
NO_EXECUTE = "NoExecute"
NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


class Taint(msgspec.Struct, frozen=True, gc=False):
    """``v1.Taint``. Two taints are *the same taint* when key and effect are equal."""

    key: str
    effect: str
    value: str = ""
    time_added_ns: int | None = None


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """``v1.Toleration`` as stored; operator "" means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    """``v1.NodeCondition`` without its free text."""

    type: str
    status: str
    last_heartbeat_time_ns: int | None = None
    last_transition_time_ns: int | None = None
    reason: str = ""


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """``metav1.OwnerReference``; ``controller`` marks the one managing owner."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Node(msgspec.Struct, frozen=True):
    """``v1.Node``. ``conditions`` and ``taints`` keep the order of the API object."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    creation_timestamp_ns: int = 0
    deletion_timestamp_ns: int | None = None
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    conditions: tuple[NodeCondition, ...] = ()
    # Newest managedFields time that touched spec.taints: a fallback for user taints, which carry
    # no timeAdded. Whole seconds; None when managedFields are absent.
    taints_changed_ns: int | None = None
    # status.allocatable: cpu in thousandths, memory in bytes, others in whole units; {} when unknown.
    allocatable: dict[str, Count] = {}

    def condition(self, condition_type: str) -> NodeCondition | None:
        """Return the first condition of that type, or None (``GetNodeCondition``)."""
        for condition in self.conditions:
            if condition.type == condition_type:
                return condition
        return None

    @property
    def ready_status(self) -> str | None:
        """Status of the Ready condition; None without one."""
        for condition in self.conditions:
            if condition.type == READY:
                return condition.status
        return None

    def past_instants(self) -> Iterator[int]:
        """Every known time of the node but its deletion's, which lies in the future."""
        times = [self.creation_timestamp_ns, self.taints_changed_ns]
        times += [taint.time_added_ns for taint in self.taints]
        for condition in self.conditions:
            times += [condition.last_heartbeat_time_ns, condition.last_transition_time_ns]
        return (ns for ns in times if ns is not None)


class Lease(msgspec.Struct, frozen=True, gc=False):
    """A node's ``coordination.k8s.io/v1`` Lease in kube-node-lease; ``name`` is the node's."""

    name: str
    renew_time_ns: int | None = None
    lease_duration_seconds: PositiveCount = 40
    holder_identity: str = ""


# Of pods whose containers have ended for good.
FINISHED_PHASES = frozenset(("Succeeded", "Failed"))


class Pod(msgspec.Struct, frozen=True, gc=False):
    """``v1.Pod``, reduced to what decides whether, when and how it goes away."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    termination_grace_period_seconds: Count = 30
    phase: str = "Running"
    # Status of the Ready condition; None when the pod has no such condition.
    ready: str | None = None
    creation_timestamp_ns: int = 0
    deletion_timestamp_ns: int | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    # Annotation kubernetes.io/config.source ("file", "http", "api"); "" when absent.
    config_source: str = ""
    # True when annotation kubernetes.io/config.mirror is present: the API image of a static pod.
    mirror: bool = False
    host_network: bool = False
    # The pod's volumes include an emptyDir.
    empty_dir: bool = False
    # Duplicate env names or containerPort+protocol in one container: server-side apply of the
    # DisruptionTarget condition fails for such pods.
    duplicate_env_or_port: bool = False
    # status.reason is "Evicted": podgc removes such terminated pods first (1.27+).
    status_reason: str = ""
    # None when not known: snapshots of before it was read have none.
    needs: PodNeeds | None = None
    # From the creation to the newest change of the Ready condition, where that is True: how long the pod took
    # to be Ready, unless it was Ready before and not in between.
    ready_after_seconds: Count | None = None
    # Where its requests were changed in place, or its spec was written again; None: they are what ``needs`` says.
    resized: Resized | None = None
    # Of an indexed Job: how often its index has failed before, as its annotations count; those that policies ignored.
    index_failures: Count = 0
    index_failures_ignored: Count = 0
    # When status.startTime and its own spec.activeDeadlineSeconds end it, as an instant since the epoch.
    deadline_ns: int | None = None
    # From the creation to the binding, as the condition PodScheduled tells, where that is longer than a second.
    bound_after_seconds: Count | None = None

    @property
    def bound_ns(self) -> int:
        """By when it was bound to its node, cut to whole seconds; where nobody tells, when it was created."""
        return self.creation_timestamp_ns + (self.bound_after_seconds or 0) * SECOND_NS

    @property
    def key(self) -> str:
        """``namespace/name``, the key of the taint manager's work queue."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good (``IsPodTerminal``)."""
        return self.phase in FINISHED_PHASES

    @property
    def active(self) -> bool:
        """Whether its owner counts it: it neither terminates nor has finished (``IsPodActive``)."""
        return self.deletion_timestamp_ns is None and not self.finished

    def controller(self) -> OwnerReference | None:
        """The managing owner (``GetControllerOf``), or None for a bare pod."""
        for reference in self.owner_references:
            if reference.controller:
                return reference
        return None


class FailureRule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A rule of a Job's podFailurePolicy; ``on``: disruption | condition (another one) | exitCodes."""

    on: str
    action: str


class Revisions(msgspec.Struct, frozen=True, gc=False):
    """Of a StatefulSet status.currentRevision and status.updateRevision, by which its pods are labelled.

    ``updated_from``: pods of this ordinal and above are made of the second, those below of the first; None: not known.
    """

    current: str
    update: str
    updated_from: Count | None = None


class Workload(msgspec.Struct, frozen=True):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or ReplicationController.

    ``replicas`` are how many pods it wants (a Job: parallelism, and no more than completions that are left), None for a
    DaemonSet.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    replicas: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    # Of a StatefulSet: spec.podManagementPolicy ("" means OrderedReady) and spec.ordinals.start.
    pod_management_policy: str = ""
    first_ordinal: Count = 0
    # Of a Job: spec.backoffLimit; whether spec.podReplacementPolicy is Failed; whether it has a podFailurePolicy.
    backoff_limit: int | None = None
    replaces_failed_pods_only: bool = False
    pod_failure_policy: bool = False
    # Of a Job: its rules in order, status.failed (None: not known), spec.backoffLimitPerIndex.
    failure_rules: tuple[FailureRule, ...] = ()
    failed: int | None = None
    backoff_limit_per_index: int | None = None
    # Names of the spec.schedulingGates of its template: nobody schedules a pod that still has one.
    scheduling_gates: tuple[str, ...] = ()
    # What the containers of its template request, those that request anything.
    template: tuple[ContainerRequests, ...] = ()
    # Of a Job: spec.managedBy names another controller; spec.maxFailedIndexes, and how many have failed.
    managed_elsewhere: bool = False
    max_failed_indexes: int | None = None
    failed_indexes: Count = 0
    # Of a Job: it is suspended, has ended, or is a work queue of which a pod has succeeded.
    makes_no_more: bool = False
    # Of a Job: when status.startTime and spec.activeDeadlineSeconds end it, as an instant since the epoch.
    deadline_ns: int | None = None
    # It has a deletionTimestamp: its controller does not look after its pods any more.
    being_deleted: bool = False
    # Of a StatefulSet: spec.minReadySeconds.
    min_ready_seconds: Count = 0
    # Labels that its template gives to new pods; None: not known.
    template_labels: dict[str, str] | None = None
    # Of a DaemonSet: spec.updateStrategy.rollingUpdate.maxSurge allows a second pod on a node (``AllowsSurge``).
    surges: bool = False
    # Of a StatefulSet whose controller has written its status.
    revisions: Revisions | None = None

    @property
    def waits_for_ends(self) -> bool:
        """Whether a Job judges and replaces a deleted pod only once that has ended (``isPodFailed``, 1.29)."""
        return self.replaces_failed_pods_only or self.pod_failure_policy


class IntOrPercent(msgspec.Struct, frozen=True, gc=False):
    """``intstr.IntOrString`` as budgets use it: a number of pods, or a percentage of them."""

    value: Count
    percent: bool = False


class PodDisruptionBudget(msgspec.Struct, frozen=True):
    """``policy/v1`` budget; ``match_labels``/``match_expressions`` None means the selector is null.

    The status is what the disruption controller (and the Eviction API) wrote last; None where the API
    object has none. ``disrupted_pods`` are (name, epoch nanoseconds) of evictions that the controller has not
    confirmed yet, sorted.
    """

    namespace: str
    name: str
    match_labels: dict[str, str] | None = None
    # (key, operator, values) of each expression.
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    # spec.unhealthyPodEvictionPolicy: "" means IfHealthyBudget.
    unhealthy_pod_eviction_policy: str = ""
    disrupted_pods: tuple[tuple[str, int], ...] = ()
    generation: int | None = None
    observed_generation: int | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class PodWebhook(msgspec.Struct, frozen=True):
    """An admission webhook ("configuration/webhook") that is asked before pods are deleted or evicted, or with failurePolicy Fail created.

    The selectors are (key, operator, values) of each wish; matchLabels are written with In.
    """

    name: str
    object_selector: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    namespace_selector: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    of_deletion: bool = True
    of_creation: bool = False
    of_eviction: bool = False


class Warning(msgspec.Struct, frozen=True):  # noqa: A001 - the answer's own word
    """Something unknown, assumed, not evaluated or surprising. ``code`` is documented."""

    code: str
    message: str
    objects: tuple[str, ...] = ()


class ObjectReference(msgspec.Struct, frozen=True, order=True, gc=False):
    """One object of the input by its name; ``namespace`` is "" for what has none."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ").strip()


class ControlPlaneFlags(msgspec.Struct, frozen=True):
    """What the snapshot tells of the control plane and its flags; empty where nothing does.

    ``origins`` holds, by component and flag, the objects that say so; ``seen_in``, by component,
    every object that tells its flags, set or not. Flags by component are those that differ from the
    component's defaults.
    """

    # Of kube-controller-manager, else of the API server, e.g. "1.29.6"; "" when unknown.
    kubernetes_version: str = ""
    controller_manager: dict[str, str] = {}
    api_server: dict[str, str] = {}
    # Newest kubelet version of any node: the control plane is never older than its kubelets.
    newest_kubelet_version: str = ""
    # acquireTime of Lease kube-system/kube-controller-manager: when this process became leader.
    leader_acquire_time_ns: int | None = None
    version_told_by: tuple[ObjectReference, ...] = ()
    seen_in: dict[str, tuple[ObjectReference, ...]] = {}
    origins: dict[str, dict[str, tuple[ObjectReference, ...]]] = {}
    # One of ``providers.PROVIDERS``, and the marks of its nodes; "" when not recognised.
    provider: str = ""
    provider_marks: tuple[str, ...] = ()


class ListRecord(msgspec.Struct, frozen=True):
    """One list of a live cluster: which moment it shows, or why it could not be read."""

    kind: str
    resource_version: str = ""
    count: Count = 0
    # By the server's clock.
    read_at_ns: int = 0
    not_evaluated: str = ""


class Reading(msgspec.Struct, frozen=True):
    """How a live cluster was read. Decides nothing; two readings of one state may differ in it."""

    server: str = ""
    context: str = ""
    # "" when all namespaces were read.
    namespace: str = ""
    server_version: str = ""
    # Server time minus this machine's; None when the server did not tell its time.
    clock_offset_ns: int | None = None
    lists: tuple[ListRecord, ...] = ()


class ObservedRenewals(msgspec.Struct, frozen=True):
    """What two looks at the leases showed: how well last renewals are known at the second one.

    ``exact_...`` count kubelets whose last renewal is known exactly, ``widest_...`` is the widest
    window of the others, from the first look alone and from both. ``missing`` renewed nothing.
    """

    apart_ns: int
    kubelets: Count = 0
    exact_before: Count = 0
    exact_now: Count = 0
    widest_before_ns: Count = 0
    widest_now_ns: Count = 0
    missing: tuple[str, ...] = ()


class ClusterSnapshot(msgspec.Struct, frozen=True, dict=True):
    """All that is known of one cluster at ``taken_at_ns``: what every source returns.

    ``nodes`` and ``pods`` are sorted by name and by (namespace, name). ``ignored_kinds`` counts
    objects of kinds that do not matter. ``denied`` names kinds that could not be read: what
    depends on them is unknown, not empty. ``warnings`` are the loader's own.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...] = ()
    leases: dict[str, Lease] = {}
    workloads: tuple[Workload, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    webhooks: tuple[PodWebhook, ...] = ()
    taken_at_ns: int = 0
    # Where taken_at_ns comes from, e.g. "newest lease renewal", "snapshot".
    taken_at_source: str = ""
    control_plane: ControlPlaneFlags = ControlPlaneFlags()
    # Kinds seen in the input: "no PodDisruptionBudget listed" differs from "there are none".
    kinds_seen: tuple[str, ...] = ()
    ignored_kinds: dict[str, Count] = {}
    denied: tuple[str, ...] = ()
    warnings: tuple[Warning, ...] = ()
    # sha256 over the canonical content, "sha256:<hex>"; "" when not computed.
    digest: str = ""
    infrastructure: Infrastructure = Infrastructure()
    # Of what was read from a live cluster; None for files.
    reading: Reading | None = None
    # False: there may be pods of namespaces that were not asked for.
    pods_of_all_namespaces: bool = True
    # None when the leases were looked at once.
    observed: ObservedRenewals | None = None
    # Never of a source: nodes that are left out of ``nodes`` because nothing can happen to them, by zone key.
    # All are Ready and count in their zone.
    bystanders: dict[str, Count] = {}
    # Never of a source: pods (by key) and nodes (by name) that stand for others that share their fate, and for
    # how many, themselves included.
    stand_ins: dict[str, Count] = {}
    # Never of a source: by owner ("Kind/namespace/name") how many of its active pods are left out of ``pods``; None: nobody counted.
    left_out: dict[str, Count] | None = None

    @cached_property
    def columns(self) -> PodColumns:
        """The pods field by field: who asks all of them for one thing asks here."""
        return PodColumns(self.pods)

    @cached_property
    def counted(self) -> Counter[tuple[str, str | None]]:
        """How many pods each node has, by their Ready; those for which others stand included."""
        pods = Counter(zip(self.columns.of("node_name"), self.columns.of("ready"), strict=True))
        for pod in self.pods if self.stand_ins else ():
            pods[pod.node_name, pod.ready] += self.stand_ins.get(pod.key, 1) - 1
        return pods

    @cached_property
    def stretches(self) -> Sequence[slice]:
        """Where pods of one template stand side by side: of those that share their objects one is asked for all."""
        return tuple(stretches(self.pods))

    @cached_property
    def places_of_namespaces(self) -> dict[str, slice]:
        """The namespaces that have pods, and where these are: pods come by their namespaces."""
        pods, found, begin = self.pods, dict[str, slice](), 0
        while begin < len(pods):
            namespace = pods[begin].namespace
            end = bisect_right(pods, namespace, begin, key=_NAMESPACE)
            found[namespace] = slice(begin, end)
            begin = end
        return found
