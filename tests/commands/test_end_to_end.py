"""From the words on the command line to the printed prediction, with nothing faked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubectl_evictplan import cli


@pytest.fixture
def evictplan(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str, expected: int = 0) -> str:
        code = cli.run(words, program="kubectl-evictplan")
        captured = capsys.readouterr()
        assert code == expected, captured.err
        return captured.out if code == 0 else captured.err

    return run


def evictions(text: str) -> list[tuple[str, float]]:
    found = json.loads(text)["evictions"]
    return [(f"{entry['namespace']}/{entry['pod']}", entry["offsetSeconds"]) for entry in found]


def test_the_example_scenario_prints_its_evictions(evictplan: Any, fixtures_path: Path) -> None:
    examples = fixtures_path / "examples"
    cluster = str(examples / "mini-cluster.yaml")
    words = ["what-if", "scenario", str(examples / "maintenance.yaml"), "-f", cluster]
    assert evictions(evictplan(*words, "-o", "json")) == [
        ("default/web-1", 10.0),
        ("default/batch", 610.0),
    ]
    assert "web-1" in evictplan(*words)
    assert evictplan(*words, "-o", "name").split() != []


def test_a_saved_scenario_predicts_the_same(
    evictplan: Any, fixtures_path: Path, tmp_path: Path
) -> None:
    cluster = str(fixtures_path / "traces" / "taint-basics-1.29.6" / "cluster.json")
    saved = str(tmp_path / "saved.yaml")
    common = ["-f", cluster, "--kubernetes-version", "1.29.6", "--horizon", "1m", "-o", "json"]
    command = ["what-if", "taint", "node", "n1", "maint=yes:NoExecute"]
    first = evictplan(*command, *common, "--save-scenario", saved)
    again = evictplan("what-if", "scenario", saved, *common)
    assert evictions(first) == evictions(again) != []


def test_which_source_was_used_never_changes_a_prediction(
    evictplan: Any, fixtures_path: Path, tmp_path: Path
) -> None:
    trace = fixtures_path / "traces" / "taint-basics-1.29.6"
    snapshot = str(tmp_path / "cluster.json.gz")
    evictplan("snapshot", "-f", str(trace / "cluster.json"), "-o", snapshot)
    words = ["what-if", "scenario", str(trace / "scenario.yaml"), "-o", "json", "-f"]
    assert evictplan(*words, str(trace / "cluster.json")) == evictplan(*words, snapshot)


def test_explain_tells_the_story_of_one_pod(evictplan: Any, fixtures_path: Path) -> None:
    trace = fixtures_path / "traces" / "taint-basics-1.29.6"
    words = ["what-if", "scenario", str(trace / "scenario.yaml"), "-f", str(trace / "cluster.json")]
    assert "tol5" in evictplan(*words, "--explain", "default/tol5")
    assert "did you mean 'default/tol5'" in evictplan(
        *words, "--explain", "default/tol6", expected=2
    )


def test_wrong_files_and_flags_are_problems(evictplan: Any, fixtures_path: Path) -> None:
    cluster = str(fixtures_path / "examples" / "mini-cluster.yaml")
    assert "no-such.json" in evictplan("what-if", "cordon", "n1", "-f", "no-such.json", expected=2)
    words = ["what-if", "fail", "node", "worker-9", "-f", cluster]
    assert "no node is called 'worker-9'" in evictplan(*words, expected=2)
    words = ["what-if", "cordon", "--selector", "!x-no-such", "-f", cluster]
    message = evictplan(*words, "--controller-flag", "no-such-flag=1", expected=2)
    assert "no-such-flag" in message
