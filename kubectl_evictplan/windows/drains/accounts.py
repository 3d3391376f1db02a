"""Budgets of which it is certain how many of their pods may be away, as a drain goes from node to node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubectl_evictplan.cluster.eviction_api import MEETS_NS
from kubectl_evictplan.controllers.replication import owner_key
from kubectl_evictplan.kube.disruption import EvictionRules, is_stale, needs_no_disruption
from kubectl_evictplan.kube.objects import Pod, PodDisruptionBudget
from kubectl_evictplan.windows.drains.allowance import PERHAPS_NEVER_NS, Allowance, NthEviction
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import (
    AT_ONCE,
    CAUGHT_UP_NS,
    FORGOTTEN_NS,
    Range,
    plus,
    recovery,
)
from kubectl_evictplan.windows.drains.recovery import Recoveries


class Account:
    """One budget: its allowance, from the node that is drained now on. ``budget`` has its status at the start.

    ``is_behind``: that is written anew soon, whether it allows more then or not.
    """

    def __init__(
        self,
        budget: PodDisruptionBudget,
        spare: int,
        coming: Sequence[Range],
        recovery_ns: Range | None,
        recoveries: int,
        rules: EvictionRules,
        made_anew_ns: int,
        leaving: int,
        *,
        counts_pods: bool,
        is_behind: bool,
        one_at_a_time: bool,
    ) -> None:
        self._budget = budget
        self._spare = spare
        self._recovery_ns = recovery_ns
        self._recoveries = recoveries
        self._rules = rules
        self._counts_pods = counts_pods
        self._one_at_a_time = one_at_a_time
        # From the end of an old object to the return of its disruption, at most.
        self._made_anew_ns = made_anew_ns
        self._coming = list(coming)
        self._stirs = 1 if is_behind else 0
        # Pods that terminate since before the start: the status changes when they are gone, at any time.
        self._leaving = leaving if counts_pods else 0

    def lets_go(self, pod: Pod) -> bool:
        """Whether the pod is evicted without a disruption: evictions never take a budget below what it wants."""
        return needs_no_disruption(pod, self._budget, self._rules)

    def allowance(self) -> Allowance:
        """What there is when a node's turn begins."""
        return Allowance(
            self._spare,
            tuple(self._coming),
            self._recovery_ns,
            self._recoveries,
            self._stirs + self._leaving,
            self._counts_pods,
            self._one_at_a_time,
        )

    def lets_pass(self, deleted: Range) -> None:
        """A pod that was not Ready is evicted within these instants of the turn; its replacement is Ready later."""
        if self._recovery_ns is not None and self._recoveries:
            self._coming.append(plus(deleted, self._recovery_ns))
            self._recoveries -= 1
        self.stir(2)

    def stir(self, changes: int) -> None:
        """So many pods come or go in the turn that take no disruption: the status is written where it counts pods."""
        self._stirs += changes if self._counts_pods else 0

    def spend(self, found: Sequence[NthEviction], took: Range, pause_ns: int) -> None:
        """The turn is over, and these pods were evicted and are gone; the next one begins after ``took``.

        ``pause_ns``: so long after the end of the last object at the earliest.
        """
        self.wait(took)
        for one in found:
            if self._recovery_ns is None or not self._recoveries:
                break
            self._recoveries -= 1
            low_ns, high_ns = plus(one.within, self._recovery_ns)
            latest_ns = high_ns - took[0]
            if self._recovery_ns[1] < FORGOTTEN_NS:
                latest_ns = min(latest_ns, self._made_anew_ns - pause_ns)
            if high_ns >= PERHAPS_NEVER_NS:
                latest_ns = high_ns
            self._coming.append((low_ns - took[1], latest_ns))
        self._spare -= len(found)
        if found:
            self._stirs = 1

    def wait(self, took: Range) -> None:
        """Turns are over in which nobody asked it."""
        coming = [(low_ns - took[1], high_ns - took[0]) for low_ns, high_ns in self._coming]
        # One sync may be on its way still: the controller takes together what it finds.
        self._stirs = min(self._stirs, 1)
        if self._spare >= 0 and not self._counts_pods:
            # What came back so long ago that no request meets it is there.
            left = [one for one in coming if one[1] + MEETS_NS >= 0]
            self._spare += len(coming) - len(left)
            coming = left
        self._coming = coming


class Accounts:
    """By budget; None where it is not certain: several processes ask it, or its pods change without any.

    ``covered`` says what the budgets cover.
    """

    def __init__(self, covered: CoveredPods, recoveries: Recoveries, rules: EvictionRules) -> None:
        self.covered = covered
        self._recoveries = recoveries
        self._rules = rules
        self._found: dict[int, Account | None] = {}
        # What all turns took that are over, and what they had when each account was looked at last: few are in a turn.
        self._passed: Range = (0, 0)
        self._looked_at: dict[int, Range] = {}

    def account(self, place: int) -> Account | None:
        """The one account of a budget, which goes from turn to turn."""
        if place not in self._found:
            self._found[place] = self._settled(place)
            self._looked_at[place] = self._passed
        account, before = self._found[place], self._looked_at[place]
        if account is not None and before is not self._passed:
            account.wait((self._passed[0] - before[0], self._passed[1] - before[1]))
            self._looked_at[place] = self._passed
        return account

    def pass_unasked(self, pod: Pod) -> None:
        """A pod of the turn is evicted about which no budget is asked, for it is finished: those that cover it see it go."""
        changes = 1 if pod.controller() is None else 2
        for account in map(self.account, self.covered.covering(pod)):
            if account is not None:
                account.stir(changes)

    def turn_over(
        self, asked: Mapping[int, Sequence[NthEviction]], took: Range, pause_ns: int
    ) -> None:
        """A node is drained; all instants count from the begin of the next from now on."""
        self._passed, before = plus(self._passed, took), self._passed
        for place, evictions in asked.items():
            account = self._found.get(place)
            if account is not None:
                assert self._looked_at[place] is before, "it was asked in this turn"
                account.spend(evictions, took, pause_ns)
                self._looked_at[place] = self._passed

    def forget(self, places: Iterable[int]) -> None:
        """Nothing is known of these budgets any more."""
        self._found.update(dict.fromkeys(places))

    def _settled(self, place: int) -> Account | None:
        facts = self.covered
        budget, covered = facts.world.budgets[place], facts.of_budget(place)
        turns = facts.drained_of(place)
        if (
            not facts.world.steady
            or facts.may_fail(place)
            or place in facts.perhaps_asked
            or budget.disrupted_pods
            or len({turn.drain.process for turn, _ in turns}) > 1
            or any(pod in turn.guests or not turn.known for turn, pod in turns)
            or any(facts.is_refusable(pod, turn) for turn, pod in turns)
            or not all(map(facts.is_settled, covered))
            or any(owner_key(pod) in facts.unsure for pod in covered)
            or not facts.keeps_its_wish(place)
            or not facts.covers_whole_owners(place)
        ):
            return None
        synced = facts.synced(place, covered)
        healthy, desired = synced.current_healthy, synced.desired_healthy
        if healthy is None or desired is None or synced.disruptions_allowed is None:
            return None
        spare = healthy - desired
        if not synced.disruptions_allowed and spare > 0:
            # Nobody scales its pods (``expectedPods`` 0, or no scale at all): it lets nobody go, ever.
            spare = -len(covered)
        pods = [pod for _, pod in turns]
        behind = self._behind(place, synced, spare, pods)
        if behind is None:
            return None
        slowest_ns = max(facts.slowest_ns(pod) for pod in pods) if pods else 0
        return Account(
            synced,
            spare - len(behind),
            behind,
            self._recoveries.between(pods, turns[0][0].options, spare),
            self._recoveries.number(pods),
            self._rules,
            recovery(AT_ONCE, (0, slowest_ns))[1],
            sum(pod.deletion_timestamp_ns is not None for pod in covered),
            counts_pods=counts_pods(budget),
            is_behind=synced != budget,
            one_at_a_time=facts.lets_go_one_at_a_time(place),
        )

    def _behind(
        self, place: int, synced: PodDisruptionBudget, spare: int, pods: Sequence[Pod]
    ) -> tuple[Range, ...] | None:
        """Allowance that the status does not show yet, and when it will; None: it shows too many, or perhaps never does."""
        budget = self.covered.world.budgets[place]
        if synced == budget:
            return ()
        stale = is_stale(budget)
        if stale and self._rules.tells_when_to_retry:
            # Who is refused is asked for at other times than others.
            return None
        allowed = 0 if stale else budget.disruptions_allowed
        if (
            allowed is None
            or not self.covered.is_behind(place)
            or any(pod.ready != "True" for pod in pods)
        ):
            return None
        missing = max(spare, 0) - allowed
        if missing < 0:
            return None
        return ((-CAUGHT_UP_NS, CAUGHT_UP_NS),) * missing


def counts_pods(budget: PodDisruptionBudget) -> bool:
    """Whether its status changes with every pod that is made or gone, not only with those that are Ready."""
    percent = budget.min_available is not None and budget.min_available.percent
    return budget.max_unavailable is None and not percent
