"""``--fail-on`` and ``--policy``: what a pipeline must not let pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_evictplan.errors import GateError, InputError, Problem

if TYPE_CHECKING:
    from kubectl_evictplan.gates.document import GateResult
    from kubectl_evictplan.gates.judge import Gate
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.prediction.document import Prediction


def wanted_gates(rules: Sequence[str], files: Sequence[str]) -> list[Gate]:
    """Return the gates of both options; InputError tells of everything that is wrong with them."""
    from kubectl_evictplan.commands.written_files import read_written
    from kubectl_evictplan.gates.policy import load_policy, typed_gates

    gates: list[Gate] = []
    problems: list[Problem] = []
    try:
        gates += typed_gates(rules)
    except InputError as error:
        problems += error.problems
    for name in files:
        try:
            gates += load_policy(read_written(name, "policy"), name)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return gates


def judged(
    gates: Sequence[Gate], prediction: Prediction, snapshot: ClusterSnapshot
) -> tuple[GateResult, ...]:
    """Return what the gates find in a prediction for a cluster."""
    from kubectl_evictplan.gates.judge import judge
    from kubectl_evictplan.gates.policy import named_objects

    return judge(gates, prediction, named_objects(snapshot))


def refuse_failed(results: Sequence[GateResult]) -> None:
    """Raise GateError, one line for each rule that failed, with its numbers."""
    failed = [
        Problem(f"gate failed: {one.told}", location=one.origin) for one in results if one.failed
    ]
    if failed:
        raise GateError(failed)
