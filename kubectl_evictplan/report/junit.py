"""``-o junit``: gates and findings as the test report that every pipeline shows.

A gate is a test case that passes or fails. A finding or a warning is none that failed, since nobody made it a rule: it is
a skipped case, which pipelines show without stopping. One case for each code, never one for each pod: some readers
stop at some thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from kubectl_evictplan.display import escape
from kubectl_evictplan.gates.document import GateResult
from kubectl_evictplan.prediction.records import CERTAIN
from kubectl_evictplan.report.findings_document import FindingsDocument

# Of a test case its name, its first message, and everything.
_Told = tuple[str, str, str]
_OBJECTS_MAX = 100
_COLUMNS_MAX = 2000


def render(document: FindingsDocument) -> Iterator[str]:
    """Yield the report."""
    root = ET.Element("testsuites", name="kubectl-evictplan")
    answer = _suite(root, "prediction", 1)
    made = _case(answer, "evictplan.prediction", "a prediction was made")
    ET.SubElement(made, "system-out").text = _lines(document.verdict)
    gates = _suite(root, "gates", len(document.gates), failures=document.gates_failed)
    for gate in document.gates:
        _gate(gates, gate)
    findings, warnings = list(_findings(document)), list(_warnings(document))
    _skipped(root, "findings", findings)
    _skipped(root, "warnings", warnings)
    total = 1 + len(document.gates) + len(findings) + len(warnings)
    root.set("tests", str(total))
    root.set("failures", str(document.gates_failed))
    ET.indent(root)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield ET.tostring(root, encoding="unicode") + "\n"


def _skipped(root: ET.Element, name: str, told: list[_Told]) -> None:
    suite = _suite(root, name, len(told), skipped=len(told))
    for code, message, text in told:
        case = _case(suite, f"evictplan.{name}", code)
        ET.SubElement(case, "skipped", message=_safe(message))
        ET.SubElement(case, "system-out").text = text


def _suite(
    root: ET.Element, name: str, tests: int, failures: int = 0, skipped: int = 0
) -> ET.Element:
    numbers = {"tests": tests, "failures": failures, "errors": 0, "skipped": skipped}
    suite = ET.SubElement(root, "testsuite", name=name)
    for key, number in numbers.items():
        suite.set(key, str(number))
    return suite


def _case(suite: ET.Element, group: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=group, name=_safe(name))


def _gate(suite: ET.Element, gate: GateResult) -> None:
    case = _case(suite, f"evictplan.gates.{_safe(gate.origin)}", gate.rule)
    if gate.file:
        case.set("file", _safe(gate.file))
        case.set("line", str(gate.line))
    if gate.failed:
        failure = ET.SubElement(case, "failure", message=_safe(gate.told), type="gate")
        failure.text = _lines((gate.reason, *gate.numbers, *gate.unknown))


def _findings(document: FindingsDocument) -> Iterator[_Told]:
    """As many as the figure ``findings`` counts: what is possible stands beside what is certain."""
    for one in document.findings or ():
        name = one.code if one.certainty == CERTAIN else f"{one.code} ({one.certainty})"
        remedy = f"What to do: {one.remedy}" if one.remedy else ""
        lines = [one.summary, one.why, remedy, *_objects(one.objects)]
        yield name, f"{one.severity}: {one.summary}", _lines(lines)


def _warnings(document: FindingsDocument) -> Iterator[_Told]:
    """One for each code."""
    found: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for warning in document.warnings:
        first.setdefault(warning.code, warning.message)
        found.setdefault(warning.code, []).extend((warning.message, *_objects(warning.objects)))
    for code, lines in found.items():
        yield code, first[code], _lines(lines)


def _objects(names: tuple[str, ...]) -> Iterator[str]:
    yield from (f"- {name}" for name in names[:_OBJECTS_MAX])
    if len(names) > _OBJECTS_MAX:
        yield f"and {len(names) - _OBJECTS_MAX} more"


def _lines(texts: tuple[str, ...] | list[str]) -> str:
    return "\n".join(_safe(text) for text in texts if text)


def _safe(text: str) -> str:
    """Return a text without what XML cannot hold; ElementTree escapes the rest."""
    return escape(text, max_columns=_COLUMNS_MAX)
