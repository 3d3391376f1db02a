"""What requests of the controllers make later that wait for their client, or are made again because they conflict.

Runs and proofs know nothing of it. So this is put over windows when all is explored: over what ticks and passes do first, for
deletions follow that.
"""

from __future__ import annotations

from kubectl_evictplan.controllers.client_limits import never_waits
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.outcome import TAINT_REMOVED, Exploration
from kubectl_evictplan.windows.unknowns.requests import ClientLimits, WriteConflicts


def let_clients_wait(
    result: Exploration,
    given: Given,
    sent: int = 0,
    *,
    limited: bool = True,
    conflicts: bool = True,
) -> None:
    """Let windows of what was explored without them span what the controllers' own clients let wait; ``limited`` and ``sent`` as in ``explore``.

    ``conflicts``: and what they write twice because it conflicts.
    """
    snapshot, scenario, configuration = given
    rows = len(result.evictions) + len(result.cancels.windows) + len(result.nodes.windows)
    waits = limited and not never_waits(snapshot, rows + sent, configuration)
    # What unknowns make ticks late; what comes of a shared client is told with it.
    late = set[str]()
    if waits and not _share_client(result, given, sent):
        from kubectl_evictplan.windows.clients.slow_ticks import span_slow_ticks  # rarely needed

        if span_slow_ticks(result, given):
            late.add(ClientLimits.name)
    starts = any(event.manager_up for event in scenario.events)
    if conflicts and (starts or _takes_taints_off(result)) and _meet_writes(result, given):
        late.add(WriteConflicts.name)
    if late and _takes_taints_off(result):
        from kubectl_evictplan.windows.clients import late_removals  # rarely needed

        late_removals.span_late_removals(result, given, frozenset(late))
    if waits and result.evictions:
        from kubectl_evictplan.windows.clients.arrivals import waits_of_deletions  # rarely needed

        if of_deletions := waits_of_deletions(result, given, sent):
            from kubectl_evictplan.windows.clients import throttled_evictions  # more rarely

            throttled_evictions.span_client_limits(of_deletions, result, given)


def _meet_writes(result: Exploration, given: Given) -> bool:
    """Whether two may write one node at once, which is told then."""
    if given.configuration.profile.taint_writes_conflict:
        from kubectl_evictplan.windows.clients.conflicting_writes import span_conflicts

        return span_conflicts(result, given)
    from kubectl_evictplan.windows.clients.lost_writes import span_lost_writes  # old releases

    return span_lost_writes(result, given)


def _takes_taints_off(result: Exploration) -> bool:
    return any(key.what == TAINT_REMOVED for key, _ in result.nodes.windows)


def _share_client(result: Exploration, given: Given, sent: int) -> bool:
    """Whether ticks and passes wait for deletions, which is told then."""
    if given.configuration.separate_taint_eviction:
        return False
    from kubectl_evictplan.windows.clients.shared import span_shared_client  # old releases

    return span_shared_client(result, given, sent)
