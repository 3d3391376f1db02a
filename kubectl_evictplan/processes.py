"""Processes of our own that work beside this one: how many, how they begin, and that none outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubectl_evictplan.garbage import all_stays, collect_rarely

if TYPE_CHECKING:
    from concurrent.futures import Executor

# The function of this worker process; set once, so that what it needs is sent once.
_function: Callable[[Any], Any] | None = None


def default_jobs() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def processes(workers: int, function: Callable[[Any], Any]) -> Executor:
    """Return processes whose one work is ``function`` (``work`` calls it there).

    On Linux they share with this one what it has loaded; never where threads run, whose locks a copy would hold
    for ever. Elsewhere ``function`` is sent to them and must be picklable.
    """
    import threading
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_all_start_methods, get_context

    shared = (
        sys.platform == "linux"
        and "fork" in get_all_start_methods()
        and threading.active_count() == 1
    )
    context = get_context("fork" if shared else "spawn")
    return ProcessPoolExecutor(workers, context, _begin, (function,))


def work(task: Any) -> Any:
    """In a worker: return its function of the task."""
    assert _function is not None, "a worker begins with its function"
    return _function(task)


def _begin(function: Callable[[Any], Any]) -> None:
    """In a worker: Ctrl-C is for the process that people see, which lets us end; without it we end as well."""
    import threading

    global _function  # noqa: PLW0603 - a worker process does one thing all its life
    _function = function
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    all_stays()
    collect_rarely()


def _end_with_parent() -> None:
    """End this worker when whoever began it is gone, killed perhaps: nobody would tell it any more."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
