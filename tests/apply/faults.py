"""What can go wrong between a run and its cluster, each by name."""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum

from kubectl_evictplan.apply.cluster import Outcome, Reply, Request
from kubectl_evictplan.errors import Problem, UnreachableError
from kubectl_evictplan.plans.document import ClusterIdentity


class Fault(Enum):
    """One thing that goes wrong with one mutation."""

    LOST_BEFORE = "never arrived, no answer"
    LOST_AFTER = "executed, answer lost"
    LATE = "executed after the client gave up"
    MOVED = "never arrived, and somebody wrote the node"
    OTHER_WRITES = "somebody writes the node first"
    NOT_SENT = "no connection"
    BUSY = "429 of a busy server"
    FORBIDDEN = "403"
    INVALID = "422"
    UNAUTHENTICATED = "401"
    WEBHOOK_CHANGES = "a webhook adds a taint"
    UNOBSERVED_BUDGET = "429 with Retry-After"
    NO_DRY_RUN = "a webhook that knows no dry run"

    def reply(self) -> Reply:
        """Return the answer of a fault that needs no cluster."""
        return _REPLIES[self]


_REPLIES = {
    Fault.LOST_BEFORE: Reply(Outcome.UNKNOWN, message="connection reset"),
    Fault.NOT_SENT: Reply(Outcome.NOT_SENT, message="connection refused"),
    Fault.BUSY: Reply(Outcome.NOT_NOW, status=429, retry_after_seconds=1.0),
    Fault.FORBIDDEN: Reply(Outcome.REFUSED, status=403, message="forbidden"),
    Fault.INVALID: Reply(Outcome.REFUSED, status=422, message="invalid"),
    Fault.UNAUTHENTICATED: Reply(Outcome.UNAUTHENTICATED, status=401),
    Fault.NO_DRY_RUN: Reply(
        Outcome.REFUSED, status=400, message='admission webhook "w" does not support dry run'
    ),
    Fault.UNOBSERVED_BUDGET: Reply(
        Outcome.BUDGET, status=429, causes=("DisruptionBudget",), retry_after_seconds=10.0
    ),
}


class Faults:
    """Which mutation meets which fault: the next ones in a line, or by a function of the request."""

    def __init__(self) -> None:
        self.line: deque[Fault | None] = deque()
        self.always: Fault | None = None
        self.dry_run: Fault | None = None
        self.lease_outcome: Outcome | None = None
        self.unreachable_reads = 0
        self.stale_reads = 0
        self.wall_offset_ns = 0
        self.identity: ClusterIdentity | None = None
        self.met: Counter[Fault] = Counter()

    def take(self, request: Request) -> Fault | None:
        """Return what the next mutation meets."""
        fault = self.line.popleft() if self.line else self.always
        if fault is Fault.NO_DRY_RUN:
            return None
        if fault is Fault.UNOBSERVED_BUDGET and request.method == "PATCH":
            return None
        if fault is not None:
            self.met[fault] += 1
        return fault

    def take_dry_run(self) -> Fault | None:
        """Return what a dry run meets."""
        return self.dry_run

    def read(self) -> None:
        """Meet what the next read meets."""
        if self.unreachable_reads:
            self.unreachable_reads -= 1
            raise UnreachableError(Problem("no answer", location="https://simulated"))
