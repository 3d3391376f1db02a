"""A sweep says of every failure what ``what-if fail`` says of it alone, and ranks them by what they cost."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from building.builders import make_node, make_pod, make_snapshot
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.report import render_document
from kubectl_evictplan.report.csv_rows import render_sweep
from kubectl_evictplan.report.sweeps import sweep_contents
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sweeps.document import FailureRow, Sweep
from kubectl_evictplan.sweeps.failures import (
    NODE,
    Failing,
    Failure,
    costs_of,
    failure_row,
    failures_of_pairs,
    ranked,
)

ROOT = Path(__file__).parents[2]
CLUSTERS = [
    str(ROOT / "fixtures" / name)
    for name in ("clusters/kubeadm-15-nodes-1.29.json", "examples/mini-cluster.yaml")
]


def failing(snapshot: ClusterSnapshot, release: str = "") -> Failing:
    settings = ControllerSettings(release, None, {})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return Failing(snapshot, configuration, snapshot.taken_at_ns)


def single(name: str) -> Failure:
    return Failure(NODE, name, (name,))


@pytest.mark.parametrize(
    ("path", "release"),
    [
        (CLUSTERS[0], ""),
        (CLUSTERS[1], "1.18"),
        pytest.param(CLUSTERS[0], "1.18", marks=pytest.mark.slow),
        pytest.param(CLUSTERS[0], "1.35", marks=pytest.mark.slow),
    ],
)
def test_every_row_says_what_the_prediction_of_that_failure_alone_says(
    path: str, release: str
) -> None:
    snapshot = load_files([path])
    many = failing(snapshot, release)
    settings = ControllerSettings(release, None, {})
    configuration = resolve_configuration(settings, snapshot.control_plane)

    for failure in [single(node.name) for node in snapshot.nodes]:
        scenario = many.scenario(failure)
        alone = predict(snapshot, scenario, configuration)

        assert many.predicted(failure) == alone
        known = snapshot, scenario, configuration, alone
        assert many.row(failure) == failure_row(
            failure, alone, costs_of(assess_impact(*known), snapshot), many.fallen(failure)
        )


def test_what_a_failure_costs_is_counted_by_pod() -> None:
    snapshot = load_files(CLUSTERS[:1])
    row = failing(snapshot).row(single("worker-b2"))

    assert (row.pods, row.evicted_certain, row.evicted_possible, row.kept) == (7, 5, 0, 2)
    assert row.not_coming_back == ("shop/debug-shell",)
    assert row.zones == ("eu-1/eu-1b",)
    assert row.stuck == 5
    assert row.unknown_earliest_seconds is not None
    assert row.first_earliest_seconds is not None
    assert row.unknown_earliest_seconds < row.first_earliest_seconds


def test_a_workload_is_emptied_when_all_its_pods_go_for_certain() -> None:
    snapshot = load_files(CLUSTERS[:1])
    many = failing(snapshot)
    pods = {one.pod: one.owner for one in many.predicted(single("worker-b4")).evictions}
    row = many.row(single("worker-b4"))

    assert row.emptied == row.single_replica
    assert len(row.emptied) == 2
    assert len(pods) == row.evicted_certain == 6


def a_row(name: str = "n", **figures: object) -> FailureRow:
    nothing = FailureRow(
        rank=0,
        what=NODE,
        name=name,
        zones=(),
        nodes=(name,),
        pods=0,
        evicted_certain=0,
        evicted_possible=0,
        kept=0,
        unknown_earliest_seconds=None,
        unknown_latest_seconds=None,
        first_earliest_seconds=None,
        first_latest_seconds=None,
        last_earliest_seconds=None,
        last_latest_seconds=None,
        stuck=0,
        emptied=(),
        single_replica=(),
        not_coming_back=(),
        services_down=(),
        services_down_perhaps=(),
        budgets_broken=(),
        budgets_broken_perhaps=(),
    )
    return replace(nothing, **figures)


def test_services_weigh_more_than_budgets_than_workloads_than_pods() -> None:
    rows = [
        a_row("possible", evicted_possible=50),
        a_row("pods", evicted_certain=50),
        a_row("lost", not_coming_back=("a/b",)),
        a_row("workload", emptied=("a/b/c",)),
        a_row("budget", budgets_broken=("a/b",)),
        a_row("service", services_down=("a/b",)),
        a_row("nothing"),
    ]

    assert [row.name for row in ranked(rows)] == [
        "service",
        "budget",
        "workload",
        "lost",
        "pods",
        "possible",
        "nothing",
    ]


def test_of_equal_losses_the_sooner_one_is_worse() -> None:
    late = a_row("a", evicted_certain=1, first_earliest_seconds=300.0)
    soon = a_row("b", evicted_certain=1, first_earliest_seconds=30.0)

    assert [row.name for row in ranked([late, soon])] == ["b", "a"]


def test_what_costs_the_same_has_the_same_rank_and_stands_by_name() -> None:
    rows = [a_row("c"), a_row("a", evicted_certain=3), a_row("b"), a_row("d", evicted_certain=3)]

    assert [(row.rank, row.name) for row in ranked(rows)] == [
        (1, "a"),
        (1, "d"),
        (3, "b"),
        (3, "c"),
    ]


def test_pairs_are_all_pairs_of_the_nodes() -> None:
    assert [failure.nodes for failure in failures_of_pairs(["a", "b", "c"])] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_what_is_sent_to_another_process_says_the_same_there() -> None:
    many = failing(load_files(CLUSTERS[1:]))
    many.prepare()

    sent: Failing = pickle.loads(pickle.dumps(many))

    assert sent.row(single("a1")) == many.row(single("a1"))


def test_which_budgets_break_is_unknown_where_budgets_are_not_in_the_input() -> None:
    snapshot = load_files(CLUSTERS[:1])
    seen = tuple(kind for kind in snapshot.kinds_seen if kind != "PodDisruptionBudget")

    known, unknown = (
        failing(replace(snapshot, kinds_seen=kinds)).row(single("worker-b4"))
        for kinds in (snapshot.kinds_seen, seen)
    )

    assert known.budgets_broken
    assert (unknown.budgets_broken, unknown.budgets_broken_perhaps) == (None, None)


def test_rows_ask_where_replacements_find_a_node_or_say_that_they_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = [
        replace(make_node(name), allocatable={"cpu": cpu, "pods": 10})
        for name, cpu in (("a1", 1000), ("b1", 4000), ("b2", 4000))
    ]
    pods = [
        replace(make_pod(f"{owner}-x", on, owner=f"ReplicaSet/{owner}"), needs=needs)
        for owner, on, needs in (
            ("small", "a1", PodNeeds((("cpu", 500),))),
            ("large", "b1", PodNeeds((("cpu", 3000),))),
            ("other", "b2", PodNeeds((("cpu", 3000),))),
        )
    ]
    snapshot = make_snapshot(room, pods)
    failures = [single(name) for name in ("a1", "b1", "b2")]
    many = failing(snapshot)
    many.prepare(failures)
    rows = ranked(map(many.row, failures))
    assert [(row.name, row.not_coming_back, row.rank) for row in rows] == [
        ("b1", ("default/large-x",), 1),
        ("b2", ("default/other-x",), 1),
        ("a1", (), 3),
    ]
    assert all(row.placement_asked for row in rows)

    monkeypatch.setattr("kubectl_evictplan.sweeps.failures._PLACED_MAX", 8)
    unasked = ranked(map(many.row, failures))
    assert not any(row.not_coming_back or row.placement_asked for row in unasked)
    said = "".join(
        render_document(
            sweep := Sweep("nodes", None, failures=unasked),
            lambda wide: sweep_contents(sweep, wide=wide, zone=None),
            "table",
        )
    )
    assert "Not asked: whether replacements find a node." in said
    assert "placementAsked" in (lines := list(render_sweep(sweep)))[0]
    assert all(line.endswith('"false"\n') for line in lines[1:])
