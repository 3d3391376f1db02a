"""``kubectl evictplan diff A B`` as it is typed: files, standard input, exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from building.command_lines import Ask, asker

CLUSTER = str(Path(__file__).parents[2] / "fixtures/examples/mini-cluster.yaml")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    monkeypatch.chdir(tmp_path)
    asking = asker(capsys, monkeypatch)
    for name, grace in (("a.json", "40s"), ("b.json", "20s")):
        flag = f"node-monitor-grace-period={grace}"
        words = ("what-if", "fail", "node", "a1", "-f", CLUSTER, "-o", "json")
        Path(name).write_text(asking(*words, "--controller-flag", flag).out)
    return asking


def test_a_faster_detection_brings_evictions_forward(ask: Ask) -> None:
    answer = ask("diff", "a.json", "b.json", "-o", "json")
    found = json.loads(answer.out)

    assert (answer.code, found["same"], found["kind"]) == (0, False, "PredictionDiff")
    assert {pod["change"] for pod in found["pods"]} == {"earlier"}
    assert [one["name"] for one in found["inputs"]] == ["--node-monitor-grace-period"]


def test_the_exit_code_tells_only_where_it_is_asked_for(ask: Ask) -> None:
    assert ask("diff", "a.json", "b.json").code == 0
    assert ask("diff", "a.json", "b.json", "--exit-code").code == 1
    assert ask("diff", "a.json", "a.json", "--exit-code").code == 0


def test_compressed_files_and_standard_input_will_do(ask: Ask) -> None:
    Path("b.json.gz").write_bytes(gzip.compress(Path("b.json").read_bytes()))

    compressed = ask("diff", "a.json", "b.json.gz", "-o", "json")
    piped = ask("diff", "a.json", "-", "-o", "json", stdin=Path("b.json").read_bytes())

    assert json.loads(compressed.out)["pods"] == json.loads(piped.out)["pods"] != []


def test_plans_are_compared_by_what_they_do_and_what_they_predict(ask: Ask) -> None:
    for name, nodes in (("one.json", ("b1",)), ("two.json", ("b1", "a1"))):
        words = ("what-if", "taint", "node", *nodes, "maint=yes:NoExecute", "-f", CLUSTER)
        assert ask(*words, "--out", name, "-o", "json").code == 0

    found = json.loads(ask("diff", "one.json", "two.json", "-o", "json").out)
    table = ask("diff", "one.json", "two.json", "--exit-code")
    same = ask("diff", "one.json", "one.json", "--exit-code")
    mixed = json.loads(ask("diff", "one.json", "a.json", "-o", "json").out)

    assert [one["operation"] for one in found["plans"]["operations"]] == [
        "taint a1 maint=yes:NoExecute"
    ]
    assert {pod["change"] for pod in found["pods"]} == {"new"}
    assert (table.code, "The plans differ: 1 operation" in table.out) == (1, True)
    assert (same.code, "Both plans do the same" in same.out) == (0, True)
    assert mixed["plans"] is None


def test_a_plan_that_was_changed_is_not_compared(ask: Ask) -> None:
    words = ("what-if", "cordon", "a1", "-f", CLUSTER, "--out", "plan.json")
    assert ask(*words, "-o", "json").code == 0
    text = Path("plan.json").read_text()
    Path("plan.json").write_text(text.replace('"canary": true', '"canary": false'))

    changed = ask("diff", "plan.json", "plan.json")

    assert (changed.code, "was changed after it was made" in changed.err) == (4, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "two predictions are compared, A and B"),
        (("a.json",), "two predictions are compared, A and B (got a.json)"),
        (("a.json", "b.json", "c.json"), "two predictions are compared, A and B"),
        (("-", "-"), "standard input can be read once only"),
        (("a.json", "c.json"), "c.json: no such file"),
        (("a.json", CLUSTER), "not JSON: predictions are compared as `-o json` writes them"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(
    ask: Ask, words: tuple[str, ...], said: str
) -> None:
    assert said in ask("diff", *words).problem()
