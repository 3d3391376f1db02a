"""The tables of evictions: rows, columns that tell nothing, groups and their totals."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.builders import (
    MAINTENANCE,
    eviction,
    kept,
    node_report,
    one_of_each,
    prediction,
    table_of,
    text_of,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.document import (
    Eviction,
    OutcomeWindow,
    Prediction,
    TaintReference,
    TolerationReference,
    Window,
    WorkloadReport,
)
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.report import words
from kubectl_evictplan.scenarios.files import load_scenario
from kubectl_evictplan.sources.files import load_files

STUCK = Window(1, None, "its kubelet is silent")


def headers_of(*evictions: Eviction) -> list[str]:
    return table_of(prediction(evictions=evictions))[0]


# --- rows -------------------------------------------------------------------------------------


def test_what_is_the_same_in_every_row_has_no_column() -> None:
    assert headers_of(eviction("a"), eviction("b")) == [
        "NAMESPACE",
        "POD",
        "EVICTED-AT",
        "GONE",
        "OWNER",
    ]


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"node": "n2"}, "NODE"),
        ({"certainty": "possible"}, "CERTAINTY"),
        ({"taint": MAINTENANCE}, "WHY"),
        ({"controller": "pod-gc"}, "BY"),
    ],
)
def test_what_differs_has_one(fields: Any, header: str) -> None:
    assert header in headers_of(eviction("a"), eviction("b", **fields))


def test_possible_is_said_in_the_rows_even_where_all_are() -> None:
    assert "CERTAINTY" in headers_of(eviction(certainty="possible"))


def test_where_all_are_stuck_the_verdict_says_it() -> None:
    assert "GONE" not in headers_of(eviction("a", gone=STUCK), eviction("b", gone=STUCK))
    assert "GONE" in headers_of(eviction("a", gone=STUCK), eviction("b"))


def test_why_is_one_word_told_once_below() -> None:
    value = prediction(
        evictions=(
            eviction("a"),
            eviction("b", toleration=TolerationReference(0, 10)),
            eviction("c", toleration=TolerationReference(0, 10)),
            eviction("d", taint=MAINTENANCE, toleration=None),
        )
    )
    assert [row[3] for row in table_of(value)[1:]] == ["unreachable"] * 3 + ["maintenance"]
    flat = " ".join(text_of(value).split())
    assert (
        "WHY unreachable: taint node.kubernetes.io/unreachable:NoExecute, tolerated for 10s (2), "
        "tolerated for 300s (1); deleted by taint-eviction. "
        "WHY maintenance: taint maintenance=true:NoExecute, not tolerated; deleted by taint-eviction."
    ) in flat


def test_two_taints_whose_keys_end_alike_are_told_apart() -> None:
    taints = (TaintReference("a.io/maint", "NoExecute"), TaintReference("b.io/maint", "NoExecute"))
    value = prediction(evictions=tuple(eviction(taint=taint) for taint in taints))
    assert "a.io/maint:NoExecute" in text_of(value, headers=False)


def test_disjoint_outcomes_stay_apart_with_what_leads_to_them_in_wide() -> None:
    windows = (
        OutcomeWindow(344.0, 372.0, "if the monitor ticks between the two failures"),
        OutcomeWindow(890.0, 900.0),
    )
    value = prediction(
        evictions=(eviction(earliest_seconds=344.0, latest_seconds=900.0, windows=windows),)
    )
    assert table_of(value)[1][2] == "+5m44s .. +6m12s or +14m50s .. +15m0s"
    assert (
        "+5m44s .. +6m12s (if the monitor ticks between the two failures) or +14m50s .. +15m0s"
        in text_of(value, "wide")
    )
    story = " ".join(text_of(value, explain="default/web-0").split())
    assert "(+5m44s .. +6m12s) if the monitor ticks between the two failures or between" in story


def test_without_headers_there_are_rows_alone_always_with_the_same_columns() -> None:
    lines = text_of(one_of_each(), headers=False, columns=40).splitlines()
    assert [re.split(r" {2,}", line) for line in lines] == [
        [
            *("default", "web-0", "n1", "+5m50.5s", "certain", "unreachable"),
            *("taint-eviction", "+5m50s .. +6m21s", "rs"),
        ],
        [
            *("default", "db-0", "n1", "+5m49s .. +5m57s", "possible", "unreachable"),
            *("taint-eviction", "stuck", "sts"),
        ],
    ]


def test_wide_has_every_column_in_full() -> None:
    assert table_of(one_of_each(), "wide")[1] == [
        *("default", "web-0", "n1", "certain", "+5m50.5s", "2026-11-20T22:05:50.500Z"),
        *("taint-eviction", "node.kubernetes.io/unreachable:NoExecute tolerated for 300s"),
        *("ReplicaSet/web-7d9f", "+5m50.5s .. +6m20.5s", "uid-web-0"),
    ]


# --- groups -----------------------------------------------------------------------------------


def zone_outage() -> Prediction:
    return prediction(
        evictions=(
            eviction("web-1", 10.0, owner="ReplicaSet/web-7d9f", node="n1"),
            eviction("web-2", 20.0, owner="ReplicaSet/web-8c8c", node="n2"),
            eviction("db-0", 30.0, owner="StatefulSet/db", namespace="data", gone=STUCK),
            eviction("bare", 40.0, owner="", certainty="possible"),
        ),
        kept=(kept(),),
        nodes=(node_report("n1", zone="eu/a"), node_report("n2", zone="eu/b")),
        workloads=(
            WorkloadReport("data", "StatefulSet/db", ("StatefulSet/db",), 3),
            WorkloadReport(
                "default", "Deployment/web", ("ReplicaSet/web-7d9f", "ReplicaSet/web-8c8c"), 5
            ),
        ),
    )


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        (
            "workload",
            [
                ["NAMESPACE", "WORKLOAD", "PODS", "POSSIBLY", "STUCK", "NODES", "EVICTED-AT"],
                ["default", "deploy/web", "2 of 5", "0", "0", "2", "+10s .. +20s"],
                ["data", "sts/db", "1 of 3", "0", "1", "1", "+30s"],
                ["default", "pod/bare", "1 of 1", "1", "0", "1", "+40s"],
                ["TOTAL", "3 workloads", "4 of 9", "1", "1", "2", "+10s .. +40s"],
            ],
        ),
        (
            "node",
            [
                ["NODE", "ZONE", "PODS", "POSSIBLY", "STUCK", "EVICTED-AT"],
                ["n1", "eu/a", "3 of 4", "1", "1", "+10s .. +40s"],
                ["n2", "eu/b", "1 of 1", "0", "0", "+20s"],
                ["TOTAL", "2 nodes", "4 of 5", "1", "1", "+10s .. +40s"],
            ],
        ),
        (
            "namespace",
            [
                ["NAMESPACE", "PODS", "POSSIBLY", "STUCK", "NODES", "EVICTED-AT"],
                ["default", "3", "1", "0", "2", "+10s .. +40s"],
                ["data", "1", "0", "1", "1", "+30s"],
                ["TOTAL 2 namespaces", "4", "1", "1", "2", "+10s .. +40s"],
            ],
        ),
        (
            "zone",
            [
                ["ZONE", "PODS", "POSSIBLY", "STUCK", "NODES", "EVICTED-AT"],
                ["eu/a", "3", "1", "1", "1", "+10s .. +40s"],
                ["eu/b", "1", "0", "0", "1", "+20s"],
                ["TOTAL 2 zones", "4", "1", "1", "2", "+10s .. +40s"],
            ],
        ),
    ],
)
def test_evictions_are_grouped_with_totals(by: str, rows: list[list[str]]) -> None:
    assert table_of(zone_outage(), by=by) == rows
    assert table_of(zone_outage(), "wide", by=by) == rows


def many(number: int, workloads: int) -> Prediction:
    return prediction(
        evictions=tuple(
            eviction(f"p-{at}", owner=f"StatefulSet/w-{at % workloads:04}") for at in range(number)
        ),
        workloads=tuple(
            WorkloadReport("default", f"StatefulSet/w-{at:04}", (f"StatefulSet/w-{at:04}",), number)
            for at in range(workloads)
        ),
    )


def test_forty_pods_are_rows_and_more_are_grouped_by_workload() -> None:
    assert len(table_of(many(40, 2))) == 41
    assert [row[1] for row in table_of(many(41, 2))] == [
        *("WORKLOAD", "sts/w-0000", "sts/w-0001", "2 workloads")
    ]
    assert len(table_of(many(41, 2), by="pod")) == 42
    assert len(table_of(many(41, 2), "wide")) == 42
    assert len(text_of(many(41, 2), headers=False).splitlines()) == 41


def test_more_than_forty_workloads_are_the_worst_forty_and_the_rest() -> None:
    rows = table_of(many(201, 100))
    assert rows[1][1:3] == ["sts/w-0000", "3 of 201"]
    assert [row[:3] for row in rows[41:43]] == [
        ["others", "60 workloads", "120 of 12060"],
        ["TOTAL", "100 workloads", "201 of 20100"],
    ]
    assert "--by workload shows all 100 workloads, -o wide every pod." in text_of(many(201, 100))
    assert len(table_of(many(201, 100), by="workload")) == 102


# --- every number of the verdict can be counted ---------------------------------------------

EVICTED = st.lists(
    st.tuples(
        st.sampled_from("abcdefgh"),
        st.sampled_from(["default", "shop"]),
        st.sampled_from(["certain", "possible"]),
        st.booleans(),
        st.sampled_from(["n1", "n2", "n3", "n4", "n5"]),
    ),
    max_size=12,
)
KEPT = st.lists(st.tuples(st.sampled_from("abcdwxyz"), st.sampled_from(["x-1", "x-2"])), max_size=6)


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@given(EVICTED, KEPT)
def test_every_number_of_the_verdict_can_be_counted_in_the_rows(
    evicted: list[tuple[str, str, str, bool, str]], stay: list[tuple[str, str]]
) -> None:
    value = prediction(
        evictions=tuple(
            eviction(
                pod,
                at,
                namespace=namespace,
                certainty=certainty,
                node=node,
                gone=STUCK if stuck else Window(at, at),
            )
            for at, (pod, namespace, certainty, stuck, node) in enumerate(evicted)
        ),
        kept=tuple(
            kept(pod, namespace="shop", code=code)
            for pod, code in dict(stay).items()
            if (pod, "shop") not in {entry[:2] for entry in evicted}
        ),
    )
    check_that_numbers_can_be_counted(value)


@pytest.mark.parametrize(
    "run",
    [
        "controller-restart-1.29.6",
        "random-1-1.23.13",
        pytest.param("random-8-1.29.6", marks=pytest.mark.slow),
    ],
)
def test_so_can_those_of_recorded_runs(fixtures_path: Path, run: str) -> None:
    path = fixtures_path / "traces" / run
    snapshot = load_files([str(path / "cluster.json")])
    text = (path / "scenario.yaml").read_text(encoding="utf-8")
    loaded = load_scenario(text, "scenario.yaml", snapshot)
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    check_that_numbers_can_be_counted(predict(snapshot, loaded.scenario, configuration))


def check_that_numbers_can_be_counted(value: Prediction) -> None:
    loud, _, rest = text_of(value).partition("\n\n")
    verdict = " ".join((rest if loud.startswith("THE INPUT") else loud).split("\n\n")[0].split())
    lines = text_of(value, headers=False).splitlines()
    rows = [re.split(r" {2,}", line) for line in lines]
    pods = {(row[0], row[1]) for row in rows}
    certain = {(row[0], row[1]) for row in rows if row[4] == "certain"}
    assert number(r"(\d+) pods? (?:is|are) evicted for certain", verdict) == len(certain)
    assert number(r"(\d+) (?:more )?pods? may be evicted or", verdict) == len(pods - certain)
    again = [pod for pod, times in Counter((r[0], r[1]) for r in rows).items() if times > 1]
    assert number(r"(\d+) pods? (?:may go|goes|go) more than once", verdict) == len(again)
    assert number(r"That makes (\d+) deletions", verdict) == (len(rows) if again else 0)
    stuck = {(row[0], row[1]) for row in rows if "stuck" in row}
    told = verdict.replace("both", "2")
    by_reason = map(int, re.findall(r"Once deleted, (?:all )?(\d+)", told))
    assert sum(by_reason) == len(stuck)
    for namespace in {row[0] for row in rows} if len({row[0] for row in rows}) > 1 else ():
        assert number(rf"Namespaces:.* {namespace} (\d+)", verdict) == len(
            {pod for pod in pods if pod[0] == namespace}
        )
    wide = text_of(value, "wide").split("Pods that stay\n")
    kept_rows = wide[1].split("\n\n")[0].splitlines()[1:] if len(wide) > 1 else []
    assert number(r"(\d+) pods? on the affected nodes", verdict) == len(kept_rows)
    if rows:
        assert int(table_of(value, by="namespace")[-1][1]) == len(pods)


# --- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earliest", "latest", "exact", "rounded"),
    [
        (0.0, 0.0, "+0s", "+0s"),
        (350.8121, 350.8124, "+5m50.812s", "+5m50.812s"),
        (350.81, 356.2, "+5m50.81s .. +5m56.2s", "+5m50s .. +5m57s"),
        (20.12, 21.31, "+20.12s .. +21.31s", "+20.1s .. +21.4s"),
        (-2.5, 1.0, "-2.5s .. +1s", "-2.5s .. +1s"),
        (59.95, 60.01, "+59.95s .. +1m0.01s", "+59.9s .. +1m1s"),
        (3590.2, 5400.7, "+59m50.2s .. +1h30m0.7s", "+59m50s .. +1h31m"),
        (0.0, 7200.5, "+0s .. +2h0m0.5s", "+0s .. +2h1m"),
        (5.0, None, "+5s or later", "+5s or later"),
        (None, 5.0, "until +5s", "until +5s"),
        (None, None, "<unknown>", "<unknown>"),
        (float("nan"), float("inf"), "<unknown>", "<unknown>"),
    ],
)
def test_windows_read_as_go_durations_and_round_outwards(
    earliest: float | None, latest: float | None, exact: str, rounded: str
) -> None:
    assert words.window(earliest, latest, exact=True) == exact
    assert words.window(earliest, latest) == rounded


def test_rounding_shows_no_cause_after_its_effect() -> None:
    """A taint from +54.5s on, and the eviction that follows from +54.5s on but may come later."""
    cause, effect = words.window(54.5, 59.0), words.window(54.5, 66.0)
    assert cause.partition(" ")[0] == effect.partition(" ")[0] == "+54.5s"
