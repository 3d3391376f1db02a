"""Where a run is: what its events add up to, node by node and pod by pod. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kubectl_evictplan.apply import progress
from kubectl_evictplan.errors import EXIT_DONE
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.plans.document import AnyOperation, Evict
from kubectl_evictplan.prediction.document import OutcomeWindow, Prediction


class Stage(Enum):
    """How far a node is."""

    WAITING = "waiting"
    CHANGING = "being changed"
    PREPARED = "cordoned"
    EVICTING = "evicting"
    SETTLING = "settling"
    PAUSING = "waits for its time"
    DONE = "done"
    TAKING_BACK = "being taken back"
    TAKEN_BACK = "taken back"
    LEFT_ALONE = "left alone"
    UNTOUCHED = "nothing to take back"
    STOPPED = "not done"


# A node's state at the end of a run tells what became of it only where it got as far as this.
_SETTLED = (Stage.WAITING, Stage.DONE, Stage.TAKEN_BACK, Stage.LEFT_ALONE)


class PodStage(Enum):
    """How far one eviction is."""

    WAITING = "waiting"
    ASKED = "asked"
    BUDGET = "waits for its budget"
    GOING = "being deleted"
    GONE = "gone"
    LEFT = "given up"


@dataclass(slots=True)
class PodView:
    """One eviction: ``predicted`` has its windows, in seconds from the first mutation.

    ``actual_seconds``: when its eviction was accepted, on the same clock; None while it was not.
    """

    key: str
    node: str
    predicted: tuple[OutcomeWindow, ...]
    stage: PodStage = PodStage.WAITING
    actual_seconds: float | None = None
    note: str = ""


@dataclass(slots=True)
class NodeView:
    """One node of the plan, in the plan's order."""

    name: str
    stage: Stage = Stage.WAITING
    pods: list[PodView] = field(default_factory=list)
    others: tuple[str, ...] = ()

    @property
    def gone(self) -> int:
        """How many of its pods are gone."""
        return sum(pod.stage is PodStage.GONE for pod in self.pods)


class RunView:
    """Fills itself event by event; ``nodes`` is what there is to show."""

    def __init__(self, prediction: Prediction | None) -> None:
        self._windows = _windows(prediction)
        self.nodes: dict[str, NodeView] = {}
        self._pods: dict[int, PodView] = {}
        self._first_ns: int | None = None
        self._back = False

    def _begin(self, operations: Sequence[AnyOperation], finished: Collection[int]) -> None:
        for operation in operations:
            node = self.nodes.setdefault(operation.node, NodeView(operation.node))
            if isinstance(operation, Evict):
                windows = self._windows.get((operation.key, operation.uid), ())
                pod = PodView(operation.key, operation.node, windows)
                node.pods.append(pod)
                self._pods[operation.number] = pod
                if operation.number in finished:
                    pod.stage = PodStage.GONE
        for name, node in self.nodes.items():
            mine = [one for one in operations if one.node == name]
            if all(one.number in finished for one in mine):
                node.stage = Stage.DONE
            elif any(one.number in finished for one in mine) and node.pods:
                node.stage = Stage.PREPARED

    def add(self, event: progress.AnyProgress) -> None:
        """Take in one event."""
        match event:
            case progress.RunStarted():
                self._back = event.rollback
                if not self.nodes:  # else the run takes itself back
                    self._begin(event.operations, event.finished)
            case progress.RequestSent():
                if self._first_ns is None:
                    self._first_ns = event.at_ns
                if self._back:
                    self.nodes[event.operation.node].stage = Stage.TAKING_BACK
            case progress.NodeStarted():
                self.nodes[event.node].stage = Stage.CHANGING
            case progress.NodeDone():
                self.nodes[event.node].stage = Stage.DONE
                self.nodes[event.node].others = event.others
            case progress.Paused():
                stage = _PAUSED.get(event.why)
                if event.node in self.nodes and stage is not None:
                    self.nodes[event.node].stage = stage
            case progress.RunEnded():
                self._end(event)
            case _ if self._back:
                self._take_back(event)
            case _:
                self._operation(event)

    def _end(self, event: progress.RunEnded) -> None:
        for node in self.nodes.values():
            if node.stage not in _SETTLED:
                node.stage = Stage.STOPPED
            elif self._back and node.stage is Stage.WAITING and event.exit_code == EXIT_DONE:
                node.stage = Stage.UNTOUCHED

    def _take_back(self, event: progress.AnyProgress) -> None:
        """A rollback is about changes of nodes; one thing left alone on a node is what has to be seen."""
        match event:
            case progress.LeftAlone() if not isinstance(event.operation, Evict):
                self.nodes[event.operation.node].stage = Stage.LEFT_ALONE
            case progress.TakenBack():
                node = self.nodes[event.operation.node]
                if node.stage is not Stage.LEFT_ALONE:
                    node.stage = Stage.TAKEN_BACK

    def _operation(self, event: progress.AnyProgress) -> None:
        operation = getattr(event, "operation", None)
        if operation is None:
            return
        node = self.nodes[operation.node]
        pod = self._pods.get(operation.number)
        if pod is None:
            if isinstance(event, progress.OperationStarted):
                node.stage = Stage.CHANGING
            # kubectl drain cordons all nodes before it evicts from the first.
            if isinstance(event, progress.OperationDone) and node.pods:
                node.stage = Stage.PREPARED
            return
        match event:
            case progress.OperationStarted():
                pod.stage, node.stage = PodStage.ASKED, Stage.EVICTING
            case progress.BudgetWaits():
                pod.stage, pod.note = PodStage.BUDGET, ", ".join(event.causes)
            case progress.EvictionAccepted():
                pod.stage, pod.note = PodStage.GOING, ""
                pod.actual_seconds = self.seconds(event.at_ns)
            case progress.PodGone():
                pod.stage = PodStage.GONE
                if event.replaced:
                    pod.note = "replaced"
            case progress.OperationLeft():
                pod.stage = PodStage.LEFT

    def seconds(self, at_ns: int) -> float | None:
        """Return an instant as an offset from the first mutation; None before it."""
        return None if self._first_ns is None else (at_ns - self._first_ns) / SECOND_NS


_PAUSED = {
    "settle": Stage.SETTLING,
    "until-ready": Stage.SETTLING,
    "offset": Stage.PAUSING,
}


def _windows(
    prediction: Prediction | None,
) -> Mapping[tuple[str, str], tuple[OutcomeWindow, ...]]:
    if prediction is None:
        return {}
    found: dict[tuple[str, str], tuple[OutcomeWindow, ...]] = {}
    for eviction in prediction.evictions:
        found.setdefault((eviction.key, eviction.uid), eviction.windows)
    return found
