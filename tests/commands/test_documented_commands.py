"""Command lines that README and docs show: each is understood, and runs where all it needs is in the repository."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from building.command_lines import Ask, asker

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
PROGRAM = "kubectl evictplan "
_SHOWN = re.compile(rf"^ {{4}}(?:\$ )?{PROGRAM}(.+)$", re.MULTILINE)
# What a reader has to have: a cluster, or a file that another command wrote.
_NEEDED = re.compile(
    r"error: (?:\S+: )?(?:no cluster is given|no such (?:plan|journal|prediction|file)|not a directory)"
)


def shown() -> list[str]:
    lines = [line for page in PAGES for line in _SHOWN.findall(page.read_text("utf-8"))]
    return sorted({re.split(r" > \w+\.md$| +# ", line)[0] for line in lines})


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Where there is no cluster, and nothing but what is in the repository."""
    (tmp_path / "fixtures").symlink_to(REPOSITORY / "fixtures")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return asker(capsys, monkeypatch)


def test_there_are_such_command_lines() -> None:
    assert len(shown()) > 20


@pytest.mark.parametrize("line", shown())
def test_a_command_line_that_the_documentation_shows_works(line: str, ask: Ask) -> None:
    answer = ask(*shlex.split(line))

    if "fixtures/" in line or line.startswith("explain"):
        assert (answer.code, answer.err) == (0, "")
    else:
        # Nothing else is wrong with it: what it says of itself is understood.
        wrong = [text for text in answer.err.splitlines() if text.startswith("error: ")]
        assert wrong
        assert [text for text in wrong if not _NEEDED.match(text)] == []
