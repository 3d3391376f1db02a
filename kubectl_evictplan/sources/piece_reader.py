"""One piece of a large list into what is kept of it, and that from one process to another.

Pure but for the file it reads from: nothing is recorded here. Pods that are as an API server writes them become model
objects. Of all other items the fields that are read travel on as JSON, or all their bytes where they must be checked:
whoever puts everything together reads them as it reads a small file, so problems and warnings are told in one place.
"""

from __future__ import annotations

import operator
import os
import pickle
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kubectl_evictplan.kube.infrastructure import PodClaims
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.sources import reading, wire
from kubectl_evictplan.sources.assembly import Assembly, Source
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document, Origin
from kubectl_evictplan.sources.items import UNDECODABLE, ItemReader, plain_pod
from kubectl_evictplan.sources.model_builder import ModelBuilder
from kubectl_evictplan.sources.pieces import NoPieces, Piece, items_of
from kubectl_evictplan.sources.reading import ReadProblem

_NOWHERE = Source(Origin(Document("")))
# What repeats among pods is sent once, and is one object again where it arrives.
_SHARED = frozenset({"labels", "tolerations", "finalizers", "owner_references", "needs"})
# As in snapshots: what is left out because it is a default is that very default again, which pickle forgets.
_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_DECODE = {
    field.name: msgspec.json.Decoder(field.type).decode
    for field in msgspec.structs.fields(Pod)
    if field.name in _SHARED
}
_INTERNED = frozenset({"namespace", "node_name", "phase", "ready", "status_reason"})


class Found(NamedTuple):
    """What is kept of a piece, in the order of its items.

    ``others`` has, by their number in the piece, the items that are no plain pods; the pods stand between
    them. ``claims`` are those of pods, by their number among the items.
    """

    items: int
    pods: list[Pod]
    claims: dict[int, PodClaims]
    others: dict[int, bytes]
    leap_seconds: bool


class PieceReader:
    """Reads pieces of one list. ``kind`` is that of its items where the list says it.

    ``path`` and ``state`` (size, time, inode) are the file's, for pieces that do not bring their bytes. Raises
    NoPieces for a piece that is none, or of which it can't be told here what is wrong.
    """

    def __init__(
        self, kind: str, *, path: str = "", state: tuple[int, int, int] | None = None
    ) -> None:
        self._kind = kind
        self._path = path
        self.state = state
        self._build: ModelBuilder | None = None

    def read(self, piece: Piece) -> Found:
        """Return what is kept of a piece."""
        data = self._bytes(piece) if piece.data is None else piece.data
        try:
            reading.check_utf8(data)
        except ReadProblem:
            raise NoPieces from None
        if reading.LOG_MARK in data:
            raise NoPieces
        return self._found(items_of(data))

    def read_packed(self, piece: Piece) -> bytes | None:
        """Return what is kept of a piece as bytes for ``Unpacker``; None instead of NoPieces."""
        try:
            return packed(self.read(piece))
        except NoPieces:
            return None

    def _bytes(self, piece: Piece) -> bytes:
        try:
            with Path(self._path).open("rb") as stream:
                if reading.state(os.fstat(stream.fileno())) != self.state:
                    raise NoPieces
                stream.seek(piece.start)
                data = stream.read(piece.end - piece.start)
        except OSError:
            raise NoPieces from None
        if len(data) != piece.end - piece.start:
            raise NoPieces
        return data

    def _found(self, raws: list[msgspec.Raw]) -> Found:
        # Made where it is used, so that it need not travel; it lives on, because parts of pods repeat.
        build = self._build = self._build or ModelBuilder()
        kind = self._kind
        decode = wire.DECODERS[kind].decode
        scratch = ItemReader(Assembly(Diagnostics()), build=build)
        pods: list[Pod] = []
        claims: dict[int, PodClaims] = {}
        others: dict[int, bytes] = {}
        for index, raw in enumerate(raws):
            try:
                decoded = decode(raw)
                if type(decoded) is wire.WirePod:
                    found = plain_pod(build, decoded, kind)
                    if found is not None:
                        pods.append(found.pod)
                        if found.claims is not None:
                            claims[index] = found.claims
                        continue
                    others[index] = bytes(raw)
                    continue
                fields = msgspec.json.encode(decoded)
                if scratch.stores_decoded(decoded, kind, _NOWHERE):
                    others[index] = fields
                    continue
            except UNDECODABLE:
                pass
            others[index] = bytes(raw)
        return Found(len(raws), pods, claims, others, bool(build.leap_seconds))


def packed(found: Found) -> bytes:
    """Return what was found as bytes: a column for each field of pods."""
    columns: list[Any] = []
    for name in Pod.__struct_fields__:
        values = list(map(operator.attrgetter(name), found.pods))
        columns.append(_table(values) if name in _SHARED else values)
    rest = (found.items, found.claims, found.others, found.leap_seconds)
    return pickle.dumps((rest, columns), pickle.HIGHEST_PROTOCOL)


def _table(values: list[Any]) -> tuple[list[bytes], list[int]]:
    """Return the distinct objects, each as bytes, and which of them each value is."""
    places: dict[int, int] = {}
    table: list[bytes] = []
    for value in values:
        if places.setdefault(id(value), len(table)) == len(table):
            table.append(_ENCODE(value))
    return table, [places[id(value)] for value in values]


class Unpacker:
    """Makes objects of what other processes found; equal parts of all of them are one object."""

    def __init__(self) -> None:
        self._known: dict[str, dict[bytes, Any]] = {name: {} for name in _SHARED}

    def unpacked(self, data: bytes) -> Found:
        """Return what ``packed`` packed."""
        # From our own worker, through a pipe that nobody else has.
        (count, claims, others, leap_seconds), columns = pickle.loads(data)  # noqa: S301
        named = zip(Pod.__struct_fields__, columns, strict=True)
        pods = list(map(Pod, *(self._column(name, column) for name, column in named)))
        return Found(count, pods, claims, others, leap_seconds)

    def _column(self, name: str, column: Any) -> list[Any]:
        if name in _SHARED:
            known, decode = self._known[name], _DECODE[name]
            table = [known.get(data) or known.setdefault(data, decode(data)) for data in column[0]]
            return list(map(table.__getitem__, column[1]))
        if name in _INTERNED:
            return [value and sys.intern(value) for value in column]
        return column  # type: ignore[no-any-return]
