"""All unknowns there are, in the order in which an eviction meets them."""

from __future__ import annotations

from typing import Any

from kubectl_evictplan.windows.unknowns.last_heartbeats import LastHeartbeats
from kubectl_evictplan.windows.unknowns.lines import PassInsideTick, PassLag, StaleView
from kubectl_evictplan.windows.unknowns.monitor_ticks import MonitorPhase, TickCost
from kubectl_evictplan.windows.unknowns.of_drains import DrainLatencies
from kubectl_evictplan.windows.unknowns.of_node_runs import (
    LinesAtStart,
    PostsAtStart,
    ProbesAtStart,
    StatesAtStart,
    ZoneWalk,
)
from kubectl_evictplan.windows.unknowns.of_pods import (
    GarbageCollection,
    PodExit,
    RunningTimers,
    StaleKey,
)
from kubectl_evictplan.windows.unknowns.order_in_line import OrderInLine
from kubectl_evictplan.windows.unknowns.requests import ClientLimits, WriteConflicts
from kubectl_evictplan.windows.unknowns.services import Services
from kubectl_evictplan.windows.unknowns.starts import KubeletReturns, ProcessStarts
from kubectl_evictplan.windows.unknowns.token_at_start import TokenAtStart
from kubectl_evictplan.windows.unknowns.unknown import Unknown

UNKNOWNS: tuple[type[Unknown[Any]], ...] = (
    LastHeartbeats,
    KubeletReturns,
    ProcessStarts,
    MonitorPhase,
    TickCost,
    ZoneWalk,
    StatesAtStart,
    LinesAtStart,
    ProbesAtStart,
    PostsAtStart,
    OrderInLine,
    PassLag,
    TokenAtStart,
    StaleView,
    PassInsideTick,
    Services,
    RunningTimers,
    StaleKey,
    GarbageCollection,
    PodExit,
    ClientLimits,
    WriteConflicts,
    DrainLatencies,
)
