"""What a file may say of nodes, taints and leases."""

from __future__ import annotations

from typing import Any

import pytest
from sources.builders import items, lease, node, pod


def test_no_nodes_is_an_error_and_no_pods_is_fine(problems: Any, load: Any) -> None:
    assert "nothing to simulate" in problems(pod(), node=False)[0]
    assert load().pods == ()


def test_a_thousand_taints(load: Any) -> None:
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
def test_taints_are_validated_in_manifests_and_kept_in_dumps(
    problems: Any, load: Any, taints: Any, code: str, message: str
) -> None:
    assert message in problems(node(stored=False, spec={"taints": taints}))[0]
    snapshot = load(node(spec={"taints": taints}))
    assert code in {warning.code for warning in snapshot.warnings}
    assert len(snapshot.nodes[1].taints) == len(taints)


def test_odd_taint_times_are_a_warning(codes: Any, load: Any) -> None:
    taint = {"key": "a", "effect": "NoExecute", "timeAdded": "2030-01-01T00:00:00Z"}
    # The newest renewal is the time of the dump, so that the taint lies in its future.
    assert "taint-time" in codes(items(node(spec={"taints": [taint]}), lease()))
    zero = {**taint, "timeAdded": "0001-01-01T00:00:00Z"}
    assert load(node(spec={"taints": [zero]})).nodes[1].taints[0].time_added_ns is None


def test_odd_leases_are_warnings(codes: Any) -> None:
    assert "odd-lease" in codes(lease(holderIdentity="other"))
    assert "odd-lease" in codes(lease(renewTime=None))
    assert "odd-lease" in codes({**lease(), "spec": None})
    assert not codes(lease())


def test_microseconds_are_exact(load: Any) -> None:
    assert load(lease()).leases["n1"].renew_time_ns % 1_000_000_000 == 123_456_000


def test_unschedulable_without_its_taint_is_a_warning(codes: Any) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert "unschedulable-mismatch" in codes(node(spec={"unschedulable": True}))
    assert "unschedulable-mismatch" in codes(node(spec={"taints": [taint]}))
    assert not codes(node(spec={"unschedulable": True, "taints": [taint]}))


@pytest.mark.parametrize("name", ["N1", "n\u200b1", "\uff4e1"])
def test_names_that_look_alike_are_a_warning(codes: Any, name: str) -> None:
    assert "confusable-names" in codes(node(name))
