"""Tolerations that do not mean what they seem to mean (spec taint-eviction 2.5, 4.3, 5).

Every rule looks at one (list of tolerations, taints) at a time: a pod is named only when a taint that
its node gets in this prediction is concerned.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.controllers.taint_eviction.controller import delete_is_refused
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import NO_EXECUTE, Taint, Toleration, Warning
from kubectl_evictplan.kube.taints import LIFECYCLE_NO_EXECUTE_KEYS
from kubectl_evictplan.kube.tolerations import (
    get_matching_tolerations,
    get_min_toleration_time_ns,
    tolerates_taint,
)
from kubectl_evictplan.prediction.warnings.situation import (
    Rule,
    Situation,
    TolerationGroup,
    caution,
    caution_by_message,
)

# The controller multiplies seconds by a thousand million in 64 bits.
DURATION_SECONDS_MAX = 9_223_372_036
_COMPARISONS = ("Lt", "Gt")

_FINITE_FIRST = (
    "a toleration with tolerationSeconds stands before an unlimited one that matches the same taint: "
    "the first match decides, so the pod is evicted"
)
_INFINITE_FIRST = (
    "an unlimited toleration stands before one with tolerationSeconds that matches the same taint: "
    "the first match decides, so the seconds never count"
)
_OTHER_FIRST = (
    "several tolerations with different tolerationSeconds match the same taint: the first in the list "
    "decides, not the longest or the most exact"
)


def decision_ns(situation: Situation, group: TolerationGroup, taints: tuple[Taint, ...]) -> int:
    """What ``taints`` together mean for the group: 0 at once, negative forever, else nanoseconds."""
    matched, used = get_matching_tolerations(
        taints,
        group.tolerations,
        comparison_operators=situation.configuration.comparison_operators,
    )
    if not matched:
        return 0
    return get_min_toleration_time_ns([group.tolerations[index] for index in used])


def _matching(situation: Situation, group: TolerationGroup, taint: Taint) -> list[Toleration]:
    comparison = situation.configuration.comparison_operators
    return [
        toleration
        for toleration in group.tolerations
        if tolerates_taint(toleration, taint, comparison_operators=comparison)
    ]


def seconds_overflow(situation: Situation) -> Iterator[Warning]:
    """``tolerationSeconds`` beyond an int64 of nanoseconds, on the toleration that decides."""
    found: dict[str, list[str]] = {}
    for group in situation.groups:
        for taint in group.taints:
            for toleration in _matching(situation, group, taint)[:1]:
                seconds = toleration.toleration_seconds
                if seconds is None or seconds <= DURATION_SECONDS_MAX:
                    continue
                means_ns = get_min_toleration_time_ns([toleration])
                outcome = (
                    "counts as forever"
                    if means_ns < 0
                    else f"counts as {format_duration(means_ns)}"
                )
                message = f"tolerationSeconds {seconds} overflows in the controller: it {outcome}"
                found.setdefault(message, []).extend(group.keys())
    yield from caution_by_message("toleration-seconds-overflow", found)


def first_match_surprise(situation: Situation) -> Iterator[Warning]:
    """The first toleration that matches hides a later one with other seconds."""
    found: dict[str, list[str]] = {}
    for group in situation.groups:
        messages = {
            message
            for taint in group.taints
            if (message := _hidden(_matching(situation, group, taint)))
        }
        for message in messages:
            found.setdefault(message, []).extend(group.keys())
    yield from caution_by_message("first-match-surprise", found)


def _hidden(matching: list[Toleration]) -> str:
    if len(matching) < 2:
        return ""
    first = matching[0].toleration_seconds
    later = {toleration.toleration_seconds for toleration in matching[1:]} - {first}
    if not later:
        return ""
    if first is None:
        return _INFINITE_FIRST
    return _FINITE_FIRST if None in later else _OTHER_FIRST


def wrong_value(situation: Situation) -> Iterator[Warning]:
    """A not-ready or unreachable toleration for a value that the real taint never has."""
    pods: list[str] = []
    for group in situation.groups:
        for taint in group.taints:
            if (
                taint.key in LIFECYCLE_NO_EXECUTE_KEYS
                and not _matching(situation, group, taint)
                and any(_suppresses_default(toleration, taint) for toleration in group.tolerations)
            ):
                pods += group.keys()
    yield from caution(
        "not-ready-toleration-wrong-value",
        "a toleration for not-ready or unreachable asks for a value that the taint does not have: it "
        "matches nothing and keeps admission from adding the default 300s, so the pod goes at once",
        pods,
    )


def _suppresses_default(toleration: Toleration, taint: Taint) -> bool:
    """DefaultTolerationSeconds looks at key and effect only (spec taint-eviction 5.5)."""
    return (
        toleration.key == taint.key
        and toleration.effect in ("", NO_EXECUTE)
        and toleration.operator != "Exists"
    )


def comparison_gate_off(situation: Situation) -> Iterator[Warning]:
    """Operators Lt and Gt where nothing reads them."""
    if situation.configuration.comparison_operators:
        return
    pods: list[str] = []
    for group in situation.groups:
        keys = {taint.key for taint in group.taints}
        if any(t.operator in _COMPARISONS and t.key in keys | {""} for t in group.tolerations):
            pods += group.keys()
    why = (
        "the gate TaintTolerationComparisonOperators is off"
        if situation.profile.comparison_operators_gate
        else f"Kubernetes {situation.profile.version} does not know them"
    )
    yield from caution(
        "lt-gt-operator-gate-off",
        f"tolerations with operator Lt or Gt match nothing here: {why}",
        pods,
    )


def refused_deletes(situation: Situation) -> Iterator[Warning]:
    """Pods that the controller wants to delete and, in this release, never can (spec 4.3)."""
    configuration = situation.configuration
    if not configuration.disruption_condition or not configuration.taint_eviction_enabled:
        return
    broken = situation.profile.disruption_condition == "alpha-off"
    if not broken and situation.profile.condition_write != "server-side-apply":
        return
    pods: list[str] = []
    for group in situation.groups:
        refused = [pod.key for pod in group.pods if delete_is_refused(pod, configuration)]
        # The taints need not all be there at once: any of them may be the one that decides.
        if refused and any(decision_ns(situation, group, (t,)) >= 0 for t in group.taints):
            pods += refused
    version = situation.profile.version
    if broken:
        yield from caution(
            "broken-eviction-1-25",
            f"Kubernetes {version} with PodDisruptionConditions on: the controller may not read pods, "
            "its deletes all fail, and no taint evicts anything",
            pods,
        )
        return
    yield from caution(
        "ssa-condition-fails",
        f"Kubernetes {version} writes the DisruptionTarget condition by server-side apply, which fails "
        "for a duplicate env name or container port: these pods are never evicted",
        pods,
    )


RULES: tuple[Rule, ...] = (
    seconds_overflow,
    first_match_surprise,
    wrong_value,
    comparison_gate_off,
    refused_deletes,
)
