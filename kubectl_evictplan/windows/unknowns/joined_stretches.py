"""Stretches of phases between which nothing changes: cut for the sake of other choices of last heartbeats.

A phase at which a window of last heartbeats begins or ends is critical to which ticks may be the first to see the heartbeat.
Once that is chosen, it is not any more: the run on its other side is the same one, if the same choice is there as well. So
pieces of one choice are joined over such phases, and at costs of ticks where only such phases meet, nothing has a corner.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence

from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.pieces import Piece

# Disjoint spans of one last heartbeat.
Spans = tuple[tuple[int, int], ...]


def joined_stretches(
    pieces: Iterable[Piece],
    spans: Sequence[Spans],
    critical_ns: Collection[int],
    period_ns: int,
) -> list[Piece]:
    """The pieces, joined where only windows of last heartbeats cut them.

    ``spans``: of each last heartbeat, in the order of the events; ``critical_ns``: offsets that matter to every choice.
    """
    groups: dict[Hashable, list[Piece]] = {}
    for piece in pieces:
        step_ns = period_ns + piece.first.cost_ns
        choice = tuple(_first_to_see(piece, step_ns))
        key = piece.first.cost_ns, piece.corner, piece.zones_backwards, choice
        groups.setdefault(key, []).append(piece)
    found: list[Piece] = []
    for alike in groups.values():
        step_ns = period_ns + alike[0].first.cost_ns
        cuts = {at_ns % step_ns for at_ns in critical_ns} | {0}
        if len(alike) > 1:
            alike = list(_joined(alike, cuts))
        if alike[0].corner is not None:
            choice = tuple(_first_to_see(alike[0], step_ns))
            alike = [each for each in alike if _has_corner(each, choice, spans, cuts, step_ns)]
        found += alike
    return found


def last_heartbeats(scenario: Scenario) -> Iterator[int]:
    """The last heartbeats of a scenario in which they are all filled in."""
    for event in scenario.events:
        if isinstance(event, StopKubelet):
            assert event.last_heartbeat_ns is not None, "every last heartbeat was chosen"
            yield event.last_heartbeat_ns


def _first_to_see(piece: Piece, step_ns: int) -> Iterator[int]:
    """The number of the tick that sees each last heartbeat first; 0 is the first tick after the start."""
    for at_ns in last_heartbeats(piece.scenario):
        yield -((piece.first.phase_ns - at_ns) // step_ns)


def _joined(pieces: Iterable[Piece], cuts: Collection[int]) -> Iterator[Piece]:
    current: Piece | None = None
    for piece in sorted(pieces, key=lambda each: each.first.phase_ns):
        begins_ns = piece.first.phase_ns
        if current is None:
            current = piece
        elif current.last.phase_ns + 1 == begins_ns and begins_ns not in cuts:
            current = current._replace(last=piece.last, last_scenario=piece.scenario, between=None)
        else:
            yield current
            current = piece
    if current is not None:
        yield current


def _has_corner(
    piece: Piece,
    choice: Sequence[int],
    spans: Sequence[Spans],
    cuts: Collection[int],
    step_ns: int,
) -> bool:
    """Whether one of the phases that meet there ends the piece: the choice does not go on behind it."""
    assert piece.corner is not None, "asked only where phases meet"
    meeting = {at_ns % step_ns for at_ns in piece.corner.instants}
    for end_ns, beyond_ns in (
        (piece.first.phase_ns, piece.first.phase_ns - 1),
        ((piece.last.phase_ns + 1) % step_ns, piece.last.phase_ns + 1),
    ):
        if end_ns in meeting and (
            end_ns in cuts or not _is_possible(choice, spans, beyond_ns, step_ns)
        ):
            return True
    return False


def _is_possible(
    choice: Sequence[int], spans: Sequence[Spans], phase_ns: int, step_ns: int
) -> bool:
    """Whether with this phase these ticks may be the first to see the heartbeats."""
    for number, of_node in zip(choice, spans, strict=True):
        tick_ns = phase_ns + number * step_ns
        if not any(low <= tick_ns and high > tick_ns - step_ns for low, high in of_node):
            return False
    return True
