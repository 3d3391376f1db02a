"""Our own snapshot file: everything a prediction needs, small, fast to load, and free of secrets.

JSON in gzip (``zcat | jq`` works): ``apiVersion``, ``kind: Snapshot``, ``metadata`` and
``content``. Rules: content holds exactly the model's fields, an allow-list by construction, so
no env, argument or annotation can be in it; pods are columns, because 150,000 of them then load in
well under a second; columns of few values are a table and indexes into it; equal clusters give
equal bytes; the digest is over the bytes of ``content`` and is checked. Times are nanoseconds
since the Unix epoch, in names that end in ``_ns``.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kubectl_evictplan import __version__
from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    DeleteWebhook,
    Lease,
    Node,
    Pod,
    PodDisruptionBudget,
    Warning,
    Workload,
)
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.sources.reading import ReadProblem, gunzip_snapshot

KIND = "Snapshot"
SCHEMA_VERSION = 1
_GZIP_LEVEL = 6
_GZIP_MAGIC = b"\x1f\x8b"
# A table must pay for its indexes.
_TABLE_SHARE_MAX = 0.5


class SnapshotError(ValueError):
    """Bytes that are no snapshot of ours, or a damaged one; the text says which."""


class _Metadata(msgspec.Struct, rename="camel"):
    schema_version: int
    digest: str = ""
    taken_at: str = ""
    taken_at_source: str = ""
    written_by: str = ""
    kinds_seen: tuple[str, ...] = ()
    ignored_kinds: dict[str, int] = {}
    warnings: tuple[Warning, ...] = ()


class _Document(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _Metadata
    content: msgspec.Raw


class _Version(msgspec.Struct, rename="camel"):
    schema_version: int | None = None


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Version | None = None


class _Column(msgspec.Struct, omit_defaults=True):
    """One field of all pods: ``all`` the same, ``values`` one each, or ``table`` and ``index``."""

    all: Any = msgspec.UNSET
    values: Any = msgspec.UNSET
    table: Any = msgspec.UNSET
    index: list[Annotated[int, msgspec.Meta(ge=0)]] | msgspec.UnsetType = msgspec.UNSET


class _RawColumn(msgspec.Struct):
    all: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    values: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    table: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    index: list[Annotated[int, msgspec.Meta(ge=0)]] | msgspec.UnsetType = msgspec.UNSET


class _Content(msgspec.Struct):
    taken_at_ns: int
    nodes: tuple[Node, ...]
    leases: tuple[Lease, ...]
    workloads: tuple[Workload, ...]
    budgets: tuple[PodDisruptionBudget, ...]
    control_plane: ControlPlaneFlags
    denied: tuple[str, ...]
    pod_count: int
    pods: dict[str, _RawColumn]
    webhooks: tuple[DeleteWebhook, ...] = ()


# Keys of maps are sorted, fields of objects are in the order of their definition.
_ENCODER = msgspec.json.Encoder(order="deterministic")
_CONTENT = msgspec.json.Decoder(_Content)
_DOCUMENT = msgspec.json.Decoder(_Document)


def snapshot_digest(snapshot: ClusterSnapshot) -> str:
    """Return ``sha256:<hex>`` over the canonical content, or the one already computed.

    Does not depend on files, formats or order; warnings and ignored kinds are left out.
    """
    return snapshot.digest or _digest(_encode_content(snapshot))


def encode_snapshot(snapshot: ClusterSnapshot, *, compress: bool = True) -> bytes:
    """Return the snapshot file's bytes; equal snapshots give equal bytes."""
    content = _encode_content(snapshot)
    metadata = _Metadata(
        schema_version=SCHEMA_VERSION,
        digest=_digest(content),
        taken_at=_readable(snapshot.taken_at_ns),
        taken_at_source=snapshot.taken_at_source,
        written_by=f"kubectl-evictplan {__version__}",
        kinds_seen=snapshot.kinds_seen,
        ignored_kinds=snapshot.ignored_kinds,
        warnings=snapshot.warnings,
    )
    document = _Document(API_VERSION, KIND, metadata, msgspec.Raw(content))
    data = _ENCODER.encode(document) + b"\n"
    return gzip.compress(data, _GZIP_LEVEL, mtime=0) if compress else data


def decode_snapshot(data: bytes) -> ClusterSnapshot:
    """Return the snapshot in a file's bytes, plain or gzip; raises SnapshotError."""
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gunzip_snapshot(data)
        except ReadProblem as error:
            raise SnapshotError(str(error)) from None
    return decode_document(data)


def decode_document(data: bytes) -> ClusterSnapshot:
    """Return the snapshot in plain JSON bytes; raises SnapshotError."""
    try:
        _check_head(data)
        document = _DOCUMENT.decode(data)
        digest = _digest(document.content)
        if document.metadata.digest != digest:
            raise SnapshotError("damaged snapshot: its digest is missing or does not match")
        return _from_content(_CONTENT.decode(document.content), document.metadata, digest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SnapshotError(f"damaged snapshot ({error})") from None
    except (IndexError, TypeError):
        raise SnapshotError("damaged snapshot (columns do not fit together)") from None


def write_snapshot(snapshot: ClusterSnapshot, path: str, *, force: bool = False) -> None:
    """Write a snapshot file, mode 0600, whole or not at all.

    gzip unless ``path`` ends in ``.json``. Refuses an existing file unless ``force``, and
    anything there that is no regular file; raises InputError.
    """
    write_private(path, encode_snapshot(snapshot, compress=not path.endswith(".json")), force=force)


def write_private(path: str, data: bytes, *, force: bool = False) -> None:
    """Write bytes atomically with mode 0600, whatever the umask; raises InputError."""
    target = Path(path)
    try:
        _refuse_target(path, force=force)
        temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
        try:
            _write_new(temporary, data)
            _publish(temporary, target, force=force)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(target.parent)
    except FileExistsError:
        raise InputError(Problem("already exists (use --force)", location=path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(Problem(f"cannot be written: {reason}", location=path)) from None


def _publish(temporary: Path, target: Path, *, force: bool) -> None:
    """Give the finished file its name."""
    if not force:
        try:
            # Unlike rename, link fails when the name was taken meanwhile.
            target.hardlink_to(temporary)
            return
        except FileExistsError:
            raise
        except OSError:
            # This file system has no links; the name was free a moment ago.
            pass
    temporary.replace(target)


def _refuse_target(path: str, *, force: bool) -> None:
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise InputError(Problem("not a regular file: it is not replaced", location=path))
    if not force:
        raise FileExistsError(path)


def _write_new(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        if hasattr(os, "fchmod"):  # not on Windows, where the mode means nothing
            os.fchmod(descriptor, 0o600)
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    """Make the new name durable; file systems that cannot are left alone."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _digest(content: bytes | msgspec.Raw) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _readable(ns: int) -> str:
    try:
        return format_rfc3339(ns)
    except ValueError:
        return ""


def _encode_content(snapshot: ClusterSnapshot) -> bytes:
    pods = snapshot.pods
    return _ENCODER.encode(
        {
            "taken_at_ns": snapshot.taken_at_ns,
            "nodes": snapshot.nodes,
            "leases": [snapshot.leases[name] for name in sorted(snapshot.leases)],
            "workloads": snapshot.workloads,
            "budgets": snapshot.budgets,
            "webhooks": snapshot.webhooks,
            "control_plane": snapshot.control_plane,
            "denied": snapshot.denied,
            "pod_count": len(pods),
            "pods": {
                name: _encode_column(list(map(attrgetter(name), pods)))
                for name in Pod.__struct_fields__
            }
            if pods
            else {},
        }
    )


def _encode_column(values: list[Any]) -> _Column:
    table, index = _tabled(values)
    if len(table) == 1:
        return _Column(all=table[0])
    if len(table) > _TABLE_SHARE_MAX * len(values):
        return _Column(values=values)
    return _Column(table=table, index=index)


def _tabled(values: list[Any]) -> tuple[list[Any], list[int]]:
    """Return the distinct values in order of appearance, and each value's place among them."""
    places: dict[Any, int] = {}
    # Loading shares equal parts, so identity finds most; encoded bytes decide the rest. The
    # values stay alive in the list, so an id cannot be taken over by another one.
    by_identity: dict[int, int] = {}
    table: list[Any] = []
    index: list[int] = []
    for value in values:
        plain = value is None or isinstance(value, (str, int))
        place = places.get(value) if plain else by_identity.get(id(value))
        if place is None:
            key = value if plain else _ENCODER.encode(value)
            place = places.setdefault(key, len(table))
            if place == len(table):
                table.append(value)
            if not plain:
                by_identity[id(value)] = place
        index.append(place)
    return table, index


def _check_head(data: bytes) -> None:
    head = msgspec.json.decode(data, type=_Head)
    if head.kind != KIND or not head.api_version.startswith("evictplan.dev/"):
        raise SnapshotError("not a snapshot of kubectl-evictplan")
    version = head.metadata.schema_version if head.metadata else None
    if head.api_version != API_VERSION or (version or 0) > SCHEMA_VERSION:
        raise SnapshotError("written by a newer kubectl-evictplan: update this one")
    if version is None or version < 1:
        raise SnapshotError("damaged snapshot (no schemaVersion)")


def _from_content(content: _Content, metadata: _Metadata, digest: str) -> ClusterSnapshot:
    return ClusterSnapshot(
        nodes=content.nodes,
        pods=tuple(_pods(content)),
        leases={lease.name: lease for lease in content.leases},
        workloads=content.workloads,
        budgets=content.budgets,
        webhooks=content.webhooks,
        taken_at_ns=content.taken_at_ns,
        taken_at_source=metadata.taken_at_source,
        control_plane=content.control_plane,
        kinds_seen=metadata.kinds_seen,
        ignored_kinds=metadata.ignored_kinds,
        denied=content.denied,
        warnings=metadata.warnings,
        digest=digest,
    )


def _pods(content: _Content) -> Iterator[Pod]:
    count = content.pod_count
    if not count:
        return iter(())
    columns: list[Iterable[Any]] = []
    for field in msgspec.structs.fields(Pod):
        column = content.pods.get(field.name)
        if column is None:
            # Written before the field existed: its default, which required fields lack.
            if field.required:
                raise SnapshotError(f"damaged snapshot (no column {field.name})")
            columns.append(_defaults(field, count))
        else:
            columns.append(_decode_column(column, field.type, count))
    return map(Pod, *columns)


def _defaults(field: Any, count: int) -> Iterable[Any]:
    if field.default is not msgspec.NODEFAULT:
        return repeat(field.default, count)
    return (field.default_factory() for _ in range(count))


def _decode_column(column: _RawColumn, kind: Any, count: int) -> Iterable[Any]:
    if isinstance(column.all, msgspec.Raw):
        return repeat(msgspec.json.decode(column.all, type=kind), count)
    if isinstance(column.values, msgspec.Raw):
        values: Sequence[Any] = msgspec.json.decode(column.values, type=list[kind])
        return _of_length(values, count)
    if isinstance(column.table, msgspec.Raw) and isinstance(column.index, list):
        table = msgspec.json.decode(column.table, type=list[kind])
        return map(table.__getitem__, _of_length(column.index, count))
    raise SnapshotError("damaged snapshot (a column without values)")


def _of_length(values: Sequence[Any], count: int) -> Sequence[Any]:
    if len(values) != count:
        raise SnapshotError("damaged snapshot (columns of different length)")
    return values
