"""``kubectl evictplan sweep ...`` as it is typed, and that it matters to nobody where it is computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from building.command_lines import Ask, asker

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
        ask(*words, "--executor", "building.some_executors:two_threads"),
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
    assert "shop/debug-shell" in wide


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nodes", "--jobs", "0"), "--jobs: not a number of processes (got '0'"),
        (("nodes", "--executor", "dask://host"), "no such executor: the address has no port"),
        (("nodes", "--executor", "nonsense"), "no such executor: neither an address"),
        (("nodes", "--executor", "no_module:f"), "no such executor: No module named"),
        (
            ("nodes", "--executor", "building.some_executors:no_executor"),
            "no concurrent.futures.Executor",
        ),
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


def test_a_faster_detection_is_a_grid_of_flags_and_tolerations(ask: Ask) -> None:
    words = ("--controller-flag", "node-monitor-grace-period=20s,50s", "--tolerations", "30,300")
    answer = ask(
        "sweep", "flags", "--fail", "node", "worker-b4", *words, "-f", CLUSTER, "-o", "json"
    )
    cells = json.loads(answer.out)["cells"]

    found = [
        (cell["flags"], cell["tolerationSeconds"], round(cell["failure"]["firstEarliestSeconds"]))
        for cell in cells
    ]
    assert found == [
        ({"node-monitor-grace-period": "20s"}, 30, 55),
        ({"node-monitor-grace-period": "20s"}, 300, 325),
        ({"node-monitor-grace-period": "50s"}, 30, 85),
        ({"node-monitor-grace-period": "50s"}, 300, 355),
    ]
    # Renewals come every 10 s and a little more.
    assert [cell["missedRenewals"] for cell in cells] == [0, 0, 3, 3]


def test_each_cell_is_what_what_if_says_with_these_flags(ask: Ask) -> None:
    flag = ("--controller-flag", "node-monitor-grace-period=50s")
    question = ("-f", CLUSTER, "-o", "json")
    alone = json.loads(ask("what-if", "fail", "node", "worker-b4", *flag, *question).out)
    many = ask(
        "sweep", "flags", "--fail", "node", "worker-b4", f"{flag[0]}={flag[1]},20s", *question
    )
    cell = json.loads(many.out)["cells"][0]["failure"]

    assert cell["firstEarliestSeconds"] == min(e["earliestSeconds"] for e in alone["evictions"])
    assert cell["evictedCertain"] == len(alone["evictions"])


def test_without_a_failure_the_worst_node_is_taken_and_said(ask: Ask) -> None:
    answer = ask("sweep", "flags", "--tolerations", "30,300", "-f", CLUSTER, "--jobs", "1")

    assert answer.out.startswith("The failure of node worker-b4 under 2 choices")
    assert "the failure of this node costs most of 15" in answer.out


def test_a_fleet_is_a_directory_of_clusters_with_the_worst_first(ask: Ask, tmp_path: Path) -> None:
    small = ROOT / "fixtures/examples/mini-cluster.yaml"
    for path in (Path(CLUSTER), small):
        (tmp_path / path.name).write_bytes(path.read_bytes())

    found = json.loads(ask("sweep", "fleet", str(tmp_path), "-o", "json", "--jobs", "1").out)

    clusters = [(one["cluster"], one["tried"], one["costly"]) for one in found["clusters"]]
    assert clusters == [(Path(CLUSTER).name, 15, 14), (small.name, 3, 1)]
    (alone,) = json.loads(ask("sweep", "nodes", "a1", "-f", str(small), "-o", "json").out)[
        "failures"
    ]
    assert found["clusters"][1]["worst"] == alone


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("flags",), "what is to be tried?"),
        (("flags", "--tolerations", "soon"), "--tolerations: not a list of seconds"),
        (("flags", "worker-a1", "--tolerations", "1,2"), "--fail says whether"),
        (("flags", "--controller-flag", "node-monitor-grace-period=20s,x"), "(got 'x'"),
        (("flags", "--fail", "pod", "x", "--tolerations", "1,2"), "--fail: unknown value"),
    ],
)
def test_what_is_no_grid_is_said_in_one_line(ask: Ask, words: tuple[str, ...], said: str) -> None:
    assert said in ask("sweep", *words, "-f", CLUSTER).problem()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which directory?"),
        (("nowhere",), "nowhere: not a directory"),
        ((str(ROOT / "fixtures/traces"),), "holds no .json"),
        ((".", "-f", CLUSTER), "a fleet is a directory, without -f"),
    ],
)
def test_what_is_no_fleet_is_said_in_one_line(ask: Ask, words: tuple[str, ...], said: str) -> None:
    assert said in ask("sweep", "fleet", *words).problem()
