"""The control plane, or a part of it, is away for a while: which events that is, and how sure they are.

Nothing is evicted meanwhile: nobody is there to do it. What matters is the return. A new
kube-controller-manager knows nothing: every node is granted the whole grace period from its first tick on,
every countdown begins again. When it begins depends on leader election (client-go's ``LeaderElector``) and on who
restarts a process that has lost its lease; when kubelets are heard again depends on their retries. All
of that is a window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from kubectl_evictplan.cluster.kubelets import Unheard, is_up_at_start, observed_at_ns
from kubectl_evictplan.engine.timing import INFORMERS_FILLED_MAX_NS
from kubectl_evictplan.kube.durations import (
    MINUTE_NS,
    SECOND_NS,
    format_duration,
    parse_duration_ns,
)
from kubectl_evictplan.kube.feature_gates import may_be_on, parse_boolean
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.objects import Warning as ClusterWarning
from kubectl_evictplan.scenarios.actions.processes import (
    StartKubelet,
    StartManager,
    StopKubelet,
    StopManager,
)
from kubectl_evictplan.scenarios.scenario import Outage, OutagePart, Scenario, ScenarioEvent
from kubectl_evictplan.sources.component_flags import CONTROLLER_MANAGER
from kubectl_evictplan.sources.control_plane import component_of

# client-go's defaults. A lease is waited out from when it is first seen unchanged; a leader that cannot renew it
# for the deadline exits; candidates look every retry period and up to 120 % more (``JitterFactor``).
_LEADER_ELECTION_NS = {
    "leader-elect-lease-duration": 15 * SECOND_NS,
    "leader-elect-renew-deadline": 10 * SECOND_NS,
    "leader-elect-retry-period": 2 * SECOND_NS,
}
_JITTER_PERCENT = 220
_RELEASES_LEASE = "ControllerManagerReleaseLeaderElectionLockOnExit"
_COORDINATED = "CoordinatedLeaderElection"
# A process that cannot read its configuration from the API server exits; kubelet starts it again after 10 s,
# 20 s, ... 5 min (``MaxContainerBackOff``), each time in the next sync of the pod: these are up to 15 s apart
# (``workerBackOffPeriodJitterFactor``) and begin at whole seconds of its loop; a container takes about one to start.
_BACK_OFF_FIRST_NS, _BACK_OFF_MAX_NS = 10 * SECOND_NS, 5 * MINUTE_NS
_POD_SYNC_MAX_NS = 17 * SECOND_NS
# Where its machine is dead that process waits for a connection: it asks again after 1, 3, 7 and 15 s, and gives up after 30 s.
# Who returns just after the last time is not found before the next process.
_DIALS_UNHEARD_MAX_NS = 15 * SECOND_NS
# A kubelet tries its lease again after 7 s at most (``maxBackoff``) and its status after 10.4 s; a request
# that hangs takes 10 s.
KUBELET_RETURN_MAX_NS = 21 * SECOND_NS


# What `outage_warnings`, and `warnings` of `failing_nodes`, say is about the outage, not about the input.
OUTAGE_CODES = (
    "control-plane-fails-too",
    "leader-fails-too",
    "leader-may-fail-too",
    "outage-return",
    "outage-kubelets-return",
    "outage-replicas",
)


# How people call what is away.
AWAY = {
    Outage.CONTROL_PLANE.value: "the control plane",
    Outage.CONTROLLER_MANAGER.value: "kube-controller-manager",
    Outage.API_SERVER.value: "the API server",
}


class Lag(msgspec.Struct, frozen=True):
    """How long after the end of an outage a new kube-controller-manager begins to tick."""

    earliest_ns: int
    latest_ns: int


class ControlPlane(msgspec.Struct, frozen=True):
    """What the input shows of kube-controller-manager: how many there are (0: none is to be seen).

    ``starts_alone``: it needs no API server to start, because --requestheader-client-ca-file is given.
    ``releases_lease``: it gives up its lease when it exits (gate ControllerManagerReleaseLeaderElectionLockOnExit, alpha in 1.36).
    ``coordinated``: the API server chooses who leads (gate CoordinatedLeaderElection, alpha in 1.31): when, nobody has found out here.
    """

    replicas: int = 0
    leader_elect: bool = True
    lease_duration_ns: int = _LEADER_ELECTION_NS["leader-elect-lease-duration"]
    renew_deadline_ns: int = _LEADER_ELECTION_NS["leader-elect-renew-deadline"]
    retry_period_ns: int = _LEADER_ELECTION_NS["leader-elect-retry-period"]
    starts_alone: bool = False
    releases_lease: bool = False
    coordinated: bool = False

    @property
    def looks_within_ns(self) -> int:
        """How far apart two looks of a candidate at the lease can be."""
        return self.retry_period_ns * _JITTER_PERCENT // 100

    @property
    def api_outage_min_ns(self) -> int:
        """A leader can outlive a shorter outage of the API server."""
        return self.renew_deadline_ns + 2 * self.retry_period_ns


def control_plane_of(snapshot: ClusterSnapshot) -> ControlPlane:
    """Return what the static pods in a snapshot tell; what cannot be read is the default."""
    replicas = sum(component_of(pod) == CONTROLLER_MANAGER for pod in snapshot.pods)
    return settings_of(snapshot, replicas)


def settings_of(snapshot: ClusterSnapshot, replicas: int) -> ControlPlane:
    """Return the same of so many kube-controller-managers."""
    flags = snapshot.control_plane.controller_manager
    components = (flags, snapshot.control_plane.api_server)
    lease_ns, deadline_ns, retry_ns = (
        _duration_ns(flags.get(name, ""), default_ns)
        for name, default_ns in _LEADER_ELECTION_NS.items()
    )
    return ControlPlane(
        replicas,
        _is_true(flags.get("leader-elect", "true")),
        lease_ns,
        deadline_ns,
        retry_ns,
        "requestheader-client-ca-file" in flags,
        may_be_on(_RELEASES_LEASE, flags.get("feature-gates", "")),
        any(may_be_on(_COORDINATED, told.get("feature-gates", "")) for told in components),
    )


def _is_true(text: str) -> bool:
    try:
        return parse_boolean(text)
    except ValueError:
        return True


def _duration_ns(text: str, default_ns: int) -> int:
    try:
        return parse_duration_ns(text) if text else default_ns
    except ValueError:
        return default_ns


def not_predicted(outage: Outage, duration_ns: int | None, control_plane: ControlPlane) -> str:
    """Return why an outage is not predicted, or ""."""
    if outage is not Outage.API_SERVER:
        return ""
    if not control_plane.leader_elect:
        return (
            "kube-controller-manager runs with --leader-elect=false: it outlives its API server with all that "
            "it remembers, and what it does then is not predicted"
        )
    shortest_ns = control_plane.api_outage_min_ns
    if duration_ns is not None and duration_ns < shortest_ns:
        return (
            f"kube-controller-manager may outlive an API server that is away for less than "
            f"{format_duration(shortest_ns)}, and what it does then is not predicted"
        )
    return ""


def manager_lag(outage: Outage, duration_ns: int, control_plane: ControlPlane) -> Lag:
    """Return when kube-controller-manager is back, counted from the end of the outage."""
    replicas, looks_ns = control_plane.replicas, control_plane.looks_within_ns
    # How long a process may take to see the API server again, or even to be there.
    seen_ns = 0
    if outage.silences_kubelets:
        seen_ns = looks_ns + control_plane.renew_deadline_ns // 2
        if not control_plane.starts_alone:
            seen_ns = max(seen_ns, _DIALS_UNHEARD_MAX_NS) + _restart_max_ns(duration_ns)
    if not control_plane.leader_elect:
        return Lag(0, seen_ns + INFORMERS_FILLED_MAX_NS)
    if outage is Outage.API_SERVER and replicas > 1:
        # The others wait beside the old leader and do not exit: the lease has run out for them.
        left_ns = max(0, control_plane.lease_duration_ns + looks_ns - duration_ns)
        return Lag(
            0, left_ns + looks_ns + control_plane.renew_deadline_ns // 2 + INFORMERS_FILLED_MAX_NS
        )
    # A process that cannot be seen may not run for election, or may have waited the lease out already.
    alone = replicas == 1 or (replicas > 1 and outage is Outage.CONTROLLER_MANAGER)
    elected_ns = control_plane.lease_duration_ns
    waits = alone and not control_plane.releases_lease
    return Lag(
        elected_ns if waits else 0, seen_ns + elected_ns + looks_ns + INFORMERS_FILLED_MAX_NS
    )


def takeover_lag(control_plane: ControlPlane) -> Lag:
    """Return when another process works, counted from when the leader's machine fails.

    The leader has renewed its lease within the retry period before (``renew``); the others see that at a look, wait the lease
    out from then and find it over at a look (``tryAcquireOrRenew``). One of their requests may hang.
    """
    lease_ns, looks_ns = control_plane.lease_duration_ns, control_plane.looks_within_ns
    return Lag(
        max(lease_ns - control_plane.retry_period_ns, 0),
        lease_ns + 2 * looks_ns + control_plane.renew_deadline_ns // 2 + INFORMERS_FILLED_MAX_NS,
    )


def _restart_max_ns(duration_ns: int) -> int:
    """How long kubelet waits at most before it starts a process again that keeps failing."""
    back_off_ns, begins_ns = _BACK_OFF_FIRST_NS, 0
    while back_off_ns < _BACK_OFF_MAX_NS and begins_ns + back_off_ns < duration_ns:
        begins_ns += back_off_ns
        back_off_ns = min(2 * back_off_ns, _BACK_OFF_MAX_NS)
    return back_off_ns + _POD_SYNC_MAX_NS


def outage_events(
    outage: Outage,
    duration_ns: int | None,
    snapshot: ClusterSnapshot,
    grace_period_ns: int,
    origin: str,
    failing: Collection[str] = (),
) -> list[ScenarioEvent]:
    """Return the outage from offset 0 on, for ``duration_ns`` (None: it does not end).

    ``failing`` are nodes whose kubelets are silent anyway.
    ``grace_period_ns`` is --node-monitor-grace-period. Kubelets that are heard again long before it can be over
    are left out: a new process counts it from its own start, so that their silence changes nothing.
    """
    unheard = outage.silences_kubelets and not outlasts_kubelets(grace_period_ns)
    told = _told_by_kubelets(snapshot) if unheard else ()
    statuses = {name: status for name, status in told if name not in failing}
    part = OutagePart(outage.value, duration_ns)
    events: list[ScenarioEvent] = [StopManager(at_ns=0, origin=origin, outage=part)]
    if statuses:
        events.append(StopKubelet(at_ns=0, nodes=tuple(statuses), origin=origin, outage=part))
    if duration_ns is None:
        return events
    lag = manager_lag(outage, duration_ns, control_plane_of(snapshot))
    for status in sorted(set(statuses.values()), reverse=True):
        back = StartKubelet(
            at_ns=duration_ns,
            within_ns=KUBELET_RETURN_MAX_NS,
            nodes=tuple(name for name, said in statuses.items() if said == status),
            status=status,
            origin=origin,
            outage=part,
        )
        events.append(back)
    start = StartManager(
        at_ns=duration_ns + lag.earliest_ns,
        within_ns=lag.latest_ns - lag.earliest_ns,
        origin=origin,
        outage=part,
    )
    return sorted([*events, start], key=lambda event: event.at_ns)


def outlasts_kubelets(grace_period_ns: int) -> bool:
    """Whether a grace period cannot be over before every kubelet is heard again, and twice."""
    return grace_period_ns > KUBELET_RETURN_MAX_NS + 10 * SECOND_NS


def kubelets_unheard(scenario: Scenario) -> tuple[Unheard, ...]:
    """When no kubelet can be heard, nor hear, whether or not events say of each that it is silent."""
    found: dict[int | None, int] = {}
    for event in scenario.events:
        if event.outage is not None and event.in_silence:
            until_ns = event.outage.until_ns
            if until_ns is None or event.at_ns < until_ns:
                found.setdefault(until_ns, event.at_ns)
    start_ns = scenario.start_ns
    return tuple(
        Unheard(
            start_ns + since_ns,
            None if until_ns is None else start_ns + until_ns,
            KUBELET_RETURN_MAX_NS,
        )
        for until_ns, since_ns in found.items()
    )


def returns_within(events: Iterable[ScenarioEvent]) -> tuple[int, int] | None:
    """From when to when kubelets are heard again after the last outage in which none is; None without an end of any.

    Those of which that decides nothing are told as back at its beginning (``given_time`` of ``failing_nodes``).
    """
    ends = (event.outage.until_ns for event in events if event.outage and event.in_silence)
    until_ns = max((end_ns for end_ns in ends if end_ns is not None), default=None)
    return None if until_ns is None else (until_ns, until_ns + KUBELET_RETURN_MAX_NS)


def ready_nodes(snapshot: ClusterSnapshot) -> Iterator[str]:
    """Yield the nodes whose kubelets are heard at the start and say that they are ready."""
    return (name for name, status in _told_by_kubelets(snapshot) if status == "True")


def _told_by_kubelets(snapshot: ClusterSnapshot) -> Iterator[tuple[str, str]]:
    """Yield the nodes whose kubelets are heard at the start, with the Ready status that they post."""
    seen_ns = observed_at_ns(snapshot, snapshot.taken_at_ns)
    for node in snapshot.nodes:
        ready = node.condition("Ready")
        up = is_up_at_start(node, snapshot.leases.get(node.name), seen_ns)
        if up and ready is not None:
            yield node.name, ready.status


def outage_warnings(
    outage: Outage, duration_ns: int | None, snapshot: ClusterSnapshot, grace_period_ns: int
) -> Iterator[ClusterWarning]:
    """Yield what the windows rest on, and what such an outage is not."""
    control_plane = control_plane_of(snapshot)
    if duration_ns is not None:
        yield ClusterWarning("outage-return", _return(outage, duration_ns, control_plane))
    yield ClusterWarning("outage-replicas", _replicas(outage, control_plane.replicas))
    if outage.silences_kubelets and duration_ns is not None:
        heard, grace = format_duration(KUBELET_RETURN_MAX_NS), format_duration(grace_period_ns)
        message = f"kubelets are heard again within {heard} of the API server's return"
        if outlasts_kubelets(grace_period_ns):
            message += (
                f", and the new kube-controller-manager grants each node {grace} from its own start: "
                "no node that was ready before becomes Unknown"
            )
        yield ClusterWarning("outage-kubelets-return", message)


def _return(outage: Outage, duration_ns: int, control_plane: ControlPlane) -> str:
    lag = manager_lag(outage, duration_ns, control_plane)
    earliest, latest = (
        f"+{format_duration(-(-(duration_ns + lag_ns) // SECOND_NS) * SECOND_NS)}"
        for lag_ns in (lag.earliest_ns, lag.latest_ns)
    )
    reasons = []
    if outage is Outage.API_SERVER and control_plane.leader_elect and control_plane.replicas > 1:
        reasons.append(
            "the old leader exits, and another replica, which has seen its lease run out, takes over"
        )
    else:
        if outage.silences_kubelets and not control_plane.starts_alone:
            reasons.append(
                "without its API server it exits, and is started again at intervals of up to "
                + format_duration(_restart_max_ns(duration_ns))
            )
        if control_plane.leader_elect:
            lease = format_duration(control_plane.lease_duration_ns)
            reasons.append(f"a new process waits out the old leader's lease of {lease}")
    why = f": {'; '.join(reasons)}" if reasons else ""
    return f"kube-controller-manager works again between {earliest} and {latest}{why}"


def _replicas(outage: Outage, replicas: int) -> str:
    if not replicas:
        return (
            "no kube-controller-manager pod is in the input: how many there are and who restarts them "
            "is not known, windows allow for all of it"
        )
    if replicas == 1:
        return "one kube-controller-manager is in the input: nobody takes over meanwhile"
    if outage is Outage.CONTROLLER_MANAGER:
        return (
            f"{replicas} kube-controller-managers are in the input: here all of them are away; where only the "
            "leader fails, another one takes over about as after --for 0s"
        )
    return (
        f"{replicas} control planes are in the input: here all of them are away; while one API server "
        "answers everybody, nothing of this happens"
    )
