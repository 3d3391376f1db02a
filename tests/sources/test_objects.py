"""The shape and content of objects: B53 to B106 as far as files are concerned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_evictplan.model.objects import Toleration

NOT_READY = "node.kubernetes.io/not-ready"


def pod(name: str = "p", *, stored: bool = True, meta: Any = None, **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "d", **(meta or {})}
    if stored:
        metadata = {"uid": f"u-{name}", "resourceVersion": "1", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **fields}


def node(name: str = "n2", *, stored: bool = True, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"u-{name}"} if stored else {"name": name}
    ready = {"conditions": [{"type": "Ready", "status": "True",
                             "lastHeartbeatTime": "2026-11-20T21:59:00Z"}]}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": ready, **fields}


def items(*objects: Any, kind: str = "List", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(objects), **fields}


def lease(name: str = "n1", **spec: Any) -> dict[str, Any]:
    spec = {"holderIdentity": name, "renewTime": "2026-11-20T21:59:50.123456Z", **spec}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "uid": f"u-{name}"},
        "spec": spec,
    }


# Kinds and lists


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"apiVersion": "v1", "metadata": {"name": "p"}}, "kind is missing"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "apiVersion is missing"),
        (items({"kind": "Pod", "metadata": {"name": "p"}}), "apiVersion is missing"),
    ],
)
def test_b53_kind_and_api_version_are_required(problems: Any, document: Any, reason: str) -> None:
    assert reason in problems(document)[0]


def test_b53_the_items_place_is_named(problems: Any) -> None:
    wrong = {"apiVersion": "v1", "metadata": {"name": "p"}}
    assert problems(items(pod(), wrong), name="f.json") == [
        "f.json: items[1]: not a Kubernetes object: kind is missing"
    ]


def test_b54_lists_of_every_shape(load: Any) -> None:
    bare = pod("a")
    del bare["kind"], bare["apiVersion"]
    nested = items(pod("b"), items(pod("c"), items(pod("e"))))
    snapshot = load(items(bare, kind="PodList"), nested, items(kind="NodeList"))
    assert [pod.name for pod in snapshot.pods] == ["a", "b", "c", "e"]
    assert "Node" in snapshot.kinds_seen


def test_b54_lists_nested_too_deep(problems: Any) -> None:
    deep = pod()
    for _ in range(5):
        deep = items(deep)
    assert "lists nested deeper" in problems(deep)[0]


def test_b54_null_items_are_an_empty_list(codes: Any) -> None:
    assert "empty-list" in codes({"apiVersion": "v1", "kind": "List", "items": None})


@pytest.mark.parametrize("value", [{}, "x", 3])
def test_b55_items_must_be_a_list(problems: Any, value: Any) -> None:
    (line,) = problems({"apiVersion": "v1", "kind": "PodList", "items": value})
    assert "items: must be a list" in line


@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
def test_b56_half_a_list_is_refused(problems: Any, name: str) -> None:
    text = json.dumps(items(pod(), metadata={"continue": "abc"}))
    text = text if name == "f.json" else "# yaml\n" + text
    assert "incomplete list" in problems(text, name=name)[0]


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []}, "kubectl get -o json"),
        ({"apiVersion": "v1", "kind": "Status", "code": 404}, "API server's answer"),
        (items(kind="EventList"), "list of events"),
        ({"type": "ADDED", "object": pod()}, "without -w"),
        ({"apiVersion": "evictplan.dev/v1alpha1", "kind": "Scenario"}, "what-if scenario"),
    ],
)
def test_b57_other_answers_get_a_hint(problems: Any, document: Any, hint: str) -> None:
    assert hint in problems(document)[0]


def test_b58_unknown_kinds_are_counted(load: Any) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "b"}}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"items": 3}}
    snapshot = load(items(secret, secret, widget), widget)
    assert snapshot.ignored_kinds == {"Secret": 2, "Widget": 2}
    assert not snapshot.warnings


def test_b58_a_kind_counts_only_in_its_group(load: Any) -> None:
    foreign = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "x"}}
    odd = {**foreign, "spec": {"taints": "none"}, "metadata": {"name": "y", "uid": "u"}}
    snapshot = load(items(foreign, odd))
    assert snapshot.ignored_kinds == {"Node": 2}
    assert [node.name for node in snapshot.nodes] == ["n1"]


def test_b59_old_versions_are_read(load: Any) -> None:
    daemon_set = {"apiVersion": "extensions/v1beta1", "kind": "DaemonSet",
                  "metadata": {"name": "a", "namespace": "d", "uid": "u"}}  # fmt: skip
    assert load(items(daemon_set)).workloads[0].kind == "DaemonSet"


def test_b59_an_empty_selector_means_nothing_in_v1beta1_and_everything_in_v1(load: Any) -> None:
    def budget(version: str) -> dict[str, Any]:
        return {
            "apiVersion": f"policy/{version}",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": version, "namespace": "d", "uid": version},
            "spec": {"selector": {}, "maxUnavailable": 1},
        }

    snapshot = load(items(budget("v1"), budget("v1beta1")))
    assert [item.match_labels for item in snapshot.budgets] == [{}, None]
    assert "odd-budget" in {warning.code for warning in snapshot.warnings}


def test_b60_a_future_version_is_an_unknown_kind(load: Any) -> None:
    snapshot = load(items({"apiVersion": "policy/v2", "kind": "PodDisruptionBudget"}))
    assert snapshot.ignored_kinds == {"PodDisruptionBudget": 1}
    assert [warning.code for warning in snapshot.warnings] == ["unknown-version"]


@pytest.mark.parametrize(("kind", "near"), [("pod", "Pod"), ("Nodes", "Node")])
def test_b61_a_misspelled_kind_names_the_nearest(problems: Any, kind: str, near: str) -> None:
    assert f"did you mean {near}?" in problems({**pod(), "kind": kind})[0]


@pytest.mark.parametrize("metadata", [None, [], "x"])
def test_b62_metadata_is_required(problems: Any, metadata: Any) -> None:
    assert "metadata: must be an object" in problems({**pod(), "metadata": metadata})[0]


# Names


def test_b63_a_name_is_required(problems: Any) -> None:
    assert "metadata.name: is missing" in problems(pod(meta={"name": ""}))[0]
    assert "metadata.name: is missing" in problems(pod(meta={"name": "", "generateName": "x-"}))[0]


def test_b63_a_manifests_generate_name_gets_a_stable_name(load: Any) -> None:
    manifest = pod(stored=False, meta={"name": None, "generateName": "job-"})
    first, second = load(manifest), load(items(manifest))
    assert first.pods == second.pods
    assert first.pods[0].name.startswith("job-")
    assert "synthetic-name" in {warning.code for warning in first.warnings}


@pytest.mark.parametrize(
    "name", ["Upper", "a_b", "x" * 254, "a.", "a..b", "../x", "a/b", "a b", "é", "a%2f", "-a"]
)
def test_b64_invalid_names_are_errors_in_manifests_and_warnings_in_dumps(
    problems: Any, codes: Any, name: str
) -> None:
    assert "metadata.name: " in problems(pod(name, stored=False))[0]
    assert "invalid-name" in codes(pod(name))


def test_b65_a_name_may_stand_once_in_a_namespace(problems: Any, load: Any) -> None:
    assert "given twice" in problems(items(pod(), pod()))[0]
    assert "first in f.json items[0]" in problems(items(pod(), pod()), name="f.json")[0]
    assert len(load(items(pod(), pod(meta={"namespace": "e"}))).pods) == 2


def test_b66_a_manifest_without_namespace_is_in_default(load: Any, problems: Any) -> None:
    snapshot = load(pod(stored=False, meta={"namespace": None}))
    assert snapshot.pods[0].namespace == "default"
    assert "namespace-defaulted" in {warning.code for warning in snapshot.warnings}
    assert "metadata.namespace: is missing" in problems(pod(meta={"namespace": None}))[0]


def test_b67_a_nodes_namespace_is_ignored(codes: Any) -> None:
    odd = node()
    odd["metadata"]["namespace"] = "d"
    assert "namespace-ignored" in codes(odd)


# Types


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"tolerations": "x"}, "spec.tolerations: must be a list (got \"x\"; expected a list)"),
        ({"nodeName": 5}, "spec.nodeName: must be a string"),
        ({"hostNetwork": "yes"}, "spec.hostNetwork: must be a boolean"),
        ({"terminationGracePeriodSeconds": True}, "spec.terminationGracePeriodSeconds: must be"),
        ({"tolerations": [{"key": {}}]}, "spec.tolerations[0].key: must be a string (got an obj"),
        ({"tolerations": [None]}, "spec.tolerations[0]: must be an object"),
        ({"containers": [{"env": {}}]}, "spec.containers[0].env: must be a list"),
    ],
)  # fmt: skip
def test_b68_wrong_types_name_the_field(
    problems: Any, stored: bool, name: str, spec: Any, field: str
) -> None:
    text = json.dumps(pod(stored=stored, spec=spec))
    (line,) = problems(text if name == "f.json" else f"# yaml\n{text}", name=name)
    assert f"Pod d/p: {field[: field.find(' (')]}" in line


def test_b68_all_problems_of_an_object_come_together(problems: Any) -> None:
    bad = pod(meta={"labels": [], "ownerReferences": {}}, spec={"nodeName": 5})
    assert len(problems(items(bad, pod("q", spec={"nodeName": 5})))) == 4


def test_b69_nulls_are_absent(load: Any) -> None:
    empty = {"conditions": None, "phase": None}
    spec = {"tolerations": None, "volumes": None, "containers": None, "nodeName": None,
            "terminationGracePeriodSeconds": None, "hostNetwork": None}  # fmt: skip
    nulls = pod(meta={"labels": None, "ownerReferences": None, "annotations": None,
                      "finalizers": None, "creationTimestamp": None},
                spec=spec, status=empty)  # fmt: skip
    odd_node = node(spec={"taints": None, "unschedulable": None}, status={"conditions": None})
    snapshot = load(items(nulls, pod("q"), pod("r", spec=None, status=None), odd_node))
    bare = snapshot.pods[1]
    assert snapshot.pods[0].tolerations == bare.tolerations == ()
    assert snapshot.pods[0].labels == {}
    assert snapshot.pods[0].termination_grace_period_seconds == 30
    assert snapshot.nodes[1].conditions == ()


def test_types_times_names_and_rules_are_reported_at_once(problems: Any) -> None:
    taint = {"key": "a", "effect": "NoExec", "timeAdded": "soon"}
    bad = node("N", stored=False, spec={"taints": [taint], "unschedulable": "no"})
    fields = {line.split(": ")[2] for line in problems(bad, name="f.json")}
    assert fields == {
        "spec.unschedulable",
        "spec.taints[0].timeAdded",
        "spec.taints[0].effect",
        "metadata.name",
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"toleration": []},
        {"nodename": "n1"},
        {"tolerations": [{"operator": "Exists", "effects": "NoExecute"}]},
        {"tolerations": [{"operator": "Exists", "tolerationSecond": 3}]},
    ],
)
def test_b70_misspelled_fields_get_a_suggestion(codes: Any, spec: Any) -> None:
    assert "misspelled-field" in codes(pod(stored=False, spec=spec))


def test_b70_other_fields_are_silent(codes: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "envFrom": []}], "nodeSelector": {},
            "priority": 0, "schedulerName": "x", "hostPID": True, "volumes": []}  # fmt: skip
    assert "misspelled-field" not in codes(pod(stored=False, spec=spec))


def test_b71_duplicate_uids_are_a_warning(codes: Any) -> None:
    assert "duplicate-uid" in codes(items(pod(), pod("q", meta={"uid": "u-p"})))


def owner(kind: str, name: str, *, controller: bool = True) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "x",
            "controller": controller}  # fmt: skip


def replica_set(name: str, *owners: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "d", "uid": name, "ownerReferences": list(owners)},
        "spec": {"replicas": 3},
    }


def test_b72_owners_that_make_no_sense_are_warnings(codes: Any) -> None:
    two = pod(meta={"ownerReferences": [owner("ReplicaSet", "a"), owner("Job", "b")]})
    missing = pod("q", meta={"ownerReferences": [owner("ReplicaSet", "gone")]})
    cycle = replica_set("a", owner("ReplicaSet", "b")), replica_set("b", owner("ReplicaSet", "a"))
    found = codes(items(two, missing, *cycle))
    assert {"two-controllers", "unknown-owner", "owner-cycle"} <= found


def test_b72_an_owner_of_a_kind_that_was_not_listed_is_no_finding(codes: Any) -> None:
    assert not codes(items(pod(meta={"ownerReferences": [owner("ReplicaSet", "a")]})))


# Nodes and taints


def test_b74_no_nodes_is_an_error_and_no_pods_is_fine(problems: Any, load: Any) -> None:
    assert "nothing to simulate" in problems(pod(), node=False)[0]
    assert load().pods == ()


def test_b75_a_thousand_taints(load: Any) -> None:
    taints = [{"key": f"k{i}", "effect": "NoExecute"} for i in range(1000)]
    assert len(load(node(spec={"taints": taints})).nodes[1].taints) == 1000


@pytest.mark.parametrize(
    ("taints", "code", "message"),
    [
        ([{"key": "a", "effect": "NoExecute"}] * 2, "duplicate-taint", "must be unique"),
        ([{"key": "", "effect": "NoExecute"}], "invalid-taint", "must be non-empty"),
        ([{"key": "a b", "effect": "NoExecute"}], "invalid-taint", "name part"),
        ([{"key": "a", "value": "x" * 64, "effect": "NoExecute"}], "invalid-taint", "63"),
        ([{"key": "a"}], "unknown-taint-effect", "required"),
        ([{"key": "a", "effect": "NoExec"}], "unknown-taint-effect", "supported values"),
        ([{"key": "a", "effect": "noexecute"}], "unknown-taint-effect", "supported values"),
    ],
)
def test_b76_b77_b78_taints_are_validated_in_manifests_and_kept_in_dumps(
    problems: Any, load: Any, taints: Any, code: str, message: str
) -> None:
    assert message in problems(node(stored=False, spec={"taints": taints}))[0]
    snapshot = load(node(spec={"taints": taints}))
    assert code in {warning.code for warning in snapshot.warnings}
    assert len(snapshot.nodes[1].taints) == len(taints)


def test_b80_odd_taint_times_are_a_warning(codes: Any, load: Any) -> None:
    taint = {"key": "a", "effect": "NoExecute", "timeAdded": "2030-01-01T00:00:00Z"}
    # The newest renewal is the time of the dump, so that the taint lies in its future.
    assert "taint-time" in codes(items(node(spec={"taints": [taint]}), lease()))
    zero = {**taint, "timeAdded": "0001-01-01T00:00:00Z"}
    assert load(node(spec={"taints": [zero]})).nodes[1].taints[0].time_added_ns is None


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [{"type": "Ready", "status": "True"}],
        [{"type": "Ready", "status": "unknown", "lastHeartbeatTime": "2026-11-20T21:59:00Z"}],
        [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T21:59:00Z"}] * 2,
    ],
)
def test_b82_odd_ready_conditions_are_a_warning(codes: Any, conditions: Any) -> None:
    assert "ready-condition" in codes(node(status={"conditions": conditions}))


def test_b83_conflicting_zone_labels_are_a_warning(codes: Any) -> None:
    odd = node()
    odd["metadata"]["labels"] = {
        "topology.kubernetes.io/zone": "a",
        "failure-domain.beta.kubernetes.io/zone": "b",
    }
    assert "zone-labels" in codes(odd)


def test_b84_odd_leases_are_warnings(codes: Any) -> None:
    assert "odd-lease" in codes(lease(holderIdentity="other"))
    assert "odd-lease" in codes(lease(renewTime=None))
    assert "odd-lease" in codes({**lease(), "spec": None})
    assert not codes(lease())


def test_b84_microseconds_are_exact(load: Any) -> None:
    assert load(lease()).leases["n1"].renew_time_ns % 1_000_000_000 == 123_456_000


def test_b85_unschedulable_without_its_taint_is_a_warning(codes: Any) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert "unschedulable-mismatch" in codes(node(spec={"unschedulable": True}))
    assert "unschedulable-mismatch" in codes(node(spec={"taints": [taint]}))
    assert not codes(node(spec={"unschedulable": True, "taints": [taint]}))


@pytest.mark.parametrize("name", ["N1", "n\u200b1", "\uff4e1"])
def test_b86_names_that_look_alike_are_a_warning(codes: Any, name: str) -> None:
    assert "confusable-names" in codes(node(name))


# Pods and tolerations


def test_b87_a_pod_on_an_unknown_node_is_kept_with_a_warning(load: Any) -> None:
    snapshot = load(pod(spec={"nodeName": "gone"}))
    assert snapshot.pods[0].node_name == "gone"
    assert [warning.code for warning in snapshot.warnings] == ["unknown-node"]


def test_b88_every_state_of_a_pod_is_loaded(load: Any) -> None:
    snapshot = load(
        items(
            pod("bound", spec={"nodeName": "n1"}),
            pod("pending"),
            pod("done", status={"phase": "Succeeded"}),
            pod("evicted", status={"phase": "Failed", "reason": "Evicted"}),
            pod("going", meta={"deletionTimestamp": "2026-11-20T21:59:30Z",
                               "deletionGracePeriodSeconds": 20}),
            pod("mirror", meta={"annotations": {"kubernetes.io/config.mirror": "x",
                                                "kubernetes.io/config.source": "file"}}),
            pod("ready", status={"phase": "Running",
                                 "conditions": [{"type": "Ready", "status": "False"}]}),
            pod("scratch", spec={"volumes": [{"name": "emptyDir"}, {"emptyDir": {}}],
                                 "hostNetwork": True}),
        )
    )  # fmt: skip
    pods = {pod.name: pod for pod in snapshot.pods}
    assert (pods["bound"].phase, pods["pending"].phase) == ("Running", "Pending")
    assert (pods["done"].phase, pods["evicted"].status_reason) == ("Succeeded", "Evicted")
    assert pods["going"].deletion_grace_period_seconds == 20
    assert pods["going"].deletion_timestamp_ns is not None
    assert (pods["mirror"].mirror, pods["mirror"].config_source) == (True, "file")
    assert (pods["ready"].ready, pods["bound"].ready) == ("False", None)
    assert (pods["scratch"].empty_dir, pods["scratch"].host_network) == (True, True)
    assert not pods["bound"].empty_dir
    assert not snapshot.warnings


def tolerating(*tolerations: dict[str, Any], stored: bool = True) -> dict[str, Any]:
    return pod(stored=stored, spec={"tolerations": list(tolerations)})


@pytest.mark.parametrize("seconds", [0, -5, 9_223_372_036])
def test_b89_small_and_negative_seconds_are_kept_silently(load: Any, seconds: int) -> None:
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    snapshot = load(tolerating(toleration))
    assert snapshot.pods[0].tolerations[0].toleration_seconds == seconds
    assert not snapshot.warnings


@pytest.mark.parametrize("seconds", [9_223_372_037, 18_446_744_074, 2**63 - 1])
def test_b90_seconds_that_overflow_are_kept_with_a_warning(load: Any, seconds: int) -> None:
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    for stored in (True, False):
        snapshot = load(tolerating(toleration, stored=stored))
        assert snapshot.pods[0].tolerations[0].toleration_seconds == seconds
        assert "toleration-overflow" in {warning.code for warning in snapshot.warnings}


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "a", "operator": "Exists", "tolerationSeconds": 3},
        {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3},
        {"operator": "Equal"},
        {},
        {"key": "a", "operator": "Exists", "value": "x"},
        {"key": "a", "operator": "exists"},
        {"key": "a", "effect": "NoExec"},
        {"key": "a b", "operator": "Exists"},
    ],
)
def test_b91_b92_tolerations_are_validated_in_manifests_and_kept_in_dumps(
    problems: Any, load: Any, toleration: dict[str, Any]
) -> None:
    assert "spec.tolerations[0]." in problems(tolerating(toleration, stored=False))[0]
    snapshot = load(tolerating(toleration))
    assert [warning.code for warning in snapshot.warnings] == ["invalid-toleration"]
    assert snapshot.pods[0].tolerations[0].key == toleration.get("key", "")


def test_b93_comparison_operators_follow_the_version(problems: Any, codes: Any) -> None:
    greater = {"key": "a", "operator": "Gt", "value": "5"}
    manifest = tolerating(greater, stored=False)
    assert "supported values" in problems(manifest, manifest_version="1.34")[0]
    assert "comparison-operator" in codes(manifest, manifest_version="v1.35.1")
    bad = {**greater, "value": "+5"}
    assert "invalid-toleration" in codes(tolerating(bad))


def test_b94_order_and_duplicates_of_tolerations_are_kept(load: Any) -> None:
    toleration = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
    many = [{**toleration, "tolerationSeconds": i % 7} for i in range(10_000)]
    kept = load(tolerating(*many)).pods[0].tolerations
    assert [t.toleration_seconds for t in kept] == [i % 7 for i in range(10_000)]


def test_b95_a_negative_grace_period_is_one_and_a_long_one_is_named(load: Any) -> None:
    for stored in (True, False):
        snapshot = load(pod(stored=stored, spec={"terminationGracePeriodSeconds": -3}))
        assert snapshot.pods[0].termination_grace_period_seconds == 1
        assert "negative-grace-period" in {warning.code for warning in snapshot.warnings}
    snapshot = load(pod(spec={"terminationGracePeriodSeconds": 315_360_000}))
    assert [warning.code for warning in snapshot.warnings] == ["long-grace-period"]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1, "selector": None}, "both"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "neither"),
        ({"minAvailable": "150%", "selector": {}}, "above 100"),
        ({"minAvailable": "50", "selector": {}}, "neither a number nor a percentage"),
        ({"minAvailable": -1, "selector": {}}, "negative"),
        ({"minAvailable": 1}, "no selector"),
        ({"minAvailable": 1, "selector": {}}, "every pod of its namespace"),
    ],
)
def test_b96_odd_budgets_are_named(load: Any, spec: Any, word: str) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d", "uid": "u", "generation": 2},
        "spec": spec,
        "status": {"disruptionsAllowed": 0, "expectedPods": 3, "observedGeneration": 1},
    }
    messages = [w.message for w in load(budget).warnings if w.code == "odd-budget"]
    assert any(word in message for message in messages)
    assert any("older than its spec" in message for message in messages)


def test_b96_selector_expressions_are_kept(load: Any) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]},
                                     {"key": "b", "operator": "Exists"}]}  # fmt: skip
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": selector, "maxUnavailable": "30%"},
    }
    (loaded,) = load(budget).budgets
    assert loaded.match_expressions == (("a", "In", ("x", "y")), ("b", "Exists", ()))
    assert loaded.match_labels == {}


def test_b97_a_pod_that_cannot_go_is_named(codes: Any) -> None:
    going = {"deletionTimestamp": "2026-11-20T21:59:30Z", "finalizers": ["example.com/x"]}
    assert "stuck-terminating" in codes(pod(meta=going))
    assert "stuck-terminating" in codes(pod(meta={"deletionTimestamp": "2030-01-01T00:00:00Z"}))


def test_b98_an_unknown_phase_is_named(codes: Any) -> None:
    assert "unknown-phase" in codes(pod(status={"phase": "Weird"}))


@pytest.mark.parametrize(
    ("containers", "found"),
    [
        ([{"env": [{"name": "A"}, {"name": "A"}]}], True),
        ([{"env": [{"name": "A"}]}, {"env": [{"name": "A"}]}], False),
        ([{"ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}], True),
        ([{"ports": [{"containerPort": 1, "protocol": "UDP"}, {"containerPort": 1}]}], False),
    ],
)
def test_duplicate_env_names_and_ports_are_seen(load: Any, containers: Any, found: bool) -> None:
    assert load(pod(spec={"containers": containers})).pods[0].duplicate_env_or_port is found
    assert load(pod(spec={"initContainers": containers})).pods[0].duplicate_env_or_port is found


# Time


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("text", ["2026-11-20T22:00:00", "2026-02-30T00:00:00Z", "soon"])
def test_b101_b102_bad_timestamps_name_their_field(problems: Any, stored: bool, text: str) -> None:
    (line,) = problems(pod(stored=stored, meta={"creationTimestamp": text}))
    assert "Pod d/p: metadata.creationTimestamp: " in line


def test_b103_a_leap_second_is_a_warning(codes: Any) -> None:
    assert "leap-second" in codes(pod(meta={"creationTimestamp": "2016-12-31T23:59:60Z"}))


def test_b105_zero_time_is_unset(load: Any) -> None:
    zero = pod(meta={"deletionTimestamp": "0001-01-01T00:00:00Z"})
    assert load(zero).pods[0].deletion_timestamp_ns is None


def test_b106_timestamps_after_the_dump_are_warnings_and_kept(load: Any) -> None:
    future = pod(meta={"creationTimestamp": "2030-01-01T00:00:00Z"})
    snapshot = load(items(lease(), future))
    assert "future-timestamp" in {warning.code for warning in snapshot.warnings}
    assert snapshot.pods[0].creation_timestamp_ns > snapshot.taken_at_ns


def test_the_dumps_time_is_the_newest_renewal_else_the_newest_timestamp(load: Any) -> None:
    snapshot = load(items(lease(), lease("n3", renewTime="2026-11-20T21:59:59Z")))
    assert snapshot.taken_at_source == "newest lease renewal"
    assert snapshot.taken_at_ns == snapshot.leases["n3"].renew_time_ns
    snapshot = load(pod(meta={"creationTimestamp": "2026-11-20T22:10:00Z",
                              "deletionTimestamp": "2026-11-20T23:10:00Z"}))  # fmt: skip
    assert snapshot.taken_at_source == "newest timestamp of the objects"
    assert snapshot.taken_at_ns == snapshot.pods[0].creation_timestamp_ns


def test_leap_taints_changed_is_the_newest_manager_of_spec_taints(load: Any) -> None:
    def entry(time: str, fields: Any) -> dict[str, Any]:
        return {"manager": "m", "time": time, "fieldsV1": fields}

    fields = {"f:spec": {"f:taints": {}}}
    tainted = node()
    tainted["metadata"]["managedFields"] = [
        entry("2026-11-20T20:00:00Z", fields),
        entry("2026-11-20T21:00:00Z", fields),
        entry("2026-11-20T22:00:00Z", {"f:status": {}}),
        entry("2026-11-20T22:00:00Z", {"f:spec": {"f:unschedulable": {}}}),
    ]
    loaded = load(tainted).nodes
    assert loaded[1].taints_changed_ns == 1_795_208_400_000_000_000
    assert loaded[0].taints_changed_ns is None


# Admission and strictness


def test_admission_is_for_manifests_only(load: Any) -> None:
    stored, written = load(pod()).pods[0], load(pod(stored=False)).pods[0]
    assert stored.tolerations == ()
    assert Toleration(NOT_READY, "Exists", "", "NoExecute", 300) in written.tolerations


def test_admission_knows_daemon_set_and_static_pods(load: Any) -> None:
    daemon = pod(stored=False, meta={"ownerReferences": [owner("DaemonSet", "x")]})
    assert load(daemon).pods[0].tolerations[0] == Toleration(NOT_READY, "Exists", "", "NoExecute")
    annotations = {"kubernetes.io/config.source": "file"}
    static = load(pod(stored=False, meta={"annotations": annotations})).pods[0]
    assert static.tolerations == (Toleration("", "Exists", "", "NoExecute"),)


def test_strict_makes_warnings_errors(problems: Any) -> None:
    (line,) = problems(pod(status={"phase": "Weird"}), strict=True)
    assert line == "Pod d/p: status.phase is unknown: treated as Running [unknown-phase]"


def test_strict_names_unknown_kinds_but_accepts_them(codes: Any) -> None:
    assert codes({"apiVersion": "v1", "kind": "Secret"}, strict=True) == {"unknown-kind"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("services: {web: {image: x}}", "docker-compose"),
        ("apiVersion: v2\nname: x\nversion: 1.0.0", "Chart.yaml"),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization", "Kustomization"),
        ("resources: [a.yaml]", "kustomization.yaml"),
    ],
)
def test_b52_files_that_lie_beside_manifests(
    problems: Any, text: str, reason: str, tmp_path: Any
) -> None:
    from kubectl_evictplan.sources.files import load_files

    assert reason in problems(text)[0]
    directory = tmp_path / "all"
    directory.mkdir()
    (directory / "x.yaml").write_text(text)
    (directory / "n.json").write_text(json.dumps(node()))
    warnings = load_files([str(directory)], recursive=True).warnings
    assert [warning.code for warning in warnings] == ["not-kubernetes"]
