"""Every error of the program, split by whose fault it is, each with its exit code.

The codes are those of the public contract, section 4.
"""

from __future__ import annotations

EXIT_DONE = 0
EXIT_GATE_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERNAL = 8
EXIT_INTERRUPTED = 130

PROBLEMS_SHOWN_MAX = 50


class EvictplanError(Exception):
    """Base of all errors that end the program with one documented exit code."""

    exit_code = EXIT_INTERNAL


class Problem:
    """One thing that is wrong with one input.

    ``location`` is ``FILE[:LINE[:COL]]`` (or a flag's name), ``subject`` is ``KIND NS/NAME`` or an
    index such as ``items[17]``, ``field`` a JSON path. Empty parts are left out of the line.
    Strings may be hostile: they are escaped when the line is printed, never before.
    """

    __slots__ = ("expected", "field", "got", "location", "message", "subject")

    def __init__(
        self,
        message: str,
        *,
        location: str = "",
        subject: str = "",
        field: str = "",
        got: object = None,
        expected: str = "",
    ) -> None:
        self.message = message
        self.location = location
        self.subject = subject
        self.field = field
        self.got = got
        self.expected = expected

    def __str__(self) -> str:
        text = ": ".join(p for p in (self.location, self.subject, self.field, self.message) if p)
        details = []
        if self.got is not None:
            details.append(f"got {self.got}")
        if self.expected:
            details.append(f"expected {self.expected}")
        return f"{text} ({'; '.join(details)})" if details else text

    def __repr__(self) -> str:
        return f"Problem({self})"


class InputError(EvictplanError):
    """The user's files, flags or scenario are wrong; carries every problem found, in order."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, problems: Problem | list[Problem]) -> None:
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        assert self.problems, "an InputError needs at least one problem"
        super().__init__("; ".join(str(problem) for problem in self.problems[:PROBLEMS_SHOWN_MAX]))
