"""Which pods of a node ``kubectl drain`` evicts, which it leaves alone, and which make it refuse.

Upstream: ``pkg/drain/filters.go`` of kubectl 1.37, which asks about every pod of the node in the order
of the list (namespace, name). The first filter that keeps a pod ends the questions about it. One refusal
is enough, and nothing of the node is evicted; it stays cordoned.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import Enum

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.selectors import LabelSelector, parse_label_selector

# --grace-period: the pod's own terminationGracePeriodSeconds.
GRACE_PERIOD_OF_POD = -1
_DAEMON_SET = ("apps/v1", "DaemonSet")


class DrainOptions(msgspec.Struct, frozen=True):
    """The flags of one ``kubectl drain``, as ``drain.Helper`` has them, and two of ``apply drain``.

    ``grace_period_seconds`` -1: each pod's own. ``timeout_ns`` 0: none; it counts for each node anew.
    ``skip_wait_for_delete_timeout_ns`` 0: pods are waited for however long ago they were deleted.
    ``pod_selector`` is the text of a valid label selector; "" selects every pod.
    ``parallel`` bounds the pods of a node that are under way at once, 0 is kubectl's: all of them.
    ``settle_ns`` is the pause after a node before the next.
    """

    force: bool = False
    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    grace_period_seconds: int = GRACE_PERIOD_OF_POD
    timeout_ns: int = 0
    skip_wait_for_delete_timeout_ns: int = 0
    disable_eviction: bool = False
    pod_selector: str = ""
    parallel: int = 0
    settle_ns: int = 0

    @property
    def skipped_after_ns(self) -> int | None:
        """How long after metadata.deletionTimestamp kubectl passes over a pod, and waits for it no longer; None: it always waits.

        ``shouldSkipPod`` counts whole seconds, and more than the limit must have gone by.
        """
        limit_seconds = self.skip_wait_for_delete_timeout_ns // SECOND_NS
        return (limit_seconds + 1) * SECOND_NS if limit_seconds > 0 else None


class Decision(Enum):
    """What happens to one pod: its eviction is requested, it is left alone, or the node is refused."""

    EVICT = "evict"
    SKIP = "skip"
    REFUSE = "refuse"


class Reason(Enum):
    """The filter that decides about a pod; UNMANAGED also of a pod that is evicted, with a warning."""

    # Skipped.
    NOT_SELECTED = "not-selected"
    DELETED_LONG_AGO = "deleted-long-ago"
    MIRROR_POD = "mirror-pod"
    # Skipped with --ignore-daemonsets, else refused.
    DAEMON_SET = "daemon-set"
    # Evicted with --force, else refused.
    UNMANAGED = "unmanaged"
    DAEMON_SET_NOT_FOUND = "daemon-set-not-found"
    # Evicted with --delete-emptydir-data, else refused.
    LOCAL_STORAGE = "local-storage"


class FilteredPod(msgspec.Struct, frozen=True):
    """What ``kubectl drain`` decides about one pod; ``reason`` None: every filter lets it through."""

    pod: Pod
    decision: Decision
    reason: Reason | None = None


# How kubectl names the pods that it warns of, and those that it does not dare to delete.
_WARNED = {
    Reason.DAEMON_SET: "ignoring DaemonSet-managed Pods",
    Reason.UNMANAGED: "deleting Pods that declare no controller",
}
_REFUSED = {
    Reason.DAEMON_SET: "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)",
    Reason.LOCAL_STORAGE: "Pods with local storage (use --delete-emptydir-data to override)",
    Reason.UNMANAGED: "Pods that declare no controller (use --force to override)",
}
# The flag that makes kubectl go on in spite of a refusal.
OVERRIDES = {
    Reason.DAEMON_SET: "--ignore-daemonsets",
    Reason.DAEMON_SET_NOT_FOUND: "--force",
    Reason.LOCAL_STORAGE: "--delete-emptydir-data",
    Reason.UNMANAGED: "--force",
}


def filter_pods(
    pods: Iterable[Pod],
    options: DrainOptions,
    daemon_sets: Container[str] | None,
    now_ns: int,
) -> list[FilteredPod]:
    """Return what is decided about each pod of a node, in the server's order (``filterPods``).

    ``daemon_sets`` has the "namespace/name" of every DaemonSet; None: they could not be read, and
    those that pods name are taken to exist. ``now_ns`` is the epoch instant at which kubectl asks.
    """
    selector = parse_label_selector(options.pod_selector)
    ordered = sorted(pods, key=lambda pod: (pod.namespace, pod.name))
    return [_filtered(pod, options, selector, daemon_sets, now_ns) for pod in ordered]


def is_deleted_long_ago(pod: Pod, options: DrainOptions, now_ns: int) -> bool:
    """Tell whether kubectl passes over a terminating pod, or stops waiting for it (``shouldSkipPod``).

    Both count from metadata.deletionTimestamp, which lies a grace period after the DELETE.
    """
    skipped_ns = options.skipped_after_ns
    if skipped_ns is None or pod.deletion_timestamp_ns is None:
        return False
    return now_ns - pod.deletion_timestamp_ns >= skipped_ns


def why_refused(filtered: FilteredPod) -> str:
    """Return how kubectl calls the kind of pod that it refuses to delete, and what overrides that."""
    if filtered.reason is Reason.DAEMON_SET_NOT_FOUND:
        owner = filtered.pod.controller()
        assert owner is not None, "the filter asks for the owner"
        return f'daemonsets.apps "{owner.name}" not found'
    assert filtered.reason is not None, "only filters refuse"
    return _REFUSED[filtered.reason]


def refusals(filtered: Iterable[FilteredPod]) -> list[str]:
    """Return kubectl's reasons not to drain the node, one for each kind (``PodDeleteList.errors``).

    Upstream's order is that of a Go map; here it is that of the pods.
    """
    kinds: dict[str, list[str]] = {}
    for one in filtered:
        if one.decision is Decision.REFUSE:
            kinds.setdefault(why_refused(one), []).append(one.pod.key)
    return [f"cannot delete {kind}: {', '.join(keys)}" for kind, keys in kinds.items()]


def warnings(filtered: Iterable[FilteredPod]) -> list[str]:
    """Return what kubectl warns of before it begins to evict (``PodDeleteList.Warnings``)."""
    kinds: dict[str, list[str]] = {}
    for one in filtered:
        if one.decision is not Decision.REFUSE and one.reason in _WARNED:
            kinds.setdefault(_WARNED[one.reason], []).append(one.pod.key)
    return [f"{kind}: {', '.join(keys)}" for kind, keys in kinds.items()]


def _filtered(
    pod: Pod,
    options: DrainOptions,
    selector: LabelSelector,
    daemon_sets: Container[str] | None,
    now_ns: int,
) -> FilteredPod:
    """Ask kubectl's filters in its order (``makeFilters``)."""
    if not selector.matches(pod.labels):
        return FilteredPod(pod, Decision.SKIP, Reason.NOT_SELECTED)
    if is_deleted_long_ago(pod, options, now_ns):
        return FilteredPod(pod, Decision.SKIP, Reason.DELETED_LONG_AGO)
    finished, owner = pod.finished, pod.controller()
    if owner and (owner.api_version, owner.kind) == _DAEMON_SET and not finished:
        if daemon_sets is None or f"{pod.namespace}/{owner.name}" in daemon_sets:
            decision = Decision.SKIP if options.ignore_daemonsets else Decision.REFUSE
            return FilteredPod(pod, decision, Reason.DAEMON_SET)
        if not options.force:
            return FilteredPod(pod, Decision.REFUSE, Reason.DAEMON_SET_NOT_FOUND)
    if pod.mirror:
        return FilteredPod(pod, Decision.SKIP, Reason.MIRROR_POD)
    if pod.empty_dir and not finished and not options.delete_emptydir_data:
        return FilteredPod(pod, Decision.REFUSE, Reason.LOCAL_STORAGE)
    if owner or finished:
        # What an earlier filter had to warn of is lost here: kubectl keeps the last message alone.
        return FilteredPod(pod, Decision.EVICT)
    decision = Decision.EVICT if options.force else Decision.REFUSE
    return FilteredPod(pod, decision, Reason.UNMANAGED)
