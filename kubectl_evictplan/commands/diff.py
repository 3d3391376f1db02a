"""``diff``: what two predictions do not have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.command import Choice, command
from kubectl_evictplan.commands.file_arguments import STDIN, check_files
from kubectl_evictplan.commands.options import COMMON_OPTIONS
from kubectl_evictplan.commands.output import write_document
from kubectl_evictplan.errors import EXIT_DIFFERENT, Correction, InputError, help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.prediction.document import Prediction

OUTPUTS = ("table", "wide", "json", "yaml", "markdown")


@command(
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json -o json > a.json",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json -o json \\",
    "  --controller-flag node-monitor-grace-period=20s > b.json",
    "# What does the faster detection change?",
    "kubectl evictplan diff a.json b.json",
    params=[COMMON_OPTIONS["color"]],
)
@click.argument("words", nargs=-1, metavar="A B")
@click.option(
    "-o",
    "--output",
    type=Choice(*OUTPUTS, meant={"yml": "yaml", "md": "markdown", "text": "table"}),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--exit-code", is_flag=True, help="Exit with 1 when they do not predict the same, as git diff."
)
def diff(words: tuple[str, ...], output: str, color: str, exit_code: bool) -> None:
    """What changes from prediction A to prediction B: both are files that `what-if -o json` wrote.

    Evictions that are new, gone, earlier, later, certain or possible now, and the inputs that are not
    the same. Compressed files will do, and - for standard input.
    """
    if len(words) != 2:
        missing = ("a.json", "b.json")[len(words) :]
        known = Correction((), missing, example=True) if missing else None
        got = f" (got {' '.join(words)})" if words else ""
        raise mistake(f"two predictions are compared, A and B{got}", known)
    if words == (STDIN, STDIN):
        raise mistake(
            "standard input can be read once only", Correction((STDIN,), ("a.json",), True)
        )
    with _helped():
        check_files(words, recursive=False)
    from kubectl_evictplan.prediction.differences import compare
    from kubectl_evictplan.report.differences import difference_contents

    a, b = map(_read, words)
    found = compare(a, b, *words)
    write_document(found, lambda wide: difference_contents(found, wide=wide), output, color)
    if exit_code and not found.same:
        raise click.exceptions.Exit(EXIT_DIFFERENT)


def _read(name: str) -> Prediction:
    from kubectl_evictplan.prediction.stored import decode_prediction
    from kubectl_evictplan.sources.reading import ReadProblem, read

    stdin = sys.stdin.buffer if sys.stdin is not None else None
    with _helped():
        try:
            content = read(name, stdin)
        except ReadProblem as refused:
            raise mistake(str(refused), location=name) from None
        return decode_prediction(content.data, name)


@contextmanager
def _helped() -> Iterator[None]:
    """Point to the help for every problem of a file: no other file beside it is known to be a prediction."""
    try:
        yield
    except InputError as error:
        for problem in error.problems:
            problem.correction = help_on("diff")
        raise
