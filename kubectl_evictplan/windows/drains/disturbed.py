"""What is proven of a node that kubectl may be busy with when something else happens to the cluster.

Until then all is as without it (``DrainPlan.calm_ns``). From then on budgets promise nothing: somebody else may take their pods away, and what is made
anew may never be Ready. So a pod that a budget is asked about may wait until ``--timeout``, or for ever. Whom nobody is asked about goes at
once, and kubectl waits no longer for it than it takes to end, unless something happens to the node itself.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.placement import Elsewhere
from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.rooms import Rooms
from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.contests import Contests, Priced
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.recovery import Recoveries
from kubectl_evictplan.windows.drains.tasks import Contest, Task
from kubectl_evictplan.windows.drains.world import DrainWorld

_ANYHOW: frozenset[DrainEnd | None] = frozenset(
    (DrainEnd.DRAINED, DrainEnd.REFUSED, DrainEnd.ERROR, None)
)


class Disturbed(NamedTuple):
    """A node, counted from when kubectl begins with it; ``alone``: nothing else happens to the node or its pods meanwhile."""

    contest: Contest
    priced: Priced
    alone: bool


class Disturbances:
    """Of all nodes; ``contests`` are those of a world that is neither steady nor quiet."""

    def __init__(self, plan: DrainPlan, contests: Contests) -> None:
        self._plan = plan
        self._contests = contests
        self.requests = contests.requests

    def of_turn(self, turn: PlannedTurn, begun_ns: int, by_ns: int | None) -> Disturbed:
        """Arguments as those of ``Contests.of_turn``."""
        unplayed = self._plan.unplayed(turn)
        met = turn._replace(strangers=(*turn.strangers, *unplayed))
        known = turn.surely_found and not self._plan.others.makes_pods
        if known and not self._plan.may_refuse(turn, unplayed):
            found = self._contests.of_turn(met, begun_ns, by_ns)
            priced = self._contests.priced((), found, by_ns)
            if (
                turn.calm_ns >= HORIZON_DEFAULT_MAX_NS
                or (priced.end_ns or HORIZON_DEFAULT_MAX_NS) < turn.calm_ns
            ):
                return Disturbed(found, priced, alone=True)
        found = self._of_changing(turn, begun_ns, by_ns)
        return Disturbed(found, self._contests.priced((), found, by_ns), alone=False)

    def _of_changing(self, turn: PlannedTurn, begun_ns: int, by_ns: int | None) -> Contest:
        """A node whose pods others may delete, or keep from ending, and which may be refused, or not be, because of that."""
        changing = self._plan.as_it_may_change(turn)
        untimed = changing._replace(options=replace(turn.options, timeout_ns=0))
        found = self._contests.of_turn(untimed, begun_ns, by_ns)
        ends = self._plan.others.let_end(turn.drain.node)
        tasks = [_loosened(one, ends=ends, one_by_one=found.one_by_one) for one in found.tasks]
        ends = ends and not (self._plan.others.makes_any or found.places)
        found = found._replace(
            tasks=tasks,
            earliest_ns=0,
            until_ns=found.until_ns if ends else None,
            places=frozenset(),
            settles_ns=0,
            reasons=_ANYHOW if not ends or found.until_ns is None else _ANYHOW - {None},
        )
        if not turn.options.timeout_ns:
            return found
        limited = self._contests.limited(found, changing)
        if self._plan.others.makes_any:
            # How many pods it may find is not known.
            return limited._replace(until_ns=None, reasons=limited.reasons | {None})
        return limited


def disturbances(
    world: DrainWorld, plan: DrainPlan, ready: ReadyTimes, rooms: Rooms, rules: EvictionRules
) -> Disturbances:
    """Of a world to which something else happens."""
    covered = CoveredPods(world._replace(steady=False, quiet=False), plan, ready, rules)
    unchanged = (n for n in plan.taking_nodes() if n.name not in world.deleted.changed)
    elsewhere = Elsewhere(unchanged, world.snapshot.pods)
    progress = Progress(covered, Recoveries(covered, elsewhere, rooms), plan)
    return Disturbances(plan, Contests(covered, progress))


def told_together(
    low_ns: int, calm_ns: int, before: tuple[Contest, Priced] | None, after: Disturbed
) -> tuple[Contest, Priced]:
    """The node, whether or not kubectl is through with it by ``calm_ns``; begun at ``low_ns`` at the earliest.

    ``before`` is how it would be if nothing else ever happened, where that is known, ``after`` how it is if something has.
    """
    contest, priced, _ = after
    calm = {} if before is None else _by_pod(*before)
    tasks: list[Task] = []
    latest: list[int | None] = []
    for task, late_ns in zip(contest.tasks, priced.latest_ns, strict=True):
        own, own_late_ns = calm.pop(_name(task), (None, None))
        if own is not None and own_late_ns is not None and own_late_ns < calm_ns:
            tasks.append(own)
            latest.append(own_late_ns)
            continue
        early_ns = max(calm_ns - low_ns, task.earliest_ns)
        if before is None:
            early_ns = task.earliest_ns
        elif own is not None:
            early_ns = min(own.earliest_ns, early_ns)
        tasks.append(task._replace(earliest_ns=early_ns))
        latest.append(late_ns)
    reasons = contest.reasons | (frozenset() if before is None else before[0].reasons)
    if priced.end_ns is not None:
        reasons -= {None}
    earliest_ns = until_another(low_ns, calm_ns, before[0] if before else None, contest)
    return (
        contest._replace(tasks=tasks, earliest_ns=earliest_ns, reasons=reasons),
        priced._replace(latest_ns=latest),
    )


def until_another(low_ns: int, calm_ns: int, before: Contest | None, after: Contest) -> int:
    """How long kubectl is there at least: as if nothing else ever happened if it is through by ``calm_ns``."""
    disturbed_ns = max(after.earliest_ns, calm_ns - low_ns)
    return min(disturbed_ns, before.earliest_ns if before is not None else 0)


def _by_pod(contest: Contest, priced: Priced) -> dict[object, tuple[Task, int | None]]:
    return {
        _name(task): (task, late_ns)
        for task, late_ns in zip(contest.tasks, priced.latest_ns, strict=True)
    }


def _name(task: Task) -> object:
    return task.pod.key, task.pod.uid, task.replacement


def _loosened(task: Task, *, ends: bool, one_by_one: bool) -> Task:
    """The task, of a pod that somebody may have deleted, and that may never end unless its kubelet ``ends`` it."""
    latest_ns = None if one_by_one or task.place is not None else task.latest_ns
    return task._replace(
        latest_ns=latest_ns,
        place=None,
        through_ns=(0, task.through_ns[1] if ends else None),
        there=False,
        goes=False,
    )
