"""What findings are made of: what their authors know, and the objects that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.more_replicas import Scaling
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.owners import OwnerKey
from kubectl_evictplan.prediction.impact_document import Impact, WorkloadImpact
from kubectl_evictplan.prediction.records import CERTAIN, POSSIBLE


class Facts(msgspec.Struct, frozen=True):
    """What findings are made of."""

    world: World
    impact: Impact
    # The workloads of the impact, by namespace and "Kind/name".
    workloads: Mapping[tuple[str, str], WorkloadImpact]
    scaling: Scaling


# What only the worst of thousands of objects is told in, made when it is.
Words = str | Callable[[], str]


class Item(msgspec.Struct, frozen=True):
    """One object of a finding: the worst is told in words, with its remedy ("": the kind's)."""

    object: str
    text: Words
    certainty: str = CERTAIN
    weight: float = 0.0
    remedy: Words = ""


def owned(world: World, owner: OwnerKey) -> str:
    """What people know the owner by, as an object."""
    namespace, workload = world.workload_of(owner)
    kind, _, name = workload.partition("/")
    return f"{kind}/{namespace}/{name}"


def certainty_of(fate: Fate) -> str:
    """Whether it is certain that the pod is deleted."""
    return CERTAIN if fate.deletion is not None and fate.deletion.certain else POSSIBLE
