"""``apply PLAN``, and what follows a run: ``--status``, ``--resume``, ``--rollback`` with its journal."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands import begun_runs, carrying
from kubectl_evictplan.commands.apply_options import (
    APPLY_OPTIONS,
    ApplyOptions,
    PlanCommand,
    taken_options,
)
from kubectl_evictplan.commands.applying import (
    check_drift_kinds,
    journal_of,
    proceed,
)
from kubectl_evictplan.commands.command import command
from kubectl_evictplan.commands.connection_options import (
    CONNECTION_OPTIONS,
    changeable_cluster,
    connection_words,
    take_connection,
)
from kubectl_evictplan.commands.file_arguments import exists, unused
from kubectl_evictplan.commands.journal_file import refuse_odd_journal
from kubectl_evictplan.commands.options import COMMON_OPTIONS
from kubectl_evictplan.commands.plan_file import read_plan_file
from kubectl_evictplan.errors import Correction, InputError, help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.plans.document import Plan

# Commands of `what-if` whose words may be the title of a plan.
_CARRIED_OUT = ("taint", "cordon", "uncordon", "drain")
_AFTERWARDS = ("--status", "--resume", "--rollback", "--adopt")


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
@click.option(
    "--adopt",
    metavar="PLAN",
    help="The journal is lost: make a new one from what the cluster shows; changes nothing.",
)
def plan(
    file: str | None,
    resume: str | None,
    rollback: str | None,
    status: str | None,
    adopt: str | None,
    color: str,
    **values: Any,
) -> None:
    """Carry out a plan file, or see to a run that has been begun.

    The plan is refused (exit code 4) when the cluster, who asks, its nodes or pods, or what a fresh prediction says are
    not as they were reviewed. Interrupted, it settles what is under way and says how to go on.
    """
    how = taken_options(values, take_connection(values), color)
    given = [one for one in (status, resume, rollback, adopt) if one is not None]
    if len(given) + (file is not None and resume is None) != 1:
        message = f"one of a plan, {', '.join(_AFTERWARDS)}"
        known = help_on("apply") if given else Correction((), ("plan.json",), example=True)
        raise mistake(message, known)
    check_drift_kinds(how.accept_drift)
    if how.journal is not None:
        refuse_odd_journal(how.journal, may_be_new=True)
    if status is not None:
        carrying.print_status(_journal(status, writes=False), how)
    elif rollback is not None:
        begun_runs.roll_back(_journal(rollback), how)
    elif adopt is not None:
        begun_runs.adopt(Path(adopt), how)
    elif resume is not None:
        begun_runs.resume(_journal(resume), file, how)
    else:
        assert file is not None
        _carry_out(file, how)


def _carry_out(file: str, how: ApplyOptions) -> None:
    plan = read_plan_file(file)
    if not plan.cluster.cluster_uid:
        raise _made_from_files(plan, file, how)
    path = Path(file)
    _refuse_plan_as_journal(file, how)
    journal = journal_of(path, how)
    if exists(str(journal)) and how.dry_run == "none" and not begun_runs.never_begun(journal):
        if begun_runs.nothing_sent(journal):
            # It was refused, or the lock was held: nothing keeps the plan from being carried out now.
            begun_runs.resume(journal, file, replace(how, journal=None))
            return
        known = Correction(("apply", file), ("apply", "--status", str(journal)))
        message = "this plan has been begun: its journal exists"
        raise mistake(message, known, location=str(journal))

    with changeable_cluster(how.connection) as api:
        proceed(plan, path, how, api, is_new=False)


def _made_from_files(plan: Plan, file: str, how: ApplyOptions) -> InputError:
    """Say how to ask the live cluster the same, where the plan's title is the words of a command."""
    words = plan.title.split()
    if not words or words[0] not in _CARRIED_OUT or "'" in plan.title:
        words = ["scenario", "scenario.yaml"]
    live = shlex.split(connection_words(how.connection))
    again = ("what-if", *words, *live, "--out", unused(file))
    message = (
        "made from files, so it names no cluster to change, and can only be read;"
        " make it anew from the live cluster, with the same options but without -f"
    )
    return mistake(message, Correction((), again, example=True, whole=True), location=file)


def _refuse_plan_as_journal(file: str, how: ApplyOptions) -> None:
    if how.journal is not None and exists(how.journal) and Path(how.journal).samefile(file):
        name = str(journal_of(Path(file), replace(how, journal=None)))
        known = Correction((how.journal,), (name,), option=("--journal",))
        raise mistake("that is the plan: the journal is another file", known, location="--journal")


def _journal(name: str, *, writes: bool = True) -> Path:
    """Return a journal that is there; where it is only read, the file that a link leads to."""
    refuse_odd_journal(name, writes=writes)
    path = Path(name)
    return path.resolve() if path.is_symlink() else path
