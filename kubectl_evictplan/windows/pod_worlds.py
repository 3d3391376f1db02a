"""The fate of the pods of one node, for one history of that node.

Taint eviction looks at one node at a time, so the pods of a node can be simulated apart from the rest of
the cluster: the same controllers, on a cluster of that node alone, with the node lifecycle
controller's taints played back as events. That is what makes bounds over many runs affordable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.played_back import LifecycleTaintWritten, ReadyUnknownWritten
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.node_runs import NEVER_NS, LifecycleTaint, NodeRun, Wait
from kubectl_evictplan.windows.queue_order import Episode

# Candidates beyond the two ends of a window, at instants where a pod's fate can change.
_INNER_CANDIDATES_MAX = 6


def taint_key_for(status: str) -> str:
    """The NoExecute taint that a Ready status asks for."""
    return NOT_READY if status == "False" else UNREACHABLE


class EventIndex:
    """The scenario's events by what they concern, so that a world finds its own without a search."""

    def __init__(self, scenario: Scenario) -> None:
        self._events = scenario.events
        self._everywhere: list[int] = []
        self._of_node: dict[str, list[int]] = {}
        self._of_pod: dict[str, list[int]] = {}
        for index, event in enumerate(scenario.events):
            if event.manager_up is not None:
                self._everywhere.append(index)
            for name in event.touched_nodes:
                self._of_node.setdefault(name, []).append(index)
            for key in event.pods:
                self._of_pod.setdefault(key, []).append(index)

    def of(self, names: frozenset[str], pods: tuple[Pod, ...]) -> list[ScenarioEvent]:
        """The parts of events that concern these nodes, their pods and pods created on them."""
        indices = set(self._everywhere)
        for name in names:
            indices.update(self._of_node.get(name, ()))
        keys = {pod.key for pod in pods}
        created = [self._events[index].pod for index in indices]
        keys.update(pod.key for pod in created if pod is not None)
        for key in keys:
            indices.update(self._of_pod.get(key, ()))
        return [self._events[index].restricted_to(names, keys) for index in sorted(indices)]


class PodWorld:
    """A node with its pods, cut out of the snapshot, and the scenario's events that concern them."""

    def __init__(
        self,
        names: frozenset[str],
        nodes: tuple[Node, ...],
        pods: tuple[Pod, ...],
        events: list[ScenarioEvent],
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
    ) -> None:
        self.names = names
        self.events = events
        self.snapshot = replace(
            snapshot,
            nodes=nodes,
            pods=pods,
            leases={name: snapshot.leases[name] for name in names if name in snapshot.leases},
        )
        self._configuration = replace(
            configuration, node_lifecycle_enabled=False, terminated_pod_gc_threshold=0
        )
        self._scenario = scenario
        self._ready_at_start = {
            node.name: ready.status if (ready := node.condition("Ready")) else "Unknown"
            for node in nodes
        }

    def histories(self, name: str, run: NodeRun) -> Iterator[list[LifecycleTaint]]:
        """Taint histories of node ``name`` in one run: one per choice of when it is served.

        Waits that are not certain to be served also yield a history without them.
        """
        waits = [wait for wait in run.waits if wait.window is not None]
        if not waits:
            yield run.taints
            return
        # All waits at their earliest, all at their latest, and each wait's inner candidates.
        yield self._history(name, run, {w.episode: _bounds(w)[0] for w in waits})
        yield self._history(name, run, {w.episode: _bounds(w)[1] for w in waits})
        for wait in waits:
            for at_ns in self._inner_candidates(wait):
                chosen = {w.episode: _bounds(w)[1] for w in waits}
                chosen[wait.episode] = at_ns
                yield self._history(name, run, chosen)
            if wait.window is not None and not wait.window.certain:
                chosen = {w.episode: _bounds(w)[1] for w in waits if w is not wait}
                yield self._history(name, run, chosen)

    def _inner_candidates(self, wait: Wait) -> list[int]:
        low, high = _bounds(wait)
        instants = set()
        for event in self.events:
            for at_ns in (event.at_ns - 1, event.at_ns + 1):
                if low < at_ns < high:
                    instants.add(at_ns)
        return sorted(instants)[:_INNER_CANDIDATES_MAX]

    def _history(self, name: str, run: NodeRun, served: dict[Episode, int]) -> list[LifecycleTaint]:
        """Lifecycle taints when each wait is served at the chosen instant (or not at all)."""
        spans = [
            (wait.episode.eligible_ns, wait.episode.leave_ns)
            for wait in run.waits
            if wait.window is not None
        ]
        # The tick that puts a node in line may first take away a taint from before (a new process).
        history = [
            t
            for t in run.taints
            if not any(a < t.at_ns <= b or (t.added and a == t.at_ns) for a, b in spans)
        ]
        for wait in run.waits:
            at_ns = served.get(wait.episode)
            if wait.window is None or at_ns is None:
                continue
            history.extend(self._served_at(name, run, wait, at_ns))
        # At one instant (the first tick of a new process) old taints go before new ones come.
        return sorted(history, key=lambda taint: (taint.at_ns, taint.added))

    def _served_at(
        self, name: str, run: NodeRun, wait: Wait, at_ns: int
    ) -> Iterable[LifecycleTaint]:
        status = self._ready_at_start.get(name, "Unknown")
        for when_ns, posted in run.ready:
            if when_ns <= at_ns:
                status = posted
        key = taint_key_for(status)
        yield LifecycleTaint(at_ns, True, key)
        for when_ns, decided in run.decided:
            if at_ns < when_ns < wait.episode.leave_ns and decided != "True":
                wanted = taint_key_for(decided)
                if wanted != key:
                    yield LifecycleTaint(when_ns, True, wanted)
                    yield LifecycleTaint(when_ns + 1, False, key)
                    key = wanted
        leave_ns = wait.episode.leave_ns
        if wait.cut_by_stop:
            starts = [e.at_ns for e in self.events if e.manager_up]
            leave_ns = min((at for at in starts if at >= leave_ns), default=NEVER_NS)
        if leave_ns < NEVER_NS and wait.episode.retired_ns == NEVER_NS:
            yield LifecycleTaint(leave_ns, False, key)

    def simulate(
        self,
        histories: dict[str, list[LifecycleTaint]],
        timing: Timing,
        unknown: Iterable[tuple[str, int]] = (),
    ) -> Timeline:
        """Play taint eviction, pod garbage collection and kubelets for that history.

        ``unknown`` are (node, instant) of Ready=Unknown writes: only garbage collection of
        out-of-service nodes looks at them.
        """
        events: list[tuple[int, int, ScenarioEvent]] = [(e.at_ns, 0, e) for e in self.events]
        for name, history in histories.items():
            for change in history:
                written = LifecycleTaintWritten(
                    at_ns=change.at_ns, name=name, key=change.key, added=change.added
                )
                events.append((change.at_ns, 1, written))
        for name, at_ns in unknown:
            events.append((at_ns, 1, ReadyUnknownWritten(at_ns=at_ns, name=name)))
        events.sort(key=lambda item: (item[0], item[1]))
        scenario = replace(self._scenario, events=tuple(event for _, _, event in events))
        return simulate(self.snapshot, scenario, self._configuration, timing)


def _bounds(wait: Wait) -> tuple[int, int]:
    assert wait.window is not None
    return wait.window.earliest_ns, wait.window.latest_ns
