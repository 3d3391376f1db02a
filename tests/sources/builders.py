"""Kubernetes objects as JSON values: as the API server returns them, or as people write them."""

from __future__ import annotations

from typing import Any


def pod(name: str = "p", *, stored: bool = True, meta: Any = None, **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "d", **(meta or {})}
    if stored:
        metadata = {"uid": f"u-{name}", "resourceVersion": "1", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **fields}


def node(name: str = "n2", *, stored: bool = True, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"u-{name}"} if stored else {"name": name}
    ready = {"conditions": [{"type": "Ready", "status": "True",
                             "lastHeartbeatTime": "2026-11-20T21:59:00Z"}]}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": ready, **fields}


def items(*objects: Any, kind: str = "List", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(objects), **fields}


def lease(name: str = "n1", **spec: Any) -> dict[str, Any]:
    spec = {"holderIdentity": name, "renewTime": "2026-11-20T21:59:50.123456Z", **spec}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "uid": f"u-{name}"},
        "spec": spec,
    }


def owner(kind: str, name: str, *, controller: bool = True) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "x",
            "controller": controller}  # fmt: skip


def replica_set(name: str, *owners: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "d", "uid": name, "ownerReferences": list(owners)},
        "spec": {"replicas": 3},
    }


def tolerating(*tolerations: dict[str, Any], stored: bool = True) -> dict[str, Any]:
    return pod(stored=stored, spec={"tolerations": list(tolerations)})
