"""The real cluster, as applying a plan asks it: ``apply.cluster.ClusterApi`` over one transport.

Reads are repeated by the transport. A mutation is sent once; the one exception is an answer of 401, after
which one new login is tried: what was not authenticated was not executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from kubectl_evictplan.apply.cluster import (
    Access,
    ClusterApi,
    LiveLease,
    LiveNode,
    LiveWorkload,
    Outcome,
    Reply,
    Request,
)
from kubectl_evictplan.errors import AccessError, InputError, UnreachableError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.live.access import is_allowed
from kubectl_evictplan.live.answers import Answer, status_of
from kubectl_evictplan.live.connecting import connected
from kubectl_evictplan.live.counts import not_ready_nodes, workload_counts
from kubectl_evictplan.live.flags import REQUEST_TIMEOUT_DEFAULT_NS, ConnectionFlags
from kubectl_evictplan.live.identity import read_identity
from kubectl_evictplan.live.live_objects import (
    WrongObject,
    lease_of,
    node_of,
    pod_of,
)
from kubectl_evictplan.live.mutation_requests import LEASES, Wire
from kubectl_evictplan.live.pods_of_node import pods_of_node
from kubectl_evictplan.live.problems import forbidden, unreachable
from kubectl_evictplan.live.replies import reply_to
from kubectl_evictplan.live.transport import Sent, Transport
from kubectl_evictplan.plans.document import ClusterIdentity
from kubectl_evictplan.world import World

Found = TypeVar("Found")


@contextmanager
def cluster_api(
    flags: ConnectionFlags,
    environ: Mapping[str, str],
    *,
    warn: Callable[[str], None] | None = None,
    world: World | None = None,
) -> Iterator[ClusterApi]:
    """Log in where the options say and give the cluster there; raises what ``connected`` raises.

    Whoever holds the lock waits for nothing without end: no timeout is the default one here.
    """
    world = world or World()
    timeout_ns = flags.request_timeout_ns or REQUEST_TIMEOUT_DEFAULT_NS
    flags = flags._replace(request_timeout_ns=timeout_ns)
    with connected(flags, environ, warn=warn, world=world) as transport:
        yield LiveCluster(transport, flags, world)


class LiveCluster:
    """One cluster, asked by one user; see ``apply.cluster.ClusterApi`` for what each method gives."""

    def __init__(self, transport: Transport, flags: ConnectionFlags, world: World) -> None:
        self._transport = transport
        self._world = world
        self._brief_seconds: float | None = None
        self._chunk_size = flags.chunk_size
        self._wire = Wire(math.ceil(flags.request_timeout_ns / SECOND_NS))
        self._eviction_version = ""

    def now_ns(self) -> int:
        """Return the server's time."""
        return self._transport.server_now_ns()

    def identity(self) -> ClusterIdentity:
        """Return which cluster this is and who asks."""
        return self._read(lambda: read_identity(self._transport))

    # Reads.

    def get_node(self, name: str, *, fresh: bool = False) -> LiveNode | None:
        """Read one node; ``fresh`` over a new connection."""
        path = f"/api/v1/nodes/{quote(name, safe='')}"
        return self._get(path, name, lambda answer: node_of(answer, name), fresh=fresh)

    def get_pod(self, namespace: str, name: str, *, fresh: bool = False) -> Pod | None:
        """Read one pod."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        return self._get(path, name, lambda answer: pod_of(answer, namespace, name), fresh=fresh)

    def list_pods(self, node: str) -> tuple[Pod, ...]:
        """Read all pods of a node."""
        size = self._chunk_size
        return self._read(lambda: pods_of_node(self._transport, node, chunk_size=size))

    def get_workload(self, namespace: str, kind: str, name: str) -> LiveWorkload | None:
        """Read the counts of one workload."""
        return self._read(lambda: workload_counts(self._transport, namespace, kind, name))

    def count_not_ready_nodes(self) -> int:
        """Count the nodes of the cluster whose condition Ready is not True."""
        size = self._chunk_size
        return self._read(lambda: not_ready_nodes(self._transport, chunk_size=size))

    def get_lease(self, namespace: str, name: str) -> LiveLease | None:
        """Read a Lease."""
        path = f"{LEASES.format(namespace=quote(namespace, safe=''))}/{quote(name, safe='')}"
        return self._get(path, name, lambda answer: lease_of(answer, name))

    def may(self, access: Access) -> bool | None:
        """Tell whether that is allowed; None when the server does not say."""
        return self._read(lambda: is_allowed(self._transport, access))

    def ask_briefly(self, seconds: float | None) -> None:
        """Ask once, and wait at most so long for a silent server; None: as ever."""
        self._transport.ask_briefly(seconds)
        self._brief_seconds = seconds

    # Mutations.

    def taint_request(
        self, node: LiveNode, taints: Sequence[dict[str, Any]], *, dry_run: bool = False
    ) -> Request:
        """Return the patch that gives the node this list of taints, if it is still what it was."""
        return self._wire.taints(node, taints, dry_run=dry_run)

    def cordon_request(
        self, node: LiveNode, unschedulable: bool, *, dry_run: bool = False
    ) -> Request:
        """Return the patch that sets or clears spec.unschedulable, if the node is what it was."""
        return self._wire.unschedulable(node, unschedulable, dry_run=dry_run)

    def evict_request(
        self,
        namespace: str,
        name: str,
        uid: str,
        grace_period_seconds: int | None,
        *,
        dry_run: bool = False,
    ) -> Request:
        """Return the eviction of the pod of this UID, in the version that the server has."""
        version = self._served_eviction_version()
        return self._wire.eviction(
            namespace, name, uid, grace_period_seconds, version=version, dry_run=dry_run
        )

    def send(self, request: Request) -> Reply:
        """Send a mutation once; once more only after a 401, with a new login.

        What a server refuses that has just started is NOT_NOW: it knows nobody's rights yet.
        """
        return self._send(request)

    def _send(self, request: Request, seconds_max: float | None = None) -> Reply:
        started = self._world.monotonic()
        reply = self._sent(request, seconds_max)
        if reply.status == 401:
            reply = self._logged_in_again(reply) or self._sent(request, seconds_max)
        if reply.status in (401, 403) and self._transport.is_newborn:
            reply = msgspec.structs.replace(reply, outcome=Outcome.NOT_NOW)
        elapsed_ns = round((self._world.monotonic() - started) * SECOND_NS)
        return msgspec.structs.replace(reply, elapsed_ns=elapsed_ns)

    def create_lease(
        self,
        namespace: str,
        name: str,
        holder: str,
        seconds: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Reply:
        """Create a Lease held by ``holder`` from now on."""
        lease = LiveLease(name, namespace, "", "", holder, None, None, None)
        return self.send(self._wire.new_lease(lease, seconds, self.now_ns(), annotations or {}))

    def update_lease(
        self,
        lease: LiveLease,
        holder: str,
        seconds: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Reply:
        """Renew or take over the Lease, if it is still of that resourceVersion; "" releases it."""
        request = self._wire.lease(lease, holder, seconds, self.now_ns(), annotations or {})
        return self._send(request, self._brief_seconds)

    def _sent(self, request: Request, seconds_max: float | None) -> Reply:
        transport = self._transport
        if transport.credentials.is_anonymous:
            # A plugin that failed may have left nothing; and nobody else may act for the user.
            return Reply(Outcome.UNAUTHENTICATED, message="the connection has no credential")
        try:
            sent = transport.send(
                request.method, request.path, request.content_type, request.body, seconds_max
            )
        except (AccessError, InputError) as error:
            return self._no_login(error)
        if sent.answer is None:
            return _unanswered(sent)
        return reply_to(request, sent.answer, transport.explain)

    def _logged_in_again(self, reply: Reply) -> Reply | None:
        """Log in; None when that was possible."""
        try:
            self._transport.login()
        except (AccessError, InputError) as error:
            failed = self._no_login(error)
            return msgspec.structs.replace(reply, message=failed.message)
        return None

    def _no_login(self, error: AccessError | InputError) -> Reply:
        message = self._transport.explain(error.problems[0].message)
        return Reply(Outcome.UNAUTHENTICATED, message=message)

    def serves_evictions(self) -> bool:
        """Ask the server anew whether it has the Eviction API; True where that may not be asked."""
        transport = self._transport
        try:
            found = self._read(lambda: transport.get("/api/v1", decode=_eviction_version))
        except AccessError:
            return True
        self._eviction_version = found or ""
        return found is not None

    def _served_eviction_version(self) -> str:
        """Return the version of policy that ``pods/eviction`` is of: v1 since 1.22."""
        if not self._eviction_version:
            self.serves_evictions()
        # Without it the server refuses the eviction itself: nothing is deleted instead.
        return self._eviction_version or "v1"

    def _get(
        self, path: str, name: str, decode: Callable[[Answer], Found], *, fresh: bool = False
    ) -> Found | None:
        transport = self._transport
        if fresh:
            transport.reconnect()
        return self._read(
            lambda: transport.get(
                path, decode=lambda answer: self._found(answer, path, name, decode)
            )
        )

    def _read(self, read: Callable[[], Found]) -> Found:
        """Read something, in the time of a reading of its own."""
        self._transport.begin_reading()
        try:
            return read()
        except InputError as error:
            # An answer beyond all limits: nobody here chose what was asked for.
            raise UnreachableError(error.problems) from None

    def _found(
        self, answer: Answer, path: str, name: str, decode: Callable[[Answer], Found]
    ) -> Found | None:
        where = self._transport.where()
        if answer.status == 200:
            try:
                if not answer.is_json:
                    raise WrongObject
                return decode(answer)
            except WrongObject:
                raise self._transport.not_of_an_api_server(path, answer.beginning) from None
        status = status_of(answer)
        is_about_it = status.details is not None and status.details.name == name
        if answer.status == 404 and status.reason == "NotFound" and is_about_it:
            return None
        said = self._transport.explain(status.message)
        message = f"GET {path}: answered {answer.status}" + (f" ({said})" if said else "")
        if answer.status == 403:
            raise forbidden(message, location=where)
        raise unreachable(message, location=where)


class _Resource(msgspec.Struct, frozen=True):
    name: str = ""
    version: str = ""


class _Resources(msgspec.Struct, frozen=True):
    kind: str = ""
    resources: tuple[_Resource, ...] | None = None


_RESOURCES = msgspec.json.Decoder(_Resources)


def _eviction_version(answer: Answer) -> str | None:
    """Return the version; "" where nobody tells, None where there are no evictions."""
    if answer.status != 200:
        return ""
    found = answer.decoded_as("APIResourceList", _RESOURCES)
    versions = (one.version for one in found.resources or () if one.name == "pods/eviction")
    return next(versions, None)


def _unanswered(sent: Sent) -> Reply:
    outcome = Outcome.UNKNOWN if sent.written else Outcome.NOT_SENT
    return Reply(outcome, status=sent.status, message=sent.failure)
