"""The ClusterRoles that are shipped: enough for what is done with them, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from live.api_server import KINDS, ApiServer
from live.clusters import openshift_cluster, small_cluster
from live.reading import outcome, read

ROLES = Path(__file__).resolve().parents[2] / "deploy" / "rbac"
Right = tuple[str, str, str]
# What only ``verify`` asks for; tests/live/test_observation.py holds them against its requests.
OF_VERIFY = {("", "events", "list"), ("", "pods", "watch")}


def rules(role: str) -> list[dict[str, Any]]:
    document = yaml.safe_load((ROLES / f"{role}.yaml").read_text("utf-8"))
    assert (document["kind"], document["metadata"]["name"]) == ("ClusterRole", role)
    found: list[dict[str, Any]] = document["rules"]
    return found


def rights(role: str) -> set[Right]:
    """Return (group, resource, verb) of everything that a role allows by whatever name."""
    return {
        (group, resource, verb)
        for rule in rules(role)
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def lists(role: str) -> set[tuple[str, str]]:
    return {(group, resource) for group, resource, verb in rights(role) if verb == "list"}


def asked(api: ApiServer) -> set[tuple[str, str]]:
    return {(KINDS[seen.plural][0], seen.plural) for seen in api.seen if seen.plural in KINDS}


@pytest.mark.parametrize("role", ["evictplan-reader", "evictplan-operator"])
@pytest.mark.parametrize("cluster", [small_cluster, openshift_cluster])
def test_a_role_is_enough_to_read_everything(role: str, cluster: Any) -> None:
    with cluster(ApiServer(allowed=lists(role))).serve() as api:
        assert read(api).denied == ()


def test_only_openshift_is_asked_for_what_only_openshift_has() -> None:
    with small_cluster(ApiServer()).serve() as api:
        read(api)
    assert not [group for group, _ in asked(api) if group.endswith("openshift.io")]


def test_the_reader_may_do_nothing_that_is_not_done() -> None:
    with openshift_cluster(ApiServer()).serve() as api:
        read(api)
    assert rights("evictplan-reader") == {(*one, "list") for one in asked(api)} | OF_VERIFY


@pytest.mark.parametrize("right", sorted(lists("evictplan-reader") - {("", "events")}))
def test_every_right_of_the_reader_is_needed(right: tuple[str, str]) -> None:
    allowed = lists("evictplan-reader") - {right}
    with openshift_cluster(ApiServer(allowed=allowed)).serve() as api:
        ended = outcome(api)
    if right[1] in ("nodes", "pods"):
        assert ended.code == 5
    else:
        assert ended.snapshot is not None
        assert ended.snapshot.denied == (KINDS[right[1]][1],)


def test_the_operator_may_what_the_reader_may_and_six_things_more() -> None:
    assert rights("evictplan-operator") - rights("evictplan-reader") == {
        ("", "nodes", "get"),
        ("", "nodes", "patch"),
        ("", "pods", "get"),
        ("", "pods/eviction", "create"),
        ("coordination.k8s.io", "leases", "create"),
        ("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
    }
    assert rights("evictplan-reader") < rights("evictplan-operator")
    named = [rule for rule in rules("evictplan-operator") if "resourceNames" in rule]
    assert [(rule["resources"], rule["resourceNames"], rule["verbs"]) for rule in named] == [
        (["leases"], ["evictplan-apply"], ["get", "update"])
    ]


@pytest.mark.parametrize("role", ["evictplan-reader", "evictplan-operator"])
def test_no_role_has_wildcards_secrets_deletes_or_impersonation(role: str) -> None:
    parts = {part for right in rights(role) for part in right}
    assert parts.isdisjoint({"*", "secrets", "configmaps", "delete", "deletecollection"})
    assert parts.isdisjoint({"impersonate", "escalate", "bind", "users", "groups"})
