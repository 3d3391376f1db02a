"""Tolerations that do not mean what they seem to mean.

Every function looks at one (list of tolerations, taints) at a time: a pod is named only when a taint that
its node gets in this prediction is concerned.
"""

from __future__ import annotations

from kubectl_evictplan.cluster.timeline import DeleteFailure
from kubectl_evictplan.controllers.taint_eviction.controller import delete_is_refused
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import NO_EXECUTE, Taint, Toleration
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.kube.tolerations import (
    get_matching_tolerations,
    get_min_toleration_time_ns,
    tolerates_taint,
)
from kubectl_evictplan.prediction.warnings.context import (
    Statement,
    Statements,
    TolerationGroup,
    WarningContext,
    WarningFunction,
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


def decision_ns(context: WarningContext, group: TolerationGroup, taints: tuple[Taint, ...]) -> int:
    """What ``taints`` together mean for the group: 0 at once, negative forever, else nanoseconds."""
    matched, used = get_matching_tolerations(
        taints,
        group.tolerations,
        comparison_operators=context.configuration.comparison_operators,
    )
    if not matched:
        return 0
    return get_min_toleration_time_ns([group.tolerations[index] for index in used])


def _matching(context: WarningContext, group: TolerationGroup, taint: Taint) -> list[Toleration]:
    comparison = context.configuration.comparison_operators
    return [
        toleration
        for toleration in group.tolerations
        if tolerates_taint(toleration, taint, comparison_operators=comparison)
    ]


def toleration_seconds_overflow(context: WarningContext) -> Statements:
    """``tolerationSeconds`` beyond an int64 of nanoseconds, on the toleration that decides."""
    found: dict[str, list[str]] = {}
    for group in context.groups:
        for taint in group.taints:
            for toleration in _matching(context, group, taint)[:1]:
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
    yield from sorted(found.items())


def first_match_surprise(context: WarningContext) -> Statements:
    """The first toleration that matches hides a later one with other seconds."""
    found: dict[str, list[str]] = {}
    for group in context.groups:
        messages = {
            message
            for taint in group.taints
            if (message := _hidden(_matching(context, group, taint)))
        }
        for message in messages:
            found.setdefault(message, []).extend(group.keys())
    yield from sorted(found.items())


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


def not_ready_toleration_wrong_value(context: WarningContext) -> Statements:
    """A not-ready or unreachable toleration for a value that the real taint never has."""
    pods: list[str] = []
    for group in context.groups:
        for taint in group.taints:
            if (
                is_lifecycle_no_execute(taint)
                and not _matching(context, group, taint)
                and any(_suppresses_default(toleration, taint) for toleration in group.tolerations)
            ):
                pods += group.keys()
    yield Statement(
        "a toleration for not-ready or unreachable asks for a value that the taint does not have: it "
        "matches nothing and keeps admission from adding the default 300s, so the pod goes at once",
        pods,
    )


def _suppresses_default(toleration: Toleration, taint: Taint) -> bool:
    """The DefaultTolerationSeconds admission plugin looks at key and effect only."""
    return (
        toleration.key == taint.key
        and toleration.effect in ("", NO_EXECUTE)
        and toleration.operator != "Exists"
    )


def lt_gt_operator_gate_off(context: WarningContext) -> Statements:
    """Operators Lt and Gt where nothing reads them."""
    if context.configuration.comparison_operators:
        return
    pods: list[str] = []
    for group in context.groups:
        keys = {taint.key for taint in group.taints}
        if any(t.operator in _COMPARISONS and t.key in keys | {""} for t in group.tolerations):
            pods += group.keys()
    why = (
        "the gate TaintTolerationComparisonOperators is off"
        if context.profile.comparison_operators_gate
        else f"Kubernetes {context.profile.version} does not know them"
    )
    yield Statement(
        f"tolerations with operator Lt or Gt match nothing here: {why}",
        pods,
    )


def broken_eviction_1_25(context: WarningContext) -> Statements:
    """The alpha of PodDisruptionConditions forgot a permission."""
    yield Statement(
        f"Kubernetes {context.profile.version} with PodDisruptionConditions on: the controller may not "
        "read pods, its deletes all fail, and no taint evicts anything",
        _never_deleted(context, DeleteFailure.MAY_NOT_GET_PODS),
    )


def ssa_condition_fails(context: WarningContext) -> Statements:
    """A condition that cannot be written by server-side apply."""
    yield Statement(
        f"Kubernetes {context.profile.version} writes the DisruptionTarget condition by server-side "
        "apply, which fails for a duplicate env name or container port: these pods are never evicted",
        _never_deleted(context, DeleteFailure.CONDITION_NOT_APPLIED),
    )


def _never_deleted(context: WarningContext, failure: DeleteFailure) -> list[str]:
    """Pods that the controller wants to delete and, in this release, never can for this reason."""
    configuration = context.configuration
    if not configuration.disruption_condition or not configuration.taint_eviction_enabled:
        return []
    pods: list[str] = []
    for group in context.groups:
        failing = [
            pod.key for pod in group.pods if delete_is_refused(pod, configuration) is failure
        ]
        # The taints need not all be there at once: any of them may be the one that decides.
        if failing and any(decision_ns(context, group, (taint,)) >= 0 for taint in group.taints):
            pods += failing
    return pods


WARNINGS: tuple[WarningFunction, ...] = (
    toleration_seconds_overflow,
    first_match_surprise,
    not_ready_toleration_wrong_value,
    lt_gt_operator_gate_off,
    broken_eviction_1_25,
    ssa_condition_fails,
)
