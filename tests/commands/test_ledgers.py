"""The ledger that ``apply`` leaves beside its plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apply.clusters import drain_bench
from apply.runs import JOURNAL
from building.command_lines import Ask, asker
from live.applying import drainable_cluster
from live.changing import TOKEN
from live.real_clock import RealClock
from live.watched_server import WatchedServer
from msgspec.structs import replace
from plans.ledger_worlds import POD, START, deleted, expectation, look, predicted

from kubectl_evictplan.commands.ledgers import beside, exit_code_after, keep_ledger, write_ledger
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.plans.document import Evict, Plan
from kubectl_evictplan.plans.fingerprint import plan_text, sealed
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.ledger_document import Ledger
from kubectl_evictplan.plans.sightings import Sightings


def ledger(seconds: float) -> Ledger:
    hostile = deleted(POD, seconds)
    return ledger_of(expectation(predicted((5, 6))), Sightings((look(60, hostile),)), START)


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz", "plan"])
def test_it_is_named_after_the_plan(name: str) -> None:
    assert beside(f"a.b/{name}", ".ledger.md") == Path("a.b/plan.ledger.md")


def test_only_its_owner_reads_it_and_an_older_one_is_replaced(tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    write_ledger(ledger(50), plan)
    data, page = write_ledger(ledger(5), plan)
    assert {name.stat().st_mode & 0o777 for name in (data, page)} == {0o600}
    assert json.loads(data.read_text())["pods"][0]["verdict"] == "inside"
    assert "| inside | default | web |" in page.read_text()


def test_a_change_that_left_its_windows_is_not_done_as_reviewed() -> None:
    assert exit_code_after(0, ledger(5)) == 0
    assert exit_code_after(0, ledger(50)) == 3
    assert exit_code_after(130, ledger(50)) == 130
    assert exit_code_after(0, None) == 0


# -- a run's own journal -----------------------------------------------------------------------------


def carried_out(folder: Path) -> Plan:
    """Carry out a drain on the simulated cluster; leave its plan and its journal in the folder."""
    bench = drain_bench()
    evictions = tuple(
        predicted((0.0, 90.0), uid=one.uid, pod=one.pod, node=one.node, controller="eviction-api")
        for one in bench.plan.operations
        if isinstance(one, Evict)
    )
    prediction = replace(
        expectation(*evictions).prediction,
        evictions=tuple(replace(one, namespace="shop") for one in evictions),
    )
    bench.plan = sealed(replace(bench.plan, prediction=prediction))
    assert bench.apply().exit_code == 0
    (folder / "plan.json").write_bytes(plan_text(bench.plan))
    (folder / "plan.journal.jsonl").write_bytes(bench.files.read(JOURNAL))
    items = [{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "uid": "u"}}]
    after = {"kind": "List", "apiVersion": "v1", "items": items}
    (folder / "after.json").write_text(json.dumps(after))
    return bench.plan


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    monkeypatch.chdir(tmp_path)
    return asker(capsys, monkeypatch)


def test_the_journal_beside_a_plan_tells_what_its_run_did(ask: Ask, tmp_path: Path) -> None:
    plan = carried_out(tmp_path)
    answer = ask("verify", "plan.json", "-f", "after.json", "-o", "json")
    found = json.loads(answer.out)
    assert answer.code == 0, answer.err
    assert found["fingerprint"] == plan.fingerprint
    assert found["startSource"] == "journal"
    assert {pod["verdict"] for pod in found["pods"]} == {"inside"}
    assert {pod["by"]["toldBy"] for pod in found["pods"]} == {"operation"}
    assert [one["outcome"] for one in found["operations"]] == ["done"] * len(plan.operations)


def test_the_journal_of_another_plan_is_refused(ask: Ask, tmp_path: Path) -> None:
    plan = carried_out(tmp_path)
    Path("other.json").write_bytes(plan_text(sealed(replace(plan, title="another"))))
    command = ("verify", "other.json", "-f", "after.json", "--journal", "plan.journal.jsonl")
    assert "the journal of another plan" in ask(*command).problem()


def test_a_damaged_journal_is_no_evidence(ask: Ask, tmp_path: Path) -> None:
    carried_out(tmp_path)
    lines = Path("plan.journal.jsonl").read_bytes().splitlines(keepends=True)
    Path("plan.journal.jsonl").write_bytes(b"".join([*lines[:2], *lines[3:]]))
    answer = ask("verify", "plan.json", "-f", "after.json")
    assert answer.code == 2
    assert "does not follow from the line before it" in answer.err


def test_another_cluster_than_the_plans_is_refused(ask: Ask, tmp_path: Path) -> None:
    plan = carried_out(tmp_path)
    mine, other = WatchedServer(), WatchedServer()
    for server, uid in ((mine, plan.cluster.cluster_uid), (other, "another")):
        meta = {"name": "kube-system", "uid": uid}
        server.add({"kind": "Namespace", "apiVersion": "v1", "metadata": meta})
        with server.serve():
            answer = ask("verify", "plan.json", "-s", server.url, "-o", "json")
        if server is mine:
            assert answer.code == 0, answer.err
        else:
            assert answer.code == 4
            assert "another cluster than the plan was made for" in answer.err


def test_apply_leaves_a_ledger_by_its_journal_and_a_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = carried_out(tmp_path)
    server = WatchedServer()
    with server.serve():
        flags = ConnectionFlags(server=server.url)
        ledger = keep_ledger(plan, "plan.json", Path("plan.journal.jsonl"), flags)
    assert ledger is not None
    assert {pod.verdict for pod in ledger.pods} == {"inside"}
    assert Path("plan.ledger.md").read_text().startswith("# Predicted and actual: a test")
    said = capsys.readouterr().err
    assert "happened in its window. Ledger: plan.ledger.json and plan.ledger.md" in said


def test_a_ledger_that_cannot_be_kept_is_told_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = carried_out(tmp_path)
    nobody = ConnectionFlags(server="http://127.0.0.1:1", request_timeout_ns=1_000_000)
    ledger = keep_ledger(plan, "plan.json", Path("plan.journal.jsonl"), nobody)
    assert ledger is not None
    assert "Pod" in ledger.not_evaluated
    assert {pod.verdict for pod in ledger.pods} == {"inside"}
    assert keep_ledger(plan, "missing/plan.json", Path("plan.journal.jsonl"), nobody) is None
    assert "warning: no ledger: " in capsys.readouterr().err


def test_a_server_that_has_just_not_answered_is_not_asked_once_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = carried_out(tmp_path)
    # Whoever asks this waits for long.
    silent = ConnectionFlags(server="http://192.0.2.1:1")

    ledger = keep_ledger(plan, "plan.json", Path("plan.journal.jsonl"), silent, True)

    assert ledger is not None
    assert {*ledger.not_evaluated.values()} == {
        "not asked: at the end of the run no usable answer came from the server"
    }
    assert {pod.verdict for pod in ledger.pods} == {"inside"}
    assert "Ledger: plan.ledger.json" in capsys.readouterr().err


def test_what_is_still_to_come_is_followed_by_a_command_that_finds_journal_and_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = carried_out(tmp_path)
    Path("plan.journal.jsonl").rename("mine.jsonl")
    flags = ConnectionFlags(server="http://192.0.2.1:1")
    monkeypatch.setattr("kubectl_evictplan.plans.ledger.goes_on", lambda _: True)

    keep_ledger(plan, "plan.json", Path("mine.jsonl"), flags, True)

    following = "verify plan.json --watch --journal mine.jsonl --server http://192.0.2.1:1"
    assert following in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    keep_ledger(plan, "plan.json", Path("mine.jsonl"), flags, True)
    assert "verify" not in capsys.readouterr().err


def test_apply_ends_with_a_ledger_and_verify_goes_on_from_it(ask: Ask) -> None:
    server = drainable_cluster()
    server.clock = RealClock()
    server.renew_leases()
    with server.serve():
        where = ("-s", server.url, "--token", TOKEN)
        change = ("what-if", "taint", "node", "n1", "maint=yes:NoExecute", "--out", "plan.json")
        assert ask(*change, *where).code == 0
        applied = ask("apply", "plan.json", "--yes", *where)
        after = ask("verify", "plan.json", *where, "-o", "json")
    assert applied.code == 0, applied.err
    assert "Ledger: plan.ledger.json and plan.ledger.md" in applied.err
    kept, later = json.loads(Path("plan.ledger.json").read_text()), json.loads(after.out)
    assert kept["fingerprint"] == later["fingerprint"] != ""
    assert kept["operations"] == later["operations"]
    assert (kept["startSource"], [one["outcome"] for one in kept["operations"]]) == (
        "journal",
        ["done"],
    )
