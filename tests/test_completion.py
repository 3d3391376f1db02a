"""What the Tab key offers behind ``kubectl evictplan``, asked as kubectl asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

# A busy machine may need longer to start a shell than people at a prompt want to wait.
ENTRY = "from kubectl_evictplan import completion; completion.ASK_WITHIN_SECONDS = {}; completion.main()"


def kubectl_that(folder: Path, script: str) -> dict[str, str]:
    """An environment in which kubectl is a shell script; it writes its words to ``asked``."""
    kubectl = folder / "kubectl"
    kubectl.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{script}\n', encoding="utf-8")
    kubectl.chmod(0o755)
    return {**os.environ, "KUBECTL_PATH": str(kubectl)}


def completed(
    words: Sequence[str], environment: dict[str, str], within_seconds: float = 60.0
) -> list[str]:
    """The lines that kubectl would read, without the descriptions."""
    done = subprocess.run(
        [sys.executable, "-c", ENTRY.format(within_seconds), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.fixture
def nobody(tmp_path: Path) -> dict[str, str]:
    """No cluster answers."""
    return kubectl_that(tmp_path, "exit 1")


def test_commands_are_offered_with_their_help(nobody: dict[str, str]) -> None:
    commands = [
        "what-if",
        "apply",
        "snapshot",
        "sweep",
        "verify",
        "diff",
        "explain",
        "schema",
        "version",
    ]
    assert completed([""], nobody) == [*commands, ":4"]
    assert completed(["what-if", "un"], nobody) == ["uncordon", ":4"]


def test_the_kind_comes_before_any_name(nobody: dict[str, str]) -> None:
    assert completed(["what-if", "taint", ""], nobody) == ["node", ":4"]
    assert completed(["what-if", "fail", "z"], nobody) == ["zone", ":4"]


def test_words_of_an_option_are_offered(nobody: dict[str, str]) -> None:
    assert completed(["what-if", "taint", "-o", "js"], nobody) == ["json", ":4"]


def test_apply_knows_the_words_of_what_if_and_the_options_of_plans(nobody: dict[str, str]) -> None:
    assert completed(["apply", "un"], nobody) == ["uncordon", ":0"]
    assert completed(["apply", "taint", ""], nobody) == ["node", ":4"]
    assert completed(["apply", "--res"], nobody) == ["--resume", ":0"]
    assert completed(["apply", "./pl"], nobody) == [":0"]
    assert completed(["apply", "--resume", ""], nobody) == [":0"]


@pytest.mark.parametrize(
    "words",
    [
        ["what-if", "taint", "node", "n1", "-f"],
        ["what-if", "cordon", "n1", "--policy"],
        ["what-if", "scenario"],
        ["sweep", "fleet"],
        ["verify"],
        ["diff", "a.json"],
        ["snapshot", "-o"],
    ],
)
def test_file_names_are_left_to_the_shell(words: list[str], nobody: dict[str, str]) -> None:
    assert completed([*words, ""], nobody) == [":0"]


def test_codes_are_offered_to_be_explained(nobody: dict[str, str]) -> None:
    assert completed(["explain", "budget-br"], nobody) == ["budget-broken", ":4"]


def test_names_of_the_cluster_are_not_offered_for_a_file(tmp_path: Path) -> None:
    environment = kubectl_that(tmp_path, "echo w1")
    assert completed(["what-if", "cordon", "-f", "c.json", "w"], environment) == [":4"]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["what-if", "taint", "node", "w"], "get nodes"),
        (["what-if", "cordon", "w"], "get nodes"),
        (["what-if", "delete", "node", "w1", "w"], "get nodes"),
        (["what-if", "fail", "zone", "w"], "topology"),
        (["what-if", "taint", "--explain", "w"], "get pods -A"),
    ],
)
def test_names_come_from_the_cluster(words: list[str], asked: str, tmp_path: Path) -> None:
    environment = kubectl_that(tmp_path, 'echo "w1 w2 w2 other"')
    assert completed(words, environment) == ["w1", "w2", ":4"]
    assert asked in (tmp_path / "asked").read_text(encoding="utf-8")


def test_names_come_from_the_cluster_that_the_words_mean(tmp_path: Path) -> None:
    environment = kubectl_that(tmp_path, "echo w1")
    completed(["what-if", "cordon", "--context", "prod", "--as=me", "-n", "shop", ""], environment)
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "--context=prod --as=me --namespace=shop" in asked


def test_names_that_are_no_words_are_not_offered(tmp_path: Path) -> None:
    environment = kubectl_that(tmp_path, r"printf 'w1 w;reboot \033[31mw3 -w4 $(w5) w6'")
    assert completed(["what-if", "cordon", ""], environment) == ["w1", "w6", ":4"]


@pytest.mark.parametrize("script", ["exec sleep 20", "exit 1", "echo no >&2; kill -9 $$"])
def test_a_cluster_that_does_not_answer_offers_nothing(script: str, tmp_path: Path) -> None:
    environment = kubectl_that(tmp_path, script)
    assert completed(["what-if", "cordon", ""], environment, within_seconds=0.3) == [":4"]


def test_kubectl_is_not_even_started_when_no_time_is_left_for_it(tmp_path: Path) -> None:
    environment = kubectl_that(tmp_path, "printf 'w1 w2'")
    # Python itself has taken longer by then.
    assert completed(["what-if", "cordon", ""], environment, within_seconds=0.021) == [":4"]
    assert not (tmp_path / "asked").exists()


def test_without_kubectl_nothing_is_offered(tmp_path: Path) -> None:
    environment = {**os.environ, "KUBECTL_PATH": str(tmp_path / "none")}
    assert completed(["what-if", "cordon", ""], environment) == [":4"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_itself_offers_what_we_say(tmp_path: Path) -> None:
    for name, module in (
        ("kubectl-evictplan", "__main__"),
        ("kubectl_complete-evictplan", "completion"),
    ):
        program = tmp_path / name
        body = f"from kubectl_evictplan.{module} import main; main()"
        program.write_text(f"#!{sys.executable}\n{body}\n", encoding="utf-8")
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KUBECONFIG": "/dev/null",
    }
    asked = subprocess.run(
        ["kubectl", "__complete", "evictplan", "what-if", "co"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.splitlines()[0].startswith("cordon\t")
    listed = subprocess.run(
        ["kubectl", "plugin", "list"], env=environment, capture_output=True, text=True, check=True
    )
    assert str(tmp_path / "kubectl-evictplan") in listed.stdout
    assert "kubectl_complete" not in listed.stdout
    version = subprocess.run(
        ["kubectl", "evictplan", "version"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.startswith("kubectl-evictplan ")
