"""What nodes take with them when they fail: the control plane, or the leader of kube-controller-manager.

A machine that is dead or cut off takes every process on it along. Without a majority of etcd, or without an API server, no
write succeeds. Where only the leader fails another process takes over, and knows nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from enum import Enum

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.objects import NAMESPACE_SYSTEM, ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.objects import Warning as ClusterWarning
from kubectl_evictplan.kube.topology import HOSTNAME
from kubectl_evictplan.scenarios.actions.processes import (
    StartKubelet,
    StartManager,
    StopKubelet,
    StopManager,
)
from kubectl_evictplan.scenarios.names import listed
from kubectl_evictplan.scenarios.outages import (
    KUBELET_RETURN_MAX_NS,
    ControlPlane,
    Lag,
    manager_lag,
    outage_events,
    outlasts_kubelets,
    ready_nodes,
    settings_of,
    takeover_lag,
)
from kubectl_evictplan.scenarios.scenario import Outage, OutagePart, ScenarioEvent
from kubectl_evictplan.sources.component_flags import API_SERVER, CONTROLLER_MANAGER
from kubectl_evictplan.sources.control_plane import component_of

_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
# k3s and RKE2 label members so.
_ETCD_ROLE = "node-role.kubernetes.io/etcd"
_NAMESPACES = (NAMESPACE_SYSTEM, "openshift-")
_OTHER_CASE = (
    "if only kubelets stop, ask `what-if scenario FILE` with kubelet-stop alone (--save-scenario writes a file to "
    "change)"
)
_LEASE = f"Lease kube-system/{CONTROLLER_MANAGER}"


class Fallen(Enum):
    """What of the control plane fails with some nodes.

    ``LEADER``: of kube-controller-manager, and another process takes over; ``PERHAPS_LEADER``: one of several processes, and nobody
    knows which leads; ``MANAGERS``: nobody is left who could; ``CONTROL_PLANE``: no write succeeds.
    """

    NOTHING = ""
    PERHAPS_LEADER = "leader-perhaps"
    LEADER = "leader"
    MANAGERS = "controller-manager"
    CONTROL_PLANE = "control-plane"


class ControlPlaneNodes(msgspec.Struct, frozen=True):
    """Where the control plane runs: nodes, once for each process that is not known to be down.

    ``etcd_members`` counts those that are down as well. ``leader`` is the node of the leader of kube-controller-manager,
    "" where it is none of the input, None where that is not known.
    """

    settings: ControlPlane
    api_servers: tuple[str, ...] = ()
    etcd: tuple[str, ...] = ()
    etcd_members: int = 0
    managers: tuple[str, ...] = ()
    leader: str | None = ""

    def fallen(self, nodes: Collection[str]) -> Fallen:
        """What fails with these nodes."""
        if self._loses_servers(nodes) or self._loses_majority(nodes):
            return Fallen.CONTROL_PLANE
        if self.managers and all(name in nodes for name in self.managers):
            return Fallen.MANAGERS
        if self.leader is None and any(name in nodes for name in self.managers):
            return Fallen.PERHAPS_LEADER
        return Fallen.LEADER if self.leader in nodes else Fallen.NOTHING

    def _loses_servers(self, nodes: Collection[str]) -> bool:
        return bool(self.api_servers) and all(name in nodes for name in self.api_servers)

    def _loses_majority(self, nodes: Collection[str]) -> bool:
        left = sum(name not in nodes for name in self.etcd)
        return left < len(self.etcd) and left < self.etcd_members // 2 + 1

    def outlives(self, back_ns: int | None) -> bool:
        """Whether a process may be there again before it, or anybody else, knows that it was away."""
        return back_ns is not None and back_ns < self.settings.api_outage_min_ns

    def events(
        self,
        nodes: Sequence[str],
        back_ns: int | None,
        snapshot: ClusterSnapshot,
        grace_period_ns: int,
        origin: str,
    ) -> list[ScenarioEvent]:
        """Return the failure of the nodes at offset 0 and whatever fails with them; ``back_ns`` None: for ever.

        ``grace_period_ns`` is --node-monitor-grace-period.
        """
        targets = tuple(nodes)
        silence = StopKubelet(at_ns=0, nodes=targets, origin=origin)
        fallen = Fallen.NOTHING if self.outlives(back_ns) else self.fallen(frozenset(nodes))
        others: list[ScenarioEvent] = []
        late: frozenset[str] = frozenset()
        if fallen is Fallen.CONTROL_PLANE:
            outage = Outage.CONTROL_PLANE
            others = outage_events(
                outage, back_ns, snapshot, grace_period_ns, origin, frozenset(nodes)
            )
            # When others are heard again decides nothing: nobody can give them up before.
            given_time = ready_nodes(snapshot) if outlasts_kubelets(grace_period_ns) else ()
            late = frozenset(targets).difference(given_time)
        elif fallen in (Fallen.LEADER, Fallen.MANAGERS):
            others = self._manager_events(fallen, back_ns, origin)
        back = [] if back_ns is None else _returns(targets, back_ns, late, origin)
        return sorted([silence, *back, *others], key=lambda event: event.at_ns)

    def _manager_events(
        self, fallen: Fallen, back_ns: int | None, origin: str
    ) -> list[ScenarioEvent]:
        part = OutagePart(Outage.CONTROLLER_MANAGER.value, None)
        events: list[ScenarioEvent] = [StopManager(at_ns=0, origin=origin, outage=part)]
        lag = self._works_again(fallen, back_ns)
        if lag is not None:
            within_ns = lag.latest_ns - lag.earliest_ns
            events.append(
                StartManager(at_ns=lag.earliest_ns, within_ns=within_ns, origin=origin, outage=part)
            )
        return events

    def _works_again(self, fallen: Fallen, back_ns: int | None) -> Lag | None:
        """When there is a kube-controller-manager again that works, as offsets; None: never."""
        if fallen is Fallen.LEADER:
            return takeover_lag(self.settings)
        if back_ns is None:
            return None
        lag = manager_lag(Outage.CONTROL_PLANE, back_ns, self.settings)
        return Lag(back_ns + lag.earliest_ns, back_ns + lag.latest_ns)

    def warnings(self, nodes: Sequence[str], back_ns: int | None) -> Iterator[ClusterWarning]:
        """Yield what fails with the nodes, what follows, and how to ask for the other case."""
        chosen = frozenset(nodes)
        fallen = self.fallen(chosen)
        if fallen is Fallen.PERHAPS_LEADER:
            yield self._perhaps(chosen)
        if fallen in (Fallen.NOTHING, Fallen.PERHAPS_LEADER):
            return
        code = "leader-fails-too" if fallen is Fallen.LEADER else "control-plane-fails-too"
        what = self._lost(fallen, chosen)
        if self.outlives(back_ns):
            shortest = format_duration(self.settings.api_outage_min_ns)
            message = (
                f"{what}, for less than {shortest}: kube-controller-manager is taken as going on with all that it "
                "remembers, and what it does if not is not predicted"
            )
        else:
            message = f"{what}: {self._what_follows(fallen, back_ns)}"
        yield ClusterWarning(
            code,
            f"{message}; {_OTHER_CASE}",
            tuple(f"node/{name}" for name in self._failing(chosen)),
        )

    def _failing(self, nodes: Collection[str]) -> list[str]:
        """Nodes of the control plane among them."""
        own = {*self.api_servers, *self.etcd, *self.managers, self.leader or ""}
        return sorted(own.intersection(nodes))

    def _lost(self, fallen: Fallen, nodes: Collection[str]) -> str:
        fails = f"with {listed(self._failing(nodes))}"
        if fallen is Fallen.LEADER:
            return f"the leader of kube-controller-manager fails with {self.leader} ({_LEASE})"
        if fallen is Fallen.MANAGERS:
            return f"every kube-controller-manager of the input fails {fails}"
        if self._loses_servers(nodes):
            return f"every API server of the input fails {fails}"
        left = sum(name not in nodes for name in self.etcd)
        needed = self.etcd_members // 2 + 1
        return (
            f"etcd loses its majority {fails} ({left} of {self.etcd_members} left, {needed} needed), so that no write "
            "succeeds"
        )

    def _what_follows(self, fallen: Fallen, back_ns: int | None) -> str:
        lag = self._works_again(fallen, back_ns)
        nothing = "nothing is tainted, evicted or replaced"
        if lag is None:
            return f"{nothing} until that is back"
        between = f"between {_told(lag.earliest_ns)} and {_told(lag.latest_ns)}"
        anew = "it knows nothing, so that every grace period and every countdown begins then"
        if fallen is Fallen.LEADER:
            return f"another process takes over {between}; {anew}"
        return f"{nothing} until a kube-controller-manager works again, {between}; {anew}"

    def _perhaps(self, nodes: Collection[str]) -> ClusterWarning:
        here = sorted(frozenset(self.managers).intersection(nodes))
        message = (
            f"a kube-controller-manager runs on {listed(here)}, and the input does not tell whether it is the leader: if so "
            f"another process takes over up to {_told(takeover_lag(self.settings).latest_ns)[1:]} later and begins every "
            f"grace period and countdown anew, and every window here is too early; give {_LEASE} with the input"
        )
        objects = tuple(f"node/{name}" for name in here)
        return ClusterWarning("leader-may-fail-too", message, objects)


def _returns(
    nodes: Sequence[str], back_ns: int, late: Collection[str], origin: str
) -> list[ScenarioEvent]:
    """The nodes are heard again: those that are ``late`` once they hear from the API server."""
    groups = (
        (0, tuple(name for name in nodes if name not in late)),
        (KUBELET_RETURN_MAX_NS, tuple(name for name in nodes if name in late)),
    )
    return [
        StartKubelet(at_ns=back_ns, within_ns=within_ns, nodes=names, origin=origin)
        for within_ns, names in groups
        if names
    ]


def _told(at_ns: int) -> str:
    return f"+{format_duration(-(-at_ns // SECOND_NS) * SECOND_NS)}"


def control_plane_nodes(snapshot: ClusterSnapshot) -> ControlPlaneNodes:
    """Return what the pods of the components and the leader's Lease tell.

    Where no such pod is to be seen (k3s) and a node leads, nodes with the role of the control plane count.
    """
    places = snapshot.places_of_namespaces
    theirs = [places[name] for name in places if name.startswith(_NAMESPACES)]
    own = [pod for some in theirs for pod in snapshot.pods[some]]
    servers = _nodes_of([pod for pod in own if component_of(pod) == API_SERVER])
    running = [pod for pod in own if component_of(pod) == CONTROLLER_MANAGER]
    members = [pod for pod in own if _is_etcd(pod)]
    managers, etcd, count = _nodes_of(running), _nodes_of(members), len(members)
    leader = _leader(snapshot, running)
    if leader and not (servers or running or members):
        servers = managers = _with_role(snapshot.nodes, *_ROLES)
        etcd = _with_role(snapshot.nodes, _ETCD_ROLE)
        count = len(etcd)
    settings = settings_of(snapshot, len(running))
    return ControlPlaneNodes(settings, servers, etcd, count, managers, leader)


def _is_etcd(pod: Pod) -> bool:
    """Whether it is a member of etcd in a static pod, of kubeadm and its like or of OpenShift."""
    return pod.mirror and "etcd" in (pod.labels.get("component"), pod.labels.get("k8s-app"))


def _nodes_of(pods: Sequence[Pod]) -> tuple[str, ...]:
    return tuple(pod.node_name for pod in pods if pod.ready != "False" and not pod.finished)


def _with_role(nodes: Sequence[Node], *roles: str) -> tuple[str, ...]:
    return tuple(node.name for node in nodes if any(role in node.labels for role in roles))


def _leader(snapshot: ClusterSnapshot, managers: Sequence[Pod]) -> str | None:
    """The node of the Lease's holder, which is a host name and a random part (``app.Run``)."""
    leases = snapshot.infrastructure.leader_leases
    lease = next((one for one in leases if one.name == CONTROLLER_MANAGER), None)
    unknown = None if managers else ""
    if lease is None or snapshot.control_plane.leader_acquire_time_ns is None:
        return unknown
    host = lease.holder_identity.rpartition("_")[0]
    names = {pod.name: pod.node_name for pod in managers}
    short = Counter(node.name.partition(".")[0] for node in snapshot.nodes)
    for node in snapshot.nodes:
        first = node.name.partition(".")[0]
        names |= {first: node.name} if short[first] == 1 else {}
    names |= {node.labels.get(HOSTNAME, node.name): node.name for node in snapshot.nodes}
    names |= {node.name: node.name for node in snapshot.nodes}
    return names.get(host, unknown)
