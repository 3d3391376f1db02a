"""Whether the replacements of drained pods find a node, asked of ``kube.scheduling`` once for all runs of a drain.

A replacement that stays Pending keeps its budget closed: kubectl then repeats its request until its timeout, or for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from kubectl_evictplan.cluster.rooms import NO_LIMITS, Room, Rooms, room_key
from kubectl_evictplan.controllers.releases import ReleaseProfile
from kubectl_evictplan.controllers.replication import (
    REPLACED,
    STATEFUL_SET,
    is_owned_by,
    owner_key,
)
from kubectl_evictplan.kube.budgets import BudgetIndex, may_refuse_creation
from kubectl_evictplan.kube.objects import NO_SCHEDULE, ClusterSnapshot, Node, Pod, Taint
from kubectl_evictplan.kube.owners import closed_owners, made_anew
from kubectl_evictplan.kube.scheduling.answers import Fit, Phase, Surroundings, Unknown
from kubectl_evictplan.kube.scheduling.fit import fits
from kubectl_evictplan.kube.scheduling.node_filters import CORDON
from kubectl_evictplan.kube.scheduling.storage_capacity import published
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.kube.tolerations import get_matching_tolerations
from kubectl_evictplan.scenarios.actions.drain import Drain, drains_among
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.drains.planned import cordoning_ns

_NEVER_ASSUMED = frozenset((Unknown.GATES, Unknown.REVISION))


def drain_rooms(snapshot: ClusterSnapshot, scenario: Scenario, profile: ReleaseProfile) -> Rooms:
    """Return the rooms of all groups that are not sure of a node for each of their pods.

    ``snapshot`` is the whole cluster: whoever takes no part in the drain takes room all the same.
    """
    drained = frozenset(drained_nodes(scenario))
    evicted = [pod for pod in snapshot.pods if pod.node_name in drained and _is_evicted(pod)]
    replaced = [pod for pod in evicted if (key := owner_key(pod)) and key[0] in REPLACED]
    if not _matters(snapshot, replaced):
        return NO_LIMITS
    # Cordons and drains only take nodes away; whatever else happens may open some.
    closing = all(isinstance(event, Drain) or event.unschedulable for event in scenario.events)
    settled = closing and all(pod.resized is None for pod in snapshot.pods)
    around = _surroundings(snapshot, scenario, drained, evicted)
    capacities = published(snapshot, asked=profile.storage_capacity)
    made, none = _by_owner(snapshot, replaced)
    made = list(_of_their_templates(snapshot, made))
    around = replace(around, storage_capacities=capacities)
    # Whoever waits for a place takes the room that is left, whatever else is not known.
    known = snapshot.pods_of_all_namespaces or bool(around.waiting)
    limits = _limits(_with_open_nodes(scenario, around, made), settled, known)
    rooms = [(fit.pods, least, most) for fit, least, most in limits]
    return _rooms([*_perhaps_refused(snapshot, made, rooms), *(((pod,), 0, 0) for pod in none)])


def _perhaps_refused(
    snapshot: ClusterSnapshot, made: Sequence[Pod], rooms: Sequence[tuple[Sequence[Pod], int, int]]
) -> Iterator[tuple[Sequence[Pod], int, int]]:
    """The rooms; of pods whose creation a webhook may refuse perhaps none is made."""
    refusable = {pod.key for pod in made if may_refuse_creation(snapshot.webhooks, pod)}
    limited: set[str] = set()
    for pods, least, most in rooms:
        limited.update(pod.key for pod in pods)
        refused = any(pod.key in refusable for pod in pods)
        yield pods, 0 if refused else least, most
    for pod in made:
        if pod.key in refusable - limited:
            yield (pod,), 0, 1


def _by_owner(
    snapshot: ClusterSnapshot, replaced: Sequence[Pod]
) -> tuple[Sequence[Pod], Sequence[Pod]]:
    """Those whose owner makes another, and the others: of these none is ever Ready, as if no node took it."""
    closed = closed_owners(snapshot)
    found: tuple[list[Pod], list[Pod]] = [], []
    for pod in replaced:
        owner = pod.controller()
        gone = owner is not None and closed.why((pod.namespace, owner.kind, owner.name)) is not None
        found[gone].append(pod)
    return found


def _of_their_templates(snapshot: ClusterSnapshot, made: Sequence[Pod]) -> Iterator[Pod]:
    """The pods as they are made anew: not as somebody resized them, and of a StatefulSet perhaps from another revision."""
    resized = {owner_key(pod) for pod in made if pod.resized is not None}
    every = {(one.kind, one.namespace, one.name): one for one in snapshot.workloads}
    owners = {
        name: one for name, one in every.items() if name in resized or one.revisions is not None
    }
    siblings: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in snapshot.pods if owners else ():
        if (key := owner_key(pod)) is not None and key in owners:
            siblings.setdefault(key, []).append(pod)
    for pod in made:
        key = owner_key(pod)
        known = owners.get(key) if key is not None else None
        yield made_anew(pod, known, siblings.get(key, ()) if key is not None else ())


def _is_evicted(pod: Pod) -> bool:
    key = owner_key(pod)
    return not pod.finished and not pod.mirror and (key is None or key[0] != "DaemonSet")


def _matters(snapshot: ClusterSnapshot, replaced: Sequence[Pod]) -> bool:
    """Whether anybody waits for a replacement: a budget, or the next pod of a StatefulSet."""
    index = BudgetIndex(snapshot.budgets)
    return any(is_owned_by(pod, STATEFUL_SET) or index.matching(pod) for pod in replaced)


def _surroundings(
    snapshot: ClusterSnapshot, scenario: Scenario, drained: frozenset[str], evicted: Sequence[Pod]
) -> Surroundings:
    """The nodes as kubectl leaves them: it cordons all before it evicts anybody."""
    going = {id(pod) for pod in evicted}
    # Whoever is being deleted holds its room until nobody knows when.
    going |= {id(pod) for pod in snapshot.pods if pod.deletion_timestamp_ns is not None}
    touched = scenario.touched_nodes - drained
    infrastructure = snapshot.infrastructure
    known = "Namespace" in snapshot.kinds_seen and "Namespace" not in snapshot.denied
    gated = {
        (one.kind, one.namespace, one.name) for one in snapshot.workloads if one.scheduling_gates
    }
    return Surroundings(
        [_cordoned(node) if node.name in drained else node for node in snapshot.nodes],
        [node for node in snapshot.nodes if node.name in drained],
        [pod for pod in snapshot.pods if id(pod) not in going],
        infrastructure=infrastructure,
        namespaces={one.name: one.labels for one in infrastructure.namespaces} if known else None,
        all_pods=snapshot.pods_of_all_namespaces,
        phases=[Phase(doubtful=dict.fromkeys(touched))],
        evicted=[pod for pod in snapshot.pods if id(pod) in going],
        waiting=[pod for pod in snapshot.pods if not pod.node_name and not pod.finished],
        gated={pod.key for pod in evicted if owner_key(pod) in gated},
    )


def _with_open_nodes(
    scenario: Scenario, around: Surroundings, made: Sequence[Pod]
) -> Iterator[tuple[Fit, int]]:
    """Each fit, and how many of it find a node at most: one that another process cordons may take them until it does."""
    drains = drains_among(scenario.events)
    found = [(fit, _at_most(fit)) for fit in fits(around, made)]
    late = {name for event in drains for name in event.nodes} - _cordoned_at_first(drains)
    if not late:
        yield from found
        return
    hopeful = {node.name: node for node in around.leaving if node.name in late}
    phases = [replace(phase, hopeful=hopeful) for phase in around.phases]
    for (fit, most), freer in zip(found, fits(replace(around, phases=phases), made), strict=True):
        own = {pod.node_name for pod in fit.pods}
        evicting = [set(event.nodes) for event in drains if not own.isdisjoint(event.nodes)]
        # Who evicts them has cordoned its nodes before.
        is_settled = all(late <= nodes for nodes in evicting)
        yield fit, most if is_settled else _at_most(freer)


def _at_most(fit: Fit) -> int:
    return max((one.most for one in fit.chances), default=0)


def _cordoned_at_first(drains: Sequence[Drain]) -> set[str]:
    """Nodes that are cordoned before anybody is evicted: by each process, or by the first one if it is that early."""
    if not drains:
        return set()
    first, *others = sorted(drains, key=lambda event: event.latest_ns)
    found = set(first.nodes).intersection(*(event.nodes for event in others))
    cordoned_ns = first.latest_ns + cordoning_ns(first)
    if all(cordoned_ns <= event.at_ns for event in others):
        found.update(first.nodes)
    return found


def _cordoned(node: Node) -> Node:
    if node.unschedulable:
        return node
    return replace(
        node, unschedulable=True, taints=(*node.taints, Taint(UNSCHEDULABLE, NO_SCHEDULE))
    )


def _rooms(limits: Iterable[tuple[Sequence[Pod], int, int]]) -> Rooms:
    """``limits``: pods of one group, and how many of their replacements find a node at least and at most."""
    groups: dict[Hashable, int] = {}
    rooms: list[Room] = []
    limited = False
    for pods, least, most in limits:
        limited = limited or least < len(pods)
        keys = {room_key(pod) for pod in pods}
        # Pods of one owner may differ in their needs; which of them a replacement copies is not known.
        known = next((groups[key] for key in keys if key in groups), None)
        if known is None:
            known = len(rooms)
            rooms.append(Room(0, 0))
        rooms[known] = Room(rooms[known].least + least, rooms[known].most + most)
        groups.update(dict.fromkeys(keys, known))
    return Rooms(groups, rooms) if limited else NO_LIMITS


def _limits(
    found: Iterable[tuple[Fit, int]], settled: bool, known: bool
) -> Iterator[tuple[Fit, int, int]]:
    """At least and at most so many of each group find a node.

    What namespaces hold that are not in the input (``known`` is false) is assumed to leave room, as drains assume of
    whatever is not known: ``single-namespace`` warns of it. That somebody takes scheduling gates off is never assumed, nor
    that another revision of a template asks for no more.
    """
    for fit, most in found:
        # Whoever tolerates a cordon comes back to where it was.
        stays_away = not get_matching_tolerations((CORDON,), fit.pods[0].tolerations)[0]
        stays_away = stays_away or Unknown.REVISION in fit.unknown
        if stays_away and not any(chance.assumed for chance in fit.chances):
            count = len(fit.pods)
            told = known or not _NEVER_ASSUMED.isdisjoint(fit.unknown)
            least = min(one.now if told else one.most for one in fit.chances)
            yield fit, least, most if settled else count
