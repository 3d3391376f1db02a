"""All unknowns of the node runs: which pieces there are."""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.unknowns.joined_stretches import joined_stretches
from kubectl_evictplan.windows.unknowns.last_heartbeats import LastHeartbeats
from kubectl_evictplan.windows.unknowns.monitor_ticks import MonitorPhase, TickCost, TickMeetings
from kubectl_evictplan.windows.unknowns.starts import KubeletReturns, ProcessStarts
from kubectl_evictplan.windows.unknowns.unknown import Unknown, settled
from kubectl_evictplan.windows.unknowns.zone_walk import ZoneWalk

# So many times more pieces may there be before those that are cut for the sake of others are joined.
_CUT_FOR_OTHERS = 8
# Of two answers the exact one may take twice as long.
_WORTH_BEING_EXACT = 2


def pieces(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    runs_max: int,
) -> list[Piece]:
    """Pieces that together stand for all node runs, for at most about ``runs_max`` of them (two for each piece)."""
    heartbeats = LastHeartbeats(snapshot, configuration)
    meetings = TickMeetings(snapshot, configuration, heartbeats.ends_ns)
    starts = (KubeletReturns(configuration),)
    # Where ticks of a new process fall follows from its start and from what they cost.
    processes = ProcessStarts(configuration, meetings.instants)
    ticks = (TickCost(meetings), processes, MonitorPhase(meetings))
    walk = ZoneWalk(snapshot, configuration)
    most = max(runs_max // 2, 1)
    enough = most * _WORTH_BEING_EXACT
    whole = _wholly_settled(Piece(scenario), (*starts, *ticks), enough)
    if whole is not None:
        whole = _with_last_heartbeats(whole, scenario, heartbeats, meetings, enough)
    if whole is not None:
        whole = [each for piece in whole for each in walk.settle(piece, enough)]
    if whole is not None and len(whole) <= enough:
        return whole
    found = settled(Piece(scenario), (*starts, *ticks, heartbeats, walk), most)
    if heartbeats.is_known(scenario) or not any(piece.missed for piece in found):
        return found
    # Too many choices: each of a few of last heartbeats with every phase, and one phase for each of many.
    begun = settled(Piece(scenario), starts, most)
    corners = [corner for part in begun for corner in heartbeats.corners(part)]
    share = max(most * 2 // 3 // len(corners), 1)
    found = [piece for each in corners for piece in settled(each, (*ticks, walk), share)]
    for index in range(most // 3):
        drawn = heartbeats.drawn(begun[index % len(begun)], index)
        found += settled(drawn, (*ticks, walk), 1)
    return found


def _wholly_settled(
    piece: Piece, unknowns: Sequence[Unknown[Piece]], most: int
) -> list[Piece] | None:
    """As ``settled``, but each gets as many as it needs; None where more than ``most`` are needed for all."""
    pieces = [piece]
    for unknown in unknowns:
        found: list[Piece] = []
        for each in pieces:
            found += unknown.settle(each, most)
            if len(found) > most or any(part.missed for part in found[-1:]):
                return None
        pieces = found
    return pieces


def _with_last_heartbeats(
    pieces: Sequence[Piece],
    scenario: Scenario,
    heartbeats: LastHeartbeats,
    meetings: TickMeetings,
    most: int,
) -> list[Piece] | None:
    """Every choice of them, told in as few pieces as can be; None where more than ``most`` are needed."""
    found: list[Piece] = []
    for piece in pieces:
        found += heartbeats.settle(piece, most)
        if len(found) > most * _CUT_FOR_OTHERS or any(part.missed for part in found[-1:]):
            return None
    starts_known = all(event.manager_up is None for event in scenario.events)
    if starts_known and meetings.fixed_phase_ns(scenario) is None:
        critical_ns = {moment.at_ns for moment in meetings.moments(scenario)}
        found = joined_stretches(
            found, heartbeats.every_span(scenario), critical_ns, meetings.period_ns
        )
    return found if len(found) <= most else None
