"""The plan file that a command line names."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.file_arguments import exists, files_like
from kubectl_evictplan.errors import Correction, InputError, ProblemsError, help_on, mistake
from kubectl_evictplan.scenarios.names import did_you_mean

if TYPE_CHECKING:
    from kubectl_evictplan.plans.document import Plan


def read_plan_file(file: str, journal: Path | None = None) -> Plan:
    """Return the plan in a file, that of the run of ``journal``; raises InputError, or DriftError when it was changed."""
    from kubectl_evictplan.plans.reading import read_plan
    from kubectl_evictplan.sources.reading import ReadProblem, read

    if not exists(file):
        raise odd_file(file) or _missing(file, journal)
    try:
        data = read(file, sys.stdin.buffer if sys.stdin is not None else None).data
    except ReadProblem as refused:
        raise mistake(str(refused), location=file) from None
    try:
        return read_plan(data, file)
    except ProblemsError as error:
        for problem in error.problems:
            problem.correction = help_on("apply")
        raise


def odd_file(file: str) -> InputError | None:
    """Return what to do about a name that is there and is no file."""
    if not file:
        return mistake("the plan's file name is empty", Correction((file,), ("plan.json",), True))
    path = Path(file)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        if not path.is_symlink():
            return None
        message = "is a symbolic link to a file that is not there: name the plan itself"
        return mistake(message, Correction((file,), ("plan.json",), True), location=file)
    if stat.S_ISDIR(mode):
        known = Correction((file,), (str(path / "plan.json"),), True)
        return mistake("is a directory: name the plan in it", known, location=file)
    message = "is a pipe or a device: what was reviewed is a file, as it is read again and a journal lies beside it"
    return mistake(message, Correction((file,), ("plan.json",), True), location=file)


def _missing(file: str, journal: Path | None) -> InputError:
    if journal is not None:
        words = ("apply", "PATH/plan.json", "--resume", str(journal))
        message = "the plan of this run is not there: name the file that it was made from"
        return mistake(message, Correction((), words, example=True, whole=True), location=file)
    if close := files_like(file):
        known = Correction((file,), (close[0],), example=len(close) > 1)
        return mistake(f"no such plan{did_you_mean(close)}", known, location=file)
    make = ("what-if", "cordon", "NODE", "--out", file)
    known = Correction((), make, example=True, whole=True)
    return mistake("no such plan: what-if makes it, with --out", known, location=file)
