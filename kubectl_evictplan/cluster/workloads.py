"""Workload controllers, as far as the time of a name's re-use needs them.

A StatefulSet (and a bare name) can be created again only when the old object is gone; a ReplicaSet, Job
or ReplicationController replaces a pod as soon as it is terminating, under a new name; a DaemonSet
creates nothing while its node's taint is untolerated (spec taint-eviction 7.4). Replacements are
recorded as unbound pods: where the scheduler puts them is not known here.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import Entry
from kubectl_evictplan.engine.event_queue import Priority
from kubectl_evictplan.kube.objects import Pod

REPLACEMENT = "replacement"
_REPLACES_AT_DELETION = {"ReplicaSet", "ReplicationController", "Job"}
_REPLACES_WHEN_GONE = {"StatefulSet"}


class Workloads:
    """Replaces pods that their controllers would replace."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._generated: dict[str, int] = {}
        state.watch_pods(self._pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None:
            return
        controller = old.controller()
        if controller is None:
            return
        started_terminating = (
            old.deletion_timestamp_ns is None
            and old.phase not in ("Succeeded", "Failed")
            and (new is None or new.deletion_timestamp_ns is not None)
        )
        if controller.kind in _REPLACES_AT_DELETION and started_terminating:
            self._note(old, f"{controller.kind}/{controller.name} creates a new pod at once")
        elif controller.kind in _REPLACES_WHEN_GONE and new is None:
            # After everybody has seen the old object go: its controller is a watcher like the others.
            self._state.events.schedule(
                self._state.events.now_ns, Priority.OUTSIDE, lambda: self._recreate(old)
            )

    def _recreate(self, gone: Pod) -> None:
        """A StatefulSet re-creates the same name; it stays unbound until the scheduler acts."""
        serial = self._generated[gone.key] = self._generated.get(gone.key, 0) + 1
        self._note(gone, "StatefulSet re-creates the same name now that the object is gone")
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

    def _note(self, pod: Pod, what: str) -> None:
        self._state.timeline.append(
            Entry(
                at_ns=self._state.offset_ns,
                kind=REPLACEMENT,
                subject=pod.key,
                node=pod.node_name,
                uid=pod.uid,
                detail=what,
            )
        )
