"""Bounds that are proven to hold, without any run: silence, tick, token, one after the other.

For zones in which kubelets only fall silent, and nodes that are down at the start stay down (``falling_zones``). Then nothing
that a tick sees there ever gets better: there are more and more nodes that are not ready, until all that fall silent are
noticed. Zones are coupled only where all of them are down: one of which it is proven that it never is uncouples the others. So

* a node is found silent as ``noticing`` says;
* it cannot be served before it is in line, and is in line with that tick, or one tick later;
* whoever lacks its taint at the start is in line with the first tick, and may be served at once;
* when the last node of its zone is in line, the zone's state and rate are those of the end. From then on each
  token goes to one of those who still wait, and all of them wait: ``_tokens_before`` says how many others may come first.
  Where nobody sees what is in line since before the start (``may_stand_still``) the last may wait for ever.

Nothing is proven of zones in which no node counts, nor where a tick may yet have to see in which state a zone is at the start, or who is in line although it has the taint.

Where exploration was not complete these bounds are printed, and only what they prove is called certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import float32
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneCount, ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_states import (
    FULL,
    compute_zone_state,
    limiter_rate_qps,
)
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.falling_zones import FallingZones, only_falls
from kubectl_evictplan.windows.noticing import Noticing
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.spent_tokens import (
    EntriesLeft,
    StatesBefore,
    all_down_until_ns,
    may_stand_still,
    still_in_line,
    zones_without_token,
)
from kubectl_evictplan.windows.unknowns.lines import (
    PASS_LAG_MAX_NS,
    token_max_ns,
    wasted_tokens_max,
    written_late_ns,
)
from kubectl_evictplan.windows.unknowns.tick_meetings import monitor_cost_max_ns

# Bounds that differ by less are told as one, so that what follows from them is found out once for many nodes: it is
# a fiftieth of a period of the monitor, by which bounds are wide anyhow.
_CLOSE_NS = 100 * MILLISECOND_NS


class NodeBounds(msgspec.Struct, frozen=True):
    """When the node becomes Unknown, and when it is tainted; ``certain``: in every run, within ``served``.

    Where ``served`` ends before it begins the node is never tainted.
    """

    unknown: Span
    served: Span
    certain: bool


class ZoneEnd(msgspec.Struct, frozen=True):
    """The state in which a zone stays, and within which its state changes.

    ``latest_ns``: when the n-th of its nodes is tainted at the latest; empty where that may be never.
    """

    state: str
    changes_ns: Span
    latest_ns: tuple[int, ...]


class _LatestTokens(msgspec.Struct, frozen=True):
    """The first token comes by ``first_ns``, and each other one so long after the one before it."""

    first_ns: int
    apart_ns: int

    def nth_ns(self, number: int) -> int:
        """When that one, counted from 0, is there at the latest."""
        return self.first_ns + number * self.apart_ns


class OuterBounds:
    """Of all nodes that fall silent in one scenario, or wait at its start; empty where nothing is proven."""

    def __init__(
        self, snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
    ) -> None:
        self.nodes: dict[str, NodeBounds] = {}
        # When all zones are down at the latest, if that is how it ends.
        self._all_noticed_ns: int | None = None
        # By the key of the zone.
        self.zones: dict[str, ZoneEnd] = {}
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self._membership = ZoneMembership(configuration)
        self._period_ns = configuration.node_monitor_period_ns
        self._step_max_ns = self._period_ns + monitor_cost_max_ns(snapshot)
        self._noticing = Noticing(configuration, self._step_max_ns)
        self._leaves_entries = configuration.profile.queue_mode == "SETREMOVE"
        self._nodes = {node.name: node for node in snapshot.nodes}
        # By zone what may waste its tokens.
        self._left: Mapping[str, EntriesLeft] = {}
        if (
            configuration.taint_mode
            and configuration.node_lifecycle_enabled
            and only_falls(scenario)
            and not StatesBefore(snapshot, scenario.start_ns, configuration).zones
            and not still_in_line(snapshot, configuration)
            and all_down_until_ns(snapshot, scenario.start_ns, configuration) is None
        ):
            self._left = zones_without_token(snapshot, scenario.start_ns, configuration)
            self._find(FallingZones(snapshot, scenario, configuration, self._step_max_ns))

    # -- silence, tick -----------------------------------------------------------------------------------

    def _find(self, falling: FallingZones) -> None:
        unclear = set(falling.unclear)
        unclear.update(
            zone
            for zone, silent in falling.silent.items()
            if any(map(self._seen_by_nobody, silent.values()))
        )
        counts = self._counts(falling, unclear)
        states = {
            zone: compute_zone_state(count, self._configuration.unhealthy_zone_threshold)
            for zone, count in counts.items()
        }
        all_down = all(state == FULL for state in states.values())
        heartbeats = [each for zone in falling.silent.values() for each in zone.values()]
        noticed = (self._noticing.given_up(each)[1] for each in heartbeats)
        self._all_noticed_ns = max(noticed, default=0) + self._step_max_ns if all_down else None
        if all_down and unclear:
            return  # whether all zones are down may change to and fro
        for zone in sorted({*falling.silent, *falling.waiting} & counts.keys() - unclear):
            # Without a counted node a zone's queue is made anew on nearly every tick: nothing is proven.
            count, down = counts[zone], falling.down.get(zone, set())
            fewest = sum(not self._membership.is_excluded(self._nodes[name]) for name in down)
            rates = None if all_down else self._rates(count, fewest)
            silent = falling.silent.get(zone, {}).items()
            unknown = {name: self._noticing.given_up(heartbeat) for name, heartbeat in silent}
            self._find_in_zone(zone, unknown, falling.waiting.get(zone, set()), rates, states[zone])

    def _seen_by_nobody(self, heartbeat: Span) -> bool:
        """Whether the present process may have begun only after it."""
        leader_ns = self._snapshot.control_plane.leader_acquire_time_ns
        return leader_ns is not None and heartbeat[0] <= leader_ns - self._scenario.start_ns

    # -- token -------------------------------------------------------------------------------------------

    def _counts(self, falling: FallingZones, unclear: Collection[str]) -> dict[str, ZoneCount]:
        """Ready and not ready nodes of every zone that is not unclear, in the end."""
        down = {
            name
            for by_zone in (falling.down, falling.silent)
            for names in by_zone.values()
            for name in names
        }
        counts = {
            zone: [number, 0]
            for zone, number in self._snapshot.bystanders.items()
            if zone not in unclear
        }
        for node in self._snapshot.nodes:
            zone = self._membership.zone_key(node)
            if zone not in unclear and not self._membership.is_excluded(node):
                pair = counts.setdefault(zone, [0, 0])
                pair[node.name in down] += 1
        return {zone: ZoneCount(*pair) for zone, pair in counts.items()}

    def _rates(self, end: ZoneCount, fewest: int) -> list[float]:
        """The rates that the zone goes through, the last one first; one where it stays as it is.

        ``fewest``: so many nodes that count are not ready at the start.
        """
        configuration = self._configuration
        found: dict[str, float] = {}
        for number in range(end.not_ready, fewest - 1, -1):
            count = ZoneCount(end.size - number, number)
            state = compute_zone_state(count, configuration.unhealthy_zone_threshold)
            rate = limiter_rate_qps(state, count.size, configuration)
            if rate is not None:
                found.setdefault(state, float32(rate))
        return list(found.values())

    def _find_in_zone(
        self,
        zone: str,
        unknown: dict[str, Span],
        waiting: Collection[str],
        rates: list[float] | None,
        state: str,
    ) -> None:
        at_once = self._configuration.profile.taint_on_current_condition
        later_ns = (0, 0) if at_once else (self._period_ns, self._step_max_ns)
        # Who waits at the start is in line again with the first tick at the latest.
        settled_ns = max((latest_ns for _, latest_ns in unknown.values()), default=0)
        ticked_ns = max(settled_ns, self._step_max_ns if waiting else 0)
        spans = _joined_where_close(unknown)
        in_line = {
            name: (first_ns + later_ns[0], last_ns + later_ns[1])
            for name, (first_ns, last_ns) in spans.items()
        }
        in_line |= dict.fromkeys(waiting, (0, ticked_ns + later_ns[1]))
        several = Counter(in_line.values())
        before = {span: self._tokens_before(span, several) for span in several}
        left = self._left.get(zone, EntriesLeft(0, 0))
        last_ns = max(last_ns for _, last_ns in several)
        tokens = self._latest_tokens(max(last_ns, self._step_max_ns if left.back else 0), rates)
        if tokens is not None:
            tokens = replace(tokens, first_ns=tokens.nth_ns(left.gone))
        if unknown:
            first_ns = min(earliest_ns for earliest_ns, _ in unknown.values())
            places = sorted(before[span] for span in in_line.values())
            if not self._leaves_entries:  # each token taints another node
                places = list(range(len(in_line)))
            latest = () if tokens is None else tuple(map(tokens.nth_ns, places))
            self.zones[zone] = ZoneEnd(state, (first_ns, settled_ns), latest)
        end_ns = self._last_token(ticked_ns, rates)
        for name, span in in_line.items():
            last_ns = end_ns if tokens is None else tokens.nth_ns(before[span])
            served = span[0] if name in spans else 0, last_ns
            self.nodes[name] = NodeBounds(spans.get(name, span), served, tokens is not None)

    def _last_token(self, settled_ns: int, rates: list[float] | None) -> int:
        """When a zone that taints nobody in the end taints a node at the latest: before it is told to stop."""
        # A bucket that was made without a rate may keep its first token for any time.
        if self._configuration.node_eviction_rate_qps <= 0:
            return self._scenario.end_ns
        if self._all_noticed_ns is not None:
            return self._all_noticed_ns  # the tick that finds all zones down stops all of them
        return settled_ns if rates is not None and rates[0] <= 0 else self._scenario.end_ns

    def _latest_tokens(self, in_line_ns: int, rates: list[float] | None) -> _LatestTokens | None:
        """Tokens after the last node is in line; None where nodes may wait for ever."""
        if not rates or rates[0] <= 0 or (rates[0] == 1.0 and 0.0 in rates):
            return (
                None  # a limiter that refused all keeps doing so when it is told one node a second
            )
        if may_stand_still(self._snapshot, self._scenario, self._configuration):
            return None
        token_ns = token_max_ns(rates[0])
        # A new bucket may be empty, and a pass that still sees the last node as ready wastes a token.
        # And the token of the start may have been spent just before it.
        extra, waits_ns = int(len(rates) > 1 or token_ns > in_line_ns), PASS_LAG_MAX_NS
        if self._configuration.profile.taint_on_current_condition:
            extra += wasted_tokens_max(rates[0])
            waits_ns += STALE_LISTER_NS + self._step_max_ns + written_late_ns(self._configuration)
        return _LatestTokens(in_line_ns + waits_ns + extra * token_ns, token_ns)

    def _tokens_before(self, own: Span, in_line: Counter[Span]) -> int:
        """How many tokens others can take before a node that gets in line within ``own``: up to 1.20.4 first in, first out."""
        if self._configuration.profile.queue_mode == "REMOVE_ADD":
            return in_line.total() - 1
        # Of 1.19.0-8 and 1.20.0-4 every tick puts another entry in line of each node that waits, and each takes a token.
        entries = {
            span: (own[1] - span[0]) // self._period_ns + 1 if self._leaves_entries else 1
            for span in in_line
            if span[0] <= own[1]
        }
        others = sum(in_line[span] * number for span, number in entries.items())
        return others - entries[own]


def _joined_where_close(spans: dict[str, Span]) -> dict[str, Span]:
    """The spans, those that begin and end in the same ``_CLOSE_NS`` as one: it is still a bound for each."""
    joined: dict[Span, Span] = {}
    for low_ns, high_ns in spans.values():
        place = low_ns // _CLOSE_NS, high_ns // _CLOSE_NS
        first_ns, last_ns = joined.get(place, (low_ns, high_ns))
        joined[place] = min(low_ns, first_ns), max(high_ns, last_ns)
    return {
        name: joined[low_ns // _CLOSE_NS, high_ns // _CLOSE_NS]
        for name, (low_ns, high_ns) in spans.items()
    }
