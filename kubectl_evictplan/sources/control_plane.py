"""What the objects of a cluster tell about its control plane: flags, release, leader, provider.

Flags come from the pods of the components (static pods, or those of a self-hosted Deployment or
DaemonSet), from OpenShift's operators, and from what k3s and RKE2 write on their servers' nodes; pods
win, because they show what runs. When several replicas disagree the leader cannot be told from outside,
so a disputed flag is not used at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.infrastructure import LeaderLease
from kubectl_evictplan.kube.objects import (
    NAMESPACE_SYSTEM,
    ControlPlaneFlags,
    Node,
    ObjectReference,
    Pod,
)
from kubectl_evictplan.kube.providers import OPENSHIFT, Mark, contradiction, mark_of, the_provider
from kubectl_evictplan.sources.component_flags import (
    API_SERVER,
    COMPONENTS,
    CONTROLLER_MANAGER,
    configured_flags,
    node_arguments,
    parse_flags,
    read_words,
)
from kubectl_evictplan.sources.wire import WireNode
from kubectl_evictplan.sources.wire_control_plane import (
    OPERATOR_KINDS,
    ControlPlanePod,
    WireClusterOperator,
    WireOperator,
)

# Where OpenShift runs its static pods.
_NAMESPACES = {NAMESPACE_SYSTEM} | {f"openshift-{component}" for component in COMPONENTS}
_LABELS = ("component", "k8s-app", "app")
# --leader-elect-lease-duration's default.
_LEASE_SECONDS = 15
_NOT_RENEWED_AFTER_DURATIONS = 8
_KUBELET_VERSION = re.compile(r"v?(\d{1,6}\.\d{1,6}\.\d{1,6})", re.ASCII)
_VERSION_TAG = re.compile(
    r":v?(\d{1,6}\.\d{1,6}\.\d{1,6})(?:[-_+.][0-9A-Za-z._+-]*)?(?:@.*)?$", re.ASCII
)


class Instance(msgspec.Struct, frozen=True):
    """What one object tells of a component; ``version`` is "" when it does not tell it."""

    component: str
    version: str
    flags: dict[str, str]
    seen_in: ObjectReference


class Finding(msgspec.Struct, frozen=True):
    """Something odd, as a warning tells it."""

    code: str
    message: str


class ControlPlaneEvidence:
    """Collects what objects tell; ``conclude`` weighs it."""

    def __init__(self) -> None:
        self.server_version = ""
        self.instances: list[Instance] = []
        self.leader_acquire_times: list[int] = []
        self.kubelet_versions: set[str] = set()
        self.marks: Counter[Mark] = Counter()

    def absorb(self, other: ControlPlaneEvidence) -> None:
        """Add all that another one holds."""
        self.server_version = self.server_version or other.server_version
        self.instances += other.instances
        self.leader_acquire_times += other.leader_acquire_times
        self.kubelet_versions |= other.kubelet_versions
        self.marks += other.marks

    def add_known(self, flags: ControlPlaneFlags) -> None:
        """Add what was concluded before, as if one replica of each component had told it."""
        versions = {CONTROLLER_MANAGER: flags.kubernetes_version}
        known = {CONTROLLER_MANAGER: flags.controller_manager, API_SERVER: flags.api_server}
        for component, found in known.items():
            version = versions.get(component, "")
            if found or version or component in flags.seen_in:
                seen_in = flags.seen_in.get(component, (ObjectReference("Snapshot", ""),))
                self.instances.append(Instance(component, version, found, seen_in[0]))
        self.kubelet_versions.add(flags.newest_kubelet_version)
        if flags.leader_acquire_time_ns is not None:
            self.leader_acquire_times.append(flags.leader_acquire_time_ns)
        if flags.provider:
            self.marks[Mark(flags.provider, "snapshot", "")] += 1

    def add_pod(self, component: str, pod: Pod, decoded: ControlPlanePod) -> None:
        """Add a pod of a component; a finished one, or one that runs something else, tells nothing."""
        seen_in = ObjectReference("Pod", pod.name, pod.namespace)
        for container in decoded.spec.containers if not pod.finished else ():
            words = read_words(container)
            image = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
            runs = any(word.rpartition("/")[2] == component for word in words)
            if container.name == component or image == component or runs:
                flags = parse_flags(component, words)
                version = _version(container.image)
                self.instances.append(Instance(component, version, flags, seen_in))
                return

    def add_node(self, node: Node, decoded: WireNode) -> None:
        """Add a node: its kubelet's version, its provider's mark, its server's command line."""
        version = decoded.status.node_info.kubelet_version
        self.kubelet_versions.add(version)
        if mark := mark_of(decoded.spec.provider_id, node.labels, version):
            self.marks[mark] += 1
        annotations = decoded.metadata.annotations
        arguments = annotations.k3s_arguments or annotations.rke2_arguments
        # Of k3s the control plane is in the process that is the kubelet too.
        own = newest_version([version]) if annotations.k3s_arguments else ""
        for component, flags in node_arguments(arguments).items() if arguments else ():
            seen_in = ObjectReference("Node", node.name)
            self.instances.append(Instance(component, own, flags, seen_in))

    def is_openshift(self) -> bool:
        """Tell by its nodes whether OpenShift runs the cluster, so that its operators can be asked."""
        return the_provider(self.marks)[0] == OPENSHIFT

    def add_operator(self, kind: str, decoded: WireOperator) -> None:
        """Add what OpenShift's operator configures a component with; overrides win."""
        component = OPERATOR_KINDS[kind]
        flags: dict[str, str] = {}
        for config in (decoded.spec.observed_config, decoded.spec.unsupported_config_overrides):
            flags |= configured_flags(component, _arguments(config))
        seen_in = ObjectReference(kind, decoded.metadata.name)
        self.instances.append(Instance(component, "", flags, seen_in))

    def add_cluster_operator(self, decoded: WireClusterOperator) -> None:
        """Add the version that OpenShift says a component has."""
        for operand in decoded.status.versions:
            version = newest_version([operand.version])
            if decoded.metadata.name == operand.name and operand.name in COMPONENTS and version:
                seen_in = ObjectReference("ClusterOperator", operand.name)
                self.instances.append(Instance(operand.name, version, {}, seen_in))

    def conclude(
        self, leaders: Iterable[LeaderLease] = (), taken_at_ns: int = 0
    ) -> tuple[ControlPlaneFlags, list[Finding]]:
        """Return what all of it agrees on at that time, and what is odd about the rest."""
        findings: list[Finding] = []
        agreed = {name: self._agreed_flags(name, findings) for name in COMPONENTS}
        provider, marks = the_provider(self.marks)
        if several := contradiction(self.marks):
            message = f"nodes name several providers ({several}): no preset of any is used"
            findings.append(Finding("control-plane-conflict", message))
        version, told_by = self._release(findings)
        flags = ControlPlaneFlags(
            kubernetes_version=version,
            controller_manager={name: one[0] for name, one in agreed[CONTROLLER_MANAGER].items()},
            api_server={name: one[0] for name, one in agreed[API_SERVER].items()},
            newest_kubelet_version=newest_version(self.kubelet_versions),
            version_told_by=told_by,
            leader_acquire_time_ns=self._leader_since(leaders, taken_at_ns, findings),
            seen_in={name: seen_in for name in COMPONENTS if (seen_in := _seen_in(self._of(name)))},
            origins={
                component: {name: one[1] for name, one in found.items()}
                for component, found in agreed.items()
                if found
            },
            provider=provider,
            provider_marks=marks,
        )
        return flags, findings

    def _of(self, component: str) -> list[Instance]:
        return [instance for instance in self.instances if instance.component == component]

    def _agreed_flags(
        self, component: str, findings: list[Finding]
    ) -> dict[str, tuple[str, tuple[ObjectReference, ...]]]:
        """Return each flag's value and who tells it: pods before what configures them."""
        mine = [one for one in self._of(component) if one.seen_in.kind != "ClusterOperator"]
        running = [one for one in mine if one.seen_in.kind in ("Pod", "Snapshot")]
        configured = [one for one in mine if one not in running]
        return {**_agreed(configured, findings), **_agreed(running, findings)}

    def _release(self, findings: list[Finding]) -> tuple[str, tuple[ObjectReference, ...]]:
        """Return the release of all controller managers; while it is not told, the server's."""
        telling = [one for one in self._of(CONTROLLER_MANAGER) if one.version]
        versions = {one.version for one in telling}
        if len(versions) > 1:
            found = ", ".join(sorted(versions))
            message = f"{CONTROLLER_MANAGER} pods run different versions ({found}): none is used"
            findings.append(Finding("control-plane-conflict", message))
        if len(versions) == 1:
            return versions.pop(), _seen_in(telling)
        version = newest_version([self.server_version])
        return version, (ObjectReference("API server", ""),) if version else ()

    def _leader_since(
        self, leaders: Iterable[LeaderLease], taken_at_ns: int, findings: list[Finding]
    ) -> int | None:
        """Return since when the controller manager leads; None where nobody renews its Lease."""
        lease = next((one for one in leaders if one.name == CONTROLLER_MANAGER), None)
        if lease is None or lease.acquire_time_ns is None:
            return max(self.leader_acquire_times, default=None)
        if lease.renew_time_ns is None or not taken_at_ns:
            return lease.acquire_time_ns
        silent_ns = taken_at_ns - lease.renew_time_ns
        duration_ns = (lease.lease_duration_seconds or _LEASE_SECONDS) * SECOND_NS
        if silent_ns <= _NOT_RENEWED_AFTER_DURATIONS * duration_ns:
            return lease.acquire_time_ns
        message = (
            f"Lease {CONTROLLER_MANAGER} was last renewed {silent_ns // SECOND_NS}s before: "
            "kube-controller-manager does not run, and nothing is evicted until it does, or it runs "
            "without leader election; the prediction takes it as running"
        )
        findings.append(Finding("leader-lease-stale", message))
        return None


def component_of(pod: Pod) -> str:
    """Return the component that a pod may run by its labels or, a mirror pod, its name; else ""."""
    if pod.namespace not in _NAMESPACES:
        return ""
    for label in _LABELS:
        component = pod.labels.get(label, "")
        if component in COMPONENTS:
            return component
    if pod.mirror:
        for name in COMPONENTS:
            if pod.name == name or pod.name.startswith(f"{name}-"):
                return name
    return ""


def _arguments(config: dict[str, Any]) -> dict[str, list[str]]:
    """Return flags and their values, wherever OpenShift keeps those of this component."""
    found: dict[str, list[str]] = {}
    for key in ("extendedArguments", "apiServerArguments"):
        arguments = config.get(key)
        for name, values in arguments.items() if isinstance(arguments, dict) else ():
            listed = values if isinstance(values, list) else [values]
            found[str(name)] = [value for value in listed if isinstance(value, str)]
    return found


def _agreed(
    instances: Sequence[Instance], findings: list[Finding]
) -> dict[str, tuple[str, tuple[ObjectReference, ...]]]:
    agreed = {}
    for name in sorted({name for one in instances for name in one.flags}):
        values = {one.flags.get(name) for one in instances}
        component = instances[0].component
        if len(values) == 1:
            agreed[name] = instances[0].flags[name], _seen_in(instances)
        else:
            found = ", ".join(_who_says(name, instances))
            message = f"{component} pods disagree on --{name} ({found}): none is used"
            findings.append(Finding("control-plane-conflict", message))
    return agreed


def _who_says(name: str, instances: Sequence[Instance]) -> Iterator[str]:
    values = Counter(one.flags.get(name, "unset") for one in instances)
    for value, count in sorted(values.items()):
        yield value if count == 1 else f"{value} in {count}"


def _seen_in(instances: Iterable[Instance]) -> tuple[ObjectReference, ...]:
    return tuple(sorted({one.seen_in for one in instances}))


def _version(image: str) -> str:
    match = _VERSION_TAG.search(image)
    return match.group(1) if match else ""


def newest_version(versions: Iterable[str]) -> str:
    """Return the newest of versions such as ``v1.29.6-eks-1``, as ``1.29.6``; "" when none."""
    found = [match.group(1) for text in versions if (match := _KUBELET_VERSION.match(text))]
    return max(found, key=lambda text: tuple(map(int, text.split("."))), default="")
