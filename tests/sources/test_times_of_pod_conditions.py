"""How long a pod took to be bound and to be Ready is read from its creation and its conditions, and kept in snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.snapshot import encode_snapshot

CREATED = "2026-11-20T22:00:00Z"


def loaded(folder: Path, status: str, changed: str | None, kind: str = "Ready") -> Pod:
    condition = {"type": kind, "status": status}
    if changed:
        condition["lastTransitionTime"] = changed
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "creationTimestamp": CREATED},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": "Running", "conditions": [condition]},
    }
    path = folder / "pod.json"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    both = {"apiVersion": "v1", "kind": "List", "items": [node, pod]}
    path.write_text(json.dumps(both), encoding="utf-8")
    [found] = load_files([str(path)]).pods
    return found


@pytest.mark.parametrize(
    ("status", "changed", "after"),
    [
        ("True", "2026-11-20T22:00:17Z", 17),
        ("True", CREATED, 0),
        ("False", "2026-11-20T22:00:17Z", None),
        ("True", None, None),
        # A clock that ran behind tells nothing.
        ("True", "2026-11-20T21:59:00Z", None),
    ],
)
def test_it_is_the_time_from_the_creation_to_ready(
    tmp_path: Path, status: str, changed: str | None, after: int | None
) -> None:
    assert loaded(tmp_path, status, changed).ready_after_seconds == after


@pytest.mark.parametrize(
    ("status", "changed", "after"),
    [
        ("True", "2026-11-20T22:05:00Z", 300),
        # As good as at once.
        ("True", "2026-11-20T22:00:01Z", None),
        ("False", "2026-11-20T22:05:00Z", None),
        ("True", None, None),
    ],
)
def test_a_pod_that_waited_for_a_node_was_bound_later(
    tmp_path: Path, status: str, changed: str | None, after: int | None
) -> None:
    found = loaded(tmp_path, status, changed, "PodScheduled")
    assert found.bound_after_seconds == after
    assert found.bound_ns == found.creation_timestamp_ns + (after or 0) * 1_000_000_000


def test_a_snapshot_keeps_when_a_pod_was_bound(tmp_path: Path) -> None:
    loaded(tmp_path, "True", "2026-11-20T22:05:00Z", "PodScheduled")
    path = tmp_path / "snapshot.json.gz"
    path.write_bytes(encode_snapshot(load_files([str(tmp_path / "pod.json")])))
    assert load_files([str(path)]).pods[0].bound_after_seconds == 300


def test_a_snapshot_keeps_it(tmp_path: Path) -> None:
    loaded(tmp_path, "True", "2026-11-20T22:00:17Z")
    path = tmp_path / "snapshot.json.gz"
    path.write_bytes(encode_snapshot(load_files([str(tmp_path / "pod.json")])))
    assert load_files([str(path)]).pods[0].ready_after_seconds == 17
