"""The shape of objects: kinds, lists, names, fields and owners."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from msgspec import inspect
from sources.builders import items, node, owner, pod, replica_set

from kubectl_evictplan.sources.wire import KINDS


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"apiVersion": "v1", "metadata": {"name": "p"}}, "kind is missing"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "apiVersion is missing"),
        (items({"kind": "Pod", "metadata": {"name": "p"}}), "apiVersion is missing"),
    ],
)
def test_kind_and_api_version_are_required(problems: Any, document: Any, reason: str) -> None:
    assert reason in problems(document)[0]


@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
def test_only_items_of_a_typed_list_may_leave_out_their_api_version(
    problems: Any, load: Any, name: str
) -> None:
    bare = pod("a")
    del bare["apiVersion"]
    as_text = json.dumps if name == "f.json" else yaml.safe_dump
    assert "apiVersion is missing" in problems(as_text(items(bare)), name=name)[0]
    assert load(as_text(items(bare, kind="PodList")), name=name).pods


def test_the_items_place_is_named(problems: Any) -> None:
    wrong = {"apiVersion": "v1", "metadata": {"name": "p"}}
    assert problems(items(pod(), wrong), name="f.json") == [
        "f.json:1:168: items[1]: not a Kubernetes object: kind is missing"
    ]


def test_of_an_indexed_job_its_limits_and_how_often_each_index_failed_are_read(load: Any) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sums", "namespace": "d", "uid": "j"},
        "spec": {
            "managedBy": "kueue.x-k8s.io/multikueue",
            "backoffLimitPerIndex": 2,
            "maxFailedIndexes": 5,
            "activeDeadlineSeconds": 60,
        },
        "status": {"failedIndexes": "1,3-5", "startTime": "1970-01-01T00:01:00Z"},
    }
    counted = {"batch.kubernetes.io/job-index-failure-count": "3"}
    odd = {"batch.kubernetes.io/job-index-failure-count": "-1"}
    pods = [pod(name, meta={"annotations": notes}) for name, notes in (("a", counted), ("b", odd))]
    snapshot = load(items(job, *pods))
    [found] = snapshot.workloads
    assert found.managed_elsewhere
    assert (found.max_failed_indexes, found.failed_indexes) == (5, 4)
    assert found.deadline_ns == 120_000_000_000
    assert [one.index_failures for one in snapshot.pods] == [3, 0]


def test_a_pods_own_deadline_counts_from_its_start(load: Any) -> None:
    limited, without, waiting = (pod(name) for name in ("a", "b", "c"))
    for one in (limited, waiting):
        one.setdefault("spec", {})["activeDeadlineSeconds"] = 60
    for one in (limited, without):
        one.setdefault("status", {})["startTime"] = "1970-01-01T00:01:00Z"
    waiting.get("status", {}).pop("startTime", None)
    snapshot = load(items(limited, without, waiting))
    assert [one.deadline_ns for one in snapshot.pods] == [120_000_000_000, None, None]


@pytest.mark.parametrize(
    ("spec", "status", "wanted", "no_more"),
    [
        ({"parallelism": 3, "completions": 4}, {"succeeded": 3}, 1, False),
        ({"parallelism": 3}, {}, 3, False),
        ({"parallelism": 3}, {"succeeded": 1}, 3, True),
        ({"parallelism": 3, "suspend": True}, {}, 0, True),
        *(
            ({"completions": 1}, {"conditions": [{"type": ends, "status": "True"}]}, 0, True)
            for ends in ("Complete", "FailureTarget", "SuccessCriteriaMet")
        ),
    ],
)
def test_a_job_wants_no_more_pods_than_it_can_still_use(
    load: Any, spec: Any, status: Any, wanted: int, no_more: bool
) -> None:
    metadata = {"name": "sums", "namespace": "d", "uid": "j"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    [found] = load(items({**job, "spec": spec, "status": status})).workloads
    assert (found.replicas, found.makes_no_more) == (wanted, no_more)


def stored(kind: str, name: str, api: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "uid": name}, **fields}


def test_volumes_and_classes_of_old_plugins_belong_to_the_drivers_that_took_over(load: Any) -> None:
    ebs = stored("PersistentVolume", "a", spec={"awsElasticBlockStore": {"volumeID": "vol-1"}})
    nfs = stored("PersistentVolume", "b", spec={"nfs": {"server": "s", "path": "/"}})
    storage = "storage.k8s.io/v1"
    gce = stored("StorageClass", "c", storage, provisioner="kubernetes.io/gce-pd")
    own = stored("StorageClass", "d", storage, provisioner="disk.example")
    found = load(items(ebs, nfs, gce, own)).infrastructure
    assert [one.driver for one in found.persistent_volumes] == ["ebs.csi.aws.com", ""]
    assert [one.provisioner for one in found.storage_classes] == [
        "pd.csi.storage.gke.io",
        "disk.example",
    ]


def test_what_attaches_volumes_to_nodes_is_read(load: Any) -> None:
    storage = "storage.k8s.io/v1"
    listed = items(
        stored("PersistentVolume", "a", spec={"nfs": {"server": "x", "path": "/"}}),
        stored("PersistentVolume", "b", spec={"hostPath": {"path": "/x"}}),
        stored("PersistentVolume", "c", spec={"csi": {"driver": "x.csi"}}),
        stored("CSIDriver", "x.csi", storage, spec={"attachRequired": False}),
        stored("CSIDriver", "y.csi", storage, spec={}),
    )
    found = load(listed).infrastructure
    told = [(one.name, one.mounted_only, one.host_path) for one in found.persistent_volumes]
    assert told == [("a", True, False), ("b", True, True), ("c", False, False)]
    drivers = [(one.name, one.attach_required) for one in found.storage_drivers]
    assert drivers == [("x.csi", False), ("y.csi", True)]


def test_lists_of_every_shape(load: Any) -> None:
    bare = pod("a")
    del bare["kind"], bare["apiVersion"]
    nested = items(pod("b"), items(pod("c"), items(pod("e"))))
    snapshot = load(items(bare, kind="PodList"), nested, items(kind="NodeList"))
    assert [pod.name for pod in snapshot.pods] == ["a", "b", "c", "e"]
    assert "Node" in snapshot.kinds_seen


def test_lists_nested_too_deep(problems: Any) -> None:
    deep = pod()
    for _ in range(5):
        deep = items(deep)
    assert "lists nested deeper" in problems(deep)[0]


def test_null_items_are_an_empty_list(codes: Any) -> None:
    assert "empty-list" in codes({"apiVersion": "v1", "kind": "List", "items": None})


@pytest.mark.parametrize("value", [{}, "x", 3])
def test_items_must_be_a_list(problems: Any, value: Any) -> None:
    (line,) = problems({"apiVersion": "v1", "kind": "PodList", "items": value})
    assert "items: must be a list" in line


@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
def test_half_a_list_is_refused(problems: Any, name: str) -> None:
    text = json.dumps(items(pod(), metadata={"continue": "abc"}))
    text = text if name == "f.json" else "# yaml\n" + text
    assert "incomplete list" in problems(text, name=name)[0]


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []}, "kubectl get -o json"),
        ({"apiVersion": "v1", "kind": "Status", "code": 404}, "API server's answer"),
        ({"type": "ADDED", "object": pod()}, "without -w"),
        ({"apiVersion": "evictplan.dev/v1alpha1", "kind": "Scenario"}, "what-if scenario"),
    ],
)
def test_other_answers_get_a_hint(problems: Any, document: Any, hint: str) -> None:
    assert hint in problems(document)[0]


def test_unknown_kinds_are_counted(load: Any) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "b"}}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"items": 3}}
    snapshot = load(items(secret, secret, widget), widget)
    assert snapshot.ignored_kinds == {"Secret": 2, "Widget": 2}
    assert not snapshot.warnings


def test_a_kind_counts_only_in_its_group(load: Any) -> None:
    foreign = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "x"}}
    odd = {**foreign, "spec": {"taints": "none"}, "metadata": {"name": "y", "uid": "u"}}
    snapshot = load(items(foreign, odd))
    assert snapshot.ignored_kinds == {"Node": 2}
    assert [node.name for node in snapshot.nodes] == ["n1"]


def test_old_versions_are_read(load: Any) -> None:
    daemon_set = {"apiVersion": "extensions/v1beta1", "kind": "DaemonSet",
                  "metadata": {"name": "a", "namespace": "d", "uid": "u"}}  # fmt: skip
    assert load(items(daemon_set)).workloads[0].kind == "DaemonSet"


def test_an_empty_selector_means_nothing_in_v1beta1_and_everything_in_v1(load: Any) -> None:
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


def test_a_future_version_is_an_unknown_kind(load: Any) -> None:
    snapshot = load(items({"apiVersion": "policy/v2", "kind": "PodDisruptionBudget"}))
    assert snapshot.ignored_kinds == {"PodDisruptionBudget": 1}
    assert [warning.code for warning in snapshot.warnings] == ["unknown-version"]


@pytest.mark.parametrize(("kind", "near"), [("pod", "Pod"), ("Nodes", "Node")])
def test_a_misspelled_kind_names_the_nearest(problems: Any, kind: str, near: str) -> None:
    assert f"did you mean {near}?" in problems({**pod(), "kind": kind})[0]


@pytest.mark.parametrize("kind", ["Podd", "Nod", "Deploiment", "DaemonSett", "jobs"])
def test_a_kind_of_our_groups_is_never_dropped_for_a_typing_error(problems: Any, kind: str) -> None:
    versions = {"Deploiment": "apps/v1", "jobs": "batch/v1"}
    document = {**pod(), "kind": kind, "apiVersion": versions.get(kind, "v1")}
    assert "did you mean" in problems(document)[0]


BUILT_IN = {
    "v1": "Binding ComponentStatus ConfigMap Endpoints Event LimitRange "
    "PodTemplate ResourceQuota Secret ServiceAccount",
    "apps/v1": "ControllerRevision",
    "batch/v1": "CronJob",
    "policy/v1": "Eviction PodSecurityPolicy",
    "coordination.k8s.io/v1": "LeaseCandidate",
    "admissionregistration.k8s.io/v1": "ValidatingAdmissionPolicy MutatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding MutatingAdmissionPolicyBinding",
    "extensions/v1beta1": "Ingress NetworkPolicy PodSecurityPolicy",
    "autoscaling/v2": "HorizontalPodAutoscaler",
}


def test_no_kind_of_kubernetes_itself_is_taken_for_a_typing_error(load: Any) -> None:
    others = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
        for version, kinds in BUILT_IN.items()
        for kind in kinds.split()
    ]
    assert sum(load(items(*others)).ignored_kinds.values()) == len(others)


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [("Deployment", "v1", "apps/v1"), ("Pod", "apps/v1", "v1"), ("Job", "v1", "batch/v1")],
)
def test_a_known_kind_in_another_group_of_kubernetes_is_a_mistake(
    problems: Any, kind: str, wrong: str, right: str
) -> None:
    (line,) = problems({**pod(), "kind": kind, "apiVersion": wrong})
    assert line.endswith(f"{kind} is of apiVersion {right}, not {wrong}")


@pytest.mark.parametrize("metadata", [None, [], "x"])
def test_metadata_is_required(problems: Any, metadata: Any) -> None:
    assert "metadata: must be an object" in problems({**pod(), "metadata": metadata})[0]


# Names


def test_a_name_is_required(problems: Any) -> None:
    assert "metadata.name: is missing" in problems(pod(meta={"name": ""}))[0]
    assert "metadata.name: is missing" in problems(pod(meta={"name": "", "generateName": "x-"}))[0]


def test_a_manifests_generate_name_gets_a_stable_name(load: Any) -> None:
    manifest = pod(stored=False, meta={"name": None, "generateName": "job-"})
    first, second = load(manifest), load(items(manifest))
    assert first.pods == second.pods
    assert first.pods[0].name.startswith("job-")
    assert "synthetic-name" in {warning.code for warning in first.warnings}


@pytest.mark.parametrize(
    "name", ["Upper", "a_b", "x" * 254, "a.", "a..b", "../x", "a/b", "a b", "é", "a%2f", "-a"]
)
def test_invalid_names_are_errors_in_manifests_and_warnings_in_dumps(
    problems: Any, codes: Any, name: str
) -> None:
    assert "metadata.name: " in problems(pod(name, stored=False))[0]
    assert "invalid-name" in codes(pod(name))


def test_a_name_may_stand_once_in_a_namespace(problems: Any, load: Any) -> None:
    assert "given twice" in problems(items(pod(), pod()))[0]
    assert (
        "first in f.json:1:96 items[0], again in items[1]"
        in problems(items(pod(), pod()), name="f.json")[0]
    )
    assert len(load(items(pod(), pod(meta={"namespace": "e"}))).pods) == 2


def test_a_manifest_without_namespace_is_in_default(load: Any, problems: Any) -> None:
    snapshot = load(pod(stored=False, meta={"namespace": None}))
    assert snapshot.pods[0].namespace == "default"
    assert "namespace-defaulted" in {warning.code for warning in snapshot.warnings}
    assert "metadata.namespace: is missing" in problems(pod(meta={"namespace": None}))[0]


def test_a_nodes_namespace_is_ignored(codes: Any) -> None:
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
def test_wrong_types_name_the_field(
    problems: Any, stored: bool, name: str, spec: Any, field: str
) -> None:
    text = json.dumps(pod(stored=stored, spec=spec))
    (line,) = problems(text if name == "f.json" else f"# yaml\n{text}", name=name)
    assert f"Pod d/p: {field[: field.find(' (')]}" in line


def test_all_problems_of_an_object_come_together(problems: Any) -> None:
    bad = pod(meta={"labels": [], "ownerReferences": {}}, spec={"nodeName": 5})
    assert len(problems(items(bad, pod("q", spec={"nodeName": 5})))) == 4


def test_nulls_are_absent(load: Any) -> None:
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


def every_field_null(kind: inspect.Type) -> Any:
    """Return an object in which everything that is read stands, and is null."""
    if isinstance(kind, inspect.UnionType):
        return every_field_null(kind.types[0])
    if isinstance(kind, inspect.Metadata):
        held = (kind.extra or {}).get("holds")
        return every_field_null(inspect.type_info(held) if held else kind.type)
    if isinstance(kind, inspect.ListType):
        item = every_field_null(kind.item_type)
        return [] if item is None else [item]
    if isinstance(kind, inspect.StructType):
        return {field.encode_name: every_field_null(field.type) for field in kind.fields}
    return None


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("uid", ["u", None])
@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
def test_null_is_absent_in_every_field_that_is_read(
    load: Any, kind: str, uid: str | None, name: str
) -> None:
    empty = every_field_null(inspect.type_info(KINDS[kind].type))
    named = {"name": "x", "namespace": None if kind == "Node" else "d", "uid": uid}
    if uid is None:  # what a person wrote must at least be valid
        empty["spec"] = None
    group = f"{KINDS[kind].group}/v1".lstrip("/")
    empty |= {"kind": kind, "apiVersion": group, "metadata": {**empty["metadata"], **named}}
    text = json.dumps(empty) if name == "f.json" else yaml.safe_dump(empty)
    assert kind in load(text, name=name).kinds_seen


def test_a_wrong_name_is_one_problem(problems: Any) -> None:
    for name in (123, True, {}):
        assert len(problems(pod(stored=False, meta={"name": name, "namespace": name}))) == 2
        assert len(problems(pod(meta={"name": name}))) == 1


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
def test_misspelled_fields_get_a_suggestion(codes: Any, spec: Any) -> None:
    assert "misspelled-field" in codes(pod(stored=False, spec=spec))


def test_other_fields_are_silent(codes: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "envFrom": []}], "nodeSelector": {},
            "priority": 0, "schedulerName": "x", "hostPID": True, "volumes": []}  # fmt: skip
    assert "misspelled-field" not in codes(pod(stored=False, spec=spec))


def test_duplicate_uids_are_a_warning(codes: Any) -> None:
    assert "duplicate-uid" in codes(items(pod(), pod("q", meta={"uid": "u-p"})))


def test_owners_that_make_no_sense_are_warnings(codes: Any) -> None:
    two = pod(meta={"ownerReferences": [owner("ReplicaSet", "a"), owner("Job", "b")]})
    missing = pod("q", meta={"ownerReferences": [owner("ReplicaSet", "gone")]})
    cycle = replica_set("a", owner("ReplicaSet", "b")), replica_set("b", owner("ReplicaSet", "a"))
    found = codes(items(two, missing, *cycle))
    assert {"two-controllers", "unknown-owner", "owner-cycle"} <= found


def test_a_long_chain_of_owners_takes_linear_time(codes: Any) -> None:
    chain = [replica_set(f"r{i}", owner("ReplicaSet", f"r{i + 1}")) for i in range(20_000)]
    started = time.process_time()
    assert "owner-cycle" not in codes(items(*chain))
    assert "owner-cycle" in codes(items(*chain, replica_set("r20000", owner("ReplicaSet", "r7"))))
    assert time.process_time() - started < 20


def test_an_owner_of_a_kind_that_was_not_listed_is_no_finding(codes: Any) -> None:
    assert not codes(items(pod(meta={"ownerReferences": [owner("ReplicaSet", "a")]})))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("services: {web: {image: x}}", "docker-compose"),
        ("apiVersion: v2\nname: x\nversion: 1.0.0", "Chart.yaml"),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization", "Kustomization"),
        ("resources: [a.yaml]", "kustomization.yaml"),
    ],
)
def test_files_that_lie_beside_manifests(
    problems: Any, text: str, reason: str, tmp_path: Any
) -> None:
    from kubectl_evictplan.sources.files import load_files

    assert reason in problems(text)[0]
    directory = tmp_path / "all"
    directory.mkdir()
    (directory / "x.yaml").write_text(text)
    (directory / "n.json").write_text(json.dumps(items(node(), pod(stored=False))))
    warnings = load_files([str(directory)], recursive=True).warnings
    assert [warning.code for warning in warnings] == ["not-kubernetes"]
