"""What a journal says, record by record. One JSON object per line; ``record`` names the type.

``at`` is the server's time, ``prev`` the SHA-256 of the line before ("" in the first). Names never
change; ``rollback-...`` records say the same of taking an operation back.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import msgspec

from kubectl_evictplan.apply.cluster import Outcome, Request, SpecChange
from kubectl_evictplan.apply.endings import Ending
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.plans.document import AnyOperation, ClusterIdentity, Execution, NodeBefore


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Camel-cased frozen record."""


class Record(_Part, frozen=True, tag_field="record", kw_only=True):
    """One line of a journal."""

    prev: str = ""
    at: str = ""


class Author(_Part, frozen=True):
    """Who runs this program, where, and which one it is.

    ``machine``: what ``pid`` counts for (``world.machine``); host names are not unique.
    """

    user: str
    host: str
    pid: int
    tool_version: str
    python_version: str = ""
    client_version: str = ""
    machine: str = ""


class LockPlace(_Part, frozen=True):
    """The Lease that keeps a second run away: who holds it, on which machine."""

    namespace: str
    name: str
    holder: str
    machine: str = ""


class Begin(Record, frozen=True, tag="begin", kw_only=True):
    """The first record: everything that is needed to take back what follows."""

    run_id: str
    plan: str
    plan_fingerprint: str
    title: str
    cluster: ClusterIdentity
    author: Author
    clock_offset_seconds: float
    lock: LockPlace | None
    execution: Execution
    operations: tuple[AnyOperation, ...]
    nodes: tuple[NodeBefore, ...]
    # Made from the cluster as an earlier run of the plan left it: ``adopted`` records follow.
    is_adopted: bool = False
    continue_on_absent: bool = False
    rollback_on_failure: bool = False
    # The kubeconfig context that led the run to its cluster; the plan's may have had another name.
    context: str = ""
    api_version: str = API_VERSION


class Resume(Record, frozen=True, tag="resume", kw_only=True):
    """Somebody goes on with the run."""

    author: Author
    lock: LockPlace | None
    continue_on_absent: bool = False
    rollback_on_failure: bool = False


class Server(Record, frozen=True, tag="server", kw_only=True):
    """Which cluster answers, as which user, by which context, of which release: at first, and when it changes."""

    cluster: ClusterIdentity


class Check(_Part, frozen=True):
    """One thing looked at before the first mutation; ``detail`` is unescaped."""

    name: str
    verdict: Literal["ok", "failed", "unknown", "skipped"]
    detail: str = ""


class Preflight(Record, frozen=True, tag="preflight", kw_only=True):
    """What was checked. A run without this record has sent nothing; one that was adopted, nothing since."""

    checks: tuple[Check, ...]


class Target(_Part, frozen=True):
    """The object that a mutation is for."""

    kind: str
    name: str
    uid: str
    namespace: str = ""


class NodeImage(_Part, frozen=True, tag_field="kind", tag="node"):
    """What of a node can be changed; ``taints`` as the server sends them."""

    uid: str
    resource_version: str
    taints: tuple[dict[str, Any], ...]
    unschedulable: bool


class PodImage(_Part, frozen=True, tag_field="kind", tag="pod"):
    """What of a pod decides whether it is the one that is meant."""

    uid: str
    node: str
    phase: str
    resource_version: str = ""


class SentRequest(_Part, frozen=True):
    """A mutation exactly as it goes over the wire, without credentials."""

    method: str
    path: str
    content_type: str
    body: str
    body_sha256: str


class Intent(Record, frozen=True, tag="intent", kw_only=True):
    """Durable before the mutation is sent. ``request`` null: the same as at the attempt before.

    ``time_added`` is what marks our taint, RFC 3339 in whole seconds, "" for other operations.
    """

    number: int
    attempt: int
    kind: str
    target: Target
    before: NodeImage | PodImage | None
    wanted: NodeImage | None
    request: SentRequest | None
    deadline_seconds: float
    time_added: str = ""


class Result(Record, frozen=True, tag="result", kw_only=True):
    """What came back; ``attempt`` 0: nothing was sent, as nothing had to be."""

    number: int
    attempt: int
    outcome: Outcome
    status: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[str, ...] = ()
    resource_version: str = ""
    taints: tuple[dict[str, Any], ...] | None = None
    unschedulable: bool | None = None
    audit_id: str = ""
    elapsed_ns: int = 0
    retry_after_seconds: float | None = None


class Verdict(Enum):
    """What reading an object back told about a mutation."""

    # It was executed.
    APPLIED = "applied"
    # It was not, and never will be: it may be sent again.
    NOT_APPLIED = "not-applied"
    # It is as wanted, but somebody else made it so.
    ALREADY = "already"
    # It was not executed, or somebody took it back.
    MOVED = "not-applied-or-reverted"
    # The object is gone.
    ABSENT = "absent"
    # The name belongs to another UID.
    REPLACED = "replaced"
    # The pod is being deleted.
    DELETING = "deleting"
    # What was done earlier is not there any more.
    REVERTED = "reverted"


class Verify(Record, frozen=True, tag="verify", kw_only=True):
    """Something was read back. ``changed_by`` tells of others who wrote the node's spec."""

    number: int
    verdict: Verdict
    uid: str = ""
    resource_version: str = ""
    changed_by: tuple[SpecChange, ...] = ()


class Adopted(Verify, frozen=True, tag="adopted", kw_only=True):
    """What an earlier run, whose journal is lost, did of an operation, by what the cluster shows.

    ``before`` and ``wanted`` are what its intent would have said: to take it back; null for evictions and
    for what is not that run's doing. With the verdict ``already`` they are of a run that may be another.
    """

    before: NodeImage | None = None
    wanted: NodeImage | None = None
    time_added: str = ""
    # RFC 3339 in whole seconds, "" when nobody knows.
    done_at: str = ""


class Wait(Record, frozen=True, tag="wait", kw_only=True):
    """An eviction waits; written when what it waits for changes."""

    number: int
    attempts: int
    outcome: Outcome
    causes: tuple[str, ...] = ()
    message: str = ""
    retry_seconds: float = 0.0
    # Seconds left of the time given to the node; null: no limit.
    left_seconds: float | None = None


class Left(Record, frozen=True, tag="left", kw_only=True):
    """An operation is given up; another run of ``--resume`` may try it again."""

    number: int
    outcome: Outcome
    message: str = ""


class Workloads(Record, frozen=True, tag="workloads", kw_only=True):
    """How many pods of each controller ("namespace/Kind/name") were Ready before the node's turn."""

    node: str
    ready: dict[str, int]


class NodeEnd(Record, frozen=True, tag="node", kw_only=True):
    """A node's turn is over, with pauses and all; it ended with operation ``number``.

    ``others`` are pods that are not in the plan and keep the node from being empty.
    """

    number: int
    node: str
    others: tuple[str, ...] = ()


class Interrupted(Record, frozen=True, tag="interrupted", kw_only=True):
    """A signal; what was under way is settled."""

    signal: str


class End(Record, frozen=True, tag="end", kw_only=True):
    """The process ends in good order; ``counts`` has the operations by phase.

    ``commands``: what an operator can type now, to go on or to take back; none of it shows a token.
    """

    ending: Ending
    exit_code: int
    counts: dict[str, int]
    commands: tuple[str, ...] = ()


class RollbackBegin(Record, frozen=True, tag="rollback-begin", kw_only=True):
    """Somebody takes the run back; ``on_failure``: the run itself, as --rollback-on-failure asked for."""

    author: Author
    lock: LockPlace | None
    on_failure: bool = False


class RollbackIntent(Intent, frozen=True, tag="rollback-intent", kw_only=True):
    """As ``intent``; ``number`` is the operation that is taken back."""


class RollbackResult(Result, frozen=True, tag="rollback-result", kw_only=True):
    """As ``result``."""


class RollbackVerify(Verify, frozen=True, tag="rollback-verify", kw_only=True):
    """As ``verify``."""


class Kept(Enum):
    """Why an operation is not taken back."""

    # It was sent without an answer, and is so: by us or by another, nobody can tell.
    UNSURE = "unsure"
    NODE_GONE = "node-gone"
    NODE_RECREATED = "node-recreated"
    # Everything is as it was before the run: another has taken it back.
    UNDONE_ALREADY = "undone-already"
    # Another has made something else of what we set.
    CHANGED_SINCE = "changed-since"
    # An eviction.
    CANNOT_BE_UNDONE = "cannot-be-undone"


class RollbackLeft(Record, frozen=True, tag="rollback-left", kw_only=True):
    """An operation that is left as it is, and why."""

    number: int
    why: Kept
    changed_by: tuple[SpecChange, ...] = ()


class RollbackEnd(End, frozen=True, tag="rollback-end", kw_only=True):
    """As ``end``."""


AnyRecord = (
    Begin
    | Resume
    | Server
    | Adopted
    | Preflight
    | Intent
    | Result
    | Verify
    | Wait
    | Left
    | Workloads
    | NodeEnd
    | Interrupted
    | End
    | RollbackBegin
    | RollbackIntent
    | RollbackResult
    | RollbackVerify
    | RollbackLeft
    | RollbackEnd
)


def sent_request(request: Request, sha256: str) -> SentRequest:
    """Return what the journal keeps of a request."""
    return SentRequest(
        method=request.method,
        path=request.path,
        content_type=request.content_type,
        body=request.body.decode("utf-8"),
        body_sha256=sha256,
    )
