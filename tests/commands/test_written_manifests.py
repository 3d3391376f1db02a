"""Nodes and pods that a saved scenario holds are read back as the same values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Node, Pod, Taint, Toleration
from kubectl_evictplan.scenarios.writer import encode_node, encode_pod
from kubectl_evictplan.sources.files import load_files

NODE = Node("n", uid="u", conditions=(), creation_timestamp_ns=10**18)
POD = Pod("default", "p", uid="u", node_name="n", creation_timestamp_ns=10**18)


def read_back(directory: Path, *objects: Node | Pod) -> tuple[Node | Pod, ...]:
    items = [encode_node(o) if isinstance(o, Node) else encode_pod(o) for o in objects]
    path = directory / "written.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    snapshot = load_files([str(path)])
    return (*snapshot.nodes, *snapshot.pods)


@pytest.mark.parametrize(
    "run", ["clusters/kubeadm-15-nodes-1.29.json", "traces/random-8-1.29.6/cluster.json"]
)
def test_recorded_objects_survive(run: str, fixtures_path: Path, tmp_path: Path) -> None:
    snapshot = load_files([str(fixtures_path / run)])
    recorded = (*snapshot.nodes, *snapshot.pods)
    assert read_back(tmp_path, *recorded) == recorded


@pytest.mark.parametrize(
    "pod",
    [
        POD,
        replace(POD, tolerations=(Toleration("k", "Exists", "", "NoExecute", 0),)),
        replace(POD, mirror=True, config_source="file", host_network=True),
        replace(POD, empty_dir=True, duplicate_env_or_port=True),
        replace(
            POD,
            finalizers=("a/b",),
            deletion_timestamp_ns=2 * 10**18,
            deletion_grace_period_seconds=0,
        ),
        replace(POD, phase="Failed", status_reason="Evicted", ready="False"),
        replace(POD, termination_grace_period_seconds=0, labels={"on": "1e3"}),
    ],
)
def test_every_field_of_a_pod_survives(pod: Pod, tmp_path: Path) -> None:
    assert read_back(tmp_path, NODE, pod) == (NODE, pod)


@pytest.mark.parametrize(
    "node",
    [
        replace(NODE, unschedulable=True, labels={"a": ""}, resource_version="5"),
        replace(NODE, taints=(Taint("k", "NoExecute", "", 10**18), Taint("k", "NoSchedule", "v"))),
        replace(NODE, deletion_timestamp_ns=10**18, taints_changed_ns=2 * 10**18),
    ],
)
def test_every_field_of_a_node_survives(node: Node, tmp_path: Path) -> None:
    assert read_back(tmp_path, node) == (node,)
