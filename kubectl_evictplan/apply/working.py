"""A run at work: the one place where it writes down, tells, waits, and looks whether it may go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from kubectl_evictplan.apply.cluster import ClusterApi, LiveNode
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.files import Files
from kubectl_evictplan.apply.journal import Journal, JournalFailed
from kubectl_evictplan.apply.lock import Lock
from kubectl_evictplan.apply.progress import (
    AnyProgress,
    ClockGap,
    Paused,
    ServerAway,
    ServerBack,
    Tell,
)
from kubectl_evictplan.apply.records import AnyRecord, Intent, Result
from kubectl_evictplan.apply.states import RunState, note
from kubectl_evictplan.apply.stop import Stop, StoppedReading
from kubectl_evictplan.errors import AccessError, ForbiddenError, NoAnswerError, UnreachableError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.world import World

# How long a signal may go unnoticed in a pause, and how often conditions are looked at in one.
SLICE_SECONDS = 0.5
# A monotonic and a wall clock that drift apart by more: suspended, or set.
CLOCK_GAP_SECONDS = 5.0
# How long a server may be away in the middle of a run: kubelets restart one within a minute or so.
AWAY_SECONDS_MAX = 120.0
_AWAY_PAUSE_SECONDS_MAX = 5.0
# How long one attempt to read waits for a silent server once something was sent: then that is told.
ATTEMPT_SECONDS = 10.0
# How often an answer from before our own change is asked for again.
STALE_READS_MAX = 3
_STALE = "it answers with a node from before this run's own change: a cache, or a server that lags behind"

RecordT = TypeVar("RecordT", bound=AnyRecord)
Read = TypeVar("Read")


class Watch(Protocol):
    """Something that is looked at whenever the run may go on; it raises Ended when not."""

    def look(self, run: Working) -> None:
        """Look, unless it was looked at just now."""

    def look_again(self, run: Working) -> None:
        """Look in any case: the machine slept."""


class Looking:
    """One process's looking at a cluster: it reads, tells, waits and heeds signals, and writes nothing down."""

    def __init__(self, api: ClusterApi, world: World, stop: Stop, tell: Tell) -> None:
        self.api = api
        self.world = world
        self.stop = stop
        self._tell: Tell | None = tell

    def say(self, event: AnyProgress) -> None:
        """Tell what happens. A listener whose output is closed hears no more; the run goes on."""
        if self._tell is None:
            return
        try:
            self._tell(event)
        except OSError:
            self._tell = None

    @property
    def now_ns(self) -> int:
        """The server's time, for events."""
        return self.api.now_ns()

    def checkpoint(self) -> None:
        """Look whether something new may be begun; raises Ended when not."""
        self.heed_signals()

    def heed_signals(self) -> None:
        """Raise Ended when somebody asked to stop."""
        if self.stop.requested:
            raise Ended(Ending(EndCode.INTERRUPTED, signal=self.stop.signal_name))

    def pause(
        self, seconds: float, why: str = "", node: str = "", objects: tuple[str, ...] = ()
    ) -> None:
        """Wait, and keep looking whether the run may go on; told when ``why`` is given."""
        if why and seconds > 0:
            self.say(
                Paused(at_ns=self.now_ns, why=why, seconds=seconds, node=node, objects=objects)
            )
        until = self.world.monotonic() + seconds
        while True:
            self.checkpoint()
            left = until - self.world.monotonic()
            if left <= 0:
                return
            self.world.sleep(min(left, SLICE_SECONDS))

    def read(self, asked: Callable[[], Read], number: int = 0, node: str = "") -> Read:
        """Return what is read; what that can fail of ends the run, and a signal at once: raises Ended."""
        try:
            return self._answer(asked)
        except StoppedReading:
            raise Ended(Ending(EndCode.INTERRUPTED, signal=self.stop.signal_name)) from None
        except ForbiddenError as error:
            raise Ended(Ending(EndCode.UNREADABLE, number, node, message=str(error))) from error
        except AccessError as error:
            ending = Ending(EndCode.UNAUTHENTICATED, number, node, message=str(error))
            raise Ended(ending) from error
        except UnreachableError as error:
            ending = Ending(EndCode.UNREACHABLE, number, node, message=str(error))
            raise Ended(ending) from error

    def _answer(self, asked: Callable[[], Read]) -> Read:
        with self.stop.reading():
            return asked()


class Outside(NamedTuple):
    """All that a run takes from outside: the cluster, where its journal lies, time, signals, and who is told."""

    api: ClusterApi
    files: Files
    world: World
    stop: Stop
    tell: Tell


class Working(Looking):
    """One process's work on one journal: running, going on, or taking back."""

    def __init__(
        self,
        outside: Outside,
        journal: Journal,
        state: RunState,
        *,
        deadline_seconds: float = 30.0,
    ) -> None:
        super().__init__(outside.api, outside.world, outside.stop, outside.tell)
        self.journal = journal
        self.state = state
        self.deadline_seconds = deadline_seconds
        self.lock: Lock | None = None
        self.watches: Sequence[Watch] = ()
        self.unwritten = b""
        # Whether the last thing that was read got no answer.
        self.is_away = False
        # The monotonic instant of the run's first intent, when this process wrote it.
        self.first_sent: float | None = None
        self._clocks = (self.world.monotonic(), self.world.wall_ns())

    def note(self, record: RecordT) -> RecordT:
        """Make a record durable and add it to the state; raises Ended when it cannot be written."""
        record = msgspec.structs.replace(record, at=format_rfc3339(self.api.now_ns()))
        try:
            record = self.journal.append(record)
        except JournalFailed as failure:
            self.unwritten = failure.line
            lost = isinstance(record, Result) and record.attempt > 0
            code = EndCode.JOURNAL_LOST if lost else EndCode.JOURNAL
            number = getattr(record, "number", 0)
            raise Ended(Ending(code, number=number, message=str(failure))) from failure
        if isinstance(record, Intent) and self.state.first_intent_ns is None:
            self.first_sent = self.world.monotonic()
        note(self.state, record)
        return record

    def checkpoint(self) -> None:
        """Look whether something new may be started; raises Ended when not.

        A signal, the machine's sleep, the lock, the conditions of --abort-if.
        """
        self.heed_signals()
        gap = self._clock_gap()
        if gap > CLOCK_GAP_SECONDS:
            self.say(ClockGap(at_ns=self.now_ns, seconds=gap))
        if self.lock is not None:
            self.lock.keep(check=gap > CLOCK_GAP_SECONDS)
        for watch in self.watches:
            if gap > CLOCK_GAP_SECONDS:
                watch.look_again(self)
            else:
                watch.look(self)
        if self.lock is not None:
            # Looking may take longer than the lock lasts, and what is sent next needs it.
            self.lock.keep()
        self.heed_signals()

    def read_node(self, name: str, number: int = 0, *, fresh: bool = False) -> LiveNode | None:
        """Return a node as it is, None when it is gone; an answer from before our own change is not taken for one.

        Raises Ended when no other comes.
        """
        old = self.state.outdated(name)
        node = self.read(lambda: self.api.get_node(name, fresh=fresh), number, name)
        for _attempt in range(STALE_READS_MAX):
            if node is None or node.resource_version not in old:
                return node
            self.pause(SLICE_SECONDS)
            node = self.read(lambda: self.api.get_node(name, fresh=True), number, name)
        if node is not None and node.resource_version in old:
            raise Ended(Ending(EndCode.UNREACHABLE, number, name, message=_STALE))
        return node

    def _answer(self, asked: Callable[[], Read]) -> Read:
        """Once the run has sent something, a server that is away is waited for, within bounds."""
        if self.state.first_intent_ns is None:
            return super()._answer(asked)
        self.api.ask_briefly(ATTEMPT_SECONDS)
        return self._outlasting(asked)

    def _outlasting(self, asked: Callable[[], Read]) -> Read:
        """Ask until an answer comes; NoAnswerError after AWAY_SECONDS_MAX.

        Nothing is sent meanwhile, so the lock may run out: it is renewed, or lost, before the next
        mutation.
        """
        started, pause = self.world.monotonic(), 0.0
        while True:
            try:
                found = super()._answer(asked)
            except NoAnswerError as error:
                self.is_away = True
                left = started + AWAY_SECONDS_MAX - self.world.monotonic()
                if left <= 0:
                    raise
                if not pause:
                    said = error.problems[0].message
                    self.say(ServerAway(at_ns=self.now_ns, seconds=left, message=said))
                pause = min(2 * pause or 1.0, _AWAY_PAUSE_SECONDS_MAX)
                self._sleep_heeding_signals(min(pause, left))
                continue
            self.is_away = False
            if pause:
                seconds = self.world.monotonic() - started
                self.say(ServerBack(at_ns=self.now_ns, seconds=seconds))
            return found

    def _sleep_heeding_signals(self, seconds: float) -> None:
        until = self.world.monotonic() + seconds
        while (left := until - self.world.monotonic()) > 0:
            self.heed_signals()
            self.world.sleep(min(left, SLICE_SECONDS))
        self.heed_signals()

    def _clock_gap(self) -> float:
        """Return by how many seconds the clocks went apart since the last look."""
        monotonic, wall_ns = self.world.monotonic(), self.world.wall_ns()
        before, self._clocks = self._clocks, (monotonic, wall_ns)
        return abs((wall_ns - before[1]) / SECOND_NS - (monotonic - before[0]))
