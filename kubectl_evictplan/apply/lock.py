"""The lock in the cluster: a Lease that keeps two runs apart.

It is advisory: over a network that may delay anything, no lock can promise more. What protects the
cluster are the preconditions of each mutation; the lock keeps operators from draining at once.

Its annotations say on which machine the holder is, and how far the journal of the last run had come: whoever
goes on with an old copy of it, or with one that lost lines at its end, is told so. They also say which plan
that run carried out and when it began: whoever lost the journal tells its doing from another's by that.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubectl_evictplan.apply.cluster import ClusterApi, LiveLease, Outcome, Reply
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.journal import Journal, head_of
from kubectl_evictplan.apply.records import Begin, LockPlace
from kubectl_evictplan.errors import AccessError, UnreachableError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.timestamps import (
    FIRST_INSTANT_NS,
    LAST_INSTANT_NS,
    format_rfc3339,
    parse_rfc3339_ns,
)
from kubectl_evictplan.world import World

LOCK_NAME = "evictplan-apply"
# Annotations of the Lease: what the holder's process ID counts for, and the journal's head.
MACHINE = "evictplan.dev/machine"
JOURNAL = "evictplan.dev/journal"
# The fingerprint of the last run's plan, and when that run began, by the server's clock.
PLAN = "evictplan.dev/plan"
BEGUN = "evictplan.dev/begun"
LOCK_SECONDS = 60
# The message of an ending by another's lock whose time is over.
EXPIRED = "expired"
# The same of one that says no time, and so is never over by itself.
ENDLESS = "endless"
RENEW_SECONDS = 15.0
# A renewal that keeps failing ends the run while the Lease still has this long to go.
SAFETY_SECONDS = 15.0
# How long the lock's return waits for its answer: it expires anyway.
RELEASE_SECONDS = 10.0
AWAY_SECONDS = 2.0
_ATTEMPTS = 3


class Lock:
    """The Lease of one run. Time is the monotonic clock's; it was renewed when the request left."""

    def __init__(
        self, place: LockPlace, api: ClusterApi, world: World, journal: Journal, begin: Begin
    ) -> None:
        self.place = place
        self._begin = begin
        self._journal = journal
        self._api = api
        self._world = world
        self._lease: LiveLease | None = None
        self._renewed = 0.0

    def acquire(self, *, steal: bool) -> str:
        """Take the lock; return "held", or "taken-over" when it was another's and had expired.

        Raises Ended: LOCKED while another holds it, JOURNAL_BEHIND when it knows lines that the journal
        does not have, DENIED when the Lease may not be written, UNREACHABLE when no answer can be had.
        """
        reply = Reply(Outcome.UNKNOWN)
        for _attempt in range(_ATTEMPTS):
            lease = self._read()
            if lease is not None:
                self._refuse_behind(lease)
            told = "held"
            if lease is not None and not self._free(lease):
                self._refuse_unless_expired(lease, steal=steal)
                told = "taken-over"
            sent = self._world.monotonic()
            reply = self._write(lease)
            if reply.outcome is Outcome.APPLIED:
                self._hold(lease, reply, sent)
                return told
            if reply.outcome in (Outcome.REFUSED, Outcome.UNAUTHENTICATED):
                raise Ended(Ending(EndCode.DENIED, message=reply.message, objects=("leases",)))
            self._world.sleep(0.1 + 0.4 * self._world.chance())
        raise Ended(Ending(EndCode.UNREACHABLE, message=reply.message, objects=("leases",)))

    def keep(self, *, check: bool = False) -> None:
        """Renew the lock when it is time; ``check``: now, after reading it.

        Raises Ended: LOCK_LOST when another has it, or when it cannot be kept up.
        """
        age = self._world.monotonic() - self._renewed
        if age < RENEW_SECONDS and not check:
            return
        reply = self._renew(read_first=check)
        overdue = self._world.monotonic() - self._renewed > LOCK_SECONDS - SAFETY_SECONDS
        if overdue or (reply is not None and check):
            # Also when the answer came, but so late that the lock is all but over again.
            raise self._lost("its renewal took too long" if reply is None else reply.message)

    def release(self, *, is_away: bool = False) -> None:
        """Give the lock back, if it is still ours; a failure leaves it to expire.

        A server that is away is asked once and briefly.
        """
        if self._lease is None:
            return
        self._api.ask_briefly(AWAY_SECONDS if is_away else RELEASE_SECONDS)
        reply = self._put(self._lease, "")
        if reply.outcome is not Outcome.APPLIED and not is_away:
            self.release_left()
        self._lease = None

    def release_left(self) -> None:
        """Give back what a process of this run left behind, if anything; a failure lets it expire."""
        try:
            lease = self._api.get_lease(self.place.namespace, self.place.name)
        except (AccessError, UnreachableError):
            return
        if lease is not None and lease.holder_identity and self._free(lease):
            self._put(lease, "")

    def _renew(self, *, read_first: bool) -> Reply | None:
        """Renew once, and once more after reading; return the answer when that failed."""
        reply = Reply(Outcome.CONFLICT)
        if not read_first:
            reply = self._update()
        if reply.outcome in (Outcome.CONFLICT, Outcome.UNKNOWN, Outcome.ABSENT):
            try:
                lease = self._api.get_lease(self.place.namespace, self.place.name)
            except (AccessError, UnreachableError) as error:
                return Reply(Outcome.UNKNOWN, message=str(error))
            if lease is None or not self._is_mine(lease):
                raise self._lost("", lease)
            self._lease = lease
            reply = self._update()
        return None if reply.outcome is Outcome.APPLIED else reply

    def _update(self) -> Reply:
        assert self._lease is not None, "a lock is acquired before it is renewed"
        sent = self._world.monotonic()
        reply = self._put(self._lease, self.place.holder)
        if reply.outcome is Outcome.APPLIED:
            self._hold(self._lease, reply, sent)
        return reply

    def _read(self) -> LiveLease | None:
        try:
            return self._api.get_lease(self.place.namespace, self.place.name)
        except AccessError as error:
            raise Ended(Ending(EndCode.DENIED, message=str(error), objects=("leases",))) from error
        except UnreachableError as error:
            raise Ended(Ending(EndCode.UNREACHABLE, message=str(error))) from error

    def _write(self, lease: LiveLease | None) -> Reply:
        place = self.place
        if lease is None:
            return self._api.create_lease(
                place.namespace, place.name, place.holder, LOCK_SECONDS, self._annotations
            )
        return self._put(lease, place.holder)

    def _put(self, lease: LiveLease, holder: str) -> Reply:
        return self._api.update_lease(lease, holder, LOCK_SECONDS, self._annotations)

    @property
    def _annotations(self) -> dict[str, str]:
        return {
            MACHINE: self.place.machine,
            JOURNAL: str(self._journal.head),
            PLAN: self._begin.plan_fingerprint,
            BEGUN: self._begin.at,
        }

    def _hold(self, lease: LiveLease | None, reply: Reply, sent: float) -> None:
        self._renewed = sent
        lease = reply.lease or lease
        if lease is None:
            place = self.place
            lease = LiveLease(place.name, place.namespace, "", "", place.holder, None, None, None)
        self._lease = msgspec.structs.replace(
            lease, resource_version=reply.resource_version, holder_identity=self.place.holder
        )

    def _free(self, lease: LiveLease) -> bool:
        """Nobody holds it, or this process, or one of this run that has died.

        A journal can be copied, so that its own lock is ours proves nothing: the process that
        holds the Lease has to be one of this machine that is not there any more, or the Lease
        has to be over.
        """
        holder = lease.holder_identity
        if not holder or self._is_mine(lease):
            return True
        (_, pid, run_id), (_, _, own_run_id) = _parts(holder), _parts(self.place.holder)
        if not run_id or run_id != own_run_id:
            return False
        if self._expired(lease):
            return True
        is_here = self._is_here(lease)
        return is_here and pid.isdecimal() and not self._world.process_alive(int(pid))

    def _is_mine(self, lease: LiveLease) -> bool:
        """It is this very process; another machine may have its name and its process ID."""
        return lease.holder_identity == self.place.holder and self._is_here(lease)

    def _is_here(self, lease: LiveLease) -> bool:
        return lease.annotations.get(MACHINE, "") == self.place.machine

    def _refuse_behind(self, lease: LiveLease) -> None:
        """Refuse a journal that does not have what the lock knows of it: an old copy, or cut, or changed."""
        known, mine = head_of(lease.annotations.get(JOURNAL, "")), self._journal.head
        if known is None or self._journal.holds(known):
            return
        lines = (f"{known.lines} lines known", f"{mine.lines} lines here")
        raise Ended(Ending(EndCode.JOURNAL_BEHIND, objects=lines))

    def _expired(self, lease: LiveLease) -> bool:
        expires_ns = _expires_ns(lease)
        return expires_ns is not None and expires_ns <= self._api.now_ns()

    def _refuse_unless_expired(self, lease: LiveLease, *, steal: bool) -> None:
        expires_ns = _expires_ns(lease)
        expired = self._expired(lease)
        if not (expired and steal):
            raise Ended(
                Ending(
                    EndCode.LOCKED,
                    message=EXPIRED if expired else _endless(expires_ns),
                    objects=_told(lease, expires_ns),
                )
            )

    def _lost(self, message: str, lease: LiveLease | None = None) -> Ended:
        self._lease = None
        told = _told(lease, _expires_ns(lease)) if lease is not None else ()
        return Ended(Ending(EndCode.LOCK_LOST, message=message, objects=told))


def refuse_held(api: ClusterApi, namespace: str, name: str) -> LiveLease | None:
    """Return the Lease; raise Ended (LOCKED) while somebody holds it and it is not over. It is not touched."""
    lease = api.get_lease(namespace, name)
    if lease is None or not lease.holder_identity:
        return lease
    expires_ns = _expires_ns(lease)
    if expires_ns is None or expires_ns > api.now_ns():
        message = _endless(expires_ns)
        raise Ended(Ending(EndCode.LOCKED, message=message, objects=_told(lease, expires_ns)))
    return lease


def begun_ns(lease: LiveLease | None, plan_fingerprint: str) -> int | None:
    """Return when the last run under this lock began; None when it was of another plan, or nobody can tell."""
    if lease is None or lease.annotations.get(PLAN) != plan_fingerprint:
        return None
    try:
        return parse_rfc3339_ns(lease.annotations.get(BEGUN, ""))
    except ValueError:
        return None


def holder(user: str, host: str, pid: int, run_id: str) -> str:
    """Return how a Lease names one process of one run."""
    return f"{user}@{host}/{pid}/{run_id}"


def _parts(name: str) -> tuple[str, str, str]:
    """Return user@host, process ID and run ID of a holder; "" for what it does not have."""
    rest, _, run_id = name.rpartition("/")
    who, _, pid = rest.rpartition("/")
    return who, pid, run_id


def _expires_ns(lease: LiveLease) -> int | None:
    """A Lease without a time does not expire: somebody else writes it, by rules of their own."""
    if lease.renew_time_ns is None or lease.lease_duration_seconds is None:
        return None
    expires_ns = lease.renew_time_ns + lease.lease_duration_seconds * SECOND_NS
    # Whoever may write a Lease may write any numbers.
    return min(max(expires_ns, FIRST_INSTANT_NS), LAST_INSTANT_NS)


def _endless(expires_ns: int | None) -> str:
    return ENDLESS if expires_ns is None else ""


def _told(lease: LiveLease, expires_ns: int | None) -> tuple[str, ...]:
    """Return holder, since when, until when, as far as the Lease says; then its namespace and name."""
    said: Callable[[int | None], str] = lambda at: "" if at is None else format_rfc3339(at)  # noqa: E731
    times = said(lease.acquire_time_ns), said(expires_ns)
    return (lease.holder_identity, *times, lease.namespace, lease.name)
