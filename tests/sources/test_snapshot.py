"""Our own file: round trip, damage, privacy, and how it is written."""

from __future__ import annotations

import gzip
import hashlib
import json
import operator
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.infrastructure import Infrastructure
from kubectl_evictplan.kube.needs import (
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodNeeds,
    TopologySpreadConstraint,
)
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    Lease,
    Node,
    NodeCondition,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    Taint,
    Toleration,
    Warning,
    Workload,
)
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.private_file import write_private
from kubectl_evictplan.sources.reading import ReadProblem, gunzip_snapshot
from kubectl_evictplan.sources.snapshot import (
    SnapshotError,
    decode_document,
    encode_snapshot,
    snapshot_digest,
    write_snapshot,
)

TEXT = st.text(max_size=6)
NS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
COUNTS = st.integers(min_value=0, max_value=2**63 - 1)
LABELS = st.dictionaries(TEXT, TEXT, max_size=3)
OWNERS = st.lists(st.builds(OwnerReference, TEXT, TEXT, TEXT, TEXT, st.booleans()), max_size=2).map(
    tuple
)
TOLERATIONS = st.lists(
    st.builds(Toleration, TEXT, TEXT, TEXT, TEXT, st.none() | NS), max_size=2
).map(tuple)
EXPRESSIONS = st.lists(
    st.tuples(TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple)), max_size=2
).map(tuple)
TERMS = st.lists(st.builds(NodeSelectorTerm, EXPRESSIONS, EXPRESSIONS), max_size=2).map(tuple)
NEEDS = st.builds(
    PodNeeds,
    requests=st.lists(st.tuples(TEXT, COUNTS), max_size=2).map(tuple),
    node_affinity=st.none() | TERMS,
    pod_affinity=st.tuples(st.builds(PodAffinityTerm, TEXT, st.none() | EXPRESSIONS)),
    topology_spread=st.tuples(st.builds(TopologySpreadConstraint, TEXT, NS)),
    host_ports=st.tuples(st.builds(HostPort, COUNTS, TEXT)),
)
PODS = st.builds(
    Pod,
    TEXT, TEXT, TEXT, TEXT, LABELS, TEXT, TOLERATIONS, COUNTS, TEXT, st.none() | TEXT, NS,
    st.none() | NS, st.none() | NS, st.lists(TEXT, max_size=2).map(tuple), OWNERS, TEXT,
    st.booleans(), st.booleans(), st.booleans(), st.booleans(), TEXT, st.none() | NEEDS,
)  # fmt: skip
TAINTS = st.lists(st.builds(Taint, TEXT, TEXT, TEXT, st.none() | NS), max_size=2).map(tuple)
CONDITIONS = st.lists(
    st.builds(NodeCondition, TEXT, TEXT, st.none() | NS, st.none() | NS, TEXT), max_size=2
).map(tuple)
NODES = st.builds(
    Node, TEXT, TEXT, TEXT, LABELS, NS, st.none() | NS, TAINTS, st.booleans(), CONDITIONS,
    st.none() | NS, st.dictionaries(TEXT, COUNTS, max_size=2),
)  # fmt: skip
LEASES = st.builds(Lease, TEXT, st.none() | NS, COUNTS.map(lambda count: count or 1), TEXT)


def in_order(objects: st.SearchStrategy[Any], *fields: str, size: int) -> st.SearchStrategy[Any]:
    """Return tuples of objects as a snapshot holds them: sorted, each once."""
    key = operator.attrgetter(*fields)
    return st.lists(objects, max_size=size, unique_by=key).map(
        lambda found: tuple(sorted(found, key=key))
    )


SNAPSHOTS = st.builds(
    ClusterSnapshot,
    nodes=in_order(NODES, "name", size=3),
    pods=in_order(PODS, "namespace", "name", size=5),
    leases=in_order(LEASES, "name", size=3).map(lambda found: {one.name: one for one in found}),
    workloads=in_order(
        st.builds(Workload, TEXT, TEXT, TEXT, TEXT, st.none() | NS, OWNERS),
        *("kind", "namespace", "name"),
        size=2,
    ),
    budgets=in_order(
        st.builds(PodDisruptionBudget, TEXT, TEXT, st.none() | LABELS, EXPRESSIONS),
        *("namespace", "name"),
        size=2,
    ),
    taken_at_ns=NS,
    taken_at_source=TEXT,
    control_plane=st.builds(ControlPlaneFlags, TEXT, LABELS, LABELS, TEXT, st.none() | NS),
    kinds_seen=st.lists(TEXT, max_size=2).map(tuple),
    ignored_kinds=st.dictionaries(TEXT, st.integers(0, 9), max_size=2),
    denied=st.lists(TEXT, max_size=2).map(tuple),
    warnings=st.lists(st.builds(Warning, TEXT, TEXT), max_size=2).map(tuple),
)

CLUSTER = ClusterSnapshot(
    nodes=(Node("n1"),),
    pods=(Pod("d", "p", labels={"b": "1", "a": "2"}), Pod("d", "q", labels={"a": "2", "b": "1"})),
    taken_at_ns=1_795_212_000_000_000_000,
)


def decode_snapshot(data: bytes) -> ClusterSnapshot:
    return decode_document(gunzip_snapshot(data) if data.startswith(b"\x1f\x8b") else data)


@given(SNAPSHOTS)
def test_what_is_written_is_what_is_read(snapshot: ClusterSnapshot) -> None:
    expected = msgspec.structs.replace(snapshot, digest=snapshot_digest(snapshot))
    assert decode_snapshot(encode_snapshot(snapshot)) == expected
    assert decode_snapshot(encode_snapshot(snapshot, compress=False)) == expected


@pytest.mark.parametrize("kinds", [{"a": 1}, {"a": 1, "content": 2}, {"content": 3}])
@pytest.mark.parametrize("blanks", [False, True])
def test_what_stands_before_the_content_may_look_like_it(
    kinds: dict[str, int], blanks: bool
) -> None:
    said = (Warning("odd", 'says ,"content":{} and "content":'),)
    snapshot = msgspec.structs.replace(CLUSTER, ignored_kinds=kinds, warnings=said)
    expected = msgspec.structs.replace(snapshot, digest=snapshot_digest(snapshot))
    data = encode_snapshot(snapshot, compress=False)
    assert decode_snapshot(data + b"\n" * blanks) == expected


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_snapshot_is_read_wherever_its_content_stands(place: int) -> None:
    head, _, content = encode_snapshot(CLUSTER, compress=False).partition(b',"content":')
    fields = [f'"{k}":{json.dumps(v)}'.encode() for k, v in json.loads(head + b"}").items()]
    fields.insert(place, b'"content":' + content.removesuffix(b"}\n"))
    assert decode_snapshot(b"{" + b",".join(fields) + b"}\n").pods == CLUSTER.pods


@given(SNAPSHOTS)
def test_equal_snapshots_give_equal_bytes(snapshot: ClusterSnapshot) -> None:
    copy = decode_snapshot(encode_snapshot(snapshot))
    assert encode_snapshot(copy) == encode_snapshot(snapshot)
    # The digest that came along was believed; computed again it is the same.
    assert snapshot_digest(msgspec.structs.replace(copy, digest="")) == copy.digest


def test_the_order_of_labels_does_not_show() -> None:
    swapped = msgspec.structs.replace(CLUSTER, pods=tuple(reversed_labels(CLUSTER.pods)))
    assert encode_snapshot(swapped) == encode_snapshot(CLUSTER)


def reversed_labels(pods: tuple[Pod, ...]) -> list[Pod]:
    return [msgspec.structs.replace(pod, labels=dict(reversed(pod.labels.items()))) for pod in pods]


def test_it_describes_itself() -> None:
    data = encode_snapshot(CLUSTER)
    assert data[4:8] == b"\x00\x00\x00\x00"  # gzip's own time stamp
    document = json.loads(gzip.decompress(data))
    assert document["apiVersion"] == "evictplan.dev/v1alpha1"
    assert document["kind"] == "Snapshot"
    assert document["metadata"]["schemaVersion"] == 2
    assert document["metadata"]["takenAt"] == "2026-11-20T22:00:00Z"
    assert document["metadata"]["digest"].startswith("sha256:")


def changed(**metadata: Any) -> bytes:
    document = json.loads(encode_snapshot(CLUSTER, compress=False))
    for name, value in metadata.items():
        document["metadata"][name] = value
        if value is None:
            del document["metadata"][name]
    return json.dumps(document).encode()


def test_a_snapshot_from_before_there_was_infrastructure_is_still_read() -> None:
    document = json.loads(encode_snapshot(CLUSTER, compress=False))
    content = document.pop("content")
    del content["infrastructure"]
    text = json.dumps(content)
    document["metadata"] |= {
        "schemaVersion": 1,
        "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        "kindsSeen": ["Node", "Pod"],
    }
    del document["metadata"]["reading"]
    old = decode_snapshot(f'{json.dumps(document)[:-1]}, "content": {text}}}'.encode())
    assert (old.nodes, old.pods) == (CLUSTER.nodes, CLUSTER.pods)
    # That no services are in it says nothing of whether there are any.
    assert old.infrastructure == Infrastructure()
    assert "Service" not in old.kinds_seen


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(schemaVersion=3), "newer"),
        (changed(schemaVersion=None), "no schemaVersion"),
        (changed(digest="sha256:0"), "digest"),
        (changed(digest=None), "digest"),
        (encode_snapshot(CLUSTER, compress=False).replace(b"n1", b"n2"), "digest"),
        (encode_snapshot(CLUSTER)[:-9], "truncated"),
        (encode_snapshot(CLUSTER) + b"x", "after its end"),
        (encode_snapshot(CLUSTER)[:-8] + b"\x00" * 8, "CRC"),
        (b'{"apiVersion":"v1","kind":"Pod"}', "not a snapshot"),
        (b"{}", "not a snapshot"),
        (b"[]", "damaged"),
        (b"", "damaged"),
    ],
)
def test_damage_and_other_versions_are_named(data: bytes, reason: str) -> None:
    with pytest.raises((SnapshotError, ReadProblem), match=reason):
        decode_snapshot(data)


def with_right_digest(change: Callable[[Any, Any], None]) -> bytes:
    """Return a snapshot whose content and metadata somebody changed, digest included."""
    document = json.loads(encode_snapshot(CLUSTER, compress=False))
    change(document["content"], document["metadata"])
    content = json.dumps(document["content"]).encode()
    document["metadata"]["digest"] = "sha256:" + hashlib.sha256(content).hexdigest()
    head = json.dumps({**document, "content": "MARK"}).encode()
    return head.replace(b'"MARK"', content)


def refusal(change: Callable[[Any, Any], None]) -> str:
    with pytest.raises(SnapshotError) as caught:
        decode_snapshot(with_right_digest(change))
    return str(caught.value)


@pytest.mark.parametrize(
    "pods",
    [
        {"namespace": {"values": ["d"]}},
        {"namespace": {"table": ["d"], "index": [0, 7]}},
        {"namespace": {"table": ["d"], "index": [0, -1]}},
        {"namespace": {}},
        {"namespace": {"all": 3}},
    ],
)
def test_columns_that_do_not_fit_are_refused(pods: Any) -> None:
    assert "damaged" in refusal(lambda content, _: content["pods"].update(pods))


def all_alike(count: int) -> Callable[[Any, Any], None]:
    def change(content: Any, _: Any) -> None:
        content["pod_count"] = count
        for name, column in content["pods"].items():
            content["pods"][name] = {"all": column.get("all", "x")}

    return change


YEAR_31000 = 10**21
IMPOSSIBLE = [
    (all_alike(10**12), "all pods are the same"),
    (all_alike(10**30), "all pods are the same"),
    (lambda content, _: content.update(pod_count=-1), "Expected `int` >= 0"),
    (lambda content, _: content["pods"].update(name={"values": ["p", "p"]}), "a pod twice"),
    (lambda content, _: content["pods"].update(name={"values": ["q", "p"]}), "not in order"),
    (lambda content, _: content["nodes"].append(content["nodes"][0]), "a node twice"),
    (lambda content, _: content["leases"].extend([{"name": "n1"}] * 2), "a lease twice"),
    (
        lambda content, _: content["leases"].append({"name": "n1", "lease_duration_seconds": -40}),
        "Expected `int` >= 1",
    ),
    (
        lambda content, _: content["pods"].update(termination_grace_period_seconds={"all": -30}),
        "Expected `int` >= 0",
    ),
    (lambda _, metadata: metadata.update(ignoredKinds={"Secret": -3}), "Expected `int` >= 0"),
    (lambda content, _: content.update(taken_at_ns=YEAR_31000), "outside the years"),
    (
        lambda content, _: content["nodes"][0].update(creation_timestamp_ns=YEAR_31000),
        "outside the years",
    ),
    (
        lambda content, _: content["pods"].update(deletion_timestamp_ns={"all": -YEAR_31000}),
        "outside the years",
    ),
    (
        lambda content, _: content["leases"].append({"name": "n1", "renew_time_ns": YEAR_31000}),
        "outside the years",
    ),
]


@pytest.mark.parametrize(("change", "reason"), IMPOSSIBLE)
def test_a_right_digest_proves_nothing(change: Callable[[Any, Any], None], reason: str) -> None:
    assert reason in refusal(change)


def test_a_snapshot_without_nodes_is_a_problem_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(with_right_digest(lambda content, _: content.update(nodes=[])))
    with pytest.raises(InputError, match=r"c\.json: no nodes: nothing to simulate"):
        load_files([str(path)])


def test_a_damaged_file_is_a_problem_of_that_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json.gz"
    path.write_bytes(encode_snapshot(CLUSTER)[:-9])
    with pytest.raises(InputError, match=r"c.json.gz: damaged snapshot \(truncated\)"):
        load_files([str(path)])


def test_no_secret_can_get_in(load: Any) -> None:
    secret = "hunter2"
    container = {
        "name": "c",
        "image": f"x/{secret}",
        "command": [secret],
        "args": [f"--password={secret}"],
        "env": [{"name": "A", "value": secret}],
    }
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": secret, "x": secret}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": annotations,
                     "managedFields": [{"manager": secret}]},
        "spec": {"containers": [container], "volumes": [{"name": secret, "secret": {}}]},
        "status": {"message": secret, "conditions": [{"type": "Ready", "message": secret}]},
    }  # fmt: skip
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "data": {}}
    snapshot = load(pod, other)
    assert len(snapshot.pods) == 1
    assert secret.encode() not in encode_snapshot(snapshot, compress=False)


# Writing


@pytest.mark.parametrize("name", ["c.json.gz", "c.json"])
def test_a_written_snapshot_loads(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_snapshot(CLUSTER, str(path))
    assert load_files([str(path)]) == decode_snapshot(path.read_bytes())
    assert path.read_bytes().startswith(b"{") is (name == "c.json")


def test_an_existing_file_needs_force(tmp_path: Path) -> None:
    path = tmp_path / "c.json.gz"
    path.write_text("old")
    with pytest.raises(InputError, match="already exists"):
        write_snapshot(CLUSTER, str(path))
    assert path.read_text() == "old"
    write_snapshot(CLUSTER, str(path), force=True)
    assert decode_snapshot(path.read_bytes()).nodes == CLUSTER.nodes


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "fifo")
    for name in ("directory", "link", "fifo"):
        with pytest.raises(InputError, match="not a regular file"):
            write_snapshot(CLUSTER, str(tmp_path / name), force=True)
    for name in ("missing/c.json", "", "x\x00y"):
        with pytest.raises(InputError):
            write_snapshot(CLUSTER, str(tmp_path / name) if name else "", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "fifo", "link"]


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "c.json.gz"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write_snapshot(CLUSTER, str(path), force=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.json.gz"]
    assert path.read_text() == "old"


def test_of_two_who_write_at_once_the_last_whole_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.json.gz"
    write_snapshot(CLUSTER, str(path))
    alone = path.read_bytes()
    fsync = os.fsync

    def meanwhile(descriptor: int) -> None:
        """Somebody else begins and ends between this write and its new name."""
        monkeypatch.setattr(os, "fsync", fsync)
        path.unlink()
        write_private(str(path), b"another")
        assert path.read_bytes() == b"another"
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_snapshot(CLUSTER, str(path), force=True)
    assert path.read_bytes() == alone
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.json.gz"]
    # Without --force nobody's file is replaced, however late it appears.
    path.unlink()
    monkeypatch.setattr(os, "fsync", lambda _: path.write_bytes(b"another"))
    with pytest.raises(InputError, match="already exists"):
        write_snapshot(CLUSTER, str(path))
    assert path.read_bytes() == b"another"


def test_the_mode_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "c.json.gz"
    previous = os.umask(0)
    try:
        write_snapshot(CLUSTER, str(path))
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
