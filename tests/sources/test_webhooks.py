"""Admission webhooks of the input that are asked before a pod is deleted make no eviction certain."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import make_event, make_pod, make_scenario, make_snapshot
from building.warning_runs import configured, objects
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster, drains
from msgspec.structs import replace

from kubectl_evictplan.kube.budgets import webhooks_asked
from kubectl_evictplan.kube.objects import PodWebhook
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.sources.snapshot import decode_document, encode_snapshot

DELETE_PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["DELETE"],
    "resources": ["pods"],
}


def configuration(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard", "uid": "u-guard"},
        "webhooks": [{"name": "pods.example.com", "rules": list(rules), **fields}],
    }


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"operations": ["*"]},
        {"operations": ["CREATE", "DELETE"]},
        {"resources": ["*"]},
        {"resources": ["*/*"]},
        {"resources": ["pods/*"]},
        {"apiGroups": ["*"]},
    ],
)
def test_a_rule_that_covers_the_deletion_of_pods_is_read(load: Any, change: Any) -> None:
    snapshot = load(configuration(DELETE_PODS | change))
    assert [webhook.name for webhook in snapshot.webhooks] == ["guard/pods.example.com"]
    assert decode_document(encode_snapshot(snapshot, compress=False)).webhooks == snapshot.webhooks


@pytest.mark.parametrize(
    "change",
    [
        {"operations": ["UPDATE"]},
        {"resources": ["deployments"]},
        {"resources": ["pods/eviction"]},
        {"resources": ["pods/status"], "operations": ["*"]},
        {"apiGroups": ["apps"]},
        {"operations": None},
    ],
)
def test_other_rules_do_not_matter(load: Any, change: Any) -> None:
    assert load(configuration(DELETE_PODS | change)).webhooks == ()
    assert load(configuration()).webhooks == ()


def test_a_webhook_that_must_agree_to_new_pods_is_not_asked_before_one_is_deleted(
    load: Any,
) -> None:
    create = DELETE_PODS | {"operations": ["CREATE"]}
    [webhook] = load(configuration(create)).webhooks
    assert (webhook.of_deletion, webhook.of_creation) == (False, True)
    assert not webhook.of_eviction
    assert not webhooks_asked([webhook], make_pod("a", "n"))
    assert load(configuration(create, failurePolicy="Ignore")).webhooks == ()


@pytest.mark.parametrize("resource", ["pods/eviction", "*/eviction", "pods/*", "*/*"])
def test_an_eviction_is_created_below_a_pod_whatever_is_to_be_done_about_failures(
    load: Any, resource: str
) -> None:
    rule = DELETE_PODS | {"operations": ["CREATE"], "resources": [resource]}
    [webhook] = load(configuration(rule, failurePolicy="Ignore")).webhooks
    assert (webhook.of_deletion, webhook.of_creation, webhook.of_eviction) == (False, False, True)
    # An Eviction has no labels, and of the DELETE of its pod nobody is asked.
    pod = make_pod("db-0", "n1", labels={"app": "db"})
    assert webhooks_asked([webhook], pod, evicts=True)
    assert not webhooks_asked([webhook], pod)
    picky = replace(webhook, object_selector=(("app", "In", ("db",)),))
    assert not webhooks_asked([picky], pod, evicts=True)


@pytest.mark.parametrize(
    ("webhook", "flags", "code"),
    [
        (PodWebhook("w"), {}, None),
        (PodWebhook("w"), {"disable_eviction": True}, "drain-webhook-not-evaluated"),
        (PodWebhook("w", of_deletion=False, of_eviction=True), {}, "drain-webhook-not-evaluated"),
    ],
)
def test_kubectl_drain_asks_about_evictions_and_without_them_about_deletions(
    webhook: PodWebhook, flags: dict[str, Any], code: str | None
) -> None:
    snapshot = replace(drained_cluster(App("db", ["a1"])), webhooks=(webhook,))
    prediction = predict(snapshot, drains(drain("a1", **flags)), CONFIGURATION)
    assert [one.certainty for one in prediction.evictions] == [POSSIBLE if code else CERTAIN]
    found = {one.code for one in prediction.warnings if "webhook" in one.code}
    assert found == {code} - {None}
    [report] = prediction.drains
    assert report.exit_code == (None if code else 0)
    # Who is answered 429 is asked for again; a DELETE that is denied is an error.
    [eviction] = prediction.evictions
    assert (eviction.latest_seconds == 86_400) == webhook.of_eviction


def test_selectors_are_those_of_the_webhook(load: Any) -> None:
    selector = {
        "matchLabels": {"tier": "db"},
        "matchExpressions": [{"key": "team", "operator": "Exists"}],
    }
    (webhook,) = load(configuration(DELETE_PODS, objectSelector=selector)).webhooks
    assert webhook.object_selector == (("tier", "In", ("db",)), ("team", "Exists", ()))


NAME = "kubernetes.io/metadata.name"


@pytest.mark.parametrize(
    ("webhook", "refusable"),
    [
        (PodWebhook("w"), True),
        (PodWebhook("w", object_selector=(("app", "In", ("db",)),)), True),
        (PodWebhook("w", object_selector=(("app", "In", ("web",)),)), False),
        (PodWebhook("w", namespace_selector=((NAME, "NotIn", ("default",)),)), False),
        # Other labels of namespaces are not in the input: it may be asked.
        (PodWebhook("w", namespace_selector=(("guarded", "Exists", ()),)), True),
    ],
)
def test_a_deletion_that_a_webhook_may_refuse_is_not_certain(
    webhook: PodWebhook, refusable: bool
) -> None:
    pods = [make_pod("db-0", "n1", labels={"app": "db"})]
    snapshot = replace(make_snapshot(["n1"], pods), webhooks=(webhook,))
    taint = make_event(10, "taint", "n1", taint="maint:NoExecute")
    prediction = predict(snapshot, make_scenario([taint], horizon=60), configured())

    assert [e.certainty for e in prediction.evictions] == [POSSIBLE if refusable else CERTAIN]
    asked = objects(prediction.warnings, "delete-webhook-not-evaluated")
    assert asked == (["default/db-0"] if refusable else None)
