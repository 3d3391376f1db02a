"""What a pod needs of a node before the scheduler binds it there, reduced to what filters nodes out.

Pods of one template have equal needs and share one value. Preferences are left out: they choose among nodes
that pass, they never refuse one. So are scheduling gates: a pod that was bound has none (``Workload.scheduling_gates``).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubectl_evictplan.kube.infrastructure import Wishes

Amount = Annotated[int, msgspec.Meta(ge=0)]

CPU = "cpu"
PODS = "pods"
# Those that Kubernetes itself names; every other one is somebody's extended resource.
STANDARD_RESOURCES = frozenset({CPU, "memory", "ephemeral-storage", PODS})
HUGE_PAGES_PREFIX = "hugepages-"
# The one field that matchFields may ask for (``nodeFieldSelectorKeys``).
NODE_NAME_FIELD = "metadata.name"
# In the values of that field: the node that the pod is bound to. Each pod of a DaemonSet asks for its own
# node by name; written so, all of them have equal needs.
OWN_NODE = ""

HONOR = "Honor"
IGNORE = "Ignore"


class NodeSelectorTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """``v1.NodeSelectorTerm``: all of it must hold; an empty one matches no node."""

    match_expressions: Wishes = ()
    match_fields: Wishes = ()


class PodAffinityTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """A required ``v1.PodAffinityTerm``; a ``selector`` None matches no pod, an empty one every pod.

    Without ``namespaces`` and with ``namespace_selector`` None the pod's own namespace is meant.
    """

    topology_key: str
    selector: Wishes | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Wishes | None = None


class TopologySpreadConstraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """``v1.TopologySpreadConstraint`` with whenUnsatisfiable DoNotSchedule."""

    topology_key: str
    max_skew: int = 1
    selector: Wishes | None = None
    min_domains: int = 1
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = HONOR
    node_taints_policy: str = IGNORE


class HostPort(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A port of the node itself; ``host_ip`` "" means all its addresses."""

    port: int
    protocol: str = "TCP"
    host_ip: str = ""


class PodNeeds(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pod needs. All of it can be hashed.

    ``requests`` are (resource, amount), sorted: the pod's effective requests (``PodRequests`` of
    component-helpers/resource: containers, sidecars, init containers, overhead). ``node_affinity``
    holds terms of which one must be met, None when nothing is required.
    """

    # cpu in thousandths, memory in bytes, every other resource in whole units.
    requests: tuple[tuple[str, Amount], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    priority: int = 0
    # spec.preemptionPolicy is Never.
    never_preempts: bool = False
    # "" is the default scheduler.
    scheduler_name: str = ""
    # It claims devices (spec.resourceClaims).
    resource_claims: bool = False
    # Of a pod that is made anew: from another template than these are of, and that one is not in the input. The requests are
    # the larger ones of both as far as they are known.
    other_template: bool = False

    @property
    def only_own_node(self) -> bool:
        """Whether it asks for the node it is bound to, as pods of DaemonSets do."""
        # Asked of every template: most have none.
        return bool(self.node_affinity) and any(
            key == NODE_NAME_FIELD and OWN_NODE in values
            for term in self.node_affinity or ()
            for key, _, values in term.match_fields
        )


def is_standard_resource(name: str) -> bool:
    """Tell whether Kubernetes itself names the resource."""
    return name in STANDARD_RESOURCES or name.startswith(HUGE_PAGES_PREFIX)
