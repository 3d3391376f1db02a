"""Lists of taints: what the node lifecycle controller owns, and how a list is changed.

Upstream: pkg/util/taints, ``taintKeyToNodeConditionMap`` and friends of the node lifecycle controller.
"""

from __future__ import annotations

from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Node, Taint

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
NETWORK_UNAVAILABLE = "node.kubernetes.io/network-unavailable"
PID_PRESSURE = "node.kubernetes.io/pid-pressure"
# What the keys of taints begin with that controllers put on.
CONTROLLERS_PREFIX = "node.kubernetes.io/"

# NodeCondition type -> status -> NoSchedule taint key.
CONDITION_TAINTS: dict[str, dict[str, str]] = {
    "Ready": {"False": NOT_READY, "Unknown": UNREACHABLE},
    "MemoryPressure": {"True": MEMORY_PRESSURE},
    "DiskPressure": {"True": DISK_PRESSURE},
    "NetworkUnavailable": {"True": NETWORK_UNAVAILABLE},
    "PIDPressure": {"True": PID_PRESSURE},
}
LIFECYCLE_NO_SCHEDULE_KEYS = frozenset(
    [key for statuses in CONDITION_TAINTS.values() for key in statuses.values()] + [UNSCHEDULABLE]
)
LIFECYCLE_NO_EXECUTE_KEYS = frozenset([NOT_READY, UNREACHABLE])
# Taints that a controller adds and removes by itself: a user who sets one fights that controller.
CONTROLLER_OWNED_KEYS = LIFECYCLE_NO_SCHEDULE_KEYS | {OUT_OF_SERVICE}


def has_taint(taints: tuple[Taint, ...], key: str, effect: str) -> bool:
    """Whether the list holds that key and effect."""
    # Mostly there are none.
    return bool(taints) and (key, effect) in [(taint.key, taint.effect) for taint in taints]


def key_and_effect(taint: Taint) -> str:
    """``key:effect``, which is what tells one taint of a node from another."""
    return f"{taint.key}:{taint.effect}"


# By what tells them apart, the taints by which node lifecycle evicts.
LIFECYCLE_NO_EXECUTE = {
    key_and_effect(taint): taint
    for taint in [Taint(key, NO_EXECUTE) for key in LIFECYCLE_NO_EXECUTE_KEYS]
}


def taint_text(taint: Taint) -> str:
    """The taint as people write it for kubectl: ``key=value:effect``."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else key_and_effect(taint)


def is_lifecycle_no_execute(taint: Taint) -> bool:
    """Whether it is one of the two taints by which node lifecycle evicts, whoever wrote it."""
    return taint.effect == NO_EXECUTE and taint.key in LIFECYCLE_NO_EXECUTE_KEYS


def no_execute_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The NoExecute taints in list order (``getNoExecuteTaints``)."""
    return tuple([taint for taint in taints if taint.effect == NO_EXECUTE]) if taints else ()


def with_taint_appended(taints: tuple[Taint, ...], added: Taint) -> tuple[Taint, ...]:
    """``AddOrUpdateTaint``: replace in place when key and effect are there, else append."""
    if has_taint(taints, added.key, added.effect):
        return tuple(
            added if taint.key == added.key and taint.effect == added.effect else taint
            for taint in taints
        )
    return (*taints, added)


def with_taint_put_first(taints: tuple[Taint, ...], added: Taint) -> tuple[Taint, ...]:
    """kubectl's order: the new taint, then the surviving old ones."""
    return (added, *without_taint(taints, added.key, added.effect))


def without_taint(taints: tuple[Taint, ...], key: str, effect: str) -> tuple[Taint, ...]:
    """Remove key and effect; effect "" removes the key with every effect."""
    return tuple(
        taint for taint in taints if taint.key != key or (effect and taint.effect != effect)
    )


def needs_no_schedule_pass(node: Node) -> bool:
    """False for a healthy node without taints, of which the pass would change nothing."""
    if node.taints or node.unschedulable:
        return True
    for condition in node.conditions:
        if condition.status != ("True" if condition.type == "Ready" else "False"):
            return True
    return False


def reconcile_no_schedule(node: Node, now_ns: int) -> tuple[Taint, ...]:
    """The taint list after ``doNoScheduleTaintingPass``; unchanged when nothing is to be done."""
    desired = [
        CONDITION_TAINTS.get(condition.type, {}).get(condition.status, "")
        for condition in node.conditions
    ]
    desired += [UNSCHEDULABLE] if node.unschedulable else []
    taints = node.taints
    for taint in taints:
        is_managed = taint.effect == NO_SCHEDULE and taint.key in LIFECYCLE_NO_SCHEDULE_KEYS
        if is_managed and taint.key not in desired:
            taints = without_taint(taints, taint.key, NO_SCHEDULE)
    for key in desired:
        if key and not has_taint(taints, key, NO_SCHEDULE):
            taints = (*taints, Taint(key, NO_SCHEDULE, time_added_ns=now_ns))
    return taints
