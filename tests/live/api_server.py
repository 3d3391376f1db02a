"""A deterministic API server over a real loopback socket, and the faults it can be told to have.

It lists what it is given, in pages, with resource versions, RBAC and bearer tokens, and otherwise does
exactly what a test's ``Fault`` says: at which list, at which of its requests, what goes wrong. Time is
virtual: what sleeps or waits moves ``VirtualWorld``'s clocks, never the test's.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kubectl_evictplan.world import World

START_NS = 1_795_212_000_000_000_000
SECOND_NS = 1_000_000_000

# plural -> (group, kind, version)
KINDS = {
    "nodes": ("", "Node", "v1"),
    "pods": ("", "Pod", "v1"),
    "leases": ("coordination.k8s.io", "Lease", "v1"),
    "poddisruptionbudgets": ("policy", "PodDisruptionBudget", "v1"),
    "namespaces": ("", "Namespace", "v1"),
    "replicasets": ("apps", "ReplicaSet", "v1"),
    "deployments": ("apps", "Deployment", "v1"),
    "statefulsets": ("apps", "StatefulSet", "v1"),
    "daemonsets": ("apps", "DaemonSet", "v1"),
    "jobs": ("batch", "Job", "v1"),
    "replicationcontrollers": ("", "ReplicationController", "v1"),
    "persistentvolumes": ("", "PersistentVolume", "v1"),
    "persistentvolumeclaims": ("", "PersistentVolumeClaim", "v1"),
    "volumeattachments": ("storage.k8s.io", "VolumeAttachment", "v1"),
    "storageclasses": ("storage.k8s.io", "StorageClass", "v1"),
    "csidrivers": ("storage.k8s.io", "CSIDriver", "v1"),
    "csistoragecapacities": ("storage.k8s.io", "CSIStorageCapacity", "v1"),
    "csinodes": ("storage.k8s.io", "CSINode", "v1"),
    "endpointslices": ("discovery.k8s.io", "EndpointSlice", "v1"),
    "services": ("", "Service", "v1"),
    "kubecontrollermanagers": ("operator.openshift.io", "KubeControllerManager", "v1"),
    "kubeapiservers": ("operator.openshift.io", "KubeAPIServer", "v1"),
    "clusteroperators": ("config.openshift.io", "ClusterOperator", "v1"),
    "validatingwebhookconfigurations": (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "v1",
    ),
    "mutatingwebhookconfigurations": (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "v1",
    ),
}


class VirtualWorld:
    """Clocks that only move when somebody sleeps or a fault says so; sleeps are kept."""

    def __init__(self, *, skew_seconds: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._elapsed = 0.0
        self.skew_seconds = skew_seconds
        self.slept: list[float] = []

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._elapsed += seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    def server_seconds(self) -> float:
        return START_NS / SECOND_NS + self._elapsed

    def world(self, read_seconds_max: float = 20.0) -> World:
        """Return what the reader is given; its wall clock is wrong by ``skew_seconds``."""
        return World(
            monotonic=lambda: self._elapsed,
            wall_ns=lambda: START_NS + round((self._elapsed + self.skew_seconds) * SECOND_NS),
            sleep=self.sleep,
            chance=lambda: 0.5,
            read_seconds_max=read_seconds_max,
        )


class Seen(NamedTuple):
    """One request as it came in."""

    method: str
    path: str
    plural: str
    query: dict[str, str]
    headers: dict[str, list[str]]


Action = Callable[["Handler"], None]


@dataclass
class Fault:
    """What goes wrong with the requests of one list.

    ``after`` of them are answered first; then ``times`` fail (None: all that follow).
    """

    plural: str
    action: Action
    after: int = 0
    times: int | None = 1
    met: int = 0
    fired: int = 0

    def applies(self, plural: str) -> bool:
        if plural != self.plural:
            return False
        self.met += 1
        if self.met <= self.after or (self.times is not None and self.fired >= self.times):
            return False
        self.fired += 1
        return True


@dataclass
class ApiServer:
    """The state; ``serve`` runs it. ``allowed`` None lets everybody read everything."""

    clock: VirtualWorld = field(default_factory=VirtualWorld)
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    allowed: set[tuple[str, str]] | None = None
    tokens: set[str] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    compress: bool = True
    tells_time: bool = True
    tls: ssl.SSLContext | None = None
    # How long its reader puts up with silence.
    read_seconds_max: float = 20.0
    resource_version: int = 1000
    url: str = ""
    git_version: str = "v1.29.6"
    problems: list[str] = field(default_factory=list)
    # Who answers, where it is not the one that only lists.
    handler: type[Handler] | None = None

    def add(self, *objects: dict[str, Any]) -> None:
        """Store objects as the API server would: with uid and resourceVersion."""
        plurals = {kind: plural for plural, (_, kind, _) in KINDS.items()}
        for item in objects:
            self.resource_version += 1
            meta = item.setdefault("metadata", {})
            name = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
            meta.setdefault("uid", f"uid-{item['kind']}-{name}")
            meta.setdefault("resourceVersion", str(self.resource_version))
            self.objects.setdefault(plurals[item["kind"]], []).append(item)

    def items(self, plural: str, namespace: str) -> list[dict[str, Any]]:
        """Return a list's objects as a typed list has them: without kind and apiVersion."""
        found = self.objects.get(plural, [])
        return [
            {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
            for item in found
            if not namespace or item["metadata"].get("namespace") == namespace
        ]

    def lists(self, plural: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.plural == plural]

    @contextmanager
    def serve(self) -> Iterator[ApiServer]:
        """Listen on the loopback interface for the length of the block."""

        class Bound(self.handler or Handler):  # type: ignore[misc]
            api = self

        server = _Server(("127.0.0.1", 0), Bound)
        server.api = self
        if self.tls is not None:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True)
        scheme = "https" if self.tls is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        assert self.problems == [], self.problems


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    api: ApiServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        import sys

        error = sys.exc_info()[1]
        # A client that goes away in the middle of an answer is part of many tests.
        if not isinstance(error, ConnectionError | TimeoutError | ssl.SSLError):
            self.api.problems.append(repr(error))


class Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    api: ApiServer
    plural = ""
    # An answer is sent in so many pieces, each after so many virtual seconds.
    pieces = 1
    piece_seconds = 0.0
    path_parts: Sequence[str] = ()
    namespace = ""

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def send_header(self, keyword: str, value: str) -> None:
        if keyword != "Date" or self.api.tells_time:
            super().send_header(keyword, value)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(self.api.clock.server_seconds(), usegmt=True)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        parts = [part for part in address.path.split("/") if part]
        namespace = ""
        if "namespaces" in parts[:-1]:
            at = parts.index("namespaces")
            namespace = parts[at + 1]
            del parts[at : at + 2]
        self.plural = parts[-1]
        self.query = {key: values[0] for key, values in parse_qs(address.query).items()}
        headers = {name.lower(): self.headers.get_all(name) or [] for name in self.headers}
        seen = Seen("GET", address.path, self.plural, self.query, headers)
        self.api.seen.append(seen)
        for fault in self.api.faults:
            if fault.applies(self.plural):
                self.path_parts, self.namespace = parts, namespace
                fault.action(self)
                return
        self.respond(parts, namespace)

    def respond(self, parts: Sequence[str], namespace: str) -> None:
        """Answer as a healthy server does."""
        if self.api.tokens is not None and not self._is_known():
            self.status(401, "Unauthorized", "Unauthorized")
        elif self.plural == "version":
            self.answer({"major": "1", "minor": "29", "gitVersion": self.api.git_version})
        else:
            self._list(parts, namespace)

    def _refuse_method(self) -> None:
        self.api.problems.append(f"{self.command} {self.path}")
        self.status(405, "MethodNotAllowed", "only reads")

    do_POST = do_PUT = do_PATCH = do_DELETE = _refuse_method  # noqa: N815 - http.server's names

    def _is_known(self) -> bool:
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        assert self.api.tokens is not None
        return scheme.lower() == "bearer" and token in self.api.tokens

    def _list(self, parts: Sequence[str], namespace: str) -> None:
        known = KINDS.get(self.plural)
        group = parts[1] if parts[0] == "apis" else ""
        version = parts[-2]
        served = self.api.versions.get(self.plural, known[2] if known else "")
        if (
            known is None
            or known[0] != group
            or version != served
            or self.plural in self.api.missing
        ):
            self.text(404, "404 page not found\n")
            return
        if self.api.allowed is not None and (group, self.plural) not in self.api.allowed:
            self.forbidden(group)
            return
        api_version = f"{group}/{version}".lstrip("/")
        self.page(known[1], api_version, self.api.items(self.plural, namespace))

    def page(self, kind: str, api_version: str, items: list[dict[str, Any]]) -> None:
        """Answer with the page that limit and continue ask for."""
        if "as=PartialObjectMetadataList" in (self.headers.get("Accept") or ""):
            kind, api_version = "PartialObjectMetadata", "meta.k8s.io/v1"
            items = [{"metadata": item["metadata"]} for item in items]
        start, version = 0, str(self.api.resource_version)
        if token := self.query.get("continue"):
            start, version = json.loads(base64.urlsafe_b64decode(token))
        limit = int(self.query.get("limit", "0")) or len(items) or 1
        meta: dict[str, Any] = {"resourceVersion": version}
        left = len(items) - start - limit
        if left > 0:
            meta["continue"] = base64.urlsafe_b64encode(
                json.dumps([start + limit, version]).encode()
            ).decode()
            meta["remainingItemCount"] = left
        self.answer(
            {
                "kind": f"{kind}List",
                "apiVersion": api_version,
                "metadata": meta,
                "items": items[start : start + limit],
            }
        )

    def forbidden(self, group: str = "") -> None:
        where = 'in API group "' + group + '" at the cluster scope'
        self.status(
            403,
            "Forbidden",
            f'{self.plural} is forbidden: User "jane" cannot list resource "{self.plural}" {where}',
        )

    def status(self, code: int, reason: str, message: str, **headers: str) -> None:
        """Answer with a Status object."""
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        body |= {"message": message, "reason": reason}
        self.answer({**body, "code": code}, code, headers)

    def answer(self, tree: Any, code: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer with JSON, compressed when that was asked for."""
        body = json.dumps(tree).encode()
        extra = dict(headers or {})
        if self.api.compress and "gzip" in (self.headers.get("Accept-Encoding") or ""):
            body = gzip.compress(body, 1)
            extra["Content-Encoding"] = "gzip"
        self.raw(code, body, {"Content-Type": "application/json", **extra})

    def text(self, code: int, text: str, content_type: str = "text/plain", **headers: str) -> None:
        """Answer with text, as proxies and filters do."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.raw(code, text.encode(), {"Content-Type": content_type, **names})

    def raw(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        size = len(body) // self.pieces + 1
        for start in range(0, len(body), size):
            self.api.clock.advance(self.piece_seconds)
            self.wfile.write(body[start : start + size])

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()


# Faults. Each is what a server, a load balancer or a proxy really does.


def reset(handler: Handler) -> None:
    handler.reset()


def reset_in_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"kind":')
    handler.wfile.flush()
    handler.reset()


def cut_with_length(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"kind": "NodeList", "items": []}')
    handler.close_connection = True


def cut_in_chunks(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'10\r\n{"kind": "NodeLi\r\n')
    handler.close_connection = True


def cut_without_length(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(b'{"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [')
    handler.close_connection = True


def cut_gzip(handler: Handler) -> None:
    body = gzip.compress(b'{"kind": "NodeList"}' * 100)[:-12]
    handler.raw(200, body, {"Content-Type": "application/json", "Content-Encoding": "gzip"})


def damaged_gzip(handler: Handler) -> None:
    body = b"\x1f\x8b" + b"no gzip at all"
    handler.raw(200, body, {"Content-Type": "application/json", "Content-Encoding": "gzip"})


@functools.cache
def spaces(mebibytes: int) -> bytes:
    """Return gzip of that many MiB of spaces: a thousandth of it."""
    return gzip.compress(b" " * (mebibytes << 20), 6)


def gzip_bomb(mebibytes: int) -> Action:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return lambda handler: handler.raw(200, spaces(mebibytes), headers)


def status(code: int, reason: str, message: str, **headers: str) -> Action:
    def act(handler: Handler) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.status(code, reason, message, **names)

    return act


def text(code: int, body: str, content_type: str = "text/plain", **headers: str) -> Action:
    return lambda handler: handler.text(code, body, content_type, **headers)


def json_body(tree: Any) -> Action:
    return lambda handler: handler.answer(tree)


def hang(handler: Handler) -> None:
    """Accept, and never answer: longer than the reader listens to silence."""
    time.sleep(0.1)
    handler.close_connection = True


def drip(seconds: float, pieces: int) -> Action:
    """Answer rightly, but in pieces, each after so many virtual seconds."""

    def act(handler: Handler) -> None:
        handler.pieces, handler.piece_seconds = pieces, seconds
        handler.respond(handler.path_parts, handler.namespace)
        handler.pieces, handler.piece_seconds = 1, 0.0

    return act


def list_without(part: str) -> Action:
    """Answer with a list of the right kind that lacks its items, or says not of which moment it is."""

    def act(handler: Handler) -> None:
        _, kind, _ = KINDS.get(handler.plural, ("", "", ""))
        tree = {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": []}
        (tree if part in tree else tree["metadata"]).pop(part)  # type: ignore[attr-defined]
        handler.answer(tree)

    return act


def waiting(seconds: float) -> Action:
    """Ask to come again, after so many virtual seconds."""

    def act(handler: Handler) -> None:
        handler.api.clock.advance(seconds)
        handler.status(503, "ServiceUnavailable", "wait")

    return act


def no_answer(handler: Handler) -> None:
    """Close without a word."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)
