"""``-o github``: workflow commands that GitHub shows as annotations of a run.

GitHub keeps ten of a kind for each step and drops the rest without a word, so the last one says how many more
there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubectl_evictplan.display import escape
from kubectl_evictplan.gates.kinds import SEVERITIES
from kubectl_evictplan.prediction.warnings.input_codes import INCOMPLETE_CODES
from kubectl_evictplan.report.findings_document import FindingsDocument

_PER_KIND_MAX = 10
_COLUMNS_MAX = 2000
_LOUD = ("high", "critical")


def render(document: FindingsDocument) -> Iterator[str]:
    """Yield a line for each annotation: gates that failed, what matters, and the verdict."""
    errors = [
        _line("error", "gate failed", gate.told, file=gate.file, line=gate.line)
        for gate in document.gates
        if gate.failed
    ]
    found = sorted(document.findings or (), key=lambda one: -SEVERITIES.index(one.severity))
    loud = [(one.code, one.summary) for one in found if one.severity in _LOUD]
    loud += [(w.code, w.message) for w in document.warnings if w.code in INCOMPLETE_CODES]
    quiet = [("prediction", sentence) for sentence in document.verdict[:1]]
    if document.not_evaluated:
        quiet.append(("not-evaluated", "; ".join(document.not_evaluated)))
    quiet += [(one.code, one.summary) for one in found if one.severity not in _LOUD]
    quiet += [(w.code, w.message) for w in document.warnings if w.code not in INCOMPLETE_CODES]
    yield from _cut("error", errors)
    yield from _cut("warning", [_line("warning", *one) for one in loud])
    yield from _cut("notice", [_line("notice", *one) for one in quiet])


def _cut(kind: str, lines: Sequence[str]) -> Iterator[str]:
    if len(lines) <= _PER_KIND_MAX:
        yield from lines
        return
    yield from lines[: _PER_KIND_MAX - 1]
    more = len(lines) - _PER_KIND_MAX + 1
    yield _line(
        kind, "more", f"and {more} more: GitHub shows no more than {_PER_KIND_MAX} of a kind"
    )


def _line(kind: str, title: str, message: str, *, file: str = "", line: int = 0) -> str:
    place = f"file={_property(file)},line={line}," if file else ""
    return f"::{kind} {place}title={_property(title)}::{_data(message)}\n"


def _data(text: str) -> str:
    """Return a text that ends neither its line nor its command; ``escape`` leaves no line ends."""
    return escape(text, max_columns=_COLUMNS_MAX).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
