"""Words for the values of a prediction, as an operator reads them.

Offsets are spelled as Go spells durations, with a sign: ``+5m50s``. Windows that differ by less
than a millisecond are one number. In the narrow table a window is rounded outwards, so that it
never promises more than was predicted: to tenths of a second in the first minute, to seconds in
the first hour, to minutes after that. ``<unknown>`` and ``<none>`` are kubectl's.
"""

from __future__ import annotations

import math

from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.prediction.document import (
    POSSIBLE,
    Eviction,
    Sourced,
    TaintReference,
    TolerationReference,
    Window,
)

UNKNOWN = "<unknown>"
NONE = "<none>"

_NS_PER_MS = 1_000_000
_MS_PER_MINUTE = 60_000
_MS_PER_HOUR = 3_600_000
NODE_TAINT_PREFIX = "node.kubernetes.io/"
_OWNER_SHORT_NAMES = {
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "ReplicationController": "rc",
    "Job": "job",
    "CronJob": "cj",
    "Node": "node",
}
# Why a pod is deleted without a taint, by the upstream function that decides.
_REASONS_BY_RULE = {
    "DeletePods": "pod-eviction-timeout",
    "gcOrphaned": "node gone",
    "gcTerminated": "too many finished",
    "gcTerminating": "out of service",
    "gcUnscheduledTerminating": "never scheduled",
}
_CONTROLLER_SHORT_NAMES = {"taint-eviction": "taint", "node-lifecycle": "node"}


def offset(seconds: float | None) -> str:
    """Return an offset to the millisecond, e.g. ``+5m50.25s``."""
    ms = _milliseconds(seconds)
    return UNKNOWN if ms is None else _offset_ms(ms)


def window(
    earliest_seconds: float | None, latest_seconds: float | None, *, exact: bool = True
) -> str:
    """Return ``+a``, ``+a .. +b`` or ``+a or later``; not ``exact`` rounds outwards."""
    first, last = _milliseconds(earliest_seconds), _milliseconds(latest_seconds)
    if first is None and last is None:
        return UNKNOWN
    if first is None:
        return f"until {_offset_ms(last or 0)}"
    if last is None:
        return f"{_offset_ms(first)} or later"
    if first == last:
        return _offset_ms(first)
    if exact:
        return f"{_offset_ms(first)} .. {_offset_ms(last)}"
    step = _rounding_step_ms(max(abs(first), abs(last)))
    low, high = first // step * step, -(-last // step) * step
    return f"{_coarse(low, step)} .. {_coarse(high, step)}"


def gone(end: Window, *, exact: bool = True) -> str:
    """Return when the object ends, or ``stuck: reason`` when it stays Terminating."""
    if end.stuck is None:
        return window(end.earliest_seconds, end.latest_seconds, exact=exact)
    stuck = f"stuck: {end.stuck}"
    if exact and end.earliest_seconds is not None:
        return f"{stuck} (gone at the earliest {offset(end.earliest_seconds)})"
    return stuck


def taint(reference: TaintReference, *, short: bool = False) -> str:
    """Return a taint as kubectl writes it; ``short`` leaves out what every eviction shares."""
    value = f"={reference.value}" if reference.value else ""
    if short:
        return reference.key.removeprefix(NODE_TAINT_PREFIX) + value
    return f"{reference.key}{value}:{reference.effect}"


def tolerated(reference: TolerationReference | None) -> str:
    """Say how the deciding taint is tolerated."""
    if reference is None:
        return "not tolerated"
    place = f"toleration {reference.index}"
    if reference.toleration_seconds is None:
        return f"tolerated without limit ({place})"
    return f"tolerated for {reference.toleration_seconds}s ({place})"


def why(eviction: Eviction, *, short: bool) -> str:
    """Return the taint and the toleration's seconds; without a taint the last link of the chain."""
    if eviction.taint is None:
        if not eviction.because:
            return UNKNOWN
        last = eviction.because[-1]
        return _REASONS_BY_RULE.get(last.rule, last.what) if short else last.what
    if not short:
        return f"{taint(eviction.taint)} {tolerated(eviction.toleration)}"
    seconds = eviction.toleration.toleration_seconds if eviction.toleration else None
    after = "" if seconds is None else f" after {seconds}s"
    return taint(eviction.taint, short=True) + after


def owner(text: str, *, short: bool) -> str:
    """Return ``Kind/name``, or kubectl's short word for the kind."""
    if not short or not text:
        return text
    kind = text.partition("/")[0]
    return _OWNER_SHORT_NAMES.get(kind, kind)


def controller(name: str, *, short: bool) -> str:
    """Return the controller's name, or the short word the narrow table uses."""
    return _CONTROLLER_SHORT_NAMES.get(name, name) if short else name


def possible_mark(certainty: str) -> str:
    """Return the mark of what happens only in some admissible timings."""
    return " ?" if certainty == POSSIBLE else ""


def sourced(value: Sourced) -> str:
    """Return a resolved input with where it came from: ``1.29.6 (detected)``."""
    return f"{plain(value.value)} ({value.source})" if value.source else plain(value.value)


def plain(value: object) -> str:
    """Return an input's value as a person writes it."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def seconds_text(value: Sourced) -> str:
    """Like ``sourced``, for a length of time: a number is a number of seconds."""
    number = value.value
    if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
        text = format_duration(round(number * 1000) * _NS_PER_MS)
        return f"{text} ({value.source})" if value.source else text
    return sourced(value)


def count(number: int, noun: str) -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _milliseconds(seconds: float | None) -> int | None:
    return round(seconds * 1000) if seconds is not None and math.isfinite(seconds) else None


def _offset_ms(ms: int) -> str:
    sign = "-" if ms < 0 else "+"
    return sign + format_duration(abs(ms) * _NS_PER_MS)


def _rounding_step_ms(largest_ms: int) -> int:
    if largest_ms < _MS_PER_MINUTE:
        return 100
    return 1000 if largest_ms < _MS_PER_HOUR else _MS_PER_MINUTE


def _coarse(ms: int, step_ms: int) -> str:
    text = _offset_ms(ms)
    # "1h30m0s" rounded to minutes must not look exact to the second.
    return text.removesuffix("0s") if step_ms == _MS_PER_MINUTE and ms else text
