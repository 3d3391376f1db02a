"""Before which offset a budget that is closed at first opens: somebody is Ready then, or is made in the stead of who goes without asking it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from kubectl_evictplan.controllers.replication import owner_key
from kubectl_evictplan.kube.disruption import ALWAYS_ALLOW
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.before import Before
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import until_first_node
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.rounds import Request


class FirstOpenings:
    """Of all budgets. ``unwaiting``: requests that do not wait for a budget; ``is_calm``: as that of ``Progress``."""

    def __init__(
        self,
        covered: CoveredPods,
        drains: Sequence[Drain],
        before: Before,
        unwaiting: Callable[[int], Iterable[Request]],
        is_calm: Callable[[int], bool],
    ) -> None:
        self._covered = covered
        self._drains = drains
        self._before = before
        self._requests_unwaiting = unwaiting
        self._is_calm = is_calm
        self._unwaiting = cache(self._deleted_whatever_it_says)
        self._firsts = cache(self._two_first)
        self._opens = cache(self._opens_first_ns)

    def first_open_ns(self, place: int, pod: Pod, drain: NodeDrain) -> int:
        """Before that offset the budget does not let the pod go while its process drains that node.

        The process comes to its later nodes only when it is through with this one: whom it evicts there makes no room for the pod.
        """
        others = (one for one in self._firsts(place, drain) if one[1] != pod.key)
        first_ns = next((at_ns for at_ns, _ in others), HORIZON_DEFAULT_MAX_NS)
        return self._opens(place, pod.ready == "True", first_ns)

    def _two_first(self, place: int, drain: NodeDrain) -> list[tuple[int, str]]:
        """When the first two of the pods that matter to a budget may be deleted before a process is through with a node, and which.

        Without any what is missing comes from the start on: somebody else deletes some, an owner lacks one, or nobody knows who asks.
        """
        if not self._is_calm(place):
            return [(0, "")]
        firsts: dict[str, int] = {}
        for other, key, begun_ns in self._unwaiting(place):
            if other.process != drain.process or other.place <= drain.place:
                firsts[key] = min(firsts.get(key, begun_ns), begun_ns)
        return sorted((at_ns, key) for key, at_ns in firsts.items())[:2]

    def _deleted_whatever_it_says(self, place: int) -> list[tuple[NodeDrain, str, int]]:
        """Pods that matter to a budget and do not wait for it, each with the node from which it goes, and before which offset not."""
        found = []
        for one in self._requests_unwaiting(place):
            drain = one.turn.drain
            event = self._drains[drain.process]
            begun_ns = event.at_ns + until_first_node(len(event.nodes))[0]
            begun_ns = max(begun_ns, self._before.begins_ns.get(drain, 0))
            found.append((drain, one.pod.key, begun_ns))
        return found

    def _opens_first_ns(self, place: int, ready: bool, first_ns: int) -> int:
        """``first_ns``: before that offset nobody is deleted who counts."""
        facts = self._covered
        budget, covered = facts.world.budgets[place], facts.of_budget(place)
        synced = facts.synced(place, covered)
        healthy, desired = synced.current_healthy or 0, synced.desired_healthy or 0
        always = budget.unhealthy_pod_eviction_policy == ALWAYS_ALLOW and not ready
        missing = desired - healthy + int(ready)
        if (
            always
            or not facts.is_steady(place)
            or missing <= 0
            or healthy > desired
            or synced != budget
            or budget.disruptions_allowed != 0
            or not facts.keeps_its_wish(place)
            or not facts.covers_whole_owners(place)
            # An owner that nobody has read may want fewer than the status says already.
            or any(owner_key(one) in facts.overfull for one in covered)
        ):
            return 0
        starting = [facts.ready_earliest_ns(one) for one in covered if facts.is_starting(one)]
        starting = sorted([*starting, *facts.forgotten_ns(place)])
        made_ns = first_ns + min((facts.ready.range_of(one)[0] for one in covered), default=0)
        later_ns = starting[missing - 1] if missing <= len(starting) else made_ns
        return max(min(later_ns, made_ns), 0)
