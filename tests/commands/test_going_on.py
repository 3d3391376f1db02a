"""``apply --resume`` at the edges of a run: after its last change, after its end, and twice at once."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path

import pytest
from commands.typed_commands import Said, Type, planned, stopped_before_n2, taints
from live.requests_answered import Asked
from live.writable_server import WritableServer

from kubectl_evictplan.apply.stop import StoppedAtOnce

LEDGERS = ("plan.ledger.json", "plan.ledger.md")
GOING_ON = ("apply", "--resume", "plan.journal.jsonl", "--yes")


def sent(server: WritableServer) -> list[str]:
    return [site for site, _, _ in server.executed if "leases" not in site]


def tainted(type_: Type) -> Said:
    planned(type_, "taint", "node", "n1", "maint=yes:NoSchedule")
    return type_("apply", "plan.json", "--yes")


def dies_at(monkeypatch: pytest.MonkeyPatch, name: str) -> pytest.MonkeyPatch:
    """Let the process end where it would call that."""

    def dies(*_words: object, **_more: object) -> None:
        raise StoppedAtOnce

    monkeypatch.setattr(name, dies)
    return monkeypatch


def test_who_goes_on_with_a_run_that_ended_well_is_told_so_and_nothing_is_sent(
    server: WritableServer, type_: Type
) -> None:
    assert tainted(type_).code == 0
    before, journal = sent(server), Path("plan.journal.jsonl").read_bytes()

    again = type_(*GOING_ON)

    assert again.code == 0
    assert "all of this run was done at 20" in again.err
    assert "nothing is sent" in again.err
    assert "Run ended: everything is done." in again.out
    assert "apply --rollback plan.journal.jsonl" in again.out
    assert (sent(server), Path("plan.journal.jsonl").read_bytes()) == (before, journal)


@pytest.mark.parametrize(
    "where",
    [
        "kubectl_evictplan.commands.carrying.finish",
        "kubectl_evictplan.commands.ledgers.write_ledger",
        "kubectl_evictplan.apply.run._write_end",
    ],
)
@pytest.mark.slow
def test_a_run_that_died_between_its_last_change_and_its_ledger_gets_it_by_going_on(
    where: str, server: WritableServer, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dies_at(dying, where)
        assert tainted(type_).code == 130
    assert not any(Path(name).exists() for name in LEDGERS)
    before = sent(server)

    said = type_(*GOING_ON)

    assert (said.code, "Ledger: " in said.err) == (0, True), said
    assert sent(server) == before
    ledger = json.loads(Path(LEDGERS[0]).read_text())
    assert [one["outcome"] for one in ledger["operations"]] == ["done"]
    assert "maint" in Path(LEDGERS[1]).read_text()


@pytest.mark.slow
def test_of_two_who_go_on_at_once_the_second_is_told_and_sends_nothing(
    server: WritableServer, type_: Type
) -> None:
    stopped_before_n2(server, type_, "NoSchedule")
    second: list[Said] = []

    def begins(asked: Asked) -> None:
        if asked.site == "patch nodes" and not second:
            second.append(Said(0, "", ""))
            before = sent(server)
            second[0] = type_(*GOING_ON)
            assert sent(server) == before

    server.before.append(begins)
    first = type_(*GOING_ON)

    assert first.code == 0
    assert second[0].code == 2
    assert "at work on this run right now" in second[0].err
    assert "maint" in taints(server, "n2")


class FullDisk(io.StringIO):
    """A log file on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.slow
def test_a_log_on_a_full_disk_changes_neither_the_exit_code_nor_the_ledger(
    name: str, server: WritableServer, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(type_, "taint", "node", "n1", "maint=yes:NoSchedule")

    def fills(asked: Asked) -> None:
        # What was reviewed has been shown by then.
        if asked.site == "patch nodes" and not asked.query.get("dryRun"):
            monkeypatch.setattr(f"sys.{name}", FullDisk())

    server.before.append(fills)
    said = type_("apply", "plan.json", "--yes")

    assert said.code == 0
    assert "maint" in taints(server)
    assert json.loads(Path(LEDGERS[0]).read_text())["summary"]["operations"] == {"done": 1}
    if name == "stdout":
        assert "could not be shown: No space left on device; apply --status" in said.err
