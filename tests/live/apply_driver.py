"""A process that carries a plan out, for tests that kill it: the real client, engine and journal."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config.kube_config
import msgspec
import urllib3.connectionpool

from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.progress import AnyProgress
from kubectl_evictplan.apply.records import Author
from kubectl_evictplan.apply.resume import resume
from kubectl_evictplan.apply.rollback import rollback
from kubectl_evictplan.apply.run import RunOptions, RunResult, apply_plan
from kubectl_evictplan.apply.stop import Stop, signals_caught
from kubectl_evictplan.apply.working import Outside
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.mutations import cluster_api
from kubectl_evictplan.plans.document import Plan
from kubectl_evictplan.world import World

ENVIRONMENT = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
# Imported here for the processes that are forked: they log in at once.
_IMPORTED = (kubernetes.client, kubernetes.config.kube_config, urllib3.connectionpool)
# Processes are forked off one that has imported everything: starting one takes milliseconds.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def hurried(factor: float) -> World:
    """Return a world whose pauses are so many times shorter."""
    return World(
        monotonic=lambda: time.monotonic() * factor,
        sleep=lambda seconds: time.sleep(seconds / factor),
    )


def carry(
    what: str,
    plan_path: str,
    journal: str,
    flags: Mapping[str, Any],
    factor: float = 1.0,
    user: str = "jane",
) -> RunResult:
    """Do what is asked: ``run``, ``resume`` or ``rollback``."""
    plan = msgspec.json.decode(Path(plan_path).read_bytes(), type=Plan)
    author = Author(user=user, host="laptop", pid=1, tool_version="test")
    options, stop = RunOptions(author=author), Stop()
    told: list[AnyProgress] = []
    world = hurried(factor)
    with (
        signals_caught(stop),
        cluster_api(ConnectionFlags(**flags), ENVIRONMENT, world=world) as api,
    ):
        path, outside = Path(journal), Outside(api, LocalFiles(), world, stop, told.append)
        if what == "rollback":
            return rollback(path, outside, options)
        begin = apply_plan if what == "run" else resume
        return begin(plan, path, outside, options)


def _work(begun: Any, code: Any, *arguments: Any) -> None:
    # Behind `nohup` or `&` signals are ignored, and a run keeps to that: here they are sent.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    begun.set()
    try:
        result = carry(*arguments)
        code.value = result.exit_code
    except Exception as error:  # noqa: BLE001 - told to who waits
        print(repr(error), file=sys.stderr)  # noqa: T201
        code.value = 8


class Carrier:
    """One such process."""

    def __init__(self, *arguments: Any) -> None:
        self._begun, self._code = _CONTEXT.Event(), _CONTEXT.Value("i", -1)
        self.process = _CONTEXT.Process(target=_work, args=(self._begun, self._code, *arguments))
        self.process.start()

    def kill_after(self, seconds: float) -> bool:
        """SIGKILL it that much after it began; False when it had ended before."""
        self._begun.wait(60)
        self.process.join(seconds)
        was_alive = self.process.exitcode is None
        self.process.kill()
        self.process.join()
        return was_alive and self.code == -1

    @property
    def code(self) -> int:
        """The exit code, once it has one; -1 before."""
        return int(self._code.value)

    def finished(self, seconds: float = 60.0) -> int:
        """Wait for its end and return the exit code."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.process.kill()
            raise AssertionError(f"no end after {seconds:g} s")
        assert self.process.exitcode == 0, "it crashed"
        return self.code
