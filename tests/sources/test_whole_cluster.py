"""No false all-clear: an input that is not the whole cluster says so."""

from __future__ import annotations

from typing import Any

import pytest
from sources.builders import items, node, pod

MISSING = {"pods-not-listed", "single-namespace", "nodes-without-pods", "nodes-not-listed"}


def on(where: str, name: str = "p", namespace: str = "d", *, stored: bool = True) -> Any:
    meta = {"namespace": namespace}
    return pod(name, stored=stored, meta=meta, spec={"nodeName": where})


WHOLE = (node("n2"), on("n1"), on("n2", "proxy", "kube-system"))


def missing(load: Any, *objects: Any) -> dict[str, tuple[str, ...]]:
    warnings = load(items(*objects), whole=True).warnings
    return {w.code: w.objects for w in warnings if w.code in MISSING}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ((), {"pods-not-listed": ()}),
        ((node("n2"),), {"pods-not-listed": ()}),
        ((on("n1"), on("n1", "q")), {"single-namespace": ("d",)}),
        ((on("n1", namespace="kube-system"),), {"single-namespace": ("kube-system",)}),
        ((*WHOLE, node("n3")), {"nodes-without-pods": ("n3",)}),
        ((*WHOLE, on("x", "a"), on("y", "b"), on("z", "c")), {"nodes-not-listed": ("x", "y", "z")}),
        (WHOLE, {}),
        ((*WHOLE, on("deleted", "orphan")), {}),
    ],
)
def test_what_is_missing_is_said(load: Any, objects: Any, expected: Any) -> None:
    assert missing(load, *objects) == expected


def test_what_people_write_is_as_small_as_they_mean_it(load: Any) -> None:
    assert missing(load, on("n1", stored=False), node("n2", stored=False)) == {}


def test_the_command_that_lists_everything_is_named(load: Any) -> None:
    (warning,) = load(whole=True).warnings
    assert "kubectl get nodes,pods," in warning.message
    assert "-A -o json" in warning.message


def test_a_snapshot_keeps_what_was_missing(load: Any, tmp_path: Any) -> None:
    from kubectl_evictplan.sources.files import load_files
    from kubectl_evictplan.sources.snapshot import write_snapshot

    path = tmp_path / "c.json.gz"
    write_snapshot(load(on("n1"), whole=True), str(path))
    assert [w.code for w in load_files([str(path)]).warnings] == ["single-namespace"]


def budget(name: str, **labels: str) -> Any:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "d"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }


def test_budgets_that_cover_one_pod_together_are_named(load: Any) -> None:
    web = pod("web", meta={"labels": {"app": "web", "tier": "front"}})
    apart = budget("a", app="web"), budget("b", app="db")
    assert "overlapping-budgets" not in {w.code for w in load(items(web, *apart)).warnings}
    over = budget("a", app="web"), budget("b", tier="front")
    found = {w.code: w for w in load(items(web, *over)).warnings}["overlapping-budgets"]
    assert found.objects == ("Pod d/web",)
    assert "budgets a and b both cover it" in found.message
