"""Files inside gzip, tar and zip, one after the other, from a stream.

Nothing is ever extracted: a member is bytes and a name that is shown and never used as a path, so no
name can lead anywhere. Only plain files are opened; links and devices are counted. Every size is
bounded before it is spent: a single request (so that no header of a gigabyte is read), one member,
everything unpacked, and everything unpacked against the bytes that it came from.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from kubectl_evictplan.sources.reading import (
    JSON_BYTES_MAX,
    MIB,
    ReadProblem,
    archive_type,
    bytes_max,
    is_manifest_name,
    looks_like_json,
    plain_name,
)

MEMBERS_MAX = 200_000
# Logs are unpacked on the way through a tar, and never kept.
UNPACKED_BYTES_MAX = 32 << 30
# Lists of objects shrink twenty times with gzip and a hundred times with zstd's upper levels, which see
# repetitions from afar; dull logs two hundred; a bomb shrinks a thousand times. What is kept in memory
# counts for more than what is only passed over.
RATIO_MAX, KEPT_RATIO_MAX = 500, 200
RATIO_CHECKED_ABOVE = 64 * MIB
# A gzip is a level too: one of a tar of one file each in a zip has five.
DEPTH_MAX = 5
# A zip inside an archive is held in memory: its directory stands at its end.
INNER_ZIP_BYTES_MAX = 256 * MIB

_CHUNK = MIB
# The longest extended header of a tar, and the directory of a zip of some hundred thousand members.
_TAR_REQUEST_MAX, _ZIP_REQUEST_MAX = 4 * MIB, 32 * MIB
_HEAD = 512
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ARCHIVE_NAME = re.compile(r"\.(tar|tar\.gz|tar\.zst|tgz|zip)$", re.IGNORECASE)
_LOG_NAME = re.compile(
    r"(\.log|\.txt|\.journal|/(current|previous)(\.log)?)(\.gz)?$", re.IGNORECASE
)

_ABSURD = "unpacks to an absurd size"
_NO_ZSTD = "compressed with zstd, which needs a library: pip install 'kubectl-evictplan[zstd]', or unpack it first (zstdcat)"
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    gzip.BadGzipFile,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)


class Member(NamedTuple):
    """A manifest in an archive: its name there, and its bytes."""

    name: str
    data: bytes


def members(stream: BinaryIO, size: int, skipped: Counter[str]) -> Iterator[Member]:
    """Yield the manifests in an archive, in its own order.

    ``stream`` can seek and stands at its beginning; ``size`` is its length in bytes. What is not
    opened is counted in ``skipped`` by what it is. A compressed single file is one member without a
    name. Raises ReadProblem for whatever is damaged, encrypted or too big; what was yielded before is
    then only a part.
    """
    walk = _Walk(size, skipped)
    try:
        yield from walk.open(_Forward(stream.read, walk.spend), stream, "", 1)
    except _DAMAGED as error:
        raise ReadProblem(f"damaged or cut archive ({_reason(error)})") from None


def what_it_is(name: str) -> str:
    """Return what a file that is not read is counted as."""
    return "logs" if _LOG_NAME.search(name) else "other files"


def _reason(error: Exception) -> str:
    """Return what is wrong with an archive, where the library says it as one programmer to another."""
    if isinstance(error, gzip.BadGzipFile) and str(error).startswith("Not a gzipped file"):
        return "what follows the compressed data is not gzip"
    if isinstance(error, EOFError):
        return "it ends too early: was it copied as a whole?"
    return str(error) or type(error).__name__


class _Walk:
    """What is common to an archive and the archives in it."""

    def __init__(self, size: int, skipped: Counter[str]) -> None:
        self._allowed = min(UNPACKED_BYTES_MAX, max(RATIO_CHECKED_ABOVE, RATIO_MAX * size))
        self._kept_max = max(RATIO_CHECKED_ABOVE, KEPT_RATIO_MAX * size)
        self._spent = 0
        self._count = 0
        self._skipped = skipped

    def spend(self, size: int) -> None:
        """Count unpacked bytes."""
        self._spent += size
        if self._spent > self._allowed:
            raise ReadProblem(_ABSURD)

    def spend_kept(self, size: int) -> None:
        """Count unpacked bytes of a text of which all must be allowed in memory, as if it were kept there."""
        self.spend(size)
        if self._spent > min(JSON_BYTES_MAX, self._kept_max):
            raise ReadProblem(_ABSURD)

    def open(
        self, source: _Forward, seekable: BinaryIO | None, name: str, depth: int
    ) -> Iterator[Member]:
        """Yield what a stream holds, itself when it is no archive."""
        kind = archive_type(source.head)
        if kind and depth > DEPTH_MAX:
            raise ReadProblem(f"archives nested deeper than {DEPTH_MAX}")
        if kind in _DECOMPRESSORS:
            unpacked = _DECOMPRESSORS[kind](_reader(source))
            inner = _Forward(unpacked.read, self.spend)
            yield from self.open(inner, None, _without_compression(name), depth + 1)
        elif kind == "tar":
            yield from self._tar(source, name, depth)
        elif kind == "zip":
            try:
                stream = seekable or io.BytesIO(source.rest(INNER_ZIP_BYTES_MAX))
            except _TooLong:
                message = f"{name}: larger than {INNER_ZIP_BYTES_MAX // MIB} MiB: unpack it first"
                raise ReadProblem(message) from None
            yield from self._zip(stream, name, depth)
        elif _ARCHIVE_NAME.search(name):
            raise ReadProblem(f"{name}: not the archive that its name says")
        else:
            limit = bytes_max(source.head)
            try:
                yield Member(name, source.rest(min(limit, self._kept_max)))
            except _TooLong:
                if limit > self._kept_max:
                    raise ReadProblem(_ABSURD) from None
                raise ReadProblem(
                    f"{name}: larger than {limit // MIB} MiB".removeprefix(": ")
                ) from None

    def _member(
        self, name: str, outer: str, open_: Callable[[], Any], depth: int
    ) -> Iterator[Member]:
        self._count += 1
        if self._count > MEMBERS_MAX:
            raise ReadProblem(f"holds more than {MEMBERS_MAX} files")
        inner = str(PurePosixPath(outer, name.lstrip("/"))) if outer else name
        if is_manifest_name(name.lower()) or _ARCHIVE_NAME.search(name):
            with open_() as stream:
                yield from self.open(_Forward(stream.read, self.spend), None, inner, depth + 1)
        else:
            self._skipped[what_it_is(name)] += 1

    def _tar(self, source: _Forward, name: str, depth: int) -> Iterator[Member]:
        tar: Any
        with tarfile.open(fileobj=_as_file(source), mode="r:") as tar:
            while (member := tar.next()) is not None:
                # Else it keeps every member that it has seen.
                tar.members.clear()
                if member.isdir():
                    continue
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                    self._skipped["links and special files"] += 1
                    continue
                open_ = partial(tar.extractfile, member)
                yield from self._member(member.name, name, open_, depth)
        # A header that makes no sense ends the loop just as the end does.
        if not source.last or source.last.strip(b"\0"):
            raise ReadProblem("damaged or cut archive (it does not end as a tar does)")
        while source.read(_CHUNK):
            pass  # so that gzip compares its checksum

    def _zip(self, stream: BinaryIO, name: str, depth: int) -> Iterator[Member]:
        with zipfile.ZipFile(_as_file(_Seekable(stream))) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                if member.flag_bits & 1:
                    raise ReadProblem("encrypted: unpack it first")
                if member.compress_type not in _ZIP_METHODS:
                    raise ReadProblem("compressed in a way that is not accepted: unpack it first")
                open_ = partial(archive.open, member)
                yield from self._member(member.filename, name, open_, depth)


def unpacked(archive: BinaryIO) -> Callable[[int], bytes] | None:
    """Return how to read, piece by piece, what a single compressed file holds; None for other archives.

    The same sizes are refused as for ``members``; ``archive`` stands at its beginning. What is returned raises
    ReadProblem.
    """
    size = archive.seek(0, os.SEEK_END)
    archive.seek(0)
    walk = _Walk(size, Counter())
    source = _Forward(archive.read, walk.spend)
    open_ = _DECOMPRESSORS.get(archive_type(source.head))
    if open_ is None:
        return None
    try:
        inner = _Forward(open_(_reader(source)).read, walk.spend_kept)
    except (*_DAMAGED, ReadProblem):
        return None
    if archive_type(inner.head) or not looks_like_json(inner.head):
        return None

    def read(size: int) -> bytes:
        try:
            return inner.read(size)
        except _DAMAGED as error:
            raise ReadProblem(_reason(error)) from None

    return read


def _gunzipped(source: BinaryIO) -> Any:
    return gzip.GzipFile(fileobj=source)


def _unzstd(source: BinaryIO) -> Any:
    try:
        # Of Python 3.14, and what brings it to those before.
        zstd: Any = import_module("compression.zstd")
    except ImportError:
        try:
            zstd = import_module("backports.zstd")
        except ImportError:
            raise ReadProblem(_NO_ZSTD) from None
    return _Zstd(zstd.ZstdFile(source), zstd.ZstdError)


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {"gzip": _gunzipped, "zstd": _unzstd}


class _Zstd:
    """A stream that zstd unpacks; whose error is no error of the standard library before 3.14."""

    def __init__(self, stream: Any, error: type[Exception]) -> None:
        self._stream = stream
        self._error = error

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; raises EOFError for a text that was cut, ValueError for a damaged one."""
        try:
            data: bytes = self._stream.read(size)
        except self._error as error:
            raise ValueError(str(error)) from None
        return data


class _TooLong(Exception):
    """What is left of a stream does not fit."""


class _Forward:
    """A stream that is read forward only: ``head`` is known before, ``last`` was read last."""

    def __init__(self, read: Callable[[int], bytes], spend: Callable[[int], None]) -> None:
        self._read = read
        self._spend = spend
        self._position = 0
        self.head = self._pending = b""
        self.last = b""
        while len(self.head) < _HEAD and (more := self._take(_HEAD - len(self.head))):
            self.head += more
        self._pending = self.head

    def _take(self, size: int) -> bytes:
        data = self._read(size)
        self._spend(len(data))
        return data

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes."""
        if not 0 <= size <= _TAR_REQUEST_MAX:
            raise ReadProblem("damaged archive (a header of absurd size)")
        data, self._pending = self._pending[:size], self._pending[size:]
        while len(data) < size and (more := self._take(size - len(data))):
            data += more
        self._position += len(data)
        self.last = data
        return data

    def rest(self, limit: int) -> bytes:
        """Return everything that is left; raise _TooLong for more than ``limit`` bytes."""
        chunks, size = [], 0
        while chunk := self.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise _TooLong
        return b"".join(chunks)

    def tell(self) -> int:
        """Return how much was read."""
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go forward."""
        if whence or offset < self._position:
            raise ReadProblem("damaged archive (it points backwards)")
        while self._position < offset and self.read(min(_CHUNK, offset - self._position)):
            pass
        return self._position


class _Seekable:
    """A seekable stream that refuses absurd requests."""

    def __init__(self, stream: BinaryIO) -> None:
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes; -1 is what stands behind the directory of a zip."""
        if size > _ZIP_REQUEST_MAX:
            raise ReadProblem("damaged archive, or one of too many files")
        return self._stream.read(_ZIP_REQUEST_MAX if size < 0 else size)


class _Raw(io.RawIOBase):
    """A forward stream as the standard library wants it."""

    def __init__(self, source: _Forward) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(min(len(buffer), _CHUNK))
        buffer[: len(data)] = data
        return len(data)


def _reader(source: _Forward) -> BinaryIO:
    return io.BufferedReader(_Raw(source), _CHUNK)


def _as_file(stream: _Forward | _Seekable) -> Any:
    """Return it as what the standard library's types ask for; it calls read, seek and tell only."""
    return stream


def _without_compression(name: str) -> str:
    if name.lower().endswith(".tgz"):
        return f"{name[:-4]}.tar"
    return name[: len(plain_name(name.lower()))]
