"""What the control plane's release, flags and limits do to this prediction.

Sources: spec node-lifecycle 5.7, 7, 8 and 9, spec taint-eviction 0.2 and 4.6. A rule speaks only when what
it is about takes part in this prediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from kubectl_evictplan.cluster.timeline import (
    TAINT_EVICTION,
    MasterDisruptionEntered,
    NodeBecameUnknown,
    PodDeleted,
    PodsMarkedNotReady,
    ZoneStateChanged,
)
from kubectl_evictplan.controllers.flags import DEFAULT
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import float32
from kubectl_evictplan.controllers.node_lifecycle.zone_disruption import PARTIAL
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.warnings.situation import (
    Rule,
    Situation,
    Wait,
    caution,
    caution_by_message,
)
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode
from kubectl_evictplan.simulation.simulate import starts_without_controller

# client-go's own defaults, used when the flag is 0.
_CLIENT_QPS, _CLIENT_BURST = 5.0, 10
# A delay that nobody would notice among the others.
_DELAY_SHOWN_MIN_NS = SECOND_NS


def controllers_that_do_not_run(situation: Situation) -> Iterator[Warning]:
    """Disabled controllers and the mode without taint manager."""
    configuration = situation.configuration
    if not situation.affected:
        return
    if not configuration.taint_mode:
        timeout = format_duration(configuration.pod_eviction_timeout_ns)
        yield Warning(
            "taint-eviction-disabled",
            "the taint manager is off: NoExecute taints evict nothing, and node lifecycle deletes the "
            f"pods of a node that is not ready after --pod-eviction-timeout={timeout}",
        )
    elif not configuration.taint_eviction_enabled:
        yield Warning(
            "taint-eviction-disabled",
            "the taint eviction controller is disabled by --controllers: no taint evicts anything",
        )
    if not configuration.node_lifecycle_enabled:
        yield Warning(
            "node-lifecycle-disabled",
            "the node lifecycle controller is disabled by --controllers: nobody notices silent kubelets, "
            "and no node is tainted for them",
        )
    if not configuration.pod_gc_enabled and (
        any(isinstance(event, DeleteNode) for event in situation.events)
        or any(pod.node_name not in situation.node_by_name for pod in situation.pods)
    ):
        yield Warning(
            "pod-gc-disabled",
            "pod garbage collection is disabled by --controllers: pods of deleted nodes stay for ever",
        )


def unreadable_kinds(situation: Situation) -> Iterator[Warning]:
    """Kinds that could not be listed: unknown is not the same as empty."""
    depends = {
        "Node": "nodes",
        "Pod": "evictions",
        "Lease": "when kubelets were last heard of, and since when the controller runs",
        "PodDisruptionBudget": "budgets that the evictions break",
    }
    for kind in sorted(set(situation.snapshot.denied)):
        what = depends.get(kind, "who owns the pods")
        yield Warning("kind-not-readable", f"{kind} could not be listed; unknown is: {what}")


def webhooks(situation: Situation) -> Iterator[Warning]:
    """Admission webhooks are not asked; said only when the input shows that there are any."""
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    if situation.evicted and any(kind in situation.snapshot.ignored_kinds for kind in kinds):
        yield Warning(
            "delete-webhook-not-evaluated",
            "the input holds admission webhooks, which are not asked here: if one denies the DELETE of a "
            "pod, the controller tries five times and gives up for good",
        )


def invisible_control_plane(situation: Situation) -> Iterator[Warning]:
    """Phase, flags: what cannot be seen from outside and decides instants."""
    configuration = situation.configuration
    if not situation.health_matters:
        return
    if configuration.monitor_phase_ns is None and not starts_without_controller(situation.scenario):
        period = format_duration(configuration.node_monitor_period_ns)
        yield Warning(
            "monitor-phase-unknown",
            f"when the node monitor ticks (every {period}) cannot be seen from outside: windows span all "
            "phases, single offsets are those of phase 0; see --monitor-phase",
        )
    flags = ("node-monitor-period", "node-monitor-grace-period", "node-eviction-rate")
    if not situation.snapshot.control_plane.controller_manager:
        assumed = [name for name in flags if configuration.sources.get(name) == DEFAULT]
        if assumed:
            values = ", ".join(f"--{name}={configuration.texts.get(name, '')}" for name in assumed)
            yield Warning(
                "flags-assumed",
                "the flags of kube-controller-manager are not in the input; the release's defaults are "
                f"used, such as {values}; see --controller-flag",
            )
    if configuration.lease_circuit_breaker and situation.entries(NodeBecameUnknown):
        yield Warning(
            "lease-breaker",
            f"Kubernetes {situation.profile.version} judges no node while its lease cache is behind the "
            "API server: on an overloaded one silence is noticed later than predicted",
        )


# -- the line before each zone's rate limiter ---------------------------------------------------------


def queue_order(situation: Situation) -> Iterator[Warning]:
    """Several nodes in one line: who is next is not defined."""
    first_in = situation.profile.queue_mode == "ADD"
    found: dict[str, list[str]] = {}
    for zone, waits in _by_zone(situation.waits).items():
        nodes = _together(waits, same_start=first_in)
        # Where nobody is served at all the order is no question: see ``stopped_zones``.
        if nodes and any(wait.end_ns is not None for wait in waits):
            name = zone or "the zone without a name"
            message = (
                f"several nodes wait in {name} for one rate, and the order among them is not defined: "
                "windows span all orders, single offsets are those of one of them"
            )
            found[message] = nodes
    yield from caution_by_message("queue-order-unknown", found)
    if situation.profile.queue_mode == "SETREMOVE" and found:
        yield from caution(
            "queue-duplicates-bug",
            f"Kubernetes {situation.profile.version} queues a waiting node again on every tick: tokens "
            "are wasted, and when one of them gets ready no other node of the zone is tainted (fixed in "
            "1.19.9 and 1.20.5)",
            [name for nodes in found.values() for name in nodes],
        )


def _by_zone(waits: list[Wait]) -> Mapping[str, list[Wait]]:
    zones: dict[str, list[Wait]] = {}
    for wait in sorted(waits, key=lambda wait: (wait.start_ns, wait.node)):
        zones.setdefault(wait.zone, []).append(wait)
    return zones


def _together(waits: list[Wait], *, same_start: bool) -> list[str]:
    """Nodes that wait at one time; with ``same_start`` (first in, first out) those of one tick."""
    nodes: set[str] = set()
    for before, after in pairwise(waits):
        end_ns = before.start_ns if same_start else before.end_ns
        if before.node != after.node and (end_ns is None or after.start_ns <= end_ns):
            nodes |= {before.node, after.node}
    return sorted(nodes)


def stopped_zones(situation: Situation) -> Iterator[Warning]:
    """A small zone in partial disruption, or all zones in full: nobody is tainted."""
    found: dict[str, list[str]] = {}
    states: dict[str, list[ZoneStateChanged]] = {}
    for change in situation.entries(ZoneStateChanged):
        states.setdefault(change.zone, []).append(change)
    for zone, changes in states.items():
        ends = [change.at_ns for change in changes[1:]]
        for change, end_ns in zip(changes, [*ends, None], strict=True):
            if change.state != PARTIAL or change.rate_qps > 0:
                continue
            message = (
                f"zone {zone or 'without a name'} is partially disrupted ({change.ready} ready, "
                f"{change.not_ready} not ready) and small: its nodes are not tainted until the "
                "state changes, their pods stay"
            )
            found.setdefault(message, []).extend(
                wait.node
                for wait in situation.waits
                if wait.zone == zone
                and (wait.end_ns is None or wait.end_ns > change.at_ns)
                and (end_ns is None or wait.start_ns < end_ns)
            )
    yield from caution_by_message("zone-stopped", found)
    if situation.entries(MasterDisruptionEntered):
        yield Warning(
            "master-disruption",
            "no node of any zone is ready: the controller takes its own fault into account, removes its "
            "NoExecute taints, which cancels their timers, and taints nothing until a node is back",
            tuple(sorted({w.node for w in situation.waits if w.end_ns is None})),
        )


def odd_rates(situation: Situation) -> Iterator[Warning]:
    """Values of --node-eviction-rate that do not do what they say (spec node-lifecycle 7.5)."""
    configuration = situation.configuration
    waiting = sorted({wait.node for wait in situation.waits})
    rate = configuration.node_eviction_rate_qps
    if rate <= 0:
        yield from caution(
            "eviction-rate-zero",
            f"--node-eviction-rate={configuration.texts.get('node-eviction-rate', rate)}: each zone "
            "taints one node per life of its queue, and then none",
            waiting,
        )
    stopped = bool(situation.entries(MasterDisruptionEntered)) or any(
        change.rate_qps <= 0 for change in situation.entries(ZoneStateChanged)
    )
    rates = {
        "node-eviction-rate": rate,
        "secondary-node-eviction-rate": configuration.secondary_node_eviction_rate_qps,
    }
    for name, value in rates.items():
        if stopped and float32(value) == 1.0:
            yield Warning(
                "rate-one-bug",
                f"--{name}=1 is not restored after a stop: a stopped limiter claims the rate 1, so the "
                "controller sees no change and the zone stays stopped; 0.99 or 1.01 work",
            )


# -- the controllers' own clients ----------------------------------------------------------------------


def api_throttling(situation: Situation) -> Iterator[Warning]:
    """Client-side limits of kube-controller-manager: the tail comes later than predicted."""
    qps, burst = _client_limits(situation)
    if qps <= 0:
        return
    per_delete = 3 if situation.configuration.disruption_condition else 1
    entries = [e for e in situation.entries(PodDeleted) if e.controller == TAINT_EVICTION]
    deletes = Counter([entry.at_ns for entry in entries])
    delays = _delays_ns({at: n * per_delete for at, n in deletes.items()}, qps, burst)
    late = {at: delay for at, delay in delays.items() if delay >= _DELAY_SHOWN_MIN_NS}
    if late:
        most = max(deletes[at_ns] for at_ns in late)
        yield Warning(
            "api-throttling",
            f"up to {most} pods are deleted at one instant with up to {per_delete} request(s) each, and "
            f"the controller's client makes {qps:g} a second after {burst} at once: the last goes about "
            f"{format_duration(_rounded(max(late.values())))} later than predicted",
            tuple(sorted({e.node for e in entries if e.at_ns in late and e.node})),
        )
    yield from _marking_throttled(situation, qps, burst)


def _marking_throttled(situation: Situation, qps: float, burst: int) -> Iterator[Warning]:
    """A tick that marks many pods not ready, one request each, takes that much longer."""
    marked: Counter[int] = Counter()
    nodes_at: dict[int, set[str]] = {}
    for entry in situation.entries(PodsMarkedNotReady):
        marked[entry.at_ns] += entry.count
        nodes_at.setdefault(entry.at_ns, set()).add(entry.node)
    delays = _delays_ns(dict(marked), qps, burst)
    late = {at: delay for at, delay in delays.items() if delay >= _DELAY_SHOWN_MIN_NS}
    if late:
        most = max(marked[at_ns] for at_ns in late)
        yield Warning(
            "api-throttling",
            f"up to {most} pods are marked not ready in one tick, one request each, at {qps:g} a second "
            f"after {burst} at once: that tick, and the tainting after it, takes about "
            f"{format_duration(_rounded(max(late.values())))} longer than predicted",
            tuple(sorted({name for at_ns in late for name in nodes_at[at_ns]})),
        )


def _client_limits(situation: Situation) -> tuple[float, int]:
    """(requests per second, burst) of one controller's client; 0 or less per second: no limit."""
    configuration = situation.configuration
    qps = configuration.kube_api_qps
    if qps < 0:
        return 0.0, 0
    return qps or _CLIENT_QPS, max(configuration.kube_api_burst or _CLIENT_BURST, 1)


def _delays_ns(requests: Mapping[int, int], qps: float, burst: int) -> dict[int, int]:
    """How late the last request of each instant leaves a bucket of ``burst`` refilled at ``qps``."""
    delays = {}
    tokens, before_ns = float(burst), min(requests, default=0)
    for at_ns in sorted(requests):
        tokens = min(float(burst), tokens + (at_ns - before_ns) / SECOND_NS * qps)
        tokens -= requests[at_ns]
        before_ns = at_ns
        if tokens < 0:
            delays[at_ns] = int(-tokens / qps * SECOND_NS)
    return delays


def _rounded(duration_ns: int) -> int:
    """Tenths of a second are honest enough for an estimate."""
    tenth_ns = SECOND_NS // 10
    return round(duration_ns / tenth_ns) * tenth_ns


def horizon_reached(situation: Situation) -> Iterator[Warning]:
    """What is due after the end of the prediction is not in it."""
    if not situation.nominal.complete:
        yield Warning(
            "horizon-reached",
            f"things were still going to happen after the horizon of "
            f"{format_duration(situation.horizon_ns)}; see --horizon",
        )


RULES: tuple[Rule, ...] = (
    controllers_that_do_not_run,
    unreadable_kinds,
    webhooks,
    invisible_control_plane,
    queue_order,
    stopped_zones,
    odd_rates,
    api_throttling,
    horizon_reached,
)
