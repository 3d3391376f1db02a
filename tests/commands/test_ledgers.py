"""The ledger that ``apply`` leaves beside its plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plans.ledger_worlds import POD, START, deleted, expectation, look, predicted

from kubectl_evictplan.commands.ledgers import beside, exit_code_after, write_ledger
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
