"""Events that contradict each other, found by walking the resolved events in order.

Rules: a node falls silent once before it comes back; only what is there can be removed; the
controller goes away before it is back, except that a first ``controller-start`` means it was not
running before. What controllers themselves do meanwhile is not known here, so anything they may
cause (their own taints, evicted pods) is never called a contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.kube.objects import Warning as FileWarning
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

_CONTROLLER_TAINT_PREFIX = "node.kubernetes.io/"
_OBJECTS_SHOWN_MAX = 10


def check_history(
    snapshot: ClusterSnapshot, events: Sequence[ScenarioEvent]
) -> tuple[list[tuple[int, str]], list[FileWarning]]:
    """Return problems as (index of the event, message), and warnings.

    ``events`` are in the order they happen. A problem names both events that do not fit.
    """
    history = _History(snapshot)
    for index, event in enumerate(events):
        history.take(index, event)
    return history.problems, [*history.warnings, *_ties(events)]


class _History:
    """What is known of nodes and the controller after the events so far."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.problems: list[tuple[int, str]] = []
        self.warnings: list[FileWarning] = []
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._pods = {pod.key: pod for pod in snapshot.pods}
        self._taints = {
            node.name: {(taint.key, taint.effect) for taint in node.taints}
            for node in snapshot.nodes
        }
        self._taint_origins: dict[tuple[str, str], ScenarioEvent] = {}
        self._stopped: dict[str, ScenarioEvent] = {}
        self._started: dict[str, ScenarioEvent] = {}
        self._controller: ScenarioEvent | None = None

    def take(self, index: int, event: ScenarioEvent) -> None:
        """Compare one event with what came before, and remember it."""
        rules = {
            "taint": self._taint,
            "untaint": self._untaint,
            "kubelet-stop": self._kubelet_stop,
            "kubelet-start": self._kubelet_start,
            "node-ready": self._node_ready,
            "node-delete": self._node_delete,
            "node-create": self._node_create,
            "pod-tolerations": self._pod_tolerations,
            "controller-stop": self._controller_event,
            "controller-start": self._controller_event,
        }
        rule = rules.get(event.action)
        if rule is not None:
            for message in rule(event):
                self.problems.append((index, message))
        if event.pod is not None:
            self._pods[event.pod.key] = event.pod

    def _taint(self, event: ScenarioEvent) -> list[str]:
        assert event.taint is not None
        for name in event.nodes:
            self._taints[name].add((event.taint.key, event.taint.effect))
        return []

    def _untaint(self, event: ScenarioEvent) -> list[str]:
        """A user's taint must be there; a controller's may have come meanwhile."""
        absent = []
        for name in event.nodes:
            removed = {
                taint
                for taint in self._taints[name]
                if taint[0] == event.taint_key and event.taint_effect in ("", taint[1])
            }
            if removed:
                self._taints[name] -= removed
                self._taint_origins[name, event.taint_key] = event
            elif not event.taint_key.startswith(_CONTROLLER_TAINT_PREFIX):
                absent.append(name)
        if not absent:
            return []
        text = f"{event.taint_key}:{event.taint_effect}" if event.taint_effect else event.taint_key
        before = self._taint_origins.get((absent[0], event.taint_key))
        why = f"removed already by {_where(before)}" if before else "never added before"
        return [f"taint {text} is not on {_listed(absent)}: {why}"]

    def _kubelet_stop(self, event: ScenarioEvent) -> list[str]:
        messages = []
        for name in event.nodes:
            before = self._stopped.get(name)
            if before is not None:
                messages.append(f"the kubelet of {name} is already silent since {_where(before)}")
            self._stopped[name] = event
            self._started.pop(name, None)
        return messages

    def _kubelet_start(self, event: ScenarioEvent) -> list[str]:
        messages = []
        for name in event.nodes:
            before = self._started.get(name)
            if before is not None:
                messages.append(f"the kubelet of {name} is already back since {_where(before)}")
            elif name not in self._stopped and _is_ready(self._nodes[name]):
                messages.append(f"the kubelet of {name} was never stopped, and the node is Ready")
            self._stopped.pop(name, None)
            self._started[name] = event
        return messages

    def _node_ready(self, event: ScenarioEvent) -> list[str]:
        silent = [name for name in event.nodes if name in self._stopped]
        if not silent:
            return []
        where = _where(self._stopped[silent[0]])
        return [f"a silent kubelet cannot post a status: {_listed(silent)} since {where}"]

    def _node_delete(self, event: ScenarioEvent) -> list[str]:
        for name in event.nodes:
            self._stopped.pop(name, None)
            self._started.pop(name, None)
            del self._nodes[name], self._taints[name]
        return []

    def _node_create(self, event: ScenarioEvent) -> list[str]:
        assert event.node is not None
        self._nodes[event.node.name] = event.node
        self._taints[event.node.name] = {(taint.key, taint.effect) for taint in event.node.taints}
        return []

    def _pod_tolerations(self, event: ScenarioEvent) -> list[str]:
        """The API server lets tolerations be added, but only their seconds be changed."""
        new = {(t.key, t.operator, t.value, t.effect) for t in event.tolerations}
        losing = tuple(
            f"pod/{key}"
            for key in event.pods
            if any(
                (old.key, old.operator, old.value, old.effect) not in new
                for old in self._pods[key].tolerations
            )
        )
        if losing:
            message = (
                f"{_where(event)}: the new list lacks tolerations the pod has; an API server "
                "refuses to remove any"
            )
            self.warnings.append(FileWarning("tolerations-removed", message, losing))
        return []

    def _controller_event(self, event: ScenarioEvent) -> list[str]:
        before, self._controller = self._controller, event
        if before is None or before.action != event.action:
            return []
        state = "stopped" if event.action == "controller-stop" else "running"
        return [f"the controller is already {state} since {_where(before)}"]


def _ties(events: Sequence[ScenarioEvent]) -> list[FileWarning]:
    """Return one warning when events at one instant touch the same object."""
    origins: dict[str, None] = {}
    at_ns = -1
    latest: dict[str, ScenarioEvent] = {}
    for event in events:
        if event.at_ns != at_ns:
            at_ns, latest = event.at_ns, {}
        for touched in _touched(event):
            before = latest.get(touched)
            if before is not None and _order_matters(before, event):
                origins.update({before.origin: None, event.origin: None})
            latest[touched] = event
    if not origins:
        return []
    message = (
        "events at the same instant touch the same object: they happen in the order of the file, "
        "and another order can give another result"
    )
    return [FileWarning("tie-at-instant", message, tuple(origins))]


def _touched(event: ScenarioEvent) -> list[str]:
    """Return the objects whose state the event sets; the controller sees them all."""
    if event.action.startswith("controller-"):
        return ["controller"]
    names = [f"node/{name}" for name in event.nodes] + [f"pod/{key}" for key in event.pods]
    if event.node is not None:
        names.append(f"node/{event.node.name}")
    if event.pod is not None:
        names += [f"pod/{event.pod.key}", f"node/{event.pod.node_name}"]
    return names


def _order_matters(first: ScenarioEvent, second: ScenarioEvent) -> bool:
    """Tell whether swapping two events on one object could change the outcome."""
    if first.pod is not None and second.pod is not None:
        return first.pod.key == second.pod.key
    return not ({first.action, second.action} <= {"taint", "untaint"}) or (
        _key(first) == _key(second)
    )


def _key(event: ScenarioEvent) -> str:
    return event.taint.key if event.taint is not None else event.taint_key


def _is_ready(node: Node) -> bool:
    condition = node.condition("Ready")
    return condition is not None and condition.status == "True"


def _where(event: ScenarioEvent) -> str:
    return f"{event.origin or event.action} (at {format_duration(event.at_ns)})"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_OBJECTS_SHOWN_MAX])
    rest = len(names) - _OBJECTS_SHOWN_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown
