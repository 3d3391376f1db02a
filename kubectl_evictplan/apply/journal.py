"""The write-ahead journal: one JSON object per line, each with the digest of the line before it.

A record is durable before what it announces is done. A line counts only with its newline: what a
crash left of a line was never durable, so nothing had followed from it. ASCII throughout, so that no
string of a cluster can steer the terminal of whoever reads the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubectl_evictplan.apply.files import AppendOnly, Files
from kubectl_evictplan.apply.records import AnyRecord, Begin, Record
from kubectl_evictplan.apply.states import RunState, begun, note
from kubectl_evictplan.errors import InputError, Problem, mistake
from kubectl_evictplan.kube.api_version import API_VERSION

JOURNAL_BYTES_MAX = 1 << 30

RecordT = TypeVar("RecordT", bound=Record)


class JournalFailed(Exception):
    """A record did not become durable; ``line`` is what it would have said."""

    def __init__(self, line: bytes, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.line = line


class Journal:
    """A journal that is open for writing and locked. After a failure it takes no more records."""

    def __init__(self, file: AppendOnly, last_digest: str) -> None:
        self._file = file
        self._last_digest = last_digest
        self.failed = False

    def append(self, record: RecordT) -> RecordT:
        """Write a record and return it as written, when it is durable; else raise JournalFailed."""
        assert not self.failed, "a journal that failed takes no more records"
        record = msgspec.structs.replace(record, prev=self._last_digest)
        line = encoded(record)
        try:
            self._file.append(line)
            self._file.sync()
        except OSError as error:
            self.failed = True
            raise JournalFailed(line, error) from error
        self._last_digest = digest(line)
        return record

    def close(self) -> None:
        """Close the file and give its lock back."""
        with contextlib.suppress(OSError):
            self._file.close()


class Contents(NamedTuple):
    """What a journal holds: its records, and how many bytes and which digest they end with.

    ``torn``: more bytes follow, the rest of a record that never became durable.
    """

    records: tuple[AnyRecord, ...]
    size: int
    last_digest: str
    torn: bool


def encoded(record: Record) -> bytes:
    """Return the line of a record, newline included."""
    plain = msgspec.to_builtins(record)
    return json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def digest(line: bytes) -> str:
    """Return what the next record calls this line, newline not included."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()


def create(path: Path, files: Files, begin: Begin) -> tuple[Journal, RunState]:
    """Begin a journal: its first record and its name in the directory are durable on return.

    A file in which a run never became durable is used again. Raises InputError when there is a
    journal already or none can be written.
    """
    try:
        file = _new_file(path, files)
        journal = Journal(file, "")
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        begin = journal.append(begin)
        files.sync_directory(path)
    except (JournalFailed, OSError) as error:
        journal.close()
        with contextlib.suppress(OSError):
            files.remove(path)
        raise _unusable(path, error) from error
    return journal, begun(begin)


def _new_file(path: Path, files: Files) -> AppendOnly:
    try:
        return files.create(path)
    except FileExistsError:
        if b"\n" in files.read(path):
            raise mistake(
                "there is a journal already: go on with it (apply --resume), take it back"
                " (apply --rollback), or name another file with --journal",
                location=str(path),
            ) from None
    file = files.open(path)
    file.truncate(0)
    return file


def reopen(path: Path, files: Files) -> tuple[Journal, RunState]:
    """Open a journal to go on with it; what a crash left of a last line is dropped.

    Raises InputError when it is missing, damaged, of another version, or a process works with it.
    """
    try:
        file = files.open(path)
    except BlockingIOError:
        raise mistake(
            "a process works with this journal right now: wait for it, or stop it with SIGINT",
            location=str(path),
        ) from None
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        contents = read(path, files)
        state = added_up(path, contents)
        if contents.torn:
            file.truncate(contents.size)
            file.sync()
        # The process that made the file may have died before its name was durable.
        files.sync_directory(path)
    except OSError as error:
        file.close()
        raise _unusable(path, error) from error
    except InputError:
        file.close()
        raise
    return Journal(file, contents.last_digest), state


def read(path: Path, files: Files) -> Contents:
    """Read a journal and verify its chain. Raises InputError naming the line that is wrong."""
    try:
        data = files.read(path)
    except OSError as error:
        raise _unusable(path, error) from error
    if len(data) > JOURNAL_BYTES_MAX:
        raise mistake(f"larger than {JOURNAL_BYTES_MAX} bytes", location=str(path))
    size = data.rfind(b"\n") + 1
    records: list[AnyRecord] = []
    last_digest = ""
    for number, line in enumerate(data[:size].split(b"\n")[:-1], start=1):
        record = _record(path, number, line)
        if record.prev != last_digest:
            raise _damaged(path, number, "does not follow from the line before it", record.prev)
        last_digest = digest(line)
        records.append(record)
    if not records:
        raise mistake("no run was begun here: nothing was sent", location=str(path))
    return Contents(tuple(records), size, last_digest, size < len(data))


def added_up(path: Path, contents: Contents) -> RunState:
    """Return what the records add up to. Raises InputError for records in no possible order."""
    first, *rest = contents.records
    if not isinstance(first, Begin):
        raise _damaged(path, 1, "the first record is not the beginning of a run", None)
    state = begun(first)
    for number, record in enumerate(rest, start=2):
        try:
            note(state, record)
        except (KeyError, ValueError) as error:
            raise _damaged(path, number, "cannot stand here", str(error)) from None
    return state


def _record(path: Path, number: int, line: bytes) -> AnyRecord:
    try:
        plain: Any = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        raise _damaged(path, number, "not a JSON object in ASCII", None) from None
    if number == 1 and isinstance(plain, dict):
        version = plain.get("apiVersion")
        if plain.get("record") == "begin" and version != API_VERSION:
            raise InputError(
                Problem(
                    "a journal of another version of this program: use that one",
                    location=f"{path}:1",
                    field="apiVersion",
                    got=version,
                    expected=API_VERSION,
                )
            )
    try:
        record: AnyRecord = msgspec.convert(plain, AnyRecord, strict=True)
    except msgspec.ValidationError as error:
        raise _damaged(path, number, "not a record of a journal", str(error)) from None
    return record


def _damaged(path: Path, number: int, message: str, got: object) -> InputError:
    return InputError(
        Problem(
            f"the journal is damaged: {message}; nothing was sent."
            " Find out the state of the nodes by hand, or restore the file",
            location=f"{path}:{number}",
            got=got,
        )
    )


def _unusable(path: Path, error: Exception) -> InputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return mistake(
        f"the journal cannot be used: {reason}; nothing was sent."
        " Name a file on a local disk with --journal",
        location=str(path),
    )
