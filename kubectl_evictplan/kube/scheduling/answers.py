"""What is asked about replacements, and what is answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from kubectl_evictplan.kube.infrastructure import Infrastructure, StorageCapacity
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.kube.scheduling.inter_pod import NamespaceLabels
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.volumes import Reach


class Filter(StrEnum):
    """The scheduler's names, in the order in which it asks."""

    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    VOLUME_RESTRICTIONS = "VolumeRestrictions"
    NODE_VOLUME_LIMITS = "NodeVolumeLimits"
    VOLUME_BINDING = "VolumeBinding"
    VOLUME_ZONE = "VolumeZone"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    INTER_POD_AFFINITY = "InterPodAffinity"


class Unknown(StrEnum):
    """What would have to be known to say that a pod fits."""

    # The pod's own spec is not in the input.
    NEEDS = "needs"
    # Another scheduler places it, by rules of its own.
    SCHEDULER = "scheduler"
    # It is made from another revision of its owner's template, which is not in the input.
    REVISION = "revision"
    # Its template carries scheduling gates: when somebody takes them off.
    GATES = "gates"
    # It claims devices of drivers.
    DEVICES = "devices"
    # Claims that are not bound, volumes that were not read.
    VOLUMES = "volumes"
    # status.allocatable of nodes that pass every other filter.
    OFFERS = "offers"
    # What pods that run there need.
    OTHER_PODS = "otherPods"
    # Labels of namespaces that affinity selects by.
    NAMESPACES = "namespaces"
    # Pods and nodes differ too much: what others may take would have to be counted too often (``COUNTED_MAX``).
    TOO_MANY = "tooMany"


class Verdict(StrEnum):
    """What is said of a group of replacements, in a word."""

    FITS = "fits"
    # Some find a place, some find none.
    PARTLY = "partly"
    # One would fit, had those before it not taken the room.
    NO_ROOM_LEFT = "noRoomLeft"
    ONLY_ON_LEAVING = "onlyOnLeaving"
    NOWHERE = "nowhere"
    UNKNOWN = "unknown"


class Refusal(msgspec.Struct, frozen=True):
    """A filter, and how many nodes it was the first to refuse."""

    filter: Filter
    nodes: int


# The filters are asked by rules, or for needs, that are not known.
ASKED_OTHERWISE = frozenset((Unknown.SCHEDULER, Unknown.REVISION))
# With these nothing can be said.
_NOT_TOLD = ASKED_OTHERWISE | {Unknown.NEEDS, Unknown.OFFERS}


class Group(msgspec.Struct, frozen=True):
    """Pods of one owner with equal needs, whose successors look for places.

    ``kind``: equal for groups that differ in their owners and numbers of pods only, as far as labels do not count.
    """

    needs: PodNeeds
    reach: Reach
    pods: list[Pod]
    kind: int


class Chance(msgspec.Struct, frozen=True):
    """How many of a group find a place in one phase, whatever else looks for one and whatever the scheduler prefers.

    Never more than ``most``. At least ``now`` at once, and ``later`` once the evicted pods are gone; ``assumed``: as
    many as may, because the input does not hold what would have to be known. ``changing``: the nodes that may take some and
    are not the same all the time, by their places in ``Answers.names``. ``settled``: whoever surely finds one does so whatever
    becomes of these.
    """

    most: int
    now: int
    later: int
    assumed: bool = False
    changing: NodeSet = 0
    settled: bool = False


class Push(msgspec.Struct, frozen=True):
    """At most ``pods`` times the scheduler may push out pods of lower priority for such ``needs``, on ``nodes``.

    ``scarce``: the resources that they may lack there; None: others may be in the way for any reason.
    """

    needs: PodNeeds
    pods: int
    nodes: frozenset[str]
    scarce: frozenset[str] | None


class Phase(msgspec.Struct, frozen=True):
    """A stretch of time, by the nodes that are not simply as in ``Surroundings.nodes`` throughout it.

    ``hopeful``: each as it refuses the least, ``doubtful``: the most; None: it does not exist. On ``silent`` nodes no
    pod becomes Ready at any instant of the phase, on ``perhaps_silent`` at some. ``elsewhere``: nodes that are not
    listed and may take pods. ``stuck_stay``: whoever is stuck while it is deleted is there throughout.
    """

    hopeful: Mapping[str, Node | None] = {}
    doubtful: Mapping[str, Node | None] = {}
    silent: Collection[str] = ()
    perhaps_silent: Collection[str] = ()
    elsewhere: frozenset[str] = frozenset()
    stuck_stay: bool = True


class Fit(msgspec.Struct, frozen=True):
    """Where the replacements of one owner's pods with equal needs can run.

    ``on_nodes`` pass every filter when the first of ``pods`` looks for a place, ``nodes`` are the first
    of them; nodes that leave are not counted. ``placed`` found a place. ``because`` says why nodes
    refuse the first one that found none, or, when all found one, the first of all. ``returns_to`` counts leaving nodes that would
    take it as they are then: it goes back there. ``only_on_leaving``: no other node is allowed
    by what looks at a node alone (cordons, taints, affinity, volumes), or only leaving ones pass. ``room_taken``: those before it took the room. ``lower_priority``: nodes
    that would have room without pods of lower priority, which the scheduler may preempt.
    ``chances``: one for each phase that was asked about; ``pushes``: whom it may push out meanwhile.
    """

    pods: tuple[Pod, ...]
    on_nodes: int = 0
    nodes: tuple[str, ...] = ()
    placed: int = 0
    because: tuple[Refusal, ...] = ()
    returns_to: int = 0
    only_on_leaving: bool = False
    room_taken: bool = False
    lower_priority: int = 0
    unknown: tuple[Unknown, ...] = ()
    chances: tuple[Chance, ...] = ()
    pushes: tuple[Push, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The answer in a word; what is not known never fits."""
        if self.unknown and _NOT_TOLD.intersection(self.unknown):
            return Verdict.UNKNOWN
        if self.placed:
            if self.chances and self.chances[0].most < len(self.pods):
                return Verdict.PARTLY
            all_fit = self.placed == len(self.pods)
            return Verdict.UNKNOWN if self.unknown else Verdict.FITS if all_fit else Verdict.PARTLY
        # From here on it is certain: what is not known can only refuse more nodes.
        if self.only_on_leaving:
            return Verdict.ONLY_ON_LEAVING
        return Verdict.NO_ROOM_LEFT if self.room_taken else Verdict.NOWHERE


class Bounded(msgspec.Struct, frozen=True):
    """What holds of one owner's pods with equal needs whatever the scheduler prefers: see ``Fit``."""

    pods: Sequence[Pod]
    chances: tuple[Chance, ...]
    pushes: tuple[Push, ...]
    unknown: tuple[Unknown, ...]


class Answers(msgspec.Struct, frozen=True):
    """``bounded``: what holds of each group; ``make_fits`` tells of each, in the same order, where it can run: to be called once.

    ``names``: of nodes, by their places in sets.
    """

    bounded: Sequence[Bounded]
    make_fits: Callable[[], Iterable[Fit]]
    names: Sequence[str]


class Surroundings(msgspec.Struct, frozen=True):
    """What replacements find.

    ``nodes`` as they are when replacements look for a place. ``leaving`` are those that the change
    takes away, as they were before it; some may be in ``nodes`` too. ``running``: pods that have a
    node then, those included that are stuck while they are deleted. ``namespaces``: labels by name,
    None when they were not read. ``all_pods``: no pod of any namespace is missing. What bounds ask for besides:
    ``phases``, ``evicted``: the pods of which ``running`` has none but those that are stuck, ``may_stay``: keys of those that are not evicted in every
    run, ``waiting``: pods that look for a place already. ``gated``: keys of pods whose successors nobody schedules until
    somebody takes their gates off. ``storage_capacities``: what drivers publish (``published``).
    """

    nodes: Sequence[Node]
    leaving: Sequence[Node] = ()
    running: Sequence[Pod] = ()
    stuck: Collection[str] = ()
    infrastructure: Infrastructure = Infrastructure()
    namespaces: NamespaceLabels = None
    all_pods: bool = True
    phases: Sequence[Phase] = ()
    evicted: Sequence[Pod] = ()
    may_stay: Collection[str] = ()
    waiting: Sequence[Pod] = ()
    gated: Collection[str] = ()
    storage_capacities: Sequence[StorageCapacity] | None = None
