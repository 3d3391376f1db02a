"""What predictions need to know of the whole cluster, found out once for any number of scenarios.

Cost follows what changes: pods that nothing can happen to are left out before anything runs, and so are nodes
that only count in their zone (``ClusterSnapshot.bystanders``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterable, Sequence
from functools import cached_property
from itertools import compress, count

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import (
    is_up_at_start,
    longest_renewal_ns,
    observed_at_ns,
    posted_since_renewal_ns,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.controllers.pod_gc import NOT_TERMINATED_PHASES, is_terminated
from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease, Node, Pod, Workload
from kubectl_evictplan.kube.taints import needs_no_schedule_pass, no_execute_taints
from kubectl_evictplan.prediction.workloads import OwnerNames, WorkloadIndex
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.monitor_phase import with_visible_phase
from kubectl_evictplan.windows.spent_tokens import (
    all_down_until_ns,
    changed_lately_ns,
    may_have_taken_a_token,
)

# Pods of so few nodes are looked up.
_INDEXED_MAX = 16


class PreparedCluster:
    """One cluster under one configuration, for scenarios that begin at one instant. Read only."""

    def __init__(
        self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration, start_ns: int
    ) -> None:
        self.snapshot = snapshot
        self.start_ns = start_ns
        self.nodes = {node.name: node for node in snapshot.nodes}
        self._given = configuration
        # Of each pod its node; pods are told by their places in the snapshot.
        self._node_names: Sequence[str] = snapshot.columns.of("node_name")
        # Terminated pods among them.
        self._ended: list[int] = []
        if not snapshot.columns.distinct("phase").issubset(NOT_TERMINATED_PHASES):
            phases = enumerate(snapshot.columns.of("phase"))
            self._ended += [place for place, phase in phases if phase not in NOT_TERMINATED_PHASES]
        self._moving = self._moving_nodes()
        self._zones = ZoneMembership(configuration)
        # By the node's name its zone, for every node that can do with counting.
        self._counting = {
            name: self._zones.zone_key(node)
            for name, node in self.nodes.items()
            if name not in self._moving
            and not self._zones.is_excluded(node)
            and not needs_no_schedule_pass(node)
        }
        self._numbers = Counter(self._counting.values())

    @property
    def steady_nodes(self) -> Container[str]:
        """Nodes to which nothing happens unless a scenario does it, and that count in their zones."""
        return self._counting

    @cached_property
    def workloads(self) -> WorkloadIndex:
        """The workloads of the whole cluster."""
        return WorkloadIndex(self.snapshot, self.owners)

    @cached_property
    def owners(self) -> OwnerNames:
        """What the owners of its pods are called."""
        return OwnerNames()

    @cached_property
    def namespaces(self) -> int:
        """How many namespaces have pods."""
        return len(self.snapshot.places_of_namespaces)

    @cached_property
    def owners_without_pods(self) -> tuple[Workload, ...]:
        """Owners that may make pods of which nothing is known."""
        from kubectl_evictplan.windows.drains.newcomers import owners_without_pods

        return owners_without_pods(self.snapshot)

    def complete(self) -> None:
        """Find out everything now, before processes share it."""
        for name, attribute in vars(type(self)).items():
            if isinstance(attribute, cached_property):
                getattr(self, name)

    def configuration(self, scenario: Scenario) -> ControllerConfiguration:
        """Return the configuration, with what can be seen of the monitor's phase."""
        if any(event.manager_up is not None for event in scenario.events):
            return with_visible_phase(self.snapshot, scenario, self._given)
        return self._warm_configuration

    @cached_property
    def _warm_configuration(self) -> ControllerConfiguration:
        return with_visible_phase(self.snapshot, Scenario(self.start_ns, ()), self._given)

    def relevant(self, scenario: Scenario, explain: str | None) -> ClusterSnapshot:
        """Return the cluster without what nothing can happen to.

        A node that carries no NoExecute taint, that no event names, and whose kubelet is not silent keeps its
        pods whatever the others do. Without a scenario event about the controller nothing else can touch
        them, and nothing happens to the node itself.
        """
        named = scenario.touched_nodes
        keys = {key for event in scenario.events for key in event.pods}
        if explain is not None:
            keys.add(explain)
        if drained := drained_nodes(scenario):
            from kubectl_evictplan.windows.drains.deleted_by_others import deleted_by_others
            from kubectl_evictplan.windows.drains.world import coupled_pods, of_unknown_owners

            whole = replace(self.snapshot, left_out={})
            deleted = deleted_by_others(scenario, self._moving)
            keys.update(pod.key for pod in coupled_pods(whole, frozenset(drained), deleted))
            keys.update(pod.key for pod in of_unknown_owners(whole))
        places = [*self._always, *self._places_on(named - self._moving)]
        if self.too_many_terminated(scenario):
            places += self._ended
        if keys:
            places += [self._place[key] for key in keys & self._place.keys()]
        pods = self.snapshot.pods
        places = sorted(dict.fromkeys(places))
        relevant = replace(self.snapshot, pods=tuple([pods[place] for place in places]))
        if drained:
            from kubectl_evictplan.windows.drains.world import left_out

            return replace(relevant, left_out=left_out(self._active, relevant.pods))
        if not self._may_leave_out_nodes(scenario):
            return relevant
        created = [event.node for event in scenario.events if event.node is not None]
        return self._without_bystanders(relevant, named, created)

    def too_many_terminated(self, scenario: Scenario) -> bool:
        """Whether garbage collection finds too many terminated pods, with those that the scenario creates."""
        created = (event.pod for event in scenario.events if event.pod is not None)
        count = len(self._ended) + sum(map(is_terminated, created))
        return 0 < self._given.terminated_pod_gc_threshold < count

    def silence_class(self, name: str) -> Hashable | None:
        """Return what tells a node that falls silent alone from others that do, but for its last renewal.

        None where more does: it moves by itself, tells no renewal, has posted a status since the last one, or finished pods everywhere are looked at in order.
        """
        zone, lease = self._counting.get(name), self.snapshot.leases.get(name)
        if zone is None or lease is None or lease.renew_time_ns is None:
            return None
        nothing = Scenario(self.start_ns, ())
        if self.too_many_terminated(nothing) or not self._may_leave_out_nodes(nothing):
            return None
        node = self.nodes[name]
        if posted_since_renewal_ns(node, lease, self.start_ns) is not None:
            return None
        # Nodes that are found at one instant are taken in the order of their names.
        before = bisect_left(self._names_never_left_out, name)
        conditions = tuple((one.type, one.status, one.reason) for one in node.conditions)
        return (
            zone,
            before,
            node.taints,
            node.unschedulable,
            conditions,
            lease.lease_duration_seconds,
        )

    def pods_on(self, name: str) -> Sequence[Pod]:
        """Return the pods of a node, in input order."""
        return [self.snapshot.pods[place] for place in self._on_node.get(name, ())]

    def _places_on(self, names: Collection[str]) -> Iterable[int]:
        """The places of all pods of these nodes; of many nodes, one look at each pod finds them in less than an index takes."""
        if len(names) > _INDEXED_MAX:
            return compress(count(), map(names.__contains__, self._node_names))
        return (place for name in names for place in self._on_node.get(name, ()))

    @cached_property
    def _on_node(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(self._node_names):
            places[name].append(place)
        return places

    def _moving_nodes(self) -> frozenset[str]:
        """Nodes to which something happens whatever the scenario is, or may."""
        seen_ns = observed_at_ns(self.snapshot, self.start_ns)
        moving = set()
        if all_down_until_ns(self.snapshot, self.start_ns, self._given) is not None:
            return frozenset(node.name for node in self.snapshot.nodes)  # nobody is a bystander
        for node in self.snapshot.nodes:
            ready = node.condition("Ready")
            lease = self.snapshot.leases.get(node.name)
            steady = ready is not None and ready.status == "True"
            steady = steady and is_up_at_start(node, lease, seen_ns)
            slow = longest_renewal_ns(lease) > self._given.node_monitor_grace_period_ns
            back = may_have_taken_a_token(node, self.start_ns, self._given)
            back = back or changed_lately_ns(node, self.start_ns, self._given) is not None
            if not steady or slow or back or no_execute_taints(node.taints):
                moving.add(node.name)
        return frozenset(moving)

    @cached_property
    def _leases_of_gone_nodes(self) -> dict[str, Lease]:
        return {n: lease for n, lease in self.snapshot.leases.items() if n not in self.nodes}

    @cached_property
    def _active(self) -> Counter[tuple[str, str, str] | None]:
        from kubectl_evictplan.windows.drains.world import active_pods

        return active_pods(self.snapshot)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {pod.key: place for place, pod in enumerate(self.snapshot.pods)}

    @cached_property
    def _always(self) -> list[int]:
        """Pods to which something may happen whatever the scenario is."""
        pods, places = self.snapshot.pods, list[int]()
        found = self.snapshot.columns.distinct("node_name")
        if others := (found - self.nodes.keys() - {""}) | (found & self._moving):
            places += self._places_on(others)
        if "" in found:
            nowhere = self._places_on({""})
            places += [p for p in nowhere if pods[p].deletion_timestamp_ns is not None]
        return places

    @cached_property
    def _names_never_left_out(self) -> list[str]:
        return sorted(node.name for node in self._never_left_out)

    def _may_leave_out_nodes(self, scenario: Scenario) -> bool:
        """Whether a controller that goes on running meets every node; a new one has yet to count them.

        Not where entries of before the start may be left in queues: see ``may_hold_orphaned_entries``.
        """
        warm = all(event.manager_up is None for event in scenario.events)
        return warm and self._given.profile.queue_mode != "SETREMOVE"

    def _without_bystanders(
        self, relevant: ClusterSnapshot, named: frozenset[str], created: list[Node]
    ) -> ClusterSnapshot:
        needed = {pod.node_name for pod in relevant.pods} | named
        nodes = [self.nodes[name] for name in needed if name in self._counting]
        nodes += self._never_left_out
        zones = Counter(self._counting[name] for name in needed if name in self._counting)
        bystanders = {zone: number - zones[zone] for zone, number in sorted(self._numbers.items())}
        # That some other zone is never down matters; which one it is, and how many there are, does not.
        changing = {*zones, *self._zones_never_left_out, *map(self._zones.zone_key, created)}
        first, *others = [zone for zone in bystanders if zone not in changing] or [""]
        for zone in others:
            bystanders[first] += bystanders.pop(zone)
        given = self.snapshot.leases
        leases = {node.name: given[node.name] for node in nodes if node.name in given}
        return replace(
            relevant,
            nodes=tuple(sorted(nodes, key=lambda node: node.name)),
            # A Lease without its node means a node that was deleted, not one that is left out.
            leases=leases | self._leases_of_gone_nodes,
            bystanders={zone: number for zone, number in bystanders.items() if number},
        )

    @cached_property
    def _zones_never_left_out(self) -> frozenset[str]:
        return frozenset(map(self._zones.zone_key, self._never_left_out))

    @cached_property
    def _never_left_out(self) -> list[Node]:
        return [node for name, node in self.nodes.items() if name not in self._counting]
