"""Carrying out a plan: checks, the lock, its operations in order, and how it ended."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubectl_evictplan.apply.cluster import ClusterApi
from kubectl_evictplan.apply.endings import Ending
from kubectl_evictplan.apply.files import Files
from kubectl_evictplan.apply.progress import Tell
from kubectl_evictplan.apply.records import Author, Check
from kubectl_evictplan.apply.states import RunState
from kubectl_evictplan.apply.stop import Stop
from kubectl_evictplan.plans.document import Plan
from kubectl_evictplan.world import World

LOCK_NAMESPACE = "default"
LOCK_NAME = "evictplan-apply"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs besides the plan, and none of it changes what is done.

    ``checks`` were made before by the caller (drift, losses) and go into the journal.
    ``lock_namespace`` "": without the lock in the cluster. ``request_deadline_seconds``: when a mutation
    without an answer counts as unknown, the client's own deadline. ``plan_path``: where the plan was read.
    """

    author: Author
    plan_path: str = ""
    checks: tuple[Check, ...] = ()
    lock_namespace: str = LOCK_NAMESPACE
    steal_lock: bool = False
    request_deadline_seconds: float = 30.0
    clock_offset_seconds: float = 0.0


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended, for the command line to tell.

    ``state``: every operation, None when the journal was never begun. ``resumable`` and
    ``can_roll_back``: which of both commands makes sense now. ``unwritten`` is the line that did not
    reach the disk, "" when all did: it has to be shown.
    """

    exit_code: int
    ending: Ending
    state: RunState | None
    journal: Path
    resumable: bool = False
    can_roll_back: bool = False
    unwritten: bytes = b""


def apply_plan(
    plan: Plan,
    api: ClusterApi,
    journal: Path,
    world: World,
    files: Files,
    stop: Stop,
    tell: Tell,
    options: RunOptions,
) -> RunResult:
    """Carry out ``plan`` and keep the journal ``journal``, which must not exist.

    Nothing is sent before the access reviews, the server's dry run of every node patch and the lock
    have passed, nor before a record about it is durable. It ends at the first thing that is not as
    planned; what was begun is settled. Never raises for what a cluster, a network or a disk does.
    """
    raise NotImplementedError
