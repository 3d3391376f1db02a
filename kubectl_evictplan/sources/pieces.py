"""A large JSON list, cut between its items by a scan, before anything of it is parsed.

A cut is a guess that the parser proves: where what stands between two cuts is one item after the other, and what
stands around all of them is a list without items, the whole is that list with those items. Where any of it is not
so, nothing is lost: the file is then read in one go, and whatever is wrong with it is found there.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO

import msgspec

from kubectl_evictplan.sources import wire
from kubectl_evictplan.sources.json_syntax import JsonSyntaxError, check_json
from kubectl_evictplan.sources.kinds import Verdict, classify, item_kind
from kubectl_evictplan.sources.reading import MIB, looks_like_json

# Large enough to be worth sending, small enough to end soon after Ctrl-C.
PIECE_BYTES = 8 * MIB
# Of a stream every piece is in memory, several at a time.
STREAM_PIECE_BYTES = MIB
# An object has at most 1.5 MiB in an API server; printed with indents, a few times as much.
ITEM_BYTES_MAX = 16 * MIB
# What stands before the first item, and behind the last.
_BEFORE_BYTES_MAX = 64 << 10
_BEHIND_BYTES_MAX = 4 << 10
# Ends of lists that are tried in what stands behind.
_ENDS_MAX = 32
# Compiled where a list is large.
_FIRST_ITEM = rb'"items"\s{0,200}:\s{0,200}\[\s{0,200}(\{\s{0,200}"\w+"\s{0,200}:)'


class NoPieces(Exception):
    """It cannot be read in pieces."""


class Piece(msgspec.Struct, frozen=True):
    """Items one after the other: where they stand in a file, or themselves."""

    start: int
    end: int
    data: bytes | None = None


class _Cuts(msgspec.Struct, frozen=True):
    """Where the items begin, and what stands between two of them."""

    before: bytes
    between: re.Pattern[bytes]


def _cuts(head: bytes) -> _Cuts:
    """Learn how items are written from the first: each begins with the same key behind the same indent."""
    first = re.search(_FIRST_ITEM, head) if looks_like_json(head) and head[:1] == b"{" else None
    if first is None:
        raise NoPieces
    begin = re.escape(first[1])
    return _Cuts(head[: first.start(1)], re.compile(rb"\}(\s{0,200},\s{0,200})(?=%b)" % begin))


def kind_around(before: bytes, behind: bytes) -> str:
    """Return the kind of the items of the list around them, "" where they say it themselves."""
    try:
        check_json(before + behind)
        envelope = wire.ENVELOPE.decode(before + behind)
    except (JsonSyntaxError, ValueError, RecursionError):
        raise NoPieces from None
    is_list = classify(envelope.kind, envelope.api_version).verdict is Verdict.LIST
    if not is_list or envelope.items != [] or (envelope.metadata and envelope.metadata.continue_):
        raise NoPieces
    return item_kind(envelope.kind or "")


def _split_end(before: bytes, end: bytes) -> int:
    """Return where in the end of a text its last item is over."""
    place = len(end)
    for _ in range(_ENDS_MAX):
        place = end.rfind(b"]", 0, place)
        if place < 0:
            break
        with suppress(NoPieces):
            kind_around(before, end[place:])
            return place
    raise NoPieces


def of_file(stream: BinaryIO) -> tuple[str, list[Piece]]:
    """Return the kind of a list's items and the pieces of its file; raises NoPieces."""
    size = os.fstat(stream.fileno()).st_size
    cuts = _cuts(stream.read(_BEFORE_BYTES_MAX))
    stream.seek(max(0, size - _BEHIND_BYTES_MAX))
    end = stream.read()
    place = _split_end(cuts.before, end)
    pieces, start = [], len(cuts.before)
    last = size - len(end) + place
    while last - start > 2 * PIECE_BYTES:
        found, at = _next_cut(stream, cuts, start + PIECE_BYTES)
        pieces.append(Piece(start, found))
        start = at
    if start >= last:
        raise NoPieces
    return kind_around(cuts.before, end[place:]), [*pieces, Piece(start, last)]


def _next_cut(stream: BinaryIO, cuts: _Cuts, place: int) -> tuple[int, int]:
    """Return the end of the item that is over first behind a place, and the start of the one after it."""
    length = MIB // 4
    while length <= ITEM_BYTES_MAX:
        stream.seek(place)
        if found := cuts.between.search(stream.read(length)):
            return place + found.start(1), place + found.end(1)
        length *= 4
    raise NoPieces


def of_stream(read: Callable[[int], bytes]) -> Iterator[str | Piece]:
    """Yield the kind of a list's items as far as the beginning tells, then the pieces of what ``read`` gives.

    Raises NoPieces, perhaps only at the end: what came until then is to be forgotten.
    """
    # Not joined: what a program has once had in one piece its allocator keeps.
    begun = list(_chunks(read, PIECE_BYTES))
    if sum(map(len, begun)) < PIECE_BYTES:
        raise NoPieces
    cuts = _cuts(begun[0][:_BEFORE_BYTES_MAX])
    kind = _kind_so_far(cuts.before)
    yield kind
    begun[0] = begun[0][len(cuts.before) :]
    begun.reverse()

    def following(size: int) -> bytes:
        return begun.pop() if begun else read(size)

    held = b""
    while more := following(MIB):
        held = _filled(following, held + more, STREAM_PIECE_BYTES + _BEHIND_BYTES_MAX)
        # The end is kept back: it may be that of the list.
        usable = len(held) - _BEHIND_BYTES_MAX
        if cut := _last_cut(cuts, held, max(0, usable)):
            yield Piece(0, 0, held[: cut.start(1)])
            held = held[cut.end(1) :]
        elif len(held) > ITEM_BYTES_MAX:
            raise NoPieces
    end = held[-_BEHIND_BYTES_MAX:]
    place = _split_end(cuts.before, end)
    if kind_around(cuts.before, end[place:]) != kind:
        raise NoPieces
    yield Piece(0, 0, held[: len(held) - len(end) + place])


def _last_cut(cuts: _Cuts, text: bytes, end: int) -> re.Match[bytes] | None:
    """Return the last cut before ``end``, if there is one not far before it."""
    found = cuts.between.finditer(text, max(0, end - MIB), end)
    return next(iter(deque(found, maxlen=1)), None)


def _chunks(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (more := _filled(read, b"", min(MIB, size))):
        yield more
        size -= len(more)


def _filled(read: Callable[[int], bytes], held: bytes, size: int) -> bytes:
    chunks, length = [held], len(held)
    while length < size and (more := read(min(MIB, size - length))):
        chunks.append(more)
        length += len(more)
    return b"".join(chunks)


def _kind_so_far(before: bytes) -> str:
    """Return the kind where the text until the items tells it, else that of kubectl, which tells it at the end."""
    try:
        return kind_around(before, b"]}")
    except NoPieces:
        return ""


def items_of(data: bytes) -> list[msgspec.Raw]:
    """Return the items of a piece as bytes; raises NoPieces where it is not one item after the other."""
    try:
        return _ITEMS.decode(b"[%b]" % data)
    except (msgspec.DecodeError, RecursionError):
        raise NoPieces from None


_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
