"""How a large answer is written as JSON, on two processors.

A copy of this process, begun before the cluster is read and so small, is told the prediction, lays its text out and writes it, while
this one finds out what it costs; then it lays out and writes that as well, of which this one sends it compact JSON.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from kubectl_evictplan.commands.output import write_chunks
from kubectl_evictplan.garbage import keep
from kubectl_evictplan.processes import Copy, answer_of_copy, in_copy, in_thread, read_all_of

if TYPE_CHECKING:
    from io import FileIO

    from kubectl_evictplan.prediction.causes import ChainCache
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.report.json_text import Piece

# Of so many evictions both at once would take much more memory than the largest supported cluster does otherwise.
_ONE_BY_ONE = 100_000
# What each message is, a depth, and how long it is.
_HEAD = Struct("<cBI")
_LOOK, _RUN, _PREDICTION, _TEXT, _ITEMS, _VALUE, _END = (b"%c" % one for one in b"lrptive")


@contextmanager
def writer() -> Iterator[Writer | None]:
    """A process that is ready to write a large answer; None where none can be begun."""
    # The copy would write it as well.
    sys.stdout.flush()
    try:
        told, tell = os.pipe()
    except OSError:
        yield None
        return
    with os.fdopen(told, "rb", buffering=0) as written, in_copy(partial(_write, tell)) as copy:
        os.close(tell)
        yield None if copy is None else Writer(copy, written)


class Writer:
    """Writes one answer to standard output, in a process beside this one."""

    def __init__(self, copy: Copy, written: FileIO) -> None:
        """``written`` ends when the prediction is written."""
        self._copy, self._written = copy, written
        # The run that was sent before the prediction.
        self._run: bytes | None = None
        # Waits for what is on its way.
        self._sending: Callable[[], None] = _nothing

    def begin(self, *, explain: str | None, ascii_only: bool) -> None:
        """There will be an answer to write: load what that takes. ``explain`` and ``ascii_only``: see ``report.Look``."""
        self._send(_LOOK, msgspec.msgpack.encode((explain, ascii_only)), at_once=True)

    @contextmanager
    def beside(self, function: Callable[[], bytes]) -> Iterator[Callable[[], bytes | None]]:
        """See ``answer_of_copy``: its answer is the run that will be told, which the writer gets at once."""
        with answer_of_copy(function) as answer:
            yield lambda: self._passed_on(answer())

    def _passed_on(self, run: bytes | None) -> bytes | None:
        if run is not None:
            self._send_meanwhile(_RUN, run)
            self._run = run
        return run

    def write(self, prediction: Prediction, assess: Callable[[], Prediction]) -> bool:
        """Write the prediction with what it costs, which ``assess`` finds out meanwhile.

        Whether it was written: there may be strings without UTF-8.
        """
        from kubectl_evictplan.prediction.carried import packed
        from kubectl_evictplan.prediction.records import RowsByCode
        from kubectl_evictplan.report.json_text import Compact, Part, pieces

        if self._run is None:
            self._send(_RUN, b"")
        try:
            for part in packed(prediction, self._run):
                self._send_meanwhile(_PREDICTION, part)
        except UnicodeEncodeError:
            self._wait()
            return False
        if len(prediction.evictions) > _ONE_BY_ONE:
            self._wait()
            self._written.read(1)
            if isinstance(prediction.warnings, RowsByCode):
                prediction.warnings.settle()
        told = assess()
        keep(told)
        self._wait()
        for piece in pieces(told, Part.REST):
            if isinstance(piece, Compact):
                self._send(_ITEMS if piece.items else _VALUE, piece.text, piece.depth)
            else:
                self._send(_TEXT, piece)
        self._send(_END, b"", at_once=True)
        self._copy.wait()
        return True

    def _send_meanwhile(self, kind: bytes, text: bytes) -> None:
        """Send it while the next thing is done here: who reads may still work on what came before."""
        self._wait()
        self._sending = in_thread(partial(self._send, kind, text, at_once=True))

    def _wait(self) -> None:
        """Until nothing is on its way: before anything else is sent."""
        sending, self._sending = self._sending, _nothing
        sending()

    def _send(self, kind: bytes, text: bytes, depth: int = 0, *, at_once: bool = False) -> None:
        self._copy.send(_HEAD.pack(kind, depth, len(text)), text, at_once=at_once)


def _nothing() -> None:
    """Nothing is on its way."""


# -- in the copy ----------------------------------------------------------------------------------------


def _write(tell: int, stream: FileIO) -> None:
    """Write what the messages tell; of the prediction in a copy of this process, which ends with all that this takes.

    ``tell`` is closed when that is done.
    """
    explain, ascii_only = msgspec.msgpack.decode(_next(stream)[-1], type=tuple[str | None, bool])
    from kubectl_evictplan.cluster import carried_runs  # noqa: F401 - all that it takes is loaded while this waits
    from kubectl_evictplan.prediction import carried, fingerprint  # noqa: F401
    from kubectl_evictplan.report.json_text import laid_out

    write = partial(_write_prediction, stream, explain=explain, ascii_only=ascii_only)
    with in_copy(lambda _: write()) as copy:
        if copy is None:
            write()
        else:
            copy.wait()
    os.close(tell)
    write_chunks(laid_out(_rest(stream), ascii_only=ascii_only))


def _write_prediction(stream: FileIO, *, explain: str | None, ascii_only: bool) -> None:
    from kubectl_evictplan.prediction.carried import unpacked
    from kubectl_evictplan.report import chunks
    from kubectl_evictplan.report.json_text import Part

    chains = _chains_in(_next(stream)[-1])
    prediction = unpacked(lambda: _next(stream)[-1], chains)
    part = Part.BEFORE_IMPACT
    text = chunks(prediction, "json", part=part, explain=explain, ascii_only=ascii_only)
    # Nothing is written before all of it is known to have UTF-8.
    len(prediction.warnings)
    write_chunks(text)


def _chains_in(run: bytes) -> ChainCache | None:
    if not run:
        return None
    from kubectl_evictplan.cluster.carried_runs import unpacked
    from kubectl_evictplan.prediction.causes import ChainCache

    return ChainCache(unpacked(run))


def _rest(stream: FileIO) -> Iterator[Piece]:
    from kubectl_evictplan.report.json_text import Compact

    while (message := _next(stream))[0] != _END:
        kind, depth, text = message
        yield text if kind == _TEXT else Compact(text, depth, items=kind == _ITEMS)


def _next(stream: FileIO) -> tuple[bytes, int, bytes]:
    kind, depth, length = _HEAD.unpack(read_all_of(stream, _HEAD.size))
    return kind, depth, read_all_of(stream, length)
