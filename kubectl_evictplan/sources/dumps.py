"""Large dumps in pieces, on several processors where it is allowed: as files, or as they come out of a compression.

Nothing is recorded before every piece is read and found to be one. Where that fails the caller reads everything in
one go, which names what is wrong; so problems, warnings and results never tell how many processors there were.
"""

from __future__ import annotations

import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kubectl_evictplan.sources import pieces, reading
from kubectl_evictplan.sources.pieces import NoPieces, Piece
from kubectl_evictplan.sources.reading import ReadProblem

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kubectl_evictplan.sources.piece_reader import Found, PieceReader

# Below that other processes take longer to begin than they save.
BYTES_MIN = 4 * pieces.PIECE_BYTES
# So many pieces of a stream, which does not tell how long it is, are read here before others begin.
_BEGUN_MIN = 4
# More do not help: one process puts everything together.
_JOBS_MAX = 8
# Pieces that wait for a worker, or for being put together.
_AHEAD_PER_JOB = 2
# Items that no worker can finish: where there are so many, they gain nothing.
_OTHERS_BYTES_MAX = 64 << 20


class LostWorker(Exception):
    """A process that was begun here is gone; the text says what that may mean."""


class Dump(msgspec.Struct, frozen=True):
    """A large list: the kind of its items where the list says it, and what is kept of its pieces."""

    kind: str
    found: list[Found]


def of_file(name: str, jobs: int) -> Dump | None:
    """Return the large list in a file; None for any other file, and for one that is to be read in one go."""
    try:
        status = Path(name).stat()
        if not stat.S_ISREG(status.st_mode):
            return None
        if not BYTES_MIN <= status.st_size <= reading.JSON_BYTES_MAX:
            return None
        with Path(name).open("rb") as stream:
            kind, places = pieces.of_file(stream)
        from kubectl_evictplan.sources.piece_reader import PieceReader  # not for small files

        reader = PieceReader(kind, path=name, state=reading.state(status))
        found = _all(_found(reader, places, min(jobs, len(places), _JOBS_MAX)))
        return Dump(kind, found) if reading.state(Path(name).stat()) == reader.state else None
    except (NoPieces, OSError, ValueError):
        return None


def of_stream(read: Callable[[int], bytes], jobs: int) -> Dump | None:
    """Return the large list that ``read`` gives from its beginning to its end; None as for files."""
    try:
        cut = pieces.of_stream(read)
        kind = next(cut)
        from kubectl_evictplan.sources.piece_reader import PieceReader  # not for small files

        assert isinstance(kind, str), "the kind comes first"
        parts = (one for one in cut if isinstance(one, Piece))
        return Dump(kind, _all(_found(PieceReader(kind), parts, min(jobs, _JOBS_MAX))))
    except (NoPieces, ReadProblem):
        return None


def _all(found: Iterable[Found]) -> list[Found]:
    kept, others_bytes = [], 0
    for one in found:
        others_bytes += sum(map(len, one.others.values()))
        if others_bytes > _OTHERS_BYTES_MAX:
            raise NoPieces
        kept.append(one)
    return kept


def _found(reader: PieceReader, parts: Iterable[Piece], jobs: int) -> Iterator[Found]:
    """Yield what is kept of each piece, in order."""
    from kubectl_evictplan.processes import may_have_workers, processes, work

    parts = iter(parts)
    begun = list(islice(parts, _BEGUN_MIN)) if jobs > 1 else []
    are_few = len(begun) < _BEGUN_MIN
    parts = chain(begun, parts)
    # Nobody needs them when they are read.
    del begun
    if are_few or not may_have_workers():
        yield from map(reader.read, parts)
        return
    from concurrent.futures.process import BrokenProcessPool

    from kubectl_evictplan.sources.piece_reader import Unpacker

    unpacked = Unpacker().unpacked
    with processes(jobs, reader.read_packed) as executor:
        waiting: deque[Future[bytes | None]] = deque()
        try:
            for part in parts:
                waiting.append(executor.submit(work, part))
                if len(waiting) > _AHEAD_PER_JOB * jobs:
                    yield unpacked(_result(waiting.popleft()))
            while waiting:
                yield unpacked(_result(waiting.popleft()))
        except BrokenProcessPool:
            message = "a process that helped to read it ended before its time: memory may be short"
            raise LostWorker(message) from None
        finally:
            # What has begun is soon at its end; nothing else begins.
            executor.shutdown(wait=True, cancel_futures=True)


def _result(future: Future[bytes | None]) -> bytes:
    data = future.result()
    if data is None:
        raise NoPieces
    return data
