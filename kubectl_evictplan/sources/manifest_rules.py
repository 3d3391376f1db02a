"""What the API server would refuse in an object that a person wrote.

The same violations in an object that a server stored long ago are only odd: ``checks`` warns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubectl_evictplan.kube import validation
from kubectl_evictplan.sources import wire
from kubectl_evictplan.sources.model_builder import ModelBuilder
from kubectl_evictplan.sources.schema import WrongField

_COMPARISON_OPERATORS_SINCE = (1, 35)
_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def violations(kind: str, decoded: Any, build: ModelBuilder, version: str) -> Iterator[WrongField]:
    """Yield what is wrong for the API server of that version; "" is the newest."""
    meta = decoded.metadata
    if kind in ("Node", "Pod"):
        for key, message, got in validation.validate_labels(build.labels[bytes(meta.labels)]):
            yield WrongField(("metadata", "labels", key), message, got)
    for field, value, rule in (
        ("name", meta.name, validation.validate_dns_subdomain),
        ("namespace", meta.namespace, validation.validate_dns_label),
    ):
        for message in rule(value) if value else ():
            yield WrongField(("metadata", field), message, value)
    if kind == "PodDisruptionBudget":
        yield from budget_violations(decoded.spec)
    listed, found = "tolerations", []
    if kind == "Pod":
        found = validation.validate_tolerations(
            build.tolerations[bytes(decoded.spec.tolerations)],
            comparison_operators=_knows_comparison_operators(version),
        )
    elif kind == "Node":
        listed, found = "taints", validation.validate_taints(build.node(decoded).taints)
    for index, (field, message, got) in found:
        path = ("spec", listed, index, field) if field else ("spec", listed, index)
        yield WrongField(path, message, got)


def _knows_comparison_operators(version: str) -> bool:
    """Tell whether the API server of that version may know Lt and Gt (gate, off by default)."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return match is None or (int(match[1]), int(match[2])) >= _COMPARISON_OPERATORS_SINCE


def budget_violations(spec: wire.BudgetSpec) -> Iterator[WrongField]:
    """Yield what the API server refuses in a disruption budget."""
    if spec.min_available is not None and spec.max_unavailable is not None:
        message = "minAvailable and maxUnavailable are mutually exclusive, both are set"
        yield WrongField(("spec",), message, "")
    for field, value in (
        ("minAvailable", spec.min_available),
        ("maxUnavailable", spec.max_unavailable),
    ):
        if message := _count_problem(value):
            yield WrongField(("spec", field), message, str(value))
    expressions = spec.selector.match_expressions if spec.selector else ()
    for index, item in enumerate(expressions):
        path = ("spec", "selector", "matchExpressions", index, "operator")
        operator, values = item.operator, item.values
        if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            yield WrongField(path, "unknown operator: In, NotIn, Exists or DoesNotExist", operator)
        elif bool(values) != (operator in _WITH_VALUES):
            message = "In and NotIn need values, Exists and DoesNotExist have none"
            yield WrongField(path, message, operator)


def _count_problem(value: int | str | None) -> str:
    if isinstance(value, int):
        return "a negative number of pods" if value < 0 else ""
    if value is None:
        return ""
    percent = value.removesuffix("%")
    if percent == value or not (percent.isascii() and percent.isdigit()):
        return "neither a number nor a percentage"
    return "a percentage above 100" if len(percent) > 3 or int(percent) > 100 else ""
