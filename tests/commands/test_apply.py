"""From the words on the command line to a changed cluster: a simulated server, everything else real."""

from __future__ import annotations

import io
import json
import re
import stat
from pathlib import Path

import pytest
from commands.typed_commands import TAINT, Type, files, planned, stopped_before_n2, taints
from live.api_server import KINDS
from live.changing import TOKEN
from live.requests_answered import Asked, Tree, failure
from live.writable_server import WritableServer

from kubectl_evictplan import cli


def test_a_reviewed_plan_is_carried_out_and_taken_back(server: WritableServer, type_: Type) -> None:
    before = taints(server)
    planned(type_)
    assert stat.S_IMODE(Path("plan.json").stat().st_mode) == 0o600
    assert taints(server) == before
    said = type_("apply", "plan.json", "--yes")
    assert said.code == 0, said.err
    assert taints(server) == [*before, "maint"]
    assert "taint n1 maint=yes:NoExecute" in said.out
    assert type_("apply", "plan.json", "--yes").code == 2
    assert type_("apply", "--resume", "plan.journal.jsonl", "--yes").code == 0
    assert type_("apply", "--rollback", "plan.journal.jsonl", "--yes").code == 0
    assert taints(server) == before


FINGERPRINT = re.compile("sha256:[0-9a-f]{64}")


@pytest.mark.parametrize(
    "output", ["markdown", *(pytest.param(one, marks=pytest.mark.slow) for one in ("html", "json"))]
)
def test_ticket_plan_review_and_ledger_carry_one_fingerprint(type_: Type, output: str) -> None:
    """What a reviewer approved can be followed from the ticket to what became of it."""
    ticket = type_("what-if", *TAINT, "--out", "plan.json", "-o", output).out
    plan = json.loads(Path("plan.json").read_text())
    names = {plan["fingerprint"], plan["prediction"]["fingerprint"]}
    assert len(names) == 2

    shown = set(FINGERPRINT.findall(ticket))
    assert plan["prediction"]["fingerprint"] in shown
    # The document is the prediction alone; tickets name the plan as well.
    assert (plan["fingerprint"] in shown) == (output != "json")
    assert names <= set(FINGERPRINT.findall(type_("apply", "plan.json", "--dry-run=client").out))

    if output == "json":
        return
    (words,) = re.findall("kubectl evictplan (apply plan.json --plan-digest [0-9a-f]+)", ticket)
    assert type_(*words.split()).code == 0
    assert names <= set(FINGERPRINT.findall(Path("plan.ledger.md").read_text()))


@pytest.mark.slow
def test_the_words_of_a_ticket_refuse_the_plan_of_another_ticket(
    server: WritableServer, type_: Type
) -> None:
    ticket = type_("what-if", *TAINT, "--out", "plan.json", "-o", "markdown").out
    type_("what-if", "taint", "node", "n2", "a=b:NoExecute", "--out", "plan.json", "--force")
    (words,) = re.findall("kubectl evictplan (apply plan.json --plan-digest [0-9a-f]+)", ticket)

    said = type_(*words.split())
    assert (said.code, "not the plan that was reviewed" in said.err) == (4, True)
    assert not taints(server, "n2")


@pytest.mark.slow
def test_a_plan_exists_once_and_is_replaced_only_by_force(type_: Type) -> None:
    planned(type_)
    assert "already exists" in type_("what-if", *TAINT, "--out", "plan.json").err
    assert type_("what-if", *TAINT, "--out", "plan.json", "--force").code == 0


@pytest.mark.slow
def test_without_a_terminal_nobody_is_asked_and_nothing_is_done(
    server: WritableServer, type_: Type
) -> None:
    digest = planned(type_)
    said = type_("apply", "plan.json", stdin="yes\n")
    assert (said.code, "--yes" in said.err, "maint" in taints(server)) == (2, True, False)
    wrong = type_("apply", "plan.json", "--plan-digest", "0123456789ab")
    assert (wrong.code, "not the plan that was reviewed" in wrong.err) == (4, True)
    assert type_("apply", "plan.json", "--plan-digest", digest[7:17]).code == 0
    assert "maint" in taints(server)


@pytest.mark.slow
@pytest.mark.parametrize("dry_run", ["client", "server"])
def test_a_dry_run_changes_nothing_and_keeps_no_journal(
    server: WritableServer, type_: Type, dry_run: str
) -> None:
    planned(type_)
    said = type_("apply", "plan.json", f"--dry-run={dry_run}")
    assert (said.code, "Nothing was changed" in said.out) == (0, True)
    assert files() == ["plan.json"]
    assert "maint" not in taints(server)


def test_a_plan_that_does_not_fit_any_more_is_refused_naming_each_difference(
    server: WritableServer, type_: Type
) -> None:
    planned(type_)
    server.set_taints("n1", [{"key": "other", "effect": "NoSchedule"}])
    server.recreate("pods", "web-0", "shop")
    said = type_("apply", "plan.json", "--yes")
    assert said.code == 4
    assert "node-taints: node n1: was no taints, now other:NoSchedule" in said.err
    assert "shop/web-0" in said.err
    assert "maint" not in taints(server)
    assert files() == ["plan.json"]


@pytest.mark.slow
def test_a_harmless_difference_is_accepted_by_its_kind_alone(
    server: WritableServer, type_: Type
) -> None:
    planned(type_)
    pod = server.find("pods", "web-0", "shop")
    assert pod is not None
    server.remove("pods", pod)
    refused = type_("apply", "plan.json", "--yes")
    assert (refused.code, "pod-gone" in refused.err) == (4, True)
    assert "--accept-drift pod-gone" in refused.err
    assert "never harmless" in type_("apply", "plan.json", "--accept-drift", "node-gone").err
    said = type_("apply", "plan.json", "--yes", "--accept-drift", "pod-gone")
    assert said.code == 0, said.err
    assert "accepted with --accept-drift" in said.out


@pytest.mark.slow
def test_a_changed_plan_and_one_that_was_made_from_files_are_refused(
    server: WritableServer, type_: Type, fixtures_path: Path
) -> None:
    planned(type_)
    path = Path("plan.json")
    path.write_text(path.read_text().replace('"node": "n1"', '"node": "n2"', 1))
    said = type_("apply", "plan.json", "--yes")
    assert (said.code, "was changed after it was made" in said.err) == (4, True)
    cluster = str(fixtures_path / "examples" / "mini-cluster.yaml")
    words = ["what-if", "cordon", "a1", "-f", cluster, "--out", "offline.json"]
    assert cli.run(words, program="kubectl-evictplan") == 0
    offline = type_("apply", "offline.json", "--yes")
    assert (offline.code, "made from files" in offline.err) == (2, True)


@pytest.mark.slow
def test_losses_are_accepted_by_their_number_even_with_yes(
    server: WritableServer, type_: Type
) -> None:
    for name in ("web-0", "web-4"):
        pod = server.find("pods", name, "shop")
        assert pod is not None
        pod["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    planned(type_)
    said = type_("apply", "plan.json", "--yes")
    assert (said.code, "--accept-losses 2" in said.err) == (2, True)
    assert type_("apply", "plan.json", "--yes", "--accept-losses", "1").code == 2
    assert type_("apply", "plan.json", "--yes", "--accept-losses", "2").code == 0
    assert "maint" in taints(server)


@pytest.mark.slow
def test_kubectls_words_are_planned_shown_and_carried_out_at_once(
    server: WritableServer, type_: Type
) -> None:
    said = type_("apply", "cordon", "n1", "n2", "--yes")
    assert said.code == 0, said.err
    assert [
        bool(server.node(name)["spec"].get("unschedulable")) for name in ("n1", "n2", "n3")
    ] == [
        True,
        True,
        False,
    ]
    (name,) = (name.removesuffix(".journal.jsonl") for name in files() if "journal" in name)
    assert name.startswith("evictplan-")
    assert f"{name}.json" in files()


@pytest.mark.slow
def test_what_is_so_already_is_done_without_a_plan_a_journal_or_the_lock(
    server: WritableServer, type_: Type
) -> None:
    said = type_("apply", "uncordon", "n1", "--yes")
    assert said.code == 0
    assert said.out == "There is nothing to do: the cluster is as it is asked to be.\n"
    assert (files(), server.executed) == ([], [])


@pytest.mark.slow
def test_a_plan_without_operations_is_written_and_applied_as_nothing_until_something_is_to_do(
    server: WritableServer, type_: Type
) -> None:
    made = type_("what-if", "uncordon", "n1", "--out", "plan.json")
    assert (made.code, files()) == (0, ["plan.json"])
    assert "written to plan.json: there is nothing to do: " in made.err

    done = type_("apply", "plan.json", "--yes")
    assert (done.code, files(), server.executed) == (0, ["plan.json"], [])
    assert (
        done.out == "uncordon n1: there is nothing to do: the cluster is as it is asked to be.\n\n"
    )
    assert "no run of it was lost" in type_("apply", "--adopt", "plan.json").err
    server.node("n1")["spec"]["unschedulable"] = True
    stale = type_("apply", "plan.json", "--yes")
    assert (stale.code, "node-schedulable: node n1" in stale.err) == (4, True), stale
    assert server.executed == []


@pytest.mark.slow
def test_what_cannot_be_carried_out_is_said_before_anything_is_written(type_: Type) -> None:
    said = type_("what-if", "fail", "node", "n1", "--out", "plan.json")
    assert (said.code, "can be predicted but not carried out" in said.err) == (2, True)
    assert "no such" not in type_("what-if", "drain", "n1", "--disable-eviction", "--out", "p").err
    assert files() == []


@pytest.mark.slow
def test_a_run_that_sent_nothing_is_held_to_be_fresh_when_it_is_gone_on_with(
    server: WritableServer, type_: Type
) -> None:
    planned(type_)
    before = taints(server)
    held = {"holderIdentity": "other@host/7/run-x"}
    metadata = {"name": "evictplan-apply", "namespace": "default"}
    version = "coordination.k8s.io/v1"
    server.add({"apiVersion": version, "kind": "Lease", "metadata": metadata, "spec": held})
    locked = type_("apply", "plan.json", "--yes")
    assert (locked.code, "other@host/7/run-x" in locked.out) == (4, True)
    server.find("leases", "evictplan-apply", "default")["spec"]["holderIdentity"] = ""
    server.set_taints("n1", [{"key": "theirs", "effect": "NoSchedule"}])

    stale = type_("apply", "--resume", "plan.journal.jsonl", "--yes")

    assert (stale.code, "node-taints" in stale.err) == (4, True)
    assert taints(server) == ["theirs"]
    server.set_taints("n1", [{"key": key, "effect": "NoSchedule"} for key in before])
    assert type_("apply", "--resume", "plan.journal.jsonl", "--yes").code == 0
    assert taints(server) == [*before, "maint"]


@pytest.mark.slow
def test_a_run_that_is_not_finished_ends_with_its_own_exit_code(
    server: WritableServer, type_: Type
) -> None:
    def forbid(asked: Asked, _tree: Tree) -> None:
        if asked.site == "patch nodes" and asked.name == "n2":
            raise failure(403, "not today", reason="Forbidden")

    planned(type_, "taint", "node", "n1", "n2", "maint=yes:NoExecute")
    server.webhooks.append(forbid)
    stopped = type_("apply", "plan.json", "--yes")

    assert (stopped.code, "not today" in stopped.out) == (3, True), stopped.err
    assert ("maint" in taints(server), "maint" in taints(server, "n2")) == (True, False)
    journal = Path("plan.journal.jsonl").absolute()
    end = json.loads(journal.read_text().splitlines()[-1])
    assert end["record"] == "end"
    where = f"-s {server.url} --token"
    goes_on, takes_back = (one.replace("--server", "-s") for one in end["commands"])
    assert goes_on.startswith(f"kubectl evictplan apply --resume {journal} {where}")
    assert takes_back.startswith(f"kubectl evictplan apply --rollback {journal} {where}")
    assert TOKEN not in journal.read_text()
    server.webhooks.clear()
    assert type_("apply", "--resume", "plan.journal.jsonl", "--yes").code == 0
    assert "maint" in taints(server, "n2")


@pytest.mark.slow
def test_what_decides_and_may_not_be_read_has_to_be_accepted_even_of_a_plan_made_just_now(
    server: WritableServer, type_: Type
) -> None:
    everything = {(group, plural) for plural, (group, _, _) in KINDS.items()}
    server.allowed = everything - {("policy", "poddisruptionbudgets")}
    said = type_("apply", "cordon", "n1", "--yes")
    assert (said.code, "partial" in said.err) == (4, True)
    assert type_("apply", "cordon", "n1", "--yes", "--accept-drift", "partial").code == 0


BARE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "precious", "namespace": "shop"},
    "spec": {"nodeName": "n2", "containers": [{"name": "c"}]},
    "status": {"phase": "Running"},
}


def test_what_follows_a_run_is_shown_asked_and_may_be_tried_without_changing_anything(
    server: WritableServer, type_: Type
) -> None:
    before = taints(server)
    digest = stopped_before_n2(server, type_)
    state = taints(server), taints(server, "n2")
    journal = Path("plan.journal.jsonl").read_bytes()
    for what, row in (("--resume", "taint n2"), ("--rollback", "taint n1")):
        tried = type_("apply", what, "plan.journal.jsonl", "--dry-run=client")
        assert (tried.code, "Nothing was changed" in tried.out) == (0, True), tried.err
        assert row in tried.out
        asked = type_("apply", what, "plan.journal.jsonl", stdin="yes\n")
        assert (asked.code, "--yes" in asked.err) == (2, True)
        wrong = type_("apply", what, "plan.journal.jsonl", "--yes", "--plan-digest", "0123456789")
        assert (wrong.code, "not the plan that was reviewed" in wrong.err) == (4, True)
        for option in ("--dry-run=server", "--journal=other.jsonl"):
            assert type_("apply", what, "plan.journal.jsonl", "--yes", option).code == 2
    assert (taints(server), taints(server, "n2")) == state
    assert Path("plan.journal.jsonl").read_bytes() == journal
    digest = digest.removeprefix("sha256:")
    assert type_("apply", "--rollback", "plan.journal.jsonl", "--plan-digest", digest).code == 0
    assert taints(server) == before


class _Typing(io.TextIOWrapper):
    """Somebody at a terminal."""

    def __init__(self, typed: str = "") -> None:
        super().__init__(io.BytesIO(typed.encode()))

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("what", ["--resume", "--rollback"])
def test_on_a_terminal_only_yes_goes_on_or_takes_back(
    what: str, server: WritableServer, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_before_n2(server, type_, "NoSchedule")
    state = taints(server), taints(server, "n2")
    words = ("apply", what, "plan.journal.jsonl", "-s", server.url, "--token", TOKEN)
    monkeypatch.setattr("sys.stderr", _Typing())
    for typed, code in (("y\n", 130), ("", 130), ("yes\n", 0)):
        monkeypatch.setattr("sys.stdin", _Typing(typed))
        assert (taints(server), taints(server, "n2")) == state
        assert cli.run(words, program="kubectl-evictplan") == code
    assert (taints(server), taints(server, "n2")) != state


def test_nodes_that_a_run_has_not_come_to_are_compared_before_it_goes_on(
    server: WritableServer, type_: Type
) -> None:
    stopped_before_n2(server, type_)
    server.add(BARE)
    said = type_("apply", "--resume", "plan.journal.jsonl", "--yes")
    assert (said.code, "pod-added: pod shop/precious" in said.err) == (4, True), said
    assert "maint" not in taints(server, "n2")


@pytest.mark.slow
def test_what_going_on_loses_is_accepted_by_its_number(server: WritableServer, type_: Type) -> None:
    server.add(BARE)
    stopped = planned(type_, "taint", "node", "n1", "n2", "maint=yes:NoExecute")
    assert stopped

    def forbid(asked: Asked, _tree: Tree) -> None:
        if asked.site == "patch nodes" and asked.name == "n2" and not asked.query.get("dryRun"):
            raise failure(403, "not today", reason="Forbidden")

    server.webhooks.append(forbid)
    assert type_("apply", "plan.json", "--yes", "--accept-losses", "1").code == 3
    server.webhooks.clear()
    said = type_("apply", "--resume", "plan.journal.jsonl", "--yes")
    assert (said.code, "1 pod or its data is lost for good" in said.err) == (2, True), said
    words = ("apply", "--resume", "plan.journal.jsonl", "--yes", "--accept-losses", "1")
    assert type_(*words).code == 0
    assert "maint" in taints(server, "n2")


def test_the_next_command_leads_to_the_same_cluster_and_never_shows_the_token(
    server: WritableServer, type_: Type
) -> None:
    planned(type_)
    said = type_("apply", "plan.json", "--yes")
    assert (
        f'apply --rollback plan.journal.jsonl --server {server.url} --token "$TOKEN"\n' in said.out
    )
    assert TOKEN not in said.out


@pytest.mark.slow
def test_a_run_that_sent_nothing_does_not_keep_its_plan_from_being_carried_out(
    server: WritableServer, type_: Type
) -> None:
    planned(type_)
    held = {"holderIdentity": "other@host/7/run-x"}
    metadata = {"name": "evictplan-apply", "namespace": "default"}
    version = "coordination.k8s.io/v1"
    server.add({"apiVersion": version, "kind": "Lease", "metadata": metadata, "spec": held})
    locked = type_("apply", "plan.json", "--yes")
    assert (locked.code, "nothing was sent yet" in locked.out) == (4, True)
    server.find("leases", "evictplan-apply", "default")["spec"]["holderIdentity"] = ""
    assert type_("apply", "plan.json", "--yes").code == 0
    assert "maint" in taints(server)
    assert "has been begun" in type_("apply", "plan.json", "--yes").err


@pytest.mark.slow
def test_a_plan_is_never_its_own_journal(type_: Type) -> None:
    planned(type_)
    said = type_("apply", "plan.json", "--yes", "--journal", "plan.json")
    assert (said.code, "that is the plan" in said.err) == (2, True)
    assert "--journal plan.journal.jsonl" in said.err


@pytest.mark.slow
def test_a_plan_that_is_missing_is_answered_by_one_like_it_or_by_where_it_has_to_be_named(
    server: WritableServer, type_: Type
) -> None:
    stopped_before_n2(server, type_)
    assert "apply plan.json" in type_("apply", "plan.jsn").err
    Path("plan.json").rename("elsewhere")
    moved = type_("apply", "--resume", "plan.journal.jsonl", "--yes")
    assert (moved.code, "NoExecute" in moved.err) == (2, False)
    assert "apply PATH/plan.json --resume plan.journal.jsonl" in moved.err
    said = type_("apply", "elsewhere", "--resume", "plan.journal.jsonl", "--yes")
    assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (("drian", "n1"), "apply drain n1"),
        (("fail", "node", "n1"), "what-if fail node n1"),
        (("delete", "node", "n1"), "what-if delete node n1"),
    ],
)
def test_a_word_that_is_no_command_of_apply_is_answered_by_the_command_that_is_meant(
    type_: Type, words: tuple[str, ...], right: str
) -> None:
    said = type_("apply", *words)
    assert (said.code, f"try: kubectl evictplan {right}" in said.err) == (2, True), said.err
