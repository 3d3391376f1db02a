"""What one run of the node side says about each node: conditions, decisions, waits, taints.

A *node run* is ``simulate`` without pods: pods influence neither health nor taints, so the unknowns of the
control plane can be explored on the nodes alone. Nor do taints influence health: the run only records what
the zones' queues are told, and ``service_windows`` finds out when each node can be served.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.bounds.queue_order import (
    Episode,
    QueueRules,
    ServiceWindow,
    episodes_of,
    service_windows,
)
from kubectl_evictplan.bounds.timings import AdmissibleRun
from kubectl_evictplan.controllers.configuration import ControllerConfiguration
from kubectl_evictplan.controllers.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.model.objects import NO_EXECUTE, ClusterSnapshot
from kubectl_evictplan.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.simulation import simulate
from kubectl_evictplan.timeline import (
    NODE_DELETED,
    NODE_LIFECYCLE,
    NODE_READY,
    NODE_UNKNOWN,
    TAINT_ADDED,
    TAINT_REMOVED,
    QueueOperation,
    Timeline,
)

NEVER_NS = 2**62


class Wait(NamedTuple):
    """A node's wait in its zone's line, with the window of being served (None: never served)."""

    episode: Episode
    window: ServiceWindow | None
    # The process ended while the node waited or was tainted: the taint outlives the wait.
    cut_by_stop: bool


class LifecycleTaint(NamedTuple):
    """A NoExecute taint written by the node lifecycle controller."""

    at_ns: int
    added: bool
    key: str


class NodeRun:
    """One node in one run."""

    __slots__ = ("decided", "ready", "taints", "waits")

    def __init__(self) -> None:
        self.ready: list[tuple[int, str]] = []
        self.decided: list[tuple[int, str]] = []
        self.taints: list[LifecycleTaint] = []
        self.waits: list[Wait] = []


class ClusterRun:
    """All nodes of one run, with its timeline and timing."""

    def __init__(
        self,
        run: AdmissibleRun,
        timeline: Timeline,
        configuration: ControllerConfiguration,
    ) -> None:
        self.timing = run.timing
        self.scenario = run.scenario
        self.timeline = timeline
        self.nodes: dict[str, NodeRun] = {}
        self._taint_mode = configuration.taint_mode
        gone = self._read_entries()
        self._read_waits(configuration, gone)

    def node(self, name: str) -> NodeRun:
        """The node's record, empty when nothing happened to it."""
        record = self.nodes.get(name)
        if record is None:
            record = self.nodes[name] = NodeRun()
        return record

    def _read_entries(self) -> dict[str, list[int]]:
        gone: dict[str, list[int]] = {}
        for entry in self.timeline.entries:
            if entry.kind == NODE_UNKNOWN:
                self.node(entry.subject).ready.append((entry.at_ns, "Unknown"))
            elif entry.kind == NODE_READY:
                self.node(entry.subject).ready.append((entry.at_ns, entry.value))
            elif entry.kind == NODE_DELETED:
                gone.setdefault(entry.subject, []).append(entry.at_ns)
            elif entry.kind in (TAINT_ADDED, TAINT_REMOVED) and entry.detail == NODE_LIFECYCLE:
                taint = entry.taint
                if taint is not None and taint.effect == NO_EXECUTE:
                    self.node(entry.subject).taints.append(
                        LifecycleTaint(entry.at_ns, entry.kind == TAINT_ADDED, taint.key)
                    )
        return gone

    def _rules(self, configuration: ControllerConfiguration) -> QueueRules:
        timing, horizon_ns = self.timing, self.scenario.horizon_ns
        assert timing.pass_lag_ns is not None, "bounds are taken over runs with a pass lag"
        twice = configuration.taint_mode and configuration.profile.queue_mode == "SETREMOVE"
        step_ns = configuration.node_monitor_period_ns + timing.monitor_cost_ns
        return QueueRules(
            lag_ns=timing.pass_lag_ns,
            rate_qps=configuration.node_eviction_rate_qps,
            first_in_first_out=configuration.profile.queue_mode == "ADD",
            stale_ns=STALE_LISTER_NS if timing.stale_lister else 0,
            end_ns=HORIZON_DEFAULT_MAX_NS if horizon_ns is None else horizon_ns,
            tick_phase_ns=timing.monitor_phase_ns,
            tick_step_ns=step_ns if twice else 0,
        )

    def _read_waits(
        self, configuration: ControllerConfiguration, gone: dict[str, list[int]]
    ) -> None:
        by_zone: dict[str, list[QueueOperation]] = {}
        zones = {op.zone for op in self.timeline.queue_log if op.what in ("created", "eligible")}
        stops = []
        for operation in self.timeline.queue_log:
            if operation.what == "decided":
                self.node(operation.name).decided.append((operation.at_ns, operation.zone))
            elif operation.what in ("stopped", "pass"):
                if operation.what == "stopped":
                    stops.append(operation.at_ns)
                for zone in zones:
                    by_zone.setdefault(zone, []).append(operation)
            else:
                by_zone.setdefault(operation.zone, []).append(operation)
        rules = self._rules(configuration)

        def useless_from(name: str, eligible_ns: int) -> int:
            if not self._taint_mode:
                return NEVER_NS  # the eviction pass looks at no condition
            instants = [at for at, status in self.node(name).ready if status == "True"]
            instants += gone.get(name, [])
            return min((at for at in instants if at >= eligible_ns), default=NEVER_NS)

        for operations in by_zone.values():
            episodes = episodes_of(operations, useless_from)
            if not episodes:
                continue
            for episode, window in service_windows(operations, episodes, rules).items():
                cut = episode.leave_ns in stops
                self.node(episode.name).waits.append(Wait(episode, window, cut))
        for record in self.nodes.values():
            record.waits.sort(key=lambda wait: wait.episode.eligible_ns)


def run_nodes(
    snapshot: ClusterSnapshot, run: AdmissibleRun, configuration: ControllerConfiguration
) -> ClusterRun:
    """Simulate the node side of one admissible run. ``snapshot`` must hold no pods."""
    scenario = replace(
        run.scenario,
        events=tuple(event for event in run.scenario.events if not event.action.startswith("pod-")),
    )
    # How a waiting node stays in line is the business of the replay: the run need not tick for it.
    profile = replace(configuration.profile, queue_mode="REMOVE_ADD")
    timeline = simulate(
        snapshot,
        scenario,
        replace(configuration, profile=profile),
        replace(run.timing, serves_queues=False),
    )
    return ClusterRun(run, timeline, configuration)
