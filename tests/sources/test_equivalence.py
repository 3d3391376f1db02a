"""Files, formats, splits and orders never change what is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.sources import documents
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.snapshot import write_snapshot

# A small recorded cluster: nodes, pods, leases as an API server listed them, and one manifest.
MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "written", "namespace": "default"},
    "spec": {"nodeName": "a1", "tolerations": [{"operator": "Exists", "key": "x"}]},
}


@pytest.fixture(scope="module")
def objects(fixtures_path: Path) -> list[Any]:
    text = (fixtures_path / "traces" / "defaults-1.29.6" / "cluster.json").read_text()
    return [*json.loads(text)["items"], MANIFEST]


@pytest.fixture(scope="module")
def expected(objects: list[Any], tmp_path_factory: pytest.TempPathFactory) -> ClusterSnapshot:
    path = tmp_path_factory.mktemp("whole") / "cluster.json"
    path.write_text(json.dumps(listed(objects)))
    return load_files([str(path)])


def listed(objects: list[Any], kind: str = "List") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {}, "items": objects}


def shuffled_keys(value: Any, reverse: bool) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, reverse=reverse)
        return {key: shuffled_keys(value[key], reverse) for key in keys}
    return [shuffled_keys(item, reverse) for item in value] if isinstance(value, list) else value


def as_text(objects: list[Any], form: str) -> str:
    if form == "list":
        return json.dumps(listed(objects))
    if form == "indented":
        return json.dumps(listed(objects), indent=4)
    if form == "nested":
        return json.dumps(listed([listed(objects)]))
    if form == "lines":
        return "\n".join(json.dumps(item) for item in objects)
    if form == "yaml list":
        return yaml.safe_dump(listed(objects), default_flow_style=None)
    return yaml.safe_dump_all(objects, default_flow_style=None)


FORMS = ("list", "indented", "nested", "lines", "yaml list", "yaml documents")
EXTENSIONS = {"lines": "ndjson", "yaml list": "yaml", "yaml documents": "yaml"}


@settings(max_examples=20)
@given(data=st.data())
def test_any_order_split_and_format_loads_the_same(
    data: st.DataObject,
    objects: list[Any],
    expected: ClusterSnapshot,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("split")
    order = data.draw(st.permutations(objects))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    names = []
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(order)], strict=True)):
        part = order[start:end]
        if not part:
            continue
        form = data.draw(st.sampled_from(FORMS))
        part = shuffled_keys(part, data.draw(st.booleans()))
        path = directory / f"{number}.{EXTENSIONS.get(form, 'json')}"
        path.write_text(as_text(part, form))
        names.append(str(path))
    assert load_files(data.draw(st.permutations(names))) == expected


def test_typed_lists_without_kinds_in_their_items(
    objects: list[Any], expected: ClusterSnapshot, tmp_path: Path
) -> None:
    names = []
    for kind in ("Node", "Pod", "Lease"):
        bare = [
            {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
            for item in objects
            if item["kind"] == kind
        ]
        version = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps({**listed(bare, f"{kind}List"), "apiVersion": version}))
        names.append(str(path))
    assert load_files(names) == expected


def test_our_snapshot_is_the_same_cluster(expected: ClusterSnapshot, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json.gz"
    write_snapshot(expected, str(path))
    assert load_files([str(path)]) == expected


def test_a_snapshot_mixed_with_manifests_is_the_sum(
    objects: list[Any], expected: ClusterSnapshot, tmp_path: Path
) -> None:
    stored, extra = tmp_path / "cluster.json", tmp_path / "extra.json"
    stored.write_text(json.dumps(listed(objects[:-1])))
    extra.write_text(json.dumps(MANIFEST))
    whole = tmp_path / "cluster.json.gz"
    write_snapshot(load_files([str(stored)]), str(whole))
    for names in ([whole, extra], [extra, whole]):
        mixed = load_files([str(name) for name in names])
        assert mixed.pods == expected.pods
        assert mixed.digest == expected.digest


def test_decoded_and_checked_objects_are_the_same(
    fixtures_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(fixtures_path / "clusters" / "kubeadm-15-nodes-1.29.json")
    decoded = load_files([name])
    from kubectl_evictplan.sources.items import ItemReader

    def check_all(
        self: ItemReader, raws: Any, origin: Any, kind: str = "", *, search: bool = False
    ) -> None:
        for index, raw in enumerate(raws):
            self.assembly.objects_seen += 1
            self.read_bytes(bytes(raw), origin.item(index), kind)

    monkeypatch.setattr(ItemReader, "read_list", check_all)
    assert load_files([name]) == decoded


def test_large_and_small_files_load_the_same(
    fixtures_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(fixtures_path / "clusters" / "kubeadm-15-nodes-1.29.json")
    small = load_files([name])
    monkeypatch.setattr(documents, "CHECKED_BYTES_MAX", -1)
    large = load_files([name])
    assert [warning.code for warning in large.warnings] == ["large-dump"]
    assert msgspec.structs.replace(large, warnings=()) == small


def test_a_real_cluster_loads_without_a_warning(fixtures_path: Path) -> None:
    for path in fixtures_path.glob("clusters/*.json"):
        assert load_files([str(path)], strict=True).pods


def test_recorded_control_planes_hold_only_the_pods_of_their_test(fixtures_path: Path) -> None:
    paths = sorted(fixtures_path.glob("traces/*/cluster.json"))
    assert len(paths) >= 15
    for path in paths:
        snapshot = load_files([str(path)])
        assert snapshot.nodes
        assert snapshot.pods
        assert snapshot.taken_at_source == "newest lease renewal"
        assert {warning.code for warning in snapshot.warnings} <= {"single-namespace"}


def test_the_recorded_cluster_is_understood(fixtures_path: Path) -> None:
    snapshot = load_files([str(fixtures_path / "clusters" / "kubeadm-15-nodes-1.29.json")])
    assert (len(snapshot.nodes), len(snapshot.pods)) == (15, 103)
    assert snapshot.control_plane.kubernetes_version == "1.29.6"
    assert snapshot.control_plane.controller_manager["node-monitor-grace-period"] == "20s"
    assert snapshot.control_plane.api_server["default-not-ready-toleration-seconds"] == "120"
    assert {workload.kind for workload in snapshot.workloads} == {
        "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job",
    }  # fmt: skip
    assert any(pod.empty_dir for pod in snapshot.pods)
    assert sum(pod.mirror for pod in snapshot.pods) >= 6


def test_equal_parts_are_one_object(fixtures_path: Path) -> None:
    snapshot = load_files([str(fixtures_path / "clusters" / "kubeadm-15-nodes-1.29.json")])
    lists = {pod.tolerations for pod in snapshot.pods}
    assert len({id(pod.tolerations) for pod in snapshot.pods}) == len(lists) < 15
    assert msgspec.structs.asdict(snapshot)["digest"].startswith("sha256:")
