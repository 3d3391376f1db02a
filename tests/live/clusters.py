"""Objects as an API server stores them."""

from __future__ import annotations

from typing import Any

from live.api_server import START_NS, ApiServer

from kubectl_evictplan.kube.timestamps import format_rfc3339


def instant(seconds: float) -> str:
    """Return the time so many seconds after the server's start."""
    return format_rfc3339(START_NS + round(seconds * 1_000_000_000))


def node(name: str, zone: str = "a", **more: Any) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": instant(-60),
        "lastTransitionTime": instant(-86400),
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "labels": {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name},
            "creationTimestamp": instant(-86400),
        },
        "spec": {"providerID": f"kind://{name}", **more},
        "status": {"conditions": [condition], "nodeInfo": {"kubeletVersion": "v1.29.6"}},
    }


def lease(name: str, renewed: float = -3.5) -> dict[str, Any]:
    return {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": instant(renewed),
        },
    }


def leader_lease(name: str = "kube-controller-manager") -> dict[str, Any]:
    return {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "control-plane_6f1c",
            "leaseDurationSeconds": 15,
            "acquireTime": instant(-7200),
            "renewTime": instant(-1),
            "leaseTransitions": 3,
        },
    }


def pod(
    name: str,
    node_name: str,
    namespace: str = "shop",
    *,
    volumes: list[str] | None = None,
    **meta: Any,
) -> dict[str, Any]:
    finite = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": name.rpartition("-")[0] or name},
            "creationTimestamp": instant(-3600),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "uid-ReplicaSet-shop/web",
                    "controller": True,
                }
            ],
            **meta,
        },
        "spec": {
            "nodeName": node_name,
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", **finite},
                {"key": "node.kubernetes.io/unreachable", **finite},
            ],
            "containers": [{"name": "web", "image": "web:1"}],
            "volumes": [
                {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
                for claim in volumes or ()
            ],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def namespace(name: str) -> dict[str, Any]:
    return {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "status": {"phase": "Active"},
    }


def service(name: str, namespace: str = "shop") -> dict[str, Any]:
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "clusterIP": "10.96.0.7", "ports": [{"port": 80}]},
    }


def endpoint_slice(service_name: str, *pods: str, namespace: str = "shop") -> dict[str, Any]:
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": f"{service_name}-x7d",
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service_name},
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [f"10.1.0.{number}"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": f"n{number + 1}",
                "zone": "a",
                "targetRef": {"kind": "Pod", "name": name, "namespace": namespace},
            }
            for number, name in enumerate(pods)
        ],
    }


def volumes(name: str, node_name: str, namespace: str = "shop") -> list[dict[str, Any]]:
    """Return a claim, its volume on a node's own disk, and its attachment there."""
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    return [
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"volumeName": f"pv-{name}", "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Bound"},
        },
        {
            "kind": "PersistentVolume",
            "apiVersion": "v1",
            "metadata": {"name": f"pv-{name}"},
            "spec": {
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
                "accessModes": ["ReadWriteOnce"],
                "local": {"path": "/mnt/disk"},
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}
                },
            },
            "status": {"phase": "Bound"},
        },
        {
            "kind": "VolumeAttachment",
            "apiVersion": "storage.k8s.io/v1",
            "metadata": {"name": f"va-{name}"},
            "spec": {
                "attacher": "disk.example",
                "nodeName": node_name,
                "source": {"persistentVolumeName": f"pv-{name}"},
            },
            "status": {"attached": True},
        },
    ]


def webhook(name: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "operations": ["DELETE"], "resources": ["pods"]}
    return {
        "kind": "ValidatingWebhookConfiguration",
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": name},
        "webhooks": [{"name": f"{name}.example", "rules": [rule]}],
    }


def workload(kind: str, name: str, namespace: str = "shop", **spec: Any) -> dict[str, Any]:
    version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    return {
        "kind": kind,
        "apiVersion": version,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 3, **spec},
    }


def budget(name: str, namespace: str = "shop") -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": name}}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 1,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
        },
    }


def small_cluster(server: ApiServer) -> ApiServer:
    """Fill a server: 4 nodes in two zones, 6 pods, an owner, a budget, the leader's lease."""
    for number in range(4):
        name = f"n{number + 1}"
        server.add(node(name, "ab"[number // 2]), lease(name, -3.5 - number))
    server.add(*(pod(f"web-{number}", f"n{number % 4 + 1}") for number in range(6)))
    server.add(workload("ReplicaSet", "web"), budget("web"), leader_lease())
    return server


def openshift_cluster(server: ApiServer) -> ApiServer:
    """The small cluster as OpenShift runs it: its nodes say so, and its operators can be asked."""
    small_cluster(server)
    for one in server.objects["nodes"]:
        one["metadata"]["labels"]["node.openshift.io/os_id"] = "rhel"
    component = "kube-controller-manager"
    server.add(
        {
            "kind": "KubeControllerManager",
            "metadata": {"name": "cluster"},
            "spec": {
                "observedConfig": {"extendedArguments": {"node-monitor-grace-period": ["2m0s"]}},
                "unsupportedConfigOverrides": None,
            },
        },
        {
            "kind": "KubeAPIServer",
            "metadata": {"name": "cluster"},
            "spec": {
                "observedConfig": {
                    "apiServerArguments": {"default-not-ready-toleration-seconds": ["60"]}
                }
            },
        },
        {
            "kind": "ClusterOperator",
            "metadata": {"name": component},
            "status": {"versions": [{"name": component, "version": "1.28.5"}]},
        },
    )
    return server
