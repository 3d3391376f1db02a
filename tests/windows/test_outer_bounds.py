"""What is proven without a run, and where nothing is."""

from __future__ import annotations

from builders import make_event, make_lease, make_node, make_scenario, make_snapshot
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.topology import EXCLUDE_DISRUPTION
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.outer_bounds import OuterBounds

NAMES = [f"n{index}" for index in range(8)]


def staggered(release: str, excluded: tuple[str, ...] = ()) -> OuterBounds:
    """Of the first three nodes of one zone, which fall silent one after the other."""
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "3s"}
    labels = {name: {EXCLUDE_DISRUPTION: "true"} for name in excluded}
    snapshot = make_snapshot(
        [make_node(name, labels=labels.get(name, {})) for name in NAMES],
        [],
        leases=[make_lease(name, 0, duration_seconds=4) for name in NAMES],
    )
    stops = [make_event(2 + index, "kubelet-stop", [NAMES[index]]) for index in range(3)]
    settings = ControllerSettings(release, flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return OuterBounds(snapshot, make_scenario(stops, horizon=60), configuration)


def test_nothing_is_proven_of_a_zone_in_which_no_node_counts() -> None:
    one_counts = staggered("1.33.4", tuple(NAMES[1:]))
    assert set(one_counts.nodes) == set(NAMES[:3])
    nobody_counts = staggered("1.33.4", tuple(NAMES))
    assert (nobody_counts.nodes, nobody_counts.zones) == ({}, {})


def test_where_served_nodes_leave_entries_behind_nobody_is_sure_to_be_served() -> None:
    mended, leaving = staggered("1.20.5").nodes, staggered("1.20.4").nodes
    assert {each.certain for each in mended.values()} == {True}
    assert {each.certain for each in leaving.values()} == {False}
    assert {each.served[1] for each in leaving.values()} == {60 * SECOND_NS}
    unknown = {name: each.unknown for name, each in mended.items()}
    assert unknown == {name: each.unknown for name, each in leaving.items()}
