"""What a gate found: part of ``-o findings``, and what other formats show."""

from __future__ import annotations

from kubectl_evictplan.prediction.records import Record


class GateResult(Record):
    """One rule, and whether the prediction breaks it.

    ``rule`` is as written, ``origin`` where ("--fail-on", or file and line), ``reason`` what its author says. ``failed``:
    it holds in some admissible run, or may for all that is known; ``certain``: it holds in every one.
    ``numbers`` are the figures it asks for, each with its value, ``unknown`` why one has none. ``objects``
    ("Kind/namespace/name") are all that they count, where a figure says which; ``numbers`` name the first of them.
    """

    rule: str
    origin: str
    failed: bool
    certain: bool
    numbers: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    reason: str = ""
    # Where the rule stands, "" and 0 on a command line.
    file: str = ""
    line: int = 0
    objects: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Return the result as one line, unescaped."""
        numbers = "; ".join((*self.numbers, *self.unknown))
        why = f" ({self.reason})" if self.reason else ""
        sure = "" if self.certain or not self.failed or self.unknown else "may hold: "
        return f"{self.rule}{why}: {sure}{numbers}"
