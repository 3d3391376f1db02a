"""One cluster, drained by operators who have the operator's role and nothing else, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from building.builders import encoded
from kubelets import MERGE_PATCH
from live.apply_driver import Carrier
from live.applying import drain_of, plan_of
from objects import create_budget, create_deployment
from plane import ControlPlane

from kubectl_evictplan.apply.cluster import ClusterApi
from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.mutations import cluster_api
from kubectl_evictplan.plans.document import AnyOperation, Plan

ROLES = Path(__file__).resolve().parents[2] / "deploy" / "rbac"
NODES = {"a1": "a", "a2": "a", "b1": "b"}
OPERATOR = "operator"
FOREIGN = {"key": "theirs", "value": "v", "effect": "PreferNoSchedule"}
PAUSES_SHORTER = 5.0
BUDGET_SAYS_NO = b'"outcome":"budget"'


class Change:
    """One plan for the cluster, as its operator carries it out in processes of its own."""

    def __init__(
        self, plane: ControlPlane, folder: Path, nodes: Sequence[str], **execution: Any
    ) -> None:
        self.plane = plane
        self._flags = {"kubeconfig": str(plane.kubeconfig(OPERATOR))}
        with cluster_api(ConnectionFlags(**self._flags), os.environ) as cluster:
            self.plan = made(cluster, nodes, execution)
        folder.mkdir()
        self._plan = folder / "plan.json"
        self.journal = folder / "journal.jsonl"
        self._plan.write_bytes(encoded(self.plan))

    def begin(self, what: str, user: str = "jane", faster: float = PAUSES_SHORTER) -> Carrier:
        return Carrier(what, str(self._plan), str(self.journal), self._flags, faster, user)

    def carry(self, what: str) -> int:
        return self.begin(what).finished(180)

    def ending(self) -> str:
        found = status(self.journal, LocalFiles()).state.ending
        return found.code.value if found else ""

    def await_record(self, words: bytes) -> None:
        await_record(self.journal, words)

    def evicted(self) -> set[str]:
        return {one.uid for one in self.plan.operations if hasattr(one, "uid")}


def made(cluster: ClusterApi, nodes: Sequence[str], execution: dict[str, Any]) -> Plan:
    operations: list[AnyOperation] = drain_of(cluster, *nodes, effect="NoSchedule")
    return plan_of(cluster, operations, **execution)


def spec(plane: ControlPlane, name: str) -> tuple[list[str], bool]:
    """Return the keys of a node's taints, without the controllers' own, and whether it is cordoned."""
    found = plane.api.call("GET", f"/api/v1/nodes/{name}")["spec"]
    keys = [one["key"] for one in found.get("taints") or ()]
    return [key for key in keys if "kubernetes.io" not in key], bool(found.get("unschedulable"))


def pods_on(plane: ControlPlane, node: str) -> list[dict[str, Any]]:
    path = f"/api/v1/pods?fieldSelector=spec.nodeName={node}"
    found: list[dict[str, Any]] = plane.api.call("GET", path)["items"]
    return found


def evictions(plane: ControlPlane) -> dict[str, int]:
    """Return how often the eviction of each UID was granted, by the audit log."""
    found: dict[str, int] = {}
    for event in plane.audit():
        about = event.get("objectRef") or {}
        granted = (event.get("responseStatus") or {}).get("code") == 201
        if about.get("subresource") == "eviction" and granted:
            uid = event["requestObject"]["deleteOptions"]["preconditions"]["uid"]
            found[uid] = found.get(uid, 0) + 1
    return found


def node_patches(plane: ControlPlane, before: int) -> dict[str, int]:
    """Return how often the operator's patches of each node were carried out, from that line on."""
    found: dict[str, int] = {}
    for event in plane.audit()[before:]:
        is_patch = event["verb"] == "patch" and event["objectRef"]["resource"] == "nodes"
        done = (event.get("responseStatus") or {}).get("code") == 200
        if is_patch and done and event["user"]["username"] == OPERATOR:
            if "dryRun" not in event["requestURI"]:
                name = event["objectRef"]["name"]
                found[name] = found.get(name, 0) + 1
    return found


def await_ready(plane: ControlPlane, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        pods = plane.api.call("GET", "/api/v1/pods")["items"]
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        ready = [
            pod
            for pod in alive
            for one in pod["status"].get("conditions") or ()
            if one["type"] == "Ready" and one["status"] == "True"
        ]
        budgets = plane.api.call("GET", "/apis/policy/v1/poddisruptionbudgets")["items"]
        healthy = [budget.get("status", {}).get("currentHealthy") for budget in budgets]
        if len(ready) == len(alive) == count and healthy == [count]:
            return
        time.sleep(0.1)
    raise AssertionError("the pods did not become ready again")


def set_budget(plane: ControlPlane, least: int) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web"
    plane.api.call("PATCH", path, {"spec": {"minAvailable": least}}, MERGE_PATCH)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = plane.api.call("GET", path)
        if found["status"]["observedGeneration"] == found["metadata"]["generation"]:
            return
        time.sleep(0.1)
    raise AssertionError("nobody looks at the budget")


def bind_the_operators_role(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", str(ROLES / "evictplan-operator.yaml"))
    binding = ("create", "clusterrolebinding", "operators", "--clusterrole=evictplan-operator")
    plane.kubectl(*binding, f"--user={OPERATOR}")


def fill(plane: ControlPlane) -> None:
    create_deployment(plane.api, "web", 4)
    create_budget(plane.api, "web", minAvailable=3)
    await_ready(plane, 4)
    plane.api.call("PATCH", "/api/v1/nodes/a1", {"spec": {"taints": [FOREIGN]}}, MERGE_PATCH)


def begun(plane: ControlPlane, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the program as the operator, in ``folder``."""
    return subprocess.Popen(
        [sys.executable, "-m", "kubectl_evictplan", *words],
        env=os.environ | {"KUBECONFIG": str(plane.kubeconfig(OPERATOR))},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(plane: ControlPlane, folder: Path, *words: str) -> tuple[int, str]:
    """Run the program as the operator; return its exit code and all it says."""
    process = begun(plane, folder, *words)
    text = process.communicate(timeout=180)[0]
    return process.returncode, text


def records(journal: Path) -> list[dict[str, Any]]:
    """Return the journal's records so far; one that is being written is not whole."""
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def await_record(journal: Path, words: bytes) -> None:
    """Wait until the journal has a line with these words."""
    deadline = time.monotonic() + 60
    while words not in (journal.read_bytes() if journal.exists() else b""):
        assert time.monotonic() < deadline, f"the journal never has {words!r}"
        time.sleep(0.02)
