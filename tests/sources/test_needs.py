"""What is read of pods and nodes to tell where a pod can run."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from sources.builders import items, node, pod

from kubectl_evictplan.kube.needs import (
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodNeeds,
    TopologySpreadConstraint,
)
from kubectl_evictplan.kube.quantities import BadQuantity, parse_quantity
from kubectl_evictplan.sources.redaction import pseudonyms, redact
from kubectl_evictplan.sources.snapshot import decode_document, encode_snapshot

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


def container(cpu: str = "", **fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu} if cpu else {}}, **fields}


def needing(*containers: dict[str, Any], name: str = "p", **spec: Any) -> dict[str, Any]:
    return pod(name, spec={"nodeName": "n1", "containers": containers or [container()], **spec})


def needs_of(load: Any, *containers: dict[str, Any], **spec: Any) -> PodNeeds:
    found: PodNeeds = load(needing(*containers, **spec)).pods[0].needs
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128Mi", 128 << 20), ("1.5Gi", 3 << 29), ("1E", 10**18), ("1e3", 1000), ("2k", 2000),
        ("0.5", 1), ("1n", 1), (".5M", 500_000), ("5.", 5), ("99Ei", 2**63 - 1), ("1e999999999", 2**63 - 1),
        ("0e999999999", 0), (4, 4), (0.2, 1),
    ],
)  # fmt: skip
def test_quantities_are_whole_numbers_rounded_up_and_capped(text: str, value: int) -> None:
    assert parse_quantity(text) == value


def test_cpu_counts_in_thousandths() -> None:
    assert [parse_quantity(text, 1000) for text in ("100m", "1", "0.25", "1u")] == [
        *(100, 1000, 250, 1),
    ]


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1KiB", "Mi", "1e", "+", "1_000", "٣", "NaN"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(BadQuantity):
        parse_quantity(text)


def test_requests_of_containers_and_overhead_add_up(load: Any) -> None:
    needs = needs_of(
        load,
        container("250m"),
        {"name": "d", "resources": {"requests": {"memory": "64Mi"}, "limits": {"cpu": "1"}}},
        overhead={"cpu": "50m"},
    )
    # A limit without a request is a request.
    assert needs.requests == (("cpu", 1300), ("memory", 64 << 20))


def test_the_largest_init_container_counts_with_the_sidecars_before_it(load: Any) -> None:
    sidecar = container("100m", restartPolicy="Always")
    before = needs_of(load, container("50m"), initContainers=[sidecar, container("1")])
    behind = needs_of(load, container("50m"), initContainers=[container("1"), sidecar])
    small = needs_of(load, container("50m"), initContainers=[sidecar, container("20m")])
    assert [one.requests for one in (before, behind, small)] == [
        *((("cpu", 1100),), (("cpu", 1000),), (("cpu", 150),)),
    ]


def test_resources_of_the_whole_pod_win(load: Any) -> None:
    whole = {"requests": {"cpu": "2"}}
    assert needs_of(load, container("3"), container("1"), resources=whole).requests == (
        ("cpu", 2000),
    )


def test_host_ports_are_those_that_a_pod_takes_of_its_node(load: Any) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}]
    served = container(ports=[*ports, {"hostPort": 1, "hostIP": "0.0.0.0"}])
    assert needs_of(load, served).host_ports == (HostPort(1), HostPort(5353, "UDP"))
    in_network = needs_of(load, served, hostNetwork=True)
    assert HostPort(80) in in_network.host_ports


def test_required_affinity_and_spread_are_read_and_preferences_are_not(load: Any) -> None:
    app = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    selected = (("app", "In", ("web",)),)
    zone = [{"key": "zone", "operator": "In", "values": ["a"]}]
    needs = needs_of(
        load,
        nodeSelector={"disk": "ssd"},
        affinity={
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": zone}]},
                PREFERRED: [{"weight": 1, "preference": {"matchExpressions": zone}}],
            },
            "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": app}]},
            "podAntiAffinity": {REQUIRED: [{**app, "namespaces": ["b", "a"]}]},
        },
        topologySpreadConstraints=[
            {**app, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
            {**app, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    )
    assert needs == PodNeeds(
        node_selector=(("disk", "ssd"),),
        node_affinity=(NodeSelectorTerm((("zone", "In", ("a",)),)),),
        pod_anti_affinity=(PodAffinityTerm(HOSTNAME, selected, ("a", "b")),),
        topology_spread=(TopologySpreadConstraint(HOSTNAME, 2, selected),),
    )


def own_node(name: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}


def test_all_pods_of_a_daemon_set_have_equal_needs(load: Any) -> None:
    pods = [needing(name=name, nodeName=name, affinity=own_node(name)) for name in ("n1", "n2")]
    first, second = load(items(*pods)).pods
    assert first.needs is second.needs
    assert first.needs.only_own_node
    assert not needs_of(load, affinity=own_node("other")).only_own_node


def test_pods_of_one_template_share_what_they_need(load: Any) -> None:
    pods = [needing(container("1"), name=name, nodeSelector={"a": "b"}) for name in ("p1", "p2")]
    first, second = load(items(*pods)).pods
    assert first.needs is second.needs


def test_a_pod_without_containers_is_not_whole_so_its_needs_are_unknown(load: Any) -> None:
    assert load(pod(spec={"nodeName": "n1"})).pods[0].needs is None


def test_what_a_node_offers_is_read(load: Any) -> None:
    status = {"allocatable": {"pods": "110", "cpu": "7910m", "memory": "31Gi"}}
    (found,) = load(node("n2", status=status), node=False).nodes
    assert found.allocatable == {"cpu": 7910, "memory": 31 << 30, "pods": 110}


@pytest.mark.parametrize("wrong", ["lots", -1, "-1", True, [1]])
def test_a_wrong_quantity_is_named_with_its_field(wrong: Any, problems: Any) -> None:
    (found,) = problems(
        needing({"name": "c", "resources": {"requests": {"memory": wrong}}}),
    )
    assert "spec.containers[0].resources.requests.memory" in found
    assert "must be a quantity" in found


def test_needs_and_allocatable_stay_in_a_snapshot_and_older_ones_have_none(load: Any) -> None:
    status = {"allocatable": {"cpu": "4"}}
    snapshot = load(items(node("n2", status=status), needing(container("1"))), node=False)
    data = encode_snapshot(snapshot, compress=False)
    assert decode_document(data) == snapshot
    before = msgspec.json.decode(data)["content"]["pods"]
    assert before["needs"] == {"all": {"requests": [["cpu", 1000]]}}


def test_a_snapshot_of_before_they_were_read_still_loads_and_knows_none(load: Any) -> None:
    status = {"allocatable": {"cpu": "4"}}
    snapshot = load(items(node("n2", status=status), needing(container("1"))), node=False)
    document = msgspec.json.decode(encode_snapshot(snapshot, compress=False))
    del document["content"]["pods"]["needs"], document["content"]["nodes"][0]["allocatable"]
    content = msgspec.json.encode(document["content"])
    document["metadata"]["digest"] = "sha256:" + hashlib.sha256(content).hexdigest()
    before = decode_document(msgspec.json.encode(document))
    assert (before.pods[0].needs, before.nodes[0].allocatable) == (None, {})


def test_redacted_needs_still_fit_the_redacted_nodes(load: Any) -> None:
    wanted = [{"key": "cores", "operator": "Gt", "values": ["8"]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}}
    labels = {"disk": "ssd", "cores": "16"}
    big = {"uid": "u", "name": "big", "labels": labels}
    status = {"allocatable": {"cpu": "4", "acme.example/chip": "2"}}
    chip = {"requests": {"acme.example/chip": 1, "cpu": "1"}}
    snapshot = load(
        items(
            {"apiVersion": "v1", "kind": "Node", "metadata": big, "status": status},
            needing({"resources": chip}, nodeSelector={"disk": "ssd"}, affinity=affinity),
        ),
        node=False,
    )
    names, redacted = pseudonyms(snapshot, b"key"), redact(snapshot, b"key")
    (seen,), (moved,) = redacted.nodes, redacted.pods
    assert moved.needs is not None
    assert moved.needs.requests == ((names["acme.example/chip"], 1), ("cpu", 1000))
    assert seen.allocatable == {"cpu": 4000, names["acme.example/chip"]: 2}
    assert dict(moved.needs.node_selector).items() <= seen.labels.items()
    assert moved.needs.node_affinity == (NodeSelectorTerm(((names["cores"], "Gt", ("8",)),)),)
    assert seen.labels[names["cores"]] == "16"


def written(**spec: Any) -> dict[str, Any]:
    return pod(stored=False, spec={"containers": [container()], **spec})


def in_affinity(kind: str, required: Any) -> dict[str, Any]:
    return written(affinity={kind: {REQUIRED: required}})


def node_wish(key: str, operator: str, *values: str, part: str = "matchExpressions") -> Any:
    wish = {"key": key, "operator": operator, "values": list(values)}
    return in_affinity("nodeAffinity", {"nodeSelectorTerms": [{part: [wish]}]})


def spread(**fields: Any) -> dict[str, Any]:
    usual = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    return written(topologySpreadConstraints=[{**usual, **fields}])


@pytest.mark.parametrize(
    ("manifest", "field", "message"),
    [
        (node_wish("a", "Like", "x"), "operator", "must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt"),
        (node_wish("a", "Gt", "many"), "values", "Gt and Lt need one integer"),
        (node_wish("a", "In"), "values", "In and NotIn need values"),
        (node_wish("spec.x", "In", "n", part="matchFields"), "key", "must be metadata.name"),
        (node_wish("metadata.name", "Exists", part="matchFields"), "operator", "must be In or NotIn"),
        (in_affinity("nodeAffinity", {}), "nodeSelectorTerms", "at least one"),
        (in_affinity("podAntiAffinity", [{"labelSelector": {}}]), "topologyKey", "is missing"),
        (spread(maxSkew=0), "maxSkew", "must be more than 0"),
        (spread(minDomains=0), "minDomains", "must be more than 0"),
        (spread(whenUnsatisfiable=""), "whenUnsatisfiable", "must be DoNotSchedule or ScheduleAnyway"),
        (spread(nodeTaintsPolicy="honor"), "nodeTaintsPolicy", "must be Honor or Ignore"),
        (written(containers=[container(ports=[{"hostPort": 70000}])]), "hostPort", "must be a port"),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses_in_a_manifest_is_named(
    manifest: Any, field: str, message: str, problems: Any
) -> None:
    (found,) = problems(manifest)
    assert field in found
    assert message in found


def test_a_manifest_that_the_api_server_takes_is_taken(load: Any) -> None:
    app = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    loaded = load(
        written(
            affinity={
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
                "podAffinity": {REQUIRED: [app]},
            },
            topologySpreadConstraints=[
                {**app, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
            ],
        )
    )
    assert loaded.pods[0].needs.pod_affinity
