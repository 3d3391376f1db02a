"""What differs between two predictions, as a document; ``schema diff`` prints its schema.

*A* is the first prediction, *B* the second one. Offsets count from each prediction's own start.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import Sourced
from kubectl_evictplan.prediction.impact_document import Count, Instant, Spell


class InputDifference(msgspec.Struct, frozen=True, rename="camel"):
    """An input that decided something and is another one in B; null where one has no such input."""

    name: str
    a: Sourced | None
    b: Sourced | None


class EvictionSide(msgspec.Struct, frozen=True, rename="camel"):
    """One eviction as one of the predictions tells it.

    ``toleration_seconds`` is that of the toleration that decided, null when none did or it is without limit;
    ``stuck`` is why the object stays Terminating, null when it does not.
    """

    node: str
    certainty: str
    earliest_seconds: float
    latest_seconds: float
    controller: str
    taint: str
    toleration: str
    toleration_seconds: int | None
    stuck: str | None


class PodDifference(msgspec.Struct, frozen=True, rename="camel"):
    """The ``deletion``-th eviction of a pod, which is not the same in both.

    ``change``: new (in B only) | gone (in A only) | earlier | later | wider | narrower (its window) | otherwise.
    Shifts are B less A. ``also``: certainty | node | controller | taint | toleration | stuck, where those differ.
    ``certainty``: became-certain | became-possible, "" when it is the same. ``stays_because``: why the other
    prediction says that the pod stays, "" where it does not say so.
    """

    namespace: str
    pod: str
    owner: str
    deletion: int
    change: str
    certainty: str
    earliest_shift_seconds: float | None
    latest_shift_seconds: float | None
    also: tuple[str, ...]
    stays_because: str
    a: EvictionSide | None
    b: EvictionSide | None


class DrainSide(msgspec.Struct, frozen=True, rename="camel"):
    """How the drain of a node ends in one of the predictions; null latest: in some run never."""

    end_earliest_seconds: float | None
    end_latest_seconds: float | None
    exit_code: int | None
    end_reason: str | None


class DrainDifference(msgspec.Struct, frozen=True, rename="camel"):
    """The ``drain``-th drain of a node, which does not end alike; null where there is none."""

    node: str
    drain: int
    a: DrainSide | None
    b: DrainSide | None


class FindingDifference(msgspec.Struct, frozen=True, rename="camel"):
    """What one of the predictions finds of these objects, and the other does not."""

    code: str
    severity: str
    objects: tuple[str, ...]


class ImpactSide(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A fact of the impact as one of the predictions has it, in the one field of its type; to the millisecond."""

    count: Count | None = None
    instant: Instant | None = None
    spells: tuple[Spell, ...] | None = None
    names: tuple[str, ...] | None = None


class ImpactDifference(msgspec.Struct, frozen=True, rename="camel"):
    """A fact of the impact that is not the same.

    ``of``: service | workload | budget | volume (a claim) | quorum (of no namespace). ``fact`` is the field of the impact
    document, of a claim that several pods use the one that keeps it longest. ``change``: new | gone (touched in one of
    them only) | earlier | later (instants moved that way) | otherwise. A side is null where there is none.
    """

    of: str
    namespace: str
    name: str
    fact: str
    change: str
    a: ImpactSide | None
    b: ImpactSide | None


class DifferenceCounts(msgspec.Struct, frozen=True, rename="camel"):
    """How many evictions; each is counted once in the first eight, ``became_...`` beside that."""

    new: int
    gone: int
    earlier: int
    later: int
    wider: int
    narrower: int
    otherwise: int
    same: int
    became_certain: int
    became_possible: int


class FactDifference(msgspec.Struct, frozen=True, rename="camel"):
    """A fact of two plans that is not the same, as each of them has it."""

    name: str
    a: str
    b: str


class OperationDifference(msgspec.Struct, frozen=True, rename="camel"):
    """An operation that one plan does not have, or has at another place; its number and offset, null for none."""

    node: str
    operation: str
    a: int | None
    b: int | None
    a_seconds: float | None
    b_seconds: float | None


class PlanDifferences(msgspec.Struct, frozen=True, rename="camel"):
    """What two plan files do not have in common besides their predictions.

    ``same``: both were asked the same (``scenario``, by the fields of its document) and do the same, in the same way and at
    the same offsets, and lose the same. ``pods``: owner and emptyDir data of pods that both know; ``basis`` is what they
    were made from, by whom and where. Both decide nothing here. Losses are told as ``kind namespace/pod``.
    """

    same: bool
    operations: tuple[OperationDifference, ...]
    execution: tuple[FactDifference, ...]
    losses_only_in_a: tuple[str, ...]
    losses_only_in_b: tuple[str, ...]
    basis: tuple[FactDifference, ...]
    scenario: tuple[FactDifference, ...] = ()
    pods: tuple[FactDifference, ...] = ()


class PredictionDiff(msgspec.Struct, frozen=True, rename="camel"):
    """The whole comparison. ``same``: both predict the same evictions, drains, outages and findings, whatever their inputs were.

    Findings are compared object by object; none are told where one of the predictions has no impact, and no ``impacts``. ``plans``:
    null unless both are plan files, whose predictions are compared then.
    """

    a: str
    b: str
    same: bool
    counts: DifferenceCounts
    inputs: tuple[InputDifference, ...]
    pods: tuple[PodDifference, ...]
    drains: tuple[DrainDifference, ...]
    findings_only_in_a: tuple[FindingDifference, ...]
    findings_only_in_b: tuple[FindingDifference, ...]
    warnings_only_in_a: tuple[Warning, ...]
    warnings_only_in_b: tuple[Warning, ...]
    plans: PlanDifferences | None = None
    impacts: tuple[ImpactDifference, ...] = ()
    api_version: str = API_VERSION
    kind: str = "PredictionDiff"
