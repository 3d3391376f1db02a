"""What the control plane's release, flags and limits do to this prediction.

A function speaks only when what it is about takes part in this prediction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import TypeVar

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import (
    BY_DRAINS,
    EVICTION_API,
    KUBECTL_DELETE,
    TAINT_EVICTION,
)
from kubectl_evictplan.controllers.client_limits import (
    ClientLimit,
    client_limit,
    requests_per_eviction,
)
from kubectl_evictplan.controllers.flags import DEFAULT
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import float32
from kubectl_evictplan.controllers.node_lifecycle.zone_states import PARTIAL
from kubectl_evictplan.controllers.presets import PUBLISHED
from kubectl_evictplan.kube.budgets import webhooks_asked
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS, format_duration
from kubectl_evictplan.prediction.warnings.context import (
    WHOLE_PREDICTION,
    PlainWarning,
    QueuedNode,
    Statement,
    Statements,
    WarningContext,
    whole_if,
)
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode
from kubectl_evictplan.scenarios.outages import settings_of
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.sources.component_flags import CONTROLLER_MANAGER
from kubectl_evictplan.windows.spent_tokens import (
    StatesBefore,
    may_hold_orphaned_entries,
    waiting_while_all_are_down,
)

_Who = TypeVar("_Who")

# A delay that nobody would notice among the others.
_DELAY_SHOWN_MIN_NS = SECOND_NS


def taint_eviction_disabled(context: WarningContext) -> Statements:
    """No taint evicts: the taint manager is off, or the controller is disabled."""
    configuration = context.configuration
    if context.affected and not configuration.taint_mode:
        timeout = format_duration(configuration.pod_eviction_timeout_ns)
        yield Statement(
            "the taint manager is off: NoExecute taints evict nothing, and node lifecycle deletes the "
            f"pods of a node that is not ready after --pod-eviction-timeout={timeout}",
        )
    elif context.affected and not configuration.taint_eviction_enabled:
        yield Statement(
            "the taint eviction controller is disabled by --controllers: no taint evicts anything"
            f"{_elsewhere(context)}",
        )


def _elsewhere(context: WarningContext) -> str:
    """Who else might run a controller that kube-controller-manager does not."""
    leaders = {lease.name for lease in context.snapshot.infrastructure.leader_leases}
    others = sorted(name for name in leaders if name.endswith("cloud-controller-manager"))
    if not others:
        return ""
    return (
        f"; if {' or '.join(others)}, which runs here too, does it instead, that is not predicted"
    )


def node_lifecycle_disabled(context: WarningContext) -> Statements:
    """Nobody looks at leases."""
    if context.affected and not context.configuration.node_lifecycle_enabled:
        yield Statement(
            "the node lifecycle controller is disabled by --controllers: nobody notices silent kubelets, "
            f"and no node is tainted for them{_elsewhere(context)}",
        )


def several_act_at_once(context: WarningContext) -> Statements:
    """Every one of several kube-controller-managers acts, where none waits to be elected."""
    control_plane = context.snapshot.control_plane
    seen = control_plane.seen_in.get(CONTROLLER_MANAGER, ())
    managers = [str(one) for one in seen if one.kind == "Pod"]
    if not context.affected or len(managers) < 2:
        return
    if not settings_of(context.snapshot, len(managers)).leader_elect:
        yield Statement(
            f"{len(managers)} kube-controller-managers run with --leader-elect=false: each of them taints, counts down and "
            "deletes for itself, so that nodes that wait for one another are tainted sooner than is told here; what "
            "several do at once is not predicted",
            managers,
        )


def coordinated_election(context: WarningContext) -> Statements:
    """Who leads next is chosen in another way than windows of outages count with."""
    begins = any(event.manager_up and event.outage is not None for event in context.events)
    if begins and settings_of(context.snapshot, 0).coordinated:
        yield Statement(
            "the gate CoordinatedLeaderElection is on: the API server chooses the next leader, which may take longer, and "
            "when that works is not predicted: every window after it may be too early",
        )


pod_gc_disabled = PlainWarning(
    "pod garbage collection is disabled by --controllers: pods of deleted nodes stay for ever",
    lambda context: whole_if(
        context.affected
        and not context.configuration.pod_gc_enabled
        and (
            any(isinstance(event, DeleteNode) for event in context.events)
            or any(pod.node_name not in context.node_by_name for pod in context.pods)
        )
    ),
)


def kind_not_readable(context: WarningContext) -> Statements:
    """Kinds that could not be listed: unknown is not the same as empty."""
    depends = {
        "Node": "nodes",
        "Pod": "evictions",
        "Lease": "when kubelets were last heard of, and since when the controller runs",
        "PodDisruptionBudget": "budgets that the evictions break",
        "Namespace": "which webhooks are asked about its pods",
        "Service": "which services lose endpoints",
        "EndpointSlice": "which services lose endpoints",
        "PersistentVolume": "whether volumes can follow their pods",
        "PersistentVolumeClaim": "whether volumes can follow their pods",
        "VolumeAttachment": "whether volumes can follow their pods",
        "StorageClass": "where volumes can be made for claims that have none",
        "CSIDriver": "which drivers attach volumes to nodes",
        "CSINode": "how many volumes nodes can still take",
        "CSIStorageCapacity": "from where volumes that are still to be made can be reached",
        "ValidatingWebhookConfiguration": "whether a webhook may refuse the evictions",
        "KubeControllerManager": "flags of kube-controller-manager",
        "KubeAPIServer": "default toleration seconds of new pods",
        "ClusterOperator": "the control plane's release",
        "MutatingWebhookConfiguration": "whether a webhook may refuse the evictions",
    }
    for kind in sorted(set(context.snapshot.denied)):
        what = depends.get(kind, "who owns the pods")
        yield Statement(f"{kind} could not be listed; unknown is: {what}")


def delete_webhook_not_evaluated(context: WarningContext) -> Statements:
    """Admission webhooks are not asked here."""
    for names, pod, controller in _webhooks_asked(context):
        if controller not in BY_DRAINS:
            yield Statement(
                f"webhook {names} is asked before the pod is deleted, but not here: if it "
                "denies that, the controller tries five times and gives up for good",
                [pod],
            )


def drain_webhook_not_evaluated(context: WarningContext) -> Statements:
    """Nor those that kubectl drain meets: of evictions, or with --disable-eviction of deletions."""
    for names, pod, controller in _webhooks_asked(context):
        if controller == KUBECTL_DELETE:
            yield Statement(
                f"webhook {names} is asked before kubectl deletes the pod, but not here: if it denies that, the drain "
                "ends with an error",
                [pod],
            )
        elif controller == EVICTION_API:
            yield Statement(
                f"webhook {names} is asked before the pod is evicted, but not here: if it denies that, the drain ends "
                "with an error, or where the answer is 429 kubectl asks again every 5s",
                [pod],
            )


def _webhooks_asked(context: WarningContext) -> Iterator[tuple[str, str, str]]:
    """Yield the webhooks with the pod that they are asked about, and who deletes it."""
    webhooks = context.snapshot.webhooks
    for kind in context.kinds if webhooks else ():
        evicts = kind.key.controller == EVICTION_API
        alone = (kind.pod,) if kind.pod is not None else ()
        for pod in context.alike.pods_of(kind.lots) if kind.lots else alone:
            if names := webhooks_asked(webhooks, pod, evicts=evicts):
                yield ", ".join(names), pod.key, kind.key.controller


def monitor_phase_unknown(context: WarningContext) -> Statements:
    """When the monitor ticks cannot be seen from outside and decides instants."""
    configuration = context.configuration
    unknown = configuration.monitor_phase_ns is None and context.health_matters
    if unknown and not starts_without_controller(context.scenario):
        period = format_duration(configuration.node_monitor_period_ns)
        if spans := configuration.monitor_phases_ns:
            left_ns = sum(last - first for first, last in spans)
            left = format_duration(-(-left_ns // MILLISECOND_NS) * MILLISECOND_NS)
            yield Statement(
                f"when the node monitor ticks (every {period}) is known to within {left}, by the instant at "
                "which it gave these nodes up; windows span what is left, single offsets are those of the "
                "first such phase",
                configuration.monitor_seen_on,
            )
            return
        yield Statement(
            f"when the node monitor ticks (every {period}) cannot be seen from outside: windows span all "
            "phases, single offsets are those of phase 0; see --monitor-phase",
        )


def flags_assumed(context: WarningContext) -> Statements:
    """Flags that nothing in the input tells."""
    configuration = context.configuration
    control_plane = context.snapshot.control_plane
    seen = control_plane.controller_manager or control_plane.seen_in.get("kube-controller-manager")
    if seen or not context.health_matters:
        return
    flags = ("node-monitor-period", "node-monitor-grace-period", "node-eviction-rate")
    assumed = [name for name in flags if configuration.sources.get(name) == DEFAULT]
    if assumed:
        values = ", ".join(f"--{name}={configuration.texts.get(name, '')}" for name in assumed)
        published = PUBLISHED.get(control_plane.provider)
        says = f" ({published})" if published else ""
        yield Statement(
            f"the flags of kube-controller-manager are not in the input{says}; the release's defaults "
            f"are used, such as {values}; see --controller-flag",
        )


def lease_breaker(context: WarningContext) -> Statements:
    """1.37 passes nodes over whose Lease is not the one that its cache showed."""
    yield Statement(
        f"Kubernetes {context.profile.version} does not judge a node whose Lease somebody wrote without "
        "renewing it: it stays Ready, and its pods stay, until its kubelet renews the Lease or "
        "kube-controller-manager restarts",
        [entry.node for entry in context.entries(timeline.NodePassedOver)],
    )
    if context.configuration.lease_circuit_breaker and context.entries(timeline.NodeBecameUnknown):
        yield Statement(
            f"Kubernetes {context.profile.version} judges no node while its lease cache is behind the "
            "API server: on an overloaded one silence is noticed later than predicted",
        )


# -- the line before each zone's rate limiter ---------------------------------------------------------


def queue_order_unknown(context: WarningContext) -> Statements:
    """Several nodes in one line: who is next is not defined."""
    for several_wait, nodes in _contentions(context):
        yield Statement(
            f"{several_wait}, and the order among them is not defined: windows span all orders, single "
            "offsets are those of one of them",
            nodes,
        )


def token_may_be_wasted(context: WarningContext) -> Statements:
    """Several nodes in one line: a tick may queue one that a pass has just tainted (``markNodeForTainting``, 1.19.9)."""
    if context.profile.queue_mode != "REMOVE_ADD" or not context.configuration.taint_mode:
        return
    for several_wait, nodes in _contentions(context):
        yield Statement(
            f"{several_wait}: should a tainting pass come between two nodes of one monitor tick, which is "
            "rare, the node it taints is queued once more, wastes a token, and the nodes behind it are "
            "tainted one token later than told here",
            nodes,
        )


def queue_duplicates_bug(context: WarningContext) -> Statements:
    """1.19.0-1.19.8 and 1.20.0-1.20.4 queue what is queued."""
    if context.profile.queue_mode != "SETREMOVE":
        return
    unseen = may_hold_orphaned_entries(context.snapshot, context.scenario, context.configuration)
    hidden = (
        "; a node that joined while this controller ran may have left such entries, so that no node of "
        "its zone is ever tainted, and that cannot be seen"
    )
    several = [name for nodes in _contended_zones(context).values() for name in nodes]
    yield Statement(
        f"Kubernetes {context.profile.version} queues a waiting node again on every tick: tokens "
        "are wasted, and when one of them gets ready no other node of the zone is tainted"
        f"{hidden if unseen else ''} (mended in 1.19.9 and 1.20.5 by kubernetes/kubernetes pull request "
        "96876)",
        sorted({queued.node for queued in context.queued}) if unseen else several,
    )


def _contentions(context: WarningContext) -> Iterator[tuple[str, list[str]]]:
    """Yield of each contended zone how a sentence about it begins, and the nodes."""
    for zone, nodes in _contended_zones(context).items():
        yield f"several nodes wait in {zone or 'the zone without a name'} for one rate", nodes


def _contended_zones(context: WarningContext) -> dict[str, list[str]]:
    """Zones in which nodes wait at one time (first in, first out: of one tick) and one is served."""
    zones: dict[str, list[QueuedNode]] = {}
    for queued in sorted(context.queued, key=lambda queued: (queued.queued_ns, queued.node)):
        zones.setdefault(queued.zone, []).append(queued)
    first_in_first_out = context.profile.queue_mode == "ADD"
    found: dict[str, list[str]] = {}
    for zone, waiting in zones.items():
        # Where nobody is served at all the order is no question: see ``zone_stopped``.
        served = any(queued.tainted_ns is not None for queued in waiting)
        for before, after in pairwise(waiting if served else ()):
            end_ns = before.queued_ns if first_in_first_out else before.tainted_ns
            if before.node != after.node and (end_ns is None or after.queued_ns <= end_ns):
                found.setdefault(zone, []).extend((before.node, after.node))
    return found


def zone_stopped(context: WarningContext) -> Statements:
    """A small zone in partial disruption: nobody is tainted."""
    states: dict[str, list[timeline.ZoneStateChanged]] = {}
    for change in context.entries(timeline.ZoneStateChanged):
        states.setdefault(change.zone, []).append(change)
    for zone, changes in states.items():
        for change, after in zip_longest(changes, changes[1:]):
            if change.state == PARTIAL and change.rate_qps <= 0:
                yield Statement(
                    f"zone {zone or 'without a name'} is partially disrupted ({change.ready} ready, "
                    f"{change.not_ready} not ready) and small: its nodes are not tainted until the "
                    "state changes, their pods stay",
                    [
                        queued.node
                        for queued in context.queued
                        if queued.zone == zone
                        and (queued.tainted_ns is None or queued.tainted_ns > change.at_ns)
                        and (after is None or queued.queued_ns < after.at_ns)
                    ],
                )


def master_disruption(context: WarningContext) -> Statements:
    """All zones are fully disrupted: nobody is tainted."""
    if context.entries(timeline.MasterDisruptionEntered):
        yield Statement(
            "no node of any zone is ready: the controller takes its own fault into account, removes its "
            "NoExecute taints, which cancels their timers, and taints nothing until a node is back",
            {queued.node for queued in context.queued if queued.tainted_ns is None}
            or WHOLE_PREDICTION,
        )


def lost_zone_unseen(context: WarningContext) -> Statements:
    """All zones are down at the start: limiters run on where the last one that was not has vanished (rule 13)."""
    snapshot, configuration = context.snapshot, context.configuration
    if not configuration.node_lifecycle_enabled or starts_without_controller(context.scenario):
        return
    waiting = waiting_while_all_are_down(snapshot, configuration)
    before = StatesBefore(snapshot, context.scenario.start_ns, configuration) if waiting else None
    if before is None or before.may_be_served_when_down:
        return  # windows span it where something of such a zone is left
    yield Statement(
        "no node of any zone is ready at the start: told is that the controller leaves these nodes alone until one is "
        "back; where another zone was the last one with a ready node, and all its nodes were deleted after the others "
        "went down, it does not, and their pods may be evicted",
        waiting,
    )


def eviction_rate_zero(context: WarningContext) -> Statements:
    """A rate of 0 lets one node through, or all of them."""
    configuration = context.configuration
    rate = configuration.node_eviction_rate_qps
    if rate <= 0:
        effect = (
            "up to 1.23 this does not stop tainting, each zone taints all its nodes at once"
            if context.profile.rate_zero_accepts
            else "each zone taints one node per life of its queue, and then none"
        )
        yield Statement(
            f"--node-eviction-rate={configuration.texts.get('node-eviction-rate', rate)}: {effect}",
            [queued.node for queued in context.queued],
        )


def rate_one_bug(context: WarningContext) -> Statements:
    """A stopped limiter claims the rate 1: a swap to 1 changes nothing."""
    if not context.entries(timeline.MasterDisruptionEntered) and all(
        change.rate_qps > 0 for change in context.entries(timeline.ZoneStateChanged)
    ):
        return
    rates = {
        "node-eviction-rate": context.configuration.node_eviction_rate_qps,
        "secondary-node-eviction-rate": context.configuration.secondary_node_eviction_rate_qps,
    }
    for name, value in rates.items():
        if float32(value) == 1.0:
            yield Statement(
                f"--{name}=1 is not restored after a stop: a stopped limiter claims the rate 1, so the "
                "controller sees no change and the zone stays stopped; 0.99 or 1.01 work",
            )


# -- the controllers' own clients ----------------------------------------------------------------------


def api_throttling(context: WarningContext) -> Statements:
    """Client-side limits of kube-controller-manager: windows span what waits, the single offsets do not."""
    limit = client_limit(context.configuration)
    if limit is None:
        return
    per_delete = requests_per_eviction(context.configuration)
    numbers = context.alike.snapshot.stand_ins
    deletes = [
        (entry.at_ns, entry, numbers.get(entry.pod, 1) * per_delete)
        for entry in context.entries(timeline.PodDeleted)
        if entry.controller == TAINT_EVICTION
    ]
    for most, delay, late in _late(deletes, limit):
        yield Statement(
            f"up to {most // per_delete} pods are deleted at one instant with up to {per_delete} "
            f"request(s) each, and the controller's client makes {limit}: the last goes about {delay} "
            "later than its single offset says; windows span it",
            context.alike.nodes_of(late) - {""} or WHOLE_PREDICTION,
        )
    # A tick that marks many pods not ready takes that much longer.
    marked = [(e.at_ns, e.node, e.count) for e in context.entries(timeline.PodsMarkedNotReady)]
    for most, delay, nodes in _late(marked, limit):
        yield Statement(
            f"up to {most} pods are marked not ready in one tick, one request each, at {limit}: that "
            f"tick, and the tainting after it, takes about {delay} longer than single offsets say; windows span it",
            nodes,
        )


def _late(
    requests: Sequence[tuple[int, _Who, int]], limit: ClientLimit
) -> Iterator[tuple[int, str, list[_Who]]]:
    """Yield once, if many (instant, who, number) leave their bucket late: the most at once, how late, who.

    What counts is the last request of each instant.
    """
    qps, burst = limit.qps, limit.burst
    numbers: defaultdict[int, int] = defaultdict(int)
    for at_ns, _, number in requests:
        numbers[at_ns] += number
    late_ns = {}
    tokens, before_ns = float(burst), min(numbers, default=0)
    for at_ns in sorted(numbers):
        tokens = min(float(burst), tokens + (at_ns - before_ns) / SECOND_NS * qps)
        tokens -= numbers[at_ns]
        before_ns = at_ns
        delay_ns = int(-tokens / qps * SECOND_NS)
        if delay_ns >= _DELAY_SHOWN_MIN_NS:
            late_ns[at_ns] = delay_ns
    if late_ns:
        # Tenths of a second are honest enough for an estimate.
        tenth_ns = SECOND_NS // 10
        delay = format_duration(round(max(late_ns.values()) / tenth_ns) * tenth_ns)
        late = [who for at_ns, who, _ in requests if at_ns in late_ns and who]
        yield max(numbers[at_ns] for at_ns in late_ns), delay, late


def horizon_reached(context: WarningContext) -> Statements:
    """What is due after the end of the prediction is not in it."""
    if not context.nominal.run.complete:
        yield Statement(
            f"things were still going to happen after the horizon of "
            f"{format_duration(context.horizon_ns)}; see --horizon",
        )
