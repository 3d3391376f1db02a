"""The part of a cluster that takes part in its drains: cost follows what can matter.

The drained nodes with their pods, whatever their budgets cover elsewhere, and their StatefulSets: the
next ordinal may have to wait for another. Where no other event happens and every node is healthy, that and
some more nodes for replacements are all, and node lifecycle has no part in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.placement import Elsewhere, left_over, pods_by_node
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.replication import (
    REPLACED,
    REPLACED_AT_ONCE,
    STATEFUL_SET,
    missing_pods,
    owner_key,
)
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.finalizers import Finalizers, jobs_managed_elsewhere
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, PodDisruptionBudget, Workload
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.drains.deleted_by_others import (
    DeletedByOthers,
    deleted_by_others,
    is_of_drains_or_pods,
    is_steady,
)

_BUDGET = "PodDisruptionBudget"
# So many owners of pods that somebody else deletes stand for all of them.
_OWNERS_MAX = 20
# Owners whose pods nobody counts: a DaemonSet's, and static ones.
_ONE_PER_NODE = frozenset({"DaemonSet", "Node"})


class Stranger(NamedTuple):
    """A pod like those that an owner may make of which nobody knows how many it wants; ``budgets``: how many of the whole cluster cover it."""

    pod: Pod
    budgets: int


class DrainWorld(NamedTuple):
    """What is simulated. ``quiet``: nothing but drains and what follows from them happens, not even to pods of nodes that are gone.

    ``steady``: every node is healthy at the start, and controllers run. ``deleted``: who may be deleted by somebody else than kubectl.
    ``budgets_denied``: budgets could not be read, ``budgets_listed``: the input has any. ``strangers`` are those of the whole
    cluster, each template's once. ``without_pods``: owners that may make pods of which nothing is known.
    """

    snapshot: ClusterSnapshot
    configuration: ControllerConfiguration
    budgets: tuple[PodDisruptionBudget, ...]
    quiet: bool
    steady: bool
    deleted: DeletedByOthers
    budgets_denied: bool
    budgets_listed: bool
    strangers: tuple[Stranger, ...] = ()
    # Of owners that others stand for, whose pods somebody else deletes: what they make may land on a drained node too.
    unplayed: tuple[Stranger, ...] = ()
    finalizers: Finalizers = Finalizers()
    without_pods: tuple[Workload, ...] = ()


def drain_world(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> DrainWorld:
    """Return the world of all drains of a scenario; who is ``without_pods`` only the whole cluster tells."""
    drained = frozenset(drained_nodes(scenario))
    if snapshot.left_out is None:
        snapshot = replace(snapshot, left_out={})
    grace_ns = configuration.node_monitor_grace_period_ns
    unsteady = {n.name for n in snapshot.nodes if not is_steady(n, snapshot, scenario, grace_ns)}
    deleted = deleted_by_others(scenario, unsteady)
    pods = coupled_pods(snapshot, drained, deleted)
    keys = {pod.key for pod in pods}
    homeless = bool(orphans(snapshot, pods))
    quiet = not unsteady and not homeless and all(map(is_of_drains_or_pods, scenario.events))
    if quiet:
        used = {pod.node_name for pod in pods} | scenario.touched_nodes
        nodes = [node for node in snapshot.nodes if node.name in used]
        nodes += _some_that_take_pods(snapshot, used, pods)
        configuration = replace(
            configuration,
            node_lifecycle_enabled=False,
            taint_eviction_enabled=False,
            pod_gc_enabled=False,
        )
    else:
        nodes = list(snapshot.nodes)
    budgets = _budgets_of(snapshot, pods)
    kept = tuple(
        pod
        for pod in snapshot.pods
        if pod.key in keys or pod.key in deleted.pods or (not quiet and pod.node_name in drained)
    )
    world = replace(
        snapshot,
        nodes=tuple(sorted(_without_room_of_others(snapshot, nodes, kept), key=lambda n: n.name)),
        pods=kept,
        budgets=budgets,
        workloads=_owners_of(snapshot, pods),
        left_out=left_out(active_anywhere(snapshot), kept),
    )
    return DrainWorld(
        world,
        configuration,
        budgets,
        quiet,
        not unsteady and not starts_without_controller(scenario),
        deleted,
        budgets_denied=_BUDGET in snapshot.denied,
        budgets_listed=_BUDGET in snapshot.kinds_seen or bool(snapshot.budgets),
        strangers=tuple(_counting_budgets(of_unknown_owners(snapshot), snapshot)),
        unplayed=tuple(_counting_budgets(_unplayed(snapshot, drained, deleted, keys), snapshot)),
        finalizers=Finalizers(
            configuration.job_enabled and all(e.manager_up is None for e in scenario.events),
            jobs_managed_elsewhere(snapshot.workloads),
        ),
    )


def _without_room_of_others(
    snapshot: ClusterSnapshot, nodes: Iterable[Node], kept: Iterable[Pod]
) -> Iterable[Node]:
    """The nodes as they are for replacements: what pods take that are left out is gone."""
    nodes = list(nodes)
    stay = {id(pod) for pod in kept}
    names = {node.name for node in nodes if node.allocatable}
    others = pods_by_node((pod for pod in snapshot.pods if id(pod) not in stay), names)
    for node in nodes:
        left = left_over(node, others.get(node.name, ()))
        yield replace(node, allocatable=dict(left)) if node.name in others else node


def left_out(
    active: Mapping[tuple[str, str, str] | None, int], kept: Iterable[Pod]
) -> dict[str, int]:
    """``ClusterSnapshot.left_out`` for these pods: how many their owners have besides, of all their ``active`` ones."""
    owners, mine = set(), Counter[tuple[str, str, str]]()
    for pod in kept:
        if (key := owner_key(pod)) is not None:
            owners.add(key)
            mine[key] += pod.active
    return {
        "/".join(key): number
        for key in sorted(owners)
        if (number := active.get(key, 0) - mine[key]) > 0
    }


def coupled_pods(
    snapshot: ClusterSnapshot, drained: frozenset[str], deleted: DeletedByOthers
) -> list[Pod]:
    """Pods of the nodes and those that may come there, those under budgets of these or of what may replace them, and those of the same StatefulSets.

    And of owners whose pods there keep no data on their node one elsewhere that does: a new pod may do so too.

    ``deleted``: who is made anew because somebody else deletes it.
    """
    coming = _that_may_come(snapshot, drained, deleted)
    own = [pod for pod in snapshot.pods if pod.node_name in drained or pod.key in coming]
    index = BudgetIndex(snapshot.budgets)
    unlike = _unlike_siblings(snapshot, own)
    places = {place for pod in (*own, *unlike) for place in index.matching(pod)}
    keeping = {pod.key for pod in _siblings_with_data(snapshot, own)}
    coupling = [snapshot.budgets[place] for place in sorted(places)]
    covering = BudgetIndex(coupling)
    spaces = {budget.namespace for budget in coupling}
    # Pods of one owner share their labels: each list of them is looked at once.
    matched: dict[tuple[str, int], bool] = {}
    taking_part = []
    for pod in snapshot.pods:
        space = pod.namespace
        covered = False
        if space in spaces:
            labels = (space, id(pod.labels))
            covered = matched.get(labels, False)
            if labels not in matched:
                covered = matched[labels] = bool(covering.matching(pod))
        there = pod.node_name in drained or (coming and pod.key in coming)
        if covered or there or (keeping and pod.key in keeping):
            taking_part.append(pod)
    sets = {
        (pod.namespace, owner.name)
        for pod in taking_part
        if (owner := pod.controller()) is not None and owner.kind == STATEFUL_SET
    }
    if not sets:
        return taking_part
    found, spaces = set(map(id, taking_part)), {namespace for namespace, _ in sets}
    return [
        pod
        for pod in snapshot.pods
        if id(pod) in found or (pod.namespace in spaces and _is_of(pod, sets))
    ]


def _unlike_siblings(snapshot: ClusterSnapshot, own: Iterable[Pod]) -> Iterator[Pod]:
    """Pods elsewhere that have the owners of the own ones, but other labels: a new pod may be like them, and under their budgets."""
    spaces = {budget.namespace for budget in snapshot.budgets}
    labels: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for pod in own:
        key = owner_key(pod) if pod.namespace in spaces else None
        if key is not None and key[0] in REPLACED_AT_ONCE:
            known = labels.setdefault(key, [])
            if pod.labels not in known:
                known.append(pod.labels)
    if not labels:
        return
    spaces = {namespace for _, namespace, _ in labels}
    # Pods of one owner share their references: it is looked for once.
    of_owner: dict[tuple[str, int], Sequence[Mapping[str, str]] | None] = {}
    for pod in snapshot.pods:
        if pod.namespace in spaces:
            token = pod.namespace, id(pod.owner_references)
            if token not in of_owner:
                key = owner_key(pod)
                of_owner[token] = labels.get(key) if key is not None else None
            like = of_owner[token]
            if like is not None and pod.labels not in like:
                yield pod


def _siblings_with_data(snapshot: ClusterSnapshot, own: Sequence[Pod]) -> Iterator[Pod]:
    """For each owner of own pods none of which has an emptyDir a pod elsewhere that has."""
    owners = {key for pod in own if (key := owner_key(pod)) is not None and key[0] in REPLACED}
    owners -= {owner_key(pod) for pod in own if pod.empty_dir}
    # Pods of one owner share their references: it is looked for once.
    seen: set[tuple[str, int]] = set()
    for pod in snapshot.pods if owners else ():
        if pod.empty_dir and (token := (pod.namespace, id(pod.owner_references))) not in seen:
            seen.add(token)
            if owner_key(pod) in owners:
                yield pod


def orphans(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Those of the pods whose node is gone: pod garbage collection deletes them (``gcOrphaned``)."""
    names = {node.name for node in snapshot.nodes}
    return [pod for pod in pods if pod.node_name and pod.node_name not in names]


def unknown_owners(snapshot: ClusterSnapshot) -> frozenset[tuple[str, str, str]]:
    """Owners, as (kind, namespace, name), of which nobody knows how many pods they want: they may have too few or too many."""
    return frozenset(key for pod in of_unknown_owners(snapshot) if (key := owner_key(pod)))


def of_unknown_owners(snapshot: ClusterSnapshot) -> Iterator[Pod]:
    """A pod of each template of such an owner; nothing is made in a namespace that is Terminating."""
    known = {
        (one.kind, one.namespace, one.name)
        for one in snapshot.workloads
        if one.replicas is not None
    }
    # Pods of one owner share their references.
    is_unknown: dict[tuple[str, int], bool] = {}
    pods = []
    for pod in snapshot.pods:
        owner = pod.namespace, id(pod.owner_references)
        unknown = is_unknown.get(owner)
        if unknown is None:
            key = owner_key(pod)
            unknown = key is not None and key[0] not in _ONE_PER_NODE and key not in known
            is_unknown[owner] = unknown
        if unknown:
            pods.append(pod)
    yield from _one_of_each_template(pods)


def _one_of_each_template(pods: Iterable[Pod]) -> Iterator[Pod]:
    """What decides where they may run, and what kubectl makes of them, is shared by the pods of a template."""
    seen: set[object] = set()
    for pod in pods:
        owner = pod.namespace, id(pod.owner_references)
        decides = id(pod.labels), id(pod.needs), id(pod.tolerations), pod.empty_dir
        lasts = pod.termination_grace_period_seconds, pod.finalizers
        alike = owner, *decides, *lasts
        if alike not in seen:
            seen.add(alike)
            yield pod


def _counting_budgets(pods: Iterable[Pod], snapshot: ClusterSnapshot) -> Iterator[Stranger]:
    index = BudgetIndex(snapshot.budgets)
    for pod in pods:
        yield Stranger(pod, len(index.matching(pod)))


def _unplayed(
    snapshot: ClusterSnapshot,
    drained: Collection[str],
    deleted: DeletedByOthers,
    played: Collection[str],
) -> Iterator[Pod]:
    """Of each template that somebody else may delete pods of, where none of them is ``played``."""
    missed = deleted.among(pod for pod in snapshot.pods if pod.node_name not in drained)
    return _one_of_each_template(pod for pod in missed if pod.key not in played)


def active_pods(snapshot: ClusterSnapshot) -> Counter[tuple[str, str, str] | None]:
    """Pods by owner that neither terminate nor are finished."""
    return Counter(owner_key(pod) for pod in snapshot.pods if pod.active)


def active_anywhere(snapshot: ClusterSnapshot) -> Counter[tuple[str, str, str] | None]:
    """``active_pods``, and those that are left out."""
    found = active_pods(snapshot)
    for name, number in (snapshot.left_out or {}).items():
        kind, namespace, owner = name.split("/")
        found[kind, namespace, owner] += number
    return found


def short_owners(snapshot: ClusterSnapshot) -> dict[tuple[str, str, str], int]:
    """By owner how many pods it lacks, and makes as soon as the run begins: at once, or a StatefulSet in order."""
    sets = {
        (one.kind, one.namespace, one.name): one.replicas
        for one in snapshot.workloads
        if one.kind == STATEFUL_SET and one.replicas
    }
    active = active_anywhere(snapshot) if sets else {}
    lacks = {key: wanted - active.get(key, 0) for key, wanted in sets.items()}
    short = {key: number for key, number in lacks.items() if number > 0}
    return {**missing_pods(snapshot), **short}


def _that_may_come(
    snapshot: ClusterSnapshot, drained: Collection[str], deleted: DeletedByOthers
) -> set[str]:
    """Keys of pods that a drained node has room for before it is cordoned: unbound ones, and those that are made anew or are like them."""
    missing = [pod for pod in snapshot.pods if not pod.node_name and not pod.finished]
    missing += [
        pod
        for pod in orphans(snapshot, snapshot.pods)
        if (owner := owner_key(pod)) is not None and owner[0] in REPLACED
    ]
    short = short_owners(snapshot)
    missing += [pod for pod in snapshot.pods if short and owner_key(pod) in short]
    leaving = list(deleted.among(pod for pod in snapshot.pods if pod.node_name not in drained))
    # Of nodes that change until then it is not known what they let in.
    if (missing or leaving) and deleted.changed.isdisjoint(drained):
        there = Elsewhere((node for node in snapshot.nodes if node.name in drained), snapshot.pods)
        missing = list(filter(there.takes, missing))
        leaving = list(filter(there.takes, leaving))
    return {pod.key for pod in (*missing, *_standing_for(leaving))}


def _standing_for(pods: Sequence[Pod]) -> list[Pod]:
    """Of many owners' pods those that keep kubectl longest: a zone that is lost must not make the world the whole cluster."""
    owners: dict[tuple[str, str, str], int] = {}
    for pod in pods:
        if (key := owner_key(pod)) is not None:
            owners[key] = max(owners.get(key, 0), pod.termination_grace_period_seconds)
    longest = set(sorted(owners, key=lambda one: (-owners[one], one))[:_OWNERS_MAX])
    return [pod for pod in pods if owner_key(pod) in longest]


def _owners_of(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> tuple[Workload, ...]:
    """The workloads that own the pods, those that own these, and every DaemonSet."""
    known = {(one.kind, one.namespace, one.name): one for one in snapshot.workloads}
    wanted = {
        (owner.kind, pod.namespace, owner.name)
        for pod in pods
        if (owner := pod.controller()) is not None
    }
    wanted |= {
        (above.kind, key[1], above.name)
        for key in wanted & known.keys()
        for above in known[key].owner_references
    }
    return tuple(one for key, one in known.items() if key in wanted or one.kind == "DaemonSet")


def _is_of(pod: Pod, sets: set[tuple[str, str]]) -> bool:
    owner = pod.controller()
    return owner is not None and owner.kind == STATEFUL_SET and (pod.namespace, owner.name) in sets


def _budgets_of(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> tuple[PodDisruptionBudget, ...]:
    """Every budget that covers one of the pods, in the order of the snapshot."""
    index = BudgetIndex(snapshot.budgets)
    places = {place for pod in pods for place in index.matching(pod)}
    return tuple(snapshot.budgets[place] for place in sorted(places))


def _some_that_take_pods(
    snapshot: ClusterSnapshot, used: set[str], pods: Iterable[Pod]
) -> list[Node]:
    """Some other nodes that stand for all on which replacements of these pods may land."""
    others = (node for node in snapshot.nodes if node.name not in used)
    elsewhere = Elsewhere(others, snapshot.pods)
    found = {node.name: node for pod in pods if (node := elsewhere.first(pod)) is not None}
    return list(found.values())
