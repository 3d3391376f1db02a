"""The evictions of a Prediction: what pods share is there once, and rows are made when somebody reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.records import Because, Eviction, Rows

Chain = tuple[Because, ...]


class PodNames(Struct, frozen=True, gc=False):
    """All that is a pod's own in the row of its eviction; ``owner`` is "Kind/name", "" for a bare pod.

    ``of`` is the pod itself, by which others find it at once; None where no more than the names is known.
    """

    namespace: str
    pod: str
    uid: str
    owner: str
    of: Pod | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.pod}"


class SharedChain(NamedTuple):
    """The chain of causes of pods of one node: what leads there, then links of which some are about the pod.

    Pods of one node have the very same ``before``. In ``rest`` the object "" is the pod itself.
    """

    before: Chain
    rest: Chain = ()

    @property
    def last(self) -> Because | None:
        """What came last: the deletion; None where nothing is told."""
        return next(reversed(self.rest or self.before), None)

    def of_pod(self, key: str) -> Chain:
        """The chain of the pod "namespace/name"."""
        pod = f"pod/{key}"
        rest = [
            each if each.object else Because(each.offset_seconds, each.what, pod, each.rule)
            for each in self.rest
        ]
        return (*self.before, *rest)


class ChainFinder(Protocol):
    """Who finds out what led to evictions."""

    def on(self, node: str) -> SharedChain:
        """To those of pods of that node."""
        ...


class EvictionGroup:
    """Evictions of pods of one node that differ in nothing but the pods' names and owners.

    ``shared`` is a row of which names, owner and chain count for nothing: the rest holds for all ``pods``.
    """

    # There are tens of thousands.
    __slots__ = ("_chain", "pods", "shared")

    def __init__(
        self, shared: Eviction, pods: Sequence[PodNames], chain: SharedChain | ChainFinder
    ) -> None:
        """``chain``: what led there, or who finds that out when somebody asks for causes."""
        self.shared = shared
        self.pods = pods
        self._chain = chain

    @property
    def chain(self) -> SharedChain:
        """What led to these evictions; kept from then on."""
        found = self._chain = self.find_chain()
        return found

    @property
    def found_by(self) -> SharedChain | ChainFinder:
        """``chain``, or who finds it out."""
        return self._chain

    def find_chain(self) -> SharedChain:
        """``chain``, which is not kept for that."""
        found = self._chain
        return found if isinstance(found, SharedChain) else found.on(self.shared.node)

    def json(self, encode: Callable[[object], bytes]) -> tuple[bytes, bytes]:
        """Compact JSON of the row of a pod without names, up to its chain, and of what is told of the pods, without brackets."""
        shared = self.shared
        if shared.because or shared.owner or shared.pod or shared.uid or shared.namespace:
            shared = replace(shared, namespace="", pod="", uid="", owner="", because=())
        return encode(shared)[: -len("]}")], encode(self.chain.rest)[1:-1]

    def row(self, names: PodNames) -> Eviction:
        """Make the row of one of the pods."""
        shared = self.shared
        return Eviction(
            names.namespace,
            names.pod,
            names.uid,
            shared.node,
            shared.certainty,
            shared.offset_seconds,
            shared.earliest_seconds,
            shared.latest_seconds,
            shared.windows,
            shared.time,
            shared.controller,
            shared.taint,
            shared.toleration,
            shared.gone,
            names.owner,
            self.chain.of_pod(names.key),
        )


OneOfGroup = tuple[PodNames, EvictionGroup]


class Evictions(Rows[Eviction]):
    """Rows, sorted by offset, namespace, name. Immutable; equal to a tuple of the same rows.

    A large cluster has 50,000 rows in some thousand ``groups``: who counts or compares reads the groups
    (``group.shared.latest_seconds``, ``len(group.pods)``), who needs the order of rows ``in_order``, and neither makes a
    row. Iterating makes all of them; they are kept from then on.
    """

    # Whether it is known that no pod is evicted twice.
    once = False

    def __init__(
        self,
        groups: Iterable[EvictionGroup],
        owners: Collection[tuple[str, str]] | None = None,
        *,
        once: bool = False,
    ) -> None:
        """``groups`` in any order; ``owners``, and that no pod goes twice, where they are known already."""
        self.groups = tuple(groups)
        self.once = once
        if owners is not None:
            self.owners = owners
        # Whether rows share what they have in common, or came one by one.
        self.grouped = True

    @classmethod
    def of(cls, rows: Iterable[Eviction]) -> Evictions:
        """Rows that are there already, in their order."""
        if isinstance(rows, Evictions):
            return rows
        found = cls.__new__(cls)
        found.rows = tuple(rows)
        found.grouped = False
        return found

    @cached_property
    def groups(self) -> tuple[EvictionGroup, ...]:
        """What the rows share; each row that was given is a group of its own."""
        return tuple(map(_group_of_one, self.rows))

    @cached_property
    def owners(self) -> Collection[tuple[str, str]]:
        """The (namespace, owner) of all pods, each once."""
        return {(names.namespace, names.owner) for group in self.groups for names in group.pods}

    @cached_property
    def rows(self) -> tuple[Eviction, ...]:  # type: ignore[override]
        """All rows."""
        return tuple([group.row(names) for names, group in self.in_order])

    @cached_property
    def in_order(self) -> Sequence[OneOfGroup]:
        """The names of every row with its group, in the order of the rows."""
        if not self.grouped:
            return [(group.pods[0], group) for group in self.groups]
        by_offset: dict[float, list[EvictionGroup]] = {}
        for group in self.groups:
            by_offset.setdefault(group.shared.offset_seconds, []).append(group)
        return [one for offset in sorted(by_offset) for one in _by_name(by_offset[offset])]

    def on_nodes(self, names: Container[str]) -> Evictions:
        """Those of pods of these nodes."""
        if not self.grouped:
            return Evictions.of(row for row in self.rows if row.node in names)
        return Evictions(group for group in self.groups if group.shared.node in names)

    def by_node(self) -> dict[str, Evictions]:
        """Those of each node."""
        found: dict[str, list[EvictionGroup]] = {}
        for group in self.groups:
            found.setdefault(group.shared.node, []).append(group)
        if self.grouped:
            return {node: Evictions(some) for node, some in found.items()}
        return {node: Evictions.of([one.shared for one in some]) for node, some in found.items()}

    def of_pod(self, key: str) -> Evictions:
        """Those of the pod "namespace/name"."""
        return Evictions.of(group.row(names) for names, group in self.in_order if names.key == key)

    @cached_property
    def by_owner(self) -> Mapping[tuple[str, str, str], Sequence[Eviction]]:
        """By (namespace, owner, "") what groups share, once for each of the owner's pods; a bare pod is its own owner: (namespace, "", pod)."""
        found: defaultdict[tuple[str, str, str], list[Eviction]] = defaultdict(list)
        for group in self.groups:
            shared = group.shared
            for names in group.pods:
                owner = names.owner
                found[names.namespace, owner, "" if owner else names.pod].append(shared)
        return found

    @cached_property
    def _number(self) -> int:
        return sum([len(group.pods) for group in self.groups])

    def __len__(self) -> int:
        return self._number if self.grouped else len(self.rows)


def _group_of_one(row: Eviction) -> EvictionGroup:
    names = PodNames(row.namespace, row.pod, row.uid, row.owner)
    return EvictionGroup(row, (names,), SharedChain(row.because))


def _by_name(groups: list[EvictionGroup]) -> list[OneOfGroup]:
    """The pods of groups of one instant by namespace and name; who deletes them decides where these are equal."""
    groups.sort(key=attrgetter("shared.controller"))
    found = [(names, group) for group in groups for names in group.pods]
    # One by one, the last one first: a tuple of the three for each would take as much memory as the rows.
    found.sort(key=lambda one: one[0].uid)
    found.sort(key=lambda one: one[0].pod)
    found.sort(key=lambda one: one[0].namespace)
    return found
