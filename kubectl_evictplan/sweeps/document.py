"""What many failures would do, ranked, as documents; ``schema sweep`` prints their schema.

All ``...Seconds`` are offsets from the failure.
"""

from __future__ import annotations

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.prediction.document import Inputs
from kubectl_evictplan.prediction.records import Record


class FailureRow(Record):
    """One failure and what it costs; equal ``rank`` means equal in every figure.

    ``what``: node | zone | pair. ``name`` is the node, the zone or "A, B"; ``nodes`` fall silent. ``pods`` are on them,
    of which ``evicted_certain`` and ``evicted_possible`` go and ``kept`` stay. ``unknown_...`` is when the first
    node becomes Ready=Unknown, ``first_...`` and ``last_...`` when the first and the last pod is evicted.
    ``stuck`` pods stay Terminating. ``emptied`` are workloads that lose every pod they have for certain
    ("namespace/Kind/name"), ``single_replica`` those of them that have one. ``not_coming_back`` are pods that
    nobody makes anew, or that do not come back by themselves. ``services_down`` have nobody ready at some time and
    ``budgets_broken`` too few healthy pods, for certain; those ``..._perhaps`` in some runs only; null where
    budgets are not in the input. ``placement_asked`` false: every replacement counts as if it found a node at once,
    so ``what-if fail`` may tell more that are down, broken or not coming back. ``control_plane`` fails with the nodes: leader (of
    kube-controller-manager; another process takes over) | leader-perhaps (the input does not tell) | controller-manager (nobody
    does) | control-plane (no write succeeds), "" for none of it.
    """

    rank: int
    what: str
    name: str
    zones: tuple[str, ...]
    nodes: tuple[str, ...]
    pods: int
    evicted_certain: int
    evicted_possible: int
    kept: int
    unknown_earliest_seconds: float | None
    unknown_latest_seconds: float | None
    first_earliest_seconds: float | None
    first_latest_seconds: float | None
    last_earliest_seconds: float | None
    last_latest_seconds: float | None
    stuck: int
    emptied: tuple[str, ...]
    single_replica: tuple[str, ...]
    not_coming_back: tuple[str, ...]
    services_down: tuple[str, ...]
    services_down_perhaps: tuple[str, ...]
    budgets_broken: tuple[str, ...] | None
    budgets_broken_perhaps: tuple[str, ...] | None
    control_plane: str = ""
    placement_asked: bool = False


class FlagRow(Record):
    """One failure under one choice of flags and tolerations; ``flags`` and ``toleration_seconds`` as tried.

    ``toleration_seconds`` null: those that the pods have. ``missed_renewals``: so many renewals of a kubelet in a row may
    be lost and its node is never given up. A silence shorter than ``failure.unknownEarliestSeconds`` is not
    noticed, one shorter than ``failure.firstEarliestSeconds`` costs no pod.
    """

    flags: dict[str, str]
    toleration_seconds: int | None
    missed_renewals: int
    failure: FailureRow


class ClusterRow(Record):
    """One cluster of a fleet: how many failures were tried, how many cost something, and the worst of them.

    ``worst`` is null where none costs anything. ``not_evaluated``: as in ``Sweep``, of this cluster.
    """

    cluster: str
    nodes: int
    pods: int
    tried: int
    costly: int
    worst: FailureRow | None
    not_evaluated: tuple[str, ...] = ()


class Sweep(Record):
    """The whole answer; ``what``: nodes | zones | pairs | flags | fleet, which fills one of the three lists.

    ``inputs`` are those of the first prediction without its events; null for a fleet.
    """

    what: str
    inputs: Inputs | None
    failures: tuple[FailureRow, ...] = ()
    cells: tuple[FlagRow, ...] = ()
    clusters: tuple[ClusterRow, ...] = ()
    assumptions: tuple[str, ...] = ()
    not_evaluated: tuple[str, ...] = ()
    api_version: str = API_VERSION
    kind: str = "Sweep"
