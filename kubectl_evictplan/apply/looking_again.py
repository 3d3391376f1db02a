"""What is looked at again while a run goes on: that it is still the plan's cluster, and can still do what it has to.

A server may be upgraded, or an address may lead to another cluster, in the middle of a run. And a machine that
slept knows nothing of what happened meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kubectl_evictplan.apply import preflight
from kubectl_evictplan.apply.cluster import Access
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.preflight import CheckFailed
from kubectl_evictplan.apply.progress import ServerChanged
from kubectl_evictplan.apply.records import Server
from kubectl_evictplan.apply.states import Phase
from kubectl_evictplan.apply.stop import StoppedReading
from kubectl_evictplan.apply.working import ATTEMPT_SECONDS, Working
from kubectl_evictplan.errors import UnreachableError
from kubectl_evictplan.plans.document import AnyOperation, ClusterIdentity

# As often as the lock's Lease is half over: three small requests.
LOOK_SECONDS = 30.0
ANSWER_SECONDS = 3.0


class SameServer:
    """Which cluster answers, and of which release.

    ``needed``: the rights of the run, asked for again when the release is another one.
    """

    def __init__(self, planned: ClusterIdentity, needed: Sequence[Access]) -> None:
        self._planned = planned
        self._needed = needed
        self._looked = 0.0

    def begin(self, run: Working, now: ClusterIdentity) -> None:
        """Write down which server it is, as was just asked."""
        self._looked = run.world.monotonic()
        self._note(run, now)

    def look(self, run: Working) -> None:
        """Look from time to time. No answer is no answer: whatever is sent next finds that out."""
        now = run.world.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        try:
            now_there = self._ask_once(run)
        except UnreachableError:
            return
        self._compare(run, now_there)

    def _ask_once(self, run: Working) -> ClusterIdentity:
        """Ask briefly, so that no pause becomes longer for it; a signal breaks it off."""
        run.api.ask_briefly(ANSWER_SECONDS)
        try:
            with run.stop.reading():
                return run.api.identity()
        except StoppedReading:
            raise Ended(Ending(EndCode.INTERRUPTED, signal=run.stop.signal_name)) from None
        finally:
            run.api.ask_briefly(ATTEMPT_SECONDS)

    def look_again(self, run: Working) -> None:
        """Look in any case."""
        self._looked = run.world.monotonic()
        self._compare(run, run.read(run.api.identity))

    def _compare(self, run: Working, now: ClusterIdentity) -> None:
        # A server that has just started knows nobody's rights: what it does not tell is nothing new.
        now = replace(
            now,
            cluster_uid=now.cluster_uid or self._planned.cluster_uid,
            user=now.user or self._planned.user,
        )
        try:
            preflight.same_cluster(self._planned, now)
            if self._note(run, now):
                run.read(lambda: preflight.rights(run.api, self._needed))
                run.read(lambda: preflight.evictions_served(run.api, _to_do(run)))
        except CheckFailed as failed:
            raise Ended(failed.ending) from failed

    def _note(self, run: Working, now: ClusterIdentity) -> bool:
        """Write down a server that is not the last one; tell whether its release is another."""
        before = run.state.server
        if now == before:
            return False
        run.note(Server(cluster=now))
        versions = ("" if before is None else before.kubernetes_version, now.kubernetes_version)
        if not all(versions) or versions[0] == versions[1]:
            return False
        run.say(ServerChanged(at_ns=run.now_ns, before=versions[0], after=versions[1]))
        return True


class SameNodes:
    """After the machine slept: the nodes of all that is left are still as it presupposes."""

    def __init__(self, uids: Mapping[str, str], *, continue_on_absent: bool) -> None:
        self._uids = uids
        self._continue_on_absent = continue_on_absent

    def look(self, run: Working) -> None:
        """Do nothing: every mutation is preceded by a read of its object anyway."""

    def look_again(self, run: Working) -> None:
        """Check the nodes of all that is left to do."""
        try:
            preflight.nodes_as_planned(
                run, _to_do(run), self._uids, may_be_absent=self._continue_on_absent
            )
        except CheckFailed as failed:
            raise Ended(failed.ending) from failed


def _to_do(run: Working) -> list[AnyOperation]:
    doings = run.state.operations.values()
    return [doing.operation for doing in doings if doing.phase is Phase.WAITING]
