"""What happens to the cluster, and when: a frozen list of timed events.

A ``Scenario`` is fully resolved: selectors, zones and ``allNodes`` have become node names, durations
are nanoseconds, manifests are typed objects. Each action is a subclass of ``ScenarioEvent``; the table
of all of them is ``scenarios/actions``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.errors import Problem
from kubectl_evictplan.kube.durations import (
    DURATION_MAX_NS,
    HOUR_NS,
    SECOND_NS,
    format_duration,
    parse_bounded_duration_ns,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.timestamps import LAST_INSTANT_NS, format_rfc3339
from kubectl_evictplan.scenarios.field_types import (
    POD_KEYS,
    TARGETS,
    Encounter,
    FieldType,
    WireDuration,
    file_fields,
)

if TYPE_CHECKING:
    from kubectl_evictplan.scenarios.history import History
    from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster

HORIZON_DEFAULT_MAX_NS = 24 * HOUR_NS
# A dump is not taken in one instant: nodes, pods and leases are listed one after the other, while
# kubelets go on renewing. A start this little before the newest renewal is still the dump's own.
DUMP_DURATION_MAX_NS = 10 * SECOND_NS
# From here every offset that can be asked for lies before the year 10000, which no text can name.
LATEST_START_NS = LAST_INSTANT_NS - DURATION_MAX_NS
# Keys of ``ControllerSettings.places`` beside the flags' names.
KUBERNETES_VERSION, MONITOR_PHASE = "kubernetesVersion", "monitorPhase"


class Outage(Enum):
    """What is away: both, the controllers alone, or the API server alone."""

    CONTROL_PLANE = "control-plane"
    CONTROLLER_MANAGER = "controller-manager"
    API_SERVER = "apiserver"

    @property
    def silences_kubelets(self) -> bool:
        """Whether no kubelet can be heard meanwhile."""
        return self is not Outage.CONTROLLER_MANAGER


class OutagePart(msgspec.Struct, frozen=True):
    """The outage that an event is a part of: what is away (the word of ``what-if fail``), and until when.

    ``until_ns`` is an offset; None: it does not end.
    """

    component: str
    until_ns: int | None


_OUTAGES = [outage.value for outage in Outage]


class WrittenOutage(msgspec.Struct, forbid_unknown_fields=True):
    """An outage in a file; it lasts to the end of the scenario without ``until``."""

    component: Annotated[str, msgspec.Meta(extra_json_schema={"enum": _OUTAGES})]
    until: WireDuration = None


def _outage(written: dict[str, Any], key: str, meets: Encounter) -> OutagePart:
    if written["component"] not in _OUTAGES:
        raise ValueError(f"{written['component']!r} is nothing that `what-if fail` takes away")
    until_ns = None
    if written.get("until") is not None:
        ends = meets.document.text((*meets.path, key, "until"))
        until_ns = parse_bounded_duration_ns(ends)
    return OutagePart(written["component"], until_ns)


def _written_outage(part: OutagePart) -> dict[str, str]:
    until = {} if part.until_ns is None else {"until": format_duration(part.until_ns)}
    return {"component": part.component, **until}


# Of an event that an outage is made of: a kubelet that is not heard goes on, and so do its pods.
OUTAGE = FieldType[OutagePart](
    Annotated[
        WrittenOutage, msgspec.Meta(description="the outage that it is a part of, and until when")
    ],
    _outage,
    _written_outage,
    expected=f"component: one of {', '.join(_OUTAGES)}; until: a duration",
)


class ScenarioEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that people, kubelets or machines do to the cluster, ``at_ns`` after the start.

    A subclass is one action. Its annotated fields are those of a scenario file (``field_types``); what
    else must be known about it stands beside them, and everybody asks the event instead of comparing
    names. Events with equal ``at_ns`` happen in list order.
    """

    # The word in files and answers.
    action: ClassVar[str]
    # What happens to one of its objects, in a sentence; "{detail}" is where the detail belongs.
    told: ClassVar[str]
    # The kubelets of ``nodes`` afterwards: True renews and posts, False is silent, None is as before.
    kubelets_up: ClassVar[bool | None] = None
    # kube-controller-manager afterwards: True a new process, False none, None is as before.
    manager_up: ClassVar[bool | None] = None
    # spec.unschedulable of ``nodes`` afterwards; None is as before.
    unschedulable: ClassVar[bool | None] = None
    # Whether it changes nothing but pods, of which the node lifecycle controller takes no notice.
    pods_only: ClassVar[bool] = False
    # Why it did nothing, when it did nothing; "" where that says nothing worth a warning.
    idle_because: ClassVar[str] = ""

    # The words of kubectl that do it, and undo it; the words {nodes} and {flags} stand for several, {detail} for
    # one. "" where nobody does it with kubectl.
    done_by: ClassVar[str] = ""
    undone_by: ClassVar[str] = ""

    at_ns: int
    # Where the event was written, e.g. "s.yaml:12" or "taint node n1 a=b:NoExecute".
    origin: str = ""
    # None: it stands for itself.
    outage: OutagePart | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes it acts on; sorted, without repetition."""
        return ()

    @property
    def pods(self) -> tuple[str, ...]:
        """Keys ("namespace/name") of the pods it acts on; sorted, without repetition."""
        return ()

    @property
    def node(self) -> Node | None:
        """The node that it creates."""
        return None

    @property
    def pod(self) -> Pod | None:
        """The pod that it creates."""
        return None

    @property
    def in_silence(self) -> bool:
        """Whether it is a part of an outage in which no kubelet is heard."""
        return self.outage is not None and Outage(self.outage.component).silences_kubelets

    @property
    def touched_nodes(self) -> tuple[str, ...]:
        """Nodes that it changes or puts a pod on."""
        return self.nodes

    @property
    def latest_ns(self) -> int:
        """Offset of the latest instant at which it can happen; ``at_ns`` is the earliest."""
        return self.at_ns

    @property
    def span(self) -> tuple[int, int]:
        """Offsets of the earliest and the latest instant at which it can happen."""
        return self.at_ns, self.latest_ns

    def moved_to(self, at_ns: int) -> ScenarioEvent:
        """Return the event at an instant that is known."""
        return replace(self, at_ns=at_ns)

    @property
    def where(self) -> str:
        """Where it was written and when it happens, for messages about other events."""
        return f"{self.origin or self.action} (at {format_duration(self.at_ns)})"

    @property
    def detail(self) -> str:
        """What an answer tells of it besides action, nodes and pods."""
        parts = []
        for field in file_fields(type(self)):
            value, detail = getattr(self, field.attribute), field.type.detail
            if detail and value is not None and value != field.default:
                parts.append(detail.format(key=field.key, value=field.type.write(value)))
        return " ".join(parts)

    def command(self, words: str) -> tuple[str, ...]:
        """Return the words of ``done_by`` or ``undone_by`` with all but the nodes filled in."""
        found: list[str] = []
        for word in words.split():
            if word == "{flags}":
                found += self.flags
            else:
                found.append(word if word == "{nodes}" else word.replace("{detail}", self.detail))
        return tuple(found)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of kubectl that its fields are."""
        return ()

    @property
    def seen_by_monitor(self) -> bool:
        """Whether a node monitor tick just before it and one just after it see different things."""
        return False

    @property
    def critical_ns(self) -> int | None:
        """Offset at which it matters on which side of it the node monitor ticks."""
        return self.at_ns if self.seen_by_monitor else None

    @property
    def seen_by_pod_gc(self) -> bool:
        """Whether it matters on which side of it pod garbage collection loops."""
        return False

    @property
    def feeds_pod_gc(self) -> bool:
        """Whether pods of its nodes may become garbage by it."""
        return False

    def commutes_with(self, other: ScenarioEvent) -> bool:
        """Tell whether two events on one object at one instant may be swapped."""
        return False

    def restricted_to(self, nodes: Collection[str], pods: Collection[str]) -> ScenarioEvent:
        """Return the part of the event that acts on these nodes and pods."""
        return self

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        """Yield (key in the file or "", message) for what cannot follow the events before it.

        Whatever it makes of the cluster is entered in the history.
        """
        return iter(())

    def foretell(self, cluster: SimulatedCluster) -> None:
        """Tell before the run begins what must be known ahead of the event."""

    def happen(self, cluster: SimulatedCluster) -> None:
        """Change the simulated cluster; what does not exist (any more) is left out."""
        raise NotImplementedError


class NodesEvent(ScenarioEvent, frozen=True, kw_only=True):
    """An action on nodes that exist."""

    idle_because = "the node does not exist then"

    nodes: Annotated[tuple[str, ...], TARGETS]

    def restricted_to(self, nodes: Collection[str], pods: Collection[str]) -> ScenarioEvent:
        """Return the same action on those of its nodes."""
        return replace(self, nodes=tuple(name for name in self.nodes if name in nodes))


class PodsEvent(ScenarioEvent, frozen=True, kw_only=True):
    """An action on pods."""

    pods_only = True

    pods: Annotated[tuple[str, ...], POD_KEYS]

    def restricted_to(self, nodes: Collection[str], pods: Collection[str]) -> ScenarioEvent:
        """Return the same action on those of its pods."""
        return replace(self, pods=tuple(key for key in self.pods if key in pods))


class Scenario(msgspec.Struct, frozen=True):
    """A script of events with its start and inclusive horizon.

    ``start_ns`` is epoch nanoseconds. ``horizon_ns`` is an offset; None means "until nothing more
    can happen, at most 24 h".
    """

    start_ns: int
    events: tuple[ScenarioEvent, ...] = ()
    horizon_ns: int | None = None
    name: str = ""

    @property
    def end_ns(self) -> int:
        """Offset of the last instant that may be simulated."""
        return HORIZON_DEFAULT_MAX_NS if self.horizon_ns is None else self.horizon_ns

    @property
    def touched_nodes(self) -> frozenset[str]:
        """Names of the nodes that its events change or put pods on."""
        return frozenset(name for event in self.events for name in event.touched_nodes)

    @property
    def named_pods(self) -> frozenset[str]:
        """Keys of the pods that its events act on or create: what happens to them need not happen to others like them."""
        acted_on = (key for event in self.events for key in event.pods)
        created = (event.pod.key for event in self.events if event.pod is not None)
        return frozenset((*acted_on, *created))

    @property
    def creations_ns(self) -> dict[str, list[int]]:
        """Offsets at which its events create pods, by their keys."""
        found: dict[str, list[int]] = {}
        for event in self.events:
            if event.pod is not None:
                found.setdefault(event.pod.key, []).append(event.at_ns)
        return found


def start_problem(start_ns: int, snapshot: ClusterSnapshot) -> str:
    """Return why a scenario cannot start at this instant (epoch), or ""."""
    if start_ns < snapshot.taken_at_ns - DUMP_DURATION_MAX_NS:
        taken = format_rfc3339(snapshot.taken_at_ns)
        source = f" ({snapshot.taken_at_source})" if snapshot.taken_at_source else ""
        return f"the start lies before the snapshot was taken, {taken}{source}"
    if start_ns > LATEST_START_NS:
        latest = format_rfc3339(LATEST_START_NS // SECOND_NS * SECOND_NS)
        return f"the start is too near the end of the year 9999; the latest is {latest}"
    return ""


class ControllerSettings(msgspec.Struct, frozen=True):
    """What the user said about kube-controller-manager; empty parts are detected or defaulted.

    ``flags`` maps a flag's own name (no dashes in front) to its text. ``places`` says where a file
    has a flag, the version or the phase; what is not in it was said on the command line.
    """

    kubernetes_version: str = ""
    monitor_phase_ns: int | None = None
    flags: dict[str, str] = {}
    places: dict[str, str] = {}

    def under(self, above: ControllerSettings) -> ControllerSettings:
        """Return these settings with those of ``above`` in their place."""
        said = {KUBERNETES_VERSION} if above.kubernetes_version else set()
        said |= {MONITOR_PHASE} if above.monitor_phase_ns is not None else set()
        kept = {key: at for key, at in self.places.items() if key not in said | above.flags.keys()}
        return ControllerSettings(
            above.kubernetes_version or self.kubernetes_version,
            self.monitor_phase_ns if above.monitor_phase_ns is None else above.monitor_phase_ns,
            {**self.flags, **above.flags},
            {**kept, **above.places},
        )

    def blamed(self, name: str, problem: Problem) -> Problem:
        """Return a problem of a flag, the version or the phase, in the file if that is where it is."""
        place = self.places.get(name)
        if place is None:
            return problem
        key = name if name in (KUBERNETES_VERSION, MONITOR_PHASE) else f"flags.{name}"
        field = f"spec.controller.{key}"
        return dataclasses.replace(problem, correction=None, location=place, field=field)
