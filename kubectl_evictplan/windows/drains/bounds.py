"""Bounds of drains that are proven to hold, without any run: from the start of kubectl to the end of its last node.

Steps that follow each other add (``delays``), pods that ask a budget take its disruptions (``allowance``), and what
is left of them goes on to the next node (``accounts``): nodes that a budget couples are one account.

From the first node on where nobody knows who is let through first, bounds are wider (``contests``): several processes come
to it or ask its budgets, a status is behind, replacements may be Ready never. Nothing is proven of what comes after anything else
that happens, nor from a node on where it is not certain whom kubectl may find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kubectl_evictplan.cluster.placement import Elsewhere
from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.rooms import Rooms
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.windows.drains.accounts import Accounts
from kubectl_evictplan.windows.drains.before import (
    Before,
    Past,
    again_by,
    deleted_before,
    earlier_processes,
    over_by,
    with_any_room,
)
from kubectl_evictplan.windows.drains.begins import at_least, ends_before, first_start, pause_after
from kubectl_evictplan.windows.drains.certainty import SureDrains
from kubectl_evictplan.windows.drains.contest_waits import ContestWaits
from kubectl_evictplan.windows.drains.contests import Contests, Priced
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import Range, plus
from kubectl_evictplan.windows.drains.disturbed import disturbances, told_together, until_another
from kubectl_evictplan.windows.drains.firsts import FirstRequests
from kubectl_evictplan.windows.drains.instants import NodeDrain, Within
from kubectl_evictplan.windows.drains.landings import landings
from kubectl_evictplan.windows.drains.last_tries import LastTries
from kubectl_evictplan.windows.drains.openings import Openings
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.recovery import Recoveries
from kubectl_evictplan.windows.drains.rivals import Rival, Rivals, RowBounds
from kubectl_evictplan.windows.drains.sooner import told_sooner
from kubectl_evictplan.windows.drains.soonest import plan_of
from kubectl_evictplan.windows.drains.tasks import Contest
from kubectl_evictplan.windows.drains.told import (
    TurnBounds,
    codes_after,
    ends_ns,
    later_begins,
    pods_asked_for,
    possible,
    refused_before,
    row_from,
    wait_from,
)
from kubectl_evictplan.windows.drains.turn_bounds import (
    FOR_EVER,
    NOT_PROVEN,
    Passing,
    TurnFates,
    fates_of_turn,
)
from kubectl_evictplan.windows.drains.waits import Wait, WaitKey
from kubectl_evictplan.windows.drains.world import DrainWorld
from kubectl_evictplan.windows.outcome import EvictionKey
from kubectl_evictplan.windows.spans import Span

# Each proof rests on the one before it: of few pods so many are tried.
_PROOFS_MAX, _FEW_PODS = 4, 60
# Of more pods the tries at which they go are not looked at one by one.
_SOME_PODS = 300


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
        surely: dict[EvictionKey, RowBounds] = {}
        refusals: dict[tuple[Drain, str], int] = {}
        self._past = Past()
        for until_ns, earlier in earlier_processes(scenario):
            plan = plan_of(world, earlier, refusals, ready, rules)
            self._prove_twice(plan, surely, world, ready, with_any_room(rooms), rules)
            surely |= over_by(until_ns, self.rows)
            starts = {drain: turn.start for drain, turn in self.turns.items()}
            self._past = Past(until_ns, starts, self.rows)
            refusals.update(refused_before(until_ns, plan, self.turns))
        plan = plan_of(world, scenario, refusals, ready, rules)
        self._prove_twice(plan, surely, world, ready, rooms, rules)

    def _prove_twice(
        self,
        plan: DrainPlan,
        surely: dict[EvictionKey, RowBounds],
        world: DrainWorld,
        ready: ReadyTimes,
        rooms: Rooms,
        rules: EvictionRules,
    ) -> None:
        """The proof, and where there are several processes once more with what it has shown; ``surely``: what is known before."""
        rest = world, ready, rooms, rules
        self._prove(plan, *rest)
        if len(self.plan.processes) < 2:
            return
        first = self.plan
        for _ in range(_PROOFS_MAX if pods_asked_for(first) <= _FEW_PODS else 1):
            # What one process has deleted another one does not find, or finds terminating; who goes too late is not made anew on its nodes.
            earliest_ns, begins_ns = self._earliest_ns(), later_begins(self._begins, self.turns)
            plan = first.with_earliest(earliest_ns, begins_ns)
            known = self.rows | surely
            plan = plan.with_turns(deleted_before(plan, known, begins_ns))
            deleted_ns = {
                (key.pod, key.uid): row.spans[-1][1] for key, row in known.items() if row.certain
            }
            before = Before(deleted_ns, begins_ns, ends_ns(self.turns), earliest_ns)
            self._prove(plan, *rest, before)
        self.rows |= surely
        self.again = again_by(self._rivals.again(), surely)

    def _earliest_ns(self) -> dict[tuple[str, str], int]:
        """By (pod, uid) of those that some process may evict, the offset before which none does; nothing where it is not certain whom they find."""
        if not all(turn.surely_found for turn in self.plan.turns):
            return {}
        found: dict[tuple[str, str], int] = {}
        for key, row in (*self.rows.items(), *self.unbounded.items()):
            name = key.pod, key.uid
            found[name] = min(found.get(name, HORIZON_DEFAULT_MAX_NS), row.spans[0][0])
        for turn in self.plan.turns if self.never_begun else ():
            if turn.drain in self.never_begun and turn.sole_controller and not turn.others:
                for pod in turn.pods:
                    found.setdefault((pod.key, pod.uid), HORIZON_DEFAULT_MAX_NS)
        return found

    def _prove(
        self,
        plan: DrainPlan,
        world: DrainWorld,
        ready: ReadyTimes,
        rooms: Rooms,
        rules: EvictionRules,
        before: Before = Before(),  # noqa: B008 - a constant
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
        # Pods that are surely let go as soon as kubectl asks.
        self._never_wait: set[tuple[str, str]] = set()
        self.plan = plan
        self.left_alone = plan.left_alone()
        self._calm_ns = plan.calm_ns
        covered = CoveredPods(world, plan, ready, rules)
        elsewhere = Elsewhere(plan.taking_nodes(), world.snapshot.pods)
        recoveries = Recoveries(covered, elsewhere, rooms)
        progress = Progress(covered, recoveries, plan, before)
        self.covered = covered
        self._accounts = Accounts(covered, recoveries, rules)
        self._disturbances = disturbances(world, plan, ready, rooms, rules)
        self._begins = dict(self._earliest_begins(plan, Contests(covered, progress), before))
        firsts = FirstRequests(covered, progress, self._begins, rules)
        openings = Openings(covered, progress, before, self._begins)
        last_tries = None
        if pods_asked_for(plan) <= _SOME_PODS:
            last_tries = LastTries(covered, progress, recoveries, before, self._begins)
        self._contests = Contests(covered, progress, firsts, openings, last_tries)
        self._requests = self._contests.requests
        deleted = world.deleted.among(plan.ever_there)
        self.landings = landings(plan, deleted)
        self._rivals = Rivals()
        self.sure = SureDrains(plan, covered, progress)
        self._waits = ContestWaits(self._requests, self.sure, self._never_wait)
        self._disturbed_waits = ContestWaits(
            self._disturbances.requests, self.sure, self._never_wait
        )
        # Nodes with which kubectl may still be busy when something else happens.
        self.disturbed: set[NodeDrain] = set()
        for process, turns in enumerate(plan.processes):
            self._follow(process, plan.drains[process], turns)
        for key, row in self._rivals.rows():
            self.rows.setdefault(key, row)
        self.rows = {key: self._past.told(key, row) for key, row in self.rows.items()}
        # Deletions that may come at any time from an instant on.
        self.unbounded = dict(self._rivals.unbounded())
        # Where one process deletes a pod that another one has deleted, or what was made in its stead.
        self.again = self._rivals.again()
        # Nothing that is told of drains has to be drawn.
        self.complete = world.quiet and all(map(self._is_proven, plan.turns))

    def _earliest_begins(
        self, plan: DrainPlan, contests: Contests, before: Before
    ) -> Iterator[tuple[NodeDrain, int]]:
        """Before which offset kubectl does not come to each node."""
        for process, turns in enumerate(plan.processes):
            low_ns = first_start(plan.drains[process])[0]
            for turn in turns:
                low_ns, _ = self._past.begin(turn.drain, low_ns, None)
                low_ns = max(low_ns, before.begins_ns.get(turn.drain, 0))
                yield turn.drain, low_ns
                low_ns += self._until_another(
                    turn, low_ns, contests.of_turn(at_least(turn), low_ns)
                )

    def _follow(self, process: int, event: Drain, turns: Sequence[PlannedTurn]) -> None:
        """One process, node after node, as long as it is certain when it comes to the next."""
        start = first_start(event)
        codes: frozenset[int | None] = frozenset((0,))
        exact = True
        for turn in turns:
            start = self._past.begin_within(turn.drain, start)
            fates = self._fates(turn, start)
            passing = fates.passing
            calm_ns = self._calm_ns if fates.asked or turn.guests else turn.calm_ns
            self._note_pods(turn, start, fates, calm_ns, exact=exact)
            if passing is None or not ends_before(calm_ns, start, passing):
                self._follow_widely(start, codes, turns[turn.drain.place :])
                return
            self._note_turn(turn, start, fates, passing)
            exact = exact and fates.exact
            codes = codes_after(codes, passing.reasons)
            if passing.reasons == FOR_EVER:
                if not fates.whole:
                    self._note_others(turn, start)
                self.never_begun.update(one.drain for one in turns[turn.drain.place + 1 :])
                break
            start = self._next_start(turn, start, fates, passing)
        self.exit_codes[process] = codes

    def _note_others(self, turn: PlannedTurn, start: Range) -> None:
        """Pods of a node with which kubectl is never through, of which nothing narrower is proven."""
        contest = self._contests.of_turn(turn, start[0], start[1])
        priced = self._contests.priced((), contest, start[1])
        self._note_rivals(turn, start[0], contest, priced)
        waits = dict(self._waits.of(turn, start[0], contest, priced))
        known = self.turns[turn.drain]
        self.turns[turn.drain] = known._replace(waits={**waits, **known.waits})

    def _follow_widely(
        self, start: Range, codes: frozenset[int | None], turns: Sequence[PlannedTurn]
    ) -> None:
        """The rest of a process, where it is not certain who is let through first; ``codes`` are its exit codes so far."""
        low_ns = start[0]
        late_ns: int | None = start[1]
        before: list[Contest] = []
        for place, turn in enumerate(turns):
            by_ns = self._contests.begun_by_ns(before, late_ns)
            low_ns, known_ns = self._past.begin(turn.drain, low_ns, by_ns)
            if known_ns != by_ns:
                before, by_ns, late_ns = [], known_ns, known_ns
            contest = self._contests.of_turn(turn, low_ns, by_ns)
            priced = self._contests.priced(before, contest, late_ns)
            pause = pause_after(turn)
            if turn.surely_found and self._is_calm(priced.end_ns):
                self._note_contest(turn, low_ns, contest, priced)
                before.append(contest)
                if late_ns is not None:
                    until_ns = contest.until_ns
                    late_ns = None if until_ns is None else late_ns + until_ns + pause[1]
            else:
                contest, priced = self._note_disturbed(turn, low_ns, contest, priced)
                before = []
                late_ns = None if priced.end_ns is None else priced.end_ns + pause[1]
            codes = codes_after(codes, contest.reasons)
            if contest.reasons == FOR_EVER:
                self.never_begun.update(one.drain for one in turns[place + 1 :])
                break
            low_ns += contest.earliest_ns + pause[0]
        self.exit_codes[turns[0].drain.process] = codes

    def _note_disturbed(
        self, turn: PlannedTurn, low_ns: int, contest: Contest, priced: Priced
    ) -> tuple[Contest, Priced]:
        """A node with which kubectl may still be busy when something else happens, or of which it is not certain whom it finds.

        ``contest`` and ``priced``: as if nothing else did.
        """
        after = self._disturbances.of_turn(turn, low_ns, priced.start_ns)
        as_calm = None
        if turn.surely_found:
            as_calm = contest, priced
            self._note_held(contest)
        found, latest = told_together(low_ns, self._calm_ns, as_calm, after)
        self._note_rivals(turn, low_ns, found, latest, alone=after.alone)
        if not after.alone:
            self._rivals.forget_names()
        waits = self._disturbed_waits.of(turn, low_ns, found, latest)
        self._note_bounds(turn, low_ns, found, latest, possible(waits))
        self.disturbed.add(turn.drain)
        return found, latest

    def _until_another(self, turn: PlannedTurn, low_ns: int, contest: Contest) -> int:
        """From the earliest begin with a node to that with the next one, at least."""
        if self._calm_ns < HORIZON_DEFAULT_MAX_NS or not turn.surely_found:
            before = contest if turn.surely_found else None
            after = self._disturbances.of_turn(turn, low_ns, None)
            return (
                until_another(low_ns, self._calm_ns, before, after.contest) + pause_after(turn)[0]
            )
        return contest.earliest_ns + pause_after(turn)[0]

    def _is_calm(self, end_ns: int | None) -> bool:
        """Whether kubectl is through with the node before anything else happens."""
        for_ever = self._calm_ns >= HORIZON_DEFAULT_MAX_NS
        return for_ever or (end_ns is not None and end_ns < self._calm_ns)

    def _note_rivals(
        self,
        turn: PlannedTurn,
        low_ns: int,
        contest: Contest,
        priced: Priced,
        *,
        alone: bool = True,
    ) -> None:
        """``alone``: nobody but kubectl does anything to the pods."""
        for task, latest_ns in zip(contest.tasks, priced.latest_ns, strict=True):
            earliest_ns = low_ns + task.earliest_ns
            if latest_ns is not None and latest_ns < earliest_ns:
                # kubectl gives up before.
                continue
            if self._requests.is_refused(task.pod, turn):
                continue
            if task.replacement:
                rival = Rival(turn.controller, earliest_ns, latest_ns, task.goes, gone=None)
                self._rivals.add_replacement(task.pod, rival)
                continue
            gone = turn.gone_after(task.pod, earliest_ns)
            if gone is not None and not self._ends_in_time(turn, latest_ns, gone, alone=alone):
                gone = gone[0], HORIZON_DEFAULT_MAX_NS
            begun_ns = priced.start_ns if alone and self._asks_on(task.pod, turn) else None
            rival = Rival(
                turn.controller,
                earliest_ns,
                latest_ns,
                task.goes,
                gone,
                begun_ns,
                task.deleted_meanwhile_ns,
                task.granted or not self._requests.refusing(task.pod, turn),
                task.heard_late_ns,
            )
            self._rivals.add(task.pod, rival)

    def _asks_on(self, pod: Pod, turn: PlannedTurn) -> bool:
        """Whether kubectl asks for the pod until it is evicted or the time is up, and nothing but its budget refuses it."""
        options = turn.options
        places = self._requests.asked_of(pod, turn)
        retried = any(self.covered.client_retries_ns(place) for place in places)
        return (
            not (options.parallel or options.disable_eviction)
            and self.covered.is_deleted_once()
            and not retried
            and len(self.covered.covering(pod)) <= 1
            and pod.ready == "True"
            and not self.covered.is_refusable(pod, turn)
            and not self._requests.may_be_refused_unseen(pod, turn)
            and not self._requests.may_fail(pod, turn)
        )

    def _note_contest(
        self, turn: PlannedTurn, low_ns: int, contest: Contest, priced: Priced
    ) -> None:
        self._note_rivals(turn, low_ns, contest, priced)
        self._note_held(contest)
        waits = dict(self._waits.of(turn, low_ns, contest, priced))
        self._note_bounds(turn, low_ns, contest, priced, waits)

    def _note_held(self, contest: Contest) -> None:
        for pod in contest.held:
            self.held_until_ns[pod.key, pod.uid] = self._calm_ns

    def _note_bounds(
        self,
        turn: PlannedTurn,
        low_ns: int,
        contest: Contest,
        priced: Priced,
        waits: Mapping[WaitKey, Wait],
    ) -> None:
        end = None
        if contest.reasons != FOR_EVER:
            end = Within(low_ns + contest.earliest_ns, priced.end_ns)
        start = Within(low_ns, priced.start_ns)
        reasons = contest.reasons
        if not self._waits.comes_to(turn, priced):
            reasons |= FOR_EVER
        self.turns[turn.drain] = TurnBounds(start, end, reasons, waits, whole=False)

    def at_any_time(self, key: EvictionKey) -> Span:
        """While some process drains the node of a pod, as its n-th deletion; of whoever is made anew under the name: any node."""
        node = self.plan.node_of.get(key.pod) if key.uid else None
        known = [
            self.turns[turn.drain]
            for turn in self.plan.turns
            if turn.controller == key.controller
            and turn.drain in self.turns
            and (not node or turn.drain.node == node)
        ]
        starts = sorted(one.start.earliest_ns for one in known)
        ends = [None if one.end is None else one.end.latest_ns for one in known]
        until_ns = max((HORIZON_DEFAULT_MAX_NS if ns is None else ns for ns in ends), default=0)
        nth = min(key.ordinal if key.uid else 0, len(starts) - 1)
        return (starts[nth], until_ns) if starts else (0, HORIZON_DEFAULT_MAX_NS)

    def _is_proven(self, turn: PlannedTurn) -> bool:
        found = self.turns.get(turn.drain)
        whole = found is not None and found.whole and not turn.guests
        return whole or turn.drain in self.never_begun

    def _fates(self, turn: PlannedTurn, begin: Range) -> TurnFates:
        refused = any(self.covered.is_refusable(pod, turn) for pod in turn.everybody)
        unseen = not turn.options.disable_eviction and any(
            map(self.covered.may_be_refused_unseen, turn.everybody)
        )
        if not turn.known or refused or unseen:
            return NOT_PROVEN
        fates = fates_of_turn(turn, begin[0], self._accounts)
        if not fates.asked or pods_asked_for(self.plan) > _FEW_PODS or not turn.surely_found:
            return fates
        contest = self._contests.of_turn(turn, *begin)
        return told_sooner(fates, contest, self._contests.priced((), contest, begin[1]))

    def _next_start(
        self, turn: PlannedTurn, start: Range, fates: TurnFates, passing: Passing
    ) -> Range:
        """When kubectl comes to the next node; the accounts are those of that moment then."""
        pause = pause_after(turn)
        took = plus(passing.until, pause)
        if passing.gives_up:
            # How many were evicted, and are gone, is not certain.
            self._accounts.forget(place for place, found in fates.asked.items() if found)
        self._accounts.turn_over(fates.asked, took, pause[0])
        return plus(start, took)

    def _note_pods(
        self, turn: PlannedTurn, start: Range, fates: TurnFates, calm_ns: int, *, exact: bool
    ) -> None:
        """Whatever is over before anything else happens: whoever may be kept until then may be asked for once more."""
        for fate in fates.pods:
            over = fate.certain or calm_ns >= HORIZON_DEFAULT_MAX_NS
            if fate.spans and over and start[1] + fate.spans[-1][1] < calm_ns:
                row = row_from(fate, start, self._ended_ns(turn), exact=exact and fate.exact)
                self.rows[EvictionKey(fate.pod.key, fate.pod.uid, turn.controller, 0)] = row
                if fate.certain and fate.wait is None:
                    self._never_wait.add((fate.pod.key, fate.pod.uid))
            elif not fate.spans:
                self.held_until_ns[fate.pod.key, fate.pod.uid] = calm_ns
        for pods, nths in fates.together:
            ranges = tuple(plus(start, one) for one in nths)
            self.together.update((pod.key, (len(pods), ranges)) for pod in pods)

    def _ended_ns(self, turn: PlannedTurn) -> int:
        """Until then pods of the node end as the kubelet ends them."""
        return HORIZON_DEFAULT_MAX_NS if self.plan.others.let_end(turn.drain.node) else turn.calm_ns

    def _ends_in_time(
        self, turn: PlannedTurn, latest_ns: int | None, gone: Range, *, alone: bool
    ) -> bool:
        """Whether the kubelet ends a pod that is deleted by then before anything keeps it from that."""
        ended_ns = self._ended_ns(turn)
        if ended_ns >= HORIZON_DEFAULT_MAX_NS:
            return alone or self.plan.others.let_end(turn.drain.node)
        return alone and latest_ns is not None and latest_ns + gone[1] < ended_ns

    def _note_turn(
        self, turn: PlannedTurn, start: Range, fates: TurnFates, passing: Passing
    ) -> None:
        waits = {
            WaitKey(turn.drain.process, fate.pod.key, fate.pod.uid, fate.budgets): wait_from(
                start, fate.wait
            )
            for fate in fates.pods
            if fate.wait is not None
        }
        end = None if None in passing.reasons else Within(*plus(start, passing.until))
        for pod in turn.guests:
            latest_ns = None if end is None else end.latest_ns
            rival = Rival(turn.controller, start[0], latest_ns, goes=False, gone=None)
            self._rivals.add_replacement(pod, rival)
        self.turns[turn.drain] = TurnBounds(
            Within(*start), end, passing.reasons, waits, fates.whole
        )
