"""From a plan to its end: compare, show, ask, carry out."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.apply.files import JOURNAL_ENDING
from kubectl_evictplan.commands import carrying
from kubectl_evictplan.commands.clock_check import check_clocks
from kubectl_evictplan.commands.connection_options import load_live
from kubectl_evictplan.commands.ledgers import beside, keep_ledger
from kubectl_evictplan.commands.terminal import (
    Progress,
    columns_of_terminal,
    redraws,
    use_color,
    wants_ascii,
)
from kubectl_evictplan.display import escape
from kubectl_evictplan.errors import (
    EXIT_DRIFT,
    EXIT_INTERRUPTED,
    Correction,
    DriftError,
    InputError,
    Problem,
    mistake,
)

if TYPE_CHECKING:
    from kubectl_evictplan.apply.cluster import ClusterApi
    from kubectl_evictplan.apply.progress import Tell
    from kubectl_evictplan.apply.records import Check
    from kubectl_evictplan.commands.apply_options import ApplyOptions
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.plans.differences import Difference
    from kubectl_evictplan.plans.document import Loss, Plan
    from kubectl_evictplan.plans.drift import Fresh
    from kubectl_evictplan.report.blocks import Block

# Whoever thinks longer than this about the question is asked about another cluster.
FRESH_SECONDS = 60.0
NOTHING_CHANGED = "Nothing was changed: --dry-run=client."


def proceed(plan: Plan, path: Path, how: ApplyOptions, api: ClusterApi, *, is_new: bool) -> None:
    """Carry a plan out: compare it with the cluster, show it, ask, do it, say how it ended.

    ``is_new``: it was made from the cluster just now. Where there is nothing to do, nothing is asked, kept or locked. Raises DriftError when the cluster is not as the plan says.
    """
    from kubectl_evictplan.plans.drift import matter_to_nothing, not_read
    from kubectl_evictplan.report.plan_review import review_blocks

    check_digest(plan.fingerprint, how)
    found = tuple(not_read(plan)) if is_new else compared(plan, how.connection, api)
    if not plan.operations:
        found = matter_to_nothing(found)
    refused, accepted = parted(found, how.accept_drift)
    show(review_blocks(plan, refused, accepted), how.color)
    if refused:
        raise drift_error(refused, path)
    if not plan.operations:
        return
    check_clocks(api, accept_skew=how.accept_skew)
    if how.dry_run == "client":
        click.echo(NOTHING_CHANGED)
        return
    if how.dry_run == "server":
        _rehearse(plan, how, api)
        return
    began = time.monotonic()
    confirm(lost_pods(plan.losses), how, "Carry the plan out?")
    if time.monotonic() - began > FRESH_SECONDS:
        refuse_drift(plan, path, how, api, "age")
    run = carrying.options(
        api,
        how.connection,
        plan_path=str(path.absolute()),
        checks=checks_made(plan, accepted),
        lock_namespace=lock_namespace(how),
        steal_lock=how.steal_lock,
        continue_on_absent=how.continue_on_absent,
        rollback_on_failure=bool(how.rollback_on_failure),
    )
    journal = journal_of(path, how)
    with followed(plan, how.color) as tell:
        result = carrying.carry_out(plan, journal, api, tell, run)
    keep = partial(keep_ledger, plan, str(path), journal, how.connection)
    carrying.finish(result, how, keep)


def journal_of(path: Path, how: ApplyOptions) -> Path:
    """Return where the journal is: beside the plan unless --journal says otherwise."""
    if how.journal is not None:
        return Path(how.journal)
    return beside(str(path), JOURNAL_ENDING)


def lock_namespace(how: ApplyOptions) -> str | None:
    """Return the lock's namespace; "" for none, None for the default."""
    return "" if how.no_cluster_lock else how.lock_namespace


@contextmanager
def followed(plan: Plan | None, color: str) -> Iterator[Tell]:
    """Give what shows a run on standard error."""
    from kubectl_evictplan.report.live_view import following

    prediction = plan.prediction if plan is not None else None
    stream = sys.stderr
    colored = stream is not None and use_color(color, stream)
    redraw = stream is not None and redraws(stream)
    with following(stream, prediction, color=colored, redraw=redraw) as tell:
        yield tell


def show(blocks: Iterator[Block], color: str) -> None:
    """Write blocks to standard output."""
    if sys.stdout is None:  # closed by the caller, as by `>&-`
        raise mistake("standard output is closed")
    from kubectl_evictplan.report.terminal import Terminal

    columns = columns_of_terminal(100) if sys.stdout.isatty() else None
    terminal = Terminal(columns, use_color(color, sys.stdout), wants_ascii("table", sys.stdout))
    for chunk in terminal.render(blocks):
        sys.stdout.write(chunk)
    sys.stdout.write("\n")
    sys.stdout.flush()


# -- what differs -----------------------------------------------------------------------------------


def check_drift_kinds(kinds: Sequence[str]) -> None:
    """Raise for a kind that --accept-drift does not know, or that is never harmless."""
    from kubectl_evictplan.plans.differences import ACCEPTABLE

    for kind in kinds:
        if kind not in ACCEPTABLE:
            known = Correction((kind,), ("pod-gone",), True, ("--accept-drift",))
            message = "this is never harmless, or is no difference"
            expected = ", ".join(ACCEPTABLE)
            raise mistake(
                message, known, location="--accept-drift", got=repr(kind), expected=expected
            )


def compared(
    plan: Plan,
    connection: ConnectionFlags,
    api: ClusterApi,
    compare: Callable[[Plan, Fresh], tuple[Difference, ...]] | None = None,
    *,
    may_be_absent: bool = False,
) -> tuple[Difference, ...]:
    """Return what differs from the plan, by a fresh reading and a fresh prediction.

    ``compare`` does that for a part of the plan; without it, for all. ``may_be_absent``: nodes that are
    gone are left out of it.
    """
    from kubectl_evictplan.plans.drift import differences, other_cluster

    identity = api.identity()
    elsewhere = [one for one in other_cluster(plan, identity) if one.kind == "cluster"]
    if elsewhere:
        # Whatever is on another cluster says nothing of this plan.
        return tuple(elsewhere)
    with Progress(sys.stderr) as progress:
        fresh = _fresh(plan, connection, api, progress, may_be_absent=may_be_absent)
        return (compare or differences)(plan, fresh)


def _fresh(
    plan: Plan,
    connection: ConnectionFlags,
    api: ClusterApi,
    progress: Progress,
    *,
    may_be_absent: bool,
) -> Fresh:
    import msgspec

    from kubectl_evictplan.controllers.flags import resolve_configuration
    from kubectl_evictplan.plans.drift import Fresh, absent, nodes_are_there, without_nodes
    from kubectl_evictplan.plans.making import execution_of
    from kubectl_evictplan.plans.operations import operations_of
    from kubectl_evictplan.prediction.predict import predict
    from kubectl_evictplan.scenarios.files import load_scenario

    snapshot = load_live(connection, progress, strict=False)
    gone = absent(plan, snapshot) if may_be_absent else frozenset()
    fresh = Fresh(api.identity(), snapshot, api.now_ns(), gone)
    if not nodes_are_there(plan, snapshot, gone):
        return fresh
    text = msgspec.json.encode(without_nodes(plan.scenario, gone)).decode()
    try:
        loaded = load_scenario(text, "the plan", snapshot, start_ns=snapshot.taken_at_ns)
        operations = operations_of(loaded.scenario, snapshot)
    except InputError as error:
        return msgspec.structs.replace(fresh, impossible=str(error))
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    prediction = predict(
        snapshot,
        loaded.scenario,
        configuration,
        progress=progress.predicting,
        assume_ready=_assume_ready_ns(plan),
    )
    execution = execution_of(loaded.scenario, plan.execution)
    return msgspec.structs.replace(
        fresh, operations=operations, execution=execution, prediction=prediction
    )


def refuse_drift(
    plan: Plan, path: Path, how: ApplyOptions, api: ClusterApi, *more_accepted: str
) -> None:
    """Compare the plan with the cluster once more; raises DriftError for what is not accepted."""
    found = compared(plan, how.connection, api)
    refused, _ = parted(found, (*how.accept_drift, *more_accepted))
    if refused:
        raise drift_error(refused, path)


def parted(
    found: Sequence[Difference], accepted: Sequence[str]
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Return the differences that are refused, and those that were accepted."""
    from kubectl_evictplan.plans.drift import refused

    bad = refused(found, accepted)
    return bad, tuple(one for one in found if one not in bad)


def drift_error(refused: Sequence[Difference], path: Path) -> DriftError:
    """Return one line for each difference, and what to type when all of them are harmless."""
    known = None
    if all(one.acceptable for one in refused):
        kinds = sorted({one.kind for one in refused})
        words = [word for kind in kinds for word in ("--accept-drift", kind)]
        known = Correction((), tuple(words))
    return DriftError(
        [Problem(one.told, known, location=str(path), subject=one.kind) for one in refused]
    )


def checks_made(plan: Plan, accepted: Sequence[Difference]) -> Sequence[Check]:
    """Return what the journal says of what was compared and accepted before the run."""
    from kubectl_evictplan.apply.records import Check

    told = "; ".join(f"{one.kind}: {one.told}" for one in accepted)
    return (
        Check("drift", "ok", f"accepted: {told}" if told else ""),
        Check("losses", "ok", f"accepted: {lost_pods(plan.losses)}" if plan.losses else ""),
    )


# -- the question -----------------------------------------------------------------------------------


def check_digest(fingerprint: str, how: ApplyOptions) -> None:
    """Raise when --plan-digest names another plan."""
    from kubectl_evictplan.plans.fingerprint import names_plan

    if how.plan_digest is not None and not names_plan(how.plan_digest, fingerprint):
        message = "this is not the plan that was reviewed"
        raise DriftError(
            Problem(message, location="--plan-digest", got=how.plan_digest, expected=fingerprint)
        )


def lost_pods(losses: Sequence[Loss]) -> int:
    """Return how many pods, or their data, are lost for good."""
    return len({(loss.namespace, loss.pod) for loss in losses})


def confirm(lost: int, how: ApplyOptions, question: str) -> None:
    """Return when it may be done; raise, or end the program, when not.

    ``lost`` pods, or their data, are lost for good: accepted by their number alone, typed or with --accept-losses.
    """
    if how.accept_losses is not None and how.accept_losses != str(lost):
        message = f"{lost} are lost for good, another number"
        known = Correction((how.accept_losses,), (str(lost),), True, ("--accept-losses",))
        raise mistake(message, known, location="--accept-losses", got=how.accept_losses)
    lost = 0 if how.accept_losses is not None else lost
    if not lost and (how.yes or how.plan_digest is not None):
        return
    is_asked = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if not is_asked:
        words = [*(["--accept-losses", str(lost)] if lost else [])]
        words += [] if how.yes or how.plan_digest is not None else ["--yes"]
        what = _told(lost) if lost else "nobody can be asked here"
        raise mistake(
            f"{what}: say with {' '.join(words)} that it is meant", Correction((), tuple(words))
        )
    _forget_typed()
    wanted = str(lost) if lost else "yes"
    answer = f"Type {lost} if that is meant: " if lost else "Only yes is yes: "
    sys.stderr.write(f"{_told(lost)}. {question} {answer}" if lost else f"{question} {answer}")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != wanted:
        click.echo("nothing was changed", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED)


def _forget_typed() -> None:
    """Throw away what was typed before the question was there: it answers nothing."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _told(lost: int) -> str:
    what = "1 pod or its data is" if lost == 1 else f"{lost} pods or their data are"
    return f"{what} lost for good"


# -- dry run ----------------------------------------------------------------------------------------


def _rehearse(plan: Plan, how: ApplyOptions, api: ClusterApi) -> None:
    """Let the server check every change and say what it would refuse."""
    from kubectl_evictplan.apply.endings import exit_code
    from kubectl_evictplan.apply.rehearsal import rehearse
    from kubectl_evictplan.apply.run import LOCK_NAMESPACE
    from kubectl_evictplan.apply.stop import Stop, signals_caught
    from kubectl_evictplan.apply.working import Looking
    from kubectl_evictplan.report.run_words import ending_words
    from kubectl_evictplan.world import World

    namespace, stop = lock_namespace(how), Stop()
    with signals_caught(stop):
        run = Looking(api, World(), stop, lambda _: None)
        found = rehearse(run, plan, LOCK_NAMESPACE if namespace is None else namespace)
    for pod, said in found.waiting:
        click.echo(escape(f"would wait: {pod}: {said}"))
    for pod, said in found.refused:
        click.echo(escape(f"would be refused: {pod}: {said}"), err=True)
    if found.ending is not None:
        click.echo(escape(f"would be refused: {ending_words(found.ending)}"), err=True)
        raise click.exceptions.Exit(exit_code(found.ending, changed=False))
    if found.refused:
        raise click.exceptions.Exit(EXIT_DRIFT)
    click.echo(
        "Nothing was changed: --dry-run=server. The server accepts each change by itself; whether budgets let "
        "all evictions pass one after the other no dry run can tell."
    )


def _assume_ready_ns(plan: Plan) -> tuple[int, int | None] | None:
    from kubectl_evictplan.kube.durations import SECOND_NS

    if plan.assume_ready_seconds is None:
        return None
    least, most = plan.assume_ready_seconds
    return round(least * SECOND_NS), None if most is None else round(most * SECOND_NS)
