"""What one run of the node side says about each node: conditions, decisions, waits, taints.

A *node run* is ``simulate`` without pods: pods influence neither health nor taints, so the unknowns of the
control plane can be explored on the nodes alone. Nor do taints influence health: the run only records what
the zones' queues are told, and ``service_windows`` finds out when each node can be served.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    NodeBecameUnknown,
    NodeDeleted,
    NodeReadyPosted,
    QueueOperation,
    TaintAdded,
    TaintChanged,
    Timeline,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.queue_order import (
    Episode,
    QueueRules,
    ServiceWindow,
    episodes_of,
    service_windows,
)
from kubectl_evictplan.windows.timings import AdmissibleRun

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

    def __init__(self, health: NodeRun | None = None) -> None:
        """A record of its own, or one that shares what does not depend on the order of service."""
        self.ready: list[tuple[int, str]] = health.ready if health is not None else []
        self.decided: list[tuple[int, str]] = health.decided if health is not None else []
        self.taints: list[LifecycleTaint] = health.taints if health is not None else []
        self.waits: list[Wait] = []


class HealthRun:
    """The node side of all runs that share scenario, phase and cost: everything but the waits."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.nodes: dict[str, NodeRun] = {}
        self.gone: dict[str, list[int]] = {}
        self.stops: list[int] = []
        self.operations: dict[str, list[QueueOperation]] = {}
        self._read_entries()
        self._read_operations()

    def _node(self, name: str) -> NodeRun:
        record = self.nodes.get(name)
        if record is None:
            record = self.nodes[name] = NodeRun()
        return record

    def _read_entries(self) -> None:
        for entry in self.timeline.entries:
            if isinstance(entry, NodeBecameUnknown):
                self._node(entry.node).ready.append((entry.at_ns, "Unknown"))
            elif isinstance(entry, NodeReadyPosted):
                self._node(entry.node).ready.append((entry.at_ns, entry.status))
            elif isinstance(entry, NodeDeleted):
                self.gone.setdefault(entry.node, []).append(entry.at_ns)
            elif isinstance(entry, TaintChanged) and entry.by == NODE_LIFECYCLE:
                if entry.taint.effect == NO_EXECUTE:
                    added = isinstance(entry, TaintAdded)
                    self._node(entry.node).taints.append(
                        LifecycleTaint(entry.at_ns, added, entry.taint.key)
                    )

    def _read_operations(self) -> None:
        log = self.timeline.queue_log
        zones = {op.zone for op in log if op.what in ("created", "eligible")}
        for operation in log:
            if operation.what == "decided":
                self._node(operation.name).decided.append((operation.at_ns, operation.zone))
            elif operation.what in ("stopped", "pass"):
                if operation.what == "stopped":
                    self.stops.append(operation.at_ns)
                for zone in zones:
                    self.operations.setdefault(zone, []).append(operation)
            else:
                self.operations.setdefault(operation.zone, []).append(operation)


class ClusterRun:
    """All nodes of one run, with its timeline and timing."""

    def __init__(
        self, run: AdmissibleRun, health: HealthRun, configuration: ControllerConfiguration
    ) -> None:
        self.timing = run.timing
        self.scenario = run.scenario
        self.timeline = health.timeline
        self.nodes = {name: NodeRun(record) for name, record in health.nodes.items()}
        self._taint_mode = configuration.taint_mode
        self._find_waits(health, self._rules(configuration))

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
            tick_step_ns=step_ns,
            token_age_ns=timing.token_age_ns,
            inserts_twice=twice,
        )

    def _find_waits(self, health: HealthRun, rules: QueueRules) -> None:
        def useless_from(name: str, eligible_ns: int) -> int:
            if not self._taint_mode:
                return NEVER_NS  # the eviction pass looks at no condition
            record = health.nodes.get(name)
            instants = [at for at, status in record.ready if status == "True"] if record else []
            instants += health.gone.get(name, [])
            return min((at for at in instants if at >= eligible_ns), default=NEVER_NS)

        left_out = self._left_out()
        for recorded in health.operations.values():
            operations = [op for op in recorded if op.what not in left_out]
            episodes = episodes_of(operations, useless_from)
            if not episodes:
                continue
            for episode, window in service_windows(operations, episodes, rules).items():
                record = self.nodes.get(episode.name)
                if record is None:
                    record = self.nodes[episode.name] = NodeRun()
                record.waits.append(Wait(episode, window, episode.leave_ns in health.stops))
        for record in self.nodes.values():
            record.waits.sort(key=lambda wait: wait.episode.eligible_ns)

    def _left_out(self) -> set[str]:
        """Recorded operations that this run does not have."""
        left_out = set()
        if not self.timing.mid_tick_pass:
            left_out.add("pass")
        if self.timing.initial_token:
            left_out.add("spent")
        return left_out


class NodeRunner:
    """Simulates the node side of admissible runs; a simulation serves all runs that share it."""

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        """``snapshot`` must hold no pods."""
        self._snapshot = snapshot
        self._configuration = configuration
        # How a waiting node stays in line is the business of the replay: no tick is needed for it.
        profile = replace(configuration.profile, queue_mode="REMOVE_ADD")
        self._simulated = replace(configuration, profile=profile)
        self._health: dict[tuple[int, int, int], HealthRun] = {}

    def run(self, run: AdmissibleRun) -> ClusterRun:
        """One admissible run."""
        timing = run.timing
        key = (id(run.scenario), timing.monitor_phase_ns, timing.monitor_cost_ns)
        health = self._health.get(key)
        if health is None:
            health = self._health[key] = self._simulate(run)
        return ClusterRun(run, health, self._configuration)

    def _simulate(self, run: AdmissibleRun) -> HealthRun:
        events = run.scenario.events
        scenario = replace(
            run.scenario,
            events=tuple(event for event in events if not event.pods_only),
        )
        # Nobody is served, so lag, passes inside ticks and tokens leave no trace but their operations.
        timing = replace(run.timing, serves_queues=False, mid_tick_pass=True, initial_token=False)
        return HealthRun(simulate(self._snapshot, scenario, self._simulated, timing))
