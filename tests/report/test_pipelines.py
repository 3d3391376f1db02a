"""What pipelines read: findings as JSON, JUnit and GitHub's annotations."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import msgspec
import pytest
from report.builders import eviction, one_of_each, prediction, text_of
from report.hostile import strings

from kubectl_evictplan.display import escape
from kubectl_evictplan.gates.document import GateResult
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.report.findings_document import FindingsDocument

FAILED = GateResult(
    "evictions > 1", "p.yaml:3:5", True, True, ("evictions is 2",), (), "why", "p.yaml", 3
)
PASSED = GateResult("stuck", "--fail-on", False, False, ("stuck is 0",))


def hostile(text: str) -> tuple[Prediction, tuple[GateResult, ...]]:
    """A prediction that has a string wherever a cluster can put one, and a gate that has it."""
    found = prediction(
        evictions=(eviction(text, namespace=text, node=text, owner=text),),
        warnings=(Warning("bare-pod-lost", text, (text, text)), Warning("single-namespace", text)),
    )
    gate = GateResult(text, text, True, True, (text,), (text,), text, text, 3)
    return found, (gate,)


def properties(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as GitHub's runner does."""
    match = re.fullmatch(r"::([a-z]+) ([^\n]*?)::([^\n]*)\n", line)
    assert match is not None, line
    pairs = dict(pair.split("=", 1) for pair in match[2].split(","))
    for codes in (("%3A", ":"), ("%2C", ","), ("%25", "%")):
        pairs = {key: value.replace(*codes) for key, value in pairs.items()}
    return match[1], pairs, match[3].replace("%25", "%")


def test_findings_are_a_document_that_its_schema_type_reads_back() -> None:
    text = text_of(one_of_each(), "findings", gates=(FAILED, PASSED))

    found = msgspec.json.decode(text, type=FindingsDocument)
    assert (found.gates_failed, found.gates) == (1, (FAILED, PASSED))
    assert found.figures["evictions"].least == 1
    assert found.figures["evictions"].most == 2
    assert found.figures["severity"].unknown == "what the change costs was not evaluated"
    assert found.findings is None
    assert found.verdict[0].startswith("1 pod is evicted for certain")


def test_junit_fails_for_gates_alone_and_shows_findings_as_skipped() -> None:
    root = ET.fromstring(text_of(one_of_each(), "junit", gates=(FAILED, PASSED)))

    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        "a prediction was made": ["system-out"],
        "evictions > 1": ["failure"],
        "stuck": [],
        "disruption-budget-bypassed": ["skipped", "system-out"],
        "missing-lease": ["skipped", "system-out"],
    }
    assert (root.get("tests"), root.get("failures")) == ("5", "1")
    [failure] = root.iter("failure")
    assert failure.get("message") == "evictions > 1 (why): evictions is 2"


def test_junit_without_gates_is_a_run_that_passes() -> None:
    root = ET.fromstring(text_of(prediction(), "junit"))

    assert (root.get("tests"), root.get("failures")) == ("1", "0")


def test_github_shows_failed_gates_as_errors_where_their_rule_stands() -> None:
    lines = text_of(one_of_each(), "github", gates=(FAILED, PASSED)).splitlines(keepends=True)

    kinds = [properties(line) for line in lines]
    assert kinds[0] == (
        "error",
        {"file": "p.yaml", "line": "3", "title": "gate failed"},
        "evictions > 1 (why): evictions is 2",
    )
    assert [kind for kind, *_ in kinds[1:]] == ["notice"] * 3


def test_github_gets_ten_of_a_kind_and_is_told_of_the_rest() -> None:
    many = tuple(Warning(f"code-{number}", "m") for number in range(30))
    lines = text_of(prediction(warnings=many), "github").splitlines()

    assert len(lines) == 10
    assert lines[-1].startswith("::notice title=more::and 22 more")


def check_hostile(text: str) -> None:
    found, gates = hostile(text)
    safe = escape(text)
    root = ET.fromstring(text_of(found, "junit", gates=gates))
    assert [case.get("name") for case in root.iter("testcase")] == [
        "a prediction was made",
        # XML's reader turns line ends of attributes into blanks: there are none.
        safe,
        "bare-pod-lost",
        "single-namespace",
    ]
    [first, *_] = root.iter("skipped")
    assert first.get("message") == safe
    commands = [properties(line) for line in text_of(found, "github", gates=gates).splitlines(True)]
    assert [kind for kind, *_ in commands] == ["error", "warning", "notice", "notice"]
    assert commands[0][1]["file"] == safe
    assert commands[1][2] == safe
    read = json.loads(text_of(found, "findings", gates=gates))
    assert read["warnings"][0]["message"] == re.sub("[\ud800-\udfff]", "\ufffd", text)


def test_hostile_strings_stay_in_their_place() -> None:
    for text in strings(100):
        check_hostile(text)


@pytest.mark.slow
def test_ten_thousand_hostile_strings_stay_in_their_place() -> None:
    for text in strings(10_000):
        check_hostile(text)
