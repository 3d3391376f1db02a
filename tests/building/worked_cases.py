"""The vocabulary of the worked cases: one pod or a few, taints that come and go, a story to read.

Notation of the stories: ``M``/``C`` are the "Marking for deletion" and
"Cancelling deletion" events, ``DEL`` a DELETE by taint eviction, ``GC`` one by pod garbage
collection, ``gone`` the object's end; after ``@`` stand seconds from the start.

The node lifecycle controller sleeps in these cases (its monitor does not tick before the horizon),
so that taints come and go exactly when a case says so; ``play(..., awake=True)`` wakes it.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec
from building.builders import SECOND_NS, START_NS

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    POD_GC,
    TAINT_EVICTION,
    AboutPod,
    Entry,
    MarkedForDeletion,
    PodDeleted,
    PodGone,
    TimerCancelled,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import (
    NO_EXECUTE,
    ClusterSnapshot,
    Lease,
    Node,
    NodeCondition,
    Pod,
    Taint,
    Toleration,
)
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.actions.pods import CreatePod, DeletePods, SetTolerations
from kubectl_evictplan.scenarios.field_types import Manifest
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.scenarios.taint_words import TaintRemoval
from kubectl_evictplan.simulation.simulate import simulate

HOUR_NS = 3600 * SECOND_NS
CREATED_NS = START_NS - 24 * HOUR_NS

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

# One release of each behaviour: a timer survives when everything left is tolerated for ever (P0),
# it does not (P1), and additionally no key outlives its worker (P2).
P0, P1, P2 = "1.18.0", "1.29.6", "1.33.0"

_SLEEPING_MONITOR = {"node-monitor-period": "240h", "node-monitor-grace-period": "1000h"}
_STORY_WORDS = {MarkedForDeletion: "M", TimerCancelled: "C", PodGone: "gone"}
_DELETE_WORDS = {TAINT_EVICTION: "DEL", POD_GC: "GC", NODE_LIFECYCLE: "NLC"}


def seconds(value: float | str) -> int:
    """Nanoseconds of so many seconds, exactly."""
    return int(Decimal(str(value)) * SECOND_NS)


def tol(key: str, toleration_seconds: int | None = None, **fields: str) -> Toleration:
    """``A(300)`` of the notation is ``tol("A", 300)``, ``A(∞)`` is ``tol("A")``."""
    values = {"operator": "Exists", "effect": NO_EXECUTE} | fields
    return Toleration(key=key, toleration_seconds=toleration_seconds, **values)


def admitted(not_ready: int = 300, unreachable: int = 300) -> tuple[Toleration, Toleration]:
    """The two tolerations that DefaultTolerationSeconds appends."""
    return tol(NOT_READY, not_ready), tol(UNREACHABLE, unreachable)


def pod(*tolerations: Toleration, name: str = "p", grace: int = 30, **fields: object) -> Pod:
    """A running pod on node n1."""
    values: dict[str, object] = {
        "namespace": "default",
        "uid": f"uid-{name}",
        "node_name": "n1",
        "ready": "True",
        "creation_timestamp_ns": CREATED_NS,
    }
    return Pod(
        name=name,
        tolerations=tolerations,
        termination_grace_period_seconds=grace,
        **(values | fields),  # type: ignore[arg-type]
    )


def node(name: str = "n1", *taints: Taint, ready: str = "True") -> Node:
    """A node in zone eu-1/eu-1a."""
    condition = NodeCondition(
        type="Ready",
        status=ready,
        last_heartbeat_time_ns=START_NS - 60 * SECOND_NS,
        last_transition_time_ns=CREATED_NS,
    )
    return Node(
        name=name,
        uid=f"uid-{name}",
        labels={
            "topology.kubernetes.io/region": "eu-1",
            "topology.kubernetes.io/zone": "eu-1a",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": name,
        },
        creation_timestamp_ns=CREATED_NS,
        taints=taints,
        conditions=(condition,),
    )


def taint(key: str, value: str = "", effect: str = NO_EXECUTE, added: float | None = None) -> Taint:
    """A taint; ``added`` is its timeAdded in seconds from the start."""
    added_ns = None if added is None else START_NS + seconds(added)
    return Taint(key=key, value=value, effect=effect, time_added_ns=added_ns)


def add(at: float, key: str, node_name: str = "n1", **fields: object) -> ScenarioEvent:
    """``+A@t`` of the notation."""
    added = taint(key, **fields)  # type: ignore[arg-type]
    return AddTaint(at_ns=seconds(at), nodes=(node_name,), taint=added)


def remove(at: float, key: str, node_name: str = "n1") -> ScenarioEvent:
    """``-A@t`` of the notation."""
    removal = TaintRemoval(key, NO_EXECUTE)
    return RemoveTaint(at_ns=seconds(at), nodes=(node_name,), removal=removal)


def swap(at: float) -> list[ScenarioEvent]:
    """not-ready becomes unreachable: the new taint is added first, the old one goes 20 ms later."""
    return [add(at, UNREACHABLE), remove(at + 0.02, NOT_READY)]


def edit(at: float, *tolerations: Toleration, name: str = "p") -> ScenarioEvent:
    """The pod's tolerations become these."""
    return SetTolerations(at_ns=seconds(at), pods=(f"default/{name}",), tolerations=tolerations)


def create(at: float, new_pod: Pod) -> ScenarioEvent:
    """A pod appears, already bound; its creation time is the event's."""
    created_ns = START_NS + seconds(at)
    made = msgspec.structs.replace(new_pod, creation_timestamp_ns=created_ns)
    return CreatePod(at_ns=seconds(at), manifest=Manifest(made))


def delete(at: float, name: str = "p") -> ScenarioEvent:
    """A user deletes the pod."""
    return DeletePods(at_ns=seconds(at), pods=(f"default/{name}",))


def on_node(at: float, action: str, node_name: str = "n1", **fields: object) -> ScenarioEvent:
    """Any other action on a node."""
    targets = {} if action == "node-create" else {"nodes": (node_name,)}
    return ACTIONS[action](at_ns=seconds(at), **targets, **fields)


def controller(at: float, action: str) -> ScenarioEvent:
    """kube-controller-manager goes away ("stop") or is back ("start")."""
    return ACTIONS[f"controller-{action}"](at_ns=seconds(at))


class Run:
    """What happened, readable."""

    def __init__(self, entries: list[Entry]) -> None:
        # The entries themselves: facts() loses the order of what happens at one instant.
        self.entries = entries

    def story(self, name: str = "p") -> str:
        """Every event, DELETE and end of the pod, in order."""
        return " ".join(f"{word}@{_in_seconds(at)}" for at, word in self._words(name))

    def deletes(self, name: str = "p") -> str:
        """The story without the two kinds of events, whose order at one instant is a race."""
        words = [(at, word) for at, word in self._words(name) if word not in "MC"]
        return " ".join(f"{word}@{_in_seconds(at)}" for at, word in words)

    def _words(self, name: str) -> list[tuple[int, str]]:
        words = []
        for entry in self.entries:
            if not isinstance(entry, AboutPod) or entry.pod != f"default/{name}":
                continue
            if isinstance(entry, PodDeleted):
                word = _DELETE_WORDS.get(entry.controller)
            else:
                word = _STORY_WORDS.get(type(entry))
            if word is not None:
                words.append((entry.at_ns, word))
        return words


def play(
    release: str,
    pods: Pod | list[Pod],
    *events: ScenarioEvent,
    nodes: list[Node] | None = None,
    flags: dict[str, str] | None = None,
    timing: Timing | None = None,
    denied_deletes: frozenset[str] = frozenset(),
    leases: dict[str, Lease] | None = None,
    awake: bool = False,
    horizon: float = 1000,
) -> Run:
    """Simulate with the given release; n1 (or ``nodes``) healthy, its lease renewed at the start."""
    all_nodes = [node()] if nodes is None else nodes
    all_pods = [pods] if isinstance(pods, Pod) else pods
    snapshot = ClusterSnapshot(
        nodes=tuple(sorted(all_nodes, key=lambda each: each.name)),
        pods=tuple(sorted(all_pods, key=lambda each: each.key)),
        leases={each.name: Lease(name=each.name, renew_time_ns=START_NS) for each in all_nodes}
        | (leases or {}),
        taken_at_ns=START_NS,
        taken_at_source="snapshot",
    )
    base_timing = timing or Timing()
    if not awake:
        base_timing = msgspec.structs.replace(base_timing, monitor_phase_ns=239 * HOUR_NS)
    settings = ControllerSettings(
        kubernetes_version=release,
        flags=({} if awake else _SLEEPING_MONITOR) | (flags or {}),
    )
    scenario = Scenario(start_ns=START_NS, events=tuple(events), horizon_ns=seconds(horizon))
    timeline = simulate(
        snapshot,
        scenario,
        _configuration(settings, snapshot),
        base_timing,
        denied_deletes=denied_deletes,
    )
    return Run(timeline.entries)


def _configuration(settings: ControllerSettings, snapshot: ClusterSnapshot) -> object:
    return resolve_configuration(settings, snapshot.control_plane)


def _in_seconds(offset_ns: int) -> str:
    text = f"{Decimal(offset_ns) / SECOND_NS:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
