"""A Dask cluster as an executor: ``--executor dask://HOST:PORT``. The one home of the package distributed.

Distributed tells its troubles as tracebacks in a log. Here each of them is one line.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any

from kubectl_evictplan import __version__
from kubectl_evictplan.commands.terminal import say
from kubectl_evictplan.errors import Problem, ProblemsError, UnreachableError, mistake

SCHEME = "dask://"
_OPTION = "--executor"
_DISTRIBUTION = "kubectl-evictplan"
_TIMEOUT = "10s"


class DaskScheduler(Executor):
    """What a scheduler's workers compute. UnreachableError: it does not answer. InputError: workers run another version."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            message = f"{SCHEME} needs the package distributed: pip install '{_DISTRIBUTION}[distributed]'"
            raise mistake(message, location=_OPTION) from None
        _be_quiet()
        try:
            self._client = Client(address.replace(SCHEME, "tcp://", 1), timeout=_TIMEOUT)
        except (OSError, ValueError) as error:
            message = f"no scheduler answers ({error})"
            raise UnreachableError(Problem(message, location=_OPTION, got=address)) from None
        try:
            self._check_workers(address)
        except BaseException:
            self._client.close()
            raise
        self._executor = self._client.get_executor()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have ``fn`` called by a worker."""
        found: Future[Any] = self._executor.submit(fn, *args, **kwargs)
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of the scheduler; with ``cancel_futures`` what has begun is given up as well."""
        # A client that lost its scheduler has nothing to cancel, and raises when asked to.
        if self._client.status == "running":
            self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()

    def _check_workers(self, address: str) -> None:
        """Raise for workers of another version; say that there is none yet, which an adaptive cluster mends."""
        versions = self._client.run(importlib.metadata.version, _DISTRIBUTION, on_error="return")
        for worker, version in sorted(versions.items()):
            if version != __version__:
                found = version if isinstance(version, str) else "no"
                message = (
                    f"worker {worker} has {found} {_DISTRIBUTION}, and its answers may be others: "
                    f"install {_DISTRIBUTION}=={__version__} there"
                )
                raise mistake(message, location=_OPTION, got=address)
        if not versions:
            say(f"{address} has no worker yet: waiting for one; ^C ends it")


def _be_quiet() -> None:
    """Keep distributed's log off the terminal: what it says of lost connections ``trouble`` says."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def trouble(error: Exception) -> ProblemsError | None:
    """Return what an exception out of a worker means; None when it is not about the workers."""
    if isinstance(error, CancelledError) or type(error).__name__ == "ClosedClientError":
        message = "the scheduler went away, or gave the work up"
        return UnreachableError(Problem(message, location=_OPTION))
    if type(error).__name__ == "KilledWorker":
        message = "workers ended over this work, several times: their memory may be short"
        return mistake(message, location=_OPTION)
    if isinstance(error, ImportError):
        message = f"a worker cannot run this version of {_DISTRIBUTION}: {error}"
        return mistake(message, location=_OPTION)
    return None
