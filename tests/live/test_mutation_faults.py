"""Every fault at every kind of mutation: what is said of it, what was done, how often it was sent.

The table of faults is ``mutation_faults.FAULTS``; a fault without an expectation cannot be written there.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live.api_server import Fault as Armed
from live.certificates import make_certificates
from live.changing import (
    TAINT,
    changing,
    evict_request,
    node,
    small_writable_cluster,
    taint_request,
)
from live.mutation_faults import FAULTS
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import ClusterApi, Outcome, Reply, Request
from kubectl_evictplan.live import transport

_MADE = make_certificates()
CERTIFICATES = Path(_MADE.name)
Prepare = Callable[[ClusterApi], Callable[[], Reply]]


def sending(make: Callable[[ClusterApi], Request]) -> Prepare:
    def prepare(cluster: ClusterApi) -> Callable[[], Reply]:
        request = make(cluster)
        return lambda: cluster.send(request)

    return prepare


def renewing(cluster: ClusterApi) -> Callable[[], Reply]:
    assert cluster.create_lease("default", "evictplan-apply", "jane", 60).outcome is Outcome.APPLIED
    lease = cluster.get_lease("default", "evictplan-apply")
    assert lease is not None
    return lambda: cluster.update_lease(lease, "jane", 60)


SITES: dict[str, tuple[str, Prepare]] = {
    "taint": ("patch nodes", sending(taint_request)),
    "evict": ("create pods/eviction", sending(evict_request)),
    "cordon": ("patch nodes", sending(lambda api: api.cordon_request(node(api, "n2"), True))),
    "create the lock": (
        "create leases",
        lambda api: lambda: api.create_lease("default", "evictplan-apply", "jane", 60),
    ),
    "renew the lock": ("update leases", renewing),
}
# Every fault at one kind of mutation; at the others those that differ from kind to kind.
PARTICULAR = ("F8 not there", "F28 reset, done", "F30 Status with 200", "F30 another object")
CELLS = [
    pytest.param(
        fault,
        site,
        id=f"{fault}: {site}",
        marks=[] if site == "taint" or fault in PARTICULAR else [pytest.mark.slow],
    )
    for fault in FAULTS
    for site in SITES
]


@pytest.mark.parametrize(("fault", "site"), CELLS)
def test_every_fault_of_a_mutation_is_told_as_what_it_is(
    fault: str, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1 << 20)
    row, (place, prepare) = FAULTS[fault], SITES[site]
    api = small_writable_cluster()
    with api.serve(), changing(api) as cluster:
        send = prepare(cluster)
        before, asked = len(api.executed), api.sites.count(place)
        if "silence" in fault:
            api.read_seconds_max = 0.02
            cluster._transport._world = api.clock.world(0.02)  # type: ignore[attr-defined]
        api.faults.append(Armed(place, row.action, times=None))
        reply = send()

    expected = row.outcome
    if row.eviction and site == "evict":
        expected = row.eviction
    assert (reply.outcome, reply.retry_after_seconds) == (expected, row.retry_after_seconds), reply
    assert api.sites.count(place) - asked == row.requests
    assert len(api.executed) - before == row.executes
    assert "<" not in reply.message
    assert reply.node is None
    assert reply.elapsed_ns >= 0


# Before anything was written: nothing can have been done.


def taint_of_nobody(cluster: ClusterApi) -> Reply:
    from kubectl_evictplan.apply.cluster import LiveNode

    before = LiveNode("n1", "uid", "1", (), False, "True")
    return cluster.send(cluster.taint_request(before, [TAINT]))


def test_nothing_was_sent_where_nobody_listens() -> None:
    api = small_writable_cluster()
    with api.serve():
        pass
    with changing(api) as cluster:
        reply = taint_of_nobody(cluster)
    assert reply.outcome is Outcome.NOT_SENT
    assert "refused" in reply.message


def test_nothing_was_sent_to_a_name_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    api = small_writable_cluster()
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with changing(api, server="https://nobody.invalid:6443") as cluster:
        assert taint_of_nobody(cluster).outcome is Outcome.NOT_SENT


def with_tls(certificate: str) -> WritableServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{certificate}.pem")
    return small_writable_cluster(tls=context)


@pytest.mark.parametrize(
    ("certificate", "authority", "outcome"),
    [
        ("server", "authority", Outcome.CONFLICT),
        ("server", "stranger", Outcome.NOT_SENT),
        ("elsewhere", "authority", Outcome.NOT_SENT),
    ],
)
def test_nothing_was_sent_to_a_server_that_is_not_trusted(
    certificate: str, authority: str, outcome: Outcome
) -> None:
    api = with_tls(certificate)
    trusted = str(CERTIFICATES / f"{authority}.pem")
    with api.serve(), changing(api, certificate_authority=trusted) as cluster:
        assert taint_of_nobody(cluster).outcome is outcome
    assert len(api.sites) == (outcome is Outcome.CONFLICT)


def test_nothing_was_sent_to_a_server_without_tls() -> None:
    api = small_writable_cluster()
    with api.serve():
        secure = api.url.replace("http:", "https:")
        with changing(api, server=secure, insecure_skip_tls_verify=True) as cluster:
            assert taint_of_nobody(cluster).outcome is Outcome.NOT_SENT
    assert api.sites == []


@contextlib.contextmanager
def listener(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that reads once, answers that, and closes; gives its port and what it read."""
    read: list[bytes] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            read.append(connection.recv(65536))
            connection.sendall(answer)
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1], read
    thread.join(5)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 Forbidden\r\n\r\n", b""])
def test_nothing_was_sent_through_a_proxy_that_gives_no_way(answer: bytes, tmp_path: Path) -> None:
    api = small_writable_cluster()
    with listener(answer) as (port, read):
        config = tmp_path / "config"
        config.write_text(
            "current-context: c\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: 'https://api.example:6443', "
            f"insecure-skip-tls-verify: true, proxy-url: 'http://127.0.0.1:{port}'}}}}]\n"
            "users: [{name: u, user: {token: a-token-of-jane}}]\n",
            "utf-8",
        )
        config.chmod(0o600)
        with changing(api, server="", kubeconfig=str(config)) as cluster:
            reply = taint_of_nobody(cluster)
    assert reply.outcome is Outcome.NOT_SENT
    assert read[0].startswith(b"CONNECT api.example:6443")
    assert b"maintenance" not in read[0]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 2", b"SSH-2.0-OpenSSH_9.6\r\n"])
def test_what_was_written_to_something_that_is_no_server_is_unknown(answer: bytes) -> None:
    api = small_writable_cluster()
    with (
        listener(answer) as (port, read),
        changing(api, server=f"http://127.0.0.1:{port}") as cluster,
    ):
        assert taint_of_nobody(cluster).outcome is Outcome.UNKNOWN
    assert read[0].count(b"PATCH /api/v1/nodes/n1") == 1


def test_each_line_of_the_table_is_reached_by_a_fault() -> None:
    from kubectl_evictplan.live.replies import RULES

    reached = {row.outcome for row in FAULTS.values()}
    assert {rule.outcome for rule in RULES} <= reached
