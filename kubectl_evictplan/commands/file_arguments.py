"""The files that a command line names: which are missing, which would be overwritten, and what is meant."""

from __future__ import annotations

import os
import shlex
import sys
from itertools import islice
from pathlib import Path

from kubectl_evictplan.errors import Correction, InputError, Problem, mistake
from kubectl_evictplan.scenarios.names import did_you_mean, similar

FILENAME = ("-f", "--filename")
STDIN = "-"
IS_DIRECTORY = "is a directory: name the file in it"

_ENDINGS = (".json", ".yaml", ".yml", ".gz", ".zst", ".tar", ".tgz", ".zip")
# So many names of a directory are looked at for one that is like the missing one.
_BESIDE_MAX = 5000


def exists(name: str) -> bool:
    """Tell whether there is a file of that name; no name is too odd to ask."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def looks_like_file(word: str) -> bool:
    """Tell whether a word is a file's name rather than an object's."""
    return word.endswith(_ENDINGS) or exists(word)


def check_files(
    filenames: tuple[str, ...], *, recursive: bool, otherwise: Correction | None = None
) -> None:
    """Raise for a file whose name shows already that it cannot be read.

    ``otherwise``: what to type for one that is missing, where it holds no cluster.
    """
    if problems := [found for name in filenames if (found := _problem(name, recursive, otherwise))]:
        raise InputError(problems)


def files_beside() -> list[str]:
    """Return the files of the working directory that may hold a cluster."""
    return [name for name in _files_in(Path()) if name.endswith(_ENDINGS)]


def missing_option_f(word: str) -> Problem:
    """Say that a file needs -f in front of it."""
    known = Correction((word,), ("-f", word), apart_from=FILENAME)
    return Problem("this is a file: write -f in front of it", known, got=word)


def missing_file(name: str, otherwise: Correction | None = None) -> Problem:
    """Say that there is no such file, and which one it is like.

    Where no name is alike: ``otherwise``, or another file that may hold a cluster, or how to make one.
    """
    if "://" in name:
        fetch = f"curl -fsSLo cluster.json {shlex.quote(name)}"
        known = Correction((name,), ("cluster.json",), first=fetch)
        return Problem("addresses are not read: download it first", known, location=name)
    path = Path(name)
    beside = _files_in(path.parent)
    close = files_like(name)
    if otherwise and not close:
        return Problem("no such file", otherwise, location=name)
    others = close or [str(path.with_name(other)) for other in beside if other.endswith(_ENDINGS)]
    known = Correction((name,), tuple(others[:1]), len(close) != 1)
    if not others:
        known = _made_from_cluster((name,))
    return Problem(f"no such file{did_you_mean(close)}", known, location=name)


def files_like(name: str) -> list[str]:
    """Return the files whose names are like that of one that does not exist."""
    path = Path(name)
    return [str(path.with_name(other)) for other in similar(path.name, _files_in(path.parent))]


def refuse_existing(
    option: tuple[str, ...], name: str, example: str, *, force: bool | None
) -> None:
    """Raise before the work for an output file that would not be written after it.

    ``force`` None: there is no option that replaces it.
    """
    if name in ("", STDIN):
        known = Correction((name,), (example,), True, option)
        empty = "the file name is empty"
        message = empty if not name else "it is kept as a file, never on standard output: name one"
        raise mistake(message, known, location=option[-1])
    if (problem := _without_place(option, name, example)) is not None:
        raise InputError(problem)
    if not force and exists(name):
        message = "already exists" if force is None else "already exists (use --force)"
        known = Correction((name,), (unused(name),), True, option)
        raise mistake(message, known, location=name)


def _without_place(option: tuple[str, ...], name: str, example: str) -> Problem | None:
    """Return why no file of that name can be made."""
    path = Path(name)
    try:
        if path.is_dir() or name.endswith(os.sep):
            known = Correction((name,), (str(path / example),), True, option)
            return Problem(IS_DIRECTORY, known, location=name)
        if not path.parent.exists():
            known = Correction((), (), first=f"mkdir -p {shlex.quote(str(path.parent))}")
            return Problem("there is no such directory to write it to", known, location=name)
        if not os.access(path.parent, os.W_OK):
            import tempfile

            elsewhere = str(Path(tempfile.gettempdir(), path.name))
            known = Correction((name,), (elsewhere,), True, option)
            return Problem("its directory cannot be written to", known, location=name)
    except (OSError, ValueError):
        pass  # What is wrong with the name is said when it is used.
    return None


def refuse_odd_file(name: str, example: str) -> None:
    """Raise for a directory or a pipe where one file is read, with what to do instead; never waits for a pipe."""
    try:
        path = Path(name)
        is_directory, is_pipe = path.is_dir(), path.is_fifo()
    except (OSError, ValueError):
        return
    if is_directory:
        known = Correction((name,), (str(path / example),), True)
        raise mistake(IS_DIRECTORY, known, location=name)
    if is_pipe:
        known = Correction((name,), (STDIN,))
        message = "is a pipe: name a file, or - and let the command write to this one"
        raise mistake(message, known, location=name)


def _problem(name: str, recursive: bool, otherwise: Correction | None) -> Problem | None:
    """Return what the name alone shows; what else is wrong is said when the file is read."""
    if not name:
        known = Correction((name,), ("cluster.json",), True, FILENAME)
        return Problem("the file name is empty", known, location="--filename")
    if name == STDIN and (sys.stdin is None or sys.stdin.isatty()):
        return Problem("nothing on standard input", _made_from_cluster((name,)), location=name)
    try:
        path = Path(name)
        if path.is_fifo():
            # `-f <(kubectl ...)`: such a pipe can be read only once, and may never end.
            message = "not a regular file but a pipe: pipe the command into this one and use `-f -`"
            known = Correction((name,), (STDIN,), option=FILENAME)
            return Problem(message, known, location=name)
        if path.is_dir() and not recursive:
            known = Correction((), ("-R",))
            return Problem("is a directory (use -R/--recursive)", known, location=name)
        return None if name == STDIN or path.exists() else missing_file(name, otherwise)
    except OSError as error:
        return Problem((error.strerror or "cannot be read").lower(), location=name)


def _files_in(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in islice(entries, _BESIDE_MAX) if entry.is_file())
    except (OSError, ValueError):
        return []


def _made_from_cluster(typed: tuple[str, ...], connection: str = "") -> Correction:
    """Return the command line with a new file, made by kubectl in front of it."""
    from kubectl_evictplan.sources.reading import GET_COMMAND

    name = unused("cluster.json")
    get = GET_COMMAND.replace("kubectl ", f"kubectl {connection}", 1)
    return Correction(typed, (name,) if typed else ("-f", name), first=f"{get} > {name}")


def unused(name: str) -> str:
    """Return a name like this one that no file has."""
    path = Path(name)
    names = (name, *(str(path.with_name(f"{number}-{path.name}")) for number in range(2, 100)))
    return next((other for other in names if not exists(other)), name)
