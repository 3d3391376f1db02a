"""Objects that a scenario creates."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node, Pod
from kubectl_evictplan.sources.items import decode_manifest_object


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def test_a_created_pod_is_admitted_and_defaulted() -> None:
    created = decode_manifest_object(pod(nodeName="n1"), "s.yaml:3")
    assert isinstance(created, Pod)
    assert (created.namespace, created.phase) == ("default", "Running")
    assert [t.toleration_seconds for t in created.tolerations] == [300, 300]


def test_the_api_servers_flags_decide_the_seconds() -> None:
    flags = ControlPlaneFlags(api_server={"default-unreachable-toleration-seconds": "7"})
    created = decode_manifest_object(pod(), "s.yaml", control_plane=flags)
    assert isinstance(created, Pod)
    assert [t.toleration_seconds for t in created.tolerations] == [300, 7]


def test_a_copy_of_a_running_pod_is_validated_and_admitted_too() -> None:
    copied = pod()
    copied["metadata"]["uid"] = "u"
    created = decode_manifest_object(copied, "s.yaml")
    assert isinstance(created, Pod)
    assert created.uid == "u"
    assert len(created.tolerations) == 2


def test_a_node_is_decoded() -> None:
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert decode_manifest_object(manifest, "s.yaml") == Node("n1")


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (pod(tolerations="x"), "s.yaml:3: Pod p: spec.tolerations: must be a list"),
        (pod(tolerations=[{}]), "operator must be Exists"),
        ({"apiVersion": "v1", "kind": "Secret"}, "s.yaml:3: expected one Node or Pod"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, "expected one Node or Pod"),
        ({}, "kind is missing"),
    ],
)
def test_what_is_no_valid_manifest_is_refused(manifest: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_manifest_object(manifest, "s.yaml:3")
    assert reason in str(caught.value.problems[0])
