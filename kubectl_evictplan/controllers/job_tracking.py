"""The Job controller, as far as it takes its finalizer from deleted pods.

Upstream: ``trackJobStatusAndRemoveFinalizers``, ``canRemoveFinalizer``, ``isPodFailed`` and ``syncOrphanPod``
(pkg/controller/job/job_controller.go, 1.37.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.event_queue import Priority, ScheduledCall
from kubectl_evictplan.kube.finalizers import (
    JOB_TRACKING,
    is_tracked_by_job_controller,
    jobs_managed_elsewhere,
)
from kubectl_evictplan.kube.objects import Pod, Workload
from kubectl_evictplan.scenarios.scenario import Scenario


def job_controller_runs_in_the_end(
    configuration: ControllerConfiguration, scenario: Scenario
) -> bool:
    """Whether it is switched on, and the last word about its process is not that it goes away."""
    said = [event.manager_up for event in scenario.events if event.manager_up is not None]
    return configuration.job_enabled and (not said or said[-1])


class JobTracking:
    """Runs as long as its process of kube-controller-manager does.

    ``delay_ns``: from the change of a pod (its key is given) to the removal.
    """

    def __init__(
        self,
        state: ClusterState,
        workloads: Iterable[Workload],
        delay_ns: Callable[[str], int],
    ) -> None:
        self._state = state
        self._delay_ns = delay_ns
        workloads = list(workloads)
        self._elsewhere = jobs_managed_elsewhere(workloads)
        # A deleted pod of others has not failed before its containers have ended: with failure rules that is the default, and
        # Jobs that nobody listed may have some.
        self._hasty = {
            (one.namespace, one.name)
            for one in workloads
            if one.kind == "Job" and not one.waits_for_ends
        }
        self._calls: dict[str, ScheduledCall] = {}

    def start(self, *, warm: bool) -> None:
        """Watch pods, and look at those that there are; ``warm`` makes no difference."""
        self._state.watch_pods(self._pod_changed)
        for pod in list(self._state.pods.values()):
            self._pod_changed(None, pod)

    def stop(self) -> None:
        """The process is gone."""
        self._state.unwatch([self._pod_changed])
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.uid in self._calls or not self._counts_as_failed(new):
            return
        key, uid, events = new.key, new.uid, self._state.events

        def remove() -> None:
            self._calls.pop(uid, None)
            self._state.remove_finalizer(key, uid, JOB_TRACKING)

        at_ns = events.now_ns + self._delay_ns(key)
        self._calls[uid] = events.schedule(at_ns, Priority.OUTSIDE, remove)

    def _counts_as_failed(self, pod: Pod) -> bool:
        """``isPodFailed`` of a pod that has the finalizer and is deleted."""
        if pod.deletion_timestamp_ns is None or not is_tracked_by_job_controller(
            pod, self._elsewhere
        ):
            return False
        owner = pod.controller()
        if owner is None or (pod.namespace, owner.name) in self._hasty:
            return True
        return pod.finished or pod.deletion_grace_period_seconds == 0
