"""Worlds in which the control plane is away, or nodes fail and take a part of it along, as ``what-if fail`` asks.

What is predicted are windows of rules 40 and 41. What happens is played by its parts here: who leads, when each process looks at
the lease and what it has seen there, how often kubelet starts a process that fails, when each kubelet is heard again.
Nothing of this reads the windows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from building.builders import make_pod, ns, tolerates
from msgspec.structs import replace
from realities.drawn_realities import Reality, World, draw_reality

from kubectl_evictplan.cluster.kubelets import is_up_at_start
from kubectl_evictplan.cluster.timeline import Entry, NodeBecameUnknown, NodeReadyPosted
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.infrastructure import Infrastructure, LeaderLease
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.scenarios.actions.processes import (
    PostReady,
    StartKubelet,
    StartManager,
    StopKubelet,
    StopManager,
)
from kubectl_evictplan.scenarios.failing_nodes import Fallen, control_plane_nodes
from kubectl_evictplan.scenarios.outages import (
    control_plane_of,
    not_predicted,
    outage_events,
)
from kubectl_evictplan.scenarios.scenario import Outage, ScenarioEvent

_MANAGER = "kube-controller-manager"
_COMPONENTS = ("kube-apiserver", _MANAGER, "etcd")
# client-go's defaults: how old a lease gets, how long its holder tries, how often, and by how much more at most.
_LEASE, _DEADLINE, _RETRY, _JITTER = 15.0, 10.0, 2.0, 1.2
_INFORMERS_MAX = 5.0
# Of kubelet: a pod that fails is looked at again after 10 to 15 s; its containers wait 10 s, 20 s, ... 5 min.
_SYNC_MAX, _BACK_OFF, _BACK_OFF_MAX = 16.0, 10.0, 300.0
# When a connection to a machine that does not answer is asked for, and given up (TCP, and client-go's dialer).
_DIALS, _DIAL_MAX = (0.0, 1.0, 3.0, 7.0, 15.0), 30.0
# A request of a lease that hangs; one that a kubelet sends.
_HANGS, _HANGS_LONG = 5.0, 10.0
_KUBELET_RETRIES = 7.0


@dataclass(frozen=True)
class Asked:
    """The question: some nodes fail, or a component of the control plane; ``back`` None: for ever."""

    nodes: tuple[str, ...] = ()
    outage: Outage | None = None
    back: float | None = None


@dataclass(frozen=True)
class OutageWorld:
    """What a user hands in, and what is true of it although the input need not tell it."""

    world: World
    asked: Asked
    # The nodes of all kube-controller-managers, "" for those elsewhere; the leader's place; whether they elect one.
    managers: tuple[str, ...]
    leader: int
    elects: bool
    starts_alone: bool

    def reality(
        self,
        rng: random.Random,
        timing_of: Callable[[World, random.Random], Timing],
        *,
        free: bool,
    ) -> Reality:
        """One way in which it may go."""
        settled = replace(
            self.world.scenario, events=tuple(sorted(self.happens(rng), key=lambda one: one.at_ns))
        )
        lived = World(self.world.snapshot, settled, self.world.configuration)
        reality = draw_reality(lived, rng, timing_of, free=free)
        reality.entries = list(self._seen(reality.entries))
        return reality

    def _seen(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """What shows of a run: a node that says once more that it is Ready does not, but where the question says that it is back."""
        told = {
            name
            for event in self.world.scenario.events
            if isinstance(event, StartKubelet)
            for name in event.nodes
        }
        status = {node.name: node.ready_status for node in self.world.snapshot.nodes}
        for entry in entries:
            if isinstance(entry, NodeReadyPosted):
                again = status[entry.node] == entry.status
                status[entry.node] = entry.status
                if again and entry.node not in told:
                    continue
            elif isinstance(entry, NodeBecameUnknown):
                status[entry.node] = "Unknown"
            yield entry

    # -- what happens ------------------------------------------------------------------------------

    def happens(self, rng: random.Random) -> Iterator[ScenarioEvent]:
        back, failing = self.asked.back, frozenset(self.asked.nodes)
        fallen = control_plane_nodes(self.world.snapshot).fallen(failing)
        whole = self.asked.outage is Outage.CONTROL_PLANE or fallen is Fallen.CONTROL_PLANE
        silences = whole or self.asked.outage is Outage.API_SERVER
        yield from self._kubelets(rng, failing, silences)
        if self.asked.outage is None and fallen in (Fallen.NOTHING, Fallen.PERHAPS_LEADER):
            return
        yield StopManager(at_ns=0, origin="test")
        starts = self._next_process(rng, whole, failing, back)
        if starts is not None:
            yield StartManager(at_ns=ns(starts), origin="test")

    def _kubelets(
        self, rng: random.Random, failing: frozenset[str], silences: bool
    ) -> Iterator[ScenarioEvent]:
        """Who is not heard, and when each is heard again: its request hangs, or it waits to try again."""
        snapshot, back = self.world.snapshot, self.asked.back
        for node in snapshot.nodes:
            up = is_up_at_start(node, snapshot.leases.get(node.name), self.world.scenario.start_ns)
            if node.name not in failing and not (silences and up):
                continue
            nodes = (node.name,)
            if up:
                yield StopKubelet(at_ns=0, nodes=nodes, origin="test")
            if back is None:
                continue
            late = rng.uniform(0, _HANGS_LONG) + rng.uniform(0, _KUBELET_RETRIES)
            heard_ns = ns(back + (rng.choice((0.0, late, late)) if silences else 0))
            if node.ready_status == "False" and node.name not in failing:
                yield PostReady(at_ns=heard_ns, nodes=nodes, status="False", origin="test")
            else:
                yield StartKubelet(at_ns=heard_ns, nodes=nodes, origin="test")

    def _next_process(
        self, rng: random.Random, whole: bool, failing: frozenset[str], back: float | None
    ) -> float | None:
        """When the first process that leads again ticks, in seconds."""
        api_away = whole or self.asked.outage is Outage.API_SERVER
        if api_away and back is None:
            return None
        elected = []
        for place, node in enumerate(self.managers):
            if whole or self.asked.outage is Outage.CONTROLLER_MANAGER or node in failing:
                if back is None:
                    continue
                # It is gone, and is started again once it, and whatever it needs, can be.
                begins = self._starts(rng, rng.uniform(0, 3), back) if api_away else back
                if node in failing and not api_away:
                    begins = self._starts(rng, back, back)
                elected.append(self._elected(rng, begins, None))
            elif api_away and place == self.leader:
                assert back is not None
                lost = rng.uniform(_DEADLINE - _RETRY, _DEADLINE + _RETRY)
                elected.append(self._elected(rng, self._starts(rng, lost, back), None))
            else:
                # It stands by, and has seen the leader's newest renewal, or the one before, at one of its looks.
                looked = -rng.uniform(0, _RETRY) + rng.uniform(0, _RETRY * (1 + _JITTER))
                if api_away:
                    looked = -rng.uniform(0, _RETRY * (1 + _JITTER))
                available = back if api_away and back is not None else 0.0
                elected.append(self._elected(rng, looked, looked, available))
        if not elected:
            return None
        filled = rng.choice((0.1, _INFORMERS_MAX, rng.uniform(0.1, _INFORMERS_MAX)))
        return max(min(elected), back or 0.0 if api_away else 0.0) + filled

    def _starts(self, rng: random.Random, ended: float, available: float) -> float:
        """When a process that ended works again: it needs the API server, or waits for it."""
        at, back_off, dead = ended + rng.uniform(0, 2), 0.0, rng.random() < 0.5
        while not self.starts_alone:
            # A machine that is dead refuses nothing: the connection is asked for again and again.
            heard = [at + again for again in _DIALS if at + again >= available]
            if heard and (dead or at >= available):
                return heard[0]
            back_off = min(max(_BACK_OFF, 2 * back_off), _BACK_OFF_MAX)
            at += (
                _DIAL_MAX * dead
                + back_off
                + rng.choice((0.0, _SYNC_MAX, rng.uniform(0, _SYNC_MAX)))
            )
        return max(at, available + rng.choice((0.0, rng.uniform(0, _HANGS))))

    def _elected(
        self, rng: random.Random, looks: float, seen: float | None, available: float = 0.0
    ) -> float:
        """When a process that looks at the lease from ``looks`` on, and has seen it change at ``seen``, leads."""
        if not self.elects:
            return looks
        lean = rng.choice((0.0, 1.0, None))
        while True:
            if looks >= available:
                seen = looks if seen is None else seen
                if looks > seen + _LEASE:
                    return looks
            share = rng.random() if lean is None else lean
            looks += _RETRY * (1 + _JITTER * share)


# -- drawing one ------------------------------------------------------------------------------------


def outage_of(world: World, rng: random.Random) -> OutageWorld:
    """The cluster with a control plane, of which the question is what happens when it, or a part, is away."""
    names = [node.name for node in world.snapshot.nodes]
    masters = tuple(sorted(rng.sample(names, min(len(names), rng.choice((1, 1, 2, 3))))))
    shown = rng.choice(("pods", "pods", "pods", "roles", "nothing"))
    told = rng.random() < 0.8
    elects, starts_alone = len(masters) > 1 or rng.random() < 0.7, rng.random() < 0.5
    leader = rng.randrange(len(masters))
    snapshot = world.snapshot
    flags = dict(snapshot.control_plane.controller_manager)
    if shown == "pods":
        flags |= {} if elects else {"leader-elect": "false"}
        flags |= {"requestheader-client-ca-file": "/ca"} if starts_alone else {}
        own = [_static_pod(each, name) for name in masters for each in _COMPONENTS]
        pods = sorted([*snapshot.pods, *own], key=lambda pod: (pod.namespace, pod.name))
        snapshot = replace(snapshot, pods=tuple(pods))
    else:
        elects = True  # what is not told is the default
    if shown == "roles":
        nodes = tuple(_master(node) if node.name in masters else node for node in snapshot.nodes)
        snapshot = replace(snapshot, nodes=nodes)
    control_plane = replace(snapshot.control_plane, controller_manager=flags)
    if told and elects and shown != "nothing":
        acquired_ns = control_plane.leader_acquire_time_ns
        if acquired_ns is None:
            acquired_ns = world.scenario.start_ns - ns(rng.uniform(100, 10_000))
        control_plane = replace(control_plane, leader_acquire_time_ns=acquired_ns)
        lease = LeaderLease("kube-system", _MANAGER, f"{masters[leader]}_{rng.random()}")
        snapshot = replace(snapshot, infrastructure=Infrastructure(leader_leases=(lease,)))
    else:
        control_plane = replace(control_plane, leader_acquire_time_ns=None)
    snapshot = replace(snapshot, control_plane=control_plane)
    asked = _asked(rng, snapshot, masters if shown != "nothing" else ())
    events = _events(asked, snapshot, world)
    end_ns = max((event.latest_ns for event in events), default=0)
    horizon_ns = end_ns + ns(rng.choice((30, 90, 150)))
    scenario = replace(world.scenario, events=tuple(events), horizon_ns=horizon_ns)
    managers = masters if shown != "nothing" else ("",) * rng.randint(1, 3)
    made = World(snapshot, scenario, world.configuration)
    return OutageWorld(made, asked, managers, leader % len(managers), elects, starts_alone)


def _static_pod(component: str, node: str) -> Pod:
    pod = make_pod(
        f"{component}-{node}", node, namespace="kube-system", tolerations=[tolerates("")]
    )
    return replace(pod, labels={"component": component}, mirror=True)


def _master(node: Node) -> Node:
    return replace(node, labels={**node.labels, "node-role.kubernetes.io/control-plane": ""})


def _asked(rng: random.Random, snapshot: ClusterSnapshot, masters: Sequence[str]) -> Asked:
    """A question that is not refused, nor answered with another one (``outlives``)."""
    back = rng.choice((None, 14.0, 15.0, round(rng.uniform(14, 40), 3), round(rng.uniform(14, 90))))
    settings = control_plane_of(snapshot)
    if rng.random() < 0.5:
        outage = rng.choice(tuple(Outage))
        back_ns = None if back is None else ns(back)
        if back is None or not_predicted(outage, back_ns, settings):
            return Asked(outage=Outage.CONTROL_PLANE, back=back or 20.0)
        return Asked(outage=outage, back=back)
    names = [node.name for node in snapshot.nodes]
    chosen = set(rng.sample(names, rng.randint(1, len(names))))
    if masters and rng.random() < 0.5:
        chosen = {rng.choice(masters), *rng.sample(names, rng.randint(0, min(2, len(names))))}
    return Asked(nodes=tuple(sorted(chosen)), back=back)


def _events(asked: Asked, snapshot: ClusterSnapshot, world: World) -> list[ScenarioEvent]:
    """What ``what-if fail`` writes."""
    grace_ns = world.configuration.node_monitor_grace_period_ns
    back_ns = None if asked.back is None else ns(asked.back)
    if asked.outage is not None:
        return outage_events(asked.outage, back_ns, snapshot, grace_ns, "test")
    return control_plane_nodes(snapshot).events(asked.nodes, back_ns, snapshot, grace_ns, "test")
