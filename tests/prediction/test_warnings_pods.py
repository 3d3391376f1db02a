"""Warnings about what happens to the pods that go, and about budgets."""

from __future__ import annotations

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_snapshot,
    tolerates,
)
from building.warning_runs import TAINT, configured, objects, warn
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.objects import (
    PodDisruptionBudget,
)


def budget(name: str, allowed: int | None, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget("default", name, labels, (), allowed)


def test_budgets_are_counted_against_what_they_allow() -> None:
    pods = [make_pod(f"web-{i}", "n1", labels={"app": "web"}) for i in range(3)]
    pods.append(make_pod("done", "n1", labels={"app": "web"}, phase="Succeeded"))
    snapshot = replace(
        make_snapshot(["n1"], pods),
        budgets=(
            budget("enough", 3, app="web"),
            budget("little", 1, app="web"),
            budget("other", 0, app="db"),
            budget("unknown", None, app="web"),
        ),
    )
    warnings = warn([], events=[TAINT], snapshot=snapshot)
    said = [w for w in warnings if w.code == "disruption-budget-bypassed"]
    assert [w.message.split(", and ")[0] for w in said] == [
        "PodDisruptionBudget default/little allows 1 disruption",
        "PodDisruptionBudget default/unknown allows an unknown number of disruptions",
    ]
    assert all(
        w.message.endswith("3 of its pods are evicted by deletions that do not ask it")
        for w in said
    )
    assert {w.objects for w in said} == {("default/web-0", "default/web-1", "default/web-2")}


def test_budgets_that_were_not_listed_are_unknown_not_absent() -> None:
    pods = [make_pod("p", "n1")]
    listed = replace(make_snapshot(["n1"], pods), kinds_seen=("Node", "PodDisruptionBudget"))
    assert objects(warn(["n1"], pods, [TAINT]), "budgets-not-listed") == []
    assert objects(warn([], events=[TAINT], snapshot=listed), "budgets-not-listed") is None
    assert objects(warn(["n1"], [], [TAINT]), "budgets-not-listed") is None


@pytest.mark.parametrize(
    ("expression", "covered"),
    [
        (("app", "In", ("web", "db")), True),
        (("app", "NotIn", ("web",)), False),
        (("tier", "NotIn", ("web",)), True),
        (("app", "Exists", ()), True),
        (("tier", "Exists", ()), False),
        (("tier", "DoesNotExist", ()), True),
        (("app", "Near", ("web",)), False),
    ],
)
def test_budget_expressions(expression: tuple[str, str, tuple[str, ...]], covered: bool) -> None:
    index = BudgetIndex([PodDisruptionBudget("default", "b", {}, (expression,))])
    assert index.matching(make_pod("p", labels={"app": "web"})) == ([0] if covered else [])


def test_a_null_selector_covers_nothing_an_empty_one_everything_of_its_namespace() -> None:
    index = BudgetIndex(
        [
            PodDisruptionBudget("default", "null", None),
            PodDisruptionBudget("default", "empty", {}),
            PodDisruptionBudget("other", "empty", {}),
        ]
    )
    assert index.matching(make_pod("p")) == [1]


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


@given(st.lists(LABELS, max_size=8), LABELS)
def test_the_budget_index_finds_what_asking_each_budget_finds(
    selectors: list[dict[str, str]], labels: dict[str, str]
) -> None:
    budgets = [PodDisruptionBudget("default", str(i), s) for i, s in enumerate(selectors)]
    expected = [i for i, s in enumerate(selectors) if s.items() <= labels.items()]
    assert sorted(BudgetIndex(budgets).matching(make_pod("p", labels=labels))) == expected


def test_pods_of_silent_nodes_stay_terminating() -> None:
    pods = [
        make_pod("db-0", "n1", tolerations=default_tolerations(), owner="StatefulSet/db"),
        make_pod("web", "n1", tolerations=default_tolerations(), owner="ReplicaSet/web"),
        make_pod("at-once", "n1", tolerations=default_tolerations(), grace_seconds=0),
        make_pod("elsewhere", "n2", tolerations=default_tolerations()),
    ]
    silent = make_event(3, "kubelet-stop", "n1")
    warnings = warn(["n1", "n2", "n3"], pods, [silent])
    assert objects(warnings, "unreachable-stuck-terminating") == ["default/db-0", "default/web"]
    assert objects(warnings, "statefulset-waits-for-name") == ["default/db-0"]
    back = make_event(500, "kubelet-start", "n1")
    assert objects(warn(["n1", "n2"], pods, [silent, back]), "statefulset-waits-for-name") is None


def test_what_an_eviction_takes_away() -> None:
    scratch = replace(make_pod("scratch", "n1", owner="ReplicaSet/s"), empty_dir=True)
    done = replace(make_pod("done", "n1", owner="Job/j", phase="Succeeded"), empty_dir=True)
    mirror = replace(make_pod("mirror", "n1"), mirror=True)
    pods = [
        scratch,
        done,
        mirror,
        make_pod("bare", "n1"),
        make_pod("held", "n1", owner="ReplicaSet/s", finalizers=["example.com/hold"]),
        make_pod("going", "n1", owner="ReplicaSet/s", deleted=-1, grace_seconds=600),
        make_pod("agent", "n1", owner="DaemonSet/agent"),
        make_pod("stays", "n1", tolerations=[tolerates("maint")], finalizers=["x"]),
    ]
    warnings = warn(["n1"], pods, [TAINT])
    assert objects(warnings, "empty-dir-lost") == ["default/scratch"]
    assert objects(warnings, "finished-pod-deleted") == ["default/done"]
    assert objects(warnings, "mirror-pod-recreated") == ["default/mirror"]
    assert objects(warnings, "bare-pod-lost") == ["default/bare"]
    assert objects(warnings, "finalizers-block") == ["default/held"]
    assert objects(warnings, "pod-already-terminating") == ["default/going"]
    assert objects(warnings, "daemonset-deleted-and-not-recreated") == ["default/agent"]


def test_replacements_may_return_to_a_node_that_they_tolerate_for_a_while() -> None:
    finite = [tolerates("maint", 60)]
    pods = [
        make_pod("back", "n1", tolerations=finite, owner="ReplicaSet/r"),
        make_pod("at-once", "n1", owner="ReplicaSet/r"),
        make_pod("bare", "n1", tolerations=finite),
        make_pod("agent", "n1", tolerations=finite, owner="DaemonSet/agent"),
    ]
    again = "daemonset-evicted-again"
    assert objects(warn(["n1"], pods, [TAINT]), again) == ["default/agent"]
    assert objects(warn(["n1"], pods, [TAINT]), "replacement-may-return") == ["default/back"]
    cordon = make_event(1, "cordon", "n1")
    assert objects(warn(["n1"], pods, [cordon, TAINT]), "replacement-may-return") is None
    closed = make_node("n1", taints=["closed:NoSchedule"])
    assert objects(warn([closed], pods, [TAINT]), "replacement-may-return") is None
    assert objects(warn([closed], pods, [TAINT]), again) is None
    kept_away = "daemonset-deleted-and-not-recreated"
    assert objects(warn([closed], pods, [TAINT]), kept_away) == ["default/agent"]


@pytest.mark.parametrize(("release", "said"), [("1.32", True), ("1.33", False)])
def test_stale_keys_threaten_reused_names_up_to_1_32(release: str, said: bool) -> None:
    pods = [
        make_pod("db-0", "n1", owner="StatefulSet/db", grace_seconds=0),
        make_pod("bare", "n1", phase="Succeeded"),
        make_pod("web", "n1", owner="ReplicaSet/web", grace_seconds=0),
        make_pod("slow-0", "n1", owner="StatefulSet/slow"),
        make_pod("held", "n1", grace_seconds=0, finalizers=["x"]),
    ]
    warnings = warn(["n1"], pods, [TAINT], configuration=configured(release))
    expected = ["default/bare", "default/db-0"] if said else None
    assert objects(warnings, "stale-nil-key-exposure") == expected
