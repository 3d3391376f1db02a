"""``apply --resume`` and ``--rollback``: a run that was begun is shown and asked about like a new one."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands import carrying
from kubectl_evictplan.commands.applying import (
    FRESH_SECONDS,
    NOTHING_CHANGED,
    check_digest,
    checks_made,
    compared,
    confirm,
    drift_error,
    followed,
    journal_of,
    lock_namespace,
    lost_pods,
    parted,
    show,
)
from kubectl_evictplan.commands.clock_check import check_clocks
from kubectl_evictplan.commands.connection_options import changeable_cluster
from kubectl_evictplan.commands.file_arguments import exists
from kubectl_evictplan.commands.ledgers import keep_ledger
from kubectl_evictplan.commands.plan_file import read_plan_file
from kubectl_evictplan.display import escape
from kubectl_evictplan.errors import Correction, DriftError, ProblemsError, mistake

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubectl_evictplan.apply.cluster import ClusterApi
    from kubectl_evictplan.apply.records import Begin
    from kubectl_evictplan.apply.states import Doing, RunState
    from kubectl_evictplan.apply.status import Status
    from kubectl_evictplan.commands.apply_options import ApplyOptions
    from kubectl_evictplan.plans.differences import Difference
    from kubectl_evictplan.plans.document import Loss, Plan


def resume(journal: Path, file: str | None, how: ApplyOptions) -> None:
    """Go on; the plan is where the journal says, unless it is named.

    Raises DriftError when what is left is not as it was reviewed.
    """
    from kubectl_evictplan.apply.resume import refuse_other
    from kubectl_evictplan.apply.run import is_finished

    _refuse_meaningless(how, "--resume", journal=how.journal)
    found = _status(journal)
    state = found.state
    how = _as_begun(how, state.begin)
    path = _plan_path(journal, file, state.begin)
    plan = read_plan_file(str(path), journal)
    refuse_other(plan, journal, state)
    check_digest(plan.fingerprint, how)
    if is_finished(state):
        # Its lock may still have to be given back, and its ledger to be written.
        click.echo(f"all of this run was done at {state.last_at}: nothing is sent", err=True)
    with changeable_cluster(how.connection) as api:
        check_clocks(api, accept_skew=how.accept_skew)
        accepted = _review(plan, path, state, how, api) if found.resumable else ()
        if how.dry_run != "none":
            click.echo(NOTHING_CHANGED)
            return
        run = carrying.options(
            api,
            how.connection,
            plan_path=str(path.absolute()),
            checks=checks_made(plan, accepted),
            lock_namespace=_lock_namespace(how, state.begin),
            steal_lock=how.steal_lock,
            continue_on_absent=how.continue_on_absent,
            rollback_on_failure=_takes_back(how, state),
        )
        with followed(plan, how.color) as tell:
            result = carrying.go_on(plan, journal, api, tell, run)
    keep = partial(keep_ledger, plan, str(path), journal, how.connection)
    carrying.finish(result, how, keep)


def roll_back(journal: Path, how: ApplyOptions) -> None:
    """Take back what a run did, once that was shown and asked."""
    from kubectl_evictplan.report.rest_review import taking_back_blocks

    _refuse_meaningless(
        how,
        "--rollback",
        journal=how.journal,
        accept_losses=how.accept_losses,
        continue_on_absent="" if how.continue_on_absent else None,
        rollback_on_failure=None if how.rollback_on_failure is None else "",
        accept_drift=next(iter(how.accept_drift), None),
    )
    state = _status(journal).state
    how = _as_begun(how, state.begin)
    check_digest(state.begin.plan_fingerprint, how)
    _refuse_forged(journal, state)
    if left := _to_take_back(state):
        show(taking_back_blocks(state, left), how.color)
    if how.dry_run != "none":
        click.echo(NOTHING_CHANGED)
        return
    if left:
        confirm(0, how, "Take it back?")
    with changeable_cluster(how.connection) as api:
        check_clocks(api, accept_skew=how.accept_skew)
        run = carrying.options(
            api,
            how.connection,
            lock_namespace=_lock_namespace(how, state.begin),
            steal_lock=how.steal_lock,
        )
        with followed(None, how.color) as tell:
            result = carrying.take_back(journal, api, tell, run)
    carrying.finish(result, how)


def adopt(path: Path, how: ApplyOptions) -> None:
    """Make the journal of a run whose own is lost, and say what it says; nothing is changed."""
    from kubectl_evictplan.apply.adopt import adopt as adopted
    from kubectl_evictplan.apply.endings import Ended, exit_code
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.preflight import CheckFailed
    from kubectl_evictplan.report.run_words import ending_words

    drift = next(iter(how.accept_drift), None)
    skew = "" if how.accept_skew else None
    _refuse_meaningless(
        how,
        "--adopt",
        accept_losses=how.accept_losses,
        accept_drift=drift,
        accept_skew=skew,
        rollback_on_failure=None if how.rollback_on_failure is None else "",
    )
    plan = read_plan_file(str(path))
    check_digest(plan.fingerprint, how)
    if not plan.operations:
        raise mistake("this plan has nothing to do, so no run of it was lost", location=str(path))
    journal = journal_of(path, how)
    with changeable_cluster(how.connection) as api:
        run = carrying.options(
            api,
            how.connection,
            plan_path=str(path.absolute()),
            lock_namespace=lock_namespace(how),
        )
        try:
            adopted(plan, api, journal, LocalFiles(), run)
        except (Ended, CheckFailed) as end:
            click.echo(f"no journal was made: {ending_words(end.ending)}", err=True)
            raise click.exceptions.Exit(exit_code(end.ending, changed=False)) from None
    carrying.print_status(journal, how)


def never_begun(journal: Path) -> bool:
    """Tell whether a journal's first record never became durable: the run is begun anew there."""
    from kubectl_evictplan.apply import journal as journals
    from kubectl_evictplan.apply.files import LocalFiles

    try:
        return journals.never_begun(LocalFiles().read(journal))
    except OSError as error:
        raise journals.unusable(journal, error) from error


def nothing_sent(journal: Path) -> bool:
    """Tell whether the run of a journal ended before it sent anything; it may be begun again."""
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.status import status

    found = status(journal, LocalFiles())
    return found.resumable and found.state.sent_nothing


def _status(journal: Path) -> Status:
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.status import status

    found = status(journal, LocalFiles())
    if found.at_work:
        message = "a process of this machine is at work on this run right now"
        known = Correction((), ("apply", "--status", str(journal)), whole=True)
        raise mistake(message, known, location=str(journal))
    return found


def _refuse_meaningless(how: ApplyOptions, what: str, **given: str | None) -> None:
    """Raise for options that would be ignored: whoever types one counts on it."""
    if how.dry_run == "server":
        known = Correction(("server",), ("client",), option=("--dry-run",))
        raise mistake(f"the server cannot try {what} beforehand", known, location="--dry-run")
    for name, value in given.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            known = Correction((option, *filter(None, (value,))), ())
            raise mistake(f"it has no meaning with {what}", known, location=option)


def _as_begun(how: ApplyOptions, begin: Begin) -> ApplyOptions:
    """Return the options with the context that the run was begun by, unless they name a cluster; says so."""
    from kubectl_evictplan.live.kubeconfig import in_context

    connection = in_context(begin.context, how.connection, os.environ)
    if connection != how.connection:
        words = escape(begin.context, ascii_only=True)
        click.echo(
            f"context {words}, by which the run was begun: it is not the current one", err=True
        )
    return replace(how, connection=connection)


def _takes_back(how: ApplyOptions, state: RunState) -> bool:
    """Whether a run that is gone on with takes itself back when it fails: as before, unless that is said."""
    if how.rollback_on_failure is not None:
        return how.rollback_on_failure
    return state.takes_itself_back


def _plan_path(journal: Path, file: str | None, begin: Begin) -> Path:
    path = Path(file or begin.plan)
    if file is None and not exists(str(path)):
        # Both were moved together.
        return journal.with_name(path.name)
    return path


def _refuse_forged(journal: Path, state: RunState) -> None:
    """Hold a journal against its plan, where that is still there: taking back needs none."""
    from kubectl_evictplan.apply.resume import refuse_forged

    path = _plan_path(journal, None, state.begin)
    try:
        plan = read_plan_file(str(path), journal)
    except ProblemsError:
        return
    if plan.fingerprint == state.begin.plan_fingerprint:
        refuse_forged(plan, journal, state)


def _lock_namespace(how: ApplyOptions, begin: Begin) -> str:
    """Return where the lock is, "" for none: as the run had it, unless something else is said."""
    if how.no_cluster_lock:
        return ""
    if how.lock_namespace is not None:
        return how.lock_namespace
    return begin.lock.namespace if begin.lock is not None else ""


def _review(
    plan: Plan, path: Path, state: RunState, how: ApplyOptions, api: ClusterApi
) -> tuple[Difference, ...]:
    """Show what is left and ask; returns what differs and was accepted when it may be done, or for a dry run."""
    from kubectl_evictplan.apply.states import Phase
    from kubectl_evictplan.report.rest_review import rest_blocks

    left = [one for one in state.operations.values() if one.phase is not Phase.DONE]
    losses = _losses_left(plan, left)
    refused, accepted = parted(_compared(plan, state, how, api), how.accept_drift)
    if left or refused:
        takes_back = _takes_back(how, state)
        show(rest_blocks(state, left, losses, refused, accepted, takes_back=takes_back), how.color)
    if refused:
        raise _not_gone_on_with(refused, path, state)
    if left and how.dry_run == "none":
        began = time.monotonic()
        confirm(lost_pods(losses), how, "Go on with it?")
        if time.monotonic() - began > FRESH_SECONDS:
            found = _compared(plan, state, how, api)
            refused, accepted = parted(found, (*how.accept_drift, "age"))
            if refused:
                raise _not_gone_on_with(refused, path, state)
    return accepted


def _not_gone_on_with(refused: Sequence[Difference], path: Path, state: RunState) -> DriftError:
    """Return what differs; nodes that are gone and nothing else can be left out of a run that has begun."""
    error = drift_error(refused, path)
    if not state.sent_nothing and all(one.kind == "node-gone" for one in refused):
        for problem in error.problems:
            problem.correction = Correction((), ("--continue-on-absent",))
    return error


def _compared(
    plan: Plan, state: RunState, how: ApplyOptions, api: ClusterApi
) -> tuple[Difference, ...]:
    """Return what differs: of the whole plan, or of the nodes that the run has not come to."""
    from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
    from kubectl_evictplan.plans.drift import differences_of_begun, differences_of_rest

    if state.sent_nothing:
        # Nothing was sent yet, so nothing has to be finished: the plan has to hold as ever.
        return compared(plan, how.connection, api)
    stopped_ns = parse_rfc3339_ns(state.last_at) or 0
    touched = _touched(state.operations.values())
    if touched.issuperset(node.name for node in plan.nodes):
        return differences_of_begun(plan, api.identity(), api.now_ns(), stopped_ns)
    rest = partial(differences_of_rest, touched=touched, stopped_ns=stopped_ns)
    return compared(plan, how.connection, api, rest, may_be_absent=how.continue_on_absent)


def _touched(doings: Iterable[Doing]) -> set[str]:
    """Return the nodes of which something is done, or may be."""
    from kubectl_evictplan.apply.states import Phase

    untouched = (Phase.WAITING, Phase.LEFT)
    return {one.operation.node for one in doings if one.executed or one.phase not in untouched}


def _losses_left(plan: Plan, left: Iterable[Doing]) -> tuple[Loss, ...]:
    """Return what going on loses: pods that are still to be evicted, or whose node is still to be tainted."""
    from kubectl_evictplan.plans.document import AddTaint, Evict

    operations = [one.operation for one in left]
    keys = {one.key for one in operations if isinstance(one, Evict)}
    nodes = {one.node for one in operations if isinstance(one, AddTaint)}
    return tuple(
        loss for loss in plan.losses if f"{loss.namespace}/{loss.pod}" in keys or loss.node in nodes
    )


def _to_take_back(state: RunState) -> list[Doing]:
    from kubectl_evictplan.apply.states import Phase
    from kubectl_evictplan.plans.document import Evict

    return [
        one
        for number, one in state.operations.items()
        if not isinstance(one.operation, Evict)
        and (one.executed or one.phase is Phase.UNKNOWN)
        and not (number in state.reversals and state.reversals[number].phase is Phase.DONE)
    ]
