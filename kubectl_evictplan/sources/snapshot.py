"""Our own snapshot file: everything a prediction needs, small, fast to load, and free of secrets.

JSON in gzip (``zcat | jq`` works): ``apiVersion``, ``kind: Snapshot``, ``metadata`` and
``content``. Rules: content holds exactly the model's fields, an allow-list by construction, so
no env, argument or annotation can be in it; pods are columns, because 150,000 of them then load in
well under a second; columns of few values are a table and indexes into it; equal clusters give
equal bytes; the digest is over the bytes of ``content`` and is checked. Times are nanoseconds
since the Unix epoch, in names that end in ``_ns``.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import count, islice, pairwise, repeat, starmap
from typing import Any

import msgspec

from kubectl_evictplan import __version__
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.columns import ASKED_OF_ALL
from kubectl_evictplan.kube.infrastructure import FIELD_OF, Infrastructure
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    Count,
    Lease,
    Node,
    ObservedRenewals,
    Pod,
    PodDisruptionBudget,
    PodWebhook,
    Reading,
    Warning,
    Workload,
)
from kubectl_evictplan.kube.timestamps import FIRST_INSTANT_NS, LAST_INSTANT_NS, format_rfc3339
from kubectl_evictplan.processes import in_thread

KIND = "Snapshot"
# 1: nodes, pods, leases, workloads, budgets, webhooks. 2: infrastructure as well.
SCHEMA_VERSION = 2
_GZIP_LEVEL = 6
# The digest of more bytes is found while they are decoded.
_DIGESTED_ALONE_MAX = 1 << 20
# A table must pay for its indexes.
_TABLE_SHARE_MAX = 0.5
# What stands around the content in a file of ours; in a string the quotes would be escaped.
_BEFORE_CONTENT, _AFTER_CONTENT = b',"content":', b"}\n"
_PLAIN_TYPES = {str, int, bool, type(None)}


class SnapshotError(ValueError):
    """Bytes that are no snapshot of ours, or a damaged one; the text says which."""


class _Metadata(msgspec.Struct, rename="camel"):
    schema_version: int
    digest: str = ""
    taken_at: str = ""
    taken_at_source: str = ""
    written_by: str = ""
    kinds_seen: tuple[str, ...] = ()
    ignored_kinds: dict[str, Count] = {}
    warnings: tuple[Warning, ...] = ()
    reading: Reading | None = None
    observed: ObservedRenewals | None = None
    pods_of_all_namespaces: bool = True


class _WithoutContent(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _Metadata


class _Document(_WithoutContent, rename="camel"):
    content: msgspec.Raw


class _Version(msgspec.Struct, rename="camel"):
    schema_version: int | None = None


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Version | None = None


class _Column(msgspec.Struct):
    """One field of all pods: ``all`` the same, ``values`` one each, or ``table`` and ``index``."""

    all: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    values: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    table: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    index: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Content(msgspec.Struct):
    taken_at_ns: int
    nodes: tuple[Node, ...]
    leases: tuple[Lease, ...]
    workloads: tuple[Workload, ...]
    budgets: tuple[PodDisruptionBudget, ...]
    control_plane: ControlPlaneFlags
    denied: tuple[str, ...]
    pod_count: Count
    pods: dict[str, _Column]
    webhooks: tuple[PodWebhook, ...] = ()
    # From schema version 2 on.
    infrastructure: Infrastructure = Infrastructure()


# What stands in the content as it does in the snapshot, and what stands beside it.
_CONTENT_PARTS = tuple(
    name
    for name in _Content.__struct_fields__
    if name in ClusterSnapshot.__struct_fields__ and name not in ("pods", "leases")
)
_METADATA_PARTS = (
    "taken_at_source",
    "kinds_seen",
    "ignored_kinds",
    "warnings",
    "reading",
    "observed",
    "pods_of_all_namespaces",
)
# Keys of maps are sorted, fields of objects are in the order of their definition.
_ENCODER = msgspec.json.Encoder(order="deterministic")


def _parts(source: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def snapshot_digest(snapshot: ClusterSnapshot) -> str:
    """Return ``sha256:<hex>`` over the canonical content, or the one already computed.

    Does not depend on files, formats or order; warnings and ignored kinds are left out.
    """
    return snapshot.digest or _digest(_content_parts(snapshot))


def encode_snapshot(snapshot: ClusterSnapshot, *, compress: bool = True) -> bytes:
    """Return the snapshot file's bytes; equal snapshots give equal bytes."""
    content = b"".join(_content_parts(snapshot))
    metadata = _Metadata(
        schema_version=SCHEMA_VERSION,
        digest=_digest([content]),
        taken_at=format_rfc3339(snapshot.taken_at_ns),
        written_by=f"kubectl-evictplan {__version__}",
        **_parts(snapshot, _METADATA_PARTS),
    )
    document = _Document(API_VERSION, KIND, metadata, msgspec.Raw(content))
    data = _ENCODER.encode(document) + b"\n"
    if not compress:
        return data
    import gzip  # not to read

    return gzip.compress(data, _GZIP_LEVEL, mtime=0)


def get_ready() -> None:
    """Find out now what decoding takes: a snapshot is not there yet."""
    _content_decoder()


@cache
def _content_decoder() -> msgspec.json.Decoder[_Content]:
    # Some milliseconds, which a small answer of something else does not wait for.
    return msgspec.json.Decoder(_Content)


def decode_document(data: bytes) -> ClusterSnapshot:
    """Return the snapshot in plain JSON bytes; raises SnapshotError."""
    try:
        document = _decode_head(data)
        with _checked(document):
            # A view: of the text as it is a copy would be made.
            content = _content_decoder().decode(memoryview(document.content))
            return _from_content(content, document.metadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SnapshotError(f"damaged snapshot ({error})") from None
    except (IndexError, TypeError, OverflowError):
        raise SnapshotError("damaged snapshot (columns do not fit together)") from None


@contextmanager
def _checked(document: _Document) -> Iterator[None]:
    """Raise SnapshotError at the end, whatever was found, unless the content has the digest that it should have."""
    digest: Callable[[], str] = partial(_digest, [document.content])
    if len(document.content) > _DIGESTED_ALONE_MAX:
        digest = in_thread(digest)
    try:
        yield
    finally:
        if document.metadata.digest != digest():
            raise SnapshotError("damaged snapshot: its digest is missing or does not match")


def write_snapshot(snapshot: ClusterSnapshot, path: str, *, force: bool = False) -> None:
    """Write a snapshot file, mode 0600, whole or not at all.

    gzip unless ``path`` ends in ``.json``. Refuses an existing file unless ``force``, and
    anything there that is no regular file; raises InputError.
    """
    from kubectl_evictplan.sources.private_file import write_private

    write_private(path, encode_snapshot(snapshot, compress=not path.endswith(".json")), force=force)


def _digest(content: Iterable[bytes | msgspec.Raw]) -> str:
    digest = hashlib.sha256()
    for part in content:
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _content_parts(snapshot: ClusterSnapshot) -> Iterator[bytes]:
    """Yield the canonical content in parts: whole, beside the pods as columns, it would be 60 MB of a large cluster."""
    content = _parts(snapshot, _CONTENT_PARTS)
    content["leases"] = [snapshot.leases[name] for name in sorted(snapshot.leases)]
    content["pod_count"] = len(snapshot.pods)
    content["pods"] = None
    before = b"{"
    for name in sorted(content):
        yield before + _ENCODER.encode(name) + b":"
        before = b","
        if name == "pods":
            yield from _columns(snapshot.pods)
        else:
            yield _ENCODER.encode(content[name])
    yield b"}"


def _columns(pods: Sequence[Pod]) -> Iterator[bytes]:
    before = b"{"
    for name in sorted(Pod.__struct_fields__) if pods else ():
        column = _encode_column(list(map(operator.attrgetter(name), pods)))
        yield before + _ENCODER.encode(name) + b":" + _ENCODER.encode(column)
        before = b","
    yield b"}" if pods else b"{}"


def _encode_column(values: list[Any]) -> dict[str, Any]:
    table, index = _tabled(values)
    if len(table) == 1:
        return {"all": table[0]}
    if len(table) > _TABLE_SHARE_MAX * len(values):
        return {"values": values}
    return {"table": table, "index": index}


def _tabled(values: list[Any]) -> tuple[list[Any], list[int]]:
    """Return the distinct values in order of appearance, and each value's place among them."""
    if set(map(type, values)) <= _PLAIN_TYPES:
        places = dict(zip(dict.fromkeys(values), count()))
        return list(places), list(map(places.__getitem__, values))
    # Loading shares equal parts, so identity finds most; encoded bytes decide the rest.
    by_identity = dict(zip(map(id, values), values, strict=True))
    table: dict[bytes, tuple[int, Any]] = {}
    place_of = {
        identity: table.setdefault(_ENCODER.encode(value), (len(table), value))[0]
        for identity, value in by_identity.items()
    }
    distinct = [value for _, value in table.values()]
    return distinct, list(map(place_of.__getitem__, map(id, values)))


def _decode_head(data: bytes) -> _Document:
    """Return all but the content, which stays as it is; raises for other files and other versions."""
    if document := _decode_as_written(data):
        return document
    try:
        document = msgspec.json.decode(data, type=_Document)
    except msgspec.ValidationError:
        # A newer version may look different; its head says that it is one.
        _check_head(msgspec.json.decode(data, type=_Head))
        raise
    _check_head(document)
    return document


def _decode_as_written(data: bytes) -> _Document | None:
    """Decode what stands before the content where that comes last, as we write it: nobody has to look for its end."""
    begin = data.find(_BEFORE_CONTENT)
    if begin < 0 or not data.endswith(_AFTER_CONTENT):
        return None
    content = memoryview(data)[begin + len(_BEFORE_CONTENT) : -len(_AFTER_CONTENT)]
    try:
        document = msgspec.json.decode(data[:begin] + b"}", type=_WithoutContent)
    except msgspec.DecodeError:
        return None
    _check_head(document)
    raw = msgspec.Raw(content)
    return _Document(document.api_version, document.kind, document.metadata, raw)


def _check_head(head: _WithoutContent | _Head) -> None:
    if head.kind != KIND or not head.api_version.startswith("evictplan.dev/"):
        raise SnapshotError("not a snapshot of kubectl-evictplan")
    version = head.metadata.schema_version if head.metadata else None
    if head.api_version != API_VERSION or (version or 0) > SCHEMA_VERSION:
        raise SnapshotError("written by a newer kubectl-evictplan: update this one")
    if version is None or version < 1:
        raise SnapshotError("damaged snapshot (no schemaVersion)")


def _from_content(content: _Content, metadata: _Metadata) -> ClusterSnapshot:
    columns, count = _decode_columns(content), content.pod_count
    snapshot = ClusterSnapshot(
        **_parts(content, _CONTENT_PARTS),
        **_parts(metadata, _METADATA_PARTS),
        pods=tuple(islice(map(Pod, *columns.values()), count)),
        leases={lease.name: lease for lease in content.leases},
        digest=metadata.digest,
    )
    _keep_columns(snapshot, columns)
    _refuse_impossible(snapshot, content)
    # Columns tell it much more quickly than pods do.
    names = zip(columns["namespace"], columns["name"], strict=False)
    _refuse_disorder("pod", islice(names, count))
    return snapshot


def _keep_columns(snapshot: ClusterSnapshot, columns: Mapping[str, Iterable[Any]]) -> None:
    """Let the snapshot know those fields of its pods that somebody asks for."""
    for name in ASKED_OF_ALL if snapshot.pods else ():
        column = columns[name]
        if isinstance(column, repeat):
            snapshot.columns.know_all(name, next(column))
        elif isinstance(column, Sequence):
            snapshot.columns.know(name, column)


def _refuse_impossible(snapshot: ClusterSnapshot, content: _Content) -> None:
    """Raise for what no cluster holds and no writer of ours writes; a digest proves nothing."""
    _refuse_disorder("node", _keys(snapshot.nodes, "name"))
    _refuse_disorder("lease", _keys(content.leases, "name"))
    _refuse_disorder("workload", _keys(snapshot.workloads, "kind", "namespace", "name"))
    _refuse_disorder("budget", _keys(snapshot.budgets, "namespace", "name"))
    for kind, part in FIELD_OF.items():
        listed = getattr(content.infrastructure, part)
        has_namespace = listed and hasattr(listed[0], "namespace")
        names = ("namespace", "name") if has_namespace else ("name",)
        _refuse_disorder(kind, _keys(listed, *names))
    times = [snapshot.taken_at_ns, content.control_plane.leader_acquire_time_ns]
    times += [lease.renew_time_ns for lease in content.leases]
    for leader in content.infrastructure.leader_leases:
        times += [leader.acquire_time_ns, leader.renew_time_ns]
    times += [one.deletion_timestamp_ns for one in content.infrastructure.volume_attachments]
    for node in snapshot.nodes:
        times += [node.deletion_timestamp_ns, *node.past_instants()]
    _refuse_impossible_times(times)


def _keys(listed: Iterable[object], *names: str) -> Iterable[Any]:
    return map(operator.attrgetter(*names), listed)


def _refuse_disorder(what: str, keys: Iterable[Any]) -> None:
    """Raise unless the objects with these keys stand in their order, each once."""
    if not all(starmap(operator.lt, pairwise(keys))):
        raise SnapshotError(f"damaged snapshot (a {what} twice, or not in order)")


def _refuse_impossible_times(times: Iterable[int | None]) -> None:
    known = [ns for ns in times if ns is not None]
    if known and not (min(known) >= FIRST_INSTANT_NS and max(known) <= LAST_INSTANT_NS):
        raise SnapshotError("damaged snapshot (a time outside the years 1 to 9999)")


def _decode_columns(content: _Content) -> dict[str, Iterable[Any]]:
    """Of each field of a pod the values of all of them, in its order; what is the same for all comes without an end."""
    count = content.pod_count
    if count > 1 and all(column.all is not msgspec.UNSET for column in content.pods.values()):
        raise SnapshotError("damaged snapshot (all pods are the same)")
    return {
        field.name: _decode_column(content.pods.get(field.name), field, count)
        for field in msgspec.structs.fields(Pod)
    }


def _decode_column(column: _Column | None, field: Any, count: int) -> Iterable[Any]:
    if column is None:
        # Written before the field existed.
        if field.required and count:
            raise SnapshotError(f"damaged snapshot (no column {field.name})")
        made = field.default_factory
        return repeat(field.default if made is msgspec.NODEFAULT else made())
    if isinstance(column.all, msgspec.Raw):
        return repeat(_decode_values(b"[%b]" % bytes(column.all), field)[0])
    if isinstance(column.values, msgspec.Raw):
        return _of_length(_decode_values(column.values, field), count)
    if isinstance(column.table, msgspec.Raw) and isinstance(column.index, msgspec.Raw):
        table = _decode_values(column.table, field)
        # One after the other: what is decoded for one column makes room for the next.
        return [table[place] for place in _of_length(_decode_index(column.index), count)]
    raise SnapshotError("damaged snapshot (a column without values)")


def _decode_index(data: msgspec.Raw) -> list[int]:
    if b"-" in bytes(data):
        # Looked for here: the decoder takes twice as long to look at each number.
        raise SnapshotError("damaged snapshot (columns do not fit together)")
    return msgspec.json.decode(data, type=list[int])


def _decode_values(data: msgspec.Raw | bytes, field: Any) -> list[Any]:
    values: list[Any] = msgspec.json.decode(data, type=list[field.type])
    if field.name.endswith("_ns"):
        _refuse_impossible_times(values)
    return values


def _of_length(values: Sequence[Any], count: int) -> Sequence[Any]:
    if len(values) != count:
        raise SnapshotError("damaged snapshot (columns of different length)")
    return values
