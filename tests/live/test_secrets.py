"""Forty secrets are planted in a cluster, a kubeconfig and a plugin; none comes out anywhere."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building.command_lines import Answer, Ask, asker
from live.api_server import ApiServer, Fault, status
from live.clusters import leader_lease, node, pod, service, small_cluster, workload

from kubectl_evictplan.live import lists, reader
from kubectl_evictplan.live.connecting import connected
from kubectl_evictplan.live.flags import ConnectionFlags

# The only kube-controller-manager runs on n1: without it nothing would be evicted.
WHAT_IF = ("what-if", "taint", "node", "n1", "gone=now:NoExecute")


class Vault:
    """Makes secrets that look like nothing in particular, and remembers them."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}

    def new(self, place: str) -> str:
        secret = f"zq{len(self.secrets):02}hunter{len(place)}x"
        self.secrets[secret] = place
        return secret

    def leaked(self, text: str) -> set[str]:
        """Return the places whose secret stands in the text, plain or in base64."""
        return {
            place
            for secret, place in self.secrets.items()
            if secret in text or base64.b64encode(secret.encode()).decode().rstrip("=") in text
        }


def secret_pod(vault: Vault) -> dict[str, Any]:
    """Return a pod with a secret in every place where people put them."""
    found = pod("keeper-0", "n1")
    new = vault.new
    last_applied = json.dumps({"spec": {"env": [{"name": "P", "value": new("last-applied")}]}})
    found["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": last_applied,
        "vault.example/token": new("annotation"),
        f"{new('annotation key')}.example/x": "y",
    }
    found["metadata"]["managedFields"] = [
        {"manager": new("manager"), "fieldsV1": {f"f:{new('managed field')}": {}}}
    ]
    found["metadata"]["generateName"] = new("generateName")
    env = [
        {"name": "PASSWORD", "value": new("env")},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": new("secretKeyRef"), "key": "k"}}},
        {"name": new("env name"), "value": "x"},
    ]
    container = {
        "name": "main",
        "image": f"registry.example/{new('image')}:1",
        "command": ["sh", "-c", f"login {new('command')}"],
        "args": [f"--password={new('args')}"],
        "env": env,
        "envFrom": [{"secretRef": {"name": new("envFrom")}}],
        "lifecycle": {"preStop": {"exec": {"command": [new("preStop")]}}},
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "A", "value": new("probe")}]}},
        "volumeMounts": [{"name": "s", "mountPath": f"/{new('mountPath')}"}],
        "workingDir": f"/{new('workingDir')}",
    }
    found["spec"] |= {
        "containers": [container],
        "initContainers": [{**container, "env": [{"name": "I", "value": new("init env")}]}],
        "ephemeralContainers": [{"name": "debug", "args": [new("ephemeral")]}],
        "imagePullSecrets": [{"name": new("imagePullSecrets")}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": [new("hostAliases")]}],
        "volumes": [
            {"name": "s", "secret": {"secretName": new("secret volume")}},
            {"name": "c", "configMap": {"name": new("configMap volume")}},
            {"name": "n", "csi": {"volumeAttributes": {"key": new("csi attributes")}}},
        ],
    }
    found["status"]["message"] = new("status message")
    found["status"]["containerStatuses"] = [{"state": {"waiting": {"message": new("waiting")}}}]
    return found


def secret_objects(vault: Vault) -> list[dict[str, Any]]:
    new = vault.new
    machine = node("n9")
    machine["metadata"]["annotations"] = {"cloud.example/bootstrap": new("node annotation")}
    machine["status"]["conditions"][0]["message"] = new("condition message")
    machine["status"]["addresses"] = [{"type": "Hostname", "address": new("address")}]
    owner = workload("Deployment", "keeper")
    owner["metadata"]["annotations"] = {"x": new("workload annotation")}
    owner["spec"]["template"] = {"spec": {"containers": [{"env": [{"value": new("template")}]}]}}
    front = service("keeper")
    front["spec"] |= {"clusterIP": new("clusterIP"), "loadBalancerIP": new("loadBalancerIP")}
    volume = {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {"name": "pv-1"},
        "spec": {
            "csi": {
                "driver": "disk.example",
                "volumeHandle": new("volumeHandle"),
                "volumeAttributes": {"k": new("volumeAttributes")},
                "nodeStageSecretRef": {"name": new("nodeStageSecretRef")},
            }
        },
    }
    webhook = {
        "kind": "ValidatingWebhookConfiguration",
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": "guard"},
        "webhooks": [
            {
                "name": "guard.example",
                "clientConfig": {"url": f"https://{new('webhook url')}", "caBundle": "eA=="},
                "rules": [{"apiGroups": [""], "operations": ["DELETE"], "resources": ["pods"]}],
            }
        ],
    }
    manager = {**pod("kube-controller-manager-cp", "n1", "kube-system"), "spec": {}}
    manager["metadata"]["labels"] = {"component": "kube-controller-manager"}
    manager["spec"] = {
        "nodeName": "n1",
        "containers": [
            {
                "name": "kube-controller-manager",
                "image": "registry.k8s.io/kube-controller-manager:v1.29.6",
                "command": [
                    "kube-controller-manager",
                    "--node-monitor-period=5s",
                    f"--service-account-private-key-file={new('flag of the control plane')}",
                ],
                "env": [{"name": "E", "value": new("env of the control plane")}],
            }
        ],
    }
    scheduler = leader_lease("kube-scheduler")
    scheduler["metadata"]["annotations"] = {"x": new("lease annotation")}
    return [machine, owner, front, volume, webhook, manager, scheduler]


def kubeconfig(vault: Vault, folder: Path, url: str, script: str) -> str:
    """Write a kubeconfig whose plugin runs that script; return its path."""
    plugin = folder / "login"
    plugin.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    plugin.chmod(0o700)
    new = vault.new
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./login",
            "args": [f"--key={new('plugin argument')}"],
            "env": [{"name": "KEY", "value": new("plugin environment")}],
        }
    }
    other = {"token": new("token of another user"), "password": new("password of another user")}
    path = folder / "config"
    content = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "jane"}}],
        "clusters": [{"name": "dev", "cluster": {"server": url}}],
        "users": [{"name": "jane", "user": user}, {"name": "other", "user": other}],
    }
    path.write_text(json.dumps(content), "utf-8")
    path.chmod(0o600)
    return str(path)


def credential(token: str) -> str:
    status_of = {"token": token}
    body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    return f"cat <<'EOF'\n{json.dumps({**body, 'status': status_of})}\nEOF"


@pytest.fixture
def vault() -> Vault:
    return Vault()


@pytest.fixture
def planted(vault: Vault) -> Iterator[ApiServer]:
    api = small_cluster(ApiServer())
    api.add(secret_pod(vault), *secret_objects(vault))
    with api.serve():
        yield api


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return asker(capsys, monkeypatch)


def everything(answer: Answer, *folders: Path) -> str:
    """Return all that a command printed and all files that it left."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return "\n".join([answer.out, answer.err, *(path.read_text("utf-8") for path in files)])


def test_there_are_forty_and_more(vault: Vault) -> None:
    secret_pod(vault)
    secret_objects(vault)
    assert len(vault.secrets) >= 40


@pytest.mark.parametrize(
    "output",
    ["table", "wide", "json", "yaml", "name", "markdown", "html", "findings", "junit", "github"],
)
def test_no_answer_tells_one(
    planted: ApiServer,
    vault: Vault,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    output: str,
) -> None:
    monkeypatch.setattr(reader, "World", planted.clock.world)
    token = vault.new("token of the plugin")
    planted.tokens = {token}
    path = kubeconfig(vault, tmp_path, planted.url, credential(token))

    answer = ask(*WHAT_IF, "--kubeconfig", path, "-o", output)

    assert answer.code == 0, answer.err
    # Formats for machines may have nothing to say of it.
    assert "keeper-0" in answer.out or output in ("findings", "junit", "github")
    assert vault.leaked(everything(answer, tmp_path / "temporary")) == set()


@pytest.mark.parametrize("redact", [(), ("--redact",)])
def test_no_snapshot_holds_one(
    planted: ApiServer,
    vault: Vault,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    redact: tuple[str, ...],
) -> None:
    monkeypatch.setattr(reader, "World", planted.clock.world)
    token = vault.new("token of the plugin")
    planted.tokens = {token}
    path = kubeconfig(vault, tmp_path, planted.url, credential(token))
    folder = tmp_path / "written"
    folder.mkdir()

    answer = ask("snapshot", "-o", str(folder / "c.json"), "--kubeconfig", path, *redact)

    assert answer.code == 0, answer.err
    written = everything(answer, folder, tmp_path / "temporary")
    assert vault.leaked(written) == set()
    assert ("keeper-0" in written) is not bool(redact)


SCRIPTS = {
    "garbage with a secret": "echo {secret}",
    "an ExecCredential without status": 'echo \'{{"kind": "ExecCredential", "x": "{secret}"}}\'',
    "a secret it was given, on standard error": 'echo "cannot use $KEY $1" >&2; exit 1',
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_error_about_a_plugin_tells_one(
    planted: ApiServer, vault: Vault, ask: Ask, tmp_path: Path, name: str
) -> None:
    script = SCRIPTS[name].format(secret=vault.new("output of the plugin"))
    path = kubeconfig(vault, tmp_path, planted.url, script)

    answer = ask(*WHAT_IF, "--debug", "--kubeconfig", path)

    assert answer.code == 5
    assert vault.leaked(everything(answer, tmp_path / "temporary")) == set()


def test_no_error_of_a_server_tells_the_token_it_was_sent(
    planted: ApiServer, vault: Vault, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "World", planted.clock.world)
    token = vault.new("--token")
    message = f"bad token {token} of system:anonymous"
    for code, reason in ((403, "Forbidden"), (422, "Invalid")):
        planted.faults[:] = [Fault("nodes", status(code, reason, message), times=None)]
        answer = ask(*WHAT_IF, "-s", planted.url, "--token", token)
        assert answer.code in (5, 6)
        assert "bad token <not shown>" in answer.err
        assert vault.leaked(answer.err) == set()


def test_no_bug_tells_one(
    planted: ApiServer,
    vault: Vault,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(reader, "World", planted.clock.world)
    token = vault.new("--token")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"unexpected header Bearer {token}")

    monkeypatch.setattr(lists._Lists, "whole", broken)

    answer = ask(*WHAT_IF, "--debug", "-s", planted.url, f"--token={token}")

    assert answer.code == 8
    (report,) = (tmp_path / "temporary").iterdir()
    assert "Traceback" in report.read_text("utf-8")
    assert vault.leaked(everything(answer, tmp_path / "temporary")) == set()


def test_a_token_typed_twice_is_not_repeated(vault: Vault, ask: Ask) -> None:
    first, second = vault.new("--token"), vault.new("--token")
    answer = ask(*WHAT_IF, "--token", first, "--token", second)
    assert answer.code == 2
    assert vault.leaked(answer.err) == set()


# Hostile strings


HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202egnp\u009b2J"


def test_what_a_server_says_cannot_steer_the_terminal(
    planted: ApiServer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "World", planted.clock.world)
    planted.git_version = f"v1.29.6{HOSTILE}"
    planted.faults.append(Fault("nodes", status(403, "Forbidden", HOSTILE), times=None))
    planted.faults.append(Fault("services", status(403, "Forbidden", HOSTILE), times=None))

    answer = ask(*WHAT_IF, "-s", planted.url)

    assert answer.code == 5
    assert all(line.isprintable() for line in answer.err.splitlines())


def test_what_a_server_says_of_a_kind_cannot_steer_the_terminal(
    planted: ApiServer, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reader, "World", planted.clock.world)
    planted.git_version = f"v1.29.6{HOSTILE}"
    planted.faults.append(Fault("services", status(403, "Forbidden", HOSTILE), times=None))

    answer = ask("snapshot", "-o", str(tmp_path / "c.json"), "-s", planted.url)

    assert answer.code == 0
    assert "not evaluated: Service, forbidden" in answer.out
    assert all(line.isprintable() for line in (answer.out + answer.err).splitlines())


def test_what_a_plugin_says_cannot_steer_the_terminal(
    planted: ApiServer, vault: Vault, ask: Ask, tmp_path: Path
) -> None:
    script = r"printf '\033[31mlog in\007\n' >&2; exit 1"
    path = kubeconfig(vault, tmp_path, planted.url, script)
    answer = ask(*WHAT_IF, "--kubeconfig", path)
    assert answer.code == 5
    assert all(line.isprintable() for line in answer.err.splitlines())


def test_a_name_of_the_kubeconfig_cannot_steer_the_terminal(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps({"current-context": HOSTILE}), "utf-8")
    path.chmod(0o600)
    answer = ask(*WHAT_IF, "--kubeconfig", str(path))
    assert answer.code == 2
    assert all(line.isprintable() for line in answer.err.splitlines())


# Nothing but the API server is ever asked


OFFLINE = [
    ("version",),
    ("schema", "prediction"),
    ("what-if", "fail", "zone", "eu-1a", "-f", "{cluster}"),
    ("what-if", "taint", "node", "a1", "m=t:NoExecute", "-f", "{cluster}", "-o", "json"),
    ("snapshot", "-f", "{cluster}", "-o", "{folder}/s.json.gz"),
    ("snapshot", "-f", "{cluster}", "-o", "{folder}/r.json.gz", "--redact"),
]


@pytest.mark.parametrize("words", OFFLINE, ids=[" ".join(words[:3]) for words in OFFLINE])
def test_offline_commands_open_no_socket_and_load_no_client(
    words: tuple[str, ...], tmp_path: Path, fixtures_path: Path
) -> None:
    import subprocess

    cluster = str(fixtures_path / "examples" / "mini-cluster.yaml")
    filled = [word.format(cluster=cluster, folder=tmp_path) for word in words]
    code = (
        "import socket, sys\n"
        "def refuse(*_, **__): raise SystemExit('a socket was opened')\n"
        "socket.socket.__init__ = refuse\n"
        "socket.getaddrinfo = refuse\n"
        "from kubectl_evictplan import cli\n"
        f"code = cli.run({filled!r})\n"
        "assert code == 0, code\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'kubernetes', 'urllib3', 'requests', 'ssl'}, loaded\n"
    )
    # A kubeconfig is there, and must not be looked at.
    environment = {"KUBECONFIG": "/dev/null", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("no credential in it"), ValueError),
        (ValueError("it quotes a-token-of-somebody"), AssertionError),
    ],
)
def test_only_an_error_that_quotes_a_credential_is_told_otherwise(
    error: Exception, raised: type[Exception]
) -> None:
    flags = ConnectionFlags(server="http://127.0.0.1:1", token="a-token-of-somebody")

    with pytest.raises(raised) as caught, connected(flags, {}):
        raise error
    assert "a-token-of-somebody" not in str(caught.value)
