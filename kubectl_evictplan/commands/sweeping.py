"""What all sweeps have in common: their options, the cluster, and the writing of the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubectl_evictplan.commands.command import command
from kubectl_evictplan.commands.executors import Workers, check_executor
from kubectl_evictplan.commands.file_arguments import check_files
from kubectl_evictplan.commands.likely import likely_duration
from kubectl_evictplan.commands.observing import second_look
from kubectl_evictplan.commands.options import (
    COMMON_OPTIONS,
    WhatIfCommand,
    WhatIfOptions,
    parsed,
)
from kubectl_evictplan.commands.output import output_settings, write_document
from kubectl_evictplan.commands.run import read_input
from kubectl_evictplan.commands.terminal import Progress
from kubectl_evictplan.errors import Correction, InputError, Problem, mistake
from kubectl_evictplan.garbage import collecting_rarely
from kubectl_evictplan.processes import default_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubectl_evictplan.commands.options import Given
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.sweeps.document import Sweep
    from kubectl_evictplan.sweeps.failures import Failing, Failure

_Answer = TypeVar("_Answer")


class SweepCommand(WhatIfCommand):
    """A command with the common options that a sweep reads, and no others: none is taken and not heeded."""

    left_out = frozenset(COMMON_OPTIONS) - {
        *("filenames", "recursive", "strict", "observe", "observe_from"),
        *("horizon", "start", "kubernetes_version", "controller_flags", "monitor_phase"),
        *("assume_ready", "time_zone", "color"),
    }


def sweep_command(*examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return what makes a sweep of a function, with the options of all of them."""

    def decorate(callback: Callable[..., None]) -> click.Command:
        for option in reversed(_OPTIONS):
            callback = option(callback)
        return command(*examples, cls=SweepCommand)(callback)

    return decorate


_OPTIONS = (
    click.option("-o", "--output", **output_settings("csv")),
    click.option("--jobs", metavar="N", help="So many processes; default: one for each processor."),
    click.option(
        "--executor",
        metavar="dask://HOST:PORT",
        help="Compute there; or MODULE:FUNCTION that returns a concurrent.futures.Executor.",
    ),
    click.option(
        "--for", "duration", metavar="DURATION", help="Back after so long; default: never."
    ),
)


class Sweeping:
    """The options of one sweep as typed, checked before anything is read."""

    def __init__(self, options: WhatIfOptions, own: dict[str, Any]) -> None:
        from kubectl_evictplan.kube.durations import parse_bounded_duration_ns

        self.options = options
        self._output: str = own["output"]
        problems: list[Problem] = []
        self.back_ns = parsed(
            "--for", own["duration"], parse_bounded_duration_ns, likely_duration, problems
        )
        if problems:
            raise InputError(problems)
        self.workers = Workers(_jobs(own["jobs"]), own["executor"] or "")
        if own["executor"] is not None:
            check_executor(own["executor"])
        self.given: Given = options.given()

    @contextmanager
    def cluster(self) -> Iterator[tuple[ClusterSnapshot, Progress]]:
        """Read the cluster; what is done with it may tell how far it is."""
        options = self.options
        check_files(options.filenames, recursive=options.recursive)
        look = second_look(
            options.observe, options.observe_from, options.filenames, options.connection
        )
        with Progress(sys.stderr) as progress:
            snapshot = read_input(options, self.given, look, progress)
            with collecting_rarely():
                yield snapshot, progress

    def failing(self, snapshot: ClusterSnapshot) -> Failing:
        """Return what predicts failures of this cluster, as the options say."""
        from kubectl_evictplan.controllers.flags import resolve_configuration
        from kubectl_evictplan.sweeps.failures import Failing

        given = self.given
        return Failing(
            snapshot,
            resolve_configuration(given.settings, snapshot.control_plane),
            snapshot.taken_at_ns if given.start_ns is None else given.start_ns,
            given.horizon_ns,
            self.back_ns,
            given.assume_ready_ns,
        )

    def swept(
        self, snapshot: ClusterSnapshot, failures: Sequence[Failure], what: str, progress: Progress
    ) -> Sweep:
        """Return the ranked rows of all failures."""
        from kubectl_evictplan.sweeps.document import Sweep
        from kubectl_evictplan.sweeps.second_look import looked_at_again, not_evaluated

        failing = self.failing(snapshot)
        failing.prepare(failures)
        rows = list(self.answers(failing.row, failures, progress))
        ranked = looked_at_again(rows, lambda few: self.answers(failing.placed_row, few, progress))
        inputs = failing.inputs(failures[0]) if failures else None
        unknown = not_evaluated(snapshot, ranked)
        return Sweep(what, inputs, failures=ranked, not_evaluated=unknown)

    def answers(
        self, function: Callable[[Any], _Answer], tasks: Sequence[Any], progress: Progress
    ) -> Iterator[_Answer]:
        """Yield the answer of every task, in order."""
        total = len(tasks)
        return self.workers.answers(
            function, tasks, lambda done: progress.predicting("predicting failures", done, total)
        )

    def show(self, found: Sweep) -> None:
        """Write the answer."""
        from kubectl_evictplan.report.sweeps import sweep_contents

        write_document(
            found,
            lambda wide: sweep_contents(found, wide=wide, zone=self.given.zone),
            self._output,
            self.options.color,
        )


def _jobs(text: str | None) -> int:
    if text is None:
        return default_jobs()
    if text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= 1024:
        return int(text)
    known = Correction((text,), (str(default_jobs()),), True, ("--jobs",))
    expected = "a number from 1 to 1024"
    raise mistake(
        "not a number of processes", known, got=repr(text), expected=expected, location="--jobs"
    )
