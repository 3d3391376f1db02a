"""Taint eviction (NoExecuteTaintManager; from 1.29 the taint-eviction-controller).

Upstream: pkg/controller/tainteviction/taint_eviction.go, before 1.29
pkg/controller/nodelifecycle/scheduler/taint_manager.go.

Rules of this file:

* Three layers, as upstream: filters drop what does not matter (``_node_updated``, ``_pod_updated``),
  handlers read the latest state, ``process_pod_on_node`` decides from plain values.
* A pending timer is never moved, neither earlier nor later. Two evaluations at one
  instant count as "later" too: a real clock never shows the same reading twice.
* Work is keyed by ``namespace/name``: no UID anywhere (all releases up to 1.37).
* Watches are instantaneous here. Pod items are handled at once; node items go through their
  de-duplicating work queue: several writes at one instant are one item, which reads the final state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    TAINT_EVICTION,
    CancelReason,
    Causes,
    DeleteFailed,
    DeleteFailure,
    EvictionRefused,
    EvictionScheduled,
    MarkedForDeletion,
    PodDeleted,
    TimerCancelled,
    ToleratedForever,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.event_queue import EventQueue, Priority, ScheduledCall
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import NO_EXECUTE, Node, Pod, Taint, Toleration
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.kube.tolerations import (
    deciding_index,
    get_matching_tolerations,
    get_min_toleration_time_ns,
)

Note = TypeVar("Note")


class TimedWorkerQueue(msgspec.Struct, Generic[Note], eq=False):
    """At most one pending deletion per pod name (upstream: timed_workers.go), with its owner's note.

    A key (``namespace/name``) is absent, a live worker, or NIL: *present without a timer*. ``add`` is
    refused for any present key. Up to 1.32 a key stays NIL after its pod was deleted, and then refuses
    the timer of the next pod of that name. ``_run`` is called when a worker is due. ``_live_while_due``: up to 1.29 work that is due at once is a
    live worker until it has run (its two clock readings differ by nanoseconds); from 1.30 on it is NIL.
    """

    _events: EventQueue
    _run: Callable[[str, Note], None]
    _live_while_due: bool
    _workers: dict[str, tuple[Note, ScheduledCall | None] | None] = {}

    def add(self, key: str, delay_ns: int, note: Note) -> bool:
        """``AddWork``: False when the key is present (live or NIL). Due work runs at once."""
        if key in self._workers:
            return False
        if delay_ns > 0:
            self.adopt(key, self._events.now_ns + delay_ns, note)
        else:
            self._workers[key] = (note, None) if self._live_while_due else None
            self._run(key, note)
        return True

    def adopt(self, key: str, due_ns: int, note: Note) -> None:
        """Start a timer, or take over one that was already running when the simulation began."""
        call = self._events.schedule(due_ns, Priority.EVICTION_TIMER, lambda: self._run(key, note))
        self._workers[key] = note, call

    def cancel(self, key: str) -> Note | None:
        """``CancelWork``: the note of the live worker that was stopped; a NIL key is dropped silently."""
        worker = self._workers.pop(key, None)
        if worker is None:
            return None
        note, call = worker
        if call is not None:
            call.cancel()
        return note

    def is_live(self, key: str) -> bool:
        """``GetWorkerUnsafe``: NIL and absent look the same."""
        return self._workers.get(key) is not None

    def keep_nil(self, key: str) -> None:
        """Leave the key present without a timer (releases up to 1.32, after success)."""
        self._workers[key] = None

    def forget(self, key: str) -> None:
        """Drop the key whatever it is (releases from 1.33; failures everywhere)."""
        self._workers.pop(key, None)

    def stop(self) -> None:
        """The process is gone: no timer of this queue fires any more."""
        for key in list(self._workers):
            self.cancel(key)


_TaintsKey = tuple[tuple[str, str, str], ...]
# By the taints and the tolerations.
Decisions = dict[tuple[_TaintsKey, tuple[Toleration, ...]], "Decision"]


class Decision:
    """What the taints of a node mean for one list of tolerations."""

    __slots__ = ("all_tolerated", "minimum_ns", "taint", "toleration_index", "toleration_seconds")

    def __init__(
        self, taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], comparison: bool
    ) -> None:
        self.all_tolerated, used = get_matching_tolerations(
            taints, tolerations, comparison_operators=comparison
        )
        self.minimum_ns = 0
        self.toleration_index: int | None = None
        self.toleration_seconds: int | None = None
        if not self.all_tolerated:
            self.taint: Taint | None = next(
                taint
                for taint in taints
                if not get_matching_tolerations(
                    (taint,), tolerations, comparison_operators=comparison
                )[0]
            )
            return
        self.minimum_ns = get_min_toleration_time_ns([tolerations[index] for index in used])
        self.toleration_index = deciding_index(tolerations, used)
        if self.toleration_index is None:
            self.taint = taints[0] if taints else None
            self.toleration_index = used[0] if used else None
        else:
            self.taint = taints[used.index(self.toleration_index)]
            self.toleration_seconds = tolerations[self.toleration_index].toleration_seconds

    @property
    def look(self) -> tuple[object, ...]:
        """All that becomes of a pod by it, but when the taint came: equal for lists of tolerations that differ in nothing that counts."""
        taint = self.taint and (self.taint.key, self.taint.value, self.taint.effect)
        seconds = self.toleration_seconds
        return self.all_tolerated, self.minimum_ns, taint, self.toleration_index, seconds

    @property
    def delay_ns(self) -> int | None:
        """How long after the taints the pod is deleted; None: never."""
        if self.all_tolerated and self.minimum_ns < 0:
            return None
        return max(self.minimum_ns, 0)


class DecisionsByTaint:
    """What lists of tolerations mean for one taint each: asked once for pods that share their list."""

    def __init__(self, configuration: ControllerConfiguration) -> None:
        self._comparison = configuration.comparison_operators
        self._known: dict[tuple[int, str, str, str], tuple[Decision, object]] = {}

    def of(self, pod: Pod, taint: Taint) -> Decision:
        """That of the pod."""
        # Pods of one template share their list of tolerations; it is kept, so that its id stays its own.
        key = id(pod.tolerations), taint.key, taint.value, taint.effect
        found = self._known.get(key)
        if found is None:
            decision = Decision((taint,), pod.tolerations, self._comparison)
            found = self._known[key] = decision, pod.tolerations
        return found[0]


def delete_is_refused(pod: Pod, configuration: ControllerConfiguration) -> DeleteFailure | None:
    """Why the controller can never delete this pod in this release; None when it can."""
    profile = configuration.profile
    if not configuration.disruption_condition:
        return None
    if profile.disruption_condition == "alpha-off":
        return DeleteFailure.MAY_NOT_GET_PODS
    if configuration.refuses_status(pod):
        return DeleteFailure.CONDITION_NOT_APPLIED
    return None


class TaintEviction:
    """One process life of the controller."""

    def __init__(
        self,
        state: ClusterState,
        configuration: ControllerConfiguration,
        timing: Timing,
        *,
        decisions: Decisions | None = None,
    ) -> None:
        """``decisions``: those of another one, to share."""
        self._state = state
        self._configuration = configuration
        self._profile = configuration.profile
        self._comparison = configuration.comparison_operators
        self._timing = timing
        self._tainted_nodes: dict[str, tuple[Taint, ...]] = {}
        # Of each timer the decision that started it, and the entries that led to it.
        self._queue: TimedWorkerQueue[tuple[Decision, Causes]] = TimedWorkerQueue(
            state.events, self._run_worker, self._profile.immediate_is_two_nows
        )
        self._node_items: dict[str, None] = {}  # the node work queue: first-in, no duplicates
        self._node_items_call: ScheduledCall | None = None
        self.decisions: Decisions = {} if decisions is None else decisions
        # Told of every change of a node's NoExecute taints: of pods that are not in the state.
        self.followers: Callable[[str, tuple[Taint, ...]], None] | None = None
        # While a new process looks at everything for the first time: the entry of its start.
        self._started_by: Causes = ()

    # -- life -------------------------------------------------------------------------------------

    def start(self, because: Causes, *, evaluate: bool) -> None:
        """Subscribe. ``evaluate``: a new process sees every node and pod as an ADD, now."""
        self._started_by = because
        self._state.watch_nodes(self._node_updated)
        self._state.watch_pods(self._pod_updated)
        for name in sorted(self._state.nodes):
            if evaluate:
                self._handle_node_update(name)
            else:
                taints = no_execute_taints(self._state.nodes[name].taints)
                if taints:
                    self._tainted_nodes[name] = taints
        self._started_by = ()

    def stop(self) -> None:
        """The process ends; its timers die with it."""
        self._state.unwatch([self._node_updated, self._pod_updated])
        self._queue.stop()
        if self._node_items_call is not None:
            self._node_items_call.cancel()
        self.let_go()

    def let_go(self) -> None:
        """Nothing of the process is asked for any more: hold nothing that holds it."""
        del self._queue

    def adopt_timer(self, pod: Pod, started_ns: int, due_ns: int) -> None:
        """A pod on a node that was tainted before the start, with its running timer's instants."""
        taints = self._tainted_nodes.get(pod.node_name)
        if taints is None or pod.key in self._state.denied_deletes:
            return
        decision = self._decide(taints, pod.tolerations)
        if not decision.all_tolerated:
            self._schedule(pod, decision)
        elif decision.minimum_ns < 0:
            self._note_forever(pod, decision)
        else:
            due_ns = max(due_ns, self._state.now_ns)
            scheduled = self._record_schedule(pod, decision, started_ns, due_ns)
            self._queue.adopt(pod.key, due_ns, (decision, scheduled))

    # -- event intake -------------------------------------------------------------------------------

    def _node_updated(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None:
            if old.taints is new.taints:
                return
            if no_execute_taints(old.taints) == no_execute_taints(new.taints):
                return
        node = new if new is not None else old
        assert node is not None
        if not self._node_items:
            # Pods may have had those handled for which a call still waits.
            self._node_items_call = self._state.events.schedule_once(
                self._node_items_call,
                self._state.now_ns,
                Priority.NODE_ITEM,
                self._handle_node_items,
            )
        self._node_items[node.name] = None

    def _handle_node_items(self) -> None:
        items, self._node_items = self._node_items, {}
        for name in items:
            self._handle_node_update(name)

    def _pod_updated(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None:
            if old.tolerations == new.tolerations and old.node_name == new.node_name:
                return
        pod = new if new is not None else old
        assert pod is not None
        if new is None and pod.key in self._timing.late_pod_items:
            return  # handled when the name is in use again: then it finds another node and returns
        if new is not None:
            # A worker drains the node items before it handles a pod item; an item of a
            # pod that is gone asks for no taints.
            self._handle_node_items()
        self._handle_pod_update(pod.key, pod.node_name)

    # -- handlers ----------------------------------------------------------------------------------

    def _handle_node_update(self, name: str) -> None:
        node = self._state.nodes.get(name)
        if node is None:
            # Pending timers of its pods are not cancelled.
            self._tainted_nodes.pop(name, None)
            return
        taints = no_execute_taints(node.taints)
        if taints:
            self._tainted_nodes[name] = taints
        else:
            self._tainted_nodes.pop(name, None)
        pods = self._state.pods_by_node.get(name, {})
        for key in list(pods):
            pod = pods.get(key)
            if pod is None:
                continue
            if taints:
                self.process_pod_on_node(pod, taints)
            else:
                self._cancel(pod, CancelReason.NO_TAINT_LEFT)
        if self.followers is not None:
            self.followers(name, taints)

    def _handle_pod_update(self, key: str, node_name: str) -> None:
        pod = self._state.pods.get(key)
        if pod is None:
            self._cancel_work_with_event(key, "", node_name, CancelReason.POD_GONE)
            return
        if pod.node_name != node_name or not node_name:
            return  # no cancel: this is how a timer outlives its pod
        taints = self._tainted_nodes.get(node_name)
        if taints:
            self.process_pod_on_node(pod, taints)

    # -- the decision --------------------------------------------------------------------------------

    def process_pod_on_node(self, pod: Pod, taints: tuple[Taint, ...]) -> None:
        """``processPodOnNode``: delete at once, start a timer, keep one, or cancel one."""
        assert taints, "callers never pass an empty list (upstream would fall through)"
        decision = self._decide(taints, pod.tolerations)
        if not decision.all_tolerated:
            self._cancel(pod, CancelReason.TAINT_NOT_TOLERATED)
            self._schedule(pod, decision)
        elif decision.minimum_ns < 0:
            if self._profile.cancel_on_infinite:
                self._cancel(pod, CancelReason.TOLERATED_FOREVER)
            self._note_forever(pod, decision)
        # "createdAt + m < now + m" is "createdAt < now": a live timer is always kept.
        elif not self._queue.is_live(pod.key):
            self._schedule(pod, decision)

    def _decide(self, taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Decision:
        key = (tuple((t.key, t.value, t.effect) for t in taints), tolerations)
        decision = self.decisions.get(key)
        if decision is None:
            decision = self.decisions[key] = Decision(taints, tolerations, self._comparison)
        return decision

    def _schedule(self, pod: Pod, decision: Decision) -> None:
        """``addWork``: a key that is present, even as NIL, refuses."""
        now_ns = self._state.now_ns
        if decision.minimum_ns > 0:
            due_ns = now_ns + decision.minimum_ns
            because = self._record_schedule(pod, decision, now_ns, due_ns)
        else:
            because = self._cause(pod, decision)
        if not self._queue.add(pod.key, decision.minimum_ns, (decision, because)):
            self._state.record_pod(EvictionRefused, because, pod)

    # -- timed workers ---------------------------------------------------------------------------------

    def _run_worker(self, key: str, note: tuple[Decision, Causes]) -> None:
        """``deletePodHandler`` and the bookkeeping after it."""
        if not self._delete(key, *note) or not self._profile.keep_nil_key:
            self._queue.forget(key)
        elif key in self._state.pods or self._timing.stale_nil == "grace0":
            # Success: NIL, unconditionally. When the object vanished at once, its DELETE item was
            # handled (and the key removed) before this line runs: the key is stale.
            self._queue.keep_nil(key)

    def _delete(self, key: str, decision: Decision, because: Causes) -> bool:
        pod = self._state.pods.get(key)
        about = (key, pod.uid, pod.node_name) if pod is not None else (key, "", "")
        self._state.record(MarkedForDeletion, because, *about)
        failure = self._why_refused(key, pod)
        if failure is not None:
            self._state.record(DeleteFailed, because, *about, failure)
            return False
        deleted = self._state.record(
            PodDeleted,
            because,
            *about,
            TAINT_EVICTION,
            decision.taint,
            decision.toleration_index,
            decision.toleration_seconds,
        )
        self._state.delete_pod(key, because=deleted)
        return True

    def _why_refused(self, key: str, pod: Pod | None) -> DeleteFailure | None:
        """Why all five attempts fail, after which nothing retries; None when the delete succeeds."""
        if pod is None:
            return DeleteFailure.POD_NOT_FOUND
        if key in self._state.denied_deletes:
            return DeleteFailure.REFUSED_BY_API_SERVER
        return delete_is_refused(pod, self._configuration)

    def _cancel(self, pod: Pod, reason: CancelReason) -> None:
        self._cancel_work_with_event(pod.key, pod.uid, pod.node_name, reason)

    def _cancel_work_with_event(self, key: str, uid: str, node: str, reason: CancelReason) -> None:
        note = self._queue.cancel(key)
        if note is not None:
            self._state.record(TimerCancelled, note[1], key, uid, node, reason)

    # -- recording -----------------------------------------------------------------------------------

    def _cause(self, pod: Pod, decision: Decision) -> Causes:
        if decision.taint is None:
            return self._started_by
        key = (pod.node_name, decision.taint.key, NO_EXECUTE)
        return (*self._state.taint_causes.get(key, ()), *self._started_by)

    def _record_schedule(
        self, pod: Pod, decision: Decision, started_ns: int, due_ns: int
    ) -> Causes:
        timeline = self._state.timeline
        scheduled = EvictionScheduled(
            started_ns - timeline.start_ns,
            self._cause(pod, decision),
            pod.key,
            pod.uid,
            pod.node_name,
            decision.taint,
            decision.toleration_index,
            decision.toleration_seconds,
            due_ns - timeline.start_ns,
        )
        return (timeline.append(scheduled),)

    def _note_forever(self, pod: Pod, decision: Decision) -> None:
        because = self._cause(pod, decision)
        taint, index = decision.taint, decision.toleration_index
        self._state.record_pod(ToleratedForever, because, pod, taint, index)
