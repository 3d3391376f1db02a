"""The answer in sentences: who is hit and when, what does not come back, what is stuck, what stays.

Every number can be counted in the rows: pods are counted by namespace and name, as the rows name them.
Warnings follow, sorted by how much they matter to somebody who reads the answer at night.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    NODES_TAINTED,
    PODS_EVICTED,
    Eviction,
    Joint,
    JointWhat,
    Prediction,
)
from kubectl_evictplan.prediction.evicted_pods import EvictedPods, emptied_workloads
from kubectl_evictplan.prediction.grouped_evictions import EvictionGroup
from kubectl_evictplan.prediction.pod_ends import Stuck
from kubectl_evictplan.prediction.records import where_code
from kubectl_evictplan.prediction.warnings.input_codes import INCOMPLETE_CODES
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Finding, Findings, Phrase, Tone
from kubectl_evictplan.report.costs import costs
from kubectl_evictplan.report.words import Clock

_NODES_NAMED_MAX = 3
_PODS_NAMED_MAX = 3
_NAMESPACES_NAMED_MAX = 6
_JOINTS_MAX = 4
# Of what, and what happens to it.
_JOINT_WORDS: dict[JointWhat, tuple[str, str]] = {
    NODES_TAINTED: ("node", "tainted"),
    PODS_EVICTED: ("pod", "evicted"),
}

# Warnings that the verdict tells in its own words: how many pods (one, many).
_TOLD_CODES = {
    "bare-pod-lost": (
        "has no controller and, once evicted, does not come back",
        "have no controller and, once evicted, do not come back",
    ),
    "daemonset-deleted-and-not-recreated": (
        "of a DaemonSet is not created again while the taint stays",
        "of DaemonSets are not created again while the taint stays",
    ),
    "daemonset-evicted-again": (
        "of a DaemonSet is created again on its node, to be evicted again and again",
        "of DaemonSets are created again on their nodes, to be evicted again and again",
    ),
    "statefulset-waits-for-name": (
        "of a StatefulSet is not replaced until the old pod is gone",
        "of StatefulSets are not replaced until the old pods are gone",
    ),
}
# Warnings whose message is a sentence of the verdict, in this order; the first ones before everything else.
_TOLD_FIRST = ("control-plane-fails-too",)
_TOLD_MESSAGES = (
    "leader-fails-too",
    "leader-may-fail-too",
    "several-act-at-once",
    "coordinated-election",
    "outage-return",
    "outage-kubelets-return",
)
_STAYS = {
    "tolerated-forever": "with a toleration without limit",
    "stale-key": "with a stale key in the controller",
    "delete-refused": "whose deletion fails",
    "timer-cancelled": "whose timer is cancelled",
    "after-horizon": "due only after the horizon",
    "gone-otherwise": "gone for another reason",
    "already-terminating": "terminating already",
    "node-not-in-input": "whose node is not in the input",
    "daemon-set": "of a DaemonSet, which this release leaves alone",
    "not-due": "whose node is not due by the horizon",
    "taint-eviction-disabled": "because taint eviction is switched off",
    "not-evaluated": "that taint eviction does not act on",
    "no-no-execute-taint": "whose node gets no NoExecute taint",
    "perhaps-tainted": "whose node may get a NoExecute taint, but none that evicts them in time",
    "node-unchanged": "whose node does not change",
    "tainting-stopped": "whose node waits for a taint that its zone's rate does not let through",
    "lease-touched": "whose node stays Ready because of a touched Lease",
    "node-not-tainted": "whose node becomes Unknown and is not tainted",
    "drain-skips": "that kubectl leaves alone",
    "drain-refused": "because kubectl refuses to drain their node",
    "budget-waits": "that a budget does not let go",
    "namespace-terminating": "whose namespace is Terminating",
    "drain-not-reached": "whose node kubectl does not come to",
    "drain-perhaps-not-reached": "whose node kubectl may not come to",
}

# Said first.
_LOUD_CODES = INCOMPLETE_CODES
# They tell why windows are wide, in nearly every prediction; wide explains them.
_ROUTINE_CODES = {
    "monitor-phase-unknown",
    "queue-order-unknown",
    "token-may-be-wasted",
    "status-may-come-late",
    "flags-assumed",
    "large-dump",
}
# What the verdict says of drains, and of every pod that is stuck.
_DRAINS_TOLD = ("drain-refused", "drain-never-ends", "two-budgets")
_TOLD = {
    *_DRAINS_TOLD,
    *_TOLD_CODES,
    *_TOLD_FIRST,
    *_TOLD_MESSAGES,
    "unreachable-stuck-terminating",
}

_OBJECTS_MAX = 3
_OBJECTS_MAX_WIDE = 100


def verdict(prediction: Prediction, clock: Clock, *, complete: bool) -> Iterator[Phrase]:
    """Yield the sentences of the answer; ``complete`` False: the input is not the whole cluster."""
    evictions = prediction.evictions
    sure = _certain(prediction)
    unsure: list[EvictionGroup] = []
    if not prediction.evicted.is_all_certain:
        certain = prediction.evicted.certain
        unsure = [
            group
            for group in evictions.groups
            if any(names.key not in certain for names in group.pods)
        ]
    if prediction.drains:
        from kubectl_evictplan.report.drains import drain_sentences

        yield from drain_sentences(prediction, clock)
    lost = [*_told_messages(prediction, _TOLD_FIRST, "loud")]
    yield from lost
    if not evictions:
        horizon = prediction.inputs.horizon
        given = f" within {horizon.value}" if horizon.source == "given" else ""
        none = "" if prediction.inputs.pods else ": the input holds none"
        tone: Tone = "good" if complete and not none and not lost else "loud"
        yield Phrase(f"No pod is evicted{given}{none}.", tone)
    if sure:
        number = prediction.evicted.number_certain
        text = f"{words.count(number, 'pod')} {words.verb(number, 'is', 'are')} evicted for certain"
        yield Phrase(f"{text}, {_from(sure, prediction)}: {_when_certain(sure, clock)}.", "certain")
        yield from _whoever_deletes(prediction)
    if unsure:
        yield from _possible(unsure, bool(sure), prediction, clock)
    yield from _told_messages(prediction, _TOLD_MESSAGES)
    yield from costs(prediction)
    yield from _more_than_once(prediction)
    yield from _namespaces(prediction)
    yield from _emptied(prediction)
    yield from _told_warnings(prediction)
    yield from _stuck(prediction.evicted)
    yield from _stays(prediction, bool(unsure))


def _certain(prediction: Prediction) -> list[Eviction]:
    """What groups share, of those with deletions that happen for certain, or with pods that one of several surely deletes."""
    somebody = prediction.evicted.by_somebody
    return [
        group.shared
        for group in prediction.evictions.groups
        if group.shared.certainty == CERTAIN
        or (somebody and any(names.key in somebody for names in group.pods))
    ]


def _whoever_deletes(prediction: Prediction) -> Iterator[Phrase]:
    """Yield the pods that go for certain, but not for certain by whom."""
    pods = prediction.evicted.by_somebody
    if pods:
        names = words.listed(sorted(pods), _PODS_NAMED_MAX)
        who = sorted(
            {
                group.shared.controller
                for group in prediction.evictions.groups
                if any(names.key in pods for names in group.pods)
            }
        )
        be = words.verb(len(pods), "is", "are")
        yield Phrase(
            f"{words.count(len(pods), 'pod')} of these {be} deleted by {' or '.join(who)}, whichever comes "
            f"first: {names}."
        )


def _told_messages(
    prediction: Prediction, codes: Sequence[str], tone: Tone = "plain"
) -> Iterator[Phrase]:
    for code in codes:
        for warning in where_code(prediction.warnings, code.__eq__):
            yield Phrase(f"{warning.message[:1].upper()}{warning.message[1:]}.", tone)


def _possible(
    unsure: Sequence[EvictionGroup], more: bool, prediction: Prediction, clock: Clock
) -> Iterator[Phrase]:
    leaving = _named_by(prediction, "pod-already-terminating")
    number = len(prediction.evicted.possible - leaving)
    staying = unsure
    if leaving:
        staying = [one for one in unsure if not _is_about(one, leaving)]
    if number:
        pods = words.count(number, "more pod" if more else "pod")
        none = "" if more else " None is certain."
        from kubectl_evictplan.report.drains import unseen

        why = unseen(prediction) or "timing that nobody can see"
        yield Phrase(
            f"{pods} may be evicted or stay, depending on {why}, {_from_and_when(staying, prediction, clock)}.{none}",
            "possible",
        )
    again = [one for one in unsure if _is_about(one, leaving)]
    if again:
        number = len(prediction.evicted.possible & leaving)
        text = words.verb(number, "terminates already and", "terminate already and each")
        yield Phrase(
            f"{words.count(number, 'pod')} {text} may be deleted once more before it is gone, "
            f"{_from_and_when(again, prediction, clock)}.",
            "possible",
        )
    about_several = [joint for joint in prediction.joint if not joint.pod]
    together = [text for joint in about_several if (text := _together(joint, clock))]
    for text in together[:_JOINTS_MAX]:
        yield Phrase(text, "possible")
    if len(together) > _JOINTS_MAX:
        yield Phrase(f"And {len(together) - _JOINTS_MAX} more such statements (-o json).")


def _named_by(prediction: Prediction, code: str) -> frozenset[str]:
    """Return the pods of which a warning tells."""
    return frozenset().union(*(w.objects for w in where_code(prediction.warnings, code.__eq__)))


def _is_about(group: EvictionGroup, pods: Collection[str]) -> bool:
    """Return whether its pods are among these: all of them are, or none is."""
    return any(names.key in pods for names in group.pods)


def _from_and_when(groups: Sequence[EvictionGroup], prediction: Prediction, clock: Clock) -> str:
    shared = [one.shared for one in groups]
    first = min(one.earliest_seconds for one in shared)
    when = _span(first, max(one.latest_seconds for one in shared), clock)
    return f"{_from(shared, prediction)}: {when}"


def _together(joint: Joint, clock: Clock) -> str:
    """Return what is known about several objects together; "" when that is nothing."""
    if joint.least == 0 and joint.most >= joint.of:
        return ""
    least = f"at least {joint.least}" if joint.least else ""
    most = f"at most {joint.most}" if joint.most < joint.of else ""
    exactly = f"exactly {joint.least}" if joint.least == joint.most else ""
    number = exactly or " and ".join(filter(None, (least, most)))
    kind, _, scope = joint.scope.partition("/")
    preposition = "On" if kind == "node" else "In"
    where = f"{preposition} {kind} {words.name(scope)}" if scope else "Taken together"
    noun, what = _JOINT_WORDS[joint.what]
    be = words.verb(joint.most, "is", "are")
    by = f"by {words.window(joint.by_seconds, joint.by_seconds)}"
    if at := clock.time(joint.by_seconds):
        by += f" ({at})"
    text = f"{where}, {number} of {words.count(joint.of, noun)} {be} {what} {by}"
    stays = joint.of - joint.most
    if joint.what != PODS_EVICTED or stays <= 0:
        return f"{text}."
    # Of a drain more may follow; a zone's pods are counted at the horizon.
    then = " until then" if kind == "node" else ""
    return f"{text}: {'' if exactly else 'at least '}{stays} {words.verb(stays, 'stays', 'stay')}{then}."


def _from(evictions: Sequence[Eviction], prediction: Prediction) -> str:
    nodes = sorted({e.node for e in evictions})
    if len(nodes) <= _NODES_NAMED_MAX:
        return f"from {words.verb(len(nodes), 'node', 'nodes')} {words.listed(nodes, len(nodes))}"
    zone_of = {report.node: report.zone for report in prediction.nodes}
    missing = _nodes_not_in_input(prediction)
    known = [node for node in nodes if node not in missing]
    zones = {zone_of.get(node, "") for node in known}
    where = f"{words.count(len(known), 'node')}"
    if len(zones) > 1:
        where += f" in {len(zones)} zones"
    elif zones and (zone := zones.pop()):
        where += f" of zone {words.name(zone)}"
    unknown = len(nodes) - len(known)
    if unknown:
        be = words.verb(unknown, "is", "are")
        where = f"{where} and " if known else ""
        where += f"{words.count(unknown, 'node')} that {be} not in the input"
    return f"from {where}"


def _nodes_not_in_input(prediction: Prediction) -> set[str]:
    pods = _named_by(prediction, "pod-on-unknown-node")
    groups = prediction.evictions.groups if pods else ()
    return {group.shared.node for group in groups if _is_about(group, pods)}


def _when_certain(evictions: Sequence[Eviction], clock: Clock) -> str:
    """Return when evictions that all happen can happen: the first and the last, where they are apart."""
    earliest = [e.earliest_seconds for e in evictions]
    latest = [e.latest_seconds for e in evictions]
    if min(latest) >= max(earliest):
        return _span(min(earliest), max(latest), clock)
    first, last = _span(min(earliest), min(latest), clock), _span(max(earliest), max(latest), clock)
    return f"the first {first}, the last {last}"


def _span(earliest: float, latest: float, clock: Clock) -> str:
    offsets = words.window(earliest, latest)
    at = clock.between(earliest, latest)
    return f"{at} ({offsets})" if at else offsets


def _more_than_once(prediction: Prediction) -> Iterator[Phrase]:
    evicted, evictions = prediction.evicted, prediction.evictions
    if evicted.once:
        return
    times = Counter(evicted.keys)
    pods = sorted(key for key, number in times.items() if number > 1)
    again = [e for key, e in zip(evicted.keys, evictions, strict=True) if times[key] > 1]
    go = words.verb(len(pods), "goes", "go")
    may = go if all(e.certainty == CERTAIN for e in again) else "may go"
    text = f"{words.count(len(pods), 'pod')} {may} more than once"
    names = words.listed(pods, _PODS_NAMED_MAX)
    yield Phrase(f"{text}: {names}. That makes {len(evictions)} deletions.")


def _namespaces(prediction: Prediction) -> Iterator[Phrase]:
    numbers = Counter[str]()
    if prediction.evicted.once:
        for (namespace, _, _), some in prediction.evictions.by_owner.items():
            numbers[namespace] += len(some)
    else:
        numbers.update(key.partition("/")[0] for key in prediction.evicted.every)
    if len(numbers) > 1:
        order = sorted(numbers, key=lambda namespace: (-numbers[namespace], namespace))
        shown = [f"{words.name(one)} {numbers[one]}" for one in order]
        yield Phrase(f"Namespaces: {words.listed(shown, _NAMESPACES_NAMED_MAX)}.")


def _emptied(prediction: Prediction) -> Iterator[Phrase]:
    """Yield the workloads of which every pod is evicted for certain."""
    empty = [
        f"{report.namespace}/{report.workload.partition('/')[2]}"
        for report in emptied_workloads(prediction)
    ]
    if empty:
        text = words.verb(
            len(empty), "workload loses every pod it has", "workloads lose every pod they have"
        )
        names = words.listed(empty, _PODS_NAMED_MAX)
        yield Phrase(f"{len(empty)} {text} now: {names}.", "certain")


def _told_warnings(prediction: Prediction) -> Iterator[Phrase]:
    for code, (one, many) in _TOLD_CODES.items():
        pods = {pod for w in where_code(prediction.warnings, code.__eq__) for pod in w.objects}
        if pods:
            text = f"{words.count(len(pods), 'pod')} {words.verb(len(pods), one, many)}"
            yield Phrase(f"{text}: {words.listed(sorted(pods), _PODS_NAMED_MAX)}.", "stuck")


def _stuck(evicted: EvictedPods) -> Iterator[Phrase]:
    numbers = evicted.numbers_stuck
    for reason, number in sorted(numbers.items(), key=lambda item: (-item[1], item[0])):
        if reason == Stuck.NOT_CERTAIN.value:
            text = "it is not certain that it is" if number == 1 else "none is certain to be"
            yield Phrase(f"Of {words.count(number, 'pod')} {text} gone in the end.", "possible")
            continue
        who = words.count(number, "pod")
        if number == evicted.number > 1:
            who = "both" if number == 2 else f"all {number}"
        stay = words.verb(number, "stays Terminating,", "stay Terminating, each")
        yield Phrase(f"Once deleted, {who} {stay} because {reason}.", "stuck")


def _stays(prediction: Prediction, unsure: bool) -> Iterator[Phrase]:
    codes = {kept.key: kept.code for kept in prediction.kept}
    evicted = prediction.evicted.every if codes else ()
    numbers = Counter(code for pod, code in codes.items() if pod not in evicted)
    total = sum(numbers.values())
    if not total:
        if prediction.evictions and not unsure:
            yield Phrase("No other pod is on the affected nodes.")
        return
    pods = f"{words.count(total, 'pod')} on the affected nodes {words.verb(total, 'stays', 'stay')}"
    order = sorted(numbers, key=lambda code: (-numbers[code], code))
    clauses = [f"{numbers[code]} {_STAYS.get(code, f'({words.name(code)})')}" for code in order]
    yield Phrase(f"{pods}: {', '.join(clauses)}.", "good")


# -- warnings -----------------------------------------------------------------------------------------


def alerts(warnings: Iterable[Warning]) -> Findings | None:
    """Return what makes the whole answer doubtful."""
    loud = _findings(where_code(warnings, _LOUD_CODES.__contains__), _OBJECTS_MAX)
    if not loud:
        return None
    title = "THE INPUT MAY NOT BE THE WHOLE CLUSTER: what it lacks is missing in this answer."
    return Findings(title, loud, "loud")


def warnings_that_matter(warnings: Iterable[Warning]) -> Findings | None:
    """Return what the rest of the report does not say already; of routine the codes alone."""
    elsewhere = _LOUD_CODES | _ROUTINE_CODES | _TOLD
    found = _findings(where_code(warnings, lambda code: code not in elsewhere), _OBJECTS_MAX)
    noted = where_code(warnings, _ROUTINE_CODES.__contains__)
    routine = list(dict.fromkeys(w.code for w in noted))
    if routine:
        found += (Finding("noted", f"{', '.join(routine)} (-o wide explains)"),)
    return Findings("Warnings", found) if found else None


def all_warnings(warnings: Iterable[Warning]) -> Findings | None:
    """Return every warning with (nearly) all its objects."""
    found = _findings(warnings, _OBJECTS_MAX_WIDE)
    return Findings("Warnings", found) if found else None


def warnings_about(warnings: Iterable[Warning], pod: str) -> Findings | None:
    """Return the warnings that name a pod ("namespace/name", perhaps with its kind)."""
    named = [
        Finding(w.code, w.message)
        for w in warnings
        if any(one == pod or one.endswith(f" {pod}") for one in w.objects)
    ]
    return Findings("About this pod", tuple(named)) if named else None


def _findings(warnings: Iterable[Warning], objects_max: int) -> tuple[Finding, ...]:
    """Return one finding per code and message, codes in the order they come, with all objects."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for warning in warnings:
        objects = found.setdefault((warning.code, warning.message), {})
        objects.update(dict.fromkeys(warning.objects))
    codes = list(dict.fromkeys(code for code, _ in found))
    return tuple(
        Finding(*named, words.listed(objects, objects_max))
        for named, objects in sorted(found.items(), key=lambda item: codes.index(item[0][0]))
    )
