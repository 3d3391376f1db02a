"""What kubelets posted shortly before the start: the API tells the second, and a tick that sees it accepts the Lease once more."""

from __future__ import annotations

import random

import pytest
from building.builders import (
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from drawn import begun_worlds
from msgspec.structs import replace
from realities.contradictions import contradictions, node_contradictions
from realities.drawn_realities import World

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.prediction.prepared import PreparedCluster
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.outcome import NodeChangeKey
from kubectl_evictplan.windows.wide_bounds import WideBounds

FAST = {"node-eviction-rate": "0.5"}
SILENT = make_event(0, "kubelet-stop", "n0", last_heartbeat=-8)


def predicted(
    node: Node,
    *events: ScenarioEvent,
    release: str = "1.29.6",
    renewed: float = -8,
    begun: float | None = None,
    **flags: str,
) -> Prediction:
    """Of three nodes, of which that one renewed its Lease then for the last time before the start; ``begun``: the process."""
    leases = [make_lease("n0", renewed), make_lease("n1", -0.3), make_lease("n2", -0.3)]
    pods = [make_pod("p", "n0", tolerations=())]
    snapshot = make_snapshot([node, "n1", "n2"], pods, leases=leases)
    if begun is not None:
        leader = replace(snapshot.control_plane, leader_acquire_time_ns=epoch_ns(begun))
        snapshot = replace(snapshot, control_plane=leader)
    settings = ControllerSettings(release, flags={k.replace("_", "-"): v for k, v in flags.items()})
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    return predict(snapshot, make_scenario(events, horizon=160), configuration)


def given_up(prediction: Prediction) -> tuple[float, float]:
    """When the node surely becomes Unknown."""
    (change,) = (
        change for row in prediction.nodes for change in row.changes if change.value == "Unknown"
    )
    assert change.certainty == "certain" and change.latest_seconds is not None
    return change.earliest_seconds, change.latest_seconds


@pytest.mark.parametrize(
    ("posted", "renewed", "earliest", "latest"),
    [
        (-1000, -8, 32, 37),
        # Seen by a tick from -3 to 3 s, that after it accepts the Lease again.
        (-3, -8.5, 42, 48),
        # Seen by a tick before -3 s together with the Lease, or by one from then to -1 s.
        (-7, -8, 33, 44),
        # A renewal after it counts as ever.
        (-10, -8, 32, 37),
        (-8, -6.5, 33.5, 38.5),
    ],
)
def test_who_posted_a_status_since_the_last_renewal_is_heard_by_the_tick_after_the_one_that_sees_it(
    posted: float, renewed: float, earliest: float, latest: float
) -> None:
    node = make_node("n0", heartbeat=posted)
    stop = make_event(0, "kubelet-stop", "n0", last_heartbeat=renewed)
    found = given_up(predicted(node, stop, renewed=renewed))
    assert found == (pytest.approx(earliest, abs=0.01), pytest.approx(latest, abs=0.11))


def test_a_process_that_begins_after_the_status_sees_it_together_with_the_lease() -> None:
    node = make_node("n0", heartbeat=-5)
    stop = make_event(0, "kubelet-stop", "n0", last_heartbeat=-8.5)
    earliest, latest = given_up(predicted(node, stop, renewed=-8.5, begun=-2))
    assert earliest == pytest.approx(38, abs=0.01)
    assert latest == pytest.approx(43, abs=0.11)


def test_a_last_renewal_counts_as_it_is_stated_although_the_lease_shows_a_later_one() -> None:
    told = [
        given_up(predicted(make_node("n0", heartbeat=-3), SILENT, renewed=at)) for at in (-8, -2)
    ]
    assert told[0] == told[1]
    # Seen by a tick up to 3 s, that after it accepts the Lease again.
    assert told[0][1] == pytest.approx(48, abs=0.11)


@pytest.mark.parametrize(
    ("posted", "earliest", "latest"), [(-1000, 29.6, 45.1), (-3, 37, 48.1), (-12, 29.6, 45.1)]
)
def test_where_no_lease_tells_the_last_renewal_it_may_lie_before_what_the_kubelet_posted(
    posted: float, earliest: float, latest: float
) -> None:
    # It renews each 10.4 s at the latest; from -3 to -2 s, seen by a tick up to 3 s, and that after it accepts the Lease.
    given = make_snapshot([make_node("n0", heartbeat=posted), "n1", "n2"])
    leases = {name: lease for name, lease in given.leases.items() if name != "n0"}
    snapshot = replace(given, leases=leases)
    scenario = make_scenario([make_event(0, "kubelet-stop", "n0")], horizon=160)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    found = given_up(predict(snapshot, scenario, configuration))
    assert found == pytest.approx((earliest, latest), abs=0.05)
    changes = WideBounds.of(snapshot, scenario, configuration).changes
    [(low_ns, high_ns)] = changes.changes(NodeChangeKey("n0", "ready", "Unknown"))
    assert low_ns / 1e9 <= found[0] and found[1] <= high_ns / 1e9 + 0.001


def test_a_status_since_the_last_renewal_means_nothing_where_the_kubelet_renews_again() -> None:
    stop = make_event(30, "kubelet-stop", "n0")
    plain, posted = make_node("n0"), make_node("n0", heartbeat=-3)
    assert given_up(predicted(posted, stop)) == given_up(predicted(plain, stop))


def test_a_status_that_a_clock_ahead_has_written_tells_nothing() -> None:
    assert given_up(predicted(make_node("n0", heartbeat=2), SILENT))[1] < 38


@pytest.mark.parametrize("release", ["1.29.6", "1.34.4"])
def test_a_tick_may_have_come_before_a_kubelet_said_in_its_second_that_it_is_not_ready(
    release: str,
) -> None:
    node = make_node("n0", ready="False", heartbeat=-1, transition=-1)
    (eviction,) = predicted(node, release=release, renewed=-0.2, node_eviction_rate="0.5").evictions
    (window,) = eviction.windows
    # In line since before the start, or with a tick that comes a period after one that just missed it.
    assert window.earliest_seconds == 0 and window.latest_seconds == pytest.approx(5.12, abs=0.02)


def test_a_pass_may_have_wasted_its_token_on_who_was_given_up_just_before_the_start() -> None:
    node = make_node("n0", ready="Unknown", heartbeat=-90, transition=-1)
    given = {"release": "1.34.4", "renewed": -60, "node_eviction_rate": "0.5"}
    (eviction,) = predicted(node, **given).evictions  # type: ignore[arg-type]
    (window,) = eviction.windows
    assert window.earliest_seconds == 0 and window.latest_seconds == pytest.approx(5.12, abs=0.02)


@pytest.mark.parametrize("cut", [25.0, 30.3])
@pytest.mark.parametrize("status", ["True", "False"])
def test_no_past_in_which_a_kubelet_posts_and_falls_silent_leads_outside(
    status: str, cut: float
) -> None:
    snapshot = make_snapshot(
        ["n0", "n1", "n2"],
        [make_pod("p", "n0", tolerations=())],
        leases=[make_lease(f"n{index}", -0.3) for index in range(3)],
    )
    events = [
        make_event(20, "node-ready", "n0", status=status),
        make_event(22, "kubelet-stop", "n0", last_heartbeat=15),
    ]
    settings = ControllerSettings("1.29.6", flags=FAST)
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    world = World(snapshot, make_scenario(events, horizon=120), configuration)
    for number in range(8):
        rng = random.Random(f"posts {number}")
        past = begun_worlds._past(world, round(cut * 1e9), rng)
        assert past is not None
        met = begun_worlds._as_seen(past, rng)
        assert met is not None
        told = met.world
        prediction = predict(told.snapshot, told.scenario, told.configuration)
        for chance in range(3):
            reality = met.reality(random.Random(f"{number} {chance}"))
            end_ns = told.scenario.end_ns
            assert not list(contradictions(end_ns, prediction, reality))
            assert not list(node_contradictions(prediction, reality, end_ns))


def test_too_many_of_them_are_told_by_bounds_that_hold_all_the_same() -> None:
    names = [f"n{index}" for index in range(12)]
    nodes = [
        make_node(name, heartbeat=-3 if index < 5 else -1000) for index, name in enumerate(names)
    ]
    leases = [make_lease(name, -8) for name in names]
    snapshot = make_snapshot(nodes, [make_pod("p", "n0", tolerations=())], leases=leases)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    stop = make_event(0, "kubelet-stop", names[:5], last_heartbeat=-8)
    prediction = predict(snapshot, make_scenario([stop], horizon=300), configuration)
    coverage = {each.name: each.explored for each in prediction.inputs.coverage.unknowns}
    assert coverage["posts at the start"] == "partly"
    for row in prediction.nodes:
        for change in row.changes:
            if change.value == "Unknown":
                assert change.earliest_seconds <= 42 and (change.latest_seconds or 0) >= 48


def test_failures_of_nodes_that_posted_a_status_since_their_last_renewal_are_predicted_alone() -> (
    None
):
    nodes = [make_node("n0", heartbeat=-3), make_node("n1"), make_node("n2")]
    snapshot = make_snapshot(nodes, leases=[make_lease(f"n{index}", -8) for index in range(3)])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    prepared = PreparedCluster(snapshot, configuration, make_scenario([]).start_ns)
    assert prepared.silence_class("n0") is None
    assert prepared.silence_class("n1") == prepared.silence_class("n2") is not None
