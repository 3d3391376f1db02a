"""What figures are counted in: how a limit is written, and how a value is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from kubectl_evictplan.impact import finding_kinds
from kubectl_evictplan.kube.durations import (
    MILLISECOND_NS,
    SECOND_NS,
    format_duration,
    parse_duration_ns,
)

SEVERITIES = ("none", *finding_kinds.SEVERITIES)


class Kind(NamedTuple):
    """``parse`` raises ValueError in words; ``sample`` is a limit as people write one."""

    parse: Callable[[str], float]
    show: Callable[[float], str]
    sample: str


def _count(text: str) -> float:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise ValueError(f"{text!r} is no number of things, such as 20")
    return float(text)


def _seconds(text: str) -> float:
    try:
        return parse_duration_ns(text) / SECOND_NS
    except ValueError as error:
        raise ValueError(f"{text!r} is no duration, such as 30s or 5m: {error}") from None


def _severity(text: str) -> float:
    if text not in SEVERITIES:
        raise ValueError(f"{text!r} is no severity: {', '.join(SEVERITIES)}")
    return float(SEVERITIES.index(text))


def _shown_seconds(value: float) -> str:
    if math.isinf(value):
        return "without end within reach"
    return format_duration(round(value * 1000) * MILLISECOND_NS)


COUNT = Kind(_count, lambda value: "any number" if math.isinf(value) else str(int(value)), "20")
DURATION = Kind(_seconds, _shown_seconds, "30s")
SEVERITY = Kind(_severity, lambda value: SEVERITIES[int(value)], "high")
