"""Going on with a run that was killed, interrupted or stopped."""

from __future__ import annotations

from pathlib import Path

from kubectl_evictplan.apply import journal as journals
from kubectl_evictplan.apply.conditions import parse_condition
from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.journal import Journal
from kubectl_evictplan.apply.lock import Lock
from kubectl_evictplan.apply.progress import RunStarted
from kubectl_evictplan.apply.records import Resume
from kubectl_evictplan.apply.run import (
    RunOptions,
    RunResult,
    can_roll_back,
    carry_out,
    concluded,
    is_finished,
    lock_place,
)
from kubectl_evictplan.apply.states import Phase, RunState
from kubectl_evictplan.apply.watching import Conditions
from kubectl_evictplan.apply.working import Outside, Working
from kubectl_evictplan.errors import EXIT_DONE, InputError, Problem, mistake
from kubectl_evictplan.plans.document import Plan


def resume(
    plan: Plan,
    journal: Path,
    outside: Outside,
    options: RunOptions,
) -> RunResult:
    """Go on at the first operation that is not finished; a finished run stays as it is.

    Every intent without a result is read back first. Raises InputError for a journal that is damaged,
    of another plan, at work, or being rolled back; for another cluster it ends as drift.
    """
    opened, state = journals.reopen(journal, outside.files, alone=not options.lock_namespace)
    conditions = Conditions([parse_condition(words) for words in plan.execution.abort_if])
    run = Working(outside, opened, state, deadline_seconds=options.request_deadline_seconds)
    try:
        refuse_other(plan, journal, state)
    except InputError:
        opened.close()
        raise
    if is_finished(state):
        if options.lock_namespace:
            # Killed after its last record, before it gave the lock back.
            place = lock_place(options, state.begin.run_id)
            Lock(place, run.api, run.world, opened, state.begin).release_left()
        return _finished(opened, state, journal)
    run.watches = (conditions,)
    run_id = state.begin.run_id
    finished = frozenset(
        number for number, doing in state.operations.items() if doing.phase is Phase.DONE
    )
    run.say(
        RunStarted(
            at_ns=run.now_ns,
            run_id=run_id,
            operations=plan.operations,
            finished=finished,
            resumed=True,
        )
    )

    def going_on() -> Ending:
        place = lock_place(options, run_id) if options.lock_namespace else None
        run.note(
            Resume(
                author=options.author,
                lock=place,
                continue_on_absent=options.continue_on_absent,
                rollback_on_failure=options.rollback_on_failure,
            )
        )
        return carry_out(run, plan, conditions, options)

    return concluded(run, journal, going_on, options)


def refuse_other(plan: Plan, journal: Path, state: RunState) -> None:
    """Raise InputError for the journal of another plan, or of a run that is taken back."""
    if plan.fingerprint != state.begin.plan_fingerprint:
        raise InputError(
            Problem(
                "the journal is that of another plan",
                location=str(journal),
                field="planFingerprint",
                got=state.begin.plan_fingerprint,
                expected=plan.fingerprint,
            )
        )
    refuse_forged(plan, journal, state)
    if state.rollback_exit_code == EXIT_DONE:
        raise mistake("this run was taken back: make a new plan", location=str(journal))
    if state.rolling_back:
        raise mistake(
            "this run is being taken back: only apply --rollback goes on with it",
            location=str(journal),
        )


def refuse_forged(plan: Plan, journal: Path, state: RunState) -> None:
    """Raise InputError for a journal that names this plan and holds something else: nobody reviewed that."""
    begin = state.begin
    for field, theirs, ours in (
        ("operations", begin.operations, plan.operations),
        ("nodes", begin.nodes, plan.nodes),
        ("execution", begin.execution, plan.execution),
        ("cluster", begin.cluster, plan.cluster),
    ):
        if theirs != ours:
            raise InputError(
                Problem(
                    "the journal was changed after it was written: it is not as the plan says;"
                    " nothing was sent. Restore the file",
                    location=f"{journal}:1",
                    field=field,
                )
            )


def _finished(opened: Journal, state: RunState, journal: Path) -> RunResult:
    opened.close()
    return RunResult(
        exit_code=EXIT_DONE,
        ending=Ending(EndCode.FINISHED),
        state=state,
        journal=journal,
        can_roll_back=can_roll_back(state),
    )
