"""What a file may say of pods, tolerations and budgets, and what admission adds."""

from __future__ import annotations

from typing import Any

import pytest
from sources.builders import items, owner, pod, tolerating

from kubectl_evictplan.kube.objects import Toleration

NOT_READY = "node.kubernetes.io/not-ready"


def test_a_pod_on_an_unknown_node_is_kept(load: Any) -> None:
    snapshot = load(pod(spec={"nodeName": "gone"}))
    assert snapshot.pods[0].node_name == "gone"
    assert not snapshot.warnings


def test_every_state_of_a_pod_is_loaded(load: Any) -> None:
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


@pytest.mark.parametrize("seconds", [0, -5, 9_223_372_036])
def test_small_and_negative_seconds_are_kept_silently(load: Any, seconds: int) -> None:
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    snapshot = load(tolerating(toleration))
    assert snapshot.pods[0].tolerations[0].toleration_seconds == seconds
    assert not snapshot.warnings


@pytest.mark.parametrize("seconds", [9_223_372_037, 18_446_744_074, 2**63 - 1])
def test_seconds_that_overflow_are_kept(load: Any, seconds: int) -> None:
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    for stored in (True, False):
        snapshot = load(tolerating(toleration, stored=stored))
        assert snapshot.pods[0].tolerations[0].toleration_seconds == seconds


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
def test_tolerations_are_validated_in_manifests_and_kept_in_dumps(
    problems: Any, load: Any, toleration: dict[str, Any]
) -> None:
    assert "spec.tolerations[0]." in problems(tolerating(toleration, stored=False))[0]
    snapshot = load(tolerating(toleration))
    assert [warning.code for warning in snapshot.warnings] == ["invalid-toleration"]
    assert snapshot.pods[0].tolerations[0].key == toleration.get("key", "")


def test_comparison_operators_follow_the_version(problems: Any, codes: Any) -> None:
    greater = {"key": "a", "operator": "Gt", "value": "5"}
    manifest = tolerating(greater, stored=False)
    assert "supported values" in problems(manifest, manifest_version="1.34")[0]
    assert not codes(manifest, manifest_version="v1.35.1")
    bad = {**greater, "value": "+5"}
    assert "invalid-toleration" in codes(tolerating(bad))


def test_order_and_duplicates_of_tolerations_are_kept(load: Any) -> None:
    toleration = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
    many = [{**toleration, "tolerationSeconds": i % 7} for i in range(10_000)]
    kept = load(tolerating(*many)).pods[0].tolerations
    assert [t.toleration_seconds for t in kept] == [i % 7 for i in range(10_000)]


def test_a_negative_grace_period_is_one_and_a_long_one_is_named(load: Any) -> None:
    for stored in (True, False):
        snapshot = load(pod(stored=stored, spec={"terminationGracePeriodSeconds": -3}))
        assert snapshot.pods[0].termination_grace_period_seconds == 1
        assert "negative-grace-period" in {warning.code for warning in snapshot.warnings}
    snapshot = load(pod(spec={"terminationGracePeriodSeconds": 315_360_000}))
    assert [warning.code for warning in snapshot.warnings] == ["long-grace-period"]


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "d"},
}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec: minAvailable and maxUnavailable are mut"),
        ({"minAvailable": "150%"}, "spec.minAvailable: a percentage above 100"),
        ({"maxUnavailable": "101%"}, "spec.maxUnavailable: a percentage above 100"),
        ({"minAvailable": "50"}, "spec.minAvailable: neither a number nor a percentage"),
        ({"minAvailable": -1}, "spec.minAvailable: a negative number of pods"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}},
            "spec.selector.matchExpressions[0].operator: unknown operator",
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].operator: In and NotIn need values",
        ),
    ],
)
def test_what_the_api_server_refuses_in_a_budget_is_an_error_and_stored_a_warning(
    problems: Any, load: Any, spec: Any, problem: str
) -> None:
    written = {**BUDGET, "spec": spec}
    (line,) = problems(written, name="f.json")
    assert f"PodDisruptionBudget d/b: {problem}" in line
    stored = {**written, "metadata": {**BUDGET["metadata"], "uid": "u"}}
    messages = [w.message for w in load(stored).warnings if w.code == "odd-budget"]
    assert any(problem in message for message in messages)


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"selector": {"matchLabels": {"a": "b"}}}, "neither"),
        ({"minAvailable": 1}, "no selector"),
        ({"minAvailable": 1, "selector": {}}, "every pod of its namespace"),
    ],
)
def test_odd_budgets_are_named(load: Any, spec: Any, word: str) -> None:
    metadata = {**BUDGET["metadata"], "uid": "u", "generation": 2}
    status = {"disruptionsAllowed": 0, "expectedPods": 3, "observedGeneration": 1}
    odd = {**BUDGET, "metadata": metadata, "spec": spec, "status": status}
    messages = [w.message for w in load(odd).warnings if w.code == "odd-budget"]
    assert any(word in message for message in messages)
    assert any("older than its spec" in message for message in messages)


def test_selector_expressions_are_kept(load: Any) -> None:
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


def test_a_pod_that_cannot_go_is_named(codes: Any) -> None:
    going = {"deletionTimestamp": "2026-11-20T21:59:30Z", "finalizers": ["example.com/x"]}
    assert "stuck-terminating" in codes(pod(meta=going))
    assert "stuck-terminating" in codes(pod(meta={"deletionTimestamp": "2030-01-01T00:00:00Z"}))


def test_an_unknown_phase_is_named(codes: Any) -> None:
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
    (line,) = problems(pod(stored=False, status={"phase": "Weird"}), strict=True)
    assert line == "Pod d/p: status.phase is unknown: treated as Running [unknown-phase]"


def test_strict_names_unknown_kinds_but_accepts_them(codes: Any) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret"}
    assert codes(items(secret, pod(stored=False)), strict=True) == {"unknown-kind"}
