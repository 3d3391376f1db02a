"""A directory, a pipe, a link, a compressed file where a plan or a journal is meant: one line, and what to do."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from apply.clusters import taint_bench
from building.command_lines import asker
from commands.typed_commands import Said, Type, files
from live.writable_server import WritableServer

from kubectl_evictplan.apply.files import LocalFiles

JOURNAL = "plan.journal.jsonl"


def journal_bytes() -> bytes:
    bench = taint_bench()
    bench.apply()
    return b"".join(line + b"\n" for line in bench.lines)


def one_line(said: Said) -> str:
    """Return what is said but the advice and the connection: one line."""
    lines = [one for one in said.err.splitlines() if one.startswith("error: ")]
    assert (said.code, len(lines), said.out) == (2, 1, ""), said
    return said.err


def test_every_odd_journal_is_told_by_its_kind_and_what_to_do(type_: Type) -> None:
    content = journal_bytes()
    Path("real.jsonl").write_bytes(content)
    Path("packed.journal.jsonl.gz").write_bytes(gzip.compress(content))
    Path("windows.jsonl").write_bytes(content.replace(b"\n", b"\r\n"))
    Path("link.jsonl").symlink_to("real.jsonl")
    Path("dir").mkdir()
    Path("dir", JOURNAL).write_bytes(content)
    os.mkfifo("pipe.jsonl")

    def resume(name: str) -> str:
        return one_line(type_("apply", "--resume", name, "--yes"))

    assert "is compressed (gzip): unpack it first" in resume("packed.journal.jsonl.gz")
    assert "gunzip < packed.journal.jsonl.gz > packed.journal.jsonl && " in resume(
        "packed.journal.jsonl.gz"
    )
    Path("packed.journal.jsonl").touch()
    assert "> 2-packed.journal.jsonl && " in resume("packed.journal.jsonl.gz")
    assert "copy the original again" in resume("windows.jsonl")
    assert f"--resume {Path('real.jsonl').resolve()}" in resume("link.jsonl")
    assert f"--resume dir/{JOURNAL}" in resume("dir")
    assert "is a pipe" in resume("pipe.jsonl")
    assert "a journal is a file" in resume("-")


def test_status_reads_through_a_link_and_offers_the_file_itself(type_: Type) -> None:
    bench = taint_bench()
    bench.cluster.after(0.0, lambda: bench.stop.request("SIGINT"))
    bench.apply()
    Path("real.jsonl").write_bytes(b"".join(line + b"\n" for line in bench.lines))
    Path("link.jsonl").symlink_to("real.jsonl")

    status = type_("apply", "--status", "link.jsonl")

    assert status.code == 0
    assert f"--resume {Path('real.jsonl').resolve()}" in status.out


def test_a_plan_is_no_journal_and_no_directory_or_pipe_is_a_plan(type_: Type) -> None:
    Path("plan.json").write_text('{"apiVersion": "v1", "kind": "Plan"}')
    Path("dir").mkdir()
    os.mkfifo("pipe.json")

    assert f"--status {JOURNAL}" in one_line(type_("apply", "--status", "plan.json"))
    for words in (("apply",), ("apply", "--adopt"), ("verify",)):
        assert "name the plan in it" in one_line(type_(*words, "dir"))
        assert "is a pipe or a device" in one_line(type_(*words, "pipe.json"))
    for name in ("dir", "pipe.json"):
        asked = one_line(type_("apply", "plan.json", "--journal", name))
        assert "is a directory" in asked or "is a pipe" in asked


def test_what_is_compared_is_a_file_and_a_pipe_has_another_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = asker(capsys, monkeypatch)
    Path("a.json").write_text("{}")
    Path("dir").mkdir()
    os.mkfifo("pipe")

    assert "diff a.json dir/b.json" in asked("diff", "a.json", "dir").err
    assert "diff - a.json" in asked("diff", "pipe", "a.json").err


def test_a_plan_is_not_written_to_standard_output_a_directory_or_nowhere(type_: Type) -> None:
    Path("dir").mkdir()
    words = ("what-if", "cordon", "n1", "--out")

    assert "--out plan.json" in one_line(type_(*words, "-"))
    assert "--out dir/plan.json" in one_line(type_(*words, "dir"))
    assert "mkdir -p no/where && " in one_line(type_(*words, "no/where/plan.json"))
    assert files() == ["dir"]


def test_a_journal_that_is_nowhere_is_answered_by_one_like_it_or_by_the_help(type_: Type) -> None:
    Path("other.json").write_text("{}")

    lost = one_line(type_("apply", "--resume", JOURNAL))
    assert "no such journal" in lost
    assert "apply --help" in lost
    Path("plan1.journal.jsonl").write_bytes(journal_bytes())
    assert "--resume plan1.journal.jsonl" in one_line(type_("apply", "--resume", JOURNAL))


@pytest.mark.slow
def test_a_plan_that_has_nothing_to_do_has_nothing_to_verify(
    server: WritableServer, type_: Type
) -> None:
    server.node("n1")["spec"]["unschedulable"] = True
    assert type_("what-if", "cordon", "n1", "--out", "plan.json").code == 0

    assert "there is no change to verify" in one_line(type_("verify", "plan.json"))


@pytest.mark.parametrize("do", ["read", "open", "locked"])
def test_no_pipe_is_ever_waited_for(tmp_path: Path, do: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    try:
        assert not getattr(LocalFiles(), do)(pipe)
    except OSError as error:
        assert do != "locked", error


@pytest.mark.slow
def test_a_damaged_journal_is_no_obstacle_to_who_says_when_it_began(
    type_: Type,
) -> None:
    assert type_("what-if", "cordon", "n1", "--out", "plan.json").code == 0
    Path(JOURNAL).write_bytes(b"garbage\n")
    started = ("--started-at", "2026-11-20T22:00:00Z")

    beside = type_("verify", "plan.json", *started)
    named = type_("verify", "plan.json", *started, "--journal", JOURNAL)
    unsaid = type_("verify", "plan.json")

    assert "warning: without the journal: " in beside.err
    assert "began: 2026-11-20 22:00:00 UTC (as given" in beside.out
    assert "the journal is damaged" in one_line(named)
    assert "the journal is damaged" in one_line(unsaid)
    assert "verify plan.json" in unsaid.err
    assert "--started-at 2026-11-20T22:00:00Z" in unsaid.err
