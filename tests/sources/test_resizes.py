"""What is read of pods that were resized in place: what they hold, and what their successors ask for."""

from __future__ import annotations

from typing import Any

import pytest
from sources.builders import items, owner, pod, replica_set

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.pod_requests import BY_CONTAINER, BY_POD, BY_SPEC
from kubectl_evictplan.sources.snapshot import decode_document, encode_snapshot

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


def asks(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


def has(name: str, allocated: str, actuated: str) -> dict[str, Any]:
    return {
        "name": name,
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": actuated}},
    }


def running(*containers: Any, status: Any = (), meta: Any = None, **fields: Any) -> dict[str, Any]:
    conditions = fields.pop("conditions", [])
    return pod(
        meta={"ownerReferences": [owner("ReplicaSet", "web")], **(meta or {})},
        spec={"nodeName": "n1", "containers": list(containers), **fields.pop("spec", {})},
        status={"containerStatuses": list(status), "conditions": conditions, **fields},
    )


def held(loaded: Pod, counting: str) -> int | None:
    """Thousandths of cpu."""
    assert loaded.resized is not None
    requests = loaded.resized.held(counting)
    return None if requests is None else dict(requests)["cpu"]


def test_a_pod_that_has_what_it_asks_for_was_not_resized(load: Any) -> None:
    one = running(asks("c", "1"), status=[has("c", "1000m", "1")], meta={"generation": 1})
    assert load(one).pods[0].resized is None
    # A release without resizes tells nothing.
    assert load(running(asks("c", "1"), status=[{"name": "c"}])).pods[0].resized is None


@pytest.mark.parametrize(("allocated", "actuated", "holds"), [("4", "4", 4), ("2", "3", 3), ("1", "1", 2)])  # fmt: skip
def test_the_most_of_what_is_asked_allocated_and_in_force_is_held(
    load: Any, allocated: str, actuated: str, holds: int
) -> None:
    [found] = load(running(asks("c", "2"), status=[has("c", allocated, actuated)])).pods
    assert held(found, BY_CONTAINER) == held(found, BY_POD) == 1000 * holds
    assert held(found, BY_SPEC) is None
    assert found.needs.requests == (("cpu", 2000),)


def test_what_the_kubelet_refuses_to_give_is_not_held(load: Any) -> None:
    refused = {"containers": [asks("c", "9")], "status": [has("c", "2", "2")]}
    for how in ({"conditions": [INFEASIBLE]}, {"resize": "Infeasible"}):
        [found] = load(running(asks("c", "9"), status=refused["status"], **how)).pods
        assert held(found, BY_CONTAINER) == held(found, BY_POD) == 2000
    deferred = {**INFEASIBLE, "reason": "Deferred"}
    [found] = load(running(asks("c", "9"), status=refused["status"], conditions=[deferred])).pods
    assert held(found, BY_POD) == 9000


def test_from_1_37_on_the_sums_are_compared_before_it_each_container(load: Any) -> None:
    # One grows while the other shrinks.
    [found] = load(
        running(asks("a", "3"), asks("b", "1"), status=[has("a", "1", "1"), has("b", "3", "3")])
    ).pods
    assert (held(found, BY_CONTAINER), held(found, BY_POD)) == (6000, 4000)


def test_what_is_told_of_the_pod_as_a_whole_wins(load: Any) -> None:
    whole = {"resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "500m"}}
    [found] = load(
        running(
            asks("c", "1"),
            status=[has("c", "1", "1")],
            spec=whole,
            resources={"requests": {"cpu": "5"}},
            allocatedResources={"cpu": "4"},
        )
    ).pods
    assert held(found, BY_POD) == 5500


def test_a_successor_asks_for_what_the_template_says(load: Any) -> None:
    owned = replica_set("web")
    owned["spec"]["template"] = {"spec": {"containers": [asks("c", "1")]}}
    sidecar = asks("injected", "100m")
    for generation, asked in ((1, None), (2, 1100)):
        resized = running(asks("c", "4"), sidecar, meta={"generation": generation})
        snapshot = load(items(owned, resized))
        [found], [web] = snapshot.pods, snapshot.workloads
        assert (found.resized is None) == (asked is None)
        if found.resized is not None:
            assert found.resized.anew(web.template) == (("cpu", asked),)
    # An autoscaler writes the requests of new pods too.
    marked = {"generation": 2, "annotations": {"vpaInPlaceUpdated": "true"}}
    snapshot = load(items(owned, running(asks("c", "4"), meta=marked)))
    assert snapshot.pods[0].resized.anew(snapshot.workloads[0].template) == (("cpu", 4000),)


def test_a_snapshot_keeps_what_is_held(load: Any) -> None:
    snapshot = load(running(asks("c", "2"), status=[has("c", "4", "4")]))
    assert decode_document(encode_snapshot(snapshot, compress=False)).pods == snapshot.pods
