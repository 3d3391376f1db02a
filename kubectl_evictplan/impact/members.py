"""Whom something happens to, and who belongs together: pods of one owner, and pods that carry the same labels.

What is asked of all pods of the cluster is asked once for all of a template: loaders give these one object for their
owners and one for their labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import TypeVar

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import Fate, Moving, absent_at_start, ending_until_ns
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.kube.columns import stretches
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.kube.owners import EACH_ITS_OWN, OwnerKey, owner_key
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.workloads import deployments_of, top_workload
from kubectl_evictplan.scenarios.scenario import Scenario

_Template = tuple[str, int, int]
# Kinds of owners that each pod has for itself.
_ALONE = frozenset({"Pod", "Node"})


class Owners:
    """Who manages which pod, and by which name people know them."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._deployments = deployments_of(workloads)
        self._known: dict[tuple[str, int], OwnerKey] = {}
        self._workloads: dict[OwnerKey, tuple[str, str]] = {}

    @property
    def told(self) -> bool:
        """Whether the input tells of any owner what is above it."""
        return bool(self._deployments)

    def of(self, pod: Pod) -> OwnerKey:
        """The managing owner; of a bare pod itself, with the kind "Pod"."""
        token = pod.namespace, id(pod.owner_references)
        known = self._known.get(token)
        if known is None:
            known = owner_key(pod)
            if known[1] not in EACH_ITS_OWN:
                self._known[token] = known
        return known

    def of_all(self, pods: Iterable[Pod]) -> list[OwnerKey]:
        """The owner of each. Mostly those of one owner follow each other."""
        found: list[OwnerKey] = []
        namespace, references, owner, alone = "", object(), ("", "", ""), True
        for pod in pods:
            if alone or pod.owner_references is not references or pod.namespace != namespace:
                namespace, references = pod.namespace, pod.owner_references
                owner = self.of(pod)
                alone = owner[1] in _ALONE
            found.append(owner)
        return found

    def workload(self, owner: OwnerKey) -> tuple[str, str]:
        """(namespace, "Kind/name") of what people know the owner by: of a ReplicaSet its Deployment."""
        known = self._workloads.get(owner)
        if known is None:
            known = self._workloads[owner] = self._find_workload(owner)
        return known

    def _find_workload(self, owner: OwnerKey) -> tuple[str, str]:
        namespace, kind, name = owner
        if kind == "Node":
            return namespace, f"Pod/{name}"
        return namespace, top_workload((namespace, f"{kind}/{name}"), self._deployments)


class Labelled:
    """Pods of one namespace whose labels are one object, in input order within each owner.

    ``moving`` are those that something happens to until it is known what becomes of them, then ``fates`` are that, in the same order.
    """

    def __init__(self, pods: Sequence[Pod], absent: Collection[int]) -> None:
        """``absent``: see ``Members``."""
        self.pods = pods
        self.moving: list[Moving] = []
        self.fates: list[Fate] = []
        self._absent = absent

    def settle(self, fates: Mapping[str, Fate]) -> None:
        """What becomes of all pods by their keys: nothing else is kept of those that move."""
        self.fates = [fates[one.key] for one in self.moving]
        self.moving = []

    @property
    def counted(self) -> int:
        """How many of ``pods`` are there at the start."""
        return how_many_there(self.pods, self._absent)

    @property
    def ending_until_ns(self) -> int:
        """Until when (since the epoch) those of ``pods`` that are on their way out at the start may answer; 0: there are none."""
        return ending_until_ns(self.pods) if self._absent else 0


def how_many_there(pods: Sequence[Pod], absent: Collection[int]) -> int:
    """How many of these are there at the start; ``absent``: see ``Members``."""
    return len([pod for pod in pods if id(pod) not in absent]) if absent else len(pods)


class Members:
    """``by_owner``: all pods of every workload that has a moving pod; ``by_labels``: all pods by what labels they carry.

    Both in input order. ``owners``: those of moving pods. ``absent``: by identity those that are not there at the start (``is_counted``), mostly few.
    """

    def __init__(self, snapshot: ClusterSnapshot, moving: Sequence[Moving], owners: Owners) -> None:
        self.by_owner: dict[OwnerKey, Sequence[Pod]] = {}
        self.by_labels: dict[tuple[str, int], Labelled] = {}
        self.absent = absent_at_start(snapshot)
        moving_pods = [one.pod for one in moving]
        moved = _by_template(moving_pods, moving, stretches(moving_pods))
        self.owners = _owners_of(moved.values())
        wanted = _Wanted(self.owners, owners)
        pods = snapshot.pods
        for template, alike in _by_template(pods, pods, snapshot.stretches).items():
            labelled = self._labelled(template, alike)
            if (some := moved.get(template)) is not None:
                labelled.moving.extend(some)
            owner = owners.of(alike[0])
            if owner[1] in _ALONE:
                own = [(owners.of(pod), [pod]) for pod in alike]
                self.by_owner.update([one for one in own if wanted.has(one[0])])
            elif wanted.has(owner):
                known = self.by_owner.get(owner)
                self.by_owner[owner] = alike if known is None else [*known, *alike]

    def _labelled(self, template: _Template, pods: Sequence[Pod]) -> Labelled:
        token = template[0], template[2]
        known = self.by_labels.get(token)
        if known is None:
            known = self.by_labels[token] = Labelled(pods, self.absent)
        else:
            known.pods = [*known.pods, *pods]
        return known


def _owners_of(moved: Iterable[Sequence[Moving]]) -> Collection[OwnerKey]:
    """Of all of these, which come by templates."""
    found: set[OwnerKey] = set()
    for alike in moved:
        first = alike[0].owner
        found.update([one.owner for one in alike] if first[1] in _ALONE else (first,))
    return found


class _Wanted:
    """The owners of these workloads."""

    def __init__(self, moving: Collection[OwnerKey], owners: Owners) -> None:
        self._moving, self._owners = moving, owners
        self._workloads = set(map(owners.workload, moving))
        self._names = {(namespace, name.partition("/")[2]) for namespace, name in self._workloads}

    def has(self, owner: OwnerKey) -> bool:
        """Whether it is one of them, or belongs to the workload of one of them."""
        if owner in self._moving:
            return True
        namespace, _, name = owner
        if not self._owners.told:
            # The input says of none what is above it, so their names do: thousands of others are told apart quickly.
            known = (namespace, name), (namespace, name.rpartition("-")[0])
            if self._names.isdisjoint(known):
                return False
        return self._owners.workload(owner) in self._workloads


_T = TypeVar("_T")


def _by_template(
    pods: Sequence[Pod], of_pods: Sequence[_T], stretches: Iterable[slice]
) -> dict[_Template, list[_T]]:
    """What is said of each pod by what is one object for all pods of a template; ``stretches``: see ``kube/columns.py``."""
    found: dict[_Template, list[_T]] = {}
    for stretch in stretches:
        pod = pods[stretch.start]
        template = pod.namespace, id(pod.owner_references), id(pod.labels)
        found.setdefault(template, []).extend(of_pods[stretch])
    return found


# -- whom something happens to ------------------------------------------------------------------------


def touched_pods(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    evictions: Evictions,
    lives: Mapping[str, NodeLife],
) -> dict[str, Pod]:
    """Return by key the pods on nodes that have a life, and those that are named, in the order of the input."""
    named = {key for event in scenario.events for key in event.pods}
    named.update(
        names.key
        for group in evictions.groups
        if group.shared.node not in lives
        for names in group.pods
    )
    there = map(lives.__contains__, snapshot.columns.of("node_name"))
    pods = list(compress(snapshot.pods, there))
    if named:
        pods = [pod for pod in snapshot.pods if pod.node_name in lives or pod.key in named]
    keys = [f"{pod.namespace}/{pod.name}" for pod in pods]
    return dict(zip(keys, pods, strict=True))


def moving_pods(
    touched: Mapping[str, Pod],
    lives: Mapping[str, NodeLife],
    owners: Owners,
    deletions: Mapping[str, Deletion],
) -> list[Moving]:
    """Return those of them that something happens to, in their order."""
    disturbed = {
        name
        for name, life in lives.items()
        if life.silences or life.unready or not life.deleted.never
    }
    pods = touched.values()
    every = zip(touched, pods, owners.of_all(pods), map(deletions.get, touched), strict=True)
    # What makes tuples of a type, without asking each for its length as ``_make`` does.
    moving = map(partial(tuple.__new__, Moving), every)
    if disturbed.issuperset({pod.node_name for pod in pods}):
        return list(moving)
    return [one for one in moving if one.deletion is not None or one.pod.node_name in disturbed]
