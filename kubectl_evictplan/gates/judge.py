"""Hold rules against a prediction.

A figure is known between a least and a most, over every admissible run. So a rule may hold, must hold, or neither; it
fails where it may: a gate is there for what nobody can exclude. What is not known may be anything.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kubectl_evictplan.gates.document import GateResult
from kubectl_evictplan.gates.figures import FIGURES, Facts, Known, Names, Unknown, code_figure, told
from kubectl_evictplan.gates.language import All, Comparison, Not, Rule
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.scenarios.names import listed


class Gate(NamedTuple):
    """A rule, as written and as understood, where it was written, and what its author says."""

    text: str
    rule: Rule
    origin: str
    reason: str = ""
    file: str = ""
    line: int = 0


class _Truth(NamedTuple):
    may: bool
    must: bool


class _Asked(NamedTuple):
    """What a rule's figures said, in the order of the rule, each once."""

    numbers: dict[str, None]
    unknown: dict[str, None]
    objects: dict[str, None]


def judge(gates: Iterable[Gate], prediction: Prediction, names: Names) -> tuple[GateResult, ...]:
    """Return one result per gate; ``names`` are what the input holds."""
    facts = Facts(prediction, names)
    return tuple(_result(gate, facts) for gate in gates)


def _result(gate: Gate, facts: Facts) -> GateResult:
    asked = _Asked({}, {}, {})
    truth = _truth(gate.rule, facts, asked)
    return GateResult(
        gate.text,
        gate.origin,
        truth.may,
        truth.must,
        tuple(asked.numbers),
        tuple(asked.unknown),
        gate.reason,
        gate.file,
        gate.line,
        tuple(asked.objects),
    )


def _truth(rule: Rule, facts: Facts, asked: _Asked) -> _Truth:
    if isinstance(rule, Comparison):
        return _compared(rule, facts, asked)
    if isinstance(rule, Not):
        truth = _truth(rule.rule, facts, asked)
        return _Truth(not truth.must, not truth.may)
    # Every part is looked at, so that every number is told.
    found = [_truth(part, facts, asked) for part in rule.rules]
    join: Callable[[Iterator[bool]], bool] = all if isinstance(rule, All) else any
    return _Truth(join(one.may for one in found), join(one.must for one in found))


def _compared(rule: Comparison, facts: Facts, asked: _Asked) -> _Truth:
    figure = FIGURES.get(rule.figure) or code_figure(rule.figure)
    value = figure.value(facts, rule.argument)
    name = f"{rule.figure}({rule.argument})" if rule.argument else rule.figure
    if isinstance(value, Unknown):
        asked.unknown[f"{name} is not known: {value.why}"] = None
        return _Truth(may=True, must=False)
    which = f": {listed([_short(one) for one in value.objects])}" if value.objects else ""
    asked.numbers[f"{name} is {told(value, figure)}{'' if rule.argument else which}"] = None
    asked.objects.update(dict.fromkeys(value.objects))
    limit = figure.kind.parse(rule.value) if rule.operator else 0.0
    return _holds(rule.operator or ">", value, limit)


def _short(name: str) -> str:
    """Return the object without its kind, which the figure says."""
    return name.partition("/")[2]


def _holds(sign: str, value: Known, limit: float) -> _Truth:
    least, most = value.least, value.most
    if sign in ("==", "!="):
        equal = _Truth(may=least <= limit <= most, must=least == most == limit)
        return equal if sign == "==" else _Truth(not equal.must, not equal.may)
    compare = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}[sign]
    ends = compare(least, limit), compare(most, limit)
    return _Truth(any(ends), all(ends))
