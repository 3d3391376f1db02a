"""The course of a run: turn after turn, with what comes between them, to the end or the first no."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubectl_evictplan.apply.changes import Standing, judge, written_by
from kubectl_evictplan.apply.cluster import LiveWorkload, Outcome
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending, NodeAbsent
from kubectl_evictplan.apply.evictions import batch, settle_eviction
from kubectl_evictplan.apply.node_changes import do_change, read_node, settle
from kubectl_evictplan.apply.preflight import WORKLOAD_RESOURCES
from kubectl_evictplan.apply.progress import (
    NodeDone,
    NodeStarted,
    OperationLeft,
    OperationStarted,
    Paused,
)
from kubectl_evictplan.apply.records import Left, NodeEnd, Verdict, Workloads
from kubectl_evictplan.apply.sending import DOING, ended, note_verdict
from kubectl_evictplan.apply.states import Doing, Phase
from kubectl_evictplan.apply.turns import Turn, turns
from kubectl_evictplan.apply.watching import Conditions
from kubectl_evictplan.apply.working import Working
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.plans.document import (
    AddTaint,
    Evict,
    Execution,
    RemoveTaint,
)

READY_POLL_SECONDS = 5.0


@dataclass(slots=True)
class Course:
    """A run and what it follows.

    ``uids``: of the plan's nodes. ``known``: the UIDs of all pods on them that the plan knows.
    ``owners``: "Kind/name" of their controllers by "namespace/pod". ``absent``: nodes that are gone, of which the
    rest was left out as ``continue_on_absent`` says.
    """

    run: Working
    execution: Execution
    uids: Mapping[str, str]
    known: frozenset[str]
    owners: Mapping[str, str]
    conditions: Conditions
    continue_on_absent: bool = False
    absent: set[str] = field(default_factory=set)

    def follow(self) -> Ending:
        """Carry out what is not done; return how it ended well, or raise Ended."""
        state = self.run.state
        self._settle_unknown()
        started = self._started()
        todo = turns(state.begin.operations)
        for index, turn in enumerate(todo):
            if turn.number in state.turns_done or turn.node in self.absent:
                continue
            following = todo[index + 1] if index + 1 < len(todo) else None
            is_first = self._is_first(turn, todo[:index])
            try:
                self._take(turn, started)
                self._after(turn, following, first=is_first)
            except NodeAbsent as gone:
                self._leave_out(turn.node, gone, canary=is_first and not turn.prepares)
        return self._finish()

    def _settle_unknown(self) -> None:
        """Read back what a process that died has left open; evictions are read in their turn."""
        for doing in self.run.state.operations.values():
            if doing.phase is Phase.UNKNOWN and not isinstance(doing.operation, Evict):
                try:
                    verdict = settle(self.run, doing, self.uids)
                except NodeAbsent as gone:
                    self._leave_out(doing.operation.node, gone, canary=False)
                    continue
                if verdict is Verdict.MOVED:
                    raise ended(EndCode.UNKNOWN, doing)

    def _leave_out(self, node: str, gone: NodeAbsent, *, canary: bool) -> None:
        """Give up what is left of a node that is gone, where that was asked for; else raise.

        Evictions that were asked for are settled by their pods. A canary has to end as planned.
        """
        if not self.continue_on_absent or (canary and self.execution.canary):
            raise gone
        run = self.run
        self.absent.add(node)
        for doing in run.state.operations.values():
            if doing.operation.node != node:
                continue
            if doing.phase is Phase.UNKNOWN:
                settle_eviction(run, doing)
            if doing.phase is Phase.WAITING:
                number, outcome = doing.operation.number, Outcome.ABSENT
                run.note(Left(number=number, outcome=outcome, message="the node is gone"))
                run.say(
                    OperationLeft(
                        at_ns=run.now_ns, operation=doing.operation, outcome=outcome, message=""
                    )
                )

    def _started(self) -> float:
        """Return the monotonic instant of offset 0, also when another process began the run.

        A server whose clock went back says that the run begins later: then it begins now.
        """
        run = self.run
        first = self._first_offset()
        now = run.world.monotonic()
        if run.state.first_intent_ns is None:
            return now - first
        since_ns = max(run.now_ns - run.state.first_intent_ns, 0)
        return now - since_ns / SECOND_NS - first

    def _first_offset(self) -> float:
        return min((one.at_seconds for one in self.run.state.begin.operations), default=0.0)

    def _zero(self, started: float) -> float:
        """Return the instant of offset 0: what was read before the first intent does not count."""
        sent = self.run.first_sent
        return started if sent is None else sent - self._first_offset()

    def _take(self, turn: Turn, started: float) -> None:
        run = self.run
        doings = [run.state.operations[one.number] for one in turn.operations]
        if all(doing.phase is Phase.DONE for doing in doings):
            return
        run.say(NodeStarted(at_ns=run.now_ns, node=turn.node))
        if turn.evictions:
            self._evict(turn, doings, started)
            return
        for doing in doings:
            if doing.phase is not Phase.DONE:
                early = self._zero(started) + doing.operation.at_seconds - run.world.monotonic()
                run.pause(max(early, 0.0), "offset", turn.node)
                run.say(OperationStarted(at_ns=run.now_ns, operation=doing.operation))
                do_change(run, doing, self.uids[turn.node], self.known)

    def _evict(self, turn: Turn, doings: Iterable[Doing], started: float) -> None:
        if self.execution.until_ready and turn.node not in self.run.state.workloads:
            ready = self._ready_counts(turn)
            self.run.note(Workloads(node=turn.node, ready=ready))
        work = batch(
            self.run,
            turn.node,
            doings,
            parallel=self.execution.parallel,
            timeout_seconds=self.execution.eviction_timeout_seconds,
            started=self._zero(started),
            look=lambda: self._still_so(turn.node),
        )
        self.conditions.waited_seconds = work.waited_seconds
        work.work()
        self.conditions.waited_seconds = lambda: 0.0

    def _is_first(self, turn: Turn, before: Iterable[Turn]) -> bool:
        """Whether this turn ends the canary: the first node whose turn is more than preparation."""
        return all(one.prepares or one.node == turn.node for one in before)

    def _after(self, turn: Turn, following: Turn | None, *, first: bool) -> None:
        """What comes between two nodes: canary, replacements, pause; then the turn is over."""
        others = self._others(turn.node) if turn.evictions else ()
        between = following is not None and following.node != turn.node and not turn.prepares
        if between:
            self._canary(turn, others, first=first)
            self._until_ready(turn)
            self.run.pause(self.execution.settle_seconds, "settle", turn.node)
            if self.execution.settle_seconds or self.execution.until_ready:
                self._still_so(turn.node)
        self.run.note(NodeEnd(number=turn.number, node=turn.node, others=others))
        if not turn.prepares:
            self.run.say(NodeDone(at_ns=self.run.now_ns, node=turn.node, others=others))

    def _canary(self, turn: Turn, others: tuple[str, ...], *, first: bool) -> None:
        if not (self.execution.canary and first):
            return
        self._still_so(turn.node)
        if others:
            raise Ended(Ending(EndCode.NOT_EMPTY, turn.number, turn.node, objects=others))

    def _others(self, name: str) -> tuple[str, ...]:
        """Name the pods that keep a drained node from being empty.

        They are not in the plan, or were not there when they were asked about: a proxy that answers
        for another server makes a pod look gone.
        """
        pods = self.run.read(lambda: self.run.api.list_pods(name), node=name)
        return tuple(sorted(pod.key for pod in pods if self._in_the_way(pod)))

    def _in_the_way(self, pod: Pod) -> bool:
        owner = pod.controller()
        stays = pod.mirror or pod.finished or (owner is not None and owner.kind == "DaemonSet")
        operations = (doing.operation for doing in self.run.state.operations.values())
        to_go = {one.uid for one in operations if isinstance(one, Evict)}
        is_left = pod.uid in to_go and pod.deletion_timestamp_ns is None
        return not stays and (pod.uid not in self.known or is_left)

    def _ready_counts(self, turn: Turn) -> dict[str, int]:
        """Count the Ready pods of each controller that loses a pod in this turn."""
        counts: dict[str, int] = {}
        for operation in turn.operations:
            if not isinstance(operation, Evict):
                continue
            owner = self.owners.get(operation.key, "")
            kind, _, name = owner.partition("/")
            place = f"{operation.namespace}/{owner}"
            if kind in WORKLOAD_RESOURCES and place not in counts:
                number = operation.number
                workload = self._workload((operation.namespace, kind, name), turn.node, number)
                if workload is not None:
                    counts[place] = workload.ready
        return counts

    def _workload(
        self, place: tuple[str, str, str], node: str, number: int = 0
    ) -> LiveWorkload | None:
        return self.run.read(lambda: self.run.api.get_workload(*place), number, node)

    def _until_ready(self, turn: Turn) -> None:
        """Wait until each controller has as many Ready pods as before, or as it wants by now."""
        run = self.run
        told: tuple[str, ...] = ()
        while behind := self._behind(turn.node):
            if behind != told:
                told = behind
                run.say(Paused(at_ns=run.now_ns, why="until-ready", node=turn.node, objects=behind))
            run.pause(READY_POLL_SECONDS)

    def _behind(self, node: str) -> tuple[str, ...]:
        behind = []
        for place, ready in self.run.state.workloads.get(node, {}).items():
            namespace, kind, name = place.split("/")
            workload = self._workload((namespace, kind, name), node)
            if workload is not None and workload.ready < min(ready, workload.wanted):
                behind.append(place)
        return tuple(behind)

    def _finish(self) -> Ending:
        """Look once more at all that was changed; name what keeps drained nodes from being empty."""
        for node in dict.fromkeys(one.node for one in self.run.state.begin.operations):
            if node not in self.absent:
                try:
                    self._still_so(node)
                except NodeAbsent as gone:
                    self._leave_out(node, gone, canary=False)
        doings = self.run.state.operations.values()
        left = {one.operation.node for one in doings if one.phase is not Phase.DONE}
        if left:
            return Ending(EndCode.ABSENT, objects=tuple(sorted(left)))
        ends = self.run.state.turns_done.values()
        others = tuple(other for end in ends for other in end.others)
        if others:
            return Ending(EndCode.NOT_EMPTY, objects=others)
        return Ending(EndCode.FINISHED)

    def _still_so(self, name: str) -> None:
        """Read a node back: what this run did to it has to be there still. Raises Ended if not."""
        newest: dict[object, Doing] = {}
        for doing in self.run.state.operations.values():
            operation = doing.operation
            if operation.node == name and not isinstance(operation, Evict):
                if doing.phase is Phase.DONE:
                    newest[_place(doing)] = doing
        if not newest:
            return
        self.run.checkpoint()
        node = read_node(self.run, DOING, next(reversed(newest.values())), self.uids[name])
        for doing in newest.values():
            if judge(doing.operation, node, doing.time_added).standing not in _FULFILLED:
                by = written_by(doing.operation, node)
                note_verdict(self.run, DOING, doing, Verdict.REVERTED, uid=node.uid, changed_by=by)
                raise ended(EndCode.REVERTED, doing, node)


_FULFILLED = (Standing.OURS, Standing.ALREADY)


def _place(doing: Doing) -> object:
    """What of a node an operation writes: a later one on the same replaces it."""
    operation = doing.operation
    if isinstance(operation, AddTaint | RemoveTaint):
        return (operation.taint.key, operation.taint.effect)
    return "unschedulable"
