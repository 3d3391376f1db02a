"""Going on with a run that was killed, interrupted or stopped."""

from __future__ import annotations

from pathlib import Path

from kubectl_evictplan.apply.cluster import ClusterApi
from kubectl_evictplan.apply.files import Files
from kubectl_evictplan.apply.progress import Tell
from kubectl_evictplan.apply.run import RunOptions, RunResult
from kubectl_evictplan.apply.stop import Stop
from kubectl_evictplan.plans.document import Plan
from kubectl_evictplan.world import World


def resume(
    plan: Plan,
    api: ClusterApi,
    journal: Path,
    world: World,
    files: Files,
    stop: Stop,
    tell: Tell,
    options: RunOptions,
) -> RunResult:
    """Go on at the first operation that is not finished.

    Every intent without a result is read back first. Raises InputError for a journal that is damaged,
    of another plan, at work, or being rolled back; for another cluster it ends as drift.
    """
    raise NotImplementedError
