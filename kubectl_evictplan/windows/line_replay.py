"""One zone's line of waiting nodes, served in another order: the controller's own queue, fed again.

Health does not depend on taints, so a run of the controller in which nobody is served records
everything that its zones' queues are told (``QueueOperation``). Here the very same queue is told that once
more, with a chosen order among nodes that one tick queues (upstream's order is that of a hash map),
with a chosen lag of the pass, and with or without a token at the start.

Whichever waiting node a token is spent on, it could have been any other that may stand at the head. So
a wait is told by the tokens that were spent meanwhile: each of them could have been its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

import msgspec

from kubectl_evictplan.cluster.timeline import QueueOperation, Told, WasteReason
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    NeverRateLimiter,
    TokenBucketRateLimiter,
)
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import (
    STALE_LISTER_NS,
    wait_before_retry_ns,
    why_token_is_wasted,
)
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import (
    RateLimitedTimedQueue,
    new_queue,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.windows.places_in_line import InLine, Placed, PlacesInLine
from kubectl_evictplan.windows.spans import NEVER_NS
from kubectl_evictplan.windows.unknowns.lines import (
    later_tokens,
    meeting_view_ns,
    next_pass_ns,
    pass_matters,
)
from kubectl_evictplan.windows.waits_in_line import WaitsInLine
from kubectl_evictplan.windows.zone_lines import LineHistory, LineRules, is_seen_late

_OUTSIDE = (Told.STATUS, Told.NODE_GONE, Told.UNTAINTED, Told.TAINTED)


class LineReplay(msgspec.Struct, eq=False, dict=True):
    """One zone's queue with one order of service."""

    _operations: Sequence[QueueOperation]
    _rules: LineRules
    _leaving: Mapping[str, list[int]]
    _placed: Placed
    # When Ready=Unknown was written that passes see late, sorted: see ``ZoneLine.seen_late_ns``.
    _shown_late_ns: Sequence[int] = ()
    # For how many nodes each one stands, where nobody ever leaves the line: see ``ZoneLine.is_plain``.
    _numbers: Mapping[str, int] = {}
    # Whether somebody wants to know who was taken before whom: pairs of all who wait, for each token.
    _tells_before: bool = True
    _now_ns: int = 0
    _latest_tick_ns: int = -1
    # When the newest tick ran that is told of, or that marked nodes again.
    _ticked_ns: int = -1
    _pass_ns: int | None = None
    _inside_tick_ns: int = -1
    _ready: dict[str, str | None] = {}
    _gone: set[str] = set()
    _unknown_since_ns: dict[str, int] = {}
    _newest_unknown_ns: int = -NEVER_NS
    _tainted: set[str] = set()
    # Nodes that a tick puts in line unless they are in it or tainted: name -> since when.
    _wanted: dict[str, int] = {}
    # Of these the ones for which the next tick does more than nothing.
    _mark_again: set[str] = set()
    # Those that left since they got their place: whoever waits once more gets another one.
    _left_place: set[str] = set()
    # Nodes that stand for several, of whom one was served in this pass.
    _next: list[str] = []
    # Of the line that just used its token: the bucket as it is then, while it holds less than one that did not.
    _spent: TokenBucketRateLimiter | None = None
    _pass_inside_matters: bool = False
    # Of each token that was spent while a pass could still see somebody ready in line: when Ready=Unknown was written.
    _late_views_ns: list[int] = []
    # When a tick wrote Ready=Unknown before which nobody waited.
    _idle_until_ns: set[int] = set()
    # Where passes see late: who would be seen as ready now, and so waits at the head.
    _seen_late: set[str] = set()
    _token_matters: bool = False
    # Since when somebody waited beside entries of names that were removed, in a queue that is gone.
    _left_ns: int | None = None
    _passes: int = 0
    _passed_ns: int | None = None

    def __post_init__(self) -> None:
        rules = self._rules
        self._places = PlacesInLine(self._placed)
        self._waits = WaitsInLine(self._numbers)
        self._mode = rules.profile.queue_mode if rules.taint_mode else "ADD"
        self._grid = rules.timing.ticks(rules.timing.monitor_phase_ns, rules.period_ns, warm=True)
        self._queue = self._new_queue()

    def run(self) -> LineHistory:
        """Feed all operations and serve to the end."""
        for operation in self._operations:
            self._serve_until(operation.at_ns, inclusive=operation.told not in _OUTSIDE)
            self._now_ns = operation.at_ns
            if operation.told not in _OUTSIDE:
                self._ticked_ns = self._now_ns
            if operation.name:
                self._apply_to_node(operation)
            else:
                self._apply_to_queue(operation)
        if self._numbers:
            self._serve_the_rest()
            return self._history(wasted=self._waits.wasted)
        if self._pass_ns is None and self._queue:
            self._mark_again.clear()  # no token ever comes: whoever is marked again waits on
        if self._rules.enters_again:
            self._serve_until(self._rules.end_ns, inclusive=True, while_some_wait=True)
            self._serve_what_is_left()
        self._serve_until(self._rules.end_ns, inclusive=True)
        self._waits.end_all(NEVER_NS)
        return self._history()

    def _history(self, *, wasted: Collection[int] | None = None) -> LineHistory:
        return LineHistory(
            self._waits.tokens_ns,
            self._waits.of,
            self._waits.spent_on,
            wasted=wasted,
            pass_inside_matters=self._pass_inside_matters,
            late_views_ns=self._late_views_ns,
            idle_until_ns=self._idle_until_ns,
            token_at_start_matters=self._token_matters,
            before=self._places.before,
            left_entries_ns=self._left_ns or self._queue.left_entries_ns,
            passes=self._passes,
        )

    def _serve_the_rest(self) -> None:
        """Nothing is told any more and nobody leaves: which of those that are alike is served is free, only the tokens' instants count."""
        waits, limiter, end_ns = self._waits, self._queue.limiter, self._rules.end_ns
        waiting, served = sum(map(waits.left_of, waits.open)), 0
        while waiting and self._pass_ns is not None and self._pass_ns <= end_ns:
            self._now_ns, self._pass_ns = self._pass_ns, None
            if limiter.try_accept(self._now_ns):
                assert isinstance(limiter, TokenBucketRateLimiter), "the other one refuses always"
                self._note_late_view(self._newest_unknown_ns)
                waits.tokens_ns.append(self._now_ns)
                if all(map(self._sees_new_status, waits.open)):
                    later_ns = later_tokens(limiter, self._now_ns, self._rules, waiting - 1)
                    waits.tokens_ns += later_ns
                    served = 1 + len(later_ns)
                    break
                waits.waste()  # who costs it stood at the head
            self._plan_pass()
        waits.serve_the_rest(served)

    # -- time -------------------------------------------------------------------------------------

    def _serve_what_is_left(self) -> None:
        """Nobody waits and nothing is told any more: entries that are left take tokens, and whose they are is all the same."""
        pass_ns, end_ns = self._pass_ns, self._rules.end_ns
        if pass_ns is None or pass_ns > end_ns or self._waits.open or self._mark_again:
            return
        self._now_ns, limiter = pass_ns, self._queue.limiter
        self._pass()
        taken = self._waits.tokens_ns[-1:] == [pass_ns] and not self._rules.held
        if taken and isinstance(limiter, TokenBucketRateLimiter) and limiter.qps > 0:
            most = 2 + int((end_ns - pass_ns) * limiter.qps / SECOND_NS)
            left = self._queue.take_all(most)
            if left is not None:
                self._waits.tokens_ns += later_tokens(limiter, self._now_ns, self._rules, left)
                self._pass_ns = None

    def _serve_until(
        self, limit_ns: int, *, inclusive: bool, while_some_wait: bool = False
    ) -> None:
        """Run the passes, and the ticks that mark nodes again, up to an instant."""
        limit_ns = min(limit_ns, self._rules.end_ns) + (1 if inclusive else 0)
        while self._waits.open or self._mark_again or not while_some_wait:
            pass_ns = self._pass_ns
            tick_ns = self._next_tick_ns() if self._mark_again else None
            if (
                pass_ns is not None
                and pass_ns < limit_ns
                and (tick_ns is None or pass_ns <= tick_ns)
            ):
                self._now_ns = pass_ns
                self._pass()
            elif tick_ns is not None and tick_ns < limit_ns:
                self._now_ns = tick_ns
                self._tick()
            else:
                return

    def _next_tick_ns(self) -> int:
        """What happens outside at the instant of a tick comes before it."""
        return self._grid.after(max(self._now_ns - 1, self._ticked_ns))

    def _pass(self, latest_tick_ns: int | None = None) -> None:
        self._pass_ns = None
        self._passes += 1
        if latest_tick_ns is None:
            latest_tick_ns = self._grid.newest(self._now_ns)
        self._latest_tick_ns = latest_tick_ns
        if self._seen_late:
            self._place_who_is_seen(latest_tick_ns)
        self._look_at_token()
        self._queue.try_pass(self._now_ns, latest_tick_ns, self._process)
        for name in self._next:
            self._put_back(name)
        self._next.clear()
        self._passed_ns = self._now_ns
        self._plan_pass()

    def _place_who_is_seen(self, latest_tick_ns: int) -> None:
        """Nobody had a token while they were seen late: the tick that put them in line may as well have put them elsewhere."""
        for name in sorted(filter(self._sees_new_status, self._seen_late)):
            self._seen_late.discard(name)
            if name in self._waits.open and name in self._wanted:
                self._queue.remove(self._places.take(name))
                given = self._alias(name), self._mode, self._now_ns, latest_tick_ns
                self._queue.mark(*given, lacks_taint=True)

    def _plan_pass(self) -> None:
        if self._queue:
            self._look_at_token()
            # What is left of nodes that have gone is met by each pass.
            met = self._passed_ns == self._now_ns and not self._waits.open
            until_ns = dict(self._rules.held).get(len(self._waits.tokens_ns))
            lag_ns = self._rules.lag_ns if until_ns is None else 0
            at_ns = next_pass_ns(self._queue.limiter, self._now_ns, lag_ns, passed=met)
            if at_ns is not None and until_ns is not None:
                at_ns = max(at_ns, until_ns)
            if at_ns is not None and self._rules.waits_for_views_ns:
                waits_ns = self._rules.waits_for_views_ns * (len(self._waits.tokens_ns) + 1)
                at_ns = meeting_view_ns(at_ns, self._shown_late_ns, self._queue.limiter, waits_ns)
            if at_ns is not None and (self._pass_ns is None or at_ns < self._pass_ns):
                self._pass_ns = at_ns

    def _look_at_token(self) -> None:
        """Note, where the limiter is asked, whether the token matters that may have been spent before the start."""
        if self._spent is not None:
            self._token_matters = self._spent.level_at(self._now_ns) < 1
            self._spent = None

    def _tick(self) -> None:
        self._ticked_ns = self._now_ns
        names, self._mark_again = self._mark_again, set()
        for name in sorted(names, key=self._alias):
            # A node that is ready again is found reachable by this very tick.
            if name in self._wanted and self._ready.get(name) != TRUE:
                self._mark(name)

    # -- what the queue is told -----------------------------------------------------------------------

    def _new_queue(self) -> RateLimitedTimedQueue:
        rules = self._rules
        return new_queue(rules.rate_qps, rules.profile, self._grid, taint_mode=rules.taint_mode)

    def _alias(self, name: str) -> str:
        """What the queue calls the node, until it is taken out."""
        place = self._places.of(name)
        if place is None:
            in_line = InLine(name, self._leaves_ns(name), name in self._seen_late)
            place = self._places.give(in_line)
        return place

    def _leaves_ns(self, name: str) -> int:
        leaving = self._leaving.get(name, ())
        place = bisect_right(leaving, self._now_ns)
        return leaving[place] if place < len(leaving) else NEVER_NS

    def _apply_to_queue(self, operation: QueueOperation) -> None:
        match operation.told:
            case Told.SWAP:
                self._look_at_token()
                self._queue.swap_limiter(operation.qps, self._now_ns)
                self._pass_ns = None
                self._plan_pass()
            case Told.SPENT if self._rules.stopped_at_start:
                self._queue.limiter = NeverRateLimiter()
            case Told.SPENT:
                most = self._rules.spent_at_most
                self._spent = self._queue.limiter.just_used(self._now_ns, most)
                if self._rules.spent_at_start:
                    self._queue.limiter.spend(self._rules.spent_at_start, self._now_ns)
            case Told.MID_TICK:
                if self._queue and not self._pass_inside_matters:
                    asked = self._queue.limiter, self._now_ns, self._rules.lag_ns
                    self._pass_inside_matters = pass_matters(*asked, self._pass_ns)
                self._inside_tick_ns = self._now_ns
                if self._rules.mid_tick_pass:
                    self._pass(self._now_ns)
            case Told.CREATED:
                self._forget()
            case Told.STOPPED:
                self._forget()
                self._wanted.clear()
                self._mark_again.clear()
                self._unknown_since_ns.clear()  # the first tick of the next process reads it before its first pass
                if not self._rules.taint_mode:
                    self._tainted.clear()  # who was evicted is known to nobody else
            case Told.STARTED:
                rules = self._rules
                self._grid = rules.timing.ticks(self._now_ns, rules.period_ns, warm=False)

    def _apply_to_node(self, operation: QueueOperation) -> None:
        name = operation.name
        match operation.told:
            case Told.STATUS:
                self._note_status(name, operation.status)
            case Told.NODE_GONE:
                self._gone.add(name)
                self._left_place.add(name)
                self._tainted.discard(name)
                if self._rules.taint_mode:
                    self._wanted.pop(name, None)
                    self._waits.end(name, self._now_ns)
                    self._stop_entering(name)
                # An eviction pass asks for the pods of a name, whether there is a node or not.
            case Told.MARK:
                self._wanted.setdefault(name, self._now_ns)
                self._mark(name)
            case Told.SWAPPED:
                self._wanted.setdefault(name, self._now_ns)
                if self._alias(name) in self._queue.known:
                    self._mark(name)
            case Told.REACHABLE:
                self._reachable(name)
            case Told.UNTAINTED if name in self._tainted:
                self._lose_taint(name)
            case Told.TAINTED:
                self._tainted.add(name)
                self._mark_again.add(name)
            case Told.TAINTED_BEFORE:
                self._tainted.add(name)
                self._wanted[name] = self._now_ns
                self._queue.known.add(self._alias(name))
            case Told.RETIRED:
                self._queue.retire(self._alias(name), self._grid.newest(self._now_ns))

    def _lose_taint(self, name: str) -> None:
        self._tainted.discard(name)
        self._mark_again.add(name)
        since_ns = self._wanted.get(name)
        if since_ns is not None and self._queue.has_entry(self._alias(name)):
            # Somebody put it on before the node's turn came, which will come where it would have.
            self._waits.begin(name, self._now_ns, self._leaves_ns(name), since_ns)

    def _note_status(self, name: str, status: str | None) -> None:
        before = self._ready.get(name, TRUE)
        self._ready[name] = status
        self._gone.discard(name)
        if not self._rules.taint_mode:
            return  # the eviction pass looks at no condition
        if status == TRUE:
            self._left_place.add(name)
            self._waits.end(name, self._now_ns)
            if self._stop_entering(name):
                self._mark_again.add(name)  # the next tick looks at it
            return
        if is_seen_late(before, status):
            self._unknown_since_ns[name] = self._newest_unknown_ns = self._now_ns
            earlier = (
                wait for wait in self._waits.open.values() if wait.eligible_ns != self._now_ns
            )
            if self._now_ns not in self._idle_until_ns and next(earlier, None) is None:
                self._idle_until_ns.add(self._now_ns)
            if self._now_ns in self._shown_late_ns:
                self._seen_late.add(name)
        since_ns = self._wanted.get(name)
        in_line = self._alias(name) in self._queue.known and name not in self._tainted
        if since_ns is not None and in_line:
            self._waits.begin(
                name, since_ns, self._leaves_ns(name)
            )  # not ready again before a tick had taken it out of the line
            if self._mode == "REMOVE_ADD":
                self._mark_again.add(name)

    def _stop_entering(self, name: str) -> bool:
        """No tick puts another entry of the node in line; False when none did (``SetRemoveQueue``)."""
        place = self._places.of(name)
        if self._mode != "SETREMOVE" or place is None:
            return False
        return self._queue.retire(place, self._grid.newest(self._now_ns))

    def _mark(self, name: str) -> None:
        lacks_taint = not self._rules.taint_mode or name not in self._tainted
        if name in self._left_place and self._mode == "REMOVE_ADD" and lacks_taint:
            self._queue.remove(self._alias(name))
            self._places.take(name)
        self._left_place.discard(name)
        alias, tick_ns = self._alias(name), self._grid.newest(self._now_ns)
        self._places.enter(alias)
        if self._queue.mark(alias, self._mode, self._now_ns, tick_ns, lacks_taint=lacks_taint):
            if name not in self._tainted:
                self._waits.begin(name, self._now_ns, self._leaves_ns(name))
            self._plan_pass()

    def _put_back(self, name: str) -> None:
        """One of those for whom the node stands was served: the others wait on, where no tick puts them in line anew at its place."""
        if self._mode == "REMOVE_ADD":
            self._mark(name)
        else:
            alias = self._alias(name)
            self._queue.remove(alias)
            self._queue.add(alias, self._waits.open[name].eligible_ns, refreshed=False)

    def _reachable(self, name: str) -> None:
        self._tainted.discard(name)
        self._wanted.pop(name, None)
        self._queue.reachable(self._alias(name), self._now_ns, walked=True)
        if self._mode != "SETREMOVE":
            self._places.take(name)  # no entry is left
        # A pass inside the tick that takes it out of line at its end may still find it.
        self._waits.end(name, self._now_ns + (self._inside_tick_ns == self._now_ns))

    def _forget(self) -> None:
        """The queue and its limiter are made anew."""
        self._spent = None
        self._mark_again.update(self._places.at(place).name for place in self._queue.entering())
        self._left_ns = self._left_ns or self._queue.left_entries_ns
        self._queue = self._new_queue()
        self._places.made_anew()
        self._pass_ns = None
        self._waits.end_all(self._now_ns)

    # -- who is served ----------------------------------------------------------------------------

    def _process(self, alias: str) -> int | None:
        """``doNoExecuteTaintingPass`` (or ``doEvictionPass``) for the node at the head of the line."""
        head = self._places.at(alias)
        name = head.name
        if self._rules.enters_again:
            if self._tells_before:
                self._places.note_entered()
        elif self._tells_before or self._is_new(self._newest_unknown_ns):
            self._note_rivals(head)
        self._waits.tokens_ns.append(self._now_ns)
        if self._waits.left_of(name) > 1:
            # What is wasted on one of them is on none of the others: the next tick puts it in line again before these are all served.
            if self._sees_new_status(name):
                self._waits.serve(name)
            else:
                self._waits.waste()
            self._next.append(name)
            return None
        reason = self._why_wasted(name)
        if reason is None:
            self._waits.serve(name)
            self._tainted.add(name)
            return None
        retry_ns = wait_before_retry_ns(reason, self._rules.profile)
        if retry_ns is None and name in self._wanted:
            self._mark_again.add(name)
        return retry_ns

    def _why_wasted(self, name: str) -> WasteReason | None:
        if not self._rules.taint_mode:
            return None
        exists = name not in self._gone
        reason = why_token_is_wasted(self._ready.get(name, TRUE), exists=exists)
        if reason is None and not self._sees_new_status(name):
            # The next tick puts it elsewhere.
            self._seen_late.discard(name)
            self._left_place.add(name)
            return WasteReason.STALE_INFORMER
        return reason

    def _note_rivals(self, head: InLine) -> None:
        """Note whom the head was taken before, and whether one of them all could still be seen as ready."""
        rivals = [self._places.at(rival) for rival in self._queue.rivals(self._latest_tick_ns)]
        if self._tells_before:
            self._places.note_rivals(head, rivals)
        written_ns = (self._unknown_since_ns.get(each.name, -NEVER_NS) for each in (head, *rivals))
        self._note_late_view(max(written_ns))

    def _is_new(self, written_ns: int) -> bool:
        """Whether an informer that is late may not show yet what was written then."""
        return self._now_ns - written_ns < STALE_LISTER_NS

    def _note_late_view(self, newest_ns: int) -> None:
        if self._rules.taint_mode and self._is_new(newest_ns):
            self._late_views_ns.append(newest_ns)

    def _sees_new_status(self, name: str) -> bool:
        """Whether an informer shows it by now."""
        since_ns = self._unknown_since_ns.get(name, -NEVER_NS)
        return not self._is_new(since_ns) or since_ns not in self._shown_late_ns
