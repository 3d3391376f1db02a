"""``apply --rollback``: the run of a journal is taken back, whoever did it and however it ended."""

from __future__ import annotations

from pathlib import Path

from kubectl_evictplan.apply import journal as journals
from kubectl_evictplan.apply.endings import Ending
from kubectl_evictplan.apply.progress import RunStarted
from kubectl_evictplan.apply.records import RollbackBegin
from kubectl_evictplan.apply.run import RunOptions, RunResult, concluded, lock_place, take_lock
from kubectl_evictplan.apply.taking_back import take_back
from kubectl_evictplan.apply.working import Outside, Working


def rollback(journal: Path, outside: Outside, options: RunOptions) -> RunResult:
    """Take back the run of ``journal``; the plan is not needed. Idempotent, resumable by itself.

    Foreign changes stay and are named (``state.reversals[number].kept``); evictions are listed.
    Raises InputError for a journal that is damaged or at work. Ends as CHANGED_SINCE when another
    made something else of what the run did, as UNSURE when nobody can tell who did what is left.
    """
    opened, state = journals.reopen(journal, outside.files, alone=not options.lock_namespace)
    run = Working(outside, opened, state, deadline_seconds=options.request_deadline_seconds)
    run_id = state.begin.run_id
    operations = state.begin.operations
    run.say(RunStarted(at_ns=run.now_ns, run_id=run_id, operations=operations, rollback=True))

    def taking_back() -> Ending:
        place = lock_place(options, run_id) if options.lock_namespace else None
        run.note(RollbackBegin(author=options.author, lock=place))
        return take_back(run, options.lock_namespace, lambda: take_lock(run, run_id, options))

    return concluded(run, journal, taking_back, options, back=True)
