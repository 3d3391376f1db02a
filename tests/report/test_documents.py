"""What is documented is what is emitted, and what is lazy stays lazy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kubectl_evictplan"
WARNINGS = ROOT / "docs" / "warnings.md"
# One or more codes in the first cell, then meaning and what to do.
ROW = re.compile(r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \|([^|]+)\|([^|]+)\|$", re.MULTILINE)


def documented() -> list[str]:
    cells = [match[1] for match in ROW.finditer(WARNINGS.read_text(encoding="utf-8"))]
    return [code.strip("`") for cell in cells for code in cell.split(", ")]


def test_every_reason_to_stay_has_its_words() -> None:
    from kubectl_evictplan.prediction.kept import REASONS
    from kubectl_evictplan.report.verdict import _STAYS

    assert REASONS.keys() == _STAYS.keys()


def test_the_readme_shows_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubectl_evictplan import cli

    monkeypatch.chdir(ROOT)
    shown = re.search(
        r"^    \$ kubectl evictplan (what-if taint .+)\n((?:    .*\n|\n)+)",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert shown is not None
    assert cli.run(shown[1].split(), program="kubectl-evictplan") == 0
    block = shown[2].rstrip().replace("\n    ", "\n").removeprefix("    ")
    assert block in capsys.readouterr().out


def test_codes_are_documented_once_in_kebab_case() -> None:
    codes = documented()
    assert len(codes) > 30
    assert len(codes) == len(set(codes))
    lines = WARNINGS.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == len(ROW.findall(WARNINGS.read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", ["kubectl_evictplan.report", "kubectl_evictplan.display"])
def test_importing_the_door_loads_no_format_and_no_library(module: str) -> None:
    heavy = "{'tabulate', 'msgspec', 'yaml', 'ruamel', 'kubernetes', 'click'}"
    script = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("path", [*PACKAGE.glob("report/*.py"), PACKAGE / "display.py"])
def test_reports_do_no_input_and_no_output(path: Path) -> None:
    banned = {"os", "sys", "io", "pathlib", "time", "random", "click", "yaml", "ruamel"}
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not banned & imported
