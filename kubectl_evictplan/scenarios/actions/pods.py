"""Pods that people and their controllers create, delete and change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Pod, Toleration
from kubectl_evictplan.kube.objects import Warning as FileWarning
from kubectl_evictplan.scenarios.field_types import POD_MANIFEST, TOLERATIONS, Manifest
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.names import unknown_name
from kubectl_evictplan.scenarios.scenario import PodsEvent, ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster


class CreatePod(ScenarioEvent, frozen=True, kw_only=True):
    """A pod comes into being, bound to its node already or waiting for one."""

    action = "pod-create"
    told = "the pod is created"
    pods_only = True
    # Its node may be gone.
    seen_by_pod_gc = True
    idle_because = "a pod of that name exists then"

    manifest: Annotated[Manifest, POD_MANIFEST]

    @property
    def pod(self) -> Pod:
        assert isinstance(self.manifest.stored, Pod)
        return self.manifest.stored

    @property
    def pods(self) -> tuple[str, ...]:
        return (self.pod.key,)

    @property
    def touched_nodes(self) -> tuple[str, ...]:
        return (self.pod.node_name,) if self.pod.node_name else ()

    def commutes_with(self, other: ScenarioEvent) -> bool:
        return isinstance(other, CreatePod) and other.pod.key != self.pod.key

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        # Its node may be gone, but it was there once.
        if self.pod.node_name and self.pod.node_name not in history.nodes_ever:
            message = unknown_name("node", self.pod.node_name, history.nodes_ever)
            yield "manifest", f"spec.nodeName: {message}"
        history.pods[self.pod.key] = self.pod

    def happen(self, cluster: SimulatedCluster) -> None:
        state, pod = cluster.state, self.pod
        existing = state.pods.get(pod.key)
        waits = existing and not existing.node_name and existing.deletion_timestamp_ns is None
        if existing is not None and not waits:
            return
        cause = cluster.note(self, pod=pod.key)
        if not pod.creation_timestamp_ns:
            pod = replace(pod, creation_timestamp_ns=state.now_seconds_ns)
        pod = replace(pod, uid=uid_of_created(pod, state.offset_ns))
        if existing is None:
            state.create_pod(pod, cause)
        else:
            # The name waits as its controller's replacement: this is the scheduler binding it.
            state.update_pod(existing, pod)


def uid_of_created(pod: Pod, at_ns: int) -> str:
    """The uid of a pod that a scenario creates at that offset: the manifest's, or one of its own."""
    return pod.uid or f"scenario-{pod.key}-{at_ns}"


class DeletePods(PodsEvent, frozen=True, kw_only=True):
    """Pods are deleted, as by ``kubectl delete pod``; a deletion that comes too late is told too."""

    action = "pod-delete"
    told = "somebody deletes the pod"
    # Terminating pods of out-of-service nodes are its business.
    seen_by_pod_gc = True

    def happen(self, cluster: SimulatedCluster) -> None:
        for key in self.pods:
            cluster.state.delete_pod(key, because=cluster.note(self, pod=key))


class SetTolerations(PodsEvent, frozen=True, kw_only=True):
    """The whole list of tolerations of pods is replaced."""

    action = "pod-tolerations"
    told = "the pod's tolerations are replaced"
    idle_because = "the pod does not exist then"

    tolerations: Annotated[tuple[Toleration, ...], TOLERATIONS]

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        # The API server lets tolerations be added, but only their seconds be changed.
        new = {(t.key, t.operator, t.value, t.effect) for t in self.tolerations}
        losing = tuple(
            f"pod/{key}"
            for key in self.pods
            if any(
                (old.key, old.operator, old.value, old.effect) not in new
                for old in history.pods[key].tolerations
            )
        )
        if losing:
            message = (
                f"{self.where}: the new list lacks tolerations the pod has; an API server refuses to "
                "remove any"
            )
            history.warnings.append(FileWarning("tolerations-removed", message, losing))
        return iter(())

    def happen(self, cluster: SimulatedCluster) -> None:
        for key in self.pods:
            pod = cluster.state.pods.get(key)
            if pod is not None:
                cluster.note(self, pod=key)
                cluster.state.update_pod(pod, replace(pod, tolerations=self.tolerations))
