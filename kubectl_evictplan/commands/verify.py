"""``verify``: what was predicted next to what happened, afterwards or while it happens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubectl_evictplan.commands.captured_sightings import captured_sightings
from kubectl_evictplan.commands.command import command
from kubectl_evictplan.commands.connection_options import (
    CONNECTION_OPTIONS,
    asking_same_cluster,
    take_connection,
)
from kubectl_evictplan.commands.file_arguments import check_files
from kubectl_evictplan.commands.options import COMMON_OPTIONS, named_time_zone
from kubectl_evictplan.commands.output import output_settings, write_document
from kubectl_evictplan.commands.reviewed_file import read_expectation
from kubectl_evictplan.commands.terminal import say
from kubectl_evictplan.errors import (
    EXIT_GATE,
    EXIT_INTERRUPTED,
    Correction,
    InputError,
    Problem,
    help_on,
    mistake,
)
from kubectl_evictplan.kube.durations import HOUR_NS, SECOND_NS

if TYPE_CHECKING:
    from kubectl_evictplan.apply.evidence import JournalEvidence
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.live.observation import Observation
    from kubectl_evictplan.plans.expectation import Expectation, Start
    from kubectl_evictplan.plans.ledger_document import Ledger
    from kubectl_evictplan.plans.sightings import Sightings
    from kubectl_evictplan.report.blocks import Block

# So long after the end of what was predicted it is waited for a look that decides it.
_PATIENCE_NS = 30 * SECOND_NS
_STARTED = "--started-at"
_COMMON = ("filenames", "recursive", "time_zone", "color")
_OPTIONS = (
    click.Option(
        [_STARTED],
        metavar="TIME",
        help="When the change began (RFC 3339); default: by the journal, or what the cluster tells.",
    ),
    click.Option(
        ["--journal"],
        metavar="FILE",
        help="What `apply` wrote; default: PLAN.journal.jsonl if it is there.",
    ),
    click.Option(["-w", "--watch"], is_flag=True, help="Follow it until everything is decided."),
    click.Option(
        ["--fail-on-unknown"], is_flag=True, help="Exit with 1 also for what is not known."
    ),
    click.Option(["-o", "--output"], **output_settings()),
)


@command(
    "# A change that somebody carried out, by what the cluster still shows",
    "kubectl evictplan verify plan.json --started-at 2026-11-20T22:00:00Z",
    "# An outage, while it lasts",
    "kubectl evictplan what-if fail zone eu-1a -o json > prediction.json",
    "kubectl evictplan verify prediction.json --started-at 2026-11-20T22:00:00Z --watch",
    "# By a capture that was made afterwards; events are in it",
    "kubectl evictplan verify prediction.json -f cluster-dump/ -R",
    "# For the ticket",
    "kubectl evictplan verify plan.json -o markdown > ledger.md",
    params=[*_OPTIONS, *(COMMON_OPTIONS[name] for name in _COMMON), *CONNECTION_OPTIONS],
)
@click.argument("words", nargs=-1, metavar="PLAN|PREDICTION")
def verify(
    words: tuple[str, ...],
    filenames: tuple[str, ...],
    recursive: bool,
    watch: bool,
    output: str,
    color: str,
    fail_on_unknown: bool,
    **others: Any,
) -> None:
    """Hold what happened against a plan, or against a prediction that `what-if -o json` wrote.

    Exits with 1 when reality left the predicted windows. Nothing is ever changed.
    """
    flags = take_connection(others)
    zone = _zone(others["time_zone"])
    given = _given_start(others["started_at"])
    check_files(filenames, recursive=recursive)
    if filenames and watch:
        message = "--watch follows a live cluster, not files"
        raise mistake(message, help_on("verify"))
    name = _file(words)
    expectation, cluster_uid = read_expectation(name)
    evidence = _evidence(name, others["journal"], expectation, given)
    watched = _Watched(expectation, given, evidence, zone)
    interrupted = False
    if filenames:
        sightings = captured_sightings(filenames, recursive=recursive)
        _refuse_later_start(given, sightings)
        ledger = watched.ledger(sightings)
    else:
        with (
            asking_same_cluster(flags),
            _observing(flags, expectation, cluster_uid) as observation,
        ):
            interrupted = watch and watched.follow(observation)
            ledger = watched.ledger(observation.sightings())
    _write(ledger, output, color, zone)
    if interrupted:
        raise click.exceptions.Exit(EXIT_INTERRUPTED)
    if ledger.summary.left_windows or (fail_on_unknown and not ledger.summary.complete):
        raise click.exceptions.Exit(EXIT_GATE)


def _write(ledger: Ledger, output: str, color: str, zone: tzinfo | None) -> None:
    from kubectl_evictplan.report.ledger import blocks

    def shown(wide: bool) -> Iterator[Block]:
        return blocks(ledger, zone, every_row=wide, titled=output == "markdown")

    write_document(ledger, shown, output, color)


def _file(words: tuple[str, ...]) -> str:
    if len(words) == 1:
        return words[0]
    if not words:
        known = Correction((), ("plan.json",), example=True)
        raise mistake("which plan, or which prediction?", known)
    known = Correction(words, words[:1], example=True)
    raise mistake("one plan or prediction at a time", known, got=" ".join(words))


def _evidence(
    name: str, journal: str | None, expectation: Expectation, given: Start | None
) -> JournalEvidence | None:
    """Return what the plan's journal tells; None without one.

    One that nobody named and that is of no use is told, and is no obstacle to who says when it began.
    """
    from kubectl_evictplan.apply.files import JOURNAL_ENDING
    from kubectl_evictplan.commands.ledgers import beside

    if journal is not None:
        return _read_evidence(Path(journal), expectation)
    path = beside(name, JOURNAL_ENDING)
    if not expectation.fingerprint or not (path.exists() or path.is_symlink()):
        return None
    try:
        return _read_evidence(path, expectation)
    except InputError as error:
        if given is None:
            now = "2026-11-20T22:00:00Z"
            for problem in error.problems:
                problem.message += "; or say when the change began, and it is left out"
                problem.correction = Correction((), (_STARTED, now), example=True)
            raise
        say(f"warning: without the journal: {error}")
        return None


def _read_evidence(path: Path, expectation: Expectation) -> JournalEvidence:
    from kubectl_evictplan.commands.ledgers import read_evidence

    evidence = read_evidence(path)
    if evidence.fingerprint != expectation.fingerprint:
        known = help_on("verify")
        raise mistake("the journal of another plan", known, location=str(path))
    return evidence


def _zone(text: str) -> tzinfo | None:
    problems: list[Problem] = []
    zone = named_time_zone(text, problems)
    if problems:
        raise InputError(problems)
    return zone


def _given_start(text: str | None) -> Start | None:
    """Return when the change began by --started-at; a time without a fraction is a whole second."""
    if text is None:
        return None
    from kubectl_evictplan.commands.likely import likely_instant
    from kubectl_evictplan.kube.sightings import Interval, whole_second
    from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
    from kubectl_evictplan.plans.expectation import Start

    try:
        ns = parse_rfc3339_ns(text)
        message = "the zero time is no beginning"
    except ValueError as error:
        ns, message = None, str(error)
    if ns is None:
        # A time of day without a date is the last one, not the next.
        likely = likely_instant(text, time.time_ns() - 24 * HOUR_NS)
        known = Correction((text,), (likely or "2026-11-20T22:00:00Z",), not likely, (_STARTED,))
        expected = "date, time and zone, such as 2026-11-20T22:00:00Z"
        raise mistake(message, known, location=_STARTED, got=repr(text), expected=expected)
    return Start(Interval(ns, ns) if ns % SECOND_NS else whole_second(ns), "given")


def _refuse_later_start(given: Start | None, sightings: Sightings) -> None:
    """Raise where the change began after the files were made, which tell nothing of it."""
    from kubectl_evictplan.kube.timestamps import format_rfc3339

    seen = sightings.looked
    if given is not None and seen is not None and given.at.earliest_ns > seen.latest_ns:
        until = format_rfc3339(seen.latest_ns)
        known = Correction((), (format_rfc3339(seen.earliest_ns),), True, (_STARTED,))
        message = f"the files show nothing after {until}: they were made before the change began"
        raise mistake(message, known, location=_STARTED)


def _observing(flags: ConnectionFlags, expectation: Expectation, cluster_uid: str) -> Any:
    """Return the observation of the cluster, which must be the plan's own."""
    from kubectl_evictplan.live.observation import observing

    return observing(
        flags,
        os.environ,
        nodes=expectation.nodes,
        pods={pod.key for pod in expectation.known},
        cluster_uid=cluster_uid,
        warn=lambda text: say(f"warning: {text}"),
    )


class _Watched:
    """The ledger as it grows, and what was told of it already."""

    def __init__(
        self,
        expectation: Expectation,
        given: Start | None,
        evidence: JournalEvidence | None,
        zone: tzinfo | None,
    ) -> None:
        self._expectation = expectation
        self._given = given
        self._evidence = evidence
        self._zone = zone
        self._told: dict[str, str] = {}

    def ledger(self, sightings: Sightings) -> Ledger:
        """Return the ledger by what was seen so far; InputError when nobody knows the beginning."""
        from kubectl_evictplan.commands.ledgers import with_journal
        from kubectl_evictplan.plans.ledger import ledger_of

        start = self._start(sightings)
        if self._evidence is None:
            return ledger_of(self._expectation, sightings, start)
        sightings = with_journal(sightings, self._evidence)
        return ledger_of(self._expectation, sightings, start, self._evidence.begun)

    def follow(self, observation: Observation) -> bool:
        """Follow until everything is decided, or the prediction ends; True when interrupted."""
        from kubectl_evictplan.plans.ledger import goes_on

        nodes = self._expectation.nodes
        say(f"following the pods of {len(nodes)} node{'s' * (len(nodes) != 1)}; ^C ends it")
        confirmed = False
        try:
            while True:
                sightings = observation.sightings()
                ledger = self.ledger(sightings)
                self._tell(ledger)
                end_ns = self._start(sightings).at.latest_ns + self._expectation.reach_ns
                if goes_on(ledger) and observation.now_ns() <= end_ns + _PATIENCE_NS:
                    confirmed = False
                    observation.more()
                elif confirmed:
                    return False
                else:
                    # That the watch told nothing proves nothing, and nodes were looked at some time ago.
                    observation.confirm()
                    confirmed = True
        except KeyboardInterrupt:
            say("interrupted: this is what was seen so far")
            return True

    def _start(self, sightings: Sightings) -> Start:
        from kubectl_evictplan.plans.beginnings import beginning

        if self._given is not None:
            return self._given
        if self._evidence is not None and self._evidence.start is not None:
            return self._evidence.start
        start = beginning(self._expectation, sightings)
        if start is None and self._expectation.fingerprint and not self._expectation.operations:
            raise mistake("this plan has nothing to do: there is no change to verify")
        if start is None:
            now = "2026-11-20T22:00:00Z"
            known = Correction((), (_STARTED, now), example=True)
            raise mistake("nothing in the cluster tells when the change began", known)
        return start

    def _tell(self, ledger: Ledger) -> None:
        """Say, line by line, what has been decided since the last time."""
        from kubectl_evictplan.report.ledger import line_of, node_line_of

        zone = self._zone
        lines = {f"pod {pod.uid}": line_of(pod, ledger, zone) for pod in ledger.pods}
        for at, node in enumerate(ledger.nodes):
            lines[f"node {at}"] = node_line_of(node, ledger, zone)
        for what, line in sorted(lines.items(), key=lambda item: item[1]):
            if line and self._told.get(what) != line:
                self._told[what] = line
                say(line)
