"""How an answer reaches standard output: as text, or as UTF-8 that need not be encoded once more, wherever it was made."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kubectl_evictplan import cli
from kubectl_evictplan.commands import large_json, run
from kubectl_evictplan.commands.output import write_chunks
from kubectl_evictplan.impact import (
    claims,
    comebacks,
    findings,
    replacements,
    services,
    workloads,
)
from kubectl_evictplan.kube.scheduling import fit
from kubectl_evictplan.prediction import predict


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
    for module, name in (
        (workloads, "workload_impacts"),
        (claims, "volume_impacts"),
        (comebacks, "not_coming_back"),
        (findings, "find"),
    ):
        monkeypatch.setattr(module, name, lambda *_, name=name: asked.append(name) or ())
    words = "what-if", "fail", "zone", "eu-1b", "-f", str(fixtures_path / CLUSTER)

    assert cli.run(words) == 0
    assert asked == []
    assert cli.run((*words, "-o", "json")) == 0
    assert asked == ["workload_impacts", "volume_impacts", "not_coming_back", "find"]
    capsys.readouterr()


def test_the_verdict_needs_only_services_and_replacements_that_something_may_be_wrong_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fixtures_path: Path
) -> None:
    asked: list[object] = []
    for module, name in ((services, "_impact"), (replacements, "_record")):
        make = getattr(module, name)
        noted = lambda *known, make=make: asked.append(make) or make(*known)  # noqa: E731
        monkeypatch.setattr(module, name, noted)
    words = "what-if", "fail", "zone", "eu-1b", "-f", str(fixtures_path / CLUSTER)

    assert cli.run(words) == 0
    shown = Counter(asked)
    capsys.readouterr()
    asked.clear()
    assert cli.run((*words, "-o", "json")) == 0
    told = json.loads(capsys.readouterr().out)["impact"]
    every = Counter(asked)
    assert sorted(every.values()) == sorted((len(told["services"]), len(told["replacements"])))
    assert all(0 < shown[make] < every[make] for make in every)


def test_rows_need_neither_workloads_nor_who_finds_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fixtures_path: Path
) -> None:
    words = "what-if", "fail", "zone", "eu-1b", "-f", str(fixtures_path / CLUSTER)
    for owner, name in ((predict, "_workloads"), (fit._Check, "_answer")):
        monkeypatch.setattr(owner, name, lambda *_: pytest.fail("it is asked"))

    assert cli.run((*words, "-o", "csv")) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1


# Only a process without other threads may be copied: it is one of its own. What it tells last: whether there was a copy.
_BESIDE = """
import os, sys
from kubectl_evictplan import cli, processes
from kubectl_evictplan.commands import run
from kubectl_evictplan.prediction import predict
processes.default_jobs = lambda: 2
run._MANY_BYTES = run._MANY_PODS = run._MANY_EVICTIONS = predict._MANY_NODES = 0
most, scarce = int(sys.argv[1]), sys.argv[2]
given, give = [], getattr(os, scarce)
def some():
    if len(given) >= most:
        raise OSError("no more of them")
    given.append(give())
    return given[-1]
setattr(os, scarce, some)
code = cli.run(sys.argv[3:])
print(code, len(given), file=sys.stderr)
"""


def told_beside(
    *words: str, stdout: int, copies_max: int = 2, scarce: str = "fork"
) -> tuple[str, str]:
    program = (sys.executable, "-c", _BESIDE, str(copies_max), scarce)
    done = subprocess.run(
        (*program, *words), stdout=stdout, stderr=subprocess.PIPE, text=True, check=True, timeout=60
    )
    return done.stdout, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
@pytest.mark.parametrize(
    ("explain", "copies", "scarce"),
    [
        ((), 2, "fork"),
        (("--explain", "shop/edge-gateway-f6fbdb76-fcr62"), 2, "fork"),
        ((), 1, "fork"),
        ((), 0, "fork"),
        ((), 4, "pipe"),
        ((), 3, "pipe"),
        ((), 2, "pipe"),
        ((), 1, "pipe"),
        ((), 0, "pipe"),
    ],
)
def test_json_is_the_same_however_many_copies_write_it(
    explain: Sequence[str],
    copies: int,
    scarce: str,
    capsys: pytest.CaptureFixture[str],
    fixtures_path: Path,
) -> None:
    cluster = str(fixtures_path / CLUSTER)
    words = "what-if", "fail", "zone", "eu-1b", "-f", cluster, "-o", "json", *explain
    assert cli.run(words) == 0
    usual = capsys.readouterr()

    told = told_beside(*words, stdout=subprocess.PIPE, copies_max=copies, scarce=scarce)
    assert told == (usual.out, f"0 {copies}\n")
    assert '"impact": {' in usual.out


_ONE_BY_ONE = """
from pathlib import Path
from kubectl_evictplan.commands import large_json
from kubectl_evictplan.impact import assess
large_json._ONE_BY_ONE = 0
find = assess.with_impact
def find_out(*known, **others):
    print('"warnings": [' in Path(written).read_text(), file=sys.stderr)
    return find(*known, **others)
assess.with_impact, written = find_out, sys.argv.pop()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_so_many_evictions_are_written_before_it_is_found_out_what_they_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fixtures_path: Path
) -> None:
    cluster, written = str(fixtures_path / CLUSTER), tmp_path / "written.json"
    words = "what-if", "fail", "zone", "eu-1b", "-f", cluster, "-o", "json"
    assert cli.run(words) == 0
    before, told, after = _BESIDE.partition("code = ")
    program = (sys.executable, "-c", before + _ONE_BY_ONE + told + after, "2", "fork")
    with written.open("w") as stream:
        done = subprocess.run(
            (*program, *words, str(written)),
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
    assert done.stderr == "True\n0 2\n"
    assert written.read_text() == capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "is_begun"),
    [
        ((), True),
        (("-",), True),
        (("small", "-"), True),
        ((".",), True),
        (("large",), True),
        (("small",), False),
        (("missing",), False),
    ],
)
def test_who_writes_a_large_answer_is_begun_where_it_may_be_large(
    names: Sequence[str],
    is_begun: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").write_bytes(b"{}")
    (tmp_path / "large").write_bytes(bytes(run._MANY_BYTES))
    begun: list[bool] = []
    monkeypatch.setattr(large_json, "writer", lambda: nullcontext(begun.append(True)))
    options: Any = SimpleNamespace(output="json", filenames=names)

    with run._writer(options, ()):
        assert begun == [True] * is_begun


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_a_reader_that_is_gone_ends_copies_and_their_process(fixtures_path: Path) -> None:
    cluster = str(fixtures_path / CLUSTER)
    words = "what-if", "fail", "zone", "eu-1b", "-f", cluster, "-o", "json"
    reader, writer = os.pipe()
    os.close(reader)

    assert told_beside(*words, stdout=writer)[1] == f"{cli.EXIT_PIPE_CLOSED} 2\n"

    os.close(writer)
