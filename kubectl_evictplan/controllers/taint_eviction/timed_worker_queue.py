"""``TimedWorkerQueue``: at most one pending deletion per pod name.

Upstream: pkg/controller/tainteviction/timed_workers.go. A key is absent, a live worker, or NIL:
*present without a timer*. ``add`` is refused for any present key. Up to 1.32 a key stays NIL after its
pod was deleted, and then refuses the timer of the next pod of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubectl_evictplan.engine.event_queue import EventQueue, Priority, ScheduledCall


class TimedWorker:
    """A pending deletion: created and due instants, and whatever the owner wants to remember."""

    __slots__ = ("call", "created_at_ns", "fire_at_ns", "note")

    def __init__(self, created_at_ns: int, fire_at_ns: int, note: Any) -> None:
        self.created_at_ns = created_at_ns
        self.fire_at_ns = fire_at_ns
        self.note = note
        self.call: ScheduledCall | None = None


class TimedWorkerQueue:
    """Workers by key (``namespace/name``). ``run`` is called when a worker is due."""

    __slots__ = ("_events", "_run", "_workers")

    def __init__(self, events: EventQueue, run: Callable[[str, TimedWorker], None]) -> None:
        self._events = events
        self._run = run
        self._workers: dict[str, TimedWorker | None] = {}

    def add(
        self,
        key: str,
        created_at_ns: int,
        fire_at_ns: int,
        note: Any,
        *,
        live_while_due: bool = False,
    ) -> bool:
        """``AddWork``: False when the key is present (live or NIL). Due work runs at once.

        ``live_while_due``: up to 1.29 work that is due at once is a live worker until it has run
        (its two clock readings differ by nanoseconds); from 1.30 on it is NIL.

        The delay counts from now and is ``fire_at - created_at`` (upstream), not until ``fire_at``.
        """
        if key in self._workers:
            return False
        worker = TimedWorker(created_at_ns, fire_at_ns, note)
        delay_ns = fire_at_ns - created_at_ns
        if delay_ns <= 0:
            self._workers[key] = worker if live_while_due else None
            self._run(key, worker)
        else:
            self._workers[key] = worker
            worker.call = self._events.schedule(
                self._events.now_ns + delay_ns,
                Priority.EVICTION_TIMER,
                lambda: self._run(key, worker),
            )
        return True

    def adopt(self, key: str, worker: TimedWorker, due_ns: int) -> None:
        """Take over a timer that was already running when the simulation began."""
        self._workers[key] = worker
        worker.call = self._events.schedule(
            due_ns, Priority.EVICTION_TIMER, lambda: self._run(key, worker)
        )

    def cancel(self, key: str) -> bool:
        """``CancelWork``: True when a live worker was stopped; a NIL key is dropped silently."""
        if key not in self._workers:
            return False
        worker = self._workers.pop(key)
        if worker is None:
            return False
        if worker.call is not None:
            worker.call.cancel()
        return True

    def get(self, key: str) -> TimedWorker | None:
        """``GetWorkerUnsafe``: the live worker; NIL and absent look the same."""
        return self._workers.get(key)

    def keep_nil(self, key: str) -> None:
        """Leave the key present without a timer (releases up to 1.32, after success)."""
        self._workers[key] = None

    def forget(self, key: str) -> None:
        """Drop the key whatever it is (releases from 1.33; failures everywhere)."""
        self._workers.pop(key, None)

    def stop(self) -> None:
        """The process is gone: no timer of this queue fires any more."""
        for worker in self._workers.values():
            if worker is not None and worker.call is not None:
                worker.call.cancel()
        self._workers.clear()
