"""Replacements in groups: pods of one owner with equal needs. What is asked about one of them is asked for all."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.answers import Chance, Group, Unknown
from kubectl_evictplan.kube.scheduling.volumes import Reach, Volumes

# Of pods of which the input does not tell them.
NO_NEEDS = PodNeeds()
_ANYWHERE = Reach()

T = TypeVar("T", bound=Hashable)
# What is one object for all pods of a template, by identity.
_Template = tuple[object, ...]


class _Canonical(Generic[T]):
    """One object for all that are equal, so that identity says whether two are."""

    def __init__(self) -> None:
        self._by_identity: dict[int, T] = {}
        self._equal: dict[T, T] = {}

    def of(self, value: T) -> T:
        """Return the first value that was equal to this one; the caller keeps ``value`` alive."""
        found = self._by_identity.get(id(value))
        if found is None:
            found = self._by_identity[id(value)] = self._equal.setdefault(value, value)
        return found


class _Keys:
    """What tells the groups of pods apart."""

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes
        self._needs = _Canonical[PodNeeds | None]()
        self._tolerations = _Canonical[object]()
        self._kinds: dict[Hashable, int] = {}

    def key(self, pod: Pod, *, has_claims: bool) -> tuple[Hashable, int, Reach]:
        """Return the key, the number of its kind (all but the owner), and where the pod's volumes can be reached from."""
        owner = pod.controller()
        reach = self._volumes.reach(pod) if has_claims else _ANYWHERE
        own = pod.node_name if pod.needs and pod.needs.only_own_node else ""
        needs, tolerations = self._needs.of(pod.needs), self._tolerations.of(pod.tolerations)
        kind = id(needs), id(tolerations), reach, own
        name = (owner.kind, owner.name) if owner else (pod.name,)
        number = self._kinds.setdefault(kind, len(self._kinds))
        return (pod.namespace, name, number), number, reach


def grouped(
    replacements: Sequence[Pod],
    volumes: Volumes,
    claiming: Collection[tuple[str, str]],
    since_ns: Sequence[int] = (),
) -> list[Group]:
    """Return the groups in the order of their first pods: by ``since_ns``, one for each, then as they are given.

    ``claiming``: (namespace, name) of pods that have claims.
    """
    keys, found = _Keys(volumes), dict[Hashable, tuple[int, Reach, list[int]]]()
    for places, has_claims in _alike(replacements, claiming):
        key, kind, reach = keys.key(replacements[places[0]], has_claims=has_claims)
        if (known := found.get(key)) is None:
            found[key] = kind, reach, places
        else:
            known[2].extend(places)
            known[2].sort()
    order: list[tuple[int, int, Group]] = []
    for kind, reach, places in found.values():
        if since_ns:
            places.sort(key=since_ns.__getitem__)
        pods, first = [replacements[place] for place in places], places[0]
        group = Group(pods[0].needs or NO_NEEDS, reach, pods, kind)
        order.append((since_ns[first] if since_ns else 0, first, group))
    order.sort(key=itemgetter(0, 1))
    return [group for _, _, group in order]


def _alike(
    replacements: Sequence[Pod], claiming: Collection[tuple[str, str]]
) -> Iterator[tuple[list[int], bool]]:
    """Yield the places of pods that cannot but be in one group, and whether they have claims."""
    for places in _by_template(replacements):
        first = replacements[places[0]]
        own = not first.owner_references or (first.needs and first.needs.only_own_node)
        if not (own or claiming):
            yield places, False
            continue
        others: list[int] = []
        for place in places:
            pod = replacements[place]
            has_claims = (pod.namespace, pod.name) in claiming
            if own or has_claims:
                yield [place], has_claims
            else:
                others.append(place)
        if others:
            yield others, False


def _by_template(pods: Sequence[Pod]) -> Collection[list[int]]:
    """The places of pods of each template; mostly these follow each other."""
    found: dict[_Template, list[int]] = {}
    owners, needs, tolerations, namespace = object(), object(), object(), ""
    places: list[int] = []
    for place, pod in enumerate(pods):
        if not (
            pod.owner_references is owners
            and pod.needs is needs
            and pod.tolerations is tolerations
            and pod.namespace == namespace
        ):
            owners, needs, tolerations = pod.owner_references, pod.needs, pod.tolerations
            namespace = pod.namespace
            places = found.setdefault((id(owners), id(needs), id(tolerations), namespace), [])
        places.append(place)
    return found.values()


class AlikeGroups:
    """The kinds of groups, by their number, and the chances of each kind as far as they were found."""

    def __init__(self, groups: Sequence[Group], *, asks_for_peers: bool) -> None:
        """``asks_for_peers``: labels count, so each group is on its own."""
        self.kinds = [
            number if asks_for_peers or _is_own(one) else _kind(one)
            for number, one in enumerate(groups)
        ]
        self._known: dict[Hashable, tuple[Chance, ...]] = {}

    def find(self, number: int, unknown: Sequence[Unknown]) -> tuple[Chance, ...] | None:
        """What was found for one that is alike, of which as much is unknown."""
        return self._known.get((self.kinds[number], unknown))

    def note(self, number: int, unknown: Sequence[Unknown], chances: tuple[Chance, ...]) -> None:
        """It holds for all that are alike."""
        self._known[self.kinds[number], unknown] = chances

    def forget(self) -> None:
        """Something changed that chances depend on."""
        self._known.clear()


def _is_own(group: Group) -> bool:
    # Which volumes these are counts, not only from where they can be reached.
    return group.needs.only_own_node or bool(group.reach.attached or group.reach.exclusive)


def _kind(group: Group) -> Hashable:
    return group.kind, len(group.pods)
