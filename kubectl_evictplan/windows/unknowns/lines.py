"""What nobody can know about a zone's line: when passes come, what they see, and which token was just spent.

The order in the line is ``line_windows``': whichever node a token is spent on, it could have been any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.kube.durations import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.windows.line_replay import LineRules
from kubectl_evictplan.windows.unknowns.unknown import Unknown, settled
from kubectl_evictplan.windows.zone_lines import ZoneLine

# A pass comes every 100 ms and costs about 1 ms on recorded control planes.
PASS_LAG_MAX_NS = 105 * MILLISECOND_NS


def token_max_ns(rate_qps: float) -> int:
    """How long after the one before it a token is spent at the latest, where somebody waits."""
    return int(SECOND_NS / rate_qps) + MICROSECOND_NS + PASS_LAG_MAX_NS


def wasted_tokens_max(rate_qps: float) -> int:
    """How many tokens are wasted at the most on a node that an informer still shows as ready."""
    return 1 + int(rate_qps * STALE_LISTER_NS / SECOND_NS)


class PassLag(Unknown[LineRules]):
    """Every token may wait that long for the pass that spends it."""

    name = "lag of passes"
    what = "how long after a token is there the next pass over a zone's line comes"

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """At once, and as late as it comes: tokens in between lie between."""
        for lag_ns in (0, PASS_LAG_MAX_NS):
            yield part._replace(lag_ns=lag_ns)


class TokenAtStart(Unknown[LineRules]):
    """A zone can only have used its token on a node that was not ready: see ``zones_without_token``."""

    name = "token at the start"
    what = "whether a zone in which nodes wait had just used its token before the start"

    def __init__(self, lines: Collection[ZoneLine], *, may_lack: bool) -> None:
        """``may_lack``: the snapshot leaves it open."""
        self.may_lack = may_lack and any(line.ran_before_start for line in lines)

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """It is there; and where it may be spent, it is not."""
        for spent in (False, True) if self.may_lack else (False,):
            yield part._replace(spent_at_start=spent)


class StaleView(Unknown[LineRules]):
    """From 1.34 on a node is queued by the tick that writes its condition."""

    name = "stale view"
    what = "whether a pass right after the write still sees the node as ready, and wastes its token"

    def __init__(self, configuration: ControllerConfiguration) -> None:
        self._can_be = _queues_at_once(configuration)

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """Not, and where it can be."""
        for stale in (False, True) if self._can_be else (False,):
            yield part._replace(stale_lister=stale)


class PassInsideTick(Unknown[LineRules]):
    """A tick takes time: a pass may fall between its steps for nodes and those for zones."""

    name = "pass inside a tick"
    what = "whether a pass falls into the middle of a tick"

    def __init__(self, lines: Collection[ZoneLine], configuration: ControllerConfiguration) -> None:
        changes = any(line.limiter_changes or line.takes_back for line in lines)
        self._matters = changes or _queues_at_once(configuration)

    def settle(self, part: LineRules, most: int) -> Iterator[LineRules]:
        """Not, and where it can matter."""
        for inside in (False, True) if self._matters else (False,):
            yield part._replace(mid_tick_pass=inside)


def _queues_at_once(configuration: ControllerConfiguration) -> bool:
    return configuration.taint_mode and configuration.profile.taint_on_current_condition


# Few values each: all of them are always tried.
_ALL = 16


def views(
    rules: LineRules, lines: Collection[ZoneLine], configuration: ControllerConfiguration
) -> list[LineRules]:
    """What passes see, each another way for a token to be spent."""
    unknowns = (StaleView(configuration), PassInsideTick(lines, configuration))
    return settled(rules, unknowns, _ALL)


def instants(rules: LineRules, token: TokenAtStart) -> list[LineRules]:
    """When tokens are spent: replays that differ in instants only."""
    return settled(rules, (PassLag(), token), _ALL)
