"""P28: a redacted snapshot tells no names, and predicts the same but for the names."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from building.builders import SECOND_NS, make_event, make_node, make_pod, make_snapshot
from drawn.strategies import World, worlds
from hypothesis import given, settings

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.kube.infrastructure import Infrastructure, PersistentVolume
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ListRecord,
    OwnerReference,
    PodDisruptionBudget,
    PodWebhook,
    Reading,
    Taint,
    Toleration,
    Warning,
    Workload,
)
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.prediction.records import plain
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.redaction import KEPT, RESOURCES, WISHES, pseudonyms, redact
from kubectl_evictplan.sources.snapshot import decode_document, encode_snapshot

KEY = b"key"
PSEUDONYM = re.compile("r[0-9]+-[0-9a-f]{8}(?:-master)?")
CLUSTERS = ("kubeadm-15-nodes-1.29.json",)


def told(snapshot: ClusterSnapshot, node: str) -> dict[str, Any]:
    """Return the prediction for a node that falls silent, without what names the input."""
    event = make_event(0, "kubelet-stop", node)
    scenario = Scenario(snapshot.taken_at_ns, (event,), horizon_ns=600 * SECOND_NS)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    document: dict[str, Any] = msgspec.to_builtins(
        predict(snapshot, scenario, configuration), enc_hook=plain
    )
    del document["inputs"]["sourceDigest"]
    return document


def with_names_again(value: Any, names: dict[str, str]) -> Any:
    """Return a document with every pseudonym replaced by what it stands for."""
    back = {pseudonym: name for name, pseudonym in names.items()}
    text = msgspec.json.encode(value).decode()
    return msgspec.json.decode(PSEUDONYM.sub(lambda found: back[found[0]], text))


@pytest.fixture(params=CLUSTERS)
def cluster(fixtures_path: Path, request: pytest.FixtureRequest) -> ClusterSnapshot:
    return load_files([str(fixtures_path / "clusters" / request.param)])


def test_p28_a_prediction_is_the_same_but_for_the_names(cluster: ClusterSnapshot) -> None:
    names, redacted = pseudonyms(cluster, KEY), redact(cluster, KEY)
    for node in (cluster.nodes[0].name, cluster.nodes[-1].name):
        mine, theirs = told(cluster, node), told(redacted, names[node])
        assert mine["evictions"]
        assert with_names_again(theirs, names) == with_names_again(mine, {})


def test_p28_where_replacements_can_run_is_the_same_but_for_the_names(
    cluster: ClusterSnapshot,
) -> None:
    names, redacted = pseudonyms(cluster, KEY), redact(cluster, KEY)
    zone = cluster.nodes[1].labels["topology.kubernetes.io/zone"]
    nodes = [one.name for one in cluster.nodes if one.labels["topology.kubernetes.io/zone"] == zone]
    mine, theirs = placed(cluster, *nodes), placed(redacted, *(names[node] for node in nodes))
    assert {one["verdict"] for one in mine} > {"fits"}
    assert with_names_again(theirs, names) == with_names_again(mine, {})


def placed(snapshot: ClusterSnapshot, *nodes: str) -> Any:
    """Return where the replacements of the nodes' pods can run when their kubelets fall silent."""
    event = make_event(0, "kubelet-stop", nodes)
    scenario = Scenario(snapshot.taken_at_ns, (event,), horizon_ns=600 * SECOND_NS)
    known = (
        snapshot,
        scenario,
        resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane),
    )
    found = assess_impact(*known, predict(*known)).replacements
    return msgspec.to_builtins(found, enc_hook=plain)


@settings(max_examples=4)
@given(worlds())
def test_p28_so_it_is_in_any_world(world: World) -> None:
    names, redacted = pseudonyms(world.snapshot, KEY), redact(world.snapshot, KEY)
    node = world.snapshot.nodes[0].name
    mine, theirs = told(world.snapshot, node), told(redacted, names[node])
    assert with_names_again(theirs, names) == with_names_again(mine, {})


def test_no_name_of_the_cluster_is_left(cluster: ClusterSnapshot) -> None:
    data = encode_snapshot(redact(cluster, KEY), compress=False).decode()
    names = {node.name for node in cluster.nodes} | {pod.name for pod in cluster.pods}
    names |= {pod.namespace for pod in cluster.pods} | {pod.uid for pod in cluster.pods}
    names |= {workload.name for workload in cluster.workloads}
    names |= {value for pod in cluster.pods for value in pod.labels.values()}
    names |= {value for node in cluster.nodes for value in node.labels.values()}
    words = set(re.findall(r"[\w.-]+", data))
    # These are words of Kubernetes' as well as somebody's label.
    words -= {"node", "linux", "amd64", "default", "controller", "control-plane"}
    words -= {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    assert {name for name in names & words if not name.isdecimal()} == set()


def test_equal_names_get_equal_pseudonyms_wherever_they_stand() -> None:
    owner = OwnerReference("ReplicaSet", "acme-web", "uid-1", "apps/v1", True)
    snapshot = make_snapshot(
        [make_node("acme-1", zone="acme-dc")],
        [make_pod("acme-web-0", "acme-1", owner=owner)],
    )
    workload = Workload("ReplicaSet", "default", "acme-web", "uid-1")
    snapshot = msgspec.structs.replace(snapshot, workloads=(workload,))

    redacted = redact(snapshot, KEY)

    (node,), (pod,), (replica_set,) = redacted.nodes, redacted.pods, redacted.workloads
    assert pod.node_name == node.name
    assert pod.owner_references[0].name == replica_set.name
    assert pod.owner_references[0].uid == replica_set.uid
    assert node.labels["topology.kubernetes.io/zone"] != "acme-dc"
    assert set(redacted.leases) == {node.name}
    assert redacted.leases[node.name].holder_identity == node.name


def test_order_is_kept_and_so_is_a_masters_name() -> None:
    names = ["b", "a", "kube-master", "c-master", "zz"]
    found = pseudonyms(make_snapshot([make_node(name) for name in sorted(names)], []), KEY)
    assert sorted(found[name] for name in names) == [found[name] for name in sorted(names)]
    assert {name for name in names if found[name].endswith("master")} == {
        "kube-master",
        "c-master",
    }


def test_pods_of_a_stateful_set_keep_their_numbers() -> None:
    owner = OwnerReference("StatefulSet", "db", "uid", "apps/v1", True)
    pods = [make_pod(name, "n", owner=owner) for name in ("db-0", "db-10", "db-2")]
    found = pseudonyms(make_snapshot([make_node("n")], [*pods, make_pod("web-1", "n")]), KEY)
    assert [found[f"db-{number}"] for number in (0, 10, 2)] == [
        f"{found['db']}-{number}" for number in (0, 10, 2)
    ]
    assert not found["web-1"].endswith("-1")


def test_numbers_that_tolerations_compare_stay_numbers() -> None:
    taint = Taint("sla", "NoExecute", "95")
    toleration = Toleration("sla", "Gt", "90", "NoExecute")
    pod = make_pod("p", "n", tolerations=(toleration,))
    redacted = redact(make_snapshot([make_node("n", taints=(taint,))], [pod]), KEY)
    (seen,), (tolerated,) = redacted.nodes[0].taints, redacted.pods[0].tolerations
    assert (seen.value, tolerated.value) == ("95", "90")
    assert seen.key == tolerated.key != "sla"


def test_the_operators_of_selectors_are_no_names() -> None:
    wishes = (("tier", "In", ("gold", "silver")), ("acme", "Exists", ()))
    volume = PersistentVolume("disk", node_affinity=(wishes, wishes[1:]))
    snapshot = msgspec.structs.replace(
        make_snapshot([make_node("n")], []),
        budgets=(PodDisruptionBudget("team", "b", {"tier": "gold"}, wishes),),
        webhooks=(PodWebhook("guard/acme.example", wishes, wishes),),
        infrastructure=Infrastructure(persistent_volumes=(volume,)),
    )
    names, redacted = pseudonyms(snapshot, KEY), redact(snapshot, KEY)
    changed = (
        (names["tier"], "In", (names["gold"], names["silver"])),
        (names["acme"], "Exists", ()),
    )
    assert redacted.budgets[0].match_expressions == changed
    assert redacted.budgets[0].match_labels == {names["tier"]: names["gold"]}
    (webhook,) = redacted.webhooks
    assert (webhook.object_selector, webhook.namespace_selector) == (changed, changed)
    assert webhook.name == f"{names['guard']}/{names['acme.example']}"
    (redacted_volume,) = redacted.infrastructure.persistent_volumes
    assert redacted_volume.node_affinity == (changed, changed[1:])


def test_another_key_gives_other_pseudonyms(cluster: ClusterSnapshot) -> None:
    mine, theirs = pseudonyms(cluster, b"1"), pseudonyms(cluster, b"2")
    assert mine.keys() == theirs.keys()
    assert set(mine.values()).isdisjoint(theirs.values())


def test_who_answered_whom_is_left_out_and_what_was_not_read_stays() -> None:
    record = ListRecord("Service", not_evaluated='forbidden (services: User "jane" cannot list)')
    reading = Reading("https://acme.example", "prod", "acme", "v1.29.6", 0, (record,))
    snapshot = make_snapshot([make_node("acme-1")], [])
    warnings = (
        Warning("loaded-once", "acme-1 is given twice", ("Node acme-1", "/home/jane/x.json")),
    )

    redacted = redact(msgspec.structs.replace(snapshot, reading=reading, warnings=warnings), KEY)

    assert redacted.reading is not None
    assert (redacted.reading.server, redacted.reading.context, redacted.reading.namespace) == (
        *("", ""),
        "",
    )
    assert redacted.reading.lists == (ListRecord("Service", not_evaluated="forbidden"),)
    (warning,) = redacted.warnings
    name = redacted.nodes[0].name
    assert warning == Warning("loaded-once", f"{name} is given twice", (f"Node {name}",))


def test_it_can_be_written_and_read(cluster: ClusterSnapshot) -> None:
    redacted = redact(cluster, KEY)
    assert decode_document(encode_snapshot(redacted, compress=False)) == redacted


# Every field with text in it was thought of


def texts(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield "Type.field" and the type of every field below that can hold text."""
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            for name, hint in get_type_hints(part).items():
                if holds_text(hint):
                    yield f"{part.__name__}.{name}", hint
                yield from texts(hint)
        elif part is not kind and get_origin(part) is not None:
            yield from texts(part)


def holds_text(hint: Any) -> bool:
    if hint is str:
        return True
    parts = (tuple, dict, types.UnionType)
    return get_origin(hint) in parts and any(map(holds_text, get_args(hint)))


# Names, and what else is replaced.
REPLACED = {
    *("Taint.key", "Taint.value", "Toleration.key", "Toleration.value"),
    *("OwnerReference.name", "OwnerReference.uid", "Lease.name", "Lease.holder_identity"),
    *("Node.name", "Node.uid", "Node.labels", "Pod.namespace", "Pod.name", "Pod.uid"),
    *("Pod.labels", "Pod.node_name", "Pod.finalizers"),
    *("Workload.namespace", "Workload.name", "Workload.uid", "PodWebhook.name"),
    *("Workload.scheduling_gates", "Workload.template_labels", "ContainerRequests.name"),
    *("Revisions.current", "Revisions.update"),
    *("PodDisruptionBudget.namespace", "PodDisruptionBudget.name"),
    *("PodDisruptionBudget.match_labels", "PodDisruptionBudget.disrupted_pods"),
    *("LeaderLease.namespace", "LeaderLease.name", "LeaderLease.holder_identity"),
    *("Namespace.name", "Namespace.labels", "Service.namespace", "Service.name"),
    *("Service.selector", "EndpointSlice.namespace", "EndpointSlice.name"),
    *("EndpointSlice.service", "Endpoint.pod", "Endpoint.node_name", "Endpoint.zone"),
    *("PersistentVolume.name", "PersistentVolume.claim_namespace", "PersistentVolume.claim_name"),
    *("PersistentVolume.driver", "PersistentVolumeClaim.namespace", "PersistentVolumeClaim.name"),
    *("PersistentVolumeClaim.volume_name", "VolumeAttachment.name", "VolumeAttachment.attacher"),
    *("VolumeAttachment.node_name", "VolumeAttachment.volume_name"),
    *("PersistentVolumeClaim.storage_class", "StorageClass.name", "StorageClass.provisioner"),
    *("CsiNode.name", "CsiDriver.name", "StorageDriver.name"),
    *("StorageCapacity.namespace", "StorageCapacity.name", "StorageCapacity.storage_class"),
    *("ControlPlaneFlags.seen_in", "ControlPlaneFlags.origins", "ObservedRenewals.missing"),
    *("ObjectReference.name", "ObjectReference.namespace"),
    *("PodClaims.namespace", "PodClaims.name", "PodClaims.claims", "PodClaims.ephemeral"),
    *("PodNeeds.node_selector", "PodNeeds.scheduler_name", "PodAffinityTerm.topology_key"),
    *("PodAffinityTerm.namespaces", "TopologySpreadConstraint.topology_key", "HostPort.host_ip"),
    "TopologySpreadConstraint.match_label_keys",
}
# Treated by functions of their own.
OF_THE_WHOLE = ("ClusterSnapshot.", "Warning.", "Reading.", "ListRecord.")


def test_every_field_with_text_is_kept_or_replaced_on_purpose() -> None:
    found = {name for name, _ in texts(ClusterSnapshot) if not name.startswith(OF_THE_WHOLE)}
    assert found == KEPT | WISHES | REPLACED | RESOURCES
