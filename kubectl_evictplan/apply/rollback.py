"""Taking back what a run did: own taints and cordons only, newest first."""

from __future__ import annotations

from pathlib import Path

from kubectl_evictplan.apply.cluster import ClusterApi
from kubectl_evictplan.apply.files import Files
from kubectl_evictplan.apply.progress import Tell
from kubectl_evictplan.apply.run import RunOptions, RunResult
from kubectl_evictplan.apply.stop import Stop
from kubectl_evictplan.world import World


def rollback(
    api: ClusterApi,
    journal: Path,
    world: World,
    files: Files,
    stop: Stop,
    tell: Tell,
    options: RunOptions,
) -> RunResult:
    """Take back the run of ``journal``; the plan is not needed. Idempotent, resumable by itself.

    Foreign changes stay and are named (``state.reversals[number].kept``); evictions are listed.
    Raises InputError for a journal that is damaged or at work.
    """
    raise NotImplementedError
