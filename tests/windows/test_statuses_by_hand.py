"""A kubelet that posts a Ready status goes on renewing as before, for its two loops know nothing of each other, or has begun anew."""

from __future__ import annotations

from building.builders import (
    STEPS,
    make_event,
    make_lease,
    make_node,
    make_scenario,
    make_snapshot,
    ns,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.unknowns.last_heartbeats import (
    last_heartbeat_spans,
    last_heartbeat_window,
)


def posts_at(seconds: float, status: str = "False") -> ScenarioEvent:
    return make_event(seconds, "node-ready", "a", status=status)


def test_a_kubelet_that_is_up_renews_as_before_its_status_or_from_then_on() -> None:
    snapshot = make_snapshot([make_node("a")], leases=[make_lease("a", renewed=-3)])
    scenario = make_scenario([posts_at(20), make_event(25, "kubelet-stop", "a")])

    assert last_heartbeat_spans(snapshot, scenario, 1, "a", STEPS) == (
        (ns(17), ns(17.8)),
        (ns(20), ns(20)),
    )


def test_the_nominal_kubelet_renews_with_the_status_that_it_posts() -> None:
    # Upstream's own controller did so with what posts and renews at once (fixtures/upstream, mix-660).
    snapshot = make_snapshot([make_node("a")], leases=[make_lease("a", renewed=-3)])
    events = [posts_at(20, "True"), make_event(51, "kubelet-stop", "a")]
    scenario = make_scenario(events, horizon=120)
    settings = ControllerSettings(kubernetes_version="1.29.6", monitor_phase_ns=ns(4))
    prediction = predict(
        snapshot, scenario, resolve_configuration(settings, snapshot.control_plane)
    )
    (given_up,) = (
        each for node in prediction.nodes for each in node.changes if each.value == "Unknown"
    )

    assert given_up.offset_seconds == 94  # its renewal of 50 s is seen at 54 s
    assert given_up.earliest_seconds <= 89  # that of 47 s at 49 s


def test_a_status_of_a_kubelet_that_was_silent_is_a_renewal() -> None:
    silent = make_node("a", ready="Unknown")
    snapshot = make_snapshot([silent], leases=[make_lease("a", renewed=-100)])
    scenario = make_scenario([posts_at(20, "True"), make_event(25, "kubelet-stop", "a")])

    assert last_heartbeat_window(snapshot, scenario, 1, "a", STEPS) == (ns(20), ns(20))


def test_within_the_window_of_a_return_nobody_knows_the_renewals_whatever_is_posted_later() -> None:
    snapshot = make_snapshot([make_node("a")], leases=[make_lease("a", renewed=-3)])
    back = make_event(60, "kubelet-start", "a", within_ns=ns(5))
    events = [make_event(0, "kubelet-stop", "a"), back, posts_at(66)]
    scenario = make_scenario([*events, make_event(90, "kubelet-stop", "a")])

    assert last_heartbeat_spans(snapshot, scenario, 3, "a", STEPS) == ((ns(79.6), ns(90)),)


def test_a_node_is_given_up_as_late_as_its_kubelet_can_have_renewed_after_a_status() -> None:
    # Upstream 1.29.6 renewed at 92.8 s and gave it up at 133.2 s; told was 132.1 s at the latest, as if it had not.
    snapshot = make_snapshot(
        [make_node("a"), make_node("b")],
        leases=[make_lease("a", renewed=-8.4), make_lease("b", renewed=-1)],
    )
    events = [posts_at(43.8), posts_at(87, "True"), make_event(93.5, "kubelet-stop", "a")]
    settings = ControllerSettings(kubernetes_version="1.29.6")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=300), configuration)
    (node,) = (report for report in prediction.nodes if report.node == "a")
    (given_up,) = (change for change in node.changes if change.value == "Unknown")

    assert given_up.certainty == "certain"
    assert given_up.earliest_seconds < 131.7
    assert given_up.latest_seconds > 138
