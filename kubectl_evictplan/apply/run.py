"""Carrying out a plan: checks, the lock, its operations in order, and how it ended."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from kubectl_evictplan.apply import journal as journals
from kubectl_evictplan.apply import lock as locks
from kubectl_evictplan.apply import preflight
from kubectl_evictplan.apply.cluster import ClusterApi
from kubectl_evictplan.apply.conditions import parse_condition
from kubectl_evictplan.apply.course import Course
from kubectl_evictplan.apply.endings import (
    EndCode,
    Ended,
    Ending,
    exit_code,
    may_be_taken_back,
)
from kubectl_evictplan.apply.looking_again import SameNodes, SameServer
from kubectl_evictplan.apply.preflight import CheckFailed
from kubectl_evictplan.apply.progress import CheckMade, LockNoted, RunEnded, RunStarted
from kubectl_evictplan.apply.records import (
    Author,
    Begin,
    Check,
    End,
    Interrupted,
    LockPlace,
    Preflight,
    RollbackBegin,
    RollbackEnd,
)
from kubectl_evictplan.apply.states import Phase, RunState, at_the_end
from kubectl_evictplan.apply.stop import StoppedAtOnce
from kubectl_evictplan.apply.taking_back import take_back
from kubectl_evictplan.apply.watching import Conditions
from kubectl_evictplan.apply.working import Outside, Working
from kubectl_evictplan.errors import (
    EXIT_INTERRUPTED,
    EXIT_UNKNOWN,
    AccessError,
    ForbiddenError,
    UnreachableError,
)
from kubectl_evictplan.plans.document import Plan

LOCK_NAMESPACE = "default"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs besides the plan, and none of it makes it do something else.

    ``checks`` were made before by the caller (drift, losses) and go into the journal.
    ``lock_namespace`` "": without the lock in the cluster. ``request_deadline_seconds``: when a mutation
    without an answer counts as unknown, the client's own deadline. ``plan_path``: where the plan was
    read. ``run_id`` "": a new UUID. ``continue_on_absent``: what is left of a node that is gone is left out.
    ``rollback_on_failure``: a run that fails takes its own taints and cordons back, while it holds the lock.
    ``context``: of kubeconfig, for whoever goes on. ``commands`` says of a state and its journal what can be typed next.
    """

    author: Author
    plan_path: str = ""
    checks: tuple[Check, ...] = ()
    lock_namespace: str = LOCK_NAMESPACE
    steal_lock: bool = False
    request_deadline_seconds: float = 30.0
    clock_offset_seconds: float = 0.0
    run_id: str = ""
    continue_on_absent: bool = False
    rollback_on_failure: bool = False
    context: str = ""
    commands: Callable[[RunState, Path], tuple[str, ...]] = lambda _state, _journal: ()


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended, for the command line to tell.

    ``state`` has every operation. ``resumable`` and ``can_roll_back``: which of both commands makes
    sense now. ``unwritten`` is the line that did not reach the disk, "" when all did: it has to be
    shown on stderr. ``stopped_at_once``: a second signal, nothing was written any more. ``is_away``: the server gave no
    usable answer at the end.
    """

    exit_code: int
    ending: Ending
    state: RunState
    journal: Path
    resumable: bool = False
    can_roll_back: bool = False
    unwritten: bytes = b""
    stopped_at_once: bool = False
    is_away: bool = False


def apply_plan(
    plan: Plan,
    journal: Path,
    outside: Outside,
    options: RunOptions,
) -> RunResult:
    """Carry out ``plan`` and keep the journal ``journal``, which must not exist.

    Nothing is sent before the access reviews, the lock and the server's dry run of every node patch
    have passed, nor before a record about it is durable. It ends at the first thing that is not as
    planned; what was begun is settled. Never raises for what a cluster, a network or a disk does,
    except InputError when there can be no journal, or a condition of the plan makes no sense.
    """
    conditions = Conditions([parse_condition(words) for words in plan.execution.abort_if])
    run_id = options.run_id or str(uuid.uuid4())
    opened, state = journals.create(
        journal, outside.files, beginning(plan, outside.api, options, run_id)
    )
    run = Working(outside, opened, state, deadline_seconds=options.request_deadline_seconds)
    run.watches = (conditions,)
    run.say(RunStarted(at_ns=run.now_ns, run_id=run_id, operations=plan.operations))
    return concluded(run, journal, lambda: carry_out(run, plan, conditions, options), options)


def carry_out(run: Working, plan: Plan, conditions: Conditions, options: RunOptions) -> Ending:
    """Check what has to be checked, take the lock, follow the course; may raise Ended."""
    server = SameServer(plan.cluster, preflight.rights_of(plan, options.lock_namespace))
    watches, run.watches = run.watches, ()
    checks = list(options.checks)
    try:
        identity = run.read(run.api.identity)
        for check in preflight.before_the_lock(run, plan, options.lock_namespace, identity):
            _check(run, checks, check)
        server.begin(run, identity)
        take_lock(run, run.state.begin.run_id, options)
        if run.state.preflight is None:
            for check in _under_the_lock(run, plan, may_be_absent=options.continue_on_absent):
                _check(run, checks, check)
    except CheckFailed as failed:
        checks.append(failed.check)
        run.note(Preflight(checks=tuple(checks)))
        raise Ended(failed.ending) from failed
    if run.state.preflight is None:
        run.note(Preflight(checks=tuple(checks)))
    uids = {node.name: node.uid for node in plan.nodes}
    skips = options.continue_on_absent
    run.watches = (server, SameNodes(uids, continue_on_absent=skips), *watches)
    known = frozenset(pod.uid for pod in plan.pods)
    owners = {pod.key: pod.owner for pod in plan.pods}
    course = Course(run, plan.execution, uids, known, owners, conditions, continue_on_absent=skips)
    return course.follow()


def _under_the_lock(run: Working, plan: Plan, *, may_be_absent: bool) -> preflight.Checks:
    """Return the checks of the nodes: of an adopted run those of what is left, as the rest was done unseen."""
    if not run.state.begin.is_adopted:
        return preflight.under_the_lock(run, plan)
    waiting = {n for n, one in run.state.operations.items() if one.phase is Phase.WAITING}
    left = tuple(one for one in plan.operations if one.number in waiting)
    rest = msgspec.structs.replace(plan, operations=left)
    return preflight.under_the_lock(run, rest, may_be_absent=may_be_absent)


def take_lock(run: Working, run_id: str, options: RunOptions) -> None:
    """Take the lock in the cluster, unless the run is told to do without."""
    if not options.lock_namespace:
        run.say(LockNoted(at_ns=run.now_ns, what="not-used"))
        return
    # Nobody asks again here: in a run that goes on as patiently as in one that begins.
    run.api.ask_briefly(None)
    place = lock_place(options, run_id)
    lock = locks.Lock(place, run.api, run.world, run.journal, run.state.begin)
    told = lock.acquire(steal=options.steal_lock)
    run.lock = lock
    run.say(LockNoted(at_ns=run.now_ns, what=told, holder=place.holder))


def lock_place(options: RunOptions, run_id: str) -> LockPlace:
    """Return the Lease, and what it says while this process holds it."""
    author = options.author
    holder = locks.holder(author.user, author.host, author.pid, run_id)
    return LockPlace(options.lock_namespace, locks.LOCK_NAME, holder, author.machine)


def concluded(
    run: Working,
    path: Path,
    work: Callable[[], Ending],
    options: RunOptions,
    *,
    back: bool = False,
) -> RunResult:
    """Do the work and close the run: its last record, the lock, the journal.

    ``back``: it is a rollback, which never takes itself back when it fails. A second signal ends it on the spot: the journal
    holds the intent of what was under way.
    """
    try:
        ending = _ended(run, work)
        code = exit_code(ending, changed=run.state.changed, unknown=run.state.unknown)
        if not run.journal.failed:
            ending, code = _write_end(run, ending, code, path, options, back=back)
        run.say(RunEnded(at_ns=run.now_ns, ending=ending, exit_code=code, rollback=back))
        if not back and _takes_itself_back(run, ending, options):
            code = _take_itself_back(run, code, path, options)
        if run.lock is not None:
            run.lock.release(is_away=run.is_away)
    except StoppedAtOnce:
        ending = Ending(EndCode.INTERRUPTED, signal=run.stop.signal_name)
        return _result(run, path, ending, EXIT_INTERRUPTED, at_once=True)
    finally:
        run.journal.close()
    return _result(run, path, ending, code)


def _takes_itself_back(run: Working, ending: Ending, options: RunOptions) -> bool:
    """Whether a failed run takes itself back: never while the outcome of anything that it sent is unknown."""
    state = run.state
    return (
        options.rollback_on_failure
        and may_be_taken_back(ending)
        and state.changed
        and not state.unknown
        and not run.journal.failed
    )


def _take_itself_back(run: Working, code: int, path: Path, options: RunOptions) -> int:
    """Take the run back under its own lock; returns the exit code of both.

    It stays that of the run, unless the rollback left an unknown outcome or was interrupted.
    """
    run_id, operations = run.state.begin.run_id, run.state.begin.operations
    run.say(RunStarted(at_ns=run.now_ns, run_id=run_id, operations=operations, rollback=True))

    def taking_back() -> Ending:
        place = lock_place(options, run_id) if options.lock_namespace else None
        # What was to end the run does not keep it from being taken back.
        run.watches = ()
        run.note(RollbackBegin(author=options.author, lock=place, on_failure=True))
        return take_back(run, options.lock_namespace, lambda: None)

    ending = _ended(run, taking_back)
    back_code = exit_code(ending, changed=run.state.changed, unknown=run.state.unknown)
    if not run.journal.failed:
        ending, back_code = _write_end(run, ending, back_code, path, options, back=True)
    run.say(RunEnded(at_ns=run.now_ns, ending=ending, exit_code=back_code, rollback=True))
    return back_code if back_code in (EXIT_INTERRUPTED, EXIT_UNKNOWN) else code


def _ended(run: Working, work: Callable[[], Ending]) -> Ending:
    ending = _ending_of(work)
    if ending.code is EndCode.UNREACHABLE and run.stop.requested:
        # Who asked to stop did not wait for the answer that never came.
        return Ending(EndCode.INTERRUPTED, signal=run.stop.signal_name)
    return ending


def _ending_of(work: Callable[[], Ending]) -> Ending:
    try:
        return work()
    except Ended as end:
        return end.ending
    except ForbiddenError as error:
        return Ending(EndCode.UNREADABLE, message=str(error))
    except AccessError as error:
        return Ending(EndCode.UNAUTHENTICATED, message=str(error))
    except UnreachableError as error:
        return Ending(EndCode.UNREACHABLE, message=str(error))


def _write_end(
    run: Working, ending: Ending, code: int, path: Path, options: RunOptions, *, back: bool
) -> tuple[Ending, int]:
    kind = RollbackEnd if back else End
    counts = run.state.reversal_counts() if back else run.state.counts()
    end = kind(ending=ending, exit_code=code, counts=counts)
    commands = options.commands(at_the_end(run.state, end), path)
    try:
        if ending.code is EndCode.INTERRUPTED:
            run.note(Interrupted(signal=ending.signal))
        run.note(msgspec.structs.replace(end, commands=commands))
    except Ended as end:
        # All mutations and their results are durable; only the last word is not.
        ending = end.ending
        code = exit_code(ending, changed=run.state.changed, unknown=run.state.unknown)
    return ending, code


def _result(
    run: Working, path: Path, ending: Ending, code: int, *, at_once: bool = False
) -> RunResult:
    return RunResult(
        exit_code=code,
        ending=ending,
        state=run.state,
        journal=path,
        resumable=resumable(run.state),
        can_roll_back=can_roll_back(run.state),
        unwritten=run.unwritten,
        stopped_at_once=at_once,
        is_away=run.is_away or ending.code is EndCode.UNREACHABLE,
    )


def is_finished(state: RunState) -> bool:
    """Whether the run ended with everything done, so that going on changes nothing."""
    return state.ending is not None and state.ending.code is EndCode.FINISHED


def resumable(state: RunState) -> bool:
    """Whether --resume has something to do.

    It has not when all was done and somebody took it back: nothing that is done is done twice.
    """
    if is_finished(state) or state.rolling_back:
        return False
    reverted = state.ending is not None and state.ending.code is EndCode.REVERTED
    return not (reverted and all(one.phase is Phase.DONE for one in state.operations.values()))


def can_roll_back(state: RunState) -> bool:
    """Whether --rollback may have something to do."""
    finished = state.rollback_exit_code == 0
    begun = any(doing.attempts for doing in state.operations.values())
    return begun and not finished


def beginning(plan: Plan, api: ClusterApi, options: RunOptions, run_id: str) -> Begin:
    """Return the first record of a journal."""
    return Begin(
        at=preflight.instant(api),
        run_id=run_id,
        plan=options.plan_path,
        plan_fingerprint=plan.fingerprint,
        title=plan.title,
        cluster=plan.cluster,
        author=options.author,
        clock_offset_seconds=options.clock_offset_seconds,
        lock=lock_place(options, run_id) if options.lock_namespace else None,
        execution=plan.execution,
        operations=plan.operations,
        nodes=plan.nodes,
        continue_on_absent=options.continue_on_absent,
        rollback_on_failure=options.rollback_on_failure,
        context=options.context,
    )


def _check(run: Working, checks: list[Check], made: Callable[[], Check]) -> None:
    run.heed_signals()
    try:
        check = made()
    except CheckFailed as failed:
        run.say(CheckMade(at_ns=run.now_ns, check=failed.check))
        raise
    checks.append(check)
    run.say(CheckMade(at_ns=run.now_ns, check=check))
