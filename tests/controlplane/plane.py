"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

TLS and client certificates, RBAC on, an audit log. Where ``KUBEBUILDER_ASSETS`` names a folder with the
binaries, those are taken instead of the ones that ``binaries.py`` made.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import quiet
import trustme
import urllib3
from binaries import built

STARTS_WITHIN_SECONDS = 90.0
# What the first tick of the node lifecycle controller logs, whatever the nodes.
_FIRST_TICK = b"Starting node controller"
# Names of before 1.28 are understood by all releases. Taint eviction is one of its own since 1.29.
CONTROLLERS = (
    "nodelifecycle",
    "podgc",
    "disruption",
    "replicaset",
    "deployment",
    "statefulset",
    "daemonset",
    "endpointslice",
    "serviceaccount",
)
SINCE_1_29 = ("taint-eviction-controller",)
# The defaults, shortened so that a run takes seconds.
SHORT_FLAGS = {
    "node-monitor-period": "1s",
    "node-monitor-grace-period": "6s",
    "node-startup-grace-period": "8s",
    "node-eviction-rate": "0.25",
    "secondary-node-eviction-rate": "0.1",
    "large-cluster-size-threshold": "10",
}
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {"level": "Metadata", "resources": [{"group": "", "resources": ["pods", "nodes"]}]},
        {"level": "None"},
    ],
}


class Unavailable(Exception):
    """A component did not start or the API server did not answer; the message says which and why."""


class ControlPlane:
    """One cluster of processes. Use as a context manager; ``folder`` keeps certificates, logs, data."""

    def __init__(self, release: str, folder: Path, flags: Mapping[str, str]) -> None:
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        self.binaries = Path(assets) if assets else built(release)
        self.release = release
        self.flags = dict(flags)
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self._authority = trustme.CA(organization_name="evictplan tests")
        self.server = f"https://127.0.0.1:{self.port}"

    # -- life -------------------------------------------------------------------------------------

    def __enter__(self) -> ControlPlane:
        try:
            self._write_credentials()
            self._start("etcd", *self._etcd_flags())
            self.api = Api(
                self.server, self.folder / "ca.crt", self._client("admin", "system:masters")
            )
            self.start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)

    def start_all(self) -> None:
        """Start kube-apiserver, wait until it is ready, and start who works with it."""
        with quiet.starting():
            self._start("kube-apiserver", *self._apiserver_flags())
            self._await_ready()
            self.start_controller_manager()
            self._start("kube-scheduler", *self._scheduler_flags())

    def stop_all(self, *, grace_seconds: float = 0.0) -> None:
        """Stop kube-apiserver, and the controllers with it, as when their machine restarts.

        Left alone they would ask again after up to a minute each (the backoff of client-go's
        reflectors), and no pod would be replaced until then.
        """
        self.stop("kube-apiserver", grace_seconds=grace_seconds)
        self.stop("kube-scheduler")
        self.stop("kube-controller-manager")

    def start_controller_manager(self) -> float:
        """Start kube-controller-manager; returns when its node lifecycle controller first ticked."""
        name = "kube-controller-manager"
        log = self.folder / f"{name}.log"
        seen = log.stat().st_size if log.exists() else 0
        self._start(name, *self._controller_manager_flags())
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < deadline:
            if _FIRST_TICK in log.read_bytes()[seen:]:
                return time.time()
            time.sleep(0.01)
        raise Unavailable(f"{name} did not begin to watch nodes within {STARTS_WITHIN_SECONDS:g} s")

    def stop(self, name: str, *, grace_seconds: float = 0.0) -> None:
        """Kill a component at once, as a crash would, or as a kubelet does: after it was asked to end.

        A kube-apiserver that is asked to takes 60 s, as others still watch.
        """
        process = self._running.pop(name, None)
        if process is None:
            return
        if grace_seconds:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_seconds)
        process.kill()
        process.wait()

    def _start(self, name: str, *arguments: str) -> None:
        command = [str(self.binaries / name), *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def _await_ready(self) -> None:
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < deadline:
            for name, process in self._running.items():
                if process.poll() is not None:
                    log = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
                    raise Unavailable(f"{name} ended: {' / '.join(log[-3:])}")
            try:
                if self.api.request("GET", "/readyz").status == 200:
                    return
            except urllib3.exceptions.HTTPError:
                pass
            time.sleep(0.2)
        raise Unavailable(f"kube-apiserver was not ready after {STARTS_WITHIN_SECONDS:g} s")

    def waited_seconds(self) -> float:
        """How long its threads have waited for a processor, all together; 0 where nobody counts that.

        What happens between two of these moments can have come later by what lies between, not more.
        """
        waited_ns = 0
        # Asked beside the thread that starts and stops components: a copy, made in one step, and a process
        # may be gone by now.
        for process in tuple(self._running.values()):
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
                    with contextlib.suppress(OSError):
                        waited_ns += int(task.read_text().split()[1])
        return waited_ns / 1e9

    # -- what the components are started with --------------------------------------------------------

    def _etcd_flags(self) -> Sequence[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        return (
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _apiserver_flags(self) -> Sequence[str]:
        path = self.folder
        return (
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={path / 'server.crt'}",
            f"--tls-private-key-file={path / 'server.key'}",
            f"--client-ca-file={path / 'ca.crt'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={path / 'accounts.key'}",
            f"--service-account-signing-key-file={path / 'accounts.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={path / 'audit-policy.json'}",
            f"--audit-log-path={path / 'audit.log'}",
            f"--cert-dir={path / 'run'}",
        )

    def _controller_manager_flags(self) -> Sequence[str]:
        minor = int(self.release.split(".")[1])
        controllers = (*CONTROLLERS, *(SINCE_1_29 if minor >= 29 else ()))
        return (
            f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            f"--cert-dir={self.folder / 'run'}",
            f"--service-account-private-key-file={self.folder / 'accounts.key'}",
            "--use-service-account-credentials",
            *(f"--{name}={value}" for name, value in self.flags.items()),
        )

    def _scheduler_flags(self) -> Sequence[str]:
        return (
            f"--kubeconfig={self.kubeconfig('system:kube-scheduler')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            f"--cert-dir={self.folder / 'run'}",
        )

    # -- who may do what ------------------------------------------------------------------------------

    def _write_credentials(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._authority.cert_pem.write_to_path(self.folder / "ca.crt")
        self._issue("server", self._authority.issue_cert("127.0.0.1", "localhost"))
        self._issue("accounts", self._authority.issue_cert("accounts"))
        policy = json.dumps(AUDIT_POLICY)
        (self.folder / "audit-policy.json").write_text(policy, encoding="utf-8")

    def _issue(self, name: str, leaf: trustme.LeafCert) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(key)
        return certificate, key

    def _client(self, user: str, group: str = "") -> tuple[Path, Path]:
        name = user.replace(":", "-")
        if (self.folder / f"{name}.crt").exists():
            return self.folder / f"{name}.crt", self.folder / f"{name}.key"
        organisation = {"organization_name": group} if group else {}
        leaf = self._authority.issue_cert("client.invalid", common_name=user, **organisation)
        return self._issue(name, leaf)

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig for a user who comes with a client certificate; RBAC says what they may do."""
        certificate, key = self._client(user, "system:masters" if user == "admin" else "")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.server,
                        "certificate-authority": str(self.folder / "ca.crt"),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {"client-certificate": str(certificate), "client-key": str(key)},
                }
            ],
        }
        path = self.folder / f"{certificate.stem}.kubeconfig"
        path.write_text(json.dumps(config), encoding="utf-8")
        path.chmod(0o600)
        return path

    def kubectl(self, *arguments: str, user: str = "admin", timeout: float = 120.0) -> str:
        """Run kubectl of this release; returns what it prints, raises with its error otherwise."""
        done = subprocess.run(
            [str(self.binaries / "kubectl"), *arguments],
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig(user)), "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def settle(self) -> None:
        """Wait until all pods and nodes are Ready and all budgets know it, then two monitor periods more."""
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < deadline:
            pods = self.api.call("GET", "/api/v1/pods")["items"]
            nodes = self.api.call("GET", "/api/v1/nodes")["items"]
            budgets = self.api.call("GET", "/apis/policy/v1/poddisruptionbudgets")["items"]
            settled = [_is_ready(each) for each in (*pods, *nodes)]
            settled += [not node["spec"].get("taints") for node in nodes]
            settled += [_counts_all_healthy(budget.get("status", {})) for budget in budgets]
            if all(settled):
                time.sleep(2)
                return
            time.sleep(0.3)
        raise Unavailable(f"pods and nodes were not ready within {STARTS_WITHIN_SECONDS:g} s")

    def audit(self) -> list[dict[str, Any]]:
        """The API server's audit log so far."""
        lines = (self.folder / "audit.log").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]


class Api:
    """The few requests that tests make themselves, as the administrator."""

    def __init__(self, server: str, authority: Path, client: tuple[Path, Path]) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        context.load_cert_chain(*map(str, client))
        self._server = server
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, maxsize=16, timeout=10)

    def request(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> urllib3.BaseHTTPResponse:
        """One request, whatever the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind, "User-Agent": "evictplan-tests"}
        return self._pool.request(method, self._server + path, body=data, headers=headers)

    def call(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Any:
        """One request that must succeed; returns the decoded answer."""
        answer = self.request(method, path, body, kind)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.data[:400]!r}"
        return json.loads(answer.data)

    def watch(self, path: str, seconds: int) -> urllib3.BaseHTTPResponse:
        """An open watch; each line is an event."""
        return self._pool.request(
            "GET",
            f"{self._server}{path}?watch=true&timeoutSeconds={seconds}",
            preload_content=False,
            timeout=urllib3.Timeout(connect=10, read=seconds + 10),
        )


def _is_ready(one: dict[str, Any]) -> bool:
    conditions = one.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _counts_all_healthy(status: dict[str, Any]) -> bool:
    expected = status.get("expectedPods", 0)
    return expected > 0 and status.get("currentHealthy") == expected


# Starts a control plane with kubelets (``kubelets.Kubelets``) on nodes, by name and zone.
Start = Callable[..., AbstractContextManager[tuple[ControlPlane, Any]]]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
