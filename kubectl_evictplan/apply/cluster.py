"""The seam to the API server: what applying a plan asks of it, and every answer it can get.

``live/mutations.py`` is the real one, the simulated one of the tests the other. No method repeats a
mutation by itself, and none guesses: an answer that does not say what was done is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec

from kubectl_evictplan.kube.objects import Pod, Taint
from kubectl_evictplan.plans.document import ClusterIdentity

# Who we are in managedFields: each of our patches says so.
FIELD_MANAGER = "kubectl-evictplan"


class Outcome(Enum):
    """What one request for a mutation led to, by its answer alone; the last two by reading."""

    # 2xx with the object that was asked for.
    APPLIED = "applied"
    # 404: the object is not there.
    ABSENT = "absent"
    # 409: it is not what it was (resourceVersion), or not the one that was meant (UID).
    CONFLICT = "conflict"
    # 429 of the Eviction API: a budget says no for now (cause DisruptionBudget).
    BUDGET = "budget"
    # 429 or 503 of a server that is busy or goes down: the request was not executed.
    NOT_NOW = "not-now"
    # 500: more than one budget covers the pod; asking again is no use.
    SEVERAL_BUDGETS = "several-budgets"
    # 401: the credentials are not accepted, also after one new login.
    UNAUTHENTICATED = "unauthenticated"
    # 403, 422, 413, 400, 405 and whatever else says that it was not and will not be done.
    REFUSED = "refused"
    # 2xx with an object that is not what was asked for: a webhook changed it.
    CHANGED = "changed"
    # No connection: nothing was sent.
    NOT_SENT = "not-sent"
    # Sent, and no answer that tells what was done: read back and decide.
    UNKNOWN = "unknown"
    # No request was needed: the object is as wanted already, and not by this run.
    ALREADY = "already"
    # The name belongs to another UID now.
    REPLACED = "replaced"


class Request(msgspec.Struct, frozen=True):
    """A mutation as it goes over the wire, without credentials: what the journal keeps."""

    method: str
    path: str
    content_type: str
    body: bytes


class Reply(msgspec.Struct, frozen=True):
    """What came back. ``message`` and ``causes`` are the server's words: bounded, not escaped."""

    outcome: Outcome
    status: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[str, ...] = ()
    retry_after_seconds: float | None = None
    resource_version: str = ""
    audit_id: str = ""
    elapsed_ns: int = 0
    # The object that a patch returned, or what was written of a Lease.
    node: LiveNode | None = None
    lease: LiveLease | None = None


class SpecChange(msgspec.Struct, frozen=True):
    """An entry of managedFields that owns ``taints`` or ``unschedulable`` of a node's spec.

    ``time`` is RFC 3339, "" when the entry has none. All of it is the cluster's: not escaped.
    """

    manager: str
    time: str
    fields: tuple[str, ...]


class LiveNode(msgspec.Struct, frozen=True):
    """A node as it is now; ``changed_by`` tells who wrote its taints and unschedulable last."""

    name: str
    uid: str
    resource_version: str
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: str
    # The taints as the server sent them: what is not ours goes back byte for byte.
    raw_taints: tuple[dict[str, Any], ...] = ()
    changed_by: tuple[SpecChange, ...] = ()


class LiveWorkload(msgspec.Struct, frozen=True):
    """A pod controller's counts: ``wanted`` by spec.replicas, ``ready`` by status.readyReplicas."""

    wanted: int
    ready: int


class LiveLease(msgspec.Struct, frozen=True):
    """The lock's Lease; None where a field is not set."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    holder_identity: str
    acquire_time_ns: int | None
    renew_time_ns: int | None
    lease_duration_seconds: int | None
    transitions: int = 0
    annotations: dict[str, str] = {}


class Access(msgspec.Struct, frozen=True):
    """One thing that the plan needs to be allowed, as SelfSubjectAccessReview asks."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class ClusterApi(Protocol):
    """What applying asks of a cluster. Instants are epoch nanoseconds by the server's clock.

    Reads are repeated within the request's limits and raise AccessError or UnreachableError;
    they return None for an object that is not there. Mutations never raise for what a server or a
    network does: they return a Reply.
    """

    def now_ns(self) -> int:
        """Return the server's time."""

    def identity(self) -> ClusterIdentity:
        """Return which cluster this is and who asks."""

    def get_node(self, name: str, *, fresh: bool = False) -> LiveNode | None:
        """Read one node; ``fresh`` over a new connection."""

    def get_pod(self, namespace: str, name: str, *, fresh: bool = False) -> Pod | None:
        """Read one pod."""

    def list_pods(self, node: str) -> tuple[Pod, ...]:
        """Read all pods of a node."""

    def get_workload(self, namespace: str, kind: str, name: str) -> LiveWorkload | None:
        """Read a Deployment, ReplicaSet, StatefulSet or ReplicationController.

        None: it is not there, or of a kind that has no such counts.
        """

    def count_not_ready_nodes(self) -> int:
        """Count the nodes of the cluster whose condition Ready is not True."""

    def taint_request(
        self, node: LiveNode, taints: Sequence[dict[str, Any]], *, dry_run: bool = False
    ) -> Request:
        """Return the patch that gives the node this list of taints, if it is still what it was."""

    def cordon_request(
        self, node: LiveNode, unschedulable: bool, *, dry_run: bool = False
    ) -> Request:
        """Return the patch that sets or clears spec.unschedulable, if the node is what it was."""

    def evict_request(
        self,
        namespace: str,
        name: str,
        uid: str,
        grace_period_seconds: int | None,
        *,
        dry_run: bool = False,
    ) -> Request:
        """Return the eviction of the pod of this UID."""

    def send(self, request: Request) -> Reply:
        """Send a mutation once. A patch's Reply has the node that came back, also when CHANGED."""

    def ask_briefly(self, seconds: float | None) -> None:
        """Read, and write Leases, in attempts of at most so long of silence each; None: as patiently as ever.

        For whoever asks again himself, and tells and heeds signals in between. Other mutations keep their time.
        """

    def serves_evictions(self) -> bool:
        """Ask the server anew whether it has the Eviction API, and of which version."""

    def may(self, access: Access) -> bool | None:
        """Tell whether that is allowed; None when the server does not say."""

    def get_lease(self, namespace: str, name: str) -> LiveLease | None:
        """Read a Lease."""

    def create_lease(
        self,
        namespace: str,
        name: str,
        holder: str,
        seconds: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Reply:
        """Create a Lease held by ``holder`` from now on."""

    def update_lease(
        self,
        lease: LiveLease,
        holder: str,
        seconds: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Reply:
        """Renew or take over the Lease, if it is still of that resourceVersion; "" releases it.

        ``annotations`` are set; others stay.
        """
