"""Logging in: tokens, certificates, exec plugins, refreshing, impersonation, proxies of trust."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from live.api_server import START_NS, ApiServer, Fault, status
from live.certificates import make_certificates
from live.clusters import small_cluster

from kubectl_evictplan.errors import AccessError, ProblemsError, UnreachableError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.live import credentials
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.reader import read_cluster

_MADE = make_certificates()
CERTIFICATES = Path(_MADE.name)
PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with small_cluster(ApiServer()).serve() as server:
        yield server


@contextmanager
def with_tls(certificate: str = "server.pem", *, clients: bool = False) -> Iterator[ApiServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / certificate)
    if clients:
        context.load_verify_locations(CERTIFICATES / "authority.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    with small_cluster(ApiServer(tls=context)).serve() as server:
        yield server


def kubeconfig(folder: Path, api: ApiServer, user: dict[str, Any], **cluster: Any) -> str:
    """Write a kubeconfig for the server and return its path."""
    path = folder / "config"
    content = {
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "jane"}}],
        "clusters": [{"name": "dev", "cluster": {"server": api.url, **cluster}}],
        "users": [{"name": "jane", "user": user}],
    }
    path.write_text(json.dumps(content), "utf-8")
    path.chmod(0o600)
    return str(path)


def read(
    api: ApiServer, path: str = "", environ: dict[str, str] | None = None, **flags: Any
) -> ClusterSnapshot:
    flags = {"kubeconfig": path, **flags} if path else {"server": api.url, **flags}
    return read_cluster(
        ConnectionFlags()._replace(**flags),
        {"HOME": "/nonexistent", "PATH": PATH, **(environ or {})},
        world=api.clock.world(api.read_seconds_max),
    )


def refusal(api: ApiServer, path: str = "", **flags: Any) -> str:
    with pytest.raises(AccessError) as caught:
        read(api, path, **flags)
    assert all(problem.correction for problem in caught.value.problems)
    return str(caught.value)


def sent(api: ApiServer, header: str) -> set[tuple[str, ...]]:
    """Return every value that the requests had for a header."""
    return {tuple(seen.headers.get(header, ())) for seen in api.seen}


# Tokens


def test_a_token_of_the_kubeconfig_is_sent_with_every_request(
    api: ApiServer, tmp_path: Path
) -> None:
    api.tokens = {"t0k3n"}
    assert read(api, kubeconfig(tmp_path, api, {"token": "t0k3n"})).nodes
    assert sent(api, "authorization") == {("Bearer t0k3n",)}


def test_a_token_file_is_read_beside_its_kubeconfig(api: ApiServer, tmp_path: Path) -> None:
    api.tokens = {"from-file"}
    (tmp_path / "token").write_text("from-file\n", "utf-8")
    assert read(api, kubeconfig(tmp_path, api, {"tokenFile": "token"})).nodes


def test_a_name_and_password_are_sent_as_such(api: ApiServer, tmp_path: Path) -> None:
    read(api, kubeconfig(tmp_path, api, {"username": "u", "password": "p"}))
    assert sent(api, "authorization") == {("Basic dTpw",)}


def test_nobody_in_particular_sends_no_authorization(api: ApiServer, tmp_path: Path) -> None:
    read(api, kubeconfig(tmp_path, api, {}))
    assert sent(api, "authorization") == {()}


def test_a_token_that_would_break_the_header_is_refused_unseen(
    api: ApiServer, tmp_path: Path
) -> None:
    text = refusal(api, kubeconfig(tmp_path, api, {"token": "hunter2\r\nX-Evil: 1"}))
    assert "user jane holds a token that is none" in text
    assert "hunter2" not in text
    assert api.seen == []


def test_an_unknown_token_is_told_with_user_and_server(api: ApiServer, tmp_path: Path) -> None:
    api.tokens = {"other"}
    text = refusal(api, kubeconfig(tmp_path, api, {"token": "hunter2"}))
    assert "does not accept the credentials of user jane: log in again" in text
    assert f"{api.url} (context dev)" in text
    assert "hunter2" not in text


def test_an_unknown_way_to_log_in_is_never_taken_for_nobody(api: ApiServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, api, {"auth-provider": {"name": "azure", "config": {}}})
    assert "auth-provider azure is gone since kubectl 1.26" in refusal(api, path)
    assert api.seen == []


def test_an_oidc_token_that_is_none_is_never_taken_for_nobody(
    api: ApiServer, tmp_path: Path
) -> None:
    provider = {"name": "oidc", "config": {"id-token": "no-jwt"}}
    path = kubeconfig(tmp_path, api, {"auth-provider": provider})
    assert "user jane gives no credential: log in again" in refusal(api, path)
    assert api.seen == []


def test_an_oidc_token_that_is_valid_is_sent(api: ApiServer, tmp_path: Path) -> None:
    # {"alg":"none"} . {"exp":4102444800} . x: valid until 2100.
    token = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.x"
    api.tokens = {token}
    provider = {"name": "oidc", "config": {"id-token": token}}
    assert read(api, kubeconfig(tmp_path, api, {"auth-provider": provider})).nodes


@contextmanager
def identity_provider(id_token: str, refresh_token: str) -> Iterator[str]:
    """Run an issuer over TLS that refreshes tokens; give its address."""

    class Issuer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"token_endpoint": f"{address}/token"})

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            assert b"refresh_token=old-refresh" in self.rfile.read(length)
            tokens = {"id_token": id_token, "refresh_token": refresh_token}
            self._answer({**tokens, "access_token": "x", "token_type": "Bearer"})

        def _answer(self, tree: Any) -> None:
            body = json.dumps(tree).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    server = HTTPServer(("127.0.0.1", 0), Issuer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    address = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_oidc_token_that_has_expired_is_refreshed_and_kept(
    api: ApiServer, tmp_path: Path
) -> None:
    """Many providers take a refresh token once: without keeping the new one, kubectl is logged out."""
    # {"alg":"none"} . {"exp":1} . x, and one that is valid until 2100.
    expired = "eyJhbGciOiJub25lIn0.eyJleHAiOjF9.x"
    fresh = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.y"
    api.tokens = {fresh}
    with identity_provider(fresh, "new-refresh") as issuer:
        settings = {
            "idp-issuer-url": issuer,
            "idp-certificate-authority": _pem("authority"),
            "client-id": "me",
            "client-secret": "s",
            "id-token": expired,
            "refresh-token": "old-refresh",
        }
        path = kubeconfig(tmp_path, api, {"auth-provider": {"name": "oidc", "config": settings}})
        assert read(api, path).nodes

    written = yaml.safe_load(Path(path).read_text("utf-8"))
    kept = written["users"][0]["user"]["auth-provider"]["config"]
    assert kept == {**settings, "id-token": fresh, "refresh-token": "new-refresh"}
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert written["clusters"][0]["cluster"]["server"] == api.url
    assert [file.name for file in tmp_path.iterdir()] == ["config"]


# Exec plugins


def plugin(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    """Return a user entry with a plugin of that shell script."""
    path = folder / "login"
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o700)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", **more}}


def credential(**status: str) -> str:
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    return f"cat <<'EOF'\n{json.dumps({**body, 'status': status})}\nEOF"


def test_a_plugin_gives_the_token(api: ApiServer, tmp_path: Path) -> None:
    api.tokens = {"fresh"}
    assert read(api, kubeconfig(tmp_path, api, plugin(tmp_path, credential(token="fresh")))).nodes


def test_a_plugin_gets_its_arguments_its_environment_and_what_it_is_asked(
    api: ApiServer, tmp_path: Path
) -> None:
    script = (
        f'echo "$1 $PROFILE" > {tmp_path}/seen; printf %s "$KUBERNETES_EXEC_INFO" >> {tmp_path}/seen;'
        + credential(token="t")
    )
    more = {"args": ["get-token"], "env": [{"name": "PROFILE", "value": "prod"}]}
    user = plugin(tmp_path, script, provideClusterInfo=True, **more)

    read(api, kubeconfig(tmp_path, api, user))

    first, info = (tmp_path / "seen").read_text("utf-8").split("\n", 1)
    assert first == "get-token prod"
    assert json.loads(info) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": api.url}},
    }


def test_401_runs_the_plugin_once_more_and_goes_on(api: ApiServer, tmp_path: Path) -> None:
    counter = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n+1)) > {tmp_path}/n\n"
    made = credential(token="token-$n").replace("<<'EOF'", "<<EOF")
    api.tokens = {"token-0", "token-1"}
    # The server forgets the first one in the middle of the pods.
    api.faults.append(Fault("pods", _forget(api, "token-0"), after=2))

    snapshot = read(api, kubeconfig(tmp_path, api, plugin(tmp_path, counter + made)), chunk_size=2)

    assert len(snapshot.pods) == 6
    assert (tmp_path / "n").read_text("utf-8") == "2\n"
    assert sent(api, "authorization") == {("Bearer token-0",), ("Bearer token-1",)}


def _forget(api: ApiServer, token: str) -> Any:
    def act(handler: Any) -> None:
        assert api.tokens is not None
        api.tokens.discard(token)
        status(401, "Unauthorized", "Unauthorized")(handler)

    return act


def test_a_credential_is_made_anew_when_it_has_expired(api: ApiServer, tmp_path: Path) -> None:
    runs = f"echo run >> {tmp_path}/runs;"
    until = format_rfc3339(START_NS + 90_000_000_000)
    user = plugin(tmp_path, runs + credential(token="t", expirationTimestamp=until))
    api.faults.append(Fault("nodes", _wait(api, 100.0), after=1))

    read(api, kubeconfig(tmp_path, api, user), request_timeout_ns=0)

    assert (tmp_path / "runs").read_text("utf-8").count("run") == 2


def _wait(api: ApiServer, seconds: float) -> Any:
    def act(handler: Any) -> None:
        api.clock.advance(seconds)
        status(503, "ServiceUnavailable", "wait")(handler)

    return act


FAILURES = [
    ("not there", None, {"command": "no-such-plugin"}, "no-such-plugin is not installed"),
    (
        "not there, with a hint",
        None,
        {"command": "no-such-plugin", "installHint": "brew install it"},
        "is not installed; brew install it",
    ),
    ("exit code", "echo 'please log in' >&2; exit 3", {}, "ended with exit code 3: please log in"),
    ("garbage", "echo hunter2", {}, "printed no ExecCredential (8 bytes)"),
    ("nothing", "true", {}, "printed no ExecCredential (0 bytes)"),
    ("another kind", 'echo \'{"kind": "x", "status": {}}\'', {}, "printed no ExecCredential"),
    ("no credential", credential(note="hunter2"), {}, "gave neither a token nor a certificate"),
    ("half a certificate", credential(clientCertificateData="x"), {}, "but not both"),
    ("an odd expiry", credential(token="t", expirationTimestamp="soon"), {}, "that is none"),
    (
        "an old apiVersion",
        "true",
        {"apiVersion": "client.authentication.k8s.io/v1alpha1"},
        "v1beta1",
    ),
    ("needs a terminal", "true", {"interactiveMode": "Always"}, "needs a terminal"),
]


@pytest.mark.parametrize(
    ("script", "more", "message"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
def test_b133_a_plugin_that_fails_ends_before_any_request(
    api: ApiServer, tmp_path: Path, script: str | None, more: dict[str, Any], message: str
) -> None:
    """The Python client swallows all of these and goes on as nobody."""
    user = plugin(tmp_path, script or "true")
    user["exec"] |= more

    text = refusal(api, kubeconfig(tmp_path, api, user))

    assert message in text
    assert "hunter2" not in text
    assert api.seen == []


def test_a_plugin_that_hangs_is_ended(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubectl_evictplan.live import exec_plugin

    monkeypatch.setattr(exec_plugin, "SECONDS_MAX", 0.05)
    text = refusal(api, kubeconfig(tmp_path, api, plugin(tmp_path, "exec sleep 60")))
    assert "gave no credential within 0.05 s" in text


def test_what_a_plugin_says_is_shown_without_the_secrets_it_was_given(
    api: ApiServer, tmp_path: Path
) -> None:
    env = [{"name": "SECRET", "value": "hunter2hunter2"}]
    user = plugin(tmp_path, 'echo "bad $SECRET" >&2; exit 1', env=env)
    assert "bad <not shown>" in refusal(api, kubeconfig(tmp_path, api, user))


# TLS


def test_a_certificate_of_the_clusters_authority_is_trusted(tmp_path: Path) -> None:
    with with_tls() as api:
        path = kubeconfig(tmp_path, api, {}, **{"certificate-authority": _pem("authority")})
        assert read(api, path).nodes


def test_a_certificate_of_another_authority_is_refused_at_once() -> None:
    with with_tls() as api, pytest.raises(UnreachableError, match="is not trusted"):
        read(api, certificate_authority=_pem("stranger"))
    assert api.clock.slept == []


def test_an_authority_that_is_no_file_is_no_fault_of_the_user() -> None:
    with with_tls() as api:
        told = refusal(api, certificate_authority=_pem("nobody"))
    assert told.endswith(
        f"certificate authority of the cluster cannot be read: there is no file {_pem('nobody')}"
    )


def test_a_certificate_of_another_name_is_refused_at_once() -> None:
    with with_tls("elsewhere.pem") as api, pytest.raises(UnreachableError, match="is not trusted"):
        read(api, certificate_authority=_pem("authority"))


def test_tls_server_name_is_the_name_that_counts() -> None:
    with with_tls("elsewhere.pem") as api:
        flags = {"certificate_authority": _pem("authority")}
        assert read(api, tls_server_name="elsewhere.example", **flags).nodes


def test_skipping_verification_trusts_anybody() -> None:
    with with_tls("elsewhere.pem") as api:
        assert read(api, insecure_skip_tls_verify=True).nodes


def test_a_client_certificate_logs_in_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import base64
    import tempfile

    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    data = base64.b64encode((CERTIFICATES / "client.pem").read_bytes()).decode()
    user = {"client-certificate-data": data, "client-key-data": data}
    with with_tls(clients=True) as api:
        path = kubeconfig(tmp_path, api, user, **{"certificate-authority": _pem("authority")})
        assert read(api, path).nodes
    assert list(folder.iterdir()) == []


def test_a_client_certificate_that_is_missing_or_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("hunter2", "utf-8")
    with with_tls(clients=True) as api:
        for name in ("bad.pem", "none.pem"):
            user = {"client-certificate": name, "client-key": name}
            text = refusal(api, kubeconfig(tmp_path, api, user))
            assert "user jane" in text
            assert "hunter2" not in text


def _pem(name: str) -> str:
    return str(CERTIFICATES / f"{name}.pem")


# Impersonation


def test_impersonation_goes_with_every_request(api: ApiServer) -> None:
    extra = ("a/b=x", "a/b=y")
    read(api, as_user="reader", as_groups=("g1", "g2"), as_uid="7", as_user_extra=extra)
    assert sent(api, "impersonate-user") == {("reader",)}
    assert sent(api, "impersonate-group") == {("g1", "g2")}
    assert sent(api, "impersonate-uid") == {("7",)}
    assert sent(api, "impersonate-extra-a%2fb") == {("x", "y")}


def test_b136_impersonation_that_is_denied_is_said_to_be(api: ApiServer) -> None:
    message = 'users "boss" is forbidden: User "jane" cannot impersonate resource "users"'
    api.faults.append(Fault("nodes", status(403, "Forbidden", message), times=None))
    assert "impersonation denied: users" in refusal(api, as_user="boss")


# Inside a pod


def test_a_pod_reads_its_own_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("pod-token", "utf-8")
    (tmp_path / "ca.crt").write_bytes((CERTIFICATES / "authority.pem").read_bytes())
    with with_tls() as api:
        api.tokens = {"pod-token"}
        port = api.url.rpartition(":")[2]
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        snapshot = read_cluster(ConnectionFlags(), environ, world=api.clock.world())
    assert snapshot.reading is not None
    assert snapshot.reading.server == api.url


# Proxies


def test_a_proxy_that_is_not_there_is_told(api: ApiServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, api, {}, **{"proxy-url": "http://user:hunter2@127.0.0.1:9"})
    with pytest.raises(ProblemsError) as caught:
        read(api, path)
    assert caught.value.exit_code == 6
    assert "the proxy gives no connection" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_asked_about_this_machine(api: ApiServer) -> None:
    assert read(api, environ={"HTTP_PROXY": "http://127.0.0.1:9"}).nodes
