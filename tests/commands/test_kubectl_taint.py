"""``kubectl taint`` itself, against a tiny API server on this machine, changes what we say it does.

The server answers discovery, two nodes, and records patches; kubectl's verdict (its exit status)
and the taints it sends are compared with ours, node by node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kubectl_evictplan.commands.node_arguments import NodeArguments
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Taint
from kubectl_evictplan.kube.selectors import parse_label_selector
from kubectl_evictplan.kube.taints import with_taint_put_first, without_taint
from kubectl_evictplan.scenarios.actions.nodes import AddTaint
from kubectl_evictplan.scenarios.taint_arguments import parse_taint_arguments, resolve_taint_events

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

NODES = {
    "n1": Node(
        "n1",
        labels={"pool": "blue"},
        taints=(Taint("a", "NoExecute", "1"), Taint("a", "NoSchedule"), Taint("b", "NoSchedule")),
    ),
    "n2": Node("n2"),
}
NODE_RESOURCE = {
    "name": "nodes",
    "singularName": "node",
    "namespaced": False,
    "kind": "Node",
    "verbs": ["get", "list", "patch"],
    "shortNames": ["no"],
}


@dataclass
class ApiServer:
    url: str = ""
    patches: dict[str, dict[str, Any]] = field(default_factory=dict)


def manifest(node: Node) -> dict[str, Any]:
    taints = [{"key": t.key, "effect": t.effect, "value": t.value} for t in node.taints]
    metadata = {"name": node.name, "labels": dict(node.labels)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}}


def answer(path: str) -> dict[str, Any] | None:
    url = urlsplit(path)
    if url.path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if url.path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
    if url.path == "/api/v1":
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": [NODE_RESOURCE]}
    if url.path == "/api/v1/nodes":
        selector = parse_label_selector(parse_qs(url.query).get("labelSelector", [""])[0])
        items = [manifest(node) for node in NODES.values() if selector.matches(node.labels)]
        return {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items}
    node = NODES.get(url.path.rpartition("/")[2])
    return None if node is None else manifest(node)


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    state = ApiServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(answer(self.path))

        def do_PATCH(self) -> None:
            name = urlsplit(self.path).path.rpartition("/")[2]
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.patches[name] = body
            self._send(answer(self.path))

        def _send(self, body: dict[str, Any] | None) -> None:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
            data = json.dumps(body or {**status, "reason": "NotFound"}).encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}"
        Thread(target=http.serve_forever, daemon=True).start()
        yield state
        http.shutdown()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kube")


def run_kubectl(server: ApiServer, cache: Path, *words: str) -> tuple[bool, str]:
    server.patches.clear()
    command = ["kubectl", f"--server={server.url}", f"--cache-dir={cache}"]
    environ = {**os.environ, "KUBECONFIG": str(cache / "none"), "HOME": str(cache)}
    run = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=60, check=False, env=environ
    )
    return run.returncode == 0, run.stderr


Changes = dict[str, list[tuple[str, str, str]]]


def taints_sent(server: ApiServer) -> Changes:
    return {
        name: [
            (taint["key"], taint["effect"], taint.get("value", ""))
            for taint in patch["spec"]["taints"] or ()
        ]
        for name, patch in server.patches.items()
    }


def ours(words: list[str]) -> tuple[bool, Changes]:
    """Return (all well, the taints of every node that changes) by our reading of the words."""
    options: dict[str, Any] = {}
    arguments = []
    for word in words:
        if word == "--all":
            options["all_nodes"] = True
        elif word == "--overwrite":
            options["overwrite"] = True
        elif word.startswith("-l"):
            options["selector"] = word[2:]
        else:
            arguments.append(word)
    try:
        request = parse_taint_arguments(arguments, **options)
        selector, all_nodes = options.get("selector", ""), "all_nodes" in options
        named = NodeArguments(request.node_names, selector, all_nodes)
        nodes = named.nodes(ClusterSnapshot(nodes=tuple(NODES.values())))
        events, warnings = resolve_taint_events(request, nodes)
    except InputError:
        return False, {}
    changed: dict[str, tuple[Taint, ...]] = {}
    for event in events:
        for name in event.nodes:
            taints = changed.get(name, NODES[name].taints)
            if isinstance(event, AddTaint):
                changed[name] = with_taint_put_first(taints, event.taint)
            else:
                changed[name] = without_taint(taints, event.removal.key, event.removal.effect)
    result = {
        name: [(taint.key, taint.effect, taint.value) for taint in taints]
        for name, taints in changed.items()
    }
    return not any(w.code == "kubectl-refuses" for w in warnings), result


@pytest.mark.parametrize(
    "words",
    [
        "node n1 k=v:NoExecute",
        "nodes n1 n2 k:NoExecute c=2:NoSchedule",
        "NODE n2 k:NoExecute",
        "no n2 k:NoExecute",
        "node/n1 k:NoExecute",
        "node node/n2 k:NoExecute",
        "pod n1 k:NoExecute",
        "node n1 a=2:NoExecute",
        "node n1 a=1:NoExecute",
        "node n1 a=2:NoExecute --overwrite",
        "node n1 a-",
        "node n1 a:NoExecute-",
        "node n1 a=zzz:NoExecute-",
        "node n1 a:NoExecute- a-",
        "node n1 a- a:NoExecute-",
        "node n1 b:NoSchedule- b-",
        "node n1 c-",
        "node n1 n2 a-",
        "node --all b-",
        "node --all k=v:NoExecute",
        "node --all n1 k:NoExecute",
        "node --all -lpool=blue k:NoExecute",
        "node -lpool=blue k:NoExecute",
        "node -lpool=blue n2 k:NoExecute",
        "node n1 k:NoExecute k-",
        "node n1 k:NoExecute k:NoExecute-",
        "node n2 k:NoExecute k:NoSchedule-",
        "node n1 a:PreferNoSchedule a:NoSchedule-",
        "node n9 k:NoExecute",
        "node n1 n9 k:NoExecute",
        "node k:NoExecute",
        "node n1",
        "k:NoExecute",
    ],
)
def test_kubectl_taint_does_what_we_say(server: ApiServer, cache: Path, words: str) -> None:
    accepted, stderr = run_kubectl(server, cache, "taint", *words.split())
    expected, changed = ours(words.split())
    if "n9" not in words:
        assert changed == taints_sent(server), stderr
    assert accepted == expected, stderr


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("n1", {"n1"}),
        ("node/n1 nodes/n2", {"n1", "n2"}),
        ("no/n1 n2", {"n1", "n2"}),
        ("-lpool=blue", {"n1"}),
        ("pod/n1", set()),
        ("n1 -lpool=blue", set()),
    ],
)
def test_kubectl_cordon_takes_the_same_words(
    server: ApiServer, cache: Path, words: str, names: set[str]
) -> None:
    run_kubectl(server, cache, "cordon", *words.split())
    assert set(server.patches) == names
