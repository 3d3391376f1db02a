"""Bounds of drains that are proven to hold, without any run: from the start of kubectl to the end of its last node.

Steps that follow each other add (``drain_delays``), pods that ask a budget take its disruptions (``drain_allowance``), and what
is left of them goes on to the next node (``drain_accounts``): nodes that a budget couples are one account.

Nothing is proven of nodes that several processes drain, or to which anything else happens; of budgets that two processes ask, whose
status is behind, or whose replacements may be Ready never; and of what comes after all these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.rooms import Rooms
from kubectl_evictplan.cluster.timeline import EVICTION_API, KUBECTL_DELETE, DrainEnd
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.kube.disruption import EvictionRules, can_ignore_budgets
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.windows.drain_accounts import Accounts
from kubectl_evictplan.windows.drain_certainty import SureDrains
from kubectl_evictplan.windows.drain_delays import Range, plus, takes
from kubectl_evictplan.windows.drain_instants import GAP_NS, NodeDrain, Within
from kubectl_evictplan.windows.drain_plan import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drain_turn_bounds import Passing, PodFate, TurnFates, fates_of_turn
from kubectl_evictplan.windows.drain_waits import Wait, WaitKey
from kubectl_evictplan.windows.drain_world import DrainWorld
from kubectl_evictplan.windows.line_windows import Span, disjoint_outcomes
from kubectl_evictplan.windows.outcome import EvictionKey


class RowBounds(NamedTuple):
    """The eviction of one pod. ``exact``: every instant of ``spans`` can be, and nothing was left out."""

    node: str
    spans: tuple[Span, ...]
    certain: bool
    gone: Within | None
    exact: bool


class TurnBounds(NamedTuple):
    """One node. ``end`` None: kubectl is never through with it. ``whole``: nobody else waits."""

    start: Range
    end: Range | None
    reasons: frozenset[DrainEnd | None]
    waits: Mapping[WaitKey, Wait]
    whole: bool


class DrainBounds:
    """Of all processes of ``kubectl drain`` in one scenario; what is missing is not proven."""

    def __init__(
        self,
        world: DrainWorld,
        scenario: Scenario,
        ready: ReadyTimes,
        rooms: Rooms,
        rules: EvictionRules,
    ) -> None:
        self.rows: dict[EvictionKey, RowBounds] = {}
        self.turns: dict[NodeDrain, TurnBounds] = {}
        # Nodes to which kubectl never comes, because it is never through with one before.
        self.never_begun: set[NodeDrain] = set()
        # By process, where all of its nodes are proven; None: it never exits.
        self.exit_codes: dict[int, frozenset[int | None]] = {}
        # By pod of those that take each other's place: how many they are, and when the n-th is evicted.
        self.together: dict[str, tuple[int, tuple[Range, ...]]] = {}
        # By (pod, uid) of those that kubectl asks for: until when it surely evicts them not.
        self.held_until_ns: dict[tuple[str, str], int] = {}
        self._rules = rules
        self._known_budgets = world.budgets_listed and not world.budgets_denied
        plan = DrainPlan(world, scenario)
        self.left_alone = plan.left_alone()
        self._drains = plan.drains
        self._calm_ns = plan.calm_ns if world.steady else 0
        self._accounts = Accounts(world, plan, rules, ready, rooms)
        self.sure = SureDrains(plan, self._accounts, rules, known_budgets=self._known_budgets)
        for process, turns in enumerate(plan.processes):
            self._follow(process, plan.drains[process], turns)
        every = [turn for turns in plan.processes for turn in turns]
        # Nothing that is told of drains has to be drawn.
        self.complete = world.quiet and all(map(self._is_proven, every))

    def _follow(self, process: int, event: Drain, turns: Sequence[PlannedTurn]) -> None:
        """One process, node after node, as long as it is certain when it comes to the next."""
        cordons = [range_ns(Latency.NEXT_CORDON)] * len(turns)
        begun = plus((event.at_ns, event.latest_ns), takes(Latency.KUBECTL_START), *cordons)
        start: Range | None = plus(begun, takes(Latency.LIST_PODS))
        codes: set[int | None] = {0}
        exact = True
        for turn in turns:
            if start is None or not turn.known:
                return
            fates = self._fates(turn, start[0])
            passing = fates.passing
            calm_ns = turn.calm_ns
            if fates.asked or turn.guests:
                calm_ns = min(calm_ns, self._calm_ns)
            self._note_pods(turn, start, fates, calm_ns, exact=exact)
            if passing is None or not _ends_before(calm_ns, start, passing):
                return
            self._note_turn(turn, start, fates, passing)
            exact = exact and fates.exact
            codes = _codes(codes, passing.reasons)
            if passing.reasons == {None}:
                codes = {None}
                self.never_begun.update(one.drain for one in turns[turn.drain.place + 1 :])
                break
            start = self._next_start(start, event, fates, passing)
        self.exit_codes[process] = frozenset(codes)

    def _is_proven(self, turn: PlannedTurn) -> bool:
        found = self.turns.get(turn.drain)
        whole = found is not None and found.whole and not turn.guests
        return whole or turn.drain in self.never_begun

    def _fates(self, turn: PlannedTurn, begun_ns: int) -> TurnFates:
        asks = (*turn.pods, *turn.guests, *(one.pod for one in turn.leaving))
        if not self._known_budgets and not all(
            can_ignore_budgets(pod, self._rules) for pod in asks
        ):
            return TurnFates([], [], {}, None, whole=False, exact=False)
        return fates_of_turn(turn, begun_ns, self._accounts, self._rules)

    def _next_start(self, start: Range, event: Drain, fates: TurnFates, passing: Passing) -> Range:
        """When kubectl comes to the next node; the accounts are those of that moment then."""
        pause = plus((event.settle_ns, event.settle_ns), takes(Latency.LIST_PODS))
        took = plus(passing.until, pause)
        if DrainEnd.TIMEOUT in passing.reasons:
            # How many were evicted is not certain.
            self._accounts.forget(place for place, found in fates.asked.items() if found)
        self._accounts.turn_over(fates.asked, took, pause[0])
        return plus(start, took)

    def _note_pods(
        self, turn: PlannedTurn, start: Range, fates: TurnFates, calm_ns: int, *, exact: bool
    ) -> None:
        """Whatever is over before anything else happens."""
        by_delete = self._drains[turn.drain.process].disable_eviction
        controller = KUBECTL_DELETE if by_delete else EVICTION_API
        for fate in fates.pods:
            if fate.spans and start[1] + fate.spans[-1][1] < calm_ns:
                row = _row(fate, start, calm_ns, exact=exact and fate.exact)
                self.rows[EvictionKey(fate.pod.key, fate.pod.uid, controller, 0)] = row
            elif not fate.spans:
                self.held_until_ns[fate.pod.key, fate.pod.uid] = calm_ns
        for pods, nths in fates.together:
            ranges = tuple(plus(start, one) for one in nths)
            self.together.update((pod.key, (len(pods), ranges)) for pod in pods)

    def _note_turn(
        self, turn: PlannedTurn, start: Range, fates: TurnFates, passing: Passing
    ) -> None:
        waits = {
            WaitKey(turn.drain.process, fate.pod.key, fate.pod.uid, fate.budgets): _wait_from(
                start, fate.wait
            )
            for fate in fates.pods
            if fate.wait is not None
        }
        end = None if None in passing.reasons else plus(start, passing.until)
        self.turns[turn.drain] = TurnBounds(start, end, passing.reasons, waits, fates.whole)


def _ends_before(calm_ns: int, start: Range, passing: Passing) -> bool:
    if None in passing.reasons:
        return calm_ns >= HORIZON_DEFAULT_MAX_NS
    return start[1] + passing.until[1] < calm_ns


def _row(fate: PodFate, start: Range, calm_ns: int, *, exact: bool) -> RowBounds:
    spans = disjoint_outcomes([plus(start, span) for span in fate.spans], GAP_NS)
    gone = None
    if fate.gone is not None:
        latest_ns = spans[-1][1] + fate.gone[1]
        gone = Within(spans[0][0] + fate.gone[0], latest_ns) if latest_ns < calm_ns else None
    return RowBounds(fate.pod.node_name, spans, fate.certain, gone, exact)


def _wait_from(start: Range, wait: Wait) -> Wait:
    until = wait.until
    if until is not None:
        latest_ns = None if until.latest_ns is None else start[1] + until.latest_ns
        until = Within(start[0] + until.earliest_ns, latest_ns)
    return wait._replace(from_ns=start[0] + wait.from_ns, until=until)


def _codes(codes: set[int | None], reasons: frozenset[DrainEnd | None]) -> set[int | None]:
    """The exit codes after one more node."""
    if reasons == {DrainEnd.DRAINED}:
        return codes
    return {*codes, 1} if DrainEnd.DRAINED in reasons else {1}
