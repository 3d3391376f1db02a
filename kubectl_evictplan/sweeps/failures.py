"""Failures of nodes, each predicted as ``what-if fail`` would, and ranked by what they cost. Pure.

A row holds what a reviewer compares; whoever wants the reasons asks ``what-if fail`` for that failure, which says
the same. Where a replacement finds a node is asked of every failure of the sweep if these are not too many
(``Failing.asks_placement``), else of those that come first (``second_look.py``). Rows say which it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.drain_timing import AssumeReady
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.impact.budgets import budget_impacts
from kubectl_evictplan.impact.comebacks import not_coming_back
from kubectl_evictplan.impact.coupled import CoupledPods
from kubectl_evictplan.impact.endpoints import Endpoints
from kubectl_evictplan.impact.successors import Assumed
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import CERTAIN, Inputs, Prediction
from kubectl_evictplan.prediction.evicted_pods import emptied_workloads
from kubectl_evictplan.prediction.impact_document import BudgetImpact, Impact, Spell
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.prediction.prepared import PreparedCluster
from kubectl_evictplan.scenarios.failing_nodes import (
    ControlPlaneNodes,
    Fallen,
    control_plane_nodes,
)
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.sweeps.alike_failures import AlikeFailures
from kubectl_evictplan.sweeps.document import ClusterRow, FailureRow
from kubectl_evictplan.windows.outcome import READY

NODE, ZONE, PAIR = "node", "zone", "pair"
# Of a failure alone ``what-if fail`` tells it.
NOT_PLACED = (
    "placement: where a row was not asked, every replacement counts as if it found a node at once"
)
NO_NEEDS = (
    "placement: what some pods need, or what nodes offer, is not in the input; replacements of these count as if they"
    " found a node at once"
)
# Every failure is held against every node: about 20 s of processor time at both limits.
_PLACED_NODES_MAX = 200
_PLACED_MAX = 40_000
_BARE_POD = "bare-pod-lost"


class Failure(NamedTuple):
    """Nodes that fall silent together; ``what`` is node, zone or pair, ``name`` what people call it."""

    what: str
    name: str
    nodes: tuple[str, ...]


class Costs(NamedTuple):
    """What rows tell of the impact: when services have nobody ready and budgets too few, and who stays away.

    ``broken`` None: which budgets there are is not known. ``placement_asked``: not every replacement counts as if it
    found a node.
    """

    nobody_ready: Mapping[str, tuple[Spell, ...]]
    broken: Mapping[str, tuple[Spell, ...]] | None
    not_coming_back: frozenset[str]
    placement_asked: bool = False


def costs_of(impact: Impact, snapshot: ClusterSnapshot) -> Costs:
    """Return what rows tell of an impact that is there already."""
    return Costs(
        {f"{one.namespace}/{one.service}": one.nobody_ready for one in impact.services},
        _broken(impact.budgets) if budgets_listed(snapshot) else None,
        frozenset(f"{one.namespace}/{one.pod}" for one in impact.not_coming_back),
        placement_asked=True,
    )


def _broken(budgets: Iterable[BudgetImpact]) -> dict[str, tuple[Spell, ...]]:
    return {f"{one.namespace}/{one.budget}": one.broken for one in budgets}


def needs_listed(snapshot: ClusterSnapshot) -> bool:
    """Whether the input tells what all pods need and what any node offers."""
    offered = any(node.allocatable for node in snapshot.nodes) or not snapshot.nodes
    return offered and all(pod.needs is not None for pod in snapshot.pods if not pod.finished)


def budgets_listed(snapshot: ClusterSnapshot) -> bool:
    """Whether the input tells which budgets there are."""
    return "PodDisruptionBudget" in snapshot.kinds_seen


class Failing:
    """One cluster under one configuration, for any number of failures at one instant.

    ``back_ns``: the kubelets are back after so long, None: never. Can be sent to another process.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        configuration: ControllerConfiguration,
        start_ns: int,
        horizon_ns: int | None = None,
        back_ns: int | None = None,
        assume_ready: tuple[int, int | None] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._configuration = configuration
        self._start_ns = start_ns
        self._horizon_ns = horizon_ns
        self._back_ns = back_ns
        self._assume_ready = assume_ready
        self._prepared: PreparedCluster | None = None
        self._coupled: CoupledPods | None = None
        self._endpoints: Endpoints | None = None
        self._asked: tuple[Failure, ...] = ()
        self._alike: AlikeFailures | None = None
        self._control_plane: ControlPlaneNodes = control_plane_nodes(snapshot)

    def prepare(self, failures: Sequence[Failure] = ()) -> None:
        """Find out what all failures have in common, before processes share it.

        ``failures`` are those that will be asked for: alike ones among them need not all be predicted.
        """
        self._asked = (*self._asked, *failures)
        if self._prepared is None:
            self._prepared = PreparedCluster(self._snapshot, self._configuration, self._start_ns)
            self._prepared.complete()
            self._coupled = CoupledPods(self._snapshot)
            self._endpoints = Endpoints(self._snapshot)
        if self._asked and self._alike is None and self._back_ns is None:
            # Whatever takes a part of the control plane along is like no other.
            single = (
                one
                for one in self._asked
                if one.what == NODE and self.fallen(one) is Fallen.NOTHING
            )
            scenarios = ((one.name, self.scenario(one)) for one in single)
            self._alike = AlikeFailures(self._prepared, scenarios)

    def scenario(self, failure: Failure) -> Scenario:
        """Return the failure as a scenario: kubelets fall silent at its start, and what fails with their nodes."""
        name = f"fail {failure.what} {failure.name}"
        grace_ns = self._configuration.node_monitor_grace_period_ns
        events = self._control_plane.events(
            failure.nodes, self._back_ns, self._snapshot, grace_ns, name
        )
        return Scenario(self._start_ns, tuple(events), horizon_ns=self._horizon_ns, name=name)

    def fallen(self, failure: Failure) -> Fallen:
        """What of the control plane fails with it, and not for a moment only."""
        if self._control_plane.outlives(self._back_ns):
            return Fallen.NOTHING
        return self._control_plane.fallen(frozenset(failure.nodes))

    def predicted(self, failure: Failure) -> Prediction:
        """Return what ``what-if fail`` says."""
        self.prepare()
        return predict(
            self._snapshot, self.scenario(failure), self._configuration, prepared=self._prepared
        )

    def row(self, failure: Failure) -> FailureRow:
        """Return what the failure costs, not ranked yet."""
        self.prepare()
        alike = self._alike if failure.what == NODE else None
        prediction = None if alike is None else alike.prediction(failure.name)
        prediction = prediction or self.predicted(failure)
        fallen = self.fallen(failure)
        if self.asks_placement:
            return failure_row(failure, prediction, self._whole_costs(failure, prediction), fallen)
        costs = self._costs(failure, prediction, whole=False)
        return failure_row(failure, prediction, costs, fallen)

    def placed_row(self, failure: Failure) -> FailureRow:
        """Return the same, asked whether replacements find a node, however long that takes."""
        prediction = self.predicted(failure)
        costs = self._costs(failure, prediction, whole=True)
        return failure_row(failure, prediction, costs, self.fallen(failure))

    @property
    def asks_placement(self) -> bool:
        """Whether rows ask which replacements find a node: of all failures together, if they are not too many."""
        nodes = len(self._snapshot.nodes)
        return nodes <= _PLACED_NODES_MAX and nodes * len(self._asked) <= _PLACED_MAX

    def _whole_costs(self, failure: Failure, prediction: Prediction) -> Costs:
        """Return the same from the whole impact, which knows who finds no node."""
        assert self._prepared is not None, "prepared by the prediction"
        scenario = self.scenario(failure)
        known = (self._snapshot, scenario, self._prepared.configuration(scenario), prediction)
        return costs_of(assess_impact(*known, assume_ready=self._assume_ready), self._snapshot)

    def _costs(self, failure: Failure, prediction: Prediction, *, whole: bool) -> Costs:
        """Return those parts of the impact that rows tell, from the part of the cluster that they need, or all of it."""
        assert self._prepared is not None, "prepared by the prediction"
        assert self._coupled is not None and self._endpoints is not None, "likewise"
        scenario = self.scenario(failure)
        part = self._snapshot
        if not whole:
            part = self._coupled.around(self._prepared.relevant(scenario, None))
        given = self._assume_ready is not None
        assumed = Assumed(AssumeReady(*(self._assume_ready or AssumeReady())), given)
        configuration = self._prepared.configuration(scenario)
        world = World(part, scenario, configuration, prediction, assumed, part=not whole)
        return Costs(
            {"/".join(key): spells for key, spells in self._endpoints.nobody_ready(world)},
            _broken(budget_impacts(world)) if budgets_listed(self._snapshot) else None,
            frozenset(f"{one.namespace}/{one.pod}" for one in not_coming_back(world)),
            placement_asked=whole,
        )

    def inputs(self, failure: Failure) -> Inputs:
        """Return what decided, apart from the failure itself."""
        return replace(self.predicted(failure).inputs, events=())

    def __getstate__(self) -> dict[str, object]:
        found_out = {"_prepared": None, "_coupled": None, "_endpoints": None, "_alike": None}
        return {**self.__dict__, **found_out}


def failure_row(
    failure: Failure, prediction: Prediction, costs: Costs, fallen: Fallen = Fallen.NOTHING
) -> FailureRow:
    """Return the figures of one prediction; pods are counted once, however often they go."""
    evictions = prediction.evictions
    certain, possible = prediction.evicted.certain, prediction.evicted.possible
    kept = {kept.key for kept in prediction.kept} - certain - possible
    emptied = [
        (f"{one.namespace}/{one.workload}", one.pods) for one in emptied_workloads(prediction)
    ]
    unknown = [
        (change.earliest_seconds, change.latest_seconds)
        for report in prediction.nodes
        if report.node in failure.nodes
        for change in report.changes
        if change.what == READY and change.value == "Unknown"
    ]
    # Of pods that may go twice the first time counts for the first eviction, the last for the last.
    spans = [(eviction.earliest_seconds, eviction.latest_seconds) for eviction in evictions]
    services = _certain_and_perhaps(costs.nobody_ready)
    budgets = (None, None) if costs.broken is None else _certain_and_perhaps(costs.broken)
    return FailureRow(
        rank=0,
        what=failure.what,
        name=failure.name,
        zones=tuple(sorted({r.zone for r in prediction.nodes if r.node in failure.nodes})),
        nodes=failure.nodes,
        pods=len(certain | possible | kept),
        evicted_certain=len(certain),
        evicted_possible=len(possible),
        kept=len(kept),
        unknown_earliest_seconds=min((low for low, _ in unknown), default=None),
        unknown_latest_seconds=min((high for _, high in unknown), default=None),
        first_earliest_seconds=min((low for low, _ in spans), default=None),
        first_latest_seconds=min((high for _, high in spans), default=None),
        last_earliest_seconds=max((low for low, _ in spans), default=None),
        last_latest_seconds=max((high for _, high in spans), default=None),
        stuck=len(prediction.evicted.all_stuck),
        emptied=tuple(name for name, _ in emptied),
        single_replica=tuple(name for name, pods in emptied if pods == 1),
        not_coming_back=_not_coming_back(prediction, costs),
        services_down=services[0],
        services_down_perhaps=services[1],
        budgets_broken=budgets[0],
        budgets_broken_perhaps=budgets[1],
        placement_asked=costs.placement_asked,
        control_plane=fallen.value,
    )


def _certain_and_perhaps(
    told: Mapping[str, tuple[Spell, ...]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of what comes in every run, and of what comes in some only."""
    sure = {key for key, spells in told.items() if any(one.certainty == CERTAIN for one in spells)}
    perhaps = {key for key, spells in told.items() if spells} - sure
    return tuple(sorted(sure)), tuple(sorted(perhaps))


def _not_coming_back(prediction: Prediction, costs: Costs) -> tuple[str, ...]:
    """Return "namespace/name" of pods that do not come back, or not by themselves."""
    lost = {
        key
        for warning in prediction.warnings
        if warning.code == _BARE_POD
        for key in warning.objects
    }
    return tuple(sorted(lost | costs.not_coming_back))


def ranked(rows: Iterable[FailureRow]) -> tuple[FailureRow, ...]:
    """Return the rows with their ranks, the worst first; those that cost the same by name."""
    order = sorted(rows, key=lambda row: (_cost(row), row.what, row.name))
    found: list[FailureRow] = []
    for place, row in enumerate(order):
        alike = place > 0 and _cost(order[place - 1]) == _cost(row)
        found.append(replace(row, rank=found[-1].rank if alike else place + 1))
    return tuple(found)


def _cost(row: FailureRow) -> tuple[float, ...]:
    """What the rank goes by, the worst least: the control plane, services, budgets, workloads, pods, and how soon."""
    first = row.first_earliest_seconds
    return (
        -int(loses_control_plane(row)),
        -len(row.services_down),
        -len(row.services_down_perhaps),
        -len(row.budgets_broken or ()),
        -len(row.budgets_broken_perhaps or ()),
        -len(row.emptied),
        -len(row.not_coming_back),
        -row.evicted_certain,
        -row.evicted_possible,
        float("inf") if first is None else first,
    )


def failures_of_pairs(names: Sequence[str]) -> list[Failure]:
    """Return every pair of the nodes, in order."""
    return [
        Failure(PAIR, f"{one}, {other}", (one, other))
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    ]


def ranked_clusters(rows: Iterable[ClusterRow]) -> tuple[ClusterRow, ...]:
    """Return the clusters, that with the worst failure first; equal ones by name."""

    def place(row: ClusterRow) -> tuple[bool, tuple[float, ...], str]:
        return row.worst is None, _cost(row.worst) if row.worst is not None else (), row.cluster

    return tuple(sorted(rows, key=place))


def loses_control_plane(row: FailureRow) -> bool:
    """Whether nobody is left who evicts or replaces a pod."""
    return row.control_plane in (Fallen.MANAGERS.value, Fallen.CONTROL_PLANE.value)


def is_costly(row: FailureRow) -> bool:
    """Whether a failure costs a pod, a service or the control plane at all."""
    return bool(
        row.evicted_certain or row.evicted_possible or row.services_down or loses_control_plane(row)
    )
