"""What is wrong or odd with the input, collected before anything is raised.

Problems end the run, all of them together; warnings are grouped by code so that 10,000 odd pods
make one line. With ``strict`` every warning is a problem too, except those about ignored kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.sources.marked_tree import Path, path_text, place_of

# Objects named per warning; the message carries the full count.
OBJECTS_NAMED_MAX = 100
# A file of a hundred million wrong items must not become as many messages.
PROBLEMS_KEPT_MAX = 10_000
# A kind, a namespace and a name of the greatest length that is valid.
SUBJECT_LENGTH_MAX = 360
NEVER_STRICT = frozenset({"unknown-kind", "files-skipped"})


class Document:
    """One file, or one document of it: knows where its fields stand.

    ``tree`` has marks when it comes from YAML. ``json_text`` is what JSON was read from, for the
    lines that only messages need. ``is_named`` is False for a file in a directory that was named,
    perhaps beside what was meant.
    """

    def __init__(
        self, file: str, *, tree: Any = None, json_text: bytes = b"", is_named: bool = True
    ) -> None:
        self.file = file
        self.is_named = is_named
        self._tree = tree
        self._json_text = json_text

    def line_and_column(self, path: Path) -> str:
        """Return ``LINE:COL`` of a field, or of the nearest container; "" when not known."""
        if self._json_text:
            from kubectl_evictplan.sources.yaml_reader import read_documents

            # JSON is YAML: what the fast reader does not tell is read again.
            self._tree = next(read_documents(self._json_text.decode())).tree
            self._json_text = b""
        return str(place_of(self._tree, path) or "")


class Origin(msgspec.Struct, frozen=True):
    """Where an object was written: its document, a name for it there (``items[3]``), its path."""

    document: Document
    place: str = ""
    path: Path = ()

    def item(self, index: int) -> Origin:
        """Return where item ``index`` of the list stands; -1 is the list itself."""
        if index < 0:
            return self
        place = " ".join(part for part in (self.place, f"items[{index}]") if part)
        return Origin(self.document, place, (*self.path, "items", index))

    def location(self, field: Path = ()) -> str:
        """Return ``FILE[:LINE:COL]`` of a field inside the object; of a whole file, its name."""
        path = self.path + field
        found = self.document.line_and_column(path) if path or self.place else ""
        return f"{self.document.file}:{found}" if found else self.document.file


class Diagnostics:
    """Collects problems and warnings, in the order they are found."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.problems: list[Problem] = []
        self._warnings: dict[tuple[str, str], dict[str, None]] = {}

    def add(self, problem: Problem) -> None:
        """Record an error; raises at once when there are absurdly many."""
        self.problems.append(problem)
        if len(self.problems) >= PROBLEMS_KEPT_MAX:
            raise InputError(self.problems)

    def problem(
        self,
        origin: Origin,
        message: str,
        *,
        subject: str = "",
        path: Path = (),
        got: object = None,
        expected: str = "",
    ) -> None:
        """Record an error about a field of one object; ``subject`` defaults to its place."""
        self.add(
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

    def adopt(self, warnings: Iterable[Warning]) -> None:
        """Record warnings that were found before, such as those of a snapshot."""
        for found in warnings:
            for subject in found.objects or ("",):
                self.warning(found.code, found.message, subject)

    def absorb(self, other: Diagnostics) -> None:
        """Record all that another one recorded."""
        for problem in other.problems:
            self.add(problem)
        for key, objects in other._warnings.items():
            self._warnings.setdefault(key, {}).update(objects)

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
