"""Real signals to real processes: one settles what is under way, a second one ends it at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from building.builders import encoded
from live.apply_driver import Carrier
from live.applying import drain_of, drainable_cluster, plan_of
from live.changing import TOKEN, changing
from live.real_clock import RealClock
from live.requests_answered import Asked
from live.writable_server import WritableServer

from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.states import Phase
from kubectl_evictplan.apply.status import status

pytestmark = pytest.mark.slow


@contextmanager
def prepared(folder: Path) -> Iterator[tuple[WritableServer, tuple[Any, ...]]]:
    """Give a server whose pods take three seconds to end, and what a process is told."""
    api = drainable_cluster(clock=RealClock(), exit_after_seconds=3.0)
    with api.serve():
        with changing(api) as cluster:
            plan = plan_of(cluster, drain_of(cluster, "n1", "n2"))
        path = folder / "plan.json"
        path.write_bytes(encoded(plan))
        flags = {"server": api.url, "token": TOKEN}
        yield api, (str(path), str(folder / "journal.jsonl"), flags)


def arrived(api: WritableServer, matches: Callable[[Asked], bool]) -> threading.Event:
    """Return what is set when such a request arrives."""
    event = threading.Event()
    api.before.append(lambda asked: event.set() if matches(asked) else None)
    return event


def signalled(carrier: Carrier, number: signal.Signals) -> float:
    """Signal the process; return the instant."""
    assert carrier.process.pid is not None
    os.kill(carrier.process.pid, number)
    return time.monotonic()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_within_a_second_and_it_can_be_gone_on_with(
    number: signal.Signals, tmp_path: Path
) -> None:
    with prepared(tmp_path) as (api, arguments):
        evicting = arrived(api, lambda asked: asked.plural == "pods" and asked.verb == "create")
        carrier = Carrier("run", *arguments)
        assert evicting.wait(20)
        at, before = signalled(carrier, number), len(api.executed)

        assert carrier.finished() == 130
        assert time.monotonic() - at < 1.5
        # The one eviction that is under way comes through, and no other follows.
        later = [site for site, _, _ in api.executed[before:] if "leases" not in site]
        assert len(later) <= 1
        assert Carrier("resume", *arguments).finished() == 0


def test_a_second_signal_ends_a_run_that_waits_for_an_answer(tmp_path: Path) -> None:
    with prepared(tmp_path) as (api, arguments):
        hangs, goes_on = threading.Event(), threading.Event()

        def hang(asked: Asked) -> None:
            if asked.plural == "nodes" and asked.verb == "patch" and "dryRun" not in str(asked):
                hangs.set()
                goes_on.wait(20)

        api.before.append(hang)
        carrier = Carrier("run", *arguments)
        assert hangs.wait(20)
        signalled(carrier, signal.SIGINT)
        at = signalled(carrier, signal.SIGTERM)

        assert carrier.finished() == 130
        assert time.monotonic() - at < 1.0
        goes_on.set()
        state = status(Path(arguments[1]), LocalFiles()).state
        assert state.operations[1].phase is Phase.UNKNOWN
        api.before.clear()
        assert Carrier("resume", *arguments).finished() == 0


def test_a_run_that_was_stopped_and_continued_sends_nothing_twice(tmp_path: Path) -> None:
    with prepared(tmp_path) as (api, arguments):
        evicting = arrived(api, lambda asked: asked.plural == "pods" and asked.verb == "create")
        carrier = Carrier("run", *arguments)
        assert evicting.wait(20)
        signalled(carrier, signal.SIGSTOP)
        # What was on its way may still arrive; afterwards nothing does.
        time.sleep(0.5)
        before = len(api.executed)
        time.sleep(2.0)
        assert len(api.executed) == before
        signalled(carrier, signal.SIGCONT)

        assert carrier.finished() == 0
        evicted = [key for site, key, _ in api.executed if site == "create pods/eviction"]
        assert evicted
        assert len(evicted) == len(set(evicted))
