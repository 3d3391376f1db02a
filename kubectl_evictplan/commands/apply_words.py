"""``apply taint|cordon|uncordon|drain``: planned from the live cluster, shown, asked, carried out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands import cordon as cordons
from kubectl_evictplan.commands import drain as drains
from kubectl_evictplan.commands import taint as taints
from kubectl_evictplan.commands.apply_options import MutationCommand
from kubectl_evictplan.commands.applying import check_drift_kinds, journal_of, proceed
from kubectl_evictplan.commands.connection_options import changeable_cluster
from kubectl_evictplan.commands.file_arguments import refuse_existing
from kubectl_evictplan.commands.journal_file import refuse_odd_journal
from kubectl_evictplan.commands.planning import check_plan_options, planned, write_plan
from kubectl_evictplan.commands.run import ask, predicted
from kubectl_evictplan.commands.terminal import Progress
from kubectl_evictplan.garbage import collecting_rarely

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubectl_evictplan.commands.apply_options import ApplyOptions
    from kubectl_evictplan.commands.options import Given, WhatIfOptions
    from kubectl_evictplan.commands.run import Planned
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.plans.document import Plan


def _carry_out(
    how: ApplyOptions,
    options: WhatIfOptions,
    plan: Callable[[ClusterSnapshot, Given], Planned],
) -> None:
    """Do what ``what-if`` is asked about; where it is done already, say so and do nothing."""
    given = options.given()
    # "": named by its fingerprint, once there is one.
    options = replace(options, out=options.out or "")
    if options.out:
        check_plan_options(options)
    check_drift_kinds(how.accept_drift)
    if how.journal is not None:
        refuse_existing(("--journal",), how.journal, "plan.journal.jsonl", force=None)
        refuse_odd_journal(how.journal, may_be_new=True)
    from kubectl_evictplan.report.plan_review import NOTHING_TO_DO

    with Progress(sys.stderr) as progress, collecting_rarely():
        asked = ask(options, given, None, plan, progress)
        prediction = predicted(asked, given, progress)
        scenario, settings = asked.scenario, asked.settings
        made = planned(options, given, asked.snapshot, scenario, settings, prediction)
    if not made.operations:
        click.echo(f"{NOTHING_TO_DO.capitalize()}.")
        return
    path = Path(options.out or _name(made))
    if how.dry_run == "none":
        refuse_existing(("--journal",), str(journal_of(path, how)), "my.journal.jsonl", force=None)
        write_plan(made, str(path), how.connection, force=False)
    with changeable_cluster(how.connection) as api:
        proceed(made, path, how, api, is_new=True)


def _name(plan: Plan) -> str:
    from kubectl_evictplan.plans.fingerprint import short

    return f"evictplan-{short(plan.fingerprint)}.json"


taint = MutationCommand(
    taints.taint,
    _carry_out,
    (
        "# Plan, show, ask, carry out",
        "kubectl evictplan apply taint node n1 maint=yes:NoExecute",
        "# One node after the other, stopped when more pods go than expected",
        "kubectl evictplan apply taint node --all a=b:NoExecute --settle 2m --abort-if 'evicted > 20'",
        "# Take it off again",
        "kubectl evictplan apply taint node n1 maint:NoExecute-",
    ),
)
cordon = MutationCommand(cordons.cordon, _carry_out, ("kubectl evictplan apply cordon n1 n2",))
uncordon = MutationCommand(
    cordons.uncordon, _carry_out, ("kubectl evictplan apply uncordon -l pool=blue",)
)
drain = MutationCommand(
    drains.drain,
    _carry_out,
    (
        "kubectl evictplan apply drain n1 --ignore-daemonsets",
        "# Node after node, each when the replacements of the one before are ready",
        "kubectl evictplan apply drain -l pool=blue --ignore-daemonsets --until-ready --settle 2m",
    ),
)
