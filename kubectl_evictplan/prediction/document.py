"""The answer: a Prediction document. Its names never change; ``schema prediction`` prints its schema.

All ``...Seconds`` are offsets from the scenario's start with nanosecond-exact decimals kept to
six digits; lists are sorted so that identical input gives identical bytes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import force_setattr

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.objects import NO_EXECUTE, Warning
from kubectl_evictplan.prediction import records
from kubectl_evictplan.prediction.evicted_pods import EvictedPods
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.prediction.records import (
    Because,
    Eviction,
    OutcomeWindow,
    PodRow,
    Record,
    RowsOf,
    TaintReference,
    TolerationReference,
    Window,
)
from kubectl_evictplan.windows.outcome import READY

# Rows are parts of the document, wherever they are defined.
__all__ = [
    "Because",
    "Eviction",
    "OutcomeWindow",
    "PodRow",
    "TaintReference",
    "TolerationReference",
    "Window",
]

CERTAIN, POSSIBLE = records.CERTAIN, records.POSSIBLE

if TYPE_CHECKING:
    _Evictions = Evictions
else:
    # What is read and what the schema says; the document makes ``Evictions`` of any rows.
    _Evictions = tuple[Eviction, ...]


class Sourced(Record):
    """A resolved input and where it came from.

    ``source`` is given | detected | provider preset | default of release | assumed | ..., ``origin``
    what says so there: objects of the input, a public page, a place in a file.
    """

    value: Any
    source: str
    origin: str = ""


class OutageSummary(Record):
    """What is away: control-plane | controller-manager | apiserver; ``until_seconds`` null: it does not come back."""

    component: str
    until_seconds: float | None


class EventSummary(Record):
    """One scenario event as it was resolved.

    ``command`` are the words of kubectl that do it (of a drain with ``--parallel`` and ``--settle`` as well, which ``what-if`` and
    ``apply`` take and kubectl does not), ``undo`` those that undo it, where there are any; the word "{nodes}" stands for the nodes. ``outage`` is the outage that it is a part of, null where it stands for
    itself.
    """

    at_seconds: float
    action: str
    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    detail: str = ""
    origin: str = ""
    command: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    outage: OutageSummary | None = None


class Renewals(Record):
    """What a second look at the leases gained: how well kubelets' last renewals are known.

    ``exact_...`` count the kubelets of which it is known exactly, ``widest_...`` is the widest window
    of the others, from the first look alone and from both.
    """

    apart_seconds: float
    kubelets: int
    exact_before: int
    exact_now: int
    widest_before_seconds: float
    widest_now_seconds: float
    missing: tuple[str, ...] = ()


# Whether every value of an unknown that matters was tried.
WHOLLY, PARTLY = "wholly", "partly"


class UnknownExplored(Record):
    """Something that nobody can know about a run, and whether every value of it that matters was tried.

    ``explored`` is wholly | partly.
    """

    name: str
    what: str
    explored: str


class Coverage(Record):
    """Which windows of evictions are exact, and which are not; all rows of a pod's node share its answer.

    ``exact`` rows have windows that reach as far as what is admissible. Those of ``outer_bound_nodes`` are bounds that
    are proven to hold, but may be wider than what can happen. Those of ``explored_nodes`` reach as far as the runs that
    were tried: they may be too narrow, and nothing there is certain. Changes of nodes and zones are not counted.
    """

    exact: int
    outer_bound: int
    explored: int
    outer_bound_nodes: tuple[str, ...] = ()
    explored_nodes: tuple[str, ...] = ()
    unknowns: tuple[UnknownExplored, ...] = ()


class Inputs(Record):
    """Everything that decided the result, resolved: enough to reproduce it."""

    release: Sourced
    flags: dict[str, Sourced]
    start: Sourced
    horizon: Sourced
    monitor_phase: Sourced
    events: tuple[EventSummary, ...]
    source_digest: str
    nodes: int
    pods: int
    namespaces: int
    ignored_kinds: dict[str, int]
    tool_version: str
    assumptions: tuple[str, ...] = ()
    # The API server's flags that decide which tolerations new pods get.
    api_server_flags: dict[str, Sourced] = msgspec.field(default_factory=dict)
    # Who runs the control plane; null when not recognised.
    provider: Sourced = Sourced(None, "unknown")
    # Since when the present kube-controller-manager leads.
    leader_since: Sourced = Sourced(None, "unknown")
    # Null when the leases were looked at once.
    renewals: Renewals | None = None
    # How completely what nobody knows was explored; null in predictions of earlier versions.
    coverage: Coverage | None = None


JointWhat = Literal["nodes tainted", "pods evicted"]
NODES_TAINTED: Final = "nodes tainted"
PODS_EVICTED: Final = "pods evicted"


class Joint(Record):
    """A statement about several objects together, over every admissible timing and order.

    ``scope`` is "zone/NAME", "node/NAME" or "cluster"; ``what`` is "nodes tainted" or "pods evicted";
    "pod/NAMESPACE/NAME" is one pod that goes for certain, although it is not certain who deletes it;
    at least ``least`` and at most ``most`` of the ``of`` objects by ``by_seconds``.
    """

    scope: str
    what: JointWhat
    least: int
    most: int
    of: int
    by_seconds: float

    @property
    def pod(self) -> str:
        """The one pod, as "namespace/name", that it is about; "" when it is about several objects."""
        kind, _, name = self.scope.partition("/")
        return name if kind == "pod" else ""


class Kept(PodRow):
    """A pod of an affected node that stays, with the reason. ``code`` is a closed set."""

    code: str
    reason: str
    owner: str = ""
    because: tuple[Because, ...] = ()


class Cancelled(PodRow):
    """A timer that was started and cancelled."""

    certainty: str
    started: Window
    cancelled: Window
    reason: str


class NodeChange(Record):
    """A change of a node: ``what`` is ready | taint-added | taint-removed | deleted | created."""

    what: str
    value: str
    certainty: str
    offset_seconds: float | None
    earliest_seconds: float
    latest_seconds: float
    by: str = ""

    @property
    def moves_pods(self) -> bool:
        """Whether pods may be evicted, or stay, because of it: Ready changes, or a NoExecute taint does."""
        return self.what == READY or self.value.endswith(f":{NO_EXECUTE}")


class NodeReport(Record):
    """One affected node: its zone, Ready and taints over time."""

    node: str
    zone: str
    ready_at_start: str
    taints_at_start: tuple[TaintReference, ...]
    changes: tuple[NodeChange, ...]


class ZoneState(Record):
    """From ``offset_seconds`` on the zone is in ``state`` and is tainted at ``rate_per_second``."""

    state: str
    certainty: str
    offset_seconds: float | None
    earliest_seconds: float
    latest_seconds: float
    rate_per_second: float | None
    ready: int
    not_ready: int


class ZoneReport(Record):
    """One zone that holds an affected node; ``zone`` is "region/zone" or "" for unlabelled."""

    zone: str
    states: tuple[ZoneState, ...]


class WorkloadReport(Record):
    """A workload that an eviction hits, by ``Kind/name``, and how many pods it has in the input.

    ``owners`` are what its pods name as their owner: for a Deployment its ReplicaSets.
    """

    namespace: str
    workload: str
    owners: tuple[str, ...]
    pods: int


class RefusedPod(Record):
    """A pod because of which kubectl refuses to drain its node; ``why`` in kubectl's words.

    ``reason`` is the filter: daemon-set | daemon-set-not-found | local-storage | unmanaged.
    """

    pod: str
    reason: str
    why: str


class SkippedPod(Record):
    """A pod that kubectl neither evicts nor refuses to: the filter is its ``reason``."""

    pod: str
    reason: str


class WaitingPod(Record, omit_defaults=True):
    """A pod whose eviction a budget ("namespace/name") refuses (429), and until when it waits, which is over when anybody deletes it.

    ``budget`` is "" where the pod's namespace is Terminating: the Eviction API evicts nobody there (403).
    ``budgets`` are all of them where there are several, which ``budget`` has joined; left out where there is one.
    ``ends``: evicted | timeout | error | never, null when it differs; "horizon": it still waits at the given
    horizon. ``until_latest_seconds`` null: not in every run, or not before the horizon. ``possible_ends`` are all ends
    where there are several.
    """

    pod: str
    budget: str
    from_seconds: float
    until_earliest_seconds: float | None
    until_latest_seconds: float | None
    ends: str | None
    certainty: str
    budgets: tuple[str, ...] = ()
    possible_ends: tuple[str, ...] = ()

    @property
    def every_budget(self) -> tuple[str, ...]:
        """Every budget that refuses it; none where its namespace does."""
        return self.budgets or ((self.budget,) if self.budget else ())


class FailedPod(Record):
    """A pod for which the Eviction API answers with an error, which kubectl does not repeat.

    500: several budgets cover it; 403: the status of the one that does allows fewer than no disruptions, or, without
    budgets, its namespace is Terminating (1.16).
    """

    pod: str
    budgets: tuple[str, ...]
    certainty: str


class ExpectedEnd(Record):
    """How the drain of a node ends if objects that are not in the input do not prevent it.

    No budget covers the node's pods besides those of the input, every owner has as many pods as it wants, no
    namespace is being deleted. ``exit_code`` is null where it may differ.
    """

    end_earliest_seconds: float
    end_latest_seconds: float
    exit_code: int | None
    end_reason: str


class DrainReport(Record):
    """One node of one ``kubectl drain``; ``exit_code`` is that of the whole process.

    ``start_seconds`` null: kubectl does not come to this node. ``end_latest_seconds`` null: in some run it is
    never through with it, or not before the given horizon. ``exit_code`` and ``end_reason`` (drained | refused |
    timeout | error | never) are null when they differ; ``end_reason`` "horizon": the drain is still going on at the
    horizon, or has not begun. ``skipped`` are the pods that kubectl leaves alone, with the filter that does:
    daemon-set | mirror-pod | not-selected | deleted-long-ago. ``not_in_input`` are kinds without which the end is not known,
    ``expected`` how it would be if they prevent nothing, null where that is not known either. ``end_reasons`` are all
    that are possible, where there are several and no other is.
    """

    node: str
    start_seconds: float | None
    start_latest_seconds: float | None
    end_earliest_seconds: float | None
    end_latest_seconds: float | None
    exit_code: int | None
    end_reason: str | None
    refused: tuple[RefusedPod, ...]
    waiting: tuple[WaitingPod, ...]
    failed: tuple[FailedPod, ...]
    origin: str = ""
    skipped: tuple[SkippedPod, ...] = ()
    not_in_input: tuple[str, ...] = ()
    expected: ExpectedEnd | None = None
    end_reasons: tuple[str, ...] = ()

    @property
    def unfinished(self) -> str:
        """Whether pods stay that should go, or kubectl does: certain, possible, or "" for no."""
        if self.end_reason not in (None, "drained"):
            return CERTAIN
        perhaps = self.end_reason is None or self.end_latest_seconds is None
        return POSSIBLE if perhaps else ""


class Prediction(Record, dict=True, gc=True):
    """The whole answer. ``warnings`` hold anything unknown, assumed or surprising.

    ``impact`` is null where nobody asked for it. ``fingerprint`` is that of the whole prediction
    (``prediction/fingerprint.py``), also where ``--explain`` shows a part of it; "" until it is sealed.
    """

    inputs: Inputs
    evictions: _Evictions
    kept: tuple[Kept, ...]
    cancelled: tuple[Cancelled, ...]
    nodes: tuple[NodeReport, ...]
    zones: tuple[ZoneReport, ...]
    drains: tuple[DrainReport, ...]
    workloads: RowsOf[WorkloadReport]
    joint: tuple[Joint, ...]
    warnings: RowsOf[Warning]
    impact: Impact | None = None
    fingerprint: str = ""
    api_version: str = API_VERSION
    kind: str = "Prediction"

    def __post_init__(self) -> None:
        force_setattr(self, "evictions", Evictions.of(self.evictions))

    @cached_property
    def evicted(self) -> EvictedPods:
        """Its evictions, counted by pod."""
        return EvictedPods(self.evictions, filter(None, (one.pod for one in self.joint)))
