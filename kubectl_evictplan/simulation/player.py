"""Carries out the scenario's events: what people and kubelets do to the cluster from outside."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, SCENARIO, EventApplied
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.taints import with_taint_put_first, without_taint
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.simulation.manager_process import ControlPlane

READY_UNKNOWN = "ready-unknown"
# Origin of events that play back what the node lifecycle controller wrote in another run.
PLAYED_BACK = "played back"


class ScenarioPlayer:
    """One method per action; an event on an object that does not exist (any more) does nothing."""

    def __init__(
        self, state: ClusterState, kubelets: Kubelets, control_plane: ControlPlane
    ) -> None:
        self._state = state
        self._kubelets = kubelets
        self._control_plane = control_plane
        self._actions: dict[str, Callable[[ScenarioEvent], None]] = {
            "taint": self._taint,
            "untaint": self._untaint,
            "kubelet-stop": self._kubelet_stop,
            "kubelet-start": self._kubelet_start,
            "node-ready": self._node_ready,
            # Not an action of scenario files: the node lifecycle controller's write, played back.
            READY_UNKNOWN: self._ready_unknown,
            "node-delete": self._node_delete,
            "node-create": self._node_create,
            "pod-create": self._pod_create,
            "pod-delete": self._pod_delete,
            "pod-tolerations": self._pod_tolerations,
            "controller-stop": lambda event: self._control_plane.stop(self._note(event)),
            "controller-start": lambda event: self._control_plane.start_cold(self._note(event)),
            "cordon": lambda event: self._set_unschedulable(event, True),
            "uncordon": lambda event: self._set_unschedulable(event, False),
        }

    def bind(self, event: ScenarioEvent) -> Callable[[], None]:
        """The callback that carries out ``event``."""
        action = self._actions[event.action]
        return lambda: action(event)

    def _note(self, event: ScenarioEvent, *, node: str = "", pod: str = "") -> tuple[int, ...]:
        applied = EventApplied(self._state.offset_ns, (), event, node, pod)
        return (self._state.timeline.append(applied),)

    def _existing(self, event: ScenarioEvent) -> list[str]:
        return [name for name in event.nodes if name in self._state.nodes]

    def _taint(self, event: ScenarioEvent) -> None:
        assert event.taint is not None
        for name in self._existing(event):
            new = with_taint_put_first(self._state.nodes[name].taints, event.taint)
            self._write_taints(event, name, new)

    def _untaint(self, event: ScenarioEvent) -> None:
        for name in self._existing(event):
            old = self._state.nodes[name].taints
            new = without_taint(old, event.taint_key, event.taint_effect)
            if new != old:
                self._write_taints(event, name, new)

    def _write_taints(self, event: ScenarioEvent, name: str, taints: tuple[Taint, ...]) -> None:
        if event.origin == PLAYED_BACK:
            by, rule, because = NODE_LIFECYCLE, "SwapNodeControllerTaint", self._cause_of(name)
        else:
            by, rule, because = SCENARIO, "kubectl taint", self._note(event, node=name)
        self._state.patch_node_taints(name, taints, by=by, because=because, rule=rule)

    def _cause_of(self, name: str) -> tuple[int, ...]:
        cause = self._state.node_cause.get(name)
        return () if cause is None else (cause,)

    def _kubelet_stop(self, event: ScenarioEvent) -> None:
        last_ns = event.last_heartbeat_ns
        epoch_ns = None if last_ns is None else self._state.timeline.start_ns + last_ns
        for name in event.nodes:
            self._state.node_cause[name] = self._note(event, node=name)[0]
            self._kubelets.stop(name, epoch_ns)

    def _kubelet_start(self, event: ScenarioEvent) -> None:
        for name in event.nodes:
            self._kubelets.start(name, self._note(event, node=name))

    def _node_ready(self, event: ScenarioEvent) -> None:
        for name in self._existing(event):
            self._kubelets.post_ready(name, event.status, self._note(event, node=name))

    def _ready_unknown(self, event: ScenarioEvent) -> None:
        for name in self._existing(event):
            conditions = tuple(
                replace(condition, status="Unknown") if condition.type == "Ready" else condition
                for condition in self._state.nodes[name].conditions
            )
            self._state.update_node_conditions(name, conditions)

    def _node_delete(self, event: ScenarioEvent) -> None:
        for name in self._existing(event):
            self._state.delete_node(name, self._note(event, node=name))

    def _node_create(self, event: ScenarioEvent) -> None:
        node = event.node
        if node is None or node.name in self._state.nodes:
            return
        self._note(event, node=node.name)
        # The API server stamps what it creates, whatever the manifest says.
        self._state.create_node(replace(node, creation_timestamp_ns=self._now_seconds_ns()))

    def _pod_create(self, event: ScenarioEvent) -> None:
        pod = event.pod
        if pod is None:
            return
        cause = self._note(event, pod=pod.key)
        if not pod.creation_timestamp_ns:
            pod = replace(pod, creation_timestamp_ns=self._now_seconds_ns())
        if not pod.uid:
            pod = replace(pod, uid=f"scenario-{pod.key}-{self._state.offset_ns}")
        existing = self._state.pods.get(pod.key)
        if existing is None:
            self._state.create_pod(pod, cause)
        elif not existing.node_name and existing.deletion_timestamp_ns is None:
            # The name waits as its controller's replacement: this is the scheduler binding it.
            self._state.update_pod(existing, pod)

    def _pod_delete(self, event: ScenarioEvent) -> None:
        for key in event.pods:
            self._state.delete_pod(key, because=self._note(event, pod=key))

    def _pod_tolerations(self, event: ScenarioEvent) -> None:
        for key in event.pods:
            pod = self._state.pods.get(key)
            if pod is not None:
                self._note(event, pod=key)
                self._state.update_pod(pod, replace(pod, tolerations=event.tolerations))

    def _set_unschedulable(self, event: ScenarioEvent, value: bool) -> None:
        for name in self._existing(event):
            node = self._state.nodes[name]
            if node.unschedulable != value:
                self._state.node_cause[name] = self._note(event, node=name)[0]
                self._state.update_node(node, replace(node, unschedulable=value))

    def _now_seconds_ns(self) -> int:
        return self._state.events.now_ns // SECOND_NS * SECOND_NS
