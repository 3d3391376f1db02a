"""Every error of the program, split by whose fault it is, each with its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

EXIT_DONE = 0
# A gate failed, or `diff --exit-code` found a difference, as git diff says it.
EXIT_GATE = 1
EXIT_DIFFERENT = EXIT_GATE
EXIT_BAD_INPUT = 2
EXIT_PARTLY = 3
EXIT_DRIFT = 4
EXIT_ACCESS = 5
EXIT_UNREACHABLE = 6
EXIT_UNKNOWN = 7
EXIT_INTERNAL = 8
EXIT_INTERRUPTED = 130

PROBLEMS_SHOWN_MAX = 50


class EvictplanError(Exception):
    """Base of all errors that end the program with one documented exit code."""

    exit_code = EXIT_INTERNAL


class Correction(NamedTuple):
    """What to type instead: the neighbouring words ``typed`` become ``instead``.

    With ``option``, its names, ``typed`` is that option's value, or () for whatever its value is; with
    ``apart_from`` it is no value of that option, whose value may be the same word. Without both, the new words go
    to the end; with ``whole`` they are the whole command line. ``example``: they are one choice of
    several, or stand for what only the user knows. ``first`` is a command to run before.
    """

    typed: tuple[str, ...]
    instead: tuple[str, ...]
    example: bool = False
    option: tuple[str, ...] = ()
    first: str = ""
    whole: bool = False
    apart_from: tuple[str, ...] = ()

    def applied(self, words: Sequence[str]) -> list[str] | None:
        """Return the command line with the words exchanged; None when they are not in it."""
        found = list(words)
        count = len(self.typed)
        if self.whole:
            return list(self.instead)
        if not count and self.option:
            return self._value_exchanged(found)
        if not count:
            # What follows "--" is a name, never an option.
            end = found.index("--") if "--" in found else len(found)
            return [*found[:end], *self.instead, *found[end:]]
        for index, word in enumerate(found):
            there = tuple(found[index : index + count]) == self.typed
            before = found[index - 1] if index else None
            if there and before not in self.apart_from and before in (self.option or (before,)):
                left = [*found[:index], *found[index + count :]]
                # Behind "--" an option would be a name.
                is_option = bool(self.instead) and self.instead[0].startswith("-")
                place = left.index("--") if is_option and "--" in left[:index] else index
                return [*left[:place], *self.instead, *left[place:]]
            # --option=VALUE and -oVALUE are one word.
            for name in self.option or (word.partition("=")[0],) * word.startswith("--"):
                glued = f"{name}=" if name.startswith("--") else name
                if word == glued + self.typed[0] != name:
                    value, *more = self.instead
                    return [*found[:index], glued + value, *more, *found[index + 1 :]]
        return None

    def _value_exchanged(self, words: list[str]) -> list[str] | None:
        """Return the command line with another value of the option; None when that is not in it."""
        for word, value in zip(words, [*words[1:], ""], strict=True):
            name, equals, glued = word.partition("=")
            if name in self.option:
                return self._replace(typed=(glued if equals else value,)).applied(words)
        return None


def help_on(*path: str) -> Correction:
    """Return the command line that prints the help of a command."""
    return Correction((), (*path, "--help"), whole=True)


class WrongWord(ValueError):
    """A word that means nothing here; ``instead`` is what may be meant, the likeliest first.

    ``together``: all of it, as one word was typed where several belong.
    """

    def __init__(
        self, message: str, typed: str = "", instead: Sequence[str] = (), *, together: bool = False
    ) -> None:
        super().__init__(message)
        self.typed = typed
        self.instead = tuple(instead)
        self.together = together

    def correction(self, *option: str) -> Correction | None:
        """Return what to type, for a name or an option's value; an example when it is unsure."""
        if not self.instead and not self.together:
            return None
        if self.together:
            return Correction((self.typed,), self.instead, option=option)
        return Correction((self.typed,), self.instead[:1], len(self.instead) > 1, option)


@dataclass(slots=True)
class Problem:
    """One thing that is wrong with one input, and what to type instead on a command line.

    ``location`` is ``FILE[:LINE[:COL]]`` (or a flag's name), ``subject`` is ``KIND NS/NAME`` or an
    index such as ``items[17]``, ``field`` a JSON path. Empty parts are left out of the line.
    Strings may be hostile: they are escaped when the line is printed, never before.
    """

    message: str
    correction: Correction | None = None
    _: KW_ONLY
    location: str = ""
    subject: str = ""
    field: str = ""
    got: object = None
    expected: str = ""

    def __str__(self) -> str:
        text = ": ".join(p for p in (self.location, self.subject, self.field, self.message) if p)
        details = []
        if self.got is not None:
            details.append(f"got {self.got}")
        if self.expected:
            details.append(f"expected {self.expected}")
        return f"{text} ({'; '.join(details)})" if details else text


class ProblemsError(EvictplanError):
    """Something outside this program is wrong; carries every problem found, in order."""

    def __init__(self, problems: Problem | list[Problem]) -> None:
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        assert self.problems, "an error needs at least one problem"
        super().__init__("; ".join(str(problem) for problem in self.problems[:PROBLEMS_SHOWN_MAX]))


class InputError(ProblemsError):
    """The user's files, flags or scenario are wrong."""

    exit_code = EXIT_BAD_INPUT


class GateError(ProblemsError):
    """The answer is there, and breaks a rule of its reader."""

    exit_code = EXIT_GATE


class AccessError(ProblemsError):
    """The API server does not know who asks, or does not allow it."""

    exit_code = EXIT_ACCESS


class ForbiddenError(AccessError):
    """The API server knows who asks, and does not allow it: another login changes nothing."""


class UnreachableError(ProblemsError):
    """No answer of an API server (or of the scheduler of a sweep), or none that can be used; nothing was changed."""

    exit_code = EXIT_UNREACHABLE


class NoAnswerError(UnreachableError):
    """Asked several times, and no answer came that could be the last word: the server may be away."""


class DriftError(ProblemsError):
    """A plan that does not fit any more: itself, its cluster or what is predicted; nothing was changed."""

    exit_code = EXIT_DRIFT


def mistake(message: str, correction: Correction | None = None, **parts: str) -> InputError:
    """Return the error for one thing that is wrong; ``parts`` are those of ``Problem``."""
    return InputError(Problem(message, correction, **parts))


def mistyped(
    message: str,
    typed: Sequence[str],
    instead: Sequence[str],
    *,
    example: bool = False,
    **parts: str,
) -> InputError:
    """Return the error for neighbouring words and what to type instead (see ``Correction``)."""
    return mistake(message, Correction(tuple(typed), tuple(instead), example), **parts)
