"""NoExecute taints for nodes that are not ready: who gets in line, and what a pass does.

Upstream: ``processTaintBaseEviction``, ``markNodeForTainting``, ``markNodeAsReachable``,
``doNoExecuteTaintingPass``, ``SwapNodeControllerTaint``.
"""

from __future__ import annotations

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, NodeBecameUnknown, WasteReason
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE, UNKNOWN
from kubectl_evictplan.controllers.node_lifecycle.zone_queues import ZoneQueues
from kubectl_evictplan.controllers.releases import ReleaseProfile
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, READY, Node, NodeCondition, Taint
from kubectl_evictplan.kube.taints import (
    NOT_READY,
    UNREACHABLE,
    has_taint,
    is_lifecycle_no_execute,
    with_taint_appended,
    without_taint,
)

# How far the informer can lag behind the controller's own write of Ready=Unknown.
STALE_LISTER_NS = 200_000_000
# A node without a Ready condition is tried again after this long.
_RETRY_NS = 50_000_000

# Ready status -> (taint to add, opposite taint to remove).
_TAINT_SWAPS = {FALSE: (NOT_READY, UNREACHABLE), UNKNOWN: (UNREACHABLE, NOT_READY)}


def put_in_line_from_ns(
    ready: NodeCondition, profile: ReleaseProfile, *, late: bool = False
) -> int | None:
    """From when on a tick finds the node, and puts it in line, that has had this condition since before; None where nobody knows.

    ``late``: only a tick after those of the second of which that is told. The kubelet had not posted it yet, or a pass wasted its token.
    """
    changed_ns = ready.last_transition_time_ns
    at_once = ready.status != UNKNOWN or profile.taint_on_current_condition
    if changed_ns is None or (at_once and not late):
        return changed_ns
    return changed_ns + SECOND_NS  # a tick after the one that wrote it, in that second


def fell_since(node: Node, before_ns: int, tick_ns: int) -> bool:
    """Whether a tick is the first to find that a node is not ready; ``before_ns``: when the one before it was.

    Status Unknown is a tick's own, which is known to the second.
    """
    ready = node.condition(READY)
    if ready is None:
        return node.creation_timestamp_ns > before_ns
    changed_ns = ready.last_transition_time_ns
    if changed_ns is None or ready.status == TRUE:
        return False
    return tick_ns < changed_ns + SECOND_NS if ready.status == UNKNOWN else before_ns < changed_ns


def why_token_is_wasted(ready: str | None, *, exists: bool) -> WasteReason | None:
    """``doNoExecuteTaintingPass`` for a node of that Ready status (None: it has no Ready condition).

    None: the node is tainted. Every outcome has cost its token.
    """
    if not exists:
        return WasteReason.NODE_NOT_FOUND
    if ready is None:
        return WasteReason.NO_READY_CONDITION
    return WasteReason.NODE_READY if ready == TRUE else None


def wait_before_retry_ns(reason: WasteReason, profile: ReleaseProfile) -> int | None:
    """How long the item waits to be tried again; None when it is done."""
    # Up to 1.29 the controller crashes here, and this is as good as anything.
    retried = reason is WasteReason.NO_READY_CONDITION and not profile.missing_ready_crashes
    return _RETRY_NS if retried else None


class NoExecuteTainter:
    """Taint mode: the default since 1.13, the only one since 1.27."""

    def __init__(
        self, state: ClusterState, profile: ReleaseProfile, queues: ZoneQueues, timing: Timing
    ) -> None:
        self._state = state
        self._profile = profile
        self._queues = queues
        # True while a pass writes the taint that the node waited for.
        self.tainting_in_pass = False
        self._timing = timing
        # What an informer that is late still shows of nodes of which a tick of this process wrote Ready=Unknown.
        self._shown_before: dict[str, str | None] = {}

    def unknown_written(self, before: Node) -> None:
        """A tick writes Ready=Unknown of the node, which was like this ``before``."""
        self._shown_before[before.name] = before.ready_status

    @staticmethod
    def owns_taint(node: Node) -> bool:
        """Whether the node carries a NoExecute taint of the node lifecycle controller."""
        return any(is_lifecycle_no_execute(taint) for taint in node.taints)

    def process(self, node: Node, status: str, *, ticked_ns: int | None = None) -> None:
        """``processTaintBaseEviction``; ``node`` is the tick's copy, its taints may be stale. ``ticked_ns``: when the tick was, if not now."""
        if status == TRUE:
            self.mark_reachable(node)
            return
        wanted, opposite = _TAINT_SWAPS[status if status == FALSE else UNKNOWN]
        swaps = has_taint(node.taints, opposite, NO_EXECUTE)
        self._queues.wanted(node.name, status, swapped=swaps)
        if swaps:
            # Immediate, not rate limited; the countdown of pods goes on.
            self._queues.retire(node.name)
            self._swap(node, wanted, opposite, rule="processTaintBaseEviction")
        else:
            lacks_taint = not has_taint(node.taints, wanted, NO_EXECUTE)
            mode = self._profile.queue_mode
            self._queues.mark(node.name, mode, lacks_taint=lacks_taint, ticked_ns=ticked_ns)

    def mark_reachable(self, node: Node, *, walked: bool = False) -> None:
        """``markNodeAsReachable``: untaint (two writes) and leave the line of the current zone (``ZoneQueues.reachable``)."""
        for key in (UNREACHABLE, NOT_READY):
            if has_taint(node.taints, key, NO_EXECUTE):
                self._remove_taint(node.name, key)
        self._queues.reachable(node.name, walked=walked)

    def _remove_taint(self, name: str, key: str) -> None:
        node = self._state.nodes.get(name)
        if node is not None and has_taint(node.taints, key, NO_EXECUTE):
            taints = without_taint(node.taints, key, NO_EXECUTE)
            self.patch_taints(name, taints, rule="markNodeAsReachable")

    def patch_taints(self, name: str, taints: tuple[Taint, ...], rule: str) -> None:
        """Write the node's taints, because of its present state; ``rule`` is the upstream function."""
        because = self._state.node_causes[name]
        self._state.patch_node_taints(name, taints, by=NODE_LIFECYCLE, because=because, rule=rule)

    def taint_in_pass(self, name: str) -> int | None:
        """``doNoExecuteTaintingPass`` for one head: every outcome has cost its token."""
        node = self._state.nodes.get(name)
        status = node.ready_status if node is not None else None
        reason = why_token_is_wasted(status, exists=node is not None)
        may_be_late = self._profile.taint_on_current_condition and self._timing.stale_lister
        if reason is None and may_be_late and self._was_just_written(name):
            if self._shown_before[name] == FALSE:
                status = FALSE  # the taint for that is written; the next tick swaps it
            else:
                reason = WasteReason.STALE_INFORMER
        if reason is not None:
            return wait_before_retry_ns(reason, self._profile)
        assert node is not None, "a node that is tainted exists"
        self.tainting_in_pass = True
        swap = _TAINT_SWAPS[FALSE if status == FALSE else UNKNOWN]
        self._swap(node, *swap, rule="doNoExecuteTaintingPass")
        self.tainting_in_pass = False
        return None

    def _was_just_written(self, name: str) -> bool:
        """Whether this process wrote Ready=Unknown so recently that its informer may not show it yet.

        What the process before wrote, a tick has read from this informer before it put the node in line.
        """
        if name not in self._shown_before:
            return False
        causes = self._state.node_causes[name]
        while causes:
            entry = self._state.timeline.entries[causes[0]]
            if isinstance(entry, NodeBecameUnknown):
                return self._state.offset_ns - entry.at_ns < STALE_LISTER_NS
            causes = entry.because
        return False

    def _swap(self, copy: Node, wanted: str, opposite: str, rule: str) -> None:
        """``SwapNodeControllerTaint``: add first, then remove: never an instant without a taint."""
        name = copy.name
        node = self._state.nodes.get(name)
        if node is None:
            return
        taint = Taint(wanted, NO_EXECUTE, time_added_ns=self._state.now_ns)
        self.patch_taints(name, with_taint_appended(node.taints, taint), rule)
        if has_taint(copy.taints, opposite, NO_EXECUTE):
            self._remove_taint(name, opposite)
