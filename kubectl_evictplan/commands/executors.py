"""Where the predictions of a sweep are computed: in this process, in others here, or by somebody else's engine.

Nothing is scheduled here: whatever gives out work is a ``concurrent.futures.Executor``. Answers come in the order
of what was asked, however many workers there are.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from kubectl_evictplan import __version__
from kubectl_evictplan.commands.dask_scheduler import SCHEME, DaskScheduler, trouble
from kubectl_evictplan.errors import Correction, mistake
from kubectl_evictplan.processes import may_have_workers, processes, work

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")

_OPTION = ("--executor",)
# So many tasks in one piece of work: enough to be worth sending, and soon ended by Ctrl-C.
_CHUNK_MAX = 25
_CHUNKS_PER_WORKER = 8
# Each of them is sent with the whole cluster, some MiB.
_CHUNK_MAX_FOREIGN = 100


class Workers(NamedTuple):
    """How many processes, or whose engine ("": our own processes)."""

    jobs: int
    executor: str = ""

    def answers(
        self,
        function: Callable[[_Task], _Answer],
        tasks: Sequence[_Task],
        progress: Callable[[int], None],
    ) -> Iterator[_Answer]:
        """Yield ``function`` of every task, in order; ``progress`` is told how many are done.

        ``function`` and tasks must be picklable where other processes are used.
        """
        if not self.executor and (min(self.jobs, len(tasks)) <= 1 or not may_have_workers()):
            for number, task in enumerate(tasks, 1):
                yield function(task)
                progress(number)
            return
        workers = self.jobs
        opened = (
            self._foreign()
            if self.executor
            else processes(min(workers, len(tasks)), partial(_all_of, function))
        )
        size = max(1, min(_CHUNK_MAX, len(tasks) // (workers * _CHUNKS_PER_WORKER)))
        if self.executor:
            size = _CHUNK_MAX_FOREIGN
        chunks = [tasks[at : at + size] for at in range(0, len(tasks), size)]
        with opened as executor:
            try:
                yield from self._gathered(executor, function, chunks, progress)
            except BaseException:
                # What has begun is soon at its end; nothing else begins.
                executor.shutdown(wait=True, cancel_futures=True)
                raise

    def _gathered(
        self,
        executor: Executor,
        function: Callable[[_Task], _Answer],
        chunks: Sequence[Sequence[_Task]],
        progress: Callable[[int], None],
    ) -> Iterator[_Answer]:
        from concurrent.futures.process import BrokenProcessPool

        done = 0
        try:
            for future in self._begun(executor, function, chunks):
                for answer in future.result():
                    yield answer
                    done += 1
                progress(done)
        except BrokenProcessPool:
            known = Correction((), ("--jobs", "1"))
            raise mistake("a worker ended before its time: memory may be short", known) from None
        except Exception as error:
            told = trouble(error) if self.executor else None
            if told is None:
                raise
            raise told from None

    def _begun(
        self,
        executor: Executor,
        function: Callable[[_Task], _Answer],
        chunks: Sequence[Sequence[_Task]],
    ) -> list[Future[list[_Answer]]]:
        if not self.executor:
            return [executor.submit(work, chunk) for chunk in chunks]
        sent = zlib.compress(pickle.dumps(function), 1)
        digest = hashlib.sha256(sent).hexdigest()
        return [executor.submit(_all_of_sent, __version__, digest, sent, chunk) for chunk in chunks]

    def _foreign(self) -> Executor:
        """Return the executor that ``--executor`` names."""
        if self.executor.startswith(SCHEME):
            return DaskScheduler(self.executor)
        name, _, factory = self.executor.partition(":")
        try:
            sys.path.insert(0, "")  # as `python -m` does: a module of the working directory
            made = getattr(import_module(name), factory)()
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise _no_executor(self.executor, str(error)) from None
        finally:
            sys.path.remove("")
        if not isinstance(made, Executor):
            raise _no_executor(self.executor, "what it returns is no concurrent.futures.Executor")
        return made


def check_executor(text: str) -> None:
    """Raise for what can be no executor, before anything is loaded."""
    name, colon, factory = text.partition(":")
    if text.startswith(SCHEME):
        if not text.removeprefix(SCHEME).rpartition(":")[2].isdecimal():
            raise _no_executor(text, "the address has no port")
    elif not (colon and factory.isidentifier() and all(map(str.isidentifier, name.split(".")))):
        raise _no_executor(text, "neither an address nor a function")


def _no_executor(text: str, why: str) -> Exception:
    known = Correction((text,), ("dask://scheduler:8786",), True, _OPTION)
    expected = "dask://HOST:PORT, or module:factory of a concurrent.futures.Executor"
    return mistake(
        f"no such executor: {why}", known, got=text, expected=expected, location=_OPTION[0]
    )


# Of a worker of somebody else's engine: the last function it was sent, by its digest.
_sent_functions: dict[str, Callable[[Any], Any]] = {}


def _all_of_sent(version: str, digest: str, sent: bytes, tasks: Sequence[Any]) -> list[Any]:
    if version != __version__:
        raise ImportError(f"it has {__version__}, and {version} asks")
    if digest not in _sent_functions:
        _sent_functions.clear()
        _sent_functions[digest] = pickle.loads(zlib.decompress(sent))  # noqa: S301 - our own bytes
    return _all_of(_sent_functions[digest], tasks)


def _all_of(function: Callable[[_Task], _Answer], tasks: Sequence[_Task]) -> list[_Answer]:
    return [function(task) for task in tasks]
