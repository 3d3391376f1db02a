"""``apply --rollback-on-failure`` as typed."""

from __future__ import annotations

import pytest
from commands.typed_commands import Type, planned, stopped_before_n2, taints
from live.requests_answered import Asked, Tree, failure
from live.writable_server import WritableServer


@pytest.mark.slow
def test_a_run_that_fails_is_taken_back_and_both_ends_are_told(
    server: WritableServer, type_: Type
) -> None:
    def forbid(asked: Asked, _tree: Tree) -> None:
        if asked.site == "patch nodes" and asked.name == "n2" and not asked.query.get("dryRun"):
            raise failure(403, "not today", reason="Forbidden")

    before = taints(server)
    planned(type_, "taint", "node", "n1", "n2", "maint=yes:NoSchedule")
    server.webhooks.append(forbid)
    said = type_("apply", "plan.json", "--yes", "--rollback-on-failure")
    assert said.code == 3
    assert taints(server) == before
    assert "Run ended at operation 2 (taint n2 maint=yes:NoSchedule): " in said.out
    assert "Rollback ended: " in said.out
    assert "1 operation was taken back since." in said.err

    status = type_("apply", "--status", "plan.journal.jsonl")
    assert (
        status.code,
        "Run ended at operation 2 (taint n2 maint=yes:NoSchedule): " in status.out,
    ) == (0, True)
    assert type_("apply", "--resume", "plan.journal.jsonl", "--yes").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--rollback", "--adopt"])
def test_it_means_nothing_where_no_run_is_carried_out(type_: Type, option: str) -> None:
    planned(type_)
    type_("apply", "plan.json", "--yes")
    file = "plan.json" if option == "--adopt" else "plan.journal.jsonl"
    said = type_("apply", option, file, "--rollback-on-failure")
    assert (said.code, "no meaning" in said.err) == (2, True)


@pytest.mark.slow
def test_who_goes_on_is_told_whether_a_failure_takes_the_run_back(
    server: WritableServer, type_: Type
) -> None:
    stopped_before_n2(server, type_, "NoSchedule")
    shown = ("apply", "--resume", "plan.journal.jsonl", "--dry-run=client")

    assert "takes its own" not in type_(*shown).out
    asked = type_(*shown, "--rollback-on-failure").out
    assert "When it fails, it takes its own taints and cordons back." in asked
    assert "takes its own" not in type_(*shown, "--no-rollback-on-failure").out
