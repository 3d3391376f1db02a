"""Replacements of pods that somebody else deletes, where nothing is proven: drawn runs show few of their landings.

That one lands on a drained node before kubectl cordons it takes a coincidence. So who may, and how long kubectl is there then,
is not left to what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kubectl_evictplan.controllers.replication import owner_key
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drain_contests import Contests
from kubectl_evictplan.windows.drain_instants import NodeDrain
from kubectl_evictplan.windows.drain_plan import DrainPlan


class Landings(NamedTuple):
    """``owners`` ("namespace/Kind/name") by node; ``until_ns``: how long kubectl is there for them, from when it comes, None: not known.

    ``at_once``: where kubectl may be through as soon as it comes: nobody else is evicted and none of them landed, or it
    refuses the node for the sake of one.
    """

    owners: Mapping[NodeDrain, frozenset[str]]
    until_ns: Mapping[NodeDrain, int | None]
    at_once: frozenset[NodeDrain]


def landings(plan: DrainPlan, contests: Contests, deleted: Iterable[Pod]) -> Landings:
    """``deleted`` are pods that somebody else may delete, and whose owners replace them."""
    owners = {owner_key(pod) for pod in deleted}
    who: dict[NodeDrain, frozenset[str]] = {}
    until_ns: dict[NodeDrain, int | None] = {}
    at_once = set()
    for turn in plan.turns if owners else ():
        guests = tuple(pod for pod in turn.guests if owner_key(pod) in owners)
        unplayed = plan.unplayed(turn)
        if guests or unplayed:
            met = (*guests, *(one.pod for one in unplayed))
            who[turn.drain] = frozenset(map(_name_of_owner, met))
            strangers = (*turn.strangers, *unplayed)
            alone = turn._replace(pods=(), leaving=(), guests=guests, strangers=strangers)
            until_ns[turn.drain] = contests.through_by_ns(alone)
            if not turn.pods and not turn.leaving:
                at_once.add(turn.drain)
        if plan.may_refuse(turn, unplayed):
            at_once.add(turn.drain)
    return Landings(who, until_ns, frozenset(at_once))


def _name_of_owner(pod: Pod) -> str:
    owner = pod.controller()
    assert owner is not None, "nobody else is replaced"
    return f"{pod.namespace}/{owner.kind}/{owner.name}"
