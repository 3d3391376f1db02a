"""What a run tells while it works, one plain line per event; for logs, pipes and narrow terminals."""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.apply import progress
from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.progress import AnyProgress
from kubectl_evictplan.display import escape
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS, format_duration
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.report.run_endings import KEPT_TOLD
from kubectl_evictplan.report.words import name

_MESSAGE_COLUMNS_MAX = 200
_PAUSES = {
    "offset": "planned for later",
    "settle": "pause after the node",
    "until-ready": "replacements are not Ready yet",
    "busy": "the server is busy",
    "conflict": "somebody wrote the node meanwhile",
    "unreachable": "no answer",
    "unknown": "a request may still be at work",
}
_LOCKS = {
    "held": "the lock is held",
    "taken-over": "the lock had expired and is taken over",
    "not-used": "no lock in the cluster: nobody else is kept away",
    "released": "the lock is given back",
}


def line(event: AnyProgress) -> str | None:
    """Return an event as a line that begins with the server's time; None for what needs no line."""
    told = _told(event)
    return None if told is None else f"{_clock(event.at_ns)} {told}"


def _clock(at_ns: int) -> str:
    return format_rfc3339(at_ns // SECOND_NS * SECOND_NS)


def _told(event: AnyProgress) -> str | None:
    match event:
        case progress.RunStarted():
            return _started(event)
        case progress.CheckMade():
            detail = f": {escape(event.check.detail)}" if event.check.detail else ""
            return f"checked {event.check.name}: {event.check.verdict}{detail}"
        case progress.LockNoted():
            return _LOCKS[event.what]
        case progress.ClockGap():
            return f"the machine slept or its clock was set ({event.seconds:.0f} s): all is checked"
        case progress.Paused():
            return _paused(event)
        case progress.NodeStarted():
            return f"node {name(event.node)}"
        case progress.NodeDone():
            others = f"; in the way: {_names(event.others)}" if event.others else ""
            return f"node {name(event.node)}: done{others}"
        case progress.RunEnded() | progress.OperationStarted() | progress.RequestSent():
            return None
        case _:
            return _of_operation(event)


def _of_operation(event: AnyProgress) -> str | None:
    match event:
        case progress.Answered():
            return _answered(event)
        case progress.WasReadBack():
            return f"{name(event.operation.told)}: read back: {event.verdict.value}"
        case progress.BudgetWaits():
            return _waits(event)
        case progress.EvictionAccepted():
            whose = "" if event.ours else ", by somebody else"
            return f"{name(event.operation.told)}: accepted{whose}"
        case progress.PodGone():
            return f"{name(event.operation.told)}: {'replaced' if event.replaced else 'gone'}"
        case progress.OperationDone():
            already = ", it was so" if event.outcome is Outcome.ALREADY else ""
            return f"{name(event.operation.told)}: done{already}"
        case progress.OperationLeft():
            return f"{name(event.operation.told)}: given up{_message(event.message)}"
        case progress.TakenBack():
            return f"{name(event.operation.told)}: taken back"
        case progress.LeftAlone():
            return f"{name(event.operation.told)}: {KEPT_TOLD[event.why]}"
        case _:
            return None


def _started(event: progress.RunStarted) -> str:
    total = len(event.operations)
    if event.rollback:
        return f"run {name(event.run_id)} is taken back"
    if event.resumed:
        return f"run {name(event.run_id)} goes on: {event.done} of {total} operations are done"
    return f"run {name(event.run_id)} begins: {total} operations"


def _answered(event: progress.Answered) -> str | None:
    """A yes and a wait have lines of their own."""
    if event.outcome in (Outcome.APPLIED, Outcome.BUDGET):
        return None
    status = f" {event.status}" if event.status else ""
    return f"{name(event.operation.told)}: {event.outcome.value}{status}{_message(event.message)}"


def _waits(event: progress.BudgetWaits) -> str | None:
    """Less and less often: a budget may say no for hours."""
    if event.attempts & (event.attempts - 1):
        return None
    times = f"asked {event.attempts} times" if event.attempts > 1 else "asked once"
    return f"{name(event.operation.told)}: waits ({times}){_message(event.message)}"


def _paused(event: progress.Paused) -> str:
    seconds = event.seconds
    length = "" if seconds is None else f" {_duration(seconds)}"
    objects = f": {_names(event.objects)}" if event.objects else ""
    return f"waiting{length}: {_PAUSES[event.why]}{objects}"


def _duration(seconds: float) -> str:
    return format_duration(round(seconds * 1000) * MILLISECOND_NS)


def _names(objects: Iterable[str]) -> str:
    return ", ".join(name(one) for one in objects)


def _message(text: str) -> str:
    return f": {escape(text, max_columns=_MESSAGE_COLUMNS_MAX)}" if text else ""
