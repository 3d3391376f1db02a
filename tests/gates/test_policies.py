"""Policy files, and what a gate that fails does to a command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from building.command_lines import CLUSTER, Ask, asker, pod

POLICY = """\
apiVersion: evictplan.dev/v1alpha1
kind: Policy
metadata: {name: production}
spec:
  failOn:
  - rule: evictions > 0
    reason: it is Friday
  - rule: stuck > 3
"""


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    return asker(capsys, monkeypatch)


@pytest.fixture
def taint(tmp_path: Path) -> tuple[str, ...]:
    """A taint that evicts one pod for certain."""
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{CLUSTER}---\n{pod()}")
    return "what-if", "taint", "node", "n1", "m=y:NoExecute", "-f", str(file)


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return str(file)


def test_a_gate_that_fails_ends_with_exit_code_1_after_the_whole_answer(
    ask: Ask, taint: tuple[str, ...]
) -> None:
    without, answer = ask(*taint), ask(*taint, "--fail-on", "evictions > 0", "--fail-on", "stuck")

    assert (without.code, answer.code) == (0, 1)
    assert answer.out == without.out
    assert answer.err == "error: --fail-on: gate failed: evictions > 0: evictions is 1\n"


def test_a_gate_that_passes_changes_nothing(ask: Ask, taint: tuple[str, ...]) -> None:
    assert ask(*taint, "--fail-on", "evictions > 1") == ask(*taint)


def test_a_policy_names_its_place_and_its_reason(
    ask: Ask, taint: tuple[str, ...], tmp_path: Path
) -> None:
    policy = written(tmp_path, POLICY)
    answer = ask(*taint, "--policy", policy)

    assert answer.code == 1
    assert answer.err == (
        f"error: {policy}:6:11: gate failed: evictions > 0 (it is Friday): evictions is 1\n"
    )


def test_every_mistake_of_rules_and_policies_is_told_before_anything_is_read(
    ask: Ask, tmp_path: Path
) -> None:
    text = POLICY.replace("stuck > 3", "stuk > 3\n  - {rul: x}\n  - hello")
    policy = written(tmp_path, text)
    found = ask(
        *("what-if", "cordon", "n1", "-f", policy, "--policy", policy, "--fail-on", "evictons > 1"),
        *("--policy", str(tmp_path / "no.yaml")),
    ).problems()

    assert [line.partition(" (")[0] for line in found] == [
        "--fail-on: there is no figure evictons; did you mean 'evictions'?",
        f"{policy}:8:11: spec.failOn[1].rule: there is no figure stuk; did you mean 'stuck'?",
        f"{policy}:9:5: spec.failOn[2]: required key 'rule' is missing",
        f"{policy}:9:6: spec.failOn[2]: unknown key 'rul'; did you mean 'rule'?",
        f"{policy}:10:5: spec.failOn[3]: must be an object, not a string",
        f"{tmp_path / 'no.yaml'}: no such file",
    ]


def test_a_scenario_is_no_policy(ask: Ask, taint: tuple[str, ...], tmp_path: Path) -> None:
    policy = written(tmp_path, POLICY.replace("Policy", "Scenario"))

    assert "not a policy: kind must be Policy" in ask(*taint, "--policy", policy).problem()


def test_a_ticket_shows_every_gate_the_failed_ones_first(
    ask: Ask, taint: tuple[str, ...], tmp_path: Path
) -> None:
    policy = written(tmp_path, POLICY)
    lines = ask(*taint, "--fail-on", "stuck > 9", "--policy", policy, "-o", "markdown").out

    table = lines.partition("## Gates: 1 of 3 failed\n\n")[2].splitlines()
    assert [line.split(" | ")[:3] for line in table[:5]] == [
        ["| RESULT", "FAILS IF", "NUMBERS"],
        ["| ---", "---", "---"],
        ["| FAILED", "evictions &gt; 0", "evictions is 1"],
        ["| passed", "stuck &gt; 9", "stuck is 0"],
        ["| passed", "stuck &gt; 3", "stuck is 0"],
    ]
