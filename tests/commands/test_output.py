"""How an answer reaches standard output: as text, or as UTF-8 that need not be encoded once more, wherever it was made."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kubectl_evictplan import cli
from kubectl_evictplan.commands import run
from kubectl_evictplan.commands.output import write_chunks
from kubectl_evictplan.impact import assess


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_bytes_and_text_reach_a_stream_in_its_own_encoding_and_in_order(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding))
    sys.stdout.write("before")
    write_chunks([" ä".encode(), " ü\n".encode()])
    write_chunks(["text\n"])
    assert written.getvalue().decode(encoding) == "before ä ü\ntext\n"


def test_bytes_reach_a_stream_that_knows_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stdout", written)
    write_chunks(["ä ".encode(), "ü"])
    assert written.getvalue() == "ä ü"


CLUSTER = "clusters/kubeadm-15-nodes-1.29.json"


def test_an_answer_finds_out_only_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fixtures_path: Path
) -> None:
    asked: list[str] = []
    for name in ("workload_impacts", "volume_impacts", "not_coming_back", "find"):
        monkeypatch.setattr(assess, name, lambda *_, name=name: asked.append(name) or ())
    words = "what-if", "fail", "zone", "eu-1b", "-f", str(fixtures_path / CLUSTER)

    assert cli.run(words) == 0
    assert asked == []
    assert cli.run((*words, "-o", "json")) == 0
    assert asked == ["workload_impacts", "volume_impacts", "not_coming_back", "find"]
    capsys.readouterr()


def test_json_is_the_same_where_what_it_costs_is_found_beside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fixtures_path: Path
) -> None:
    cluster = str(fixtures_path / CLUSTER)
    words = "what-if", "fail", "zone", "eu-1b", "-f", cluster, "-o", "json"
    assert cli.run(words) == 0
    usual = capsys.readouterr()

    monkeypatch.setattr(run, "_MANY_PODS", 0)
    monkeypatch.setattr(run, "_MANY_EVICTIONS", 0)

    assert cli.run(words) == 0
    assert capsys.readouterr() == usual
    assert '"impact": {' in usual.out
