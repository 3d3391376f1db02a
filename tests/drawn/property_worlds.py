"""Small static worlds and transformations of worlds, for the relations in test_properties.

*Static* means: taints are put on, and nothing else is changed while timers run. Many relations hold
only there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from building.builders import make_event, make_pod, make_scenario, make_snapshot, ns, tolerates
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import (
    ControllerConfiguration,
    resolve_configuration,
)
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Taint, Toleration
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.field_types import Manifest
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate

Tolerations = tuple[Toleration, ...]
Times = dict[str, int]
NEVER_NS = 2**62
# Beyond this number of seconds the sum of a time and a toleration overflows upstream.
SECONDS_MAX = 9_223_372_036


def configuration_of(release: str = "1.29.6", **flags: str) -> ControllerConfiguration:
    """Defaults of the release, and flags with underscores for dashes."""
    named = {name.replace("_", "-"): text for name, text in flags.items()}
    settings = ControllerSettings(kubernetes_version=release, flags=named)
    return resolve_configuration(settings, make_snapshot(["n0"]).control_plane)


def deletes(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration | None = None,
    timing: Timing | None = None,
) -> Times:
    """When each pod is first deleted, by "namespace/name"."""
    timeline = simulate(snapshot, scenario, configuration or configuration_of(), timing or Timing())
    found: Times = {}
    for entry in timeline.entries:
        if isinstance(entry, PodDeleted):
            found.setdefault(entry.pod, entry.at_ns)
    return found


def evicted_at(
    tolerations: Tolerations, events: Iterable[ScenarioEvent], *, horizon: float = 120
) -> int:
    """When the one pod of the one node is deleted (``NEVER_NS``: not by the horizon)."""
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0", tolerations=tolerations)])
    return deletes(snapshot, make_scenario(events, horizon=horizon)).get("default/p", NEVER_NS)


def predicted(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> Prediction:
    return predict(snapshot, scenario, configuration)


# -- strategies -------------------------------------------------------------------------------------

SMALL_SECONDS = st.sampled_from((0, 1, 3, 5, 8, 12, 30))
KEYS = st.sampled_from(("A", "B", ""))
TOLERATION_LISTS = st.lists(
    st.builds(tolerates, KEYS, st.one_of(st.none(), SMALL_SECONDS)), max_size=4
).map(tuple)
TAINT_TEXTS = ("A:NoExecute", "B:NoExecute")


@st.composite
def taint_events(draw: st.DrawFn, *, node: str = "n0") -> list[ScenarioEvent]:
    """One or both taints, each put on once."""
    texts = draw(st.lists(st.sampled_from(TAINT_TEXTS), min_size=1, max_size=2, unique=True))
    return [
        make_event(draw(st.sampled_from((1, 1, 2.5, 4))), "taint", node, taint=text)
        for text in texts
    ]


# -- transformations --------------------------------------------------------------------------------


def shift_seconds(
    snapshot: ClusterSnapshot, scenario: Scenario, seconds: int
) -> tuple[ClusterSnapshot, Scenario]:
    """The same cluster and scenario, so many whole seconds later."""
    delta_ns = ns(seconds)

    def later(at_ns: int | None) -> int | None:
        return None if at_ns is None else at_ns + delta_ns

    def later_node(node: Node) -> Node:
        conditions = tuple(
            replace(
                condition,
                last_heartbeat_time_ns=later(condition.last_heartbeat_time_ns),
                last_transition_time_ns=later(condition.last_transition_time_ns),
            )
            for condition in node.conditions
        )
        created_ns = node.creation_timestamp_ns
        return replace(
            node,
            conditions=conditions,
            taints=tuple(replace(t, time_added_ns=later(t.time_added_ns)) for t in node.taints),
            creation_timestamp_ns=created_ns + delta_ns if created_ns else 0,
            taints_changed_ns=later(node.taints_changed_ns),
        )

    def later_pod(pod: Pod) -> Pod:
        created_ns = pod.creation_timestamp_ns
        return replace(
            pod,
            creation_timestamp_ns=created_ns + delta_ns if created_ns else 0,
            deletion_timestamp_ns=later(pod.deletion_timestamp_ns),
        )

    def later_event(event: ScenarioEvent) -> ScenarioEvent:
        if event.node is not None:
            return replace(event, manifest=Manifest(later_node(event.node)))
        if event.pod is not None:
            return replace(event, manifest=Manifest(later_pod(event.pod)))
        return event

    moved = replace(
        snapshot,
        nodes=tuple(later_node(node) for node in snapshot.nodes),
        pods=tuple(later_pod(pod) for pod in snapshot.pods),
        leases={
            name: replace(lease, renew_time_ns=later(lease.renew_time_ns))
            for name, lease in snapshot.leases.items()
        },
        taken_at_ns=snapshot.taken_at_ns + delta_ns,
    )
    events = tuple(later_event(event) for event in scenario.events)
    return moved, replace(scenario, start_ns=scenario.start_ns + delta_ns, events=events)


def reorder(
    snapshot: ClusterSnapshot, order: Callable[[list[object]], list[object]]
) -> ClusterSnapshot:
    """The same cluster with every unordered thing written down in another order."""

    def mapping(items: dict[str, object]) -> dict[str, object]:
        return dict(order(list(items.items())))  # type: ignore[arg-type]

    nodes = [
        replace(
            node,
            labels=mapping(node.labels),  # type: ignore[arg-type]
            taints=tuple(order(list(node.taints))),
            conditions=tuple(order(list(node.conditions))),
        )
        for node in snapshot.nodes
    ]
    return replace(
        snapshot,
        nodes=tuple(nodes),
        leases=mapping(snapshot.leases),  # type: ignore[arg-type]
    )


def without_taint_times(snapshot: ClusterSnapshot, added_ns: int | None) -> ClusterSnapshot:
    """Every taint with that timeAdded."""

    def changed(taint: Taint) -> Taint:
        return replace(taint, time_added_ns=added_ns)

    nodes = tuple(
        replace(node, taints=tuple(changed(taint) for taint in node.taints))
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)
