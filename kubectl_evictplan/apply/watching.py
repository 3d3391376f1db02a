"""The rules of --abort-if, looked at whenever something new may be started, and in pauses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubectl_evictplan.apply.cluster import LiveWorkload
from kubectl_evictplan.apply.conditions import (
    EVICTED,
    NOT_READY_NODES,
    WAITING,
    Condition,
    holds,
)
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.working import Working
from kubectl_evictplan.gates.language import Comparison

# What costs a request is not asked for more often.
LOOK_SECONDS = 5.0
_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")


class Conditions:
    """All rules of a run; ``waited_seconds`` tells how long a budget has kept a pod."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        # What was read last, by figure and argument, and when.
        self._read: dict[tuple[str, str], tuple[float, float | None]] = {}
        self.waited_seconds: Callable[[], float] = lambda: 0.0

    def look(self, run: Working) -> None:
        """Raise Ended when a rule holds, or when nobody can tell any more whether it does."""
        for condition in self._conditions:
            held = holds(condition.rule, lambda one: self._value(one, run))
            if held is not False:
                told = "" if held else "it cannot be told whether it holds"
                raise Ended(Ending(EndCode.ABORTED, condition=condition.words, message=told))

    def look_again(self, run: Working) -> None:
        """Look at all of them, and read everything anew."""
        self._read.clear()
        self.look(run)

    def _value(self, comparison: Comparison, run: Working) -> float | None:
        if comparison.figure == EVICTED:
            return len(run.state.evicted)
        if comparison.figure == WAITING:
            return self.waited_seconds()
        key, now = (comparison.figure, comparison.argument), run.world.monotonic()
        if key not in self._read or now - self._read[key][0] >= LOOK_SECONDS:
            self._read[key] = (now, run.read(lambda: _asked(comparison, run)))
        return self._read[key][1]


def _asked(comparison: Comparison, run: Working) -> float | None:
    if comparison.figure == NOT_READY_NODES:
        return run.api.count_not_ready_nodes()
    workload = _workload(comparison.argument, run)
    return None if workload is None else max(workload.wanted - workload.ready, 0)


def _workload(place: str, run: Working) -> LiveWorkload | None:
    namespace, *rest = place.split("/")
    name = rest[-1]
    for kind in rest[:-1] or _KINDS:
        workload = run.api.get_workload(namespace, kind, name)
        if workload is not None:
            return workload
    return None
