"""Replacements of pods that somebody else deletes: drawn runs show few of their landings on nodes that are drained.

That one lands there before kubectl cordons the node takes a coincidence. So who may is not left to what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_evictplan.controllers.replication import owner_key
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import DrainPlan


def landings(plan: DrainPlan, deleted: Iterable[Pod]) -> Mapping[NodeDrain, frozenset[str]]:
    """By node the owners ("namespace/Kind/name") of what may land there; ``deleted`` are pods that somebody else may delete, and whose owners replace them."""
    owners = {owner_key(pod) for pod in deleted}
    found: dict[NodeDrain, frozenset[str]] = {}
    for turn in plan.turns if owners else ():
        met = [pod for pod in turn.guests if owner_key(pod) in owners]
        met += [one.pod for one in plan.unplayed(turn)]
        if met:
            found[turn.drain] = frozenset(map(_name_of_owner, met))
    return found


def _name_of_owner(pod: Pod) -> str:
    owner = pod.controller()
    assert owner is not None, "nobody else is replaced"
    return f"{pod.namespace}/{owner.kind}/{owner.name}"
