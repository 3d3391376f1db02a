"""The mutations as they go over the wire: all preconditions are in the request itself.

A patch of a node carries the resourceVersion that it was made for, and the whole list of taints: the
list is atomic (``+listType=atomic``), so a patch without one would silently undo what others wrote
meanwhile. An eviction carries the pod's UID. A Lease is replaced at a resourceVersion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from kubectl_evictplan.apply.cluster import FIELD_MANAGER, LiveLease, LiveNode, Request
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.timestamps import format_rfc3339

JSON = "application/json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
# What is left of a Lease that was released, as client-go's leader election does it.
_RELEASED_SECONDS = 1


class Wire:
    """Makes requests. ``timeout_seconds``: when the server is to give up as well; 0: its own limit."""

    def __init__(self, timeout_seconds: int = 0) -> None:
        self._timeout_seconds = timeout_seconds

    def taints(
        self, node: LiveNode, taints: Sequence[dict[str, Any]], *, dry_run: bool = False
    ) -> Request:
        """Return the patch of a node's whole list of taints."""
        return self._patch(node, {"taints": list(taints)}, dry_run)

    def unschedulable(
        self, node: LiveNode, unschedulable: bool, *, dry_run: bool = False
    ) -> Request:
        """Return the patch of ``spec.unschedulable``."""
        return self._patch(node, {"unschedulable": unschedulable}, dry_run)

    def eviction(
        self,
        namespace: str,
        name: str,
        uid: str,
        grace_period_seconds: int | None,
        *,
        version: str = "v1",
        dry_run: bool = False,
    ) -> Request:
        """Return the eviction of a pod; ``version`` is that of the policy API."""
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if dry_run:
            # In the query for webhooks, here for the deletion itself; they must not differ.
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": f"policy/{version}",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = (
            f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/eviction"
        )
        return self._request("POST", path, JSON, body, dry_run)

    def new_lease(
        self, lease: LiveLease, seconds: int, now_ns: int, annotations: Mapping[str, str]
    ) -> Request:
        """Return the creation of a Lease that is held from now on."""
        body = {
            **_LEASE,
            "metadata": {
                "name": lease.name,
                "namespace": lease.namespace,
                "annotations": dict(annotations),
            },
            "spec": {
                "holderIdentity": lease.holder_identity,
                "leaseDurationSeconds": seconds,
                "acquireTime": _micro_time(now_ns),
                "renewTime": _micro_time(now_ns),
                "leaseTransitions": 0,
            },
        }
        path = LEASES.format(namespace=quote(lease.namespace, safe=""))
        return self._request("POST", path, JSON, body)

    def lease(
        self,
        lease: LiveLease,
        holder: str,
        seconds: int,
        now_ns: int,
        annotations: Mapping[str, str],
    ) -> Request:
        """Return the Lease renewed, taken over or, with ``holder`` "", released."""
        is_kept = holder == lease.holder_identity
        since_ns = lease.acquire_time_ns if is_kept else now_ns
        spec: dict[str, Any] = {
            "leaseDurationSeconds": seconds if holder else _RELEASED_SECONDS,
            "acquireTime": _micro_time(now_ns if since_ns is None else since_ns),
            "renewTime": _micro_time(now_ns),
            "leaseTransitions": lease.transitions + (not is_kept),
        }
        if holder:
            spec["holderIdentity"] = holder
        assert lease.resource_version, "a Lease without a resourceVersion could be anybody's"
        meta = {
            "name": lease.name,
            "namespace": lease.namespace,
            "resourceVersion": lease.resource_version,
            **({"uid": lease.uid} if lease.uid else {}),
            "annotations": {**lease.annotations, **annotations},
        }
        path = f"{LEASES.format(namespace=quote(lease.namespace, safe=''))}/{quote(lease.name, safe='')}"
        return self._request("PUT", path, JSON, {**_LEASE, "metadata": meta, "spec": spec})

    def _patch(self, node: LiveNode, spec: dict[str, Any], dry_run: bool) -> Request:
        assert node.resource_version, "a patch without a resourceVersion undoes others' changes"
        body = {"metadata": {"resourceVersion": node.resource_version}, "spec": spec}
        path = f"/api/v1/nodes/{quote(node.name, safe='')}"
        return self._request("PATCH", path, STRATEGIC_MERGE_PATCH, body, dry_run)

    def _request(
        self, method: str, path: str, content_type: str, body: Any, dry_run: bool = False
    ) -> Request:
        query = {"fieldManager": FIELD_MANAGER}
        if dry_run:
            query["dryRun"] = "All"
        if self._timeout_seconds:
            query["timeout"] = f"{self._timeout_seconds}s"
        whole = f"{path}?{urlencode(query)}"
        return Request(method, whole, content_type, msgspec.json.encode(body))


_LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


def _micro_time(ns: int) -> str:
    """Return a ``metav1.MicroTime``: always six digits of a second."""
    seconds, rest = divmod(ns, SECOND_NS)
    return f"{format_rfc3339(seconds * SECOND_NS)[:-1]}.{rest // 1000:06d}Z"
