"""How an answer reaches standard output: as text, or as UTF-8 that need not be encoded once more."""

from __future__ import annotations

import io
import sys

import pytest

from kubectl_evictplan.commands.output import write_chunks


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
