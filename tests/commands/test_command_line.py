"""The command line: what it understands, what it hands on, and how every error ends."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building.scenario_texts import without_places

from kubectl_evictplan import cli
from kubectl_evictplan.commands.scenario import EXAMPLE
from kubectl_evictplan.commands.terminal import use_color
from kubectl_evictplan.commands.what_if import COMMANDS as WHAT_IF_COMMANDS
from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, NodeCondition, Pod
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario

SECOND = 1_000_000_000
TAKEN_AT_NS = 1_800_000_000 * SECOND
ZONE = "topology.kubernetes.io/zone"
READY = (NodeCondition("Ready", "True"),)
SNAPSHOT = ClusterSnapshot(
    nodes=(
        Node("n1", labels={ZONE: "eu-1a", "pool": "blue"}, conditions=READY),
        Node("n2", labels={ZONE: "eu-1a"}, conditions=READY),
        Node("n3", labels={ZONE: "eu-1b"}),
    ),
    pods=(Pod("default", "web-0"), Pod("shop", "db"), Pod("shop", "web-0")),
    taken_at_ns=TAKEN_AT_NS,
)


class Asked:
    """What the fakes were called with."""

    filenames: tuple[str, ...]
    load_options: dict[str, Any]
    settings: ControllerSettings
    snapshot: ClusterSnapshot
    scenario: Scenario
    explain: str | None
    render_options: dict[str, Any]
    output: str


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """Stand in for the sources, the core and the reports; remember what they are asked."""
    seen = Asked()
    monkeypatch.chdir(tmp_path)
    Path("c.json").touch()

    def load_files(filenames: tuple[str, ...], **options: Any) -> ClusterSnapshot:
        seen.filenames, seen.load_options = filenames, options
        return SNAPSHOT

    def resolve_configuration(settings: ControllerSettings, _: object) -> str:
        seen.settings = settings
        return "configuration"

    def predict(
        snapshot: ClusterSnapshot, scenario: Scenario, _: str, *, explain: str | None, **others: Any
    ) -> str:
        others["progress"]("predicting", 1, 2)
        seen.snapshot, seen.scenario, seen.explain = snapshot, scenario, explain
        return "prediction"

    def render(prediction: str, output: str, **options: Any) -> list[str]:
        seen.output, seen.render_options = output, options
        return [f"{prediction} as {output}\n"]

    fakes: dict[str, Callable[..., Any]] = {
        "sources.files.load_files": load_files,
        "controllers.flags.resolve_configuration": resolve_configuration,
        "prediction.predict.predict": predict,
        "impact.assess.with_impact": lambda *known, **_: known[3],
    }
    monkeypatch.setattr("kubectl_evictplan.report.chunks", render)
    for name, fake in fakes.items():
        monkeypatch.setattr(f"kubectl_evictplan.{name}", fake)
    return seen


def events(asked: Asked) -> list[tuple[str, tuple[str, ...]]]:
    return [(event.action, event.nodes) for event in asked.scenario.events]


def run(*words: str) -> int:
    return cli.run(["what-if", *words, "-f", "c.json"], program="kubectl-evictplan")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("taint node n1 k=v:NoExecute", [("taint", ("n1",))]),
        ("taint nodes n2 n1 a:NoExecute b:NoExecute", [("taint", ("n1", "n2"))] * 2),
        ("taint node --all k:NoExecute", [("taint", ("n1", "n2", "n3"))]),
        ("taint node -l pool=blue k:NoExecute", [("taint", ("n1",))]),
        ("cordon n1", [("cordon", ("n1",))]),
        ("cordon node/n1 nodes/n2", [("cordon", ("n1", "n2"))]),
        ("uncordon -l pool=blue", [("uncordon", ("n1",))]),
        ("delete node n1", [("node-delete", ("n1",))]),
        ("delete node/n1 node/n2", [("node-delete", ("n1", "n2"))]),
        ("delete no --all", [("node-delete", ("n1", "n2", "n3"))]),
        ("drain n2 node/n1 n2", [("drain", ("n2", "n1"))]),
        ("drain -l kubernetes.io/os!=plan9", [("drain", ("n1", "n2", "n3"))]),
        ("fail node n1 n2", [("kubelet-stop", ("n1", "n2"))]),
        ("fail node/n1", [("kubelet-stop", ("n1",))]),
        ("fail nodes -l pool=blue", [("kubelet-stop", ("n1",))]),
        ("fail zone eu-1a", [("kubelet-stop", ("n1", "n2"))]),
        ("fail zone eu-1a eu-1b", [("kubelet-stop", ("n1", "n2", "n3"))]),
    ],
)
def test_commands_become_events_at_the_start(
    asked: Asked, words: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    assert run(*words.split()) == 0
    assert events(asked) == expected
    assert asked.scenario.start_ns == TAKEN_AT_NS
    assert asked.scenario.horizon_ns is None
    assert {event.at_ns for event in asked.scenario.events} == {0}
    assert {event.origin for event in asked.scenario.events} == {asked.scenario.name}


def test_common_options_reach_the_module_they_concern(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "fail node n1 -R --strict -o wide --horizon 30m --kubernetes-version 1.29"
    words += " --controller-flag node-monitor-period=1s --controller-flag --feature-gates=A=true"
    words += " --monitor-phase 2s --explain shop/db --no-headers --color always"
    words += " --by node --time-zone Europe/Berlin"
    words += " --start 2030-01-01T00:00:00Z"
    assert run(*words.split()) == 0
    assert asked.filenames == ("c.json",)
    assert asked.load_options["recursive"] and asked.load_options["strict"]
    flags = {"node-monitor-period": "1s", "feature-gates": "A=true"}
    assert asked.settings == ControllerSettings("1.29", 2 * SECOND, flags)
    assert asked.scenario.horizon_ns == 1800 * SECOND
    assert asked.scenario.start_ns == 1_893_456_000 * SECOND
    assert asked.explain == "shop/db"
    assert asked.output == "wide"
    assert asked.render_options["headers"] is False
    assert asked.render_options["color"] is True
    assert asked.render_options["by"] == "node"
    assert str(asked.render_options["zone"]) == "Europe/Berlin"
    assert capsys.readouterr().out == "prediction as wide\n"


def test_a_scenario_file_is_overridden_by_the_command_line(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "apiVersion: evictplan.dev/v1alpha1\nkind: Scenario\nspec:\n"
        "  horizon: 1m\n  controller: {kubernetesVersion: '1.23', flags: {kube-api-qps: '1', kube-api-burst: '2'}}\n"
        "  events: [{at: 5s, action: cordon, zone: eu-1a}]\n"
    )
    assert run("scenario", str(path), "--horizon", "2m", "--controller-flag", "kube-api-qps=3") == 0
    assert without_places(asked.settings) == ControllerSettings(
        "1.23", None, {"kube-api-qps": "3", "kube-api-burst": "2"}
    )
    assert asked.scenario.horizon_ns == 120 * SECOND
    assert events(asked) == [("cordon", ("n1", "n2"))]


def test_the_scenario_in_the_help_is_one(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "help.yaml"
    path.write_text("\n".join(EXAMPLE))
    assert run("scenario", str(path)) == 0
    assert [action for action, _ in events(asked)] == [
        *("kubelet-stop", "kubelet-start", "pod-delete", "taint")
    ]


def test_a_saved_scenario_asks_the_same_again(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "saved.yaml"
    words = ["taint", "node", "n1", "k=v:NoExecute", "--controller-flag", "kube-api-qps=1"]
    assert run(*words, "--save-scenario", str(path)) == 0
    first, settings = asked.scenario, asked.settings
    assert run("scenario", str(path)) == 0
    assert asked.scenario.events[0].taint == first.events[0].taint
    assert (asked.scenario.start_ns, asked.scenario.name) == (first.start_ns, first.name)
    assert without_places(asked.settings) == settings


def test_saving_never_replaces_a_file_unless_forced(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved.yaml"
    path.write_text("mine")
    assert run("cordon", "n1", "--save-scenario", str(path)) == 2
    assert path.read_text() == "mine"
    assert "already exists (use --force)" in capsys.readouterr().err
    assert run("cordon", "n1", "--save-scenario", str(path), "--force") == 0
    assert path.read_text() != "mine"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.json", "saved.yaml"]
    link = tmp_path / "link"
    link.symlink_to(path)
    assert run("cordon", "n1", "--save-scenario", str(link), "--force") == 2
    assert run("cordon", "n1", "--save-scenario", str(tmp_path), "--force") == 2
    assert run("cordon", "n1", "--save-scenario", str(tmp_path / "no" / "x")) == 2


def test_warnings_of_the_command_join_those_of_the_snapshot(asked: Asked) -> None:
    assert run("fail", "node", "n3") == 0
    assert [warning.code for warning in asked.snapshot.warnings] == ["node-not-ready-at-start"]
    assert run("fail", "node", "n3", "--strict") == 2


def test_explain_takes_a_bare_name_while_it_is_unique(asked: Asked) -> None:
    assert run("cordon", "n1", "--explain", "db") == 0
    assert asked.explain == "shop/db"


def test_all_wrong_flags_are_reported_at_once(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("cordon", "n1", "--horizon", "x", "--start", "y", "--controller-flag", "z") == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "error", "error", "for example"]


def test_fifty_problems_are_shown_and_the_rest_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise InputError([Problem(f"\x1b[31m{number}", got="x" * 500) for number in range(60)])

    monkeypatch.setattr(cli, "_invoke", fail)
    assert cli.run([]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 51 and lines[-1] == "error: and 10 more"
    assert all("\x1b" not in line and len(line) < 120 for line in lines)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (MemoryError(), 2),
        (ValueError("x"), 8),
    ],
)
def test_whatever_happens_ends_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_invoke", fail)
    monkeypatch.setattr(cli, "_silence_output", lambda: None)
    assert cli.run([]) == code
    err = capsys.readouterr().err
    assert "Traceback" not in err and len(err.splitlines()) <= 1
    assert (code == 8) == ("please report it" in err)


def test_debug_keeps_the_traceback_in_a_private_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: object) -> int:
        raise ValueError("secret")

    monkeypatch.setattr(cli, "_invoke", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cli.run(["what-if", "--debug"]) == 8
    (path,) = tmp_path.iterdir()
    assert str(path) in capsys.readouterr().err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "Traceback" in path.read_text()


@pytest.mark.parametrize(
    "words",
    [
        "{}",
        "what-if {}",
        "what-if cordon {}",
        "what-if cordon --{}",
        "what-if cordon n1 -f {}",
        "what-if cordon -l {}=b",
        "what-if cordon n1 --horizon {}",
        "what-if cordon n1 --explain {}",
        "what-if cordon n1 --start {} -o {} --time-zone {}",
        "what-if cordon n1 --controller-flag {}=1 --controller-flag {}",
        "what-if fail zone {}",
        "what-if taint node n1 {}:NoExecute",
        "what-if taint {} k:NoExecute",
        "what-if scenario {}",
        "schema {}",
        "version {}",
    ],
)
def test_absurd_words_are_not_repeated_whole(
    asked: Asked, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    files = [] if words.endswith("-f {}") or "what-if c" not in words else ["-f", "c.json"]
    assert cli.run([*words.format(*["x" * 120_000] * 3).split(), *files]) == 2
    assert len(capsys.readouterr().err) < 2500


@pytest.mark.parametrize(
    ("word", "masked"),
    [
        ("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2ln", True),
        ("sha256~abcdefghijklmnopqrstuvwxyz0123456789", True),
        ("https://me:hunter2@example.com/cluster.json", True),
        ("Ab1" * 20, True),
        ("checkoutservice-67f69fd496-vbx7w." + "a" * 60 + "." + "b0-" * 40 + "c", False),
        ("0" * 64, False),
    ],
)
def test_secrets_are_masked_and_names_are_not(
    capsys: pytest.CaptureFixture[str], word: str, masked: bool
) -> None:
    assert cli.run(["what-if", "cordon", "n1", "-f", word]) == 2
    err = capsys.readouterr().err
    assert ("<not shown>" in err) == masked and (word in err) != masked


def test_a_word_that_is_not_utf8_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["what-if", "cordon", "\udcff"]) == 2
    assert "argument is not valid UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["what-if"],
        ["snapshot"],
        ["schema"],
        ["version"],
        *(["what-if", c] for c in WHAT_IF_COMMANDS),
    ],
)
def test_every_command_has_help_with_examples(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*words, "--help"], program="kubectl-evictplan") == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: kubectl evictplan") and "Examples:" in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_the_program_is_named_as_it_was_called(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run([], program="/x/kubectl_evictplan/__main__.py")
    assert capsys.readouterr().out.startswith("Usage: python -m kubectl_evictplan ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["version"]) == 0
    assert capsys.readouterr().out.startswith("kubectl-evictplan ")
    assert cli.run(["version", "-o", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"version", "python", "platform"}


@pytest.mark.parametrize("name", ["prediction", "scenario"])
def test_schemas_are_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["schema", name]) == 0
    assert json.loads(capsys.readouterr().out)["$schema"].startswith("https://json-schema.org/")


class Stream:
    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("choice", "terminal", "environ", "expected"),
    [
        ("auto", True, {"TERM": "xterm"}, True),
        ("auto", False, {"TERM": "xterm"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", False, {"CLICOLOR_FORCE": "1"}, True),
        ("auto", False, {"FORCE_COLOR": "0"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_follows_the_flag_then_the_environment_then_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    terminal: bool,
    environ: dict[str, str],
    expected: bool,
) -> None:
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    stream: Any = Stream(terminal)
    assert use_color(choice, stream) is expected


def python(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, **options
    )


def test_help_imports_no_command_and_no_heavy_library() -> None:
    heavy = [
        "kubernetes",
        "yaml",
        "ruamel",
        "tabulate",
        "msgspec",
        "kubectl_evictplan.commands.taint",
    ]
    code = (
        "import sys; from kubectl_evictplan.cli import run; run(['what-if', '--help']); "
        f"sys.exit(', '.join(name for name in {heavy} if name in sys.modules) or 0)"
    )
    result = python("-c", code)
    assert result.returncode == 0, result.stderr


def test_an_interrupt_while_the_program_is_imported_is_no_traceback() -> None:
    code = (
        "import os, signal, sys\n"
        # Whoever runs the tests in the background may have it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'kubectl_evictplan.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from kubectl_evictplan.__main__ import main\n"
        "main()\n"
    )
    result = python("-c", code)
    assert (result.returncode, result.stderr) == (130, "")


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m kubectl_evictplan schema prediction | true"
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    result = subprocess.run(
        [bash, "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr == ""
    assert result.returncode in (0, 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named_and_is_no_bug() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "kubectl_evictplan", "schema", "prediction"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (result.returncode, result.stderr) == (2, "error: no space left on device\n")


def test_a_file_that_the_system_refuses_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = f"{'x' * 300}.json"
    assert cli.run(["verify", long]) == 2
    assert capsys.readouterr().err.startswith(f"error: {'x' * 290}")


def test_streams_that_cannot_encode_a_character_do_not_stop_the_program() -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "COLUMNS": "abc"}
    result = python("-m", "kubectl_evictplan", "what-if", "c\u00f6rdon", env=environ)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr and "\\xf6" in result.stderr
