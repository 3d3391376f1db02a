"""The write-ahead journal: one JSON object per line, each with the digest of the line before it.

A record is durable before what it announces is done. A line counts only with its newline: what a
crash left of a line was never durable, so nothing had followed from it. ASCII throughout, so that no
string of a cluster can steer the terminal of whoever reads the file.

A chain does not see its own end, so each line also holds the digest of itself (``sum``), and the lock in the
cluster knows how far the journal had come (``Head``): lines that are missing at the end are missed there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubectl_evictplan.apply.files import AppendOnly, Files, Held
from kubectl_evictplan.apply.records import AnyRecord, Begin, Intent, Record
from kubectl_evictplan.apply.states import RunState, begun, note
from kubectl_evictplan.errors import InputError, Problem, mistake
from kubectl_evictplan.kube.api_version import API_VERSION

JOURNAL_BYTES_MAX = 1 << 30
# Room on the disk: for each operation of a run that meets nothing unusual; beside that always for what may
# still have to be written after a mutation was sent: results of all that is under way, and the end.
OPERATION_BYTES = 4096
ENDING_BYTES = 1 << 18
# A result holds what came back, at most about as often as the intent held what was sent.
_PER_INTENT = 4
# How the first line of every journal begins.
_FIRST_BYTES = b'{"record":"begin","prev":"","at":"'

RecordT = TypeVar("RecordT", bound=Record)


class JournalFailed(Exception):
    """A record did not become durable; ``line`` is what it would have said."""

    def __init__(self, line: bytes, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.line = line


class Head(NamedTuple):
    """How far a run's journal has come: its number of lines and the digest of the last one.

    As text ``RUN/LINES/DIGEST``; that is what the lock in the cluster keeps.
    """

    run_id: str
    lines: int
    digest: str

    def __str__(self) -> str:
        return f"{self.run_id}/{self.lines}/{self.digest}"


def head_of(text: str) -> Head | None:
    """Return the head that a text names; None when it names none."""
    run_id, _, rest = text.partition("/")
    lines, _, found = rest.partition("/")
    if not (run_id and found and lines.isascii() and lines.isdecimal()):
        return None
    return Head(run_id, int(lines[:18]), found)


class Journal:
    """A journal that is open for writing and locked. After a failure it takes no more records.

    ``digests`` are those of the lines it has. ``held``, when there is one, is given back with the file.
    """

    def __init__(
        self, file: AppendOnly, run_id: str, digests: list[str], *, is_new: bool = False
    ) -> None:
        self._file = file
        self._is_new = is_new
        self._run_id = run_id
        self._digests = digests
        self.held: Held | None = None
        # Bytes that were reserved and not used yet.
        self._room = 0
        self.failed = False

    @property
    def head(self) -> Head:
        """How far it has come; durable."""
        return Head(self._run_id, len(self._digests), self._digests[-1])

    def holds(self, head: Head) -> bool:
        """Whether the journal had that head once; True for one of another run, of which it knows nothing."""
        if head.run_id != self._run_id:
            return True
        known = 0 < head.lines <= len(self._digests)
        return known and self._digests[head.lines - 1] == head.digest

    def append(self, record: RecordT) -> RecordT:
        """Write a record and return it as written, when it is durable; else raise JournalFailed.

        An intent is only written when there is room for what will have to follow from it: a disk that
        fills up is found out before a mutation, not between it and its result.
        """
        assert not self.failed, "a journal that failed takes no more records"
        record = msgspec.structs.replace(record, prev=self._digests[-1] if self._digests else "")
        line = encoded(record)
        if isinstance(record, Intent):
            self.make_room(_PER_INTENT * len(line))
        try:
            self._file.append(line)
            self._file.sync()
        except OSError as error:
            self.failed = True
            raise JournalFailed(line, error) from error
        self._room -= len(line)
        self._digests.append(digest(line))
        return record

    def make_room(self, size: int) -> None:
        """Have room for ``size`` bytes and the end of the run; raises JournalFailed, and stays usable."""
        if self._room >= size + ENDING_BYTES:
            return
        size += 2 * ENDING_BYTES
        try:
            self._file.reserve(size)
        except OSError as error:
            raise JournalFailed(b"", error) from error
        self._room = size

    def discard(self, path: Path, files: Files) -> None:
        """Close a journal that never began a run: gone when it is new; a file that was there stays, empty."""
        with contextlib.suppress(OSError):
            if self._is_new:
                files.remove(path)
            else:
                self._file.truncate(0)
        self.close()

    def close(self) -> None:
        """Close the file, give its lock and the run back."""
        with contextlib.suppress(OSError):
            self._file.close()
        if self.held is not None:
            self.held.release()


class Contents(NamedTuple):
    """What a journal holds: its records, the digests of their lines, and how many bytes they are.

    ``torn``: more bytes follow, the rest of a record that never became durable.
    """

    records: tuple[AnyRecord, ...]
    size: int
    digests: list[str]
    torn: bool


def encoded(record: Record) -> bytes:
    """Return the line of a record, newline included: ``sum`` is the digest of the line without it."""
    plain = msgspec.to_builtins(record)
    return summed(json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode("ascii"))


def digest(line: bytes) -> str:
    """Return what the next record calls this line, newline not included."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()


def summed(line: bytes) -> bytes:
    """Return a JSON object with its ``sum``, as a line of a journal."""
    return line[:-1] + b',"sum":"' + digest(line).encode("ascii") + b'"}\n'


def _without_sum(line: bytes) -> bytes | None:
    """Return a line without its ``sum``; None when that is missing, or of another line."""
    whole, mark, _ = line.rpartition(b',"sum":"')
    return whole + b"}" if mark and summed(whole + b"}") == line + b"\n" else None


def create(path: Path, files: Files, begin: Begin) -> tuple[Journal, RunState]:
    """Begin a journal: its first record and its name in the directory are durable on return.

    Room for the run is reserved. A file in which a run never became durable is used again. Raises
    InputError when there is a journal already or none can be written.
    """
    try:
        file, is_new = _new_file(path, files)
        journal = Journal(file, begin.run_id, [], is_new=is_new)
    except OSError as error:
        raise unusable(path, error) from error
    try:
        journal.held = _held(path, files, begin.run_id, alone=begin.lock is None)
        journal.make_room(OPERATION_BYTES * len(begin.operations) + len(encoded(begin)))
        begin = journal.append(begin)
        files.sync_directory(path)
    except (JournalFailed, OSError, InputError) as error:
        journal.discard(path, files)
        if isinstance(error, InputError):
            raise
        raise unusable(path, error) from error
    return journal, begun(begin)


def _held(path: Path, files: Files, run_id: str, *, alone: bool) -> Held | None:
    """Hold the run itself: its journal may have been copied. ``alone``: no lock in the cluster does so."""
    try:
        return files.hold(run_id)
    except BlockingIOError:
        raise mistake(
            "a process works with a copy of this journal right now: wait for it, or stop it with SIGINT",
            location=str(path),
        ) from None
    except OSError as error:
        if not alone:
            return None
        reason = error.strerror or str(error)
        raise mistake(
            f"without the lock in the cluster a run is held in a file of your own, and that cannot be"
            f" written: {reason}; nothing was sent. Name a folder with XDG_STATE_HOME",
            location=str(error.filename or path),
        ) from error


def _new_file(path: Path, files: Files) -> tuple[AppendOnly, bool]:
    """Return an empty file, and whether it was made just now."""
    try:
        return files.create(path), True
    except FileExistsError:
        _refuse_used(path, files.read(path))
    file = files.open(path)
    try:
        # Once more, now that nobody else can write it.
        _refuse_used(path, files.read(path))
        file.truncate(0)
    except (OSError, InputError):
        file.close()
        raise
    return file, False


def _refuse_used(path: Path, data: bytes) -> None:
    """Raise for a file that is anything but empty, or what a crash left of a first line."""
    begins = data.startswith(_FIRST_BYTES)
    if b"\n" in data and begins:
        raise mistake(
            "there is a journal already: go on with it (apply --resume), take it back"
            " (apply --rollback), or name another file with --journal",
            location=str(path),
        )
    if not (begins or _FIRST_BYTES.startswith(data)):
        raise mistake(
            "there is a file already, which is no journal: name another with --journal",
            location=str(path),
        )


def never_begun(data: bytes) -> bool:
    """Tell whether a file holds at most a part of a first record, which never became durable: nothing was sent.

    Nothing but NUL bytes may be a journal that its file system has lost.
    """
    return b"\n" not in data and (data.startswith(_FIRST_BYTES) or _FIRST_BYTES.startswith(data))


def reopen(path: Path, files: Files, *, alone: bool) -> tuple[Journal, RunState]:
    """Open a journal to go on with it; what a crash left of a last line is dropped.

    ``alone``: no lock in the cluster keeps others away. Raises InputError when it is missing, damaged, of
    another version, or a process works with it or with a copy of it.
    """
    try:
        file = files.open(path)
    except BlockingIOError:
        raise mistake(
            "a process works with this journal right now: wait for it, or stop it with SIGINT",
            location=str(path),
        ) from None
    except OSError as error:
        raise unusable(path, error) from error
    journal = Journal(file, "", [])
    try:
        contents = read(path, files)
        state = added_up(path, contents)
        journal = Journal(file, state.begin.run_id, contents.digests)
        journal.held = _held(path, files, state.begin.run_id, alone=alone)
        if contents.torn:
            file.truncate(contents.size)
            file.sync()
        # The process that made the file may have died before its name was durable.
        files.sync_directory(path)
    except OSError as error:
        journal.close()
        raise unusable(path, error) from error
    except InputError:
        journal.close()
        raise
    return journal, state


def read(path: Path, files: Files) -> Contents:
    """Read a journal and verify its chain. Raises InputError naming the line that is wrong."""
    try:
        data = files.read(path)
    except OSError as error:
        raise unusable(path, error) from error
    if len(data) > JOURNAL_BYTES_MAX:
        raise mistake(f"larger than {JOURNAL_BYTES_MAX} bytes", location=str(path))
    size = data.rfind(b"\n") + 1
    records: list[AnyRecord] = []
    digests = [""]
    for number, line in enumerate(data[:size].split(b"\n")[:-1], start=1):
        record = _record(path, number, line)
        if record.prev != digests[-1]:
            raise _damaged(path, number, "does not follow from the line before it", record.prev)
        digests.append(digest(line))
        records.append(record)
    if not records and not never_begun(data):
        raise _damaged(path, 1, "not a JSON object in ASCII", None)
    if not records:
        raise mistake("no run was begun here: nothing was sent", location=str(path))
    return Contents(tuple(records), size, digests[1:], size < len(data))


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
    if _without_sum(line) is None:
        raise _damaged(path, number, "was changed after it was written", None)
    plain.pop("sum")
    try:
        record: AnyRecord = msgspec.convert(plain, AnyRecord, strict=True)
    except msgspec.ValidationError as error:
        raise _damaged(path, number, "not a record of a journal", str(error)) from None
    return record


def _damaged(path: Path, number: int, message: str, got: object) -> InputError:
    other = "this is no journal, or " if number == 1 else ""
    return InputError(
        Problem(
            f"{other}the journal is damaged: {message}; nothing was sent now. Restore the file, or make a new one"
            " from the plan and the cluster: apply --adopt PLAN --journal FILE",
            location=f"{path}:{number}",
            got=got,
        )
    )


def unusable(path: Path, error: Exception) -> InputError:
    """Return why no journal can be kept there."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return mistake(
        f"the journal cannot be used: {reason}; nothing was sent."
        " Name a file on a local disk with --journal",
        location=str(path),
    )
