"""The kinds that are read of a live cluster, each with its place in the API and its RBAC rule.

The order is that of reading: what is large and slow first; then what tells the time. So nothing that
is predicted from lies in the future of what came before it.
"""

from __future__ import annotations

from typing import NamedTuple

_JSON = "application/json"
_METADATA_LIST = "PartialObjectMetadataList"


class Resource(NamedTuple):
    """One list: its kind, group, plural and the versions to try, the newest first.

    Without a ``required`` one nothing can be said; any other that may not be read is *not evaluated*.
    """

    kind: str
    plural: str
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    required: bool = False
    # Read as a whole even when one namespace is asked for: a fact of the cluster, not of its users.
    whole_cluster: bool = False
    # Older servers have none of its versions: that they miss it is nothing to warn of.
    newer: bool = False
    # Nothing but the objects' metadata; a server that cannot leave the rest out may send it.
    metadata_only: bool = False

    def path(self, version: str, namespace: str = "") -> str:
        """Return the list's path; ``namespace`` "" is all of them."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        inside = namespace if self.namespaced and not self.whole_cluster else ""
        return f"{root}/namespaces/{inside}/{self.plural}" if inside else f"{root}/{self.plural}"

    def accept(self) -> str:
        """Return the Accept header to ask with."""
        only = f"{_JSON};as={_METADATA_LIST};g=meta.k8s.io;v=v1,"
        return f"{only if self.metadata_only else ''}{_JSON}"

    def list_kinds(self) -> tuple[str, ...]:
        """Return the kinds that the list may be of."""
        return (f"{self.kind}List", *((_METADATA_LIST,) if self.metadata_only else ()))


def _apps(kind: str) -> Resource:
    return Resource(kind, f"{kind.lower()}s", "apps")


NODES = Resource("Node", "nodes", namespaced=False, required=True)
PODS = Resource("Pod", "pods", required=True)
LEASES = Resource("Lease", "leases", "coordination.k8s.io", whole_cluster=True)

# Asked for only to tell afterwards what happened. The same objects in two groups, for rules that name one.
EVENTS = (Resource("Event", "events"), Resource("Event", "events", "events.k8s.io"))

# Of OpenShift only: what its operators run the control plane with. Asked where the nodes are its own.
OPENSHIFT = (
    *(
        Resource(kind, f"{kind.lower()}s", "operator.openshift.io", namespaced=False)
        for kind in ("KubeControllerManager", "KubeAPIServer")
    ),
    Resource("ClusterOperator", "clusteroperators", "config.openshift.io", namespaced=False),
)

RESOURCES = (
    PODS,
    _apps("ReplicaSet"),
    _apps("Deployment"),
    _apps("StatefulSet"),
    _apps("DaemonSet"),
    Resource("Job", "jobs", "batch"),
    Resource("ReplicationController", "replicationcontrollers"),
    # policy/v1 came with 1.21.
    Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy", ("v1", "v1beta1")),
    Resource("Namespace", "namespaces", namespaced=False),
    Resource("Service", "services"),
    # discovery.k8s.io/v1 came with 1.21.
    Resource("EndpointSlice", "endpointslices", "discovery.k8s.io", ("v1", "v1beta1")),
    Resource("PersistentVolume", "persistentvolumes", namespaced=False),
    Resource("PersistentVolumeClaim", "persistentvolumeclaims"),
    Resource("VolumeAttachment", "volumeattachments", "storage.k8s.io", namespaced=False),
    Resource("StorageClass", "storageclasses", "storage.k8s.io", namespaced=False),
    Resource("CSIDriver", "csidrivers", "storage.k8s.io", namespaced=False),
    Resource("CSINode", "csinodes", "storage.k8s.io", namespaced=False),
    # v1beta1 came with 1.21, v1 with 1.24.
    Resource(
        "CSIStorageCapacity",
        "csistoragecapacities",
        "storage.k8s.io",
        ("v1", "v1beta1"),
        newer=True,
    ),
    *(
        Resource(
            f"{name}WebhookConfiguration",
            f"{name.lower()}webhookconfigurations",
            "admissionregistration.k8s.io",
            namespaced=False,
        )
        for name in ("Validating", "Mutating")
    ),
    NODES,
    LEASES,
)
