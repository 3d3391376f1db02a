"""Whole command lines, run in this process: small files to ask about, and what came back."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kubectl_evictplan import cli

READY = (
    'status: {conditions: [{type: Ready, status: "True", '
    'lastHeartbeatTime: "2026-11-20T21:59:00Z"}]}'
)


def node(name: str = "n3", *, spec: str = "{}", stored: bool = True, status: str = READY) -> str:
    uid = f", uid: u-{name}" if stored else ""
    head = f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}{uid}}}\n"
    return f"{head}spec: {spec}\n{status}\n"


def pod(name: str = "p", *, spec: str = "", meta: str = "", stored: bool = True) -> str:
    uid = f", uid: u-{name}" if stored else ""
    head = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: d{uid}{meta}}}\n"
    return f"{head}spec: {{nodeName: n1{spec}}}\n"


CLUSTER = f"{node('n1')}---\n{node('n2')}"


class Answer(NamedTuple):
    """What one command line did."""

    code: int
    out: str
    err: str

    def problems(self) -> list[str]:
        """Return the problems without "error: "; the command must have been refused cleanly."""
        assert self.code == 2, self
        assert self.out == ""
        lines = self.err.splitlines()
        # What to type instead is no problem.
        if lines and lines[-1].startswith(("try: ", "for example: ")):
            lines.pop()
        assert lines and all(line.startswith("error: ") for line in lines), self.err
        assert all(line.isprintable() for line in lines)
        return [line.removeprefix("error: ") for line in lines]

    def problem(self) -> str:
        """Return the only problem."""
        (line,) = self.problems()
        return line

    def prediction(self) -> dict[str, Any]:
        """Return the answer of ``-o json``."""
        assert (self.code, self.err) == (0, ""), self
        found: dict[str, Any] = json.loads(self.out)
        return found

    def codes(self) -> set[str]:
        """Return the codes of the warnings."""
        return {warning["code"] for warning in self.prediction()["warnings"]}

    def evicted_after(self) -> list[float]:
        """Return the offsets of the evictions, in seconds."""
        return [eviction["offsetSeconds"] for eviction in self.prediction()["evictions"]]


Ask = Callable[..., Answer]


def asker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that runs the words of one command line."""

    def run(*words: str, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.run(words, program="kubectl-evictplan")
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run
