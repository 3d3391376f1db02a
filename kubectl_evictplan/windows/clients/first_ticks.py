"""The first tick of a new process, which writes anew what nodes say of themselves, and waits for its client with that.

It takes all taints off, workers beside it correct those that let nobody onto a node, and an event is told of every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from kubectl_evictplan.controllers.client_limits import AHEAD, OF_TAINT, ClientLimit
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_SCHEDULE, ClusterSnapshot
from kubectl_evictplan.kube.taints import LIFECYCLE_NO_EXECUTE_KEYS
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    Exploration,
    WindowOverRuns,
    follows_ticks,
    is_ready,
)
from kubectl_evictplan.windows.pod_worlds import happenings
from kubectl_evictplan.windows.spans import Span, meets


def of_first_ticks(
    result: Exploration,
    snapshot: ClusterSnapshot,
    starts: Sequence[Span],
    of_pods: Mapping[str, int],
    changes: Iterable[tuple[str, Span, int]],
    limit: ClientLimit,
) -> Iterator[tuple[str, Span, int]]:
    """What each writes of all nodes that may be tainted, and of pods that are ready where no node is.

    ``of_pods``: by node how many requests it takes to mark its ready pods. ``changes``: what ticks write of nodes beside that.
    An event of each node is told: one such event is in line before each request of that time.
    """
    since = {
        node.name: 0
        for node in snapshot.nodes
        if node.taints and any(taint.key in LIFECYCLE_NO_EXECUTE_KEYS for taint in node.taints)
    }
    corrected: list[Span] = []
    for (key, _), window in result.nodes.windows.items():
        if key.what == TAINT_ADDED and follows_ticks(key):
            since[key.node] = min(since.get(key.node, window.earliest_ns), window.earliest_ns)
        if key.effect == NO_SCHEDULE:
            corrected.append(window.span)
    zones = max(len(result.waiting), 1)
    down = [node.name for node in snapshot.nodes if node.ready_status != "True"]
    # Who was ready at the start the process before it has marked.
    marked = sum(of_pods.get(name, 0) for name in down)
    events = len(snapshot.nodes)
    told_ns = int(events * SECOND_NS / limit.qps)
    for span in starts:
        tainted = sum(since_ns <= span[1] for since_ns in since.values())
        # All taints are taken off at once, and put back one by one in each zone.
        own = OF_TAINT * (tainted + min(tainted, zones)) + marked
        own += OF_TAINT * sum(low <= span[1] and span[0] <= high for low, high in corrected)
        beside = sum(
            number
            for _, (low_ns, high_ns), number in changes
            if low_ns <= span[1] + told_ns and span[0] <= high_ns
        )
        yield "", span, own + min(own + beside + AHEAD, events)


class FirstTicks:
    """How late first ticks are, and what they do however late it is.

    ``starts``: when their processes begin. ``late_at``: how late ticks within a span can be.
    """

    def __init__(
        self,
        starts: Sequence[Span],
        late_at: Callable[[Span], int],
        scenario: Scenario,
        result: Exploration,
    ) -> None:
        self._spans = [span for span in starts if late_at(span)]
        self.late_ns = max(map(late_at, self._spans), default=0)
        self.since_ns = min((low for low, _ in self._spans), default=0)
        self._scenario, self._result = scenario, result

    def surely_removes(self, name: str, window: WindowOverRuns, late_ns: int) -> bool:
        """Whether only a first tick takes the taint off, which decided it at its start, and nothing happens to the node until it does."""
        low_ns, high_ns = window.earliest_ns, window.latest_ns + late_ns
        by_first = any(low <= low_ns and window.latest_ns <= high for low, high in self._spans)
        return by_first and not meets(self._happenings.get(name, ()), (low_ns, high_ns))

    @cached_property
    def _happenings(self) -> dict[str, list[Span]]:
        """By node when something happens to it."""
        found = happenings(self._scenario.events)
        for name, spans in self._result.when(is_ready).items():
            found[name] += spans
        return dict(found)
