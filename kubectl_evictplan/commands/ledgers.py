"""The ledger of a plan that ``apply`` carried out: from its journal and one look at the cluster, to two files."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from kubectl_evictplan.apply.files import JOURNAL_ENDING
from kubectl_evictplan.commands.connection_options import connection_words
from kubectl_evictplan.commands.terminal import say
from kubectl_evictplan.errors import (
    EXIT_DONE,
    EXIT_PARTLY,
    AccessError,
    ProblemsError,
    UnreachableError,
)

if TYPE_CHECKING:
    from kubectl_evictplan.apply.evidence import JournalEvidence
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.plans.expectation import Expectation
    from kubectl_evictplan.plans.ledger_document import Ledger
    from kubectl_evictplan.plans.sightings import Sightings
    from kubectl_evictplan.world import World


_NOT_ASKED = "not asked: at the end of the run no usable answer came from the server"


def beside(plan_path: str, ending: str) -> Path:
    """Return the name of a file that belongs to a plan: ``plan.json`` and ``.ledger.md``: ``plan.ledger.md``."""
    path = Path(plan_path)
    return path.with_name(path.name.removesuffix(".gz").removesuffix(".json") + ending)


def read_evidence(journal: Path) -> JournalEvidence:
    """Return what a journal tells a ledger; raises InputError for one that is damaged, or can be none."""
    from kubectl_evictplan.apply.evidence import evidence_of
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.journal import read
    from kubectl_evictplan.commands.journal_file import refuse_odd_journal

    refuse_odd_journal(str(journal), writes=False)
    return evidence_of(read(journal, LocalFiles()).records)


def ledger_after_apply(
    plan: Plan, journal: Path, flags: ConnectionFlags | None, world: World | None = None
) -> Ledger | None:
    """Return the ledger of a run that has ended, None when it sent nothing.

    The cluster is looked at once; where that fails, or without ``flags``, the journal alone tells, and the ledger says so.
    """
    from kubectl_evictplan.plans.expectation import expectation_of_plan
    from kubectl_evictplan.plans.ledger import ledger_of

    evidence = read_evidence(journal)
    if evidence.start is None:
        return None
    expectation = expectation_of_plan(plan)
    seen = _not_asked() if flags is None else _one_look(expectation, flags, world)
    sightings = with_journal(seen, evidence)
    return ledger_of(expectation, sightings, evidence.start, evidence.begun)


def with_journal(sightings: Sightings, evidence: JournalEvidence) -> Sightings:
    """Return what was seen together with what our own requests tell."""
    from msgspec.structs import replace

    return replace(sightings, own=evidence.deletions)


def _not_asked() -> Sightings:
    from kubectl_evictplan.plans.sightings import Sightings

    return Sightings(not_evaluated=dict.fromkeys(("Pod", "Node", "Event"), _NOT_ASKED))


def _one_look(expectation: Expectation, flags: ConnectionFlags, world: World | None) -> Sightings:
    from kubectl_evictplan.live.observation import observing
    from kubectl_evictplan.plans.sightings import Sightings

    pods = {pod.key for pod in expectation.known}
    try:
        with observing(flags, os.environ, nodes=expectation.nodes, pods=pods, world=world) as seen:
            return seen.sightings()
    except (AccessError, UnreachableError) as error:
        return Sightings(not_evaluated={"Pod": str(error), "Node": str(error)})


def write_ledger(ledger: Ledger, plan_path: str, zone: tzinfo | None = UTC) -> tuple[Path, Path]:
    """Write the ledger beside its plan, as JSON and as Markdown, mode 0600; older ones are replaced.

    Returns both names. Raises InputError when they cannot be written.
    """
    from kubectl_evictplan.report import render_document
    from kubectl_evictplan.report.ledger import blocks
    from kubectl_evictplan.sources.private_file import write_private

    names = beside(plan_path, ".ledger.json"), beside(plan_path, ".ledger.md")
    for name, output in zip(names, ("json", "markdown"), strict=True):
        text = "".join(
            render_document(
                ledger, lambda wide: blocks(ledger, zone, every_row=wide, titled=True), output
            )
        )
        write_private(str(name), text.encode(), force=True)
    return names


def keep_ledger(
    plan: Plan,
    plan_path: str,
    journal: Path,
    flags: ConnectionFlags,
    is_away: bool = False,
    world: World | None = None,
) -> Ledger | None:
    """Make and write the ledger of a run that has ended, and say on standard error what it says.

    None when nothing was sent. ``is_away``: the server is not asked, as it has just not answered for long. A ledger that cannot be made or written is told and changes nothing: what was
    done is done.
    """
    from kubectl_evictplan.plans.ledger import goes_on
    from kubectl_evictplan.report.ledger import first_words

    try:
        ledger = ledger_after_apply(plan, journal, None if is_away else flags, world)
        if ledger is None:
            return None
        names = write_ledger(ledger, plan_path)
    except ProblemsError as error:
        say(f"warning: no ledger: {error}")
        return None
    say(f"{first_words(ledger)} Ledger: {' and '.join(map(str, names))}")
    # What nobody saw stays unknown, however long it is followed.
    if goes_on(ledger):
        say(f"What is not decided yet: {_following(plan_path, journal, flags)}")
    return ledger


def _following(plan_path: str, journal: Path, flags: ConnectionFlags) -> str:
    """Return the command that follows what a run has begun."""
    words = ["kubectl", "evictplan", "verify", plan_path, "--watch"]
    if journal.absolute() != beside(plan_path, JOURNAL_ENDING).absolute():
        words += ["--journal", str(journal)]
    return " ".join(filter(None, (shlex.join(words), connection_words(flags))))


def exit_code_after(run_exit_code: int, ledger: Ledger | None) -> int:
    """Return the exit code of ``apply``: a change that was carried out and left its windows is 3."""
    if run_exit_code == EXIT_DONE and ledger is not None and ledger.summary.left_windows:
        return EXIT_PARTLY
    return run_exit_code
