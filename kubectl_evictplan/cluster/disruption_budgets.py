"""PodDisruptionBudgets as the API server stores them: statuses with versions, and who is covered.

The Eviction API and the disruption controller meet here: each write makes a new version, and a write that is
based on an older one is refused as a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.disruption import is_stale
from kubectl_evictplan.kube.objects import Pod, PodDisruptionBudget


class DisruptionBudgets:
    """Budgets by their place in the list given; places never change."""

    def __init__(self, state: ClusterState, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._state = state
        self._budgets = list(budgets)
        self._versions = [0] * len(self._budgets)
        self._open_until_ns: list[int | None] = [None] * len(self._budgets)
        self._index = BudgetIndex(tuple(self._budgets))
        self._covered: list[dict[str, Pod]] = [{} for _ in self._budgets]
        # Labels do not change here, so neither does what covers a pod of one name.
        self._places: dict[str, tuple[int, ...]] = {}
        self._watchers: list[Callable[[int], None]] = []
        # In the order in which they began to watch.
        self._watchers_of: list[dict[Callable[[], None], None]] = [{} for _ in self._budgets]
        for pod in state.pods.values():
            self._pod_changed(None, pod)
        state.watch_pods(self._pod_changed)
        state.watch_readiness(self._pod_changed)

    def __len__(self) -> int:
        return len(self._budgets)

    def __getitem__(self, place: int) -> PodDisruptionBudget:
        return self._budgets[place]

    def version(self, place: int) -> int:
        """The budget's resourceVersion."""
        return self._versions[place]

    def written_open_ns(self, place: int) -> int | None:
        """When a status that let somebody go was last written over in this run (epoch); None: not yet."""
        return self._open_until_ns[place]

    def covering(self, pod: Pod) -> tuple[int, ...]:
        """Places of the budgets whose selectors match the pod."""
        places = self._places.get(pod.key)
        if places is None:
            places = self._places[pod.key] = tuple(self._index.matching(pod))
        return places

    def pods(self, place: int) -> list[Pod]:
        """Every pod that the budget covers now."""
        return list(self._covered[place].values())

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Deliver the place of every budget whose status is written."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Stop delivering to a watcher."""
        self._watchers = [other for other in self._watchers if other != watcher]

    def watch_covering(self, pod: Pod, watcher: Callable[[], None]) -> None:
        """Tell of every write of a budget that covers the pod; costs nothing when others are written."""
        for place in self.covering(pod):
            self._watchers_of[place][watcher] = None

    def unwatch_covering(self, pod: Pod, watcher: Callable[[], None]) -> None:
        """Stop telling a watcher of the budgets that cover a pod."""
        for place in self.covering(pod):
            self._watchers_of[place].pop(watcher, None)

    def write(self, place: int, budget: PodDisruptionBudget) -> None:
        """Store a status and notify."""
        before = self._budgets[place]
        if before.disruptions_allowed and not is_stale(before):
            self._open_until_ns[place] = self._state.events.now_ns
        self._budgets[place] = budget
        self._versions[place] += 1
        for watcher in list(self._watchers):
            watcher(place)
        for waiting in tuple(self._watchers_of[place]):
            waiting()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None, "a change has a pod"
        for place in self.covering(pod):
            if new is None:
                self._covered[place].pop(pod.key, None)
            else:
                self._covered[place][pod.key] = new
