"""What is asked of all pods of a cluster, whether a file tells it as columns or nobody does."""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_evictplan.kube.columns import ASKED_OF_ALL, stretches
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, OwnerReference, Pod
from kubectl_evictplan.sources.snapshot import decode_document, encode_snapshot

OWNERS = (OwnerReference("ReplicaSet", "web", controller=True),)
OTHERS = (OwnerReference("ReplicaSet", "db", controller=True),)
LABELS = {"app": "web"}


def pods() -> tuple[Pod, ...]:
    return (
        Pod("a", "one", node_name="n1", ready="True", owner_references=OWNERS, labels=LABELS),
        Pod("a", "two", node_name="n2", ready="False", owner_references=OWNERS, labels=LABELS),
        Pod("b", "three", node_name="n1", owner_references=OWNERS, labels=LABELS),
        Pod("b", "two", owner_references=OTHERS, labels=LABELS, deletion_timestamp_ns=7),
    )


def cluster(*some: Pod) -> ClusterSnapshot:
    return ClusterSnapshot((Node("n1"), Node("n2")), some, taken_at_ns=1)


def test_columns_are_what_the_pods_have_in_their_order() -> None:
    columns = cluster(*pods()).columns
    assert columns.of("node_name") == ["n1", "n2", "n1", ""]
    assert columns.distinct("ready") == {"True", "False", None}
    assert cluster().columns.distinct("phase") == frozenset()


def test_a_snapshot_file_tells_the_same_columns_as_its_pods() -> None:
    ready = [replace(pod, ready="True", deletion_timestamp_ns=None) for pod in pods()]
    for snapshot in (cluster(*pods()), cluster(*ready), cluster(pods()[0]), cluster()):
        read = decode_document(encode_snapshot(snapshot, compress=False))
        for field in ASKED_OF_ALL:
            assert read.columns.distinct(field) == snapshot.columns.distinct(field), field
            assert list(read.columns.of(field)) == snapshot.columns.of(field), field


def test_pods_whose_columns_a_change_made_false_are_asked_anew() -> None:
    read = decode_document(encode_snapshot(cluster(*pods()), compress=False))
    moved = replace(read, pods=tuple(replace(pod, node_name="n3") for pod in read.pods))
    assert moved.columns.distinct("node_name") == {"n3"}


def test_a_stretch_has_one_namespace_and_the_same_owners_and_labels() -> None:
    assert list(stretches(pods())) == [slice(0, 2), slice(2, 3), slice(3, 4)]
    equal_labels = replace(pods()[1], labels=dict(LABELS))
    assert list(stretches([pods()[0], equal_labels])) == [slice(0, 1), slice(1, 2)]
    assert list(stretches([])) == []
    assert cluster(*pods()).stretches == tuple(stretches(pods()))
