"""The journal that a command line names: what is wrong with a file that cannot be one, and what to do instead."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from kubectl_evictplan.apply.files import JOURNAL_ENDING
from kubectl_evictplan.commands.file_arguments import IS_DIRECTORY, STDIN, files_like, unused
from kubectl_evictplan.errors import Correction, InputError, Problem, help_on
from kubectl_evictplan.scenarios.names import did_you_mean

_HEAD_BYTES = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# By their first bytes: what packed a file, and what unpacks it.
_PACKED = (
    (b"\x1f\x8b", "gzip", "gunzip", (".gz",)),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd", (".zst", ".zstd")),
    (b"BZh", "bzip2", "bunzip2", (".bz2",)),
    (b"\xfd7zXZ", "xz", "unxz", (".xz",)),
)


def plan_of_journal(journal: Path) -> Path:
    """Return where the plan of a journal lies when neither was moved or renamed."""
    return journal.with_name(f"{journal.name.removesuffix(JOURNAL_ENDING)}.json")


def refuse_odd_journal(name: str, *, writes: bool = True, may_be_new: bool = False) -> None:
    """Raise InputError for what can be no journal, with what to do instead; never waits for a pipe.

    ``writes``: the run writes to it. ``may_be_new``: it need not be there yet.
    """
    try:
        problem = _problem(name, writes=writes, may_be_new=may_be_new)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        problem = Problem(reason.lower(), location=name)
    if problem is not None:
        raise InputError(problem)


def _problem(name: str, *, writes: bool, may_be_new: bool) -> Problem | None:
    if name in ("", STDIN):
        message = "a journal is a file: it is written to, and locked"
        return Problem(message, _instead(name, f"plan{JOURNAL_ENDING}", sure=False), location=name)
    path = Path(name)
    if writes and path.is_symlink():
        message = "is a symbolic link, which no journal is written through: name the file itself"
        return Problem(message, _instead(name, os.path.realpath(path)), location=name)
    if not path.exists():
        return None if may_be_new else _missing(name)
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return _directory(path, may_be_new=may_be_new)
    if not stat.S_ISREG(mode):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        message = f"is {what}: a journal is a regular file, as it is written to and read again"
        return Problem(message, _instead(name, f"plan{JOURNAL_ENDING}", sure=False), location=name)
    with path.open("rb") as stream:
        return None if may_be_new else _by_content(name, stream.read(_HEAD_BYTES))


def _missing(name: str) -> Problem:
    """Say that there is no such journal. One that is lost can be made again, where its plan is."""
    plan = plan_of_journal(Path(name))
    if not plan.is_file() or plan == Path(name):
        close = [one for one in files_like(name) if one.endswith(JOURNAL_ENDING)]
        known = _instead(name, close[0], sure=len(close) == 1) if close else help_on("apply")
        return Problem(f"no such journal{did_you_mean(close)}", known, location=name)
    adopt = Correction((), ("apply", "--adopt", str(plan)), whole=True)
    message = "no such journal; where it is lost, a new one is made from the plan and the cluster"
    return Problem(message, adopt, location=name)


def _directory(path: Path, *, may_be_new: bool) -> Problem:
    inside = sorted(path.glob(f"*{JOURNAL_ENDING}"))[:2]
    if may_be_new or not inside:
        known = _instead(str(path), str(path / f"plan{JOURNAL_ENDING}"), sure=False)
    else:
        known = _instead(str(path), str(inside[0]), sure=len(inside) == 1)
    return Problem(IS_DIRECTORY, known, location=str(path))


def _by_content(name: str, head: bytes) -> Problem | None:
    """Tell what else a file is by its first bytes; what is wrong further on is told when it is read."""
    for magic, packed, unpack, endings in _PACKED:
        if head.startswith(magic):
            return _packed(name, packed, unpack, endings)
    if head.startswith(_BYTE_ORDER_MARK) or head.split(b"\n", 1)[0].endswith(b"\r"):
        message = (
            "its bytes were changed on the way (line ends or a byte order mark), so nothing in it can be trusted:"
            " copy the original again, as a binary file"
        )
        return Problem(message, location=name)
    if b'"kind":"Plan"' in head.replace(b" ", b""):
        journal = Path(name).with_name(Path(name).name.removesuffix(".json") + JOURNAL_ENDING)
        known = _instead(name, str(journal), sure=journal.is_file())
        return Problem("is a plan: its run is told by the journal", known, location=name)
    return None


def _packed(name: str, packed: str, unpack: str, endings: tuple[str, ...]) -> Problem:
    ending = next((one for one in endings if name.endswith(one)), "")
    # Never over a file that is there: it may be the newer one.
    unpacked = unused(name.removesuffix(ending) if ending else f"{name}{JOURNAL_ENDING}")
    first = f"{unpack} < {shlex.quote(name)} > {shlex.quote(unpacked)}"
    known = Correction((name,), (unpacked,), first=first)
    return Problem(f"is compressed ({packed}): unpack it first", known, location=name)


def _instead(name: str, other: str, *, sure: bool = True) -> Correction:
    return Correction((name,), (other,), not sure)
