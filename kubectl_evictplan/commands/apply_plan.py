"""``apply PLAN``, and what follows a run: ``--status``, ``--resume``, ``--rollback`` with its journal."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands import carrying
from kubectl_evictplan.commands.apply_options import (
    APPLY_OPTIONS,
    ApplyOptions,
    PlanCommand,
    taken_options,
)
from kubectl_evictplan.commands.applying import (
    check_drift_kinds,
    followed,
    journal_of,
    lock_namespace,
    proceed,
    refuse_drift,
)
from kubectl_evictplan.commands.command import command
from kubectl_evictplan.commands.connection_options import CONNECTION_OPTIONS, take_connection
from kubectl_evictplan.commands.file_arguments import check_files, exists
from kubectl_evictplan.commands.ledgers import keep_ledger
from kubectl_evictplan.commands.options import COMMON_OPTIONS
from kubectl_evictplan.errors import Correction, ProblemsError, help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.plans.document import Plan

_AFTERWARDS = ("--status", "--resume", "--rollback")


@command(
    "kubectl evictplan apply plan.json",
    "# In a pipeline: exactly the reviewed plan, without a question",
    "kubectl evictplan apply plan.json --plan-digest 6b1f9a0c",
    "# What would the server say?",
    "kubectl evictplan apply plan.json --dry-run=server",
    "# After a crash or an interrupt",
    "kubectl evictplan apply --resume plan.journal.jsonl",
    cls=PlanCommand,
    params=[*APPLY_OPTIONS.values(), COMMON_OPTIONS["color"], *CONNECTION_OPTIONS],
)
@click.argument("file", metavar="PLAN", required=False)
@click.option("--resume", metavar="JOURNAL", help="Go on with the run of this journal.")
@click.option("--rollback", metavar="JOURNAL", help="Take back that run's own taints and cordons.")
@click.option("--status", metavar="JOURNAL", help="Say how far that run is; asks no cluster.")
def plan(
    file: str | None,
    resume: str | None,
    rollback: str | None,
    status: str | None,
    color: str,
    **values: Any,
) -> None:
    """Carry out a plan file, or see to a run that has been begun.

    The plan is refused (exit code 4) when the cluster, who asks, its nodes or pods, or what a fresh prediction says are
    not as they were reviewed. Interrupted, it settles what is under way and says how to go on.
    """
    how = taken_options(values, take_connection(values), color)
    given = [one for one in (status, resume, rollback) if one is not None]
    if len(given) + (file is not None and resume is None) != 1:
        message = f"one of a plan, {', '.join(_AFTERWARDS)}"
        raise mistake(message, Correction((), ("plan.json",) if not given else (), example=True))
    check_drift_kinds(how.accept_drift)
    if status is not None:
        carrying.print_status(_existing(status), color)
    elif rollback is not None:
        _roll_back(_existing(rollback), how)
    elif resume is not None:
        _resume(_existing(resume), file, how)
    else:
        assert file is not None
        _carry_out(file, how)


def _carry_out(file: str, how: ApplyOptions) -> None:
    plan = read_plan_file(file)
    if not plan.cluster.cluster_uid:
        message = "made from files: no cluster is named in it; make the plan from the live cluster"
        known = Correction(
            ("apply", file), ("what-if", "scenario", "scenario.yaml", "--out", "plan.json"), True
        )
        raise mistake(message, known, location=file)
    path = Path(file)
    journal = journal_of(path, how)
    if exists(str(journal)) and how.dry_run == "none":
        known = Correction(("apply", file), ("apply", "--status", str(journal)))
        message = "this plan has been begun: its journal exists"
        raise mistake(message, known, location=str(journal))
    from kubectl_evictplan.live.mutations import cluster_api

    with cluster_api(how.connection, os.environ) as api:
        proceed(plan, path, how, api, is_new=False)


def _resume(journal: Path, file: str | None, how: ApplyOptions) -> None:
    """Go on; the plan is where the journal says, unless it is named."""
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.status import status
    from kubectl_evictplan.live.mutations import cluster_api

    state = status(journal, LocalFiles()).state
    begin = state.begin
    path = Path(file or begin.plan)
    if file is None and not exists(str(path)):
        # Both were moved together.
        path = journal.with_name(path.name)
    found = read_plan_file(str(path))
    lock = lock_namespace(how)
    if lock is None and begin.lock is None:
        lock = ""
    elif lock is None and begin.lock is not None:
        lock = begin.lock.namespace
    with cluster_api(how.connection, os.environ) as api:
        if state.first_intent_ns is None:
            # Nothing was sent yet, so nothing has to be finished: the plan has to hold as ever.
            refuse_drift(found, Path(file or begin.plan), how, api)
        run = carrying.options(
            api,
            how.connection,
            plan_path=str(path.absolute()),
            lock_namespace=lock,
            steal_lock=how.steal_lock,
        )
        with followed(found, how.color) as tell:
            result = carrying.go_on(found, journal, api, tell, run)
    keep = partial(keep_ledger, found, str(path), journal, how.connection)
    carrying.finish(result, how.color, keep)


def _roll_back(journal: Path, how: ApplyOptions) -> None:
    from kubectl_evictplan.live.mutations import cluster_api

    with cluster_api(how.connection, os.environ) as api:
        run = carrying.options(
            api,
            how.connection,
            lock_namespace=lock_namespace(how),
            steal_lock=how.steal_lock,
        )
        with followed(None, how.color) as tell:
            result = carrying.take_back(journal, api, tell, run)
    carrying.finish(result, how.color)


def read_plan_file(file: str) -> Plan:
    """Return the plan in a file; raises InputError, or DriftError when it was changed."""
    from kubectl_evictplan.plans.reading import read_plan
    from kubectl_evictplan.sources.reading import ReadProblem, read

    if not exists(file):
        words = ("what-if", "taint", "node", "--all", "maint=yes:NoExecute", "--out", file)
        known = Correction((), words, example=True, whole=True)
        raise mistake("no such plan: what-if makes it, with --out", known, location=file)
    try:
        data = read(file, sys.stdin.buffer if sys.stdin is not None else None).data
    except ReadProblem as refused:
        raise mistake(str(refused), location=file) from None
    try:
        return read_plan(data, file)
    except ProblemsError as error:
        for problem in error.problems:
            problem.correction = help_on("apply")
        raise


def _existing(name: str) -> Path:
    check_files((name,), recursive=False)
    return Path(name)
