"""Every difference between releases that changes an eviction, as one table.

A change is a row: the knob, its new value, and the first release (or patch releases of older minors)
that has it. Nothing else in the program compares release numbers.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.owners import PLANNED, POLLED, READY

OLDEST_MINOR, NEWEST_MINOR = 16, 37
# No minor of Kubernetes has had more patch releases than this: a larger one is a typing error.
PATCH_MAX = 30
_NEWEST_PATCH = 999
_VERSION = re.compile(r"v?1\.([0-9]{1,2})(?:\.([0-9]{1,3}))?(?:[-+][0-9A-Za-z.+-]*)?", re.ASCII)


class Release(msgspec.Struct, frozen=True):
    """Minor and patch of Kubernetes 1.x; a missing patch means the newest one."""

    minor: int
    patch: int


class ReleaseProfile(msgspec.Struct, frozen=True, cache_hash=True):
    """The simulator's knobs for one release."""

    version: str
    # -- node lifecycle -----------------------------------------------------------------------
    node_monitor_grace_period_ns: int = 40 * SECOND_NS
    # Decision on the condition as found ("observed") or as just written ("current").
    taint_on_current_condition: bool = False
    # ADD | SETREMOVE | REMOVE_ADD: how a waiting node stays in its queue.
    queue_mode: str = "ADD"
    # A tick looks after several nodes at once.
    ticks_in_parallel: bool = False
    # Pods that are marked not ready get an event each.
    tells_of_marked_pods: bool = False
    # A write of taints fails where somebody else wrote the node since it was read, and is made again.
    taint_writes_conflict: bool = False
    # Zone key falls back to the stable topology labels.
    ga_zone_labels: bool = False
    # Pod index, pod worker, nodeEvictionMap: nontaint mode deletes again on every tick.
    repeats_deletion: bool = False
    exclusion_by_name: bool = True
    exclusion_by_label: bool = False
    # The mode without taint manager can be chosen.
    nontaint_mode: bool = True
    # Gate TaintBasedEvictions is still read (<= 1.17).
    taint_based_evictions_gate: bool = True
    # Pass on a node that has no Ready condition: crash (<= 1.29) or retry.
    missing_ready_crashes: bool = True
    # A zone whose --node-eviction-rate is 0 taints without limit (x/time divides by the rate).
    rate_zero_accepts: bool = True
    lease_circuit_breaker: str = "none"  # none | beta
    # -- taint eviction -----------------------------------------------------------------------
    cancel_on_infinite: bool = False
    keep_nil_key: bool = True
    immediate_is_two_nows: bool = True
    disruption_condition: str = "none"  # none | alpha-off | beta | ga
    condition_write: str = "patch"  # patch | server-side-apply
    separate_controller: bool = False
    separate_controller_locked: bool = False
    comparison_operators_gate: bool = False
    # -- pod garbage collection ---------------------------------------------------------------
    orphan_quarantine: bool = False
    out_of_service: str = "none"  # none | alpha-off | beta | ga
    evicted_pods_first: bool = False
    # -- the Eviction API ----------------------------------------------------------------------
    # Pending and terminating pods go without a budget being asked.
    evicts_pending_unasked: bool = False
    # An unready pod may go while the others meet the budget.
    evicts_unready_pods: bool = False
    # unhealthyPodEvictionPolicy is read (alpha and off in 1.26).
    unhealthy_pod_eviction_policy: bool = False
    # 429 because of a status that is older than its budget's spec says when to ask again (Retry-After).
    tells_when_to_retry: bool = False
    # 403 in a namespace that is Terminating says so (cause NamespaceTerminating), which kubectl does not take for an error.
    tells_of_terminating_namespaces: bool = False
    # -- StatefulSets --------------------------------------------------------------------------
    # What an OrderedReady one makes of minReadySeconds (``kube/owners.py``).
    stateful_set_availability: str = READY
    # -- kube-scheduler ------------------------------------------------------------------------
    # What counts of a pod that was resized in place: spec | container | pod (``kube/pod_requests.py``).
    resized_pods_hold: str = "spec"
    # VolumeBinding asks for the capacity that drivers publish (alpha and off in 1.19 and 1.20).
    storage_capacity: bool = False
    # -- kube-proxy ----------------------------------------------------------------------------
    # Where no endpoint is ready, pods that are ending get the traffic (ProxyTerminatingEndpoints; alpha and off from 1.22).
    proxies_to_ending_pods: bool = False


class _Change(msgspec.Struct, frozen=True):
    knob: str
    value: Any
    minor: int
    # Patch release from which an older minor has the change as well: {minor: patch}.
    backports: dict[int, int] = {}


_CHANGES: tuple[_Change, ...] = (
    _Change("node_monitor_grace_period_ns", 50 * SECOND_NS, 32),
    _Change("taint_on_current_condition", True, 34),
    _Change("ticks_in_parallel", True, 27),
    _Change("tells_of_marked_pods", True, 19),
    _Change("taint_writes_conflict", True, 26, {23: 14, 24: 8, 25: 4}),
    _Change("queue_mode", "SETREMOVE", 19),
    _Change("queue_mode", "REMOVE_ADD", 21, {18: 17, 19: 9, 20: 5}),
    _Change("ga_zone_labels", True, 17),
    _Change("repeats_deletion", True, 17, {16: 8}),
    _Change("exclusion_by_name", False, 21),
    _Change("exclusion_by_label", True, 19),
    _Change("nontaint_mode", False, 27),
    _Change("taint_based_evictions_gate", False, 18),
    _Change("missing_ready_crashes", False, 30),
    _Change("rate_zero_accepts", False, 24),
    _Change("lease_circuit_breaker", "beta", 37),
    _Change("cancel_on_infinite", True, 19, {16: 15, 17: 12, 18: 9}),
    _Change("keep_nil_key", False, 33),
    _Change("immediate_is_two_nows", False, 30),
    _Change("disruption_condition", "alpha-off", 25),
    _Change("disruption_condition", "beta", 26),
    _Change("disruption_condition", "ga", 31),
    _Change("condition_write", "server-side-apply", 26),
    _Change("condition_write", "patch", 29, {26: 11, 27: 8, 28: 4}),
    _Change("separate_controller", True, 29),
    _Change("separate_controller_locked", True, 34),
    _Change("comparison_operators_gate", True, 35),
    _Change("orphan_quarantine", True, 17),
    _Change("out_of_service", "alpha-off", 24),
    _Change("out_of_service", "beta", 26),
    _Change("out_of_service", "ga", 28),
    _Change("evicted_pods_first", True, 27),
    _Change("tells_of_terminating_namespaces", True, 17),
    _Change("evicts_pending_unasked", True, 19),
    _Change("evicts_unready_pods", True, 20),
    _Change("unhealthy_pod_eviction_policy", True, 27),
    _Change("tells_when_to_retry", True, 21),
    _Change("stateful_set_availability", POLLED, 23),
    _Change("stateful_set_availability", PLANNED, 36),
    _Change("storage_capacity", True, 21),
    _Change("proxies_to_ending_pods", True, 26),
    # Alpha up to 1.32: without the gate no status tells of resizes.
    _Change("resized_pods_hold", "container", 27),
    _Change("resized_pods_hold", "pod", 37),
)


def parse_release(text: str) -> Release:
    """Parse "1.29", "v1.29.6" or "1.29.6-gke.100"; an unknown release lists the known ones."""
    match = _VERSION.fullmatch(text.strip())
    minor = int(match.group(1)) if match else -1
    patch = int(match.group(2)) if match and match.group(2) is not None else _NEWEST_PATCH
    if (
        match is None
        or PATCH_MAX < patch != _NEWEST_PATCH
        or not OLDEST_MINOR <= minor <= NEWEST_MINOR
    ):
        raise InputError(
            Problem(
                "unknown Kubernetes release",
                field="kubernetesVersion",
                got=repr(text),
                expected="one of " + ", ".join(f"1.{m}" for m in known_minors()),
            )
        )
    return Release(minor, patch)


def known_minors() -> range:
    """The minors of Kubernetes 1.x that have a profile."""
    return range(OLDEST_MINOR, NEWEST_MINOR + 1)


def release_profile(text: str) -> ReleaseProfile:
    """The knobs of a release such as "1.29" (newest patch) or "1.20.4"."""
    release = parse_release(text)
    knobs: dict[str, Any] = {}
    for change in _CHANGES:
        backport = change.backports.get(release.minor)
        if release.minor >= change.minor or (backport is not None and release.patch >= backport):
            knobs[change.knob] = change.value
    version = f"1.{release.minor}"
    if release.patch != _NEWEST_PATCH:
        version += f".{release.patch}"
    return ReleaseProfile(version=version, **knobs)
