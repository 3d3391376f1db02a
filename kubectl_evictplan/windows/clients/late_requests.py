"""What requests of the controllers make later that wait for their client, or are made again because they conflict.

Runs and proofs know nothing of it. So this is put over windows when all is explored: over what ticks and passes do first, for
deletions follow that.
"""

from __future__ import annotations

from kubectl_evictplan.controllers.client_limits import never_waits
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import TAINT_REMOVED, Exploration


def let_clients_wait(
    result: Exploration,
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    sent: int = 0,
) -> None:
    """Let windows of what was explored without them span what the controllers' own clients let wait; ``sent`` as in ``explore``.

    And what they write twice because it conflicts.
    """
    given = snapshot, scenario, configuration
    rows = len(result.evictions) + len(result.cancels.windows) + len(result.nodes.windows)
    waits = not never_waits(snapshot, rows + sent, configuration)
    if waits:
        _let_ticks_wait(result, *given, sent)
    if configuration.profile.taint_writes_conflict and (
        any(event.manager_up for event in scenario.events)
        or any(key.what == TAINT_REMOVED for key, _ in result.nodes.windows)
    ):
        from kubectl_evictplan.windows.clients.conflicting_writes import (
            span_conflicts,  # rarely needed
        )

        span_conflicts(result, *given)
    if waits and result.evictions:
        from kubectl_evictplan.windows.clients.arrivals import waits_of_deletions  # rarely needed

        if of_deletions := waits_of_deletions(result, *given, sent):
            from kubectl_evictplan.windows.clients import throttled_evictions  # more rarely

            throttled_evictions.span_client_limits(of_deletions, result, *given)


def _let_ticks_wait(
    result: Exploration,
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    sent: int,
) -> None:
    given = snapshot, scenario, configuration
    if not configuration.separate_taint_eviction:
        from kubectl_evictplan.windows.clients.shared import span_shared_client  # old releases

        if span_shared_client(result, *given, sent):
            return
    from kubectl_evictplan.windows.clients.slow_ticks import span_slow_ticks  # rarely needed

    span_slow_ticks(result, *given)
