"""``--abort-if``: rules that are held against the cluster while a plan is carried out.

The language is that of ``--fail-on`` (``gates.language``); the figures are others, as these are about
what happens and not about what is predicted: ``evicted > 20``, ``waiting > 5m``,
``not-ready-nodes > 2 or unready(shop/web) > 1``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kubectl_evictplan.errors import Correction, InputError, Problem, WrongWord
from kubectl_evictplan.gates.kinds import COUNT, DURATION, Kind
from kubectl_evictplan.gates.language import All, Comparison, Not, Rule, parse
from kubectl_evictplan.scenarios.names import did_you_mean, similar

ABORT_IF = "--abort-if"
# Pods whose eviction was accepted so far.
EVICTED = "evicted"
# For how long a budget has kept the pod that waits longest.
WAITING = "waiting"
# Nodes of the cluster that are not Ready.
NOT_READY_NODES = "not-ready-nodes"
# Pods of one workload that are wanted and not Ready: (NAMESPACE/NAME) or (NAMESPACE/KIND/NAME).
UNREADY = "unready"
FIGURES: dict[str, Kind] = {
    EVICTED: COUNT,
    WAITING: DURATION,
    NOT_READY_NODES: COUNT,
    UNREADY: COUNT,
}

_WORKLOAD = re.compile(r"[a-z0-9.-]+/(?:[A-Za-z]+/)?[a-z0-9.-]+", re.ASCII)
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
Value = Callable[[Comparison], float | None]


class Condition(NamedTuple):
    """One rule, as written and as understood."""

    words: str
    rule: Rule


def parse_condition(words: str) -> Condition:
    """Read one rule. Raises InputError that says what is wrong with it."""
    try:
        return Condition(words, parse(words, _check))
    except ValueError as error:
        example = Correction((words,), ("evicted > 20",), True, (ABORT_IF,))
        if isinstance(error, WrongWord) and error.instead:
            meant = words.replace(error.typed, error.instead[0], 1)
            example = Correction((words,), (meant,), len(error.instead) > 1, (ABORT_IF,))
        problem = Problem(str(error), example, location=ABORT_IF, got=repr(words))
        raise InputError(problem) from None


def _check(comparison: Comparison) -> None:
    """Raise ValueError for a figure that does not exist or is compared with something else."""
    name, argument, sign, limit = comparison
    if name not in FIGURES:
        # What --fail-on calls a figure.
        close = ["evicted"] if name == "evictions" else similar(name, tuple(FIGURES))
        known = did_you_mean(close) if close else f"; there are {', '.join(FIGURES)}"
        raise WrongWord(f"there is no figure {name}{known}", name, close)
    if name == UNREADY and not _WORKLOAD.fullmatch(argument):
        raise ValueError(f"{name} needs a workload, such as {name}(shop/web)")
    if name != UNREADY and argument:
        raise ValueError(f"{name} takes nothing in brackets")
    if sign:
        FIGURES[name].parse(limit)


def comparisons(rule: Rule) -> Iterator[Comparison]:
    """Yield every comparison of a rule."""
    if isinstance(rule, Comparison):
        yield rule
    elif isinstance(rule, Not):
        yield from comparisons(rule.rule)
    else:
        for part in rule.rules:
            yield from comparisons(part)


def holds(rule: Rule, value: Value) -> bool | None:
    """Tell whether a rule holds; None when that depends on a value that nobody can tell."""
    if isinstance(rule, Comparison):
        return _compared(rule, value(rule))
    if isinstance(rule, Not):
        inner = holds(rule.rule, value)
        return None if inner is None else not inner
    found = [holds(part, value) for part in rule.rules]
    # One of these decides alone: a part that fails, or one that holds.
    deciding = not isinstance(rule, All)
    if deciding in found:
        return deciding
    return None if None in found else not deciding


def _compared(comparison: Comparison, value: float | None) -> bool | None:
    if value is None:
        return None
    if not comparison.operator:
        return value > 0
    limit = FIGURES[comparison.figure].parse(comparison.value)
    return _SIGNS[comparison.operator](value, limit)
