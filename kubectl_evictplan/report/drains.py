"""What becomes of each drain: sentences of the verdict, and tables of nodes and of pods that wait.

kubectl takes the nodes of one command one after the other and ends with one exit code for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from kubectl_evictplan.kube.drain_filters import OVERRIDES, Reason
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    DrainReport,
    ExpectedEnd,
    FailedPod,
    Prediction,
    WaitingPod,
)
from kubectl_evictplan.prediction.records import where_code
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Column, Phrase, Row, Table, Tone, columns
from kubectl_evictplan.report.words import Clock
from kubectl_evictplan.scenarios.names import either
from kubectl_evictplan.sources.kinds import command_to_add, plural

# How it may end where that differs.
_WAYS = {
    "drained": "drained",
    "error": "with an error",
    "refused": "refused",
    "timeout": "given up (--timeout)",
}
_UNTIL = {"never": "never", "horizon": "after the horizon"}
_DRAINS_TOLD_MAX = 5
_PODS_NAMED_MAX = 3
_ROWS_MAX = 40
_TONES: dict[str | None, Tone] = {
    "drained": "certain",
    "refused": "stuck",
    "timeout": "stuck",
    "error": "stuck",
    "never": "stuck",
    "horizon": "loud",
}
# What is refused: one pod, and several.
_REFUSED = {
    Reason.DAEMON_SET.value: ("belongs to a DaemonSet", "belong to DaemonSets"),
    Reason.DAEMON_SET_NOT_FOUND.value: (
        "belongs to a DaemonSet that does not exist",
        "belong to DaemonSets that do not exist",
    ),
    Reason.LOCAL_STORAGE.value: ("uses an emptyDir", "use emptyDirs"),
    Reason.UNMANAGED.value: ("has no controller", "have no controller"),
}


# What kubectl leaves alone: one pod, and several.
_SKIPPED = {
    Reason.DAEMON_SET.value: ("DaemonSet-managed pod", "ignored: --ignore-daemonsets"),
    Reason.MIRROR_POD.value: ("mirror pod", "a mirror pod of a static one: the kubelet's own"),
    Reason.NOT_SELECTED.value: ("pod", "not selected by --pod-selector"),
    Reason.DELETED_LONG_AGO.value: (
        "Terminating pod",
        "Terminating for longer than --skip-wait-for-delete-timeout",
    ),
}


def unseen(prediction: Prediction) -> str:
    """Return what evictions and drains rest on besides timing: on what the input lacks, or on who is not asked here."""
    if any(drain.not_in_input for drain in prediction.drains):
        return "what is not in the input"
    if any(where_code(prediction.warnings, "drain-webhook-not-evaluated".__eq__)):
        return "what admission webhooks answer"
    return ""


def drain_sentences(prediction: Prediction, clock: Clock) -> Iterator[Phrase]:
    """Yield how each drain ends; where there are many, how many end in each way."""
    drains, horizon = prediction.drains, ""
    if prediction.inputs.horizon.source == "given":
        horizon = prediction.inputs.horizon.value
    besides = unseen(prediction)
    # Whatever does not end well is told before what does.
    many = len(drains) > _DRAINS_TOLD_MAX
    plain = [drain for drain in drains if many and _ends_well(drain)]
    others = [drain for drain in drains if not (many and _ends_well(drain))]
    for drain in others[:_DRAINS_TOLD_MAX]:
        yield from _told(drain, clock, horizon, besides)
    if rest := others[_DRAINS_TOLD_MAX:]:
        ends = Counter(map(_result, rest))
        numbers = ", ".join(f"{number} {result}" for result, number in ends.items())
        yield Phrase(f"And {words.count(len(rest), 'more drained node')}: {numbers}.")
    if plain:
        yield from _drained(plain, clock, horizon, others=bool(others))
    if missing := sorted({kind for drain in drains for kind in drain.not_in_input}):
        names = ", ".join(words.name(plural(kind)) for kind in missing)
        command = command_to_add(missing)
        how = f"; to add them: {command}" if command else ""
        yield Phrase(f"Not in the input, or not all of them: {names}{how}.", "possible")


def _drained(
    plain: Sequence[DrainReport], clock: Clock, horizon: str, *, others: bool
) -> Iterator[Phrase]:
    """Yield how several drains end of which there is nothing else to say; ``others``: told before them."""
    first, last = (of_all(plain, key=_end_of) for of_all in (min, max))
    are = words.verb(len(plain), "is", "are")
    text = f"{words.count(len(plain), 'other node' if others else 'node')} {are} drained"
    code = ", exit code 0" if all(drain.exit_code == 0 for drain in plain) else ""
    ends = _span(last, clock, horizon)
    if first is not last:
        ends = f"the first {_span(first, clock, horizon)}, the last {ends}"
    yield Phrase(f"{text}: {ends}{code}.", _TONES["drained"])
    if waiting := {one.pod for drain in plain for one in drain.waiting}:
        yield Phrase(
            f"There, {words.count(len(waiting), 'pod')} may wait until a budget lets them go."
        )
    skipped = Counter(one.reason for drain in plain for one in drain.skipped)
    clauses = [
        f"{words.count(pods, what)} ({why})"
        for reason, pods in skipped.items()
        for what, why in [_SKIPPED[reason]]
    ]
    if clauses:
        yield Phrase(f"There, kubectl leaves alone {', '.join(clauses)}.")


def _ends_well(drain: DrainReport) -> bool:
    return drain.end_reason == "drained" and not drain.exit_code


def _end_of(drain: DrainReport) -> tuple[float, float]:
    earliest, latest = drain.end_earliest_seconds, drain.end_latest_seconds
    return inf if latest is None else latest, inf if earliest is None else earliest


def _told(drain: DrainReport, clock: Clock, horizon: str, besides: str) -> Iterator[Phrase]:
    """``horizon`` is the given one, "" if there is none; ``besides``: what ends rest on, but for timing."""
    node, tone = words.name(drain.node), _TONES.get(drain.end_reason, "possible")
    if drain.start_seconds is None and drain.end_reason == "horizon":
        yield Phrase(f"kubectl does not come to {node} within the horizon of {horizon}.", tone)
        return
    if drain.start_seconds is None:
        text = f"kubectl never comes to {node}: it is not through with a node before it"
        yield Phrase(f"{text}.", "stuck")
        return
    waits = f": {_why_not(drain)}" if _why_not(drain) else ""
    ends = _span(drain, clock, horizon)
    code = "" if drain.exit_code is None else f", exit code {drain.exit_code}"
    match drain.end_reason:
        case "drained":
            if drain.exit_code:
                code = f"; kubectl exits with code {drain.exit_code} all the same, for another of its nodes"
            yield Phrase(f"Node {node} is drained {ends}{code}.", tone)
        case "refused":
            yield Phrase(
                f"kubectl refuses to drain {node}{code}: {_refused(drain)}. Nothing is evicted, and the node "
                "stays cordoned.",
                tone,
            )
        case "timeout":
            yield Phrase(f"The drain of {node} is given up {ends} (--timeout){code}{waits}.", tone)
        case "error":
            yield Phrase(f"The drain of {node} ends with an error {ends}{code}{waits}.", tone)
        case "never":
            yield Phrase(f"The drain of {node} never ends{waits}.", tone)
        case "horizon":
            why = waits or ": pods that it has evicted are not gone yet"
            yield Phrase(
                f"The drain of {node} is still going on at the horizon of {horizon}{why}.", tone
            )
        case _ if drain.expected is not None:
            how = _as_expected(drain, drain.expected, clock)
            yield Phrase(f"{how}, unless something that is not in the input prevents it.", tone)
        case _:
            why = f"timing that nobody can see{f' and on {besides}' if besides else ''}"
            ways = [_WAYS[reason] for reason in drain.end_reasons if reason in _WAYS]
            told = f"{either(ways)}, " if ways else ""
            text = f"How the drain of {node} ends depends on {why}: {told}{ends}"
            if ways == [_WAYS["drained"]]:
                text = f"Node {node} is drained {ends}, depending on {why}"
            yield Phrase(f"{text}{code}{waits}.", tone)
    yield from _passing_waits(drain)
    yield from _left_alone(drain)


def _as_expected(drain: DrainReport, expected: ExpectedEnd, clock: Clock) -> str:
    """Return how it ends if nothing prevents it that nobody has seen."""
    node, code = words.name(drain.node), expected.exit_code
    what = {
        "drained": f"Node {node} is drained",
        "error": f"The drain of {node} ends with an error",
        "timeout": f"The drain of {node} is given up (--timeout)",
    }
    when = _within(expected.end_earliest_seconds, expected.end_latest_seconds, clock)
    exits = "" if code is None else f", exit code {code}"
    return f"{what[expected.end_reason]} {when}{exits}"


def _left_alone(drain: DrainReport) -> Iterator[Phrase]:
    """Yield the pods that kubectl leaves alone, by the filter that does."""
    by_reason: dict[str, list[str]] = {}
    for one in drain.skipped:
        by_reason.setdefault(one.reason, []).append(one.pod)
    clauses = []
    for reason, pods in by_reason.items():
        what, why = _SKIPPED[reason]
        names = words.listed(pods, _PODS_NAMED_MAX)
        clauses.append(f"{words.count(len(pods), what)} ({names}; {why})")
    if clauses:
        yield Phrase(f"On {words.name(drain.node)}, kubectl leaves alone {', '.join(clauses)}.")


def _span(drain: DrainReport, clock: Clock, horizon: str) -> str:
    """Return from when to when the drain of the node ends."""
    earliest, latest = drain.end_earliest_seconds, drain.end_latest_seconds
    if earliest is None:
        return "never"
    if latest is None:
        perhaps = f"perhaps not within the horizon of {horizon}" if horizon else "perhaps never"
        return f"at {words.window(earliest, None)}, {perhaps}"
    return _within(earliest, latest, clock)


def _within(earliest: float, latest: float, clock: Clock) -> str:
    at = clock.between(earliest, latest)
    offsets = words.window(earliest, latest)
    return f"{at} ({offsets})" if at else offsets


def _refused(drain: DrainReport) -> str:
    """Return what kubectl does not dare, by the flag that would make it."""
    by_reason: dict[str, list[str]] = {}
    for refused in drain.refused:
        by_reason.setdefault(refused.reason, []).append(refused.pod)
    clauses = []
    for reason, pods in by_reason.items():
        what = words.verb(len(pods), *_REFUSED[reason])
        names = words.listed(pods, _PODS_NAMED_MAX)
        clauses.append(
            f"{words.count(len(pods), 'pod')} {what} ({names}; add {OVERRIDES[Reason(reason)]})"
        )
    return ", ".join(clauses)


def _why_not(drain: DrainReport) -> str:
    """Return which pods keep the drain from its end, or make it fail."""
    held = [waiting for waiting in drain.waiting if waiting.ends != "evicted"]
    clauses = [_wait(what, waiting) for what, waiting in _by_what(held).items()]
    for failed in drain.failed[:_PODS_NAMED_MAX]:
        clauses.append(_failure(failed))
    if len(drain.failed) > _PODS_NAMED_MAX:
        clauses.append(f"so have {len(drain.failed) - _PODS_NAMED_MAX} more pods")
    return "; ".join(clauses)


def _failure(failed: FailedPod) -> str:
    budgets = " and ".join(map(words.name, failed.budgets))
    if not failed.budgets:
        namespace = words.name(failed.pod.partition("/")[0])
        return (
            f"{words.name(failed.pod)} may fail: namespace {namespace} is Terminating, which the Eviction API answers "
            "with an error"
        )
    if len(failed.budgets) == 1:
        may = "fails" if failed.certainty == CERTAIN else "may fail"
        return (
            f"{words.name(failed.pod)} {may}: the status of budget {budgets} allows fewer than no disruptions, which "
            "the Eviction API answers with an error"
        )
    have = "has" if failed.certainty == CERTAIN else "may have"
    return (
        f"{words.name(failed.pod)} {have} more than one budget ({budgets}), which the Eviction API answers "
        "with an error"
    )


def _passing_waits(drain: DrainReport) -> Iterator[Phrase]:
    """Yield the pods that wait for a budget until it lets them go."""
    passing = [waiting for waiting in drain.waiting if waiting.ends == "evicted"]
    for what, waiting in _by_what(passing).items():
        earliest = [
            w.until_earliest_seconds for w in waiting if w.until_earliest_seconds is not None
        ]
        latest = [w.until_latest_seconds for w in waiting if w.until_latest_seconds is not None]
        until = f", until {words.window(min(earliest), max(latest))}" if earliest and latest else ""
        yield Phrase(f"On {words.name(drain.node)}, {_wait(what, waiting)}{until}.")


def waited_for(waiting: WaitingPod) -> str:
    """Return what a pod waits for: a budget, or the end of its namespace."""
    if waiting.budget:
        return f"budget {words.name(waiting.budget)}"
    namespace = words.name(waiting.pod.partition("/")[0])
    return f"the deletion of namespace {namespace}, in which the Eviction API evicts nobody"


def _wait(what: str, waiting: Sequence[WaitingPod]) -> str:
    """Return that pods wait for something, or may have to."""
    verb = words.verb(len(waiting), "waits", "wait")
    if any(one.certainty != CERTAIN for one in waiting):
        verb = "may wait"
    names = words.listed([one.pod for one in waiting], _PODS_NAMED_MAX)
    return f"{names} {verb} for {what}"


def _by_what(waiting: Sequence[WaitingPod]) -> dict[str, list[WaitingPod]]:
    found: dict[str, list[WaitingPod]] = {}
    for one in waiting:
        found.setdefault(waited_for(one), []).append(one)
    return found


def waits_of(prediction: Prediction, pod: str) -> Iterator[Phrase]:
    """Yield what one pod ("namespace/name") waits for, is refused for or fails for, drain by drain."""
    for drain in prediction.drains:
        node = words.name(drain.node)
        for one in drain.waiting:
            if one.pod == pod:
                until = words.window(
                    one.until_earliest_seconds, one.until_latest_seconds, exact=True
                )
                may = "waits" if one.certainty == CERTAIN else "may wait"
                end = "for ever" if one.ends == "never" else f"until {until}"
                if one.ends == "horizon":
                    end = "still at the horizon"
                yield Phrase(
                    f"It {may} for {waited_for(one)} from {words.offset(one.from_seconds)} on, {end}."
                )
        for refused in drain.refused:
            if refused.pod == pod:
                flag = OVERRIDES[Reason(refused.reason)]
                yield Phrase(f"kubectl refuses to drain {node} for its sake: add {flag}.", "stuck")
        for failed in drain.failed:
            if failed.pod == pod:
                yield Phrase(f"{_failure(failed)}.", "stuck")


# -- tables ---------------------------------------------------------------------------------------


def drain_tables(prediction: Prediction, *, wide: bool) -> Iterator[Table]:
    """Yield the drains and the pods that wait for budgets; ``wide`` has every pod, and the refused."""
    yield _nodes(prediction, wide=wide)
    waiting = [(drain, one) for drain in prediction.drains for one in drain.waiting]
    if waiting:
        yield _waiting(waiting, wide=wide)
    refused = [(drain, one) for drain in prediction.drains for one in drain.refused]
    if refused and wide:
        header = columns("NODE", "POD", "REASON", "KUBECTL SAYS")
        rows = [
            tuple(map(words.name, (drain.node, one.pod, one.reason, f"cannot delete {one.why}")))
            for drain, one in refused
        ]
        yield Table(header, rows, "Pods that kubectl refuses to delete")
    skipped = [(drain, one) for drain in prediction.drains for one in drain.skipped]
    if skipped and wide:
        rows = [
            (*map(words.name, (drain.node, one.pod, one.reason)), _SKIPPED[one.reason][1])
            for drain, one in skipped
        ]
        yield Table(columns("NODE", "POD", "REASON", "WHY"), rows, "Pods that kubectl leaves alone")


def _nodes(prediction: Prediction, *, wide: bool) -> Table:
    drains = prediction.drains
    several = len({drain.origin for drain in drains}) > 1
    header = [Column("NODE"), Column("STARTS", 3), Column("ENDS"), Column("RESULT")]
    header += [Column("EXIT"), Column("WAITING", 2), Column("REFUSED", 1)]
    header += [Column("DAEMON-SET", 1), Column("LEFT-ALONE", 1)]
    rows: list[Row] = []
    # A command that never comes to its end has no exit code, of none of its nodes.
    endless = {drain.origin for drain in drains if drain.end_reason == "never"}
    for drain in drains:
        starts = words.window(drain.start_seconds, drain.start_latest_seconds, exact=wide)
        tone = _TONES.get(drain.end_reason, "possible")
        code = "differs" if drain.exit_code is None else str(drain.exit_code)
        if drain.origin in endless or drain.end_reason == "horizon":
            code = "none"
        elif drain.end_reason is None and drain.expected is not None:
            code = "not known"
        command = (words.name(drain.origin),) if several and wide else ()
        ignored = sum(one.reason == Reason.DAEMON_SET.value for one in drain.skipped)
        rows.append(
            (
                words.name(drain.node),
                _not_within(drain) if drain.start_seconds is None else starts,
                _ends(drain, exact=wide, horizon=prediction.inputs.horizon.source == "given"),
                Phrase(_result(drain), tone),
                code,
                str(len(drain.waiting)),
                str(len(drain.refused)),
                str(ignored),
                str(len(drain.skipped) - ignored),
                *command,
            )
        )
    if several and wide:
        header.append(Column("COMMAND"))
    # What is nothing everywhere needs no column.
    shown = [at for at in range(len(header)) if {row[at] for row in rows} != {"0"} or at == 4]
    return Table(
        tuple(header[at] for at in shown),
        [tuple(row[at] for at in shown) for row in rows],
        "Drains",
    )


def _not_within(drain: DrainReport) -> str:
    return "after the horizon" if drain.end_reason == "horizon" else "never"


def _ends(drain: DrainReport, *, exact: bool, horizon: bool) -> str:
    if drain.end_earliest_seconds is None:
        return _not_within(drain)
    text = words.window(drain.end_earliest_seconds, drain.end_latest_seconds, exact=exact)
    if drain.end_latest_seconds is not None:
        return text
    return f"{text}, perhaps not by the horizon" if horizon else f"{text}, or never"


def _result(drain: DrainReport) -> str:
    if drain.end_reason == "horizon":
        return "not begun" if drain.start_seconds is None else "going on"
    if drain.start_seconds is None:
        return "not reached"
    if drain.end_reason is None and drain.expected is not None:
        return f"{drain.expected.end_reason} (not proven)"
    return words.name(drain.end_reason or "depends on timing")


def _waiting(waiting: list[tuple[DrainReport, WaitingPod]], *, wide: bool) -> Table:
    shown = waiting if wide else waiting[:_ROWS_MAX]
    rows = []
    for drain, one in shown:
        until = words.window(one.until_earliest_seconds, one.until_latest_seconds, exact=wide)
        ends = words.name(one.ends or "depends on timing")
        if one.possible_ends:
            ends = either(list(one.possible_ends))
        if one.ends == "horizon":
            ends = "still waits"
        sure = one.certainty == CERTAIN
        rows.append(
            (
                words.name(one.pod),
                words.name(drain.node),
                words.name(one.budget) if one.budget else "(namespace Terminating)",
                words.offset(one.from_seconds)
                if wide
                else words.window(one.from_seconds, one.from_seconds),
                _UNTIL.get(one.ends or "", until),
                Phrase(ends if sure else f"{ends} (possibly)", "plain" if sure else "possible"),
            )
        )
    rest = len(waiting) - len(shown)
    notes = (f"and {words.count(rest, 'more pod')} (-o wide has all).",) if rest else ()
    header = columns("POD", "NODE", "BUDGET", "FROM", "UNTIL", "THEN")
    return Table(header, rows, _what_they_wait_for([one for _, one in waiting]), notes=notes)


def _what_they_wait_for(waiting: Sequence[WaitingPod]) -> str:
    if all(one.budget for one in waiting):
        return "Pods that wait for a budget"
    if any(one.budget for one in waiting):
        return "Pods that wait for a budget or the deletion of their namespace"
    return "Pods that wait for the deletion of their namespace"
