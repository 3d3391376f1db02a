"""When processes of kubectl begin with their nodes, one after the other."""

from __future__ import annotations

from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.delays import Range, plus, takes, until_first_node
from kubectl_evictplan.windows.drains.listed_pods import ListedPods
from kubectl_evictplan.windows.drains.planned import PlannedTurn
from kubectl_evictplan.windows.drains.turn_bounds import Passing


def pause_after(turn: PlannedTurn) -> Range:
    """From the end with a node to the begin with the next one."""
    settle_ns = turn.options.settle_ns
    return plus((settle_ns, settle_ns), takes(Latency.LIST_PODS))


def first_start(event: Drain) -> Range:
    """When kubectl begins with the first node."""
    return plus(event.span, until_first_node(len(event.nodes)))


def ends_before(calm_ns: int, start: Range, passing: Passing) -> bool:
    """Whether kubectl is through with a node before anything else happens."""
    if None in passing.reasons:
        return calm_ns >= HORIZON_DEFAULT_MAX_NS
    return start[1] + passing.until[1] < calm_ns


def at_least(turn: PlannedTurn) -> PlannedTurn:
    """The turn without those who can only make it longer: guests, unless the first that is refused ends it."""
    return turn if turn.options.disable_eviction else turn._replace(guests=ListedPods())
