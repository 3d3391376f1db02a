"""What is read of a real API server: the same as kubectl's dump and as the snapshot, under RBAC."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from objects import create_budget, create_deployment, create_pod, tolerate
from plane import ControlPlane, Start

from kubectl_evictplan.errors import AccessError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.reader import read_cluster
from kubectl_evictplan.live.resources import RESOURCES
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.redaction import redact
from kubectl_evictplan.sources.snapshot import decode_document, encode_snapshot

pytestmark = pytest.mark.live

ROLES = Path(__file__).resolve().parents[2] / "deploy" / "rbac"
NODES = {"a1": "a", "a2": "a", "b1": "b"}
PARTS = ("nodes", "pods", "leases", "workloads", "budgets", "webhooks", "infrastructure")


def read(plane: ControlPlane, user: str = "admin", **flags: object) -> ClusterSnapshot:
    connection = ConnectionFlags(kubeconfig=str(plane.kubeconfig(user)))._replace(**flags)
    return read_cluster(connection, os.environ)


@pytest.fixture(scope="module")
def plane(start_for_all: Start) -> Iterator[ControlPlane]:
    """A cluster with some pods, owners and a budget; nothing in it moves any more."""
    with start_for_all(NODES, flags={}) as (plane, kubelets):
        create_pod(plane.api, "bare", "a1", [tolerate("maintenance", 7)])
        create_deployment(plane.api, "web", 4)
        create_budget(plane.api, "web", minAvailable=2)
        plane.settle()
        kubelets.stop()
        yield plane


def test_live_dump_and_snapshot_are_the_same_cluster(plane: ControlPlane, tmp_path: Path) -> None:
    live = read(plane, chunk_size=1)
    again = read(plane)
    plurals = ",".join(f"{one.plural}.{one.group}".rstrip(".") for one in RESOURCES)
    path = tmp_path / "dump.json"
    path.write_text(plane.kubectl("get", plurals, "-A", "-o", "json"), "utf-8")
    dump = load_files([str(path)])

    assert len(live.nodes) == 3
    assert len(live.pods) == 5
    assert live.denied == ()
    for part in PARTS:
        assert getattr(live, part) == getattr(dump, part) == getattr(again, part), part
    assert live.control_plane.kubernetes_version == plane.release
    assert decode_document(encode_snapshot(live, compress=False)) == live
    assert len(redact(live, b"key").pods) == 5


def test_the_readers_role_is_enough_and_nothing_less_is(plane: ControlPlane) -> None:
    with pytest.raises(AccessError, match="the missing rule of a ClusterRole"):
        read(plane, "jane")
    with pytest.raises(AccessError, match="impersonation denied"):
        read(plane, "jane", as_user="admin")
    plane.kubectl("apply", "-f", str(ROLES / "evictplan-reader.yaml"))
    binding = ("create", "clusterrolebinding", "readers", "--clusterrole=evictplan-reader")
    plane.kubectl(*binding, "--user=jane")
    mine, theirs = read(plane, "jane"), read(plane, as_user="jane")

    rules = json.loads(plane.kubectl("get", "clusterrole", "evictplan-reader", "-o", "json"))

    assert mine.denied == theirs.denied == ()
    assert len(mine.pods) == 5
    assert {verb for rule in rules["rules"] for verb in rule["verbs"]} == {"list", "watch"}


def test_the_operators_role_is_one_that_the_server_takes(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", str(ROLES / "evictplan-operator.yaml"))
    binding = ("create", "clusterrolebinding", "o", "--clusterrole=evictplan-operator")
    plane.kubectl(*binding, "--user=o")
    may = {
        words: plane.kubectl("auth", "can-i", *words.split(), "--as=o").strip()
        for words in (
            "patch nodes",
            "create pods --subresource=eviction",
            "list pods",
            "get nodes",
        )
    }
    assert set(may.values()) == {"yes"}
