"""Where not all failures can be asked whether replacements find a node, those are asked that come first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from building.builders import make_node, make_pod, make_snapshot
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.report import render_document
from kubectl_evictplan.report.sweeps import sweep_contents
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.sweeps.document import FailureRow, Sweep
from kubectl_evictplan.sweeps.failures import NO_NEEDS, NODE, Failing, Failure, needs_listed, ranked
from kubectl_evictplan.sweeps.second_look import cluster_row, looked_at_again

SIZES = {"n1": 500, "n2": 3000, "n3": 500, "n4": 500}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Four nodes of which each runs one pod; that of n2 fits nowhere else. Too many to ask about all."""
    monkeypatch.setattr("kubectl_evictplan.sweeps.failures._PLACED_NODES_MAX", 3)
    nodes = [
        replace(make_node(name), allocatable={"cpu": 2500 + cpu, "pods": 10})
        for name, cpu in SIZES.items()
    ]
    pods = [
        replace(
            make_pod(f"p-{name}", name, owner=f"ReplicaSet/{name}"),
            needs=PodNeeds((("cpu", cpu),)),
        )
        for name, cpu in SIZES.items()
    ]
    snapshot = make_snapshot(nodes, pods)
    configuration = resolve_configuration(ControllerSettings("", None, {}), snapshot.control_plane)
    return Failing(snapshot, configuration, snapshot.taken_at_ns)


def failures() -> list[Failure]:
    return [Failure(NODE, name, (name,)) for name in SIZES]


def looked(cluster: Failing, first: int) -> tuple[FailureRow, ...]:
    cluster.prepare(failures())
    return looked_at_again(
        map(cluster.row, failures()), lambda few: map(cluster.placed_row, few), first
    )


def test_who_costs_more_for_being_asked_comes_first(cluster: Failing) -> None:
    found = looked(cluster, 2)
    assert [(row.name, row.not_coming_back) for row in found[:1]] == [("n2", ("default/p-n2",))]
    assert [row.name for row in found if row.placement_asked] == ["n2", "n1"]


def test_a_row_that_was_asked_says_what_it_says_where_all_are(
    cluster: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = looked(cluster, 4)
    monkeypatch.setattr("kubectl_evictplan.sweeps.failures._PLACED_NODES_MAX", 4)
    assert found == ranked(map(cluster.row, failures()))


def test_rows_that_come_first_now_are_asked_too() -> None:
    rows = [row(name, evicted_certain=4 - at) for at, name in enumerate("abcd")]
    asked: list[str] = []

    def ask(few: Sequence[Failure]) -> Iterable[FailureRow]:
        asked.extend(one.name for one in few)
        # Each of them costs less than it said.
        return [row(one.name, evicted_certain=1, placement_asked=True) for one in few]

    found = looked_at_again(rows, ask, 2)
    assert asked == ["a", "b", "c"]
    assert all(one.placement_asked for one in found[:2])


def test_nobody_is_asked_about_what_costs_nothing() -> None:
    def ask(few: Sequence[Failure]) -> Iterable[FailureRow]:
        raise AssertionError(few)

    assert looked_at_again([row("a")], ask)[0].name == "a"


def test_the_worst_failure_of_a_cluster_of_a_fleet_is_asked(cluster: Failing) -> None:
    worst = cluster_row("one", cluster._snapshot, cluster).worst
    assert worst is not None
    assert worst.placement_asked


def test_a_fleet_tells_of_each_cluster_what_its_input_does_not_say(cluster: Failing) -> None:
    whole = cluster_row("whole", cluster._snapshot, cluster)
    pods = tuple(replace(one, needs=None) for one in cluster._snapshot.pods)
    poor = cluster_row("poor", replace(cluster._snapshot, pods=pods), cluster)
    assert NO_NEEDS in poor.not_evaluated
    assert NO_NEEDS not in whole.not_evaluated
    sweep = Sweep("fleet", None, clusters=(poor, whole))
    content = sweep_contents(sweep, wide=True, zone=None)
    said = " ".join("".join(render_document(sweep, lambda wide: content, "wide")).split())
    assert f"{NO_NEEDS} (poor)" in said
    # Where all are alike no names are needed.
    assert "budgets: PodDisruptionBudgets are not in the input (every cluster)" in said


def test_the_table_says_which_rows_were_asked(cluster: Failing) -> None:
    sweep = Sweep("nodes", None, failures=looked(cluster, 2))
    said = "".join(
        render_document(sweep, lambda wide: sweep_contents(sweep, wide=wide, zone=None), "wide")
    )
    assert "was asked of 2 of 4, those that come first" in " ".join(said.split())
    assert [line.split()[-1] for line in said.splitlines() if " n" in line[:9]][-4:] == [
        "yes", "yes", "no", "no",
    ]  # fmt: skip


def test_needs_that_are_not_in_the_input_are_missed(cluster: Failing) -> None:
    snapshot = cluster._snapshot
    assert needs_listed(snapshot)
    (first, *rest) = snapshot.pods
    assert not needs_listed(replace(snapshot, pods=(replace(first, needs=None), *rest)))
    nodes = tuple(replace(node, allocatable={}) for node in snapshot.nodes)
    assert not needs_listed(replace(snapshot, nodes=nodes))


def row(name: str, **fields: object) -> FailureRow:
    blank = FailureRow(
        0, NODE, name, (), (name,), 1, 0, 0, 0, None, None, None, None, None, None, 0,
        (), (), (), (), (), (), (),
    )  # fmt: skip
    return replace(blank, **fields)
