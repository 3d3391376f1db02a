"""The objects of the test clusters, as small as the API server takes them."""

from __future__ import annotations

from typing import Any

from plane import Api

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


def tolerate(key: str, seconds: int | None = None) -> dict[str, Any]:
    """A toleration of a NoExecute taint, for ever or for some seconds."""
    toleration: dict[str, Any] = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


def silence_tolerated(seconds: int) -> list[dict[str, Any]]:
    """What admission adds with 300 s, shorter."""
    return [tolerate(UNREACHABLE, seconds), tolerate(NOT_READY, seconds)]


def create_pod(
    api: Api,
    name: str,
    node: str,
    tolerations: list[dict[str, Any]],
    namespace: str = "default",
) -> None:
    """A bare pod, bound to its node already."""
    spec = {**_pod_spec(tolerations), "nodeName": node}
    pod = {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def create_deployment(
    api: Api,
    name: str,
    replicas: int,
    tolerations: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> None:
    """A Deployment whose pods have the label ``app=NAME``, spread over nodes where they can be.

    ``spec`` are more fields of the pods.
    """
    labels = {"app": name}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    pod_spec = {**_pod_spec(tolerations or []), "topologySpreadConstraints": [spread], **spec}
    deployment = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
        },
    }
    api.call("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)


def create_budget(api: Api, name: str, **wish: int | str) -> None:
    """A PodDisruptionBudget over ``app=NAME``; ``wish`` is maxUnavailable or minAvailable."""
    spec = {"selector": {"matchLabels": {"app": name}}, **wish}
    budget = {"metadata": {"name": name}, "spec": spec}
    api.call("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)


def add_taint(api: Api, node: str, taint: dict[str, str]) -> None:
    """Add a taint to those that the node has."""
    current = api.call("GET", f"/api/v1/nodes/{node}")
    taints = [*(current["spec"].get("taints") or ()), taint]
    patch = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]}}
    patch["spec"] = {"taints": taints}  # type: ignore[assignment]
    api.call("PATCH", f"/api/v1/nodes/{node}", patch, "application/merge-patch+json")


def _pod_spec(tolerations: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "example.invalid/none"}],
        "tolerations": tolerations,
    }
