"""Processes and threads of our own that work beside this one: how many, how they begin, and that none outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kubectl_evictplan.garbage import all_stays, collect_rarely

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from io import FileIO

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

# What a copy ends with besides errors of the system, which are smaller.
_NO_MEMORY, _FAILED = 254, 255
# The largest supported cluster and its copy take a third of that together.
_BYTES_FOR_COPIES = 1 << 30
# As much as a pipe holds, and as much as one may hold for whom the administrator allows no more.
_SENT_AT_ONCE, _PIPE_BYTES = 1 << 16, 1 << 20
# What stands before an answer.
_LENGTH = Struct("<Q")
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


@contextlib.contextmanager
def in_copy(work: Callable[[FileIO], object]) -> Iterator[Copy | None]:
    """Do it in a copy of this process meanwhile, with what is sent to that. The copy never outlives the context.

    None: nothing was begun. There is no second processor, little memory is allowed, or no copy can be made.
    """
    copy = _begun(work) if may_have_copy() else None
    try:
        yield copy
    finally:
        if copy is not None:
            copy.end()


@contextlib.contextmanager
def answer_of_copy(function: Callable[[], bytes]) -> Iterator[Callable[[], bytes | None]]:
    """Begin with it in a copy of this process; what is yielded waits for its answer.

    None where no copy is to be had, or it failed: whoever asks does it without.
    """
    try:
        ours, theirs = _wide_pipe()
    except OSError:
        yield lambda: None
        return

    def work(_: FileIO) -> None:
        os.close(ours)
        with os.fdopen(theirs, "wb", buffering=0) as stream:
            answer = function()
            for part in (_LENGTH.pack(len(answer)), answer):
                left = memoryview(part)
                while left:
                    left = left[stream.write(left) :]

    with os.fdopen(ours, "rb", buffering=0) as stream, in_copy(work) as copy:
        os.close(theirs)
        yield partial(_answer_of, copy, stream)


def _answer_of(copy: Copy | None, stream: FileIO) -> bytes | None:
    if copy is None:
        return None
    text = stream.readall()
    # A whole one is all that is asked of the copy: nobody waits until the system has taken its memory back.
    answer = text[_LENGTH.size :]
    return answer if text[: _LENGTH.size] == _LENGTH.pack(len(answer)) else None


def read_all_of(stream: FileIO, length: int) -> bytes:
    """So many bytes of what is sent to a copy. Raises EOFError where there are no more."""
    text = bytearray(length)
    left = memoryview(text)
    while left:
        if not (number := stream.readinto(left)):
            raise EOFError
        left = left[number:]
    return bytes(text)


class Copy:
    """A copy of this process at its work. It sees that this one is there by the pipe between them."""

    def __init__(self, number: int, pipe: int) -> None:
        """``number``: of its process; ``pipe``: to it."""
        self._number = number
        self._pipe = os.fdopen(pipe, "wb", buffering=_SENT_AT_ONCE)
        self._has_ended = False

    def send(self, *texts: bytes, at_once: bool = False) -> None:
        """Send it some bytes, some of which it may get later unless it is to have all ``at_once``.

        Raises what ended it if it is there no more.
        """
        try:
            self._pipe.writelines(texts)
            if at_once:
                self._pipe.flush()
        except BrokenPipeError:
            self.wait()
            raise

    def wait(self) -> None:
        """Until it has ended.

        Raises what ended it: errors of the system as they are, MemoryError where memory ended or somebody killed it.
        """
        code = _end_of(self._number)
        self._has_ended = True
        _raise_end(code)

    def end(self) -> None:
        """It has nobody to do it for any more."""
        # What is not sent yet would be written now.
        if not self._has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._number, signal.SIGKILL)
            _end_of(self._number)
        with contextlib.suppress(BrokenPipeError):
            self._pipe.close()


def _begun(work: Callable[[FileIO], object]) -> Copy | None:
    try:
        theirs, ours = _wide_pipe()
    except OSError:
        return None
    try:
        number = os.fork()
    except OSError:
        os.close(theirs)
        os.close(ours)
        return None
    if number == 0:
        _end_as_copy(work, theirs, ours)
    os.close(theirs)
    return Copy(number, ours)


def _wide_pipe() -> tuple[int, int]:
    """A pipe (to read from, to write to) that holds so much that who sends large pieces need not wait for each to be read."""
    ends = os.pipe()
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return ends


def may_have_copy() -> bool:
    """Whether ``in_copy`` is worth it, and possible."""
    if default_jobs() < 2 or is_memory_bounded() or not _may_be_copied():
        return False
    from kubectl_evictplan.cgroups import memory_max_bytes  # large answers ask only

    most_bytes = memory_max_bytes()
    return most_bytes is None or most_bytes >= _BYTES_FOR_COPIES


def _end_as_copy(work: Callable[[FileIO], object], pipe: int, others: int) -> NoReturn:
    """In a copy: do it without a word of our own. Whatever fails, nothing that called us may go on here."""
    code = _FAILED
    try:
        os.close(others)
        sys.stderr = None
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _end_with_writer(pipe)
        # Nobody reads ahead of what it asks for: a copy of this copy may go on.
        work(os.fdopen(pipe, "rb", buffering=0, closefd=False))
        code = 0
    except MemoryError:
        code = _NO_MEMORY
    except OSError as error:
        code = error.errno or _FAILED
    finally:
        os._exit(code)


def _end_with_writer(pipe: int) -> None:
    """End this copy as soon as nobody is there any more who could write into the pipe: nobody does."""
    import _thread
    import select

    def wait() -> None:
        poll = select.poll()
        poll.register(pipe, 0)  # told of its end only
        poll.poll()
        os._exit(_FAILED)

    with contextlib.suppress(RuntimeError, OSError):
        _thread.start_new_thread(wait, ())


def _end_of(copy: int) -> int:
    """Wait for it: its exit code, below 0 the signal that killed it."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    except ChildProcessError:
        return _FAILED


def _raise_end(code: int) -> None:
    if code < 0 or code == _NO_MEMORY:
        raise MemoryError
    if code == _FAILED:
        raise RuntimeError("a copy of this process failed")
    if code:
        raise OSError(code, os.strerror(code))
