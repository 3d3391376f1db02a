"""The node side: kubelets that renew leases, post status, finish pods, and fall silent.

A healthy kubelet costs nothing here: its renewals are a formula, evaluated when somebody asks. Only
falling silent, coming back and posting a status are events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import Causes, KubeletSilent, NodeReadyPosted
from kubectl_evictplan.engine.event_queue import Priority
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Lease, Node, NodeCondition, Pod

# Renewal period as a fraction of the lease duration (kubelet: nodeLeaseRenewIntervalFraction).
_RENEWALS_PER_DURATION = 4
_DEFAULT_PERIOD_NS = 10 * SECOND_NS
# The kubelet jitters its renewal period by up to 4 %.
_RENEWAL_JITTER_NUMERATOR, _RENEWAL_JITTER_DENOMINATOR = 104, 100
# A lease older than this many periods at the start belongs to a kubelet that is already silent.
SILENT_AFTER_PERIODS = 2
# A pod that should have been gone for longer than this is stuck, whatever its kubelet does.
OVERDUE_NS = 60 * SECOND_NS


def ended_by_ns(pod: Pod, node: Node) -> int:
    """By when a kubelet that is up ends a pod that was deleted before the start: its deadline, or its whole grace period once it was back."""
    assert pod.deletion_timestamp_ns is not None, "only of pods that terminate"
    ready = node.condition(READY)
    if ready is None or ready.status != "True" or ready.last_transition_time_ns is None:
        return pod.deletion_timestamp_ns
    # Times of conditions are whole seconds.
    back_ns = ready.last_transition_time_ns + SECOND_NS
    seconds = pod.deletion_grace_period_seconds or 0
    return max(pod.deletion_timestamp_ns, back_ns + seconds * SECOND_NS)


def left_at_start_ns(node: Node, pod: Pod, start_ns: int) -> int:
    """How long after the start a kubelet that is up ends a pod that terminates then, at the most."""
    left_ns = max(ended_by_ns(pod, node) - start_ns, 0)
    assert pod.deletion_timestamp_ns is not None, "only of pods that terminate"
    if pod.deletion_timestamp_ns <= start_ns:
        # A kubelet that began anew meanwhile counts from then.
        left_ns = max(left_ns, (pod.deletion_grace_period_seconds or 0) * SECOND_NS)
    return left_ns


class LeaseVersion(msgspec.Struct, frozen=True):
    """What a Lease shows, as far as it tells one resourceVersion from another.

    ``touches`` counts the writes that left renewTime alone.
    """

    renew_time_ns: int
    touches: int


class _Renewals(msgspec.Struct, eq=False):
    """When one kubelet renewed: every ``period_ns`` from ``anchor_ns``, up to ``last_ns``."""

    anchor_ns: int
    period_ns: int
    # No renewal before first_ns belongs to this series (None: it reaches into the past).
    first_ns: int | None
    last_ns: int | None = None
    # The newest renewal of an earlier series.
    older_ns: int | None = None
    # For so long nothing is heard of the kubelet before it stops.
    quiet_ns: int = 0

    def newest(self, at_ns: int) -> int | None:
        """Newest renewal at or before ``at_ns``."""
        if self.last_ns is not None and at_ns >= self.last_ns:
            return self.last_ns
        newest_ns = at_ns - (at_ns - self.anchor_ns) % self.period_ns
        return (
            self.older_ns if self.first_ns is not None and newest_ns < self.first_ns else newest_ns
        )


def observed_at_ns(snapshot: ClusterSnapshot, start_ns: int) -> int:
    """The instant from which leases are judged: the snapshot's, when the scenario starts later."""
    return min(start_ns, snapshot.taken_at_ns) if snapshot.taken_at_ns else start_ns


def is_silent_at(lease: Lease | None, at_ns: int) -> bool:
    """Whether a node's lease says that its kubelet had stopped renewing by ``at_ns``."""
    if lease is None or lease.renew_time_ns is None:
        return False
    return at_ns - lease.renew_time_ns > SILENT_AFTER_PERIODS * renew_period_ns(lease)


def renew_period_ns(lease: Lease | None) -> int:
    """Renewal period of a node's kubelet, in nanoseconds (a quarter of the duration of the Lease, if that was ever renewed)."""
    if lease is None or lease.renew_time_ns is None or lease.lease_duration_seconds <= 0:
        return _DEFAULT_PERIOD_NS
    return lease.lease_duration_seconds * SECOND_NS // _RENEWALS_PER_DURATION


def longest_renewal_ns(lease: Lease | None) -> int:
    """How far apart two renewals of a kubelet can lie."""
    return renew_period_ns(lease) * _RENEWAL_JITTER_NUMERATOR // _RENEWAL_JITTER_DENOMINATOR


def posted_since_renewal_ns(
    node: Node, lease: Lease | None, seen_ns: int, last_ns: int | None = None
) -> int | None:
    """The second in which the kubelet may have posted a status after its last renewal before the look; None: it has not.

    What lies after the look was written by a clock that is ahead. ``last_ns``: the last renewal as the scenario states it, which may be
    before the one that the Lease shows. Where no Lease shows one, a kubelet that is up may not have renewed for as long as it can take.
    """
    ready = node.condition(READY)
    posted_ns = None if ready is None else ready.last_heartbeat_time_ns
    if posted_ns is None or posted_ns > seen_ns:
        return None
    renewed_ns = None if lease is None else lease.renew_time_ns
    if renewed_ns is None:
        if not is_up_at_start(node, lease, seen_ns):
            return None
        renewed_ns = seen_ns - longest_renewal_ns(lease) if last_ns is None else last_ns
    elif last_ns is not None:
        renewed_ns = min(renewed_ns, last_ns)
    return posted_ns if posted_ns + SECOND_NS > renewed_ns else None


def is_up_at_start(node: Node, lease: Lease | None, seen_ns: int) -> bool:
    """Whether a node's kubelet is taken to be alive when the scenario starts."""
    if node.ready_status == "Unknown":
        return False
    if lease is None or lease.renew_time_ns is None:
        # Heartbeats that we cannot see, unless the node never posted anything.
        return node.ready_status is not None
    return not is_silent_at(lease, seen_ns)


def is_up_when_created(node: Node) -> bool:
    """Whether a node that is created has a kubelet: one that has posted a status."""
    return node.ready_status not in (None, "Unknown")


def _posted(condition: NodeCondition, ready: str, now_ns: int) -> NodeCondition:
    """A condition as a kubelet with that Ready status posts it; it knows all of them again."""
    status, reason = condition.status, condition.reason
    if condition.type == READY:
        status, reason = ready, "KubeletReady" if ready == "True" else "KubeletNotReady"
    elif status == "Unknown":
        status = "False"
    moved = status != condition.status
    return replace(
        condition,
        status=status,
        reason=reason,
        last_heartbeat_time_ns=now_ns,
        last_transition_time_ns=now_ns if moved else condition.last_transition_time_ns,
    )


class Unheard(msgspec.Struct, frozen=True):
    """No API server answers from ``since_ns`` to ``until_ns`` (None: for ever), and each kubelet hears from it ``late_ns`` after that at the latest."""

    since_ns: int
    until_ns: int | None
    late_ns: int

    def confirmed_ns(
        self, deleted_ns: int, ended_ns: int, most_ns: int, share: float
    ) -> int | None:
        """When the end of a pod is confirmed; None: never.

        ``most_ns``: the time that the pod has from ``deleted_ns`` on, of which it uses a ``share``, up to ``ended_ns``. A kubelet that had
        not heard of the deletion begins when it does.
        """
        if ended_ns < self.since_ns:
            return ended_ns
        if self.until_ns is None:
            return None
        if deleted_ns >= self.until_ns + self.late_ns:
            return ended_ns
        return max(ended_ns, self.until_ns + int((self.late_ns + most_ns) * share))


class PodExits(msgspec.Struct, frozen=True):
    """When deleted pods end: after which share of the time they have, and what telling it takes.

    Both are asked by the pod's key; for the share also with the time, in nanoseconds. ``unheard``: when nobody can be told.
    """

    fraction: Callable[[str, int], float]
    reported_after_ns: Callable[[str], int] = lambda _: 0
    unheard: tuple[Unheard, ...] = ()


class Kubelets:
    """All kubelets of the cluster."""

    def __init__(self, state: ClusterState, exits: PodExits) -> None:
        self._state = state
        self._exits = exits
        self._renewals: dict[str, _Renewals] = {}
        self._up: set[str] = set()
        # Instants at which somebody wrote a node's Lease without renewing it.
        self._touches: dict[str, list[int]] = {}
        self.touch_causes: dict[str, Causes] = {}
        # Last heartbeats that the scenario states: (instant of the stop, last renewal) by node.
        self._stated: dict[str, list[tuple[int, int]]] = {}
        # How often a kubelet took up again what terminates on its node: what it was about before that counts no more.
        self._taken_up: Counter[str] = Counter()
        # Silent ones that were heard once more, until they stop.
        self._heard_once_more: set[str] = set()
        # Called with a node's name *before* its kubelet changes, so that observers can look back.
        self.watchers: list[Callable[[str], None]] = []
        state.watch_pods(self._pod_changed)
        state.watch_nodes(self._node_changed)

    def expect_stop(self, name: str, stop_ns: int, last_ns: int) -> None:
        """Renewals before a stop are those of the scenario, not of the formula: know them ahead."""
        self._stated.setdefault(name, []).append((stop_ns, last_ns))

    def _new_series(
        self, name: str, anchor_ns: int, period_ns: int, first_ns: int | None
    ) -> _Renewals:
        series = self._renewals[name] = _Renewals(anchor_ns, period_ns, first_ns)
        stated = self._next_stated(name)
        if stated is not None:
            stop_ns, series.last_ns = stated
            series.quiet_ns = stop_ns - series.last_ns
        return series

    def _next_stated(self, name: str) -> tuple[int, int] | None:
        """The next stop of which the scenario states the last heartbeat, with that."""
        now_ns = self._state.now_ns
        return next((each for each in self._stated.get(name, ()) if each[0] >= now_ns), None)

    def load(self, snapshot: ClusterSnapshot, start_ns: int) -> None:
        """Kubelets as the snapshot shows them: fresh leases are renewed on, stale ones are silent."""
        seen_ns = observed_at_ns(snapshot, start_ns)
        nodes = {node.name for node in snapshot.nodes}
        for name, left in snapshot.leases.items():
            # A kubelet may outlive its Node, and what it renews counts for one that is created under its name.
            if name not in nodes and left.renew_time_ns is not None:
                series = self._new_series(name, left.renew_time_ns, renew_period_ns(left), None)
                if is_silent_at(left, seen_ns):
                    series.last_ns = left.renew_time_ns
                else:
                    self._up.add(name)
        for node in snapshot.nodes:
            lease = snapshot.leases.get(node.name)
            renew_ns = lease.renew_time_ns if lease is not None else None
            is_up = is_up_at_start(node, lease, seen_ns)
            if is_up:
                self._up.add(node.name)
            if renew_ns is not None:
                series = self._new_series(node.name, renew_ns, renew_period_ns(lease), None)
                if not is_up:
                    series.last_ns = renew_ns
            elif is_up:
                # Take the start itself as one of the heartbeats that we cannot see.
                self._new_series(node.name, start_ns, _DEFAULT_PERIOD_NS, None)
            if not is_up:
                self._note_silence(node.name, ())
                self._await_last_heartbeat(node.name)

    def _await_last_heartbeat(self, name: str) -> None:
        """A silent kubelet is heard once more where the scenario states a later last heartbeat of it."""
        stated, series = self._next_stated(name), self._renewals.get(name)
        if stated is None:
            return
        _, last_ns = stated
        if series is not None and series.last_ns is not None and last_ns <= series.last_ns:
            return
        if last_ns <= self._state.now_ns:
            self._hear_once_more(name, last_ns)
        else:
            heard = partial(self._hear_once_more, name, last_ns)
            self._state.events.schedule(last_ns, Priority.OUTSIDE, heard)

    def _hear_once_more(self, name: str, last_ns: int) -> None:
        if name in self._up:
            return  # it came back before
        self._before_change(name)
        old = self._renewals.get(name)
        period_ns = old.period_ns if old is not None else _DEFAULT_PERIOD_NS
        series = self._renewals[name] = _Renewals(last_ns, period_ns, last_ns, last_ns)
        series.older_ns = old.newest(last_ns - 1) if old is not None else None
        self._heard_once_more.add(name)

    def _note_silence(self, name: str, because: Causes) -> None:
        renewals = self._renewals.get(name)
        last_ns = renewals.last_ns if renewals is not None else None
        offset_ns = None if last_ns is None else last_ns - self._state.timeline.start_ns
        self._state.record_node(KubeletSilent, because, name, offset_ns)

    def finish_terminating_at_start(self) -> None:
        """Kubelets that are up finish, by its deadline, what was deleted before the start."""
        now_ns = self._state.now_ns
        for pod in list(self._state.pods.values()):
            node, deadline_ns = self._state.nodes.get(pod.node_name), pod.deletion_timestamp_ns
            if node is None or deadline_ns is None or deadline_ns < now_ns - OVERDUE_NS:
                continue  # long overdue: something that we cannot see holds it
            if self._ends_pods(pod.node_name):
                self._schedule_finish(pod, max(ended_by_ns(pod, node) - now_ns, 0), ())

    def is_up(self, name: str) -> bool:
        """Whether the node's kubelet renews its lease now."""
        return name in self._up

    def _ends_pods(self, name: str) -> bool:
        """Whether the kubelet is up and does not say by Ready=False that its runtime is not."""
        node = self._state.nodes.get(name)
        return node is not None and name in self._up and node.ready_status != "False"

    def renews_slower_than(self, name: str, limit_ns: int) -> bool:
        """Whether nothing may be heard of an up kubelet for more than ``limit_ns``."""
        series = self._renewals.get(name)
        return series is not None and max(series.period_ns, series.quiet_ns) > limit_ns

    def lease_at(self, name: str, at_ns: int) -> LeaseVersion | None:
        """The node's Lease as it was at ``at_ns``; None without a Lease."""
        series = self._renewals.get(name)
        renew_ns = series.newest(at_ns) if series is not None else None
        if renew_ns is None:
            return None
        touches = self._touches.get(name)
        return LeaseVersion(renew_ns, bisect_right(touches, at_ns) if touches else 0)

    # -- the scenario's events ------------------------------------------------------------------

    def stop(self, name: str, last_heartbeat_ns: int | None, because: Causes) -> None:
        """The kubelet falls silent; its last renewal was at ``last_heartbeat_ns`` (epoch).

        It is later than the stop where what it posted before that is as good as such a renewal.
        """
        now_ns = self._state.now_ns
        stated = self._stated.get(name, [])
        if last_heartbeat_ns is not None and (now_ns, last_heartbeat_ns) in stated:
            # A kubelet that starts at this very instant goes on to its next stop.
            stated.remove((now_ns, last_heartbeat_ns))
        series = self._renewals.get(name)
        if series is not None and name in self._up:
            # Before anybody looks back: ticks that have passed saw this heartbeat, not the formula's.
            series.last_ns = (
                series.newest(now_ns) if last_heartbeat_ns is None else last_heartbeat_ns
            )
            if series.last_ns is not None and series.last_ns > now_ns:
                heard = partial(self._before_change, name)
                self._state.events.schedule(series.last_ns, Priority.OUTSIDE, heard)
        self._before_change(name)
        if name in self._up or name in self._heard_once_more:
            self._up.discard(name)
            self._heard_once_more.discard(name)
            self._note_silence(name, because)

    def touch_lease(self, name: str, because: Causes) -> None:
        """Somebody writes the node's Lease without renewing it; without a Lease nothing happens."""
        if name in self._renewals:
            self.touch_causes[name] = because
            self._before_change(name)
            self._touches.setdefault(name, []).append(self._state.now_ns)

    def post_ready(self, name: str, status: str, because: Causes) -> None:
        """The kubelet posts a Ready condition and goes on (it may be back).

        It renews its lease as well, as one does that begins anew: unless it is up, and the scenario states an earlier last
        heartbeat. Whether one that is up begins anew nobody knows (``last_heartbeat_spans``).
        """
        ended_pods = self._ends_pods(name)
        stated = self._next_stated(name)
        if name not in self._up or stated is None or stated[1] >= self._state.now_ns:
            self._renew_now(name)
        node = self._state.nodes.get(name)
        if node is None:
            return
        now_ns = self._state.now_seconds_ns
        if node.ready_status is None:
            posted = NodeCondition(READY, status, now_ns, now_ns, "KubeletReady")
            conditions = (*node.conditions, posted)
        else:
            conditions = tuple(_posted(condition, status, now_ns) for condition in node.conditions)
        causes = self._state.record_node(NodeReadyPosted, because, name, status)
        self._state.update_node_conditions(name, conditions)
        if self._ends_pods(name) and not ended_pods:
            self._finish_terminating(name, causes)

    def _renew_now(self, name: str) -> None:
        now_ns = self._state.now_ns
        old = self._renewals.get(name)
        if name in self._up and old is not None and old.newest(now_ns) == now_ns:
            return
        self._before_change(name)
        period_ns = old.period_ns if old is not None else _DEFAULT_PERIOD_NS
        series = self._new_series(name, now_ns, period_ns, now_ns)
        series.older_ns = old.newest(now_ns - 1) if old is not None else None
        self._up.add(name)

    def _before_change(self, name: str) -> None:
        for watcher in self.watchers:
            watcher(name)

    # -- objects ----------------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None and new is not None:
            if is_up_when_created(new):
                self._renew_now(new.name)
            elif new.name not in self._up:
                self._note_silence(new.name, self._state.node_causes[new.name])
                self._await_last_heartbeat(new.name)
            # A kubelet that outlived its Node posts nothing for a new one that does not show it, and goes on with its pods.
            if self._ends_pods(new.name):
                self._finish_terminating(new.name, self._state.node_causes[new.name])

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.deletion_timestamp_ns is not None:
            deadline_ns = old.deletion_timestamp_ns if old is not None else None
            if deadline_ns is None or new.deletion_timestamp_ns < deadline_ns:
                self._finish_later(new, self._state.deletion_causes.get(new.key, ()))

    def _finish_later(self, pod: Pod, because: Causes) -> None:
        if self._ends_pods(pod.node_name):
            grace_ns = (pod.deletion_grace_period_seconds or 0) * SECOND_NS
            self._schedule_finish(pod, grace_ns, because)

    def _schedule_finish(self, pod: Pod, left_ns: int, because: Causes) -> None:
        unheard, now_ns = self._exits.unheard, self._state.events.now_ns
        share = self._exits.fraction(pod.key, left_ns) if left_ns or unheard else 0.0
        told_ns = now_ns + int(left_ns * share) + self._exits.reported_after_ns(pod.key)
        for one in unheard:
            confirmed_ns = one.confirmed_ns(now_ns, told_ns, left_ns, share)
            if confirmed_ns is None:
                return
            told_ns = confirmed_ns
        taken_up = self._taken_up[pod.node_name]
        self._state.events.schedule(
            told_ns,
            Priority.OUTSIDE,
            lambda: self._finish(pod.key, pod.uid, taken_up, because),
        )

    def _finish(self, key: str, uid: str, taken_up: int, because: Causes) -> None:
        pod = self._state.pods.get(key)
        if pod is None or self._taken_up[pod.node_name] != taken_up:
            return
        if self._ends_pods(pod.node_name):
            self._state.finish_pod(key, uid, because)

    def _finish_terminating(self, name: str, back: Causes) -> None:
        """A kubelet that is back ends what was deleted before, each pod within its whole grace period.

        One that was silent, whose runtime was down, or whose Node was gone may have begun with it, or not.
        """
        self._taken_up[name] += 1
        for pod in list(self._state.pods_by_node.get(name, {}).values()):
            if pod.deletion_timestamp_ns is not None:
                self._finish_later(pod, (*self._state.deletion_causes.get(pod.key, ()), *back))
