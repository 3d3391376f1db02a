"""How often Python looks for garbage in cycles: modules and a cluster live to the end, runs leave little behind.

And what is said when memory ends all the same.

Never switched off for long, so that memory stays bounded however many runs a scenario needs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NO_MEMORY = "error: the input is too large for this machine's memory"
# So many new objects before it looks. A short run is done by then; the runs of a prediction make many more.
_RARELY = (100_000, 50, 1000)
_IN_A_PREDICTION = (1_000_000, 20, 1000)


def collect_rarely() -> None:
    """From now on look seldom: that takes a tenth of a short run."""
    gc.set_threshold(*_RARELY)


def all_stays() -> None:
    """What is there now is needed to the end: nobody need look at it again, nor count it."""
    gc.freeze()


# What is never taken to pieces; None where the program goes on after it.
_kept: list[object] | None = None


def keep_to_the_end() -> None:
    """The program ends with this run: ``keep`` does so from now on."""
    global _kept  # noqa: PLW0603 - it is about the whole process
    _kept = []


def keep(*things: object) -> None:
    """Do not take these to pieces at the end, object by object: the system takes back all memory at once."""
    if _kept is not None:
        _kept.extend(things)


def is_anything_kept() -> bool:
    """Whether there is something that the interpreter had to take to pieces if it were to end as usual."""
    return bool(_kept)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for garbage even more seldom, and not at what is there already: saves a third of the time on large clusters."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_IN_A_PREDICTION)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        # Not now, when most of it is still asked for: what is there grows old, and is looked at with all the rest.
        gc.freeze()
        gc.unfreeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Do not walk millions of live objects again and again while they are read."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
