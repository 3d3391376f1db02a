"""What is done when the journal of a run, or a node of it, is lost."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from commands.typed_commands import Type, stopped_before_n2, taints
from live.writable_server import WritableServer


@pytest.mark.slow
def test_a_node_that_is_gone_is_left_out_only_when_that_is_said(
    server: WritableServer, type_: Type
) -> None:
    stopped_before_n2(server, type_, "NoSchedule")
    server.objects["nodes"] = [one for one in server.objects["nodes"] if name_of(one) != "n2"]
    going_on = ("apply", "--resume", "plan.journal.jsonl", "--yes")

    stale = type_(*going_on)
    gone_on = type_(*going_on, "--continue-on-absent")

    assert (stale.code, "node-gone: node n2" in stale.err) == (4, True), stale
    assert stale.err.endswith(" --continue-on-absent\n")
    assert (gone_on.code, "left out" in gone_on.out) == (3, True), gone_on
    back = type_("apply", "--rollback", "plan.journal.jsonl", "--continue-on-absent")
    assert (back.code, "no meaning with --rollback" in back.err) == (2, True)


@pytest.mark.slow
def test_a_run_whose_journal_is_lost_is_adopted_and_gone_on_with(
    server: WritableServer, type_: Type
) -> None:
    stopped_before_n2(server, type_, "NoSchedule")
    server.webhooks.clear()
    Path("plan.journal.jsonl").unlink()

    adopted = type_("apply", "--adopt", "plan.json")

    assert (adopted.code, "its journal was lost" in adopted.out) == (0, True), adopted
    assert ("maint" in taints(server), "maint" in taints(server, "n2")) == (True, False)
    assert stat.S_IMODE(Path("plan.journal.jsonl").stat().st_mode) == 0o600
    assert "apply --resume plan.journal.jsonl" in adopted.out
    assert type_("apply", "--resume", "plan.journal.jsonl", "--yes").code == 0
    assert type_("apply", "--rollback", "plan.journal.jsonl", "--yes").code == 0
    assert "maint" not in [*taints(server), *taints(server, "n2")]
    again = type_("apply", "--adopt", "plan.json")
    assert (again.code, "a journal already" in again.err) == (2, True)


def test_who_asks_for_a_lost_journal_is_told_how_to_make_a_new_one(type_: Type) -> None:
    Path("plan.json").write_text("{}")

    for asked in ("--resume", "--rollback", "--status"):
        lost = type_("apply", asked, "plan.journal.jsonl")
        assert (lost.code, "no such journal" in lost.err) == (2, True), lost
        assert "kubectl evictplan apply --adopt plan.json" in lost.err


def name_of(manifest: dict[str, Any]) -> str:
    return str(manifest["metadata"]["name"])
