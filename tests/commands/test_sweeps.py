"""``kubectl evictplan sweep ...`` as it is typed, and that it matters to nobody where it is computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_lines import Ask, asker

from kubectl_evictplan.commands.executors import Workers

ROOT = Path(__file__).parents[2]
CLUSTER = str(ROOT / "fixtures/clusters/kubeadm-15-nodes-1.29.json")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    return asker(capsys, monkeypatch)


def test_the_answer_is_the_same_whoever_computes_it(ask: Ask) -> None:
    words = ("sweep", "nodes", "worker-a1", "worker-b2", "worker-c4", "-f", CLUSTER, "-o", "json")

    answers = [
        ask(*words, "--jobs", "1"),
        ask(*words, "--jobs", "2"),
        ask(*words, "--executor", "some_executors:two_threads"),
    ]

    assert {answer.code for answer in answers} == {0}
    assert len({answer.out for answer in answers}) == 1
    found = json.loads(answers[0].out)
    assert [row["name"] for row in found["failures"]] == ["worker-b2", "worker-c4", "worker-a1"]


def test_a_row_counts_what_what_if_fail_lists(ask: Ask) -> None:
    alone = json.loads(ask("what-if", "fail", "node", "worker-c4", "-f", CLUSTER, "-o", "json").out)
    (row,) = json.loads(ask("sweep", "nodes", "worker-c4", "-f", CLUSTER, "-o", "json").out)[
        "failures"
    ]

    assert row["evictedCertain"] == len(alone["evictions"])
    assert row["kept"] == len(alone["kept"])
    assert row["firstEarliestSeconds"] == min(e["earliestSeconds"] for e in alone["evictions"])
    assert row["lastLatestSeconds"] == max(e["latestSeconds"] for e in alone["evictions"])


def test_zones_fail_whole(ask: Ask) -> None:
    found = json.loads(ask("sweep", "zones", "-f", CLUSTER, "-o", "json", "--jobs", "1").out)

    assert [len(row["nodes"]) for row in found["failures"]] == [5, 5, 5]
    assert found["what"] == "zones"


def test_pairs_fail_together(ask: Ask) -> None:
    words = ("sweep", "pairs", "worker-a1", "worker-b1", "-f", CLUSTER, "-o", "json")
    found = json.loads(ask(*words).out)

    assert [row["nodes"] for row in found["failures"]] == [["worker-a1", "worker-b1"]]


def test_the_table_names_the_worst_first_and_wide_names_what_it_counts(ask: Ask) -> None:
    narrow = ask("sweep", "zones", "-f", CLUSTER, "--jobs", "1").out
    wide = ask("sweep", "zones", "-f", CLUSTER, "--jobs", "1", "-o", "wide").out

    assert narrow.startswith("Of 3 zones the failure of zone eu-1c costs most")
    assert "shop/debug-shell" not in narrow
    assert "1 (shop/debug-shell)" in wide


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nodes", "--jobs", "0"), "--jobs: not a number of processes (got '0'"),
        (("nodes", "--executor", "dask://host"), "no such executor: the address has no port"),
        (("nodes", "--executor", "nonsense"), "no such executor: neither an address"),
        (("nodes", "--executor", "no_module:f"), "no such executor: No module named"),
        (("nodes", "--executor", "some_executors:no_executor"), "no concurrent.futures.Executor"),
        (("zones", "eu-1x"), "eu-1x"),
        (("pairs", "worker-a1"), "a pair needs two nodes"),
        (("pairs",), "which nodes?"),
    ],
)
def test_what_cannot_be_swept_is_said_in_one_line(
    ask: Ask, words: tuple[str, ...], said: str
) -> None:
    assert said in ask("sweep", *words, "-f", CLUSTER).problem()


def test_an_interruption_ends_the_workers_and_nothing_else_begins() -> None:
    asked: list[int] = []

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        for _ in Workers(2).answers(abs, range(1000), interrupted):
            asked.append(1)

    assert len(asked) < 1000
