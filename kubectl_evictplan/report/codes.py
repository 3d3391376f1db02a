"""What every code means: warnings from the table in docs/warnings.md, findings from their own registry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from kubectl_evictplan.impact.finding_kinds import FINDING_KINDS

# One or more codes in the first cell, then meaning and what to do.
_ROW = re.compile(r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \|([^|]+)\|([^|]+)\|$", re.MULTILINE)
# Links to other pages and rules of docs/fidelity.md mean nothing outside the page.
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_RULE = re.compile(r" \(rules? [^)]*\)")


class Explanation(NamedTuple):
    """``kind`` is "finding, high" or "warning"; ``remedy`` is what to do."""

    code: str
    kind: str
    meaning: str
    remedy: str


def explanations() -> dict[str, Explanation]:
    """Every code with its explanation, findings first."""
    found = {
        code: Explanation(code, f"finding, {kind.severity}", kind.why, kind.remedy)
        for code, kind in FINDING_KINDS.items()
    }
    return found | {one.code: one for one in _warnings()}


def _warnings() -> Iterator[Explanation]:
    text = files("kubectl_evictplan.report").joinpath("warnings.md").read_text(encoding="utf-8")
    for match in _ROW.finditer(text):
        meaning, remedy = (_plain(match[cell]) for cell in (2, 3))
        for code in re.findall(r"[a-z0-9-]+", match[1]):
            yield Explanation(code, "warning", meaning, remedy)


def _plain(cell: str) -> str:
    return _RULE.sub("", _LINK.sub(r"\1", cell)).replace("`", "").strip()
