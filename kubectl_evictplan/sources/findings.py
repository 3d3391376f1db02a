"""Where everything wrong or surprising about the input is collected before anything is raised.

Problems end the run, all of them together; warnings are grouped by code so that 10,000 odd pods
make one line. With ``strict`` every warning is a problem too, except those about ignored kinds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.sources.marked_tree import place_of

# Objects named per warning; the message carries the full count.
OBJECTS_NAMED_MAX = 100
# A kind, a namespace and a name of the greatest length that is valid.
SUBJECT_LENGTH_MAX = 360
NEVER_STRICT = frozenset({"unknown-kind"})


class Origin(NamedTuple):
    """Where an object was written: the file, and its place in it (``items[3]``, ``doc 2``)."""

    file: str
    place: str = ""
    # The whole document, and the object's path inside it, for line and column.
    tree: Any = None
    base: tuple[str | int, ...] = ()

    def location(self, path: tuple[str | int, ...] = ()) -> str:
        """Return ``FILE[:LINE:COL]`` of a field inside the object."""
        place = place_of(self.tree, self.base + path)
        return f"{self.file}:{place}" if place else self.file


def path_text(path: tuple[str | int, ...]) -> str:
    """Return the JSON path of a field: ``spec.taints[0].key``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class Findings:
    """Collects problems and warnings, in the order they are found."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.problems: list[Problem] = []
        self._warnings: dict[tuple[str, str], dict[str, None]] = {}

    def problem(
        self,
        origin: Origin,
        message: str,
        *,
        subject: str = "",
        path: tuple[str | int, ...] = (),
        got: object = None,
        expected: str = "",
    ) -> None:
        """Record an error about a field of one object; ``subject`` defaults to its place."""
        self.problems.append(
            Problem(
                message,
                location=origin.location(path),
                subject=_short(subject or origin.place),
                field=_short(path_text(path)),
                got=got,
                expected=expected,
            )
        )

    def warning(self, code: str, message: str, subject: str = "") -> None:
        """Record a warning; equal code and message become one with many objects."""
        objects = self._warnings.setdefault((code, message), {})
        if subject:
            objects[subject] = None

    def warnings(self) -> tuple[Warning, ...]:
        """Return the warnings sorted by code and message, so input order cannot show."""
        return tuple(
            Warning(
                code,
                _with_count(message, len(objects)),
                tuple(sorted(objects)[:OBJECTS_NAMED_MAX]),
            )
            for (code, message), objects in sorted(self._warnings.items())
        )

    def raise_problems(self) -> None:
        """Raise InputError when there is any problem; in strict mode, any warning counts."""
        problems = list(self.problems)
        if self.strict:
            problems += [
                Problem(f"{message} [{code}]", subject=subject)
                for (code, message), objects in sorted(self._warnings.items())
                if code not in NEVER_STRICT
                for subject in (sorted(objects) or [""])
            ]
        if problems:
            raise InputError(problems)


def _short(text: str) -> str:
    """Cut what no valid name reaches: a name of a megabyte must not fill the terminal."""
    return text if len(text) <= SUBJECT_LENGTH_MAX else f"{text[:SUBJECT_LENGTH_MAX]}..."


def _with_count(message: str, count: int) -> str:
    return message if count <= OBJECTS_NAMED_MAX else f"{message} ({count} objects)"
