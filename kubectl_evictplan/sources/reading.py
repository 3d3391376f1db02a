"""Bytes from files and standard input, refused early when they cannot be what is wanted.

Rules: only regular files (and standard input); every size is capped before it is read; our own
snapshots are told from other gzip by their first bytes, before the rest is unpacked; what is returned
is UTF-8 without a byte order mark. Every refusal is a ``ReadProblem`` for one file. Archives and
other gzip are ``archives``' to open.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import zlib
from pathlib import Path
from typing import BinaryIO, NoReturn

import msgspec

MIB = 1 << 20
YAML_BYTES_MAX = 64 * MIB
JSON_BYTES_MAX = 4096 * MIB
SNAPSHOT_BYTES_MAX = 512 * MIB
FILES_MAX = 100_000
EXTENSIONS = (".yaml", ".yml", ".json")
# An object on each line.
LINES_ENDINGS = (".ndjson", ".jsonl")
COMPRESSED_ENDINGS = (".gz", ".zst")
STDIN = "-"
# The output of this command is everything that a prediction can use; for hints.
GET_COMMAND = (
    "kubectl get nodes,pods,leases,namespaces,deployments,replicasets,statefulsets,daemonsets,jobs,"
    "replicationcontrollers,poddisruptionbudgets,services,endpointslices,persistentvolumes,"
    "persistentvolumeclaims,storageclasses,csinodes,csidrivers,csistoragecapacities -A -o json"
)

_CHUNK = MIB
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Seekable and parallel writers put such a frame first: 0x50 to 0x5f, then these three bytes.
_ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
# A snapshot of 150,000 pods has 25 MiB and shrinks five times, a prediction of 51,000 evictions has 130 MiB
# and shrinks thirty times; a bomb shrinks a thousand times.
_RATIO_MAX = 60
_RATIO_CHECKED_ABOVE = 64 * MIB
_SNAPSHOT_MARK = b"evictplan.dev/"
LOG_MARK = b"==== START logs for container "
_MAGIC = (
    (b"\x89PNG", "looks like binary (PNG)"),
    (b"\x7fELF", "looks like binary (ELF)"),
    (b"%PDF", "looks like binary (PDF)"),
    (b"GIF8", "looks like binary (GIF)"),
    (b"\xff\xd8\xff", "looks like binary (JPEG)"),
    (b"PK\x03\x04", "archives are not accepted here (ZIP): unpack it first"),
    (ZSTD_MAGIC, "compressed with zstd: unpack it first (zstdcat)"),
    (b"BZh", "compressed with bzip2: unpack it first (bzcat)"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first (xzcat)"),
)
_UTF_16 = (
    "not UTF-8 (looks like UTF-16 or UTF-32): where PowerShell's `>` wrote it, use "
    "`| Out-File -Encoding utf8 FILE`"
)
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# The words that `kubectl get` prints above a table, and what it and its plugins say before JSON.
_TABLE = rb"(NAMESPACE {2,})?NAME {2,}[A-Z]|(node|pod)/[a-z0-9.-]+(\r?\n|$)"
_DESCRIPTION = rb"Name: {3,}\S"
_MESSAGE = (
    rb"(Warning: |Error from server|[eE]rror: |Flag --|[WEI]\d{4} |Unable to connect to the server|"
    rb"The connection to the server|No resources found)[^\r\n]*"
)


class ReadProblem(Exception):
    """One input that cannot be used as bytes; the text says why."""


class Content(msgspec.Struct, frozen=True):
    """One input's bytes. ``name`` is as the user gave it; ``changed`` says it was read twice."""

    name: str
    data: bytes
    compressed: bool = False
    changed: bool = False
    # What `kubectl cluster-info dump` prints: objects, and logs that need be no UTF-8.
    has_logs: bool = False

    def ends_with(self, *endings: str) -> bool:
        """Tell whether the name, without a compression's ending, ends so."""
        return plain_name(self.name).endswith(endings)

    def is_json(self) -> bool:
        """Tell by the first character that is not blank."""
        return looks_like_json(self.data[:4096])


def plain_name(name: str) -> str:
    """Return a name without the ending of a compression."""
    return next((name.removesuffix(end) for end in COMPRESSED_ENDINGS if name.endswith(end)), name)


def looks_like_json(head: bytes) -> bool:
    """Tell JSON from YAML by the first character; ``{{`` is a template, not JSON."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    return text[:1] in (b"{", b"[") and text[:2] not in (b"{{", b"{%")


def read(name: str, stdin: BinaryIO | None) -> Content:
    """Return the bytes of a file, or of standard input."""
    return content(STDIN, stdin_bytes(stdin)) if name == STDIN else _read_file(name)


def archive_type(head: bytes) -> str:
    """Return "zip", "gzip", "zstd" or "tar" by a file's first 512 bytes, else ""."""
    if head.startswith(_ZIP_MAGICS):
        return "zip"
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    if head.startswith(ZSTD_MAGIC) or _begins_with_skippable_frame(head):
        return "zstd"
    return "tar" if head[257:262] == b"ustar" else ""


def _begins_with_skippable_frame(head: bytes) -> bool:
    return head[1:4] == _ZSTD_SKIPPABLE_MAGIC and head[0] >> 4 == 5


def is_archive(head: bytes) -> bool:
    """Tell whether files are to be looked for inside; our own compressed snapshot is one file."""
    return bool(archive_type(head)) and not is_our_snapshot(head)


def is_our_snapshot(head: bytes) -> bool:
    """Tell by the first bytes of a gzip."""
    if not head.startswith(GZIP_MAGIC):
        return False
    try:
        return _SNAPSHOT_MARK in zlib.decompressobj(wbits=31).decompress(head, 200)
    except zlib.error:
        return False


def open_archive(name: str) -> BinaryIO | None:
    """Return the archive of that name; None for any other file, and for what is no file."""
    try:
        if not stat.S_ISREG(Path(name).stat().st_mode):
            return None
        stream = Path(name).open("rb")  # noqa: SIM115 - the caller closes it
    except (OSError, ValueError):
        return None
    if is_archive(stream.read(4096)):
        stream.seek(0)
        return stream
    stream.close()
    return None


def stdin_bytes(stream: BinaryIO | None) -> bytes:
    """Return all of standard input."""
    if stream is None or stream.isatty():
        # Rather than wait for a terminal.
        raise ReadProblem("nothing on standard input")
    chunks: list[bytes] = []
    size, limit = 0, JSON_BYTES_MAX
    while chunk := stream.read(_CHUNK):
        limit = limit if chunks else bytes_max(chunk)
        size += len(chunk)
        if size > limit:
            raise ReadProblem(_too_big(limit))
        chunks.append(chunk)
    return b"".join(chunks)


def takes_a_while(name: str) -> bool:
    """Tell whether a file is so large a snapshot that unpacking it takes longer than beginning something else beside."""
    try:
        if Path(name).stat().st_size < MIB:
            return False
        with Path(name).open("rb") as stream:
            return stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    except (OSError, ValueError):
        return False


def _read_file(name: str) -> Content:
    """Return a regular file's bytes, read again once if it changed meanwhile."""
    try:
        first, data = _read_regular(name)
        if state(Path(name).stat()) == first:
            return content(name, data)
        second, data = _read_regular(name)
        if state(Path(name).stat()) != second:
            raise ReadProblem("keeps changing while it is read")
        return content(name, data, changed=True)
    except OSError as error:
        raise ReadProblem(_reason(error)) from None
    except ValueError:
        raise ReadProblem("not a usable file name") from None


def _read_regular(name: str) -> tuple[tuple[int, int, int], bytes]:
    status = Path(name).stat()
    if stat.S_ISDIR(status.st_mode):
        raise ReadProblem("is a directory (use -R/--recursive)")
    if not stat.S_ISREG(status.st_mode):
        raise ReadProblem("not a regular file")
    with Path(name).open("rb") as stream:
        opened = os.fstat(stream.fileno())
        limit = bytes_max(stream.read(4096))
        if opened.st_size > limit:
            raise ReadProblem(_too_big(limit))
        stream.seek(0)
        return state(opened), stream.read(opened.st_size)


def state(status: os.stat_result) -> tuple[int, int, int]:
    """Return what is another where a file was written again."""
    return status.st_size, status.st_mtime_ns, status.st_ino


def bytes_max(head: bytes) -> int:
    """Return how long a file may be that begins like this."""
    if archive_type(head):
        return SNAPSHOT_BYTES_MAX
    return JSON_BYTES_MAX if looks_like_json(head) else YAML_BYTES_MAX


def _too_big(limit: int) -> str:
    hint = "; convert it with `kubectl get -o json`" if limit == YAML_BYTES_MAX else ""
    return f"larger than {limit // MIB} MiB{hint}"


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return (error.strerror or "cannot be read").lower()


def content(name: str, data: bytes, *, changed: bool = False) -> Content:
    """Return bytes as text that can be parsed; raises ReadProblem for what is none."""
    compressed = data.startswith(GZIP_MAGIC)
    if compressed:
        data = gunzip_snapshot(data)
    for magic, reason in _MAGIC:
        if data.startswith(magic):
            raise ReadProblem(reason)
    if data.startswith(_UTF_16_MARKS):
        raise ReadProblem(_UTF_16)
    if archive_type(data[:512]) == "tar":
        raise ReadProblem("archives are not accepted here (tar): unpack it first")
    if data.startswith(codecs.BOM_UTF8):
        data = data[3:]
    # Nobody looks for logs in a snapshot of ours.
    has_logs = not compressed and LOG_MARK in data
    if not has_logs:
        check_utf8(data)
    return Content(name, data, compressed, changed, has_logs)


def what_kubectl_printed(head: bytes) -> str:
    """Return what to do instead when a file begins like kubectl's text output, else ""."""
    if re.match(_TABLE, head):
        return "the table that kubectl prints: add `-o json` to the command"
    if re.match(_DESCRIPTION, head):
        return "looks like `kubectl describe`: use `kubectl get -o json`"
    if head[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "HTML, not objects: did a proxy or a login page answer?"
    if message := re.match(_MESSAGE, head):
        said = message[0].decode(errors="replace").strip()[:200]
        return (
            f"begins with what kubectl told, not with objects (was it written by `2>&1`?): {said}"
        )
    return ""


def check_utf8(data: bytes) -> None:
    """Raise ReadProblem at the first byte that is not UTF-8, or at UTF-16 without a mark."""
    if data[:4].count(b"\x00") >= 2 or data[1:2] == b"\x00":
        raise ReadProblem(_UTF_16)
    if data.isascii():
        return
    # In pieces: decoding a gigabyte at once would cost four.
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), 16 * MIB):
        piece = data[start : start + 16 * MIB]
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(piece, final=start + len(piece) == len(data))
        except UnicodeDecodeError as error:
            offset = start - pending + error.start
            raise ReadProblem(f"not UTF-8 (invalid byte at offset {offset})") from None


def gunzip_snapshot(data: bytes) -> bytes:
    """Unpack gzip that holds one of our snapshots; anything else is refused after 64 KiB."""
    limit = min(SNAPSHOT_BYTES_MAX, max(_RATIO_CHECKED_ABOVE, _RATIO_MAX * len(data)))
    unpacker = zlib.decompressobj(wbits=31)
    try:
        if _SNAPSHOT_MARK not in zlib.decompressobj(wbits=31).decompress(data, 65_536)[:200]:
            raise ReadProblem("gzip is accepted here for our own snapshots only: use zcat")
        # All at once: put together of two parts it would be in memory twice.
        unpacked = unpacker.decompress(data, limit + 1)
    except zlib.error:
        raise ReadProblem("damaged snapshot (CRC)") from None
    if len(unpacked) > limit:
        raise ReadProblem("unpacks to an absurd size: not a snapshot of ours")
    if not unpacker.eof:
        raise ReadProblem("damaged snapshot (truncated)")
    if unpacker.unused_data:
        raise ReadProblem("damaged snapshot (data after its end)")
    return unpacked


def identity(path: str) -> tuple[int, int] | str:
    """Return what tells a file from others, whatever its name; its name when it has none."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return path
    return status.st_dev, status.st_ino


def is_manifest_name(name: str) -> bool:
    """Tell whether a file of that name may hold objects, compressed or not."""
    return plain_name(name).endswith(EXTENSIONS)


def files_below(directory: str) -> tuple[list[str], list[str], list[str]]:
    """Return the manifests below a directory, sorted, the directories reached twice, other files."""
    found: list[str] = []
    repeated: list[str] = []
    others: list[str] = []
    seen: set[tuple[int, int] | str] = set()

    def refuse(error: OSError) -> NoReturn:
        raise ReadProblem(f"{error.filename}: {_reason(error)}")

    for current, folders, files in os.walk(directory, onerror=refuse, followlinks=True):
        if identity(current) in seen:
            repeated.append(current)
            folders.clear()
            continue
        seen.add(identity(current))
        paths = [str(Path(current, name)) for name in files]
        found += filter(is_manifest_name, paths)
        others += [path for path in paths if not is_manifest_name(path)]
        if len(found) > FILES_MAX:
            raise ReadProblem(f"holds more than {FILES_MAX} files")
    return sorted(found), repeated, others
