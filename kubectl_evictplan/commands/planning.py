"""``--out``: what was asked and predicted, as a plan that ``apply`` carries out."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.connection_options import connection_words
from kubectl_evictplan.commands.file_arguments import refuse_existing
from kubectl_evictplan.commands.terminal import say
from kubectl_evictplan.errors import Correction, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.commands.options import Given, WhatIfOptions
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.plans.document import ClusterIdentity, Plan
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.report.commands_to_run import PlanFile
    from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario

# Evictions of one node under way at once, unless the drain says otherwise.
PARALLEL_DEFAULT = 10
PARALLEL_MAX = 100


def check_plan_options(options: WhatIfOptions) -> None:
    """Raise, before the work, for options about a plan that cannot be made so."""
    if options.out is None:
        extra = [
            *(["--until-ready"] if options.until_ready else []),
            *(["--abort-if"] if options.abort_if else []),
        ]
        if extra:
            known = Correction((), ("--out", "plan.json"), example=True)
            raise mistake(f"{extra[0]} is how a plan is carried out: name one with --out", known)
        return
    refuse_existing(("--out",), options.out, "plan.json", force=options.force)
    check_conditions(options.abort_if)
    if options.start is not None:
        known = Correction(("--start", options.start), ())
        raise mistake("--start has no place in a plan: it begins when it is applied", known)


def check_conditions(conditions: tuple[str, ...]) -> None:
    """Raise for a wrong --abort-if."""
    if conditions:
        from kubectl_evictplan.apply.conditions import parse_condition

        for words in conditions:
            parse_condition(words)


def to_carry_out(scenario: Scenario) -> Scenario:
    """Return the scenario as apply carries it out: some pods of a drain at a time.

    Raises InputError for events that cannot be carried out.
    """
    from msgspec.structs import replace

    from kubectl_evictplan.plans.operations import refuse_impossible
    from kubectl_evictplan.scenarios.actions.drain import Drain

    refuse_impossible(scenario.events)
    events = [
        replace(event, parallel=event.parallel or PARALLEL_DEFAULT)
        if isinstance(event, Drain)
        else event
        for event in scenario.events
    ]
    for event in events:
        if isinstance(event, Drain) and event.parallel > PARALLEL_MAX:
            known = Correction((), (str(PARALLEL_MAX),), option=("--parallel",))
            message = f"a plan evicts at most {PARALLEL_MAX} pods at a time"
            raise mistake(message, known, location=event.origin)
    return replace(scenario, events=tuple(events))


def planned(
    options: WhatIfOptions,
    given: Given,
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    settings: ControllerSettings,
    prediction: Prediction,
) -> Plan:
    """Return the plan; a live cluster is asked which one it is."""
    from kubectl_evictplan.plans.document import Execution
    from kubectl_evictplan.plans.making import make_plan
    from kubectl_evictplan.scenarios.writer import scenario_document

    if scenario.start_ns != snapshot.taken_at_ns:
        raise mistake("a plan begins when it is applied: leave out the scenario's start")
    execution = Execution(
        parallel=PARALLEL_DEFAULT, until_ready=options.until_ready, abort_if=options.abort_if
    )
    return make_plan(
        snapshot,
        scenario,
        prediction,
        written=scenario_document(scenario, settings),
        assume_ready_ns=given.assume_ready_ns,
        identity=_identity(options),
        execution=execution,
        created_at_ns=time.time_ns(),
    )


def plan_file(plan: Plan | None, options: WhatIfOptions) -> PlanFile | None:
    """Return what a ticket says of the plan that is written beside it."""
    if plan is None or not options.out:
        return None
    from kubectl_evictplan.apply.files import JOURNAL_ENDING
    from kubectl_evictplan.commands.ledgers import beside
    from kubectl_evictplan.report.commands_to_run import PlanFile

    cluster = plan.cluster
    return PlanFile(
        options.out,
        str(beside(options.out, JOURNAL_ENDING)),
        plan.fingerprint,
        applies=bool(cluster.cluster_uid),
        cluster=f"{cluster.server}, context {cluster.context or 'none'}" if cluster.server else "",
    )


def write_plan(plan: Plan, path: str, connection: ConnectionFlags, *, force: bool) -> None:
    """Write the file, for its owner alone, and say on standard error what can be done with it."""
    from kubectl_evictplan.plans.exposed import exposed_nodes
    from kubectl_evictplan.plans.fingerprint import plan_text, short
    from kubectl_evictplan.report.plan_review import NOTHING_TO_DO, exposed_words
    from kubectl_evictplan.sources.private_file import write_private

    write_private(path, plan_text(plan), force=force)
    number = len(plan.operations)
    what = f"{number} operation{'s' * (number != 1)}"
    words = ("kubectl evictplan apply", shlex.quote(path), connection_words(connection))
    then = f"carry it out with: {' '.join(filter(None, words))}"
    if not plan.cluster.cluster_uid:
        then = "made from files, to be reviewed; apply takes plans that were made from the live cluster"
    for one in list(exposed_nodes(plan))[:1]:
        say(f"warning: {exposed_words(one)}")
    line = f"plan {short(plan.fingerprint)} with {what} written to {path}; {then}"
    if not number:
        line = f"plan {short(plan.fingerprint)} written to {path}: {NOTHING_TO_DO}"
    say(line)


def _identity(options: WhatIfOptions) -> ClusterIdentity:
    from kubectl_evictplan.plans.document import ClusterIdentity

    if options.filenames:
        return ClusterIdentity()
    from kubectl_evictplan.live.identity import cluster_identity

    return cluster_identity(options.connection, os.environ)
