"""``TimedWorkerQueue``: at most one pending deletion per pod name.

Upstream: pkg/controller/tainteviction/timed_workers.go. A key is absent, a live worker, or NIL:
*present without a timer*. ``add`` is refused for any present key. Up to 1.32 a key stays NIL after its
pod was deleted, and then refuses the timer of the next pod of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kubectl_evictplan.engine.event_queue import EventQueue, Priority, ScheduledCall

Note = TypeVar("Note")


class TimedWorkerQueue(Generic[Note]):
    """Workers by key (``namespace/name``), each with what its owner wants to remember.

    ``run`` is called when a worker is due. ``live_while_due``: up to 1.29 work that is due at once is a
    live worker until it has run (its two clock readings differ by nanoseconds); from 1.30 on it is NIL.
    """

    __slots__ = ("_events", "_live_while_due", "_run", "_workers")

    def __init__(
        self, events: EventQueue, run: Callable[[str, Note], None], *, live_while_due: bool
    ) -> None:
        self._events = events
        self._run = run
        self._live_while_due = live_while_due
        self._workers: dict[str, tuple[Note, ScheduledCall | None] | None] = {}

    def add(self, key: str, delay_ns: int, note: Note) -> bool:
        """``AddWork``: False when the key is present (live or NIL). Due work runs at once."""
        if key in self._workers:
            return False
        if delay_ns > 0:
            self.adopt(key, self._events.now_ns + delay_ns, note)
        else:
            self._workers[key] = (note, None) if self._live_while_due else None
            self._run(key, note)
        return True

    def adopt(self, key: str, due_ns: int, note: Note) -> None:
        """Start a timer, or take over one that was already running when the simulation began."""
        call = self._events.schedule(due_ns, Priority.EVICTION_TIMER, lambda: self._run(key, note))
        self._workers[key] = note, call

    def cancel(self, key: str) -> Note | None:
        """``CancelWork``: the note of the live worker that was stopped; a NIL key is dropped silently."""
        worker = self._workers.pop(key, None)
        if worker is None:
            return None
        note, call = worker
        if call is not None:
            call.cancel()
        return note

    def is_live(self, key: str) -> bool:
        """``GetWorkerUnsafe``: NIL and absent look the same."""
        return self._workers.get(key) is not None

    def keep_nil(self, key: str) -> None:
        """Leave the key present without a timer (releases up to 1.32, after success)."""
        self._workers[key] = None

    def forget(self, key: str) -> None:
        """Drop the key whatever it is (releases from 1.33; failures everywhere)."""
        self._workers.pop(key, None)

    def stop(self) -> None:
        """The process is gone: no timer of this queue fires any more."""
        for key in list(self._workers):
            self.cancel(key)
