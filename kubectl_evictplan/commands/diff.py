"""``diff``: what two predictions, or the plans around them, do not have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kubectl_evictplan.commands.command import command
from kubectl_evictplan.commands.file_arguments import STDIN, check_files, refuse_odd_file
from kubectl_evictplan.commands.options import COMMON_OPTIONS
from kubectl_evictplan.commands.output import output_settings, write_document
from kubectl_evictplan.errors import EXIT_DIFFERENT, Correction, InputError, help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.prediction.difference_document import PredictionDiff
    from kubectl_evictplan.prediction.document import Prediction


@command(
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json -o json > a.json",
    "kubectl evictplan what-if fail zone eu-1a -f cluster.json -o json \\",
    "  --controller-flag node-monitor-grace-period=20s > b.json",
    "# What does the faster detection change?",
    "kubectl evictplan diff a.json b.json",
    "# What does the new plan do that the reviewed one did not?",
    "kubectl evictplan diff reviewed.json new.json --exit-code",
    params=[COMMON_OPTIONS["color"]],
)
@click.argument("words", nargs=-1, metavar="A B")
@click.option("-o", "--output", **output_settings())
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 when they do not predict, or do, the same, as git diff.",
)
def diff(words: tuple[str, ...], output: str, color: str, exit_code: bool) -> None:
    """What changes from prediction A to prediction B: files that `what-if` wrote with -o json, or plans (--out).

    Evictions that are new, gone, earlier, later, certain or possible now, and the inputs that are not
    the same; of two plans also operations, pace, losses, and what they were made from. Compressed files will
    do, and - for standard input.
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
    for word, example in zip(words, ("a.json", "b.json"), strict=True):
        refuse_odd_file(word, example)
    with _helped():
        check_files(words, recursive=False)
    from kubectl_evictplan.report.differences import difference_contents

    found = _compared(*words)
    write_document(found, lambda wide: difference_contents(found, wide=wide), output, color)
    if exit_code and not (found.same and (found.plans is None or found.plans.same)):
        raise click.exceptions.Exit(EXIT_DIFFERENT)


def _compared(name_a: str, name_b: str) -> PredictionDiff:
    """Compare two files: their predictions, and what two plans do besides."""
    from msgspec.structs import replace

    from kubectl_evictplan.plans.comparing import compare_plans
    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.prediction.differences import compare

    a, b = _read(name_a), _read(name_b)
    found = compare(
        a.prediction if isinstance(a, Plan) else a,
        b.prediction if isinstance(b, Plan) else b,
        name_a,
        name_b,
    )
    if isinstance(a, Plan) and isinstance(b, Plan):
        return replace(found, plans=compare_plans(a, b))
    return found


def _read(name: str) -> Plan | Prediction:
    from kubectl_evictplan.commands.reviewed_file import read_reviewed

    with _helped():
        return read_reviewed(name)


@contextmanager
def _helped() -> Iterator[None]:
    """Point to the help for every problem of a file: no other file beside it is known to be a prediction."""
    try:
        yield
    except InputError as error:
        for problem in error.problems:
            problem.correction = help_on("diff")
        raise
