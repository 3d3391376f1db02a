"""The file that was reviewed: a plan, or a prediction as `what-if -o json` writes it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kubectl_evictplan.commands.file_arguments import STDIN, check_files, exists
from kubectl_evictplan.commands.plan_file import odd_file
from kubectl_evictplan.errors import InputError, help_on, mistake

if TYPE_CHECKING:
    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.plans.expectation import Expectation
    from kubectl_evictplan.prediction.document import Prediction

# No window is further away: 300 years, which fit nanoseconds of 64 bits.
_SECONDS_MAX = 9e9


def read_expectation(name: str) -> tuple[Expectation, str]:
    """Return what the file leads one to expect, and the UID of its cluster ("" when it names none).

    Raises InputError for what is neither a plan nor a prediction.
    """
    try:
        return _read(name)
    except InputError as error:
        # No other file beside it is known to be one.
        for problem in error.problems:
            problem.correction = help_on("verify")
        raise


def _read(name: str) -> tuple[Expectation, str]:
    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.plans.expectation import expectation_of, expectation_of_plan

    found = read_reviewed(name)
    if not isinstance(found, Plan):
        _check(found, name)
        return expectation_of(found), ""
    _check(found.prediction, name)
    return expectation_of_plan(found), found.cluster.cluster_uid


def read_reviewed(name: str) -> Plan | Prediction:
    """Return what the file holds. Raises InputError for what is neither, DriftError for a plan that was changed."""
    from kubectl_evictplan.plans.reading import read_plan
    from kubectl_evictplan.prediction.stored import decode_prediction

    data = _content(name)
    return read_plan(data, name) if _kind(data) == "Plan" else decode_prediction(data, name)


def _content(name: str) -> bytes:
    from kubectl_evictplan.sources.reading import ReadProblem, read

    if name != STDIN and not exists(name) and (odd := odd_file(name)):
        raise odd
    check_files((name,), recursive=False)
    try:
        return read(name, sys.stdin.buffer if sys.stdin is not None else None).data
    except ReadProblem as refused:
        raise mistake(str(refused), location=name) from None


def _kind(data: bytes) -> str:
    import msgspec

    from kubectl_evictplan.sources import wire

    try:
        return wire.ENVELOPE.decode(data).kind or ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _check(prediction: Prediction, name: str) -> None:
    """Raise for offsets that no clock has; whoever reads a window may count with it then."""
    spans = [(one.earliest_seconds, one.latest_seconds) for one in prediction.evictions]
    for eviction in prediction.evictions:
        spans += [(one.earliest_seconds, one.latest_seconds) for one in eviction.windows]
    for report in prediction.nodes:
        spans += [(one.earliest_seconds, one.latest_seconds) for one in report.changes]
    for drain in prediction.drains:
        earliest = drain.end_earliest_seconds or 0.0
        latest = drain.end_latest_seconds
        spans.append((earliest, earliest if latest is None else latest))
    for earliest, latest in spans:
        if not -_SECONDS_MAX <= earliest <= latest <= _SECONDS_MAX:
            message = "a window ends before it begins, or lies centuries away"
            raise mistake(message, location=name, got=f"{earliest:g} .. {latest:g}")
