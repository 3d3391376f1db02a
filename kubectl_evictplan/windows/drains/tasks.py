"""What kubectl may have to do on one node, pod by pod, counted from when it begins with the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.instants import NodeDrain


class Task(NamedTuple):
    """One pod that kubectl may evict from the node. ``latest_ns`` None: perhaps never, and without what ``place`` costs.

    ``place``: the budget that is asked. ``there``: it surely is, when kubectl comes. ``goes``: by its latest instant it is evicted, by whomever.
    ``through_ns``: from its eviction until kubectl is through with it, at least and at most. ``over_ns``: whenever kubectl looks for it so long after that, it is.
    ``replacement``: it has the name of the pod, but is another one.
    ``held_up_ns``: so much later it is evicted at most because it changes while it is asked for (``CoveredPods.held_up_ns``).
    ``deleted_meanwhile_ns``: so much of it only if somebody else has deleted the pod by then. ``granted``: its first request surely finds a disruption.
    ``heard_late_ns``: if another process has deleted the pod by the latest instant, this one is answered so much later at most.
    """

    pod: Pod
    earliest_ns: int
    latest_ns: int | None
    place: int | None
    through_ns: tuple[int, int | None]
    there: bool
    goes: bool
    replacement: bool
    held_up_ns: int = 0
    granted: bool = False
    deleted_meanwhile_ns: int = 0
    heard_late_ns: int = 0
    over_ns: int = 0


class Contest(NamedTuple):
    """``until_ns`` None: perhaps never, and without what the budgets in ``places`` cost, each by the most that all evictions of others do.

    ``failing``: pods under several budgets; ``held``: those that no budget ever lets go. ``one_by_one``: more than one of its budgets may cost it time.
    ``settles_ns``: so long after kubectl's latest begin with the node they are settled (``Progress.settled_ns``).
    """

    drain: NodeDrain
    tasks: Sequence[Task]
    failing: Sequence[Pod]
    held: Sequence[Pod]
    earliest_ns: int
    until_ns: int | None
    places: frozenset[int]
    one_by_one: bool
    reasons: frozenset[DrainEnd | None]
    settles_ns: int = 0
