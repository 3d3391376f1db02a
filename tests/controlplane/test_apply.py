"""Plans carried out on real control planes, by a user who has the operator's role and nothing else.

One cluster for each release; what happens to it happens in the order of ``test_plans_on_a_real_cluster``.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kubelets import MERGE_PATCH, Kubelets
from live.apply_driver import Carrier
from live.applying import drain_of, plan_of
from objects import create_budget, create_deployment
from plane import ControlPlane, Start

from kubectl_evictplan.apply.cluster import Access, ClusterApi
from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.errors import EXIT_PARTLY, EXIT_UNKNOWN
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.mutations import cluster_api
from kubectl_evictplan.plans.document import AnyOperation, Plan

pytestmark = pytest.mark.live

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
        self._plan.write_bytes(msgspec.json.encode(self.plan))

    def begin(self, what: str, user: str = "jane", faster: float = PAUSES_SHORTER) -> Carrier:
        return Carrier(what, str(self._plan), str(self.journal), self._flags, faster, user)

    def carry(self, what: str) -> int:
        return self.begin(what).finished(180)

    def ending(self) -> str:
        found = status(self.journal, LocalFiles()).state.ending
        return found.code.value if found else ""

    def await_record(self, words: bytes) -> None:
        """Wait until the journal has a line with these words."""
        deadline = time.monotonic() + 60
        while words not in (self.journal.read_bytes() if self.journal.exists() else b""):
            assert time.monotonic() < deadline, f"the journal never has {words!r}"
            time.sleep(0.02)

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


# What happens, in this order.


def the_operators_role_allows_no_more(plane: ControlPlane, folder: Path) -> None:
    flags = ConnectionFlags(kubeconfig=str(plane.kubeconfig(OPERATOR)))
    lease = ("leases", "coordination.k8s.io", "", "default")
    with cluster_api(flags, os.environ) as cluster:
        assert cluster.may(Access("update", *lease, "evictplan-apply"))
        for access in (
            Access("update", *lease, "another"),
            Access("delete", "pods", namespace="default"),
            Access("patch", "pods", namespace="default"),
            Access("create", "pods", namespace="default"),
            Access("delete", "nodes"),
            Access("get", "secrets", namespace="default"),
            Access("impersonate", "users"),
        ):
            assert cluster.may(access) is False, access


def a_node_is_tainted_cordoned_and_drained_within_its_budget(
    plane: ControlPlane, folder: Path
) -> None:
    change = Change(plane, folder, ["a1"])
    assert change.carry("run") == 0
    assert spec(plane, "a1") == (["theirs", "maintenance"], True)
    assert pods_on(plane, "a1") == []
    await_ready(plane, 4)
    assert change.carry("rollback") == 0
    assert spec(plane, "a1") == (["theirs"], False)


def killed_at_random_moments_it_goes_on(plane: ControlPlane, folder: Path) -> None:
    chance, died = random.Random(len(plane.release)), 0
    change = Change(plane, folder, ["a2", "b1"])
    for _ in range(6):
        what = "resume" if change.journal.exists() else "run"
        died += change.begin(what).kill_after(chance.uniform(0.05, 0.8))
    assert change.carry("resume" if change.journal.exists() else "run") == 0
    assert died
    assert [spec(plane, name) for name in ("a2", "b1")] == [(["maintenance"], True)] * 2
    assert pods_on(plane, "a2") == []
    await_ready(plane, 4)
    assert change.carry("rollback") == 0
    assert [spec(plane, name) for name in ("a2", "b1")] == [([], False)] * 2
    # Once each; of one whose client died meanwhile the server may not say that it was granted.
    granted = evictions(plane)
    assert max(granted.values()) == 1
    assert len(change.evicted() - granted.keys()) <= died


def a_server_that_is_restarted_does_not_end_it(plane: ControlPlane, folder: Path) -> None:
    """Killed while a node is changed, ended in order while pods are evicted; nobody goes on by hand."""
    change = Change(plane, folder, ["a1", "b1"])
    before = len(plane.audit())
    running = change.begin("run", faster=1.0)
    change.await_record(b'"kind":"cordon"')
    plane.stop_all()
    plane.start_all()
    change.await_record(BUDGET_SAYS_NO)
    plane.stop_all(grace_seconds=2.0)
    plane.start_all()
    assert running.finished(300) == 0, change.ending()
    assert [spec(plane, name) for name in ("a1", "b1")] == [
        (["theirs", "maintenance"], True),
        (["maintenance"], True),
    ]
    assert pods_on(plane, "a1") == []
    await_ready(plane, 4)
    # What the killed server did last it may not have told.
    granted = evictions(plane)
    assert max(granted.values()) == 1
    assert len(change.evicted() - granted.keys()) <= 1
    assert all(count <= 2 for count in node_patches(plane, before).values())
    assert change.carry("rollback") == 0
    assert [spec(plane, name) for name in ("a1", "b1")] == [(["theirs"], False), ([], False)]


def killed_with_the_server_it_is_resumed(plane: ControlPlane, folder: Path) -> None:
    change = Change(plane, folder, ["a2", "b1"])
    before = len(plane.audit())
    carrier = change.begin("run")
    change.await_record(BUDGET_SAYS_NO)
    plane.stop_all()
    carrier.kill_after(0.2)
    assert change.carry("resume") in (EXIT_PARTLY, EXIT_UNKNOWN)
    assert change.ending() == "unreachable"
    plane.start_all()
    assert change.carry("resume") == 0, change.ending()
    assert [spec(plane, name) for name in ("a2", "b1")] == [(["maintenance"], True)] * 2
    assert pods_on(plane, "a2") == []
    await_ready(plane, 4)
    granted = evictions(plane)
    assert max(granted.values()) == 1
    assert len(change.evicted() - granted.keys()) <= 1
    assert all(count <= 2 for count in node_patches(plane, before).values())
    assert change.carry("rollback") == 0


def a_drain_that_hangs_is_interrupted_and_taken_back(plane: ControlPlane, folder: Path) -> None:
    set_budget(plane, 4)
    change = Change(plane, folder, ["a1"])
    before = {pod["metadata"]["uid"] for pod in pods_on(plane, "a1")}
    carrier = change.begin("run")
    change.await_record(BUDGET_SAYS_NO)
    os.kill(carrier.process.pid or 0, signal.SIGINT)
    assert carrier.finished() == 130
    assert change.ending() == "interrupted"
    assert change.carry("rollback") == 0
    assert spec(plane, "a1") == (["theirs"], False)
    assert {pod["metadata"]["uid"] for pod in pods_on(plane, "a1")} == before


def a_drain_ends_when_its_time_is_over(plane: ControlPlane, folder: Path) -> None:
    change = Change(plane, folder, ["a1"], eviction_timeout_seconds=8.0)
    assert change.carry("run") == 3
    assert change.ending() == "timed-out"
    assert change.carry("rollback") == 0


def of_two_operators_one_has_to_wait(plane: ControlPlane, folder: Path) -> None:
    first = Change(plane, folder, ["a1"])
    second = Change(plane, folder.with_name("second"), ["a2"])
    running = first.begin("run")
    deadline = time.monotonic() + 30
    while spec(plane, "a1")[1] is False:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert second.begin("run", user="joe").finished() == 4
    assert second.ending() == "locked"
    assert spec(plane, "a2") == ([], False)
    os.kill(running.process.pid or 0, signal.SIGTERM)
    assert running.finished() == 130
    assert first.carry("rollback") == 0


def the_commands_themselves_do_it(plane: ControlPlane, folder: Path) -> None:
    folder.mkdir()
    set_budget(plane, 3)

    def evictplan(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "kubectl_evictplan", *words],
            env=os.environ | {"KUBECONFIG": str(plane.kubeconfig(OPERATOR))},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    drain = ("drain", "a2", "--ignore-daemonsets")
    code, said = evictplan("what-if", *drain, "--out", "plan.json")
    assert code == 0, said
    code, said = evictplan("apply", "plan.json", "--yes")
    assert code == 0, said
    assert spec(plane, "a2") == ([], True)
    assert pods_on(plane, "a2") == []
    code, said = evictplan("apply", "--rollback", "plan.journal.jsonl", "--yes")
    assert code == 0, said
    assert spec(plane, "a2") == ([], False)
    await_ready(plane, 4)
    taint = ("taint", "node", "a1", "maintenance=yes:NoSchedule")
    code, said = evictplan("apply", *taint, "--yes")
    assert code == 0, said
    assert spec(plane, "a1") == (["theirs", "maintenance"], False)
    taint = ("taint", "node", "a1", "maintenance=yes:NoSchedule-")
    assert evictplan("apply", *taint, "--yes")[0] == 0
    assert spec(plane, "a1") == (["theirs"], False)


def a_node_made_anew_in_the_middle_is_not_touched(plane: ControlPlane, folder: Path) -> None:
    set_budget(plane, 4)
    change = Change(plane, folder, ["a1", "b1"])
    running = change.begin("run")
    change.await_record(BUDGET_SAYS_NO)
    plane.api.call("DELETE", "/api/v1/nodes/a1")
    newer = {"metadata": {"name": "a1"}, "spec": {"providerID": "test:///a/new"}}
    plane.api.call("POST", "/api/v1/nodes", newer)
    set_budget(plane, 3)
    assert running.finished(90) == 4, change.ending()
    assert change.ending() == "drift"
    assert spec(plane, "a1") == ([], False)
    # What is still its own is taken back; of the newcomer nothing is.
    assert change.carry("rollback") == 0
    assert spec(plane, "b1") == ([], False)
    assert spec(plane, "a1") == ([], False)


def a_node_made_anew_is_not_touched(plane: ControlPlane, folder: Path) -> None:
    change = Change(plane, folder, ["b1"])
    plane.api.call("DELETE", "/api/v1/nodes/b1")
    newer = {"metadata": {"name": "b1"}, "spec": {"providerID": "test:///b/new"}}
    plane.api.call("POST", "/api/v1/nodes", newer)
    assert change.carry("run") == 4
    assert change.ending() == "drift"
    assert spec(plane, "b1") == ([], False)


STORIES = (
    the_operators_role_allows_no_more,
    a_node_is_tainted_cordoned_and_drained_within_its_budget,
    killed_at_random_moments_it_goes_on,
    a_server_that_is_restarted_does_not_end_it,
    killed_with_the_server_it_is_resumed,
    a_drain_that_hangs_is_interrupted_and_taken_back,
    a_drain_ends_when_its_time_is_over,
    of_two_operators_one_has_to_wait,
    the_commands_themselves_do_it,
    a_node_made_anew_in_the_middle_is_not_touched,
    a_node_made_anew_is_not_touched,
)


def test_plans_on_a_real_cluster(start: Start, tmp_path: Path) -> None:
    with start(NODES, ready_after_seconds=0.5) as (plane, kubelets):
        assert isinstance(kubelets, Kubelets)
        bind_the_operators_role(plane)
        fill(plane)
        for story in STORIES:
            began = time.monotonic()
            story(plane, tmp_path / story.__name__)
            print(f"{story.__name__}: {time.monotonic() - began:.1f} s")
