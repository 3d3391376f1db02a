"""Processes and threads of our own that work beside this one: how many, how they begin, and that none outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kubectl_evictplan.garbage import all_stays, collect_rarely

if TYPE_CHECKING:
    from concurrent.futures import Executor

_T = TypeVar("_T")

# The function of this worker process; set once, so that what it needs is sent once.
_function: Callable[[Any], Any] | None = None


def default_jobs() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def may_have_workers() -> bool:
    """Whether ``processes`` can work: a thread here hands out their tasks, and one in each looks whether we are there."""
    import threading

    probe = threading.Thread(target=int, daemon=True)
    try:
        probe.start()
    except (RuntimeError, OSError):
        return False
    probe.join()
    return True


def processes(workers: int, function: Callable[[Any], Any]) -> Executor:
    """Return processes whose one work is ``function`` (``work`` calls it there).

    On Linux they share with this one what it has loaded; never where threads run, whose locks a copy would hold
    for ever. Elsewhere ``function`` is sent to them and must be picklable.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    context = get_context("fork" if _may_be_copied() else "spawn")
    return ProcessPoolExecutor(workers, context, _begin, (function,))


def _may_be_copied() -> bool:
    import threading

    return sys.platform == "linux" and threading.active_count() == 1


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


# -- one thing beside another -------------------------------------------------------------------------

# Before each piece that a copy sends stands its length, at the end 0. A pipe holds so much at most for most users.
_LENGTH_BYTES = 8
_PIPE_BYTES = 1 << 20
# A thread that had no memory to begin with tells nobody that it ended: it is looked for so often.
_LOST_THREAD_SECONDS = 1.0


def is_memory_bounded() -> bool:
    """Whether this process may have so much memory only (``ulimit -v``), of which each thread and each copy takes a share."""
    try:
        import resource
    except ImportError:  # not on Windows
        return False
    limits = [getattr(resource, name, None) for name in ("RLIMIT_AS", "RLIMIT_DATA")]
    return any(
        resource.getrlimit(limit)[0] != resource.RLIM_INFINITY
        for limit in limits
        if limit is not None
    )


def in_thread(function: Callable[[], _T]) -> Callable[[], _T]:
    """Begin with it in a thread; what is returned waits for its answer, or raises what it raised.

    Worth it for what needs no Python meanwhile: reading, unpacking, digests. Only the time is another: where no thread is
    to be had, or memory is bounded, it is done here once it is asked for.
    """
    if is_memory_bounded():
        return function
    # Thread.start waits for a word of the thread, for ever if memory ends before it comes.
    import _thread

    answers: list[_T] = []
    errors: list[BaseException] = []
    ended = _thread.allocate_lock()

    def begin() -> None:
        try:
            answers.append(function())
        except MemoryError:
            answers.clear()  # and it is tried again here
        except BaseException as error:  # noqa: BLE001 - told to whoever asks for the answer
            errors.append(error)
        finally:
            ended.release()

    def answer() -> _T:
        while not ended.acquire(timeout=_LOST_THREAD_SECONDS) and _thread._count():
            pass
        if errors:
            raise errors[0]
        return answers[0] if answers else function()

    ended.acquire()
    try:
        _thread.start_new_thread(begin, ())
    except (RuntimeError, OSError, MemoryError):
        return function
    return answer


def in_copy(make: Callable[[], Iterable[bytes]]) -> Callable[[], Iterable[bytes]] | None:
    """Begin to make pieces of bytes in a copy of this process; what is returned gives them, and is asked once.

    None: nothing was begun. There is no second processor, memory is bounded, or no copy can be made. Where the copy is lost
    later, or fails, what it had not sent is made here. ``make`` gives the same each time.
    """
    if default_jobs() == 1 or is_memory_bounded() or not _may_be_copied():
        return None
    try:
        ours, theirs = os.pipe()
    except OSError:
        return None
    try:
        copy = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        return None
    if copy == 0:
        # Whatever fails, nothing that called us may go on here.
        try:
            os.close(ours)
            _send(make, theirs)
        finally:
            os._exit(0)
    os.close(theirs)
    return partial(_received, ours, copy, make)


def _send(make: Callable[[], Iterable[bytes]], pipe: int) -> None:
    """In a copy: make it and write it, without a word of our own."""
    import fcntl

    sys.stderr = None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_reader(pipe)
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    with open(pipe, "wb") as stream:
        for piece in filter(None, make()):
            stream.write(len(piece).to_bytes(_LENGTH_BYTES, "little"))
            stream.write(piece)
        stream.write(bytes(_LENGTH_BYTES))


def _end_with_reader(pipe: int) -> None:
    """End this copy as soon as nobody is there any more to read from it; without a thread, once it writes."""
    import _thread
    import select

    def wait() -> None:
        poll = select.poll()
        poll.register(pipe, 0)  # told of errors only: of a pipe that nobody reads
        poll.poll()
        os._exit(1)

    with contextlib.suppress(RuntimeError, OSError):
        _thread.start_new_thread(wait, ())


def _received(ours: int, copy: int, make: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """All that the copy makes, as it comes."""
    sent, is_whole = 0, False
    with open(ours, "rb") as stream:
        while len(head := stream.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            length = int.from_bytes(head, "little")
            is_whole = not length
            piece = stream.read(length)
            if is_whole or len(piece) < length:
                break
            yield piece
            sent += length
    with contextlib.suppress(ChildProcessError):
        os.waitpid(copy, 0)
    if not is_whole:
        yield from _behind(sent, make())


def _behind(sent: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What comes after so many bytes."""
    for piece in pieces:
        if len(piece) > sent:
            yield piece[sent:]
        sent = max(sent - len(piece), 0)
