"""How a large answer is written as JSON, on several processors.

One copy of this process makes and writes the rows, while this one finds out what they cost; another one makes what follows
from that, while this one writes it. Each is begun as soon as it is known what it is to tell of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.output import write_chunks
from kubectl_evictplan.garbage import keep
from kubectl_evictplan.processes import Turn, in_copy
from kubectl_evictplan.report.json_text import Part, make_rows

if TYPE_CHECKING:
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.report import Chunk

# So much is made as text before it is its turn to be written.
_BYTES_AHEAD = 32 << 20

Tell = Callable[..., Iterator["Chunk"]]


def write_beside(tell: Tell, prediction: Prediction, assess: Callable[[], Prediction]) -> None:
    """Write what ``tell`` makes of the prediction with what it costs, which ``assess`` finds out meanwhile.

    ``tell`` takes a prediction and which ``part`` of its text. Standard output has a descriptor.
    """
    # Copies would write it as well.
    sys.stdout.flush()
    before, large, rest = Part.BEFORE_IMPACT, Part.LARGE_IMPACT, Part.REST
    with in_copy(lambda _: write_chunks(tell(prediction, part=before))) as rows:
        told = assess()
        keep(told)
        assert told.impact is not None, "what it costs is found out here"
        if rows is None:
            # Where memory ends meanwhile, nothing was written.
            make_rows(told.impact)
            write_chunks(tell(told))
            return
        # Findings follow from these as well: both would make them.
        make_rows(told.impact, large)
        with in_copy(lambda turn: _write_in_turn(tell(told, part=rest), turn)) as others:
            pieces = tell(told, part=large)
            ahead = _ahead(pieces)
            rows.wait()
            write_chunks(chain(ahead, pieces))
            if others is None:
                write_chunks(tell(told, part=rest))
            else:
                others.give_turn()
                others.wait()


def _write_in_turn(pieces: Iterator[Chunk], turn: Turn) -> None:
    """Make them at once, and write them when it is their turn."""
    made = list(pieces)
    turn.wait()
    write_chunks(made)


def _ahead(pieces: Iterator[Chunk]) -> list[Chunk]:
    """The first of them."""
    made, left = [], _BYTES_AHEAD
    while left > 0 and (piece := next(pieces, None)) is not None:
        made.append(piece)
        left -= len(piece)
    return made
