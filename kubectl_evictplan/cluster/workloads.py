"""Workload controllers, as far as the time of a name's re-use needs them.

A StatefulSet (and a bare name) can be created again only when the old object is gone; a ReplicaSet, Job
or ReplicationController replaces a pod as soon as it is terminating, under a new name; a DaemonSet
creates nothing while its node's taint is untolerated. Only the name that is used again is recorded, as
an unbound pod: where the scheduler puts it is not known here.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.engine.event_queue import Priority
from kubectl_evictplan.kube.objects import Pod


class Workloads:
    """Creates the pods of StatefulSets again when the old objects are gone."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._generated: dict[str, int] = {}
        state.watch_pods(self._pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is not None:
            return
        controller = old.controller()
        if controller is not None and controller.kind == "StatefulSet":
            # After everybody has seen the old object go: its controller is a watcher like the others.
            self._state.events.schedule(
                self._state.now_ns, Priority.OUTSIDE, lambda: self._recreate(old)
            )

    def _recreate(self, gone: Pod) -> None:
        """A StatefulSet re-creates the same name; it stays unbound until the scheduler acts."""
        serial = self._generated[gone.key] = self._generated.get(gone.key, 0) + 1
        if gone.key not in self._state.pods:
            self._state.create_pod(
                replace(
                    gone,
                    uid=f"{gone.uid}+{serial}",
                    node_name="",
                    phase="Pending",
                    ready=None,
                    deletion_timestamp_ns=None,
                    deletion_grace_period_seconds=None,
                )
            )
