"""``explain CODE``: every code of a warning or a finding has its meaning and what to do."""

from __future__ import annotations

import pytest

from kubectl_evictplan import cli
from kubectl_evictplan.gates.figures import known_codes
from kubectl_evictplan.impact.finding_kinds import FINDING_KINDS, SEVERITIES
from kubectl_evictplan.impact.findings import AUTHORS
from kubectl_evictplan.report.codes import explanations


def explained(capsys: pytest.CaptureFixture[str], *code: str) -> str:
    assert cli.run(["explain", *code]) == 0
    return capsys.readouterr().out


def test_every_code_is_explained_with_what_to_do() -> None:
    known = explanations()
    assert known_codes() - known.keys() == set()
    assert [one.code for one in known.values() if len(one.meaning) < 20 or not one.remedy] == []


def test_every_kind_of_finding_has_one_author_and_a_severity() -> None:
    assert list(AUTHORS) == list(FINDING_KINDS)
    assert {kind.severity for kind in FINDING_KINDS.values()} <= {*SEVERITIES}


def test_a_finding_is_explained_from_its_registry(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "identity-held")
    assert text.startswith("identity-held  (finding, high)\n")
    assert "What to do: Bring the kubelet back." in text


def test_a_warning_is_explained_from_the_page_about_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = explained(capsys, "zone-stopped")
    assert text.startswith("zone-stopped  (warning)\n")
    assert "`" not in text
    assert "rule 12" not in text


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = explained(capsys).splitlines()
    assert [line.split()[0] for line in lines] == list(explanations())
