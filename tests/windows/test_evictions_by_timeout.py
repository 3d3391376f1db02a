"""Up to 1.18 without taint manager: pods of a silent node are deleted in the zone's line, by the node's name."""

from __future__ import annotations

from collections.abc import Container, Iterable

import pytest
from building.builders import (
    START_NS,
    UNREACHABLE,
    make_conditions,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import Lease, Node, Pod
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


@pytest.mark.parametrize("deleted", [60, 60.2])
def test_a_node_that_is_deleted_while_it_waits_loses_its_pods_all_the_same(deleted: float) -> None:
    names = ("n0", "n1", "n2", "n3")
    snapshot = make_snapshot(
        [make_node(name, zone="a") for name in names], [make_pod("p", "n0"), make_pod("q", "n1")]
    )
    events = [
        make_event(0.5, "kubelet-stop", "n1", last_heartbeat=0.5),
        make_event(2, "kubelet-stop", "n0", last_heartbeat=2),
        make_event(deleted, "node-delete", "n0"),
    ]
    flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "10s"}
    settings = ControllerSettings(kubernetes_version="1.18.6", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=90), configuration)
    latest = {row.pod: row.latest_seconds for row in prediction.evictions}
    # The second token comes some ten seconds after the first, whoever gets that.
    assert latest["p"] == latest["q"] > deleted
    assert {row.certainty for row in prediction.evictions} == {"certain"}


def test_a_taint_that_is_left_on_a_node_tells_nothing_of_its_place_in_line() -> None:
    taint = f"{UNREACHABLE}:NoExecute"
    for taints in ([], [taint]):
        snapshot = make_snapshot(
            [make_node("n0", taints=taints), "n1", "n2"], [make_pod("p", "n0")]
        )
        flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "60s"}
        settings = ControllerSettings(kubernetes_version="1.18.6", flags=flags)
        configuration = resolve_configuration(settings, snapshot.control_plane)
        silent = make_event(1, "kubelet-stop", "n0", last_heartbeat=0)
        (row,) = predict(snapshot, make_scenario([silent], horizon=200), configuration).evictions
        assert row.certainty == "certain"
        assert row.earliest_seconds == 60 and 65 < row.latest_seconds < 66


def test_the_timeout_of_a_young_process_counts_from_its_own_first_tick() -> None:
    down = make_node("n0", ready="False", heartbeat=-60)
    snapshot = make_snapshot([down, "n1", "n2"], [make_pod("p", "n0")])
    leader = replace(snapshot.control_plane, leader_acquire_time_ns=START_NS - ns(7))
    flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "60s"}
    configuration = resolve_configuration(ControllerSettings("1.18.6", flags=flags), leader)
    young = replace(snapshot, control_plane=leader)
    (row,) = predict(young, make_scenario([], horizon=200), configuration).evictions
    # It ticks for the first time within a period of its start, 7 s ago; passes come 0.1 s later.
    assert row.earliest_seconds == 53 and 58 < row.latest_seconds < 58.3


def test_the_timeout_counts_from_the_tick_that_saw_the_node_not_ready_whenever_that_came() -> None:
    flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "60s"}
    for down in (
        make_node("n0", ready="False", heartbeat=-4, transition=-4),
        # Too young to have said Ready=False for a minute before.
        make_node("n0", ready="Unknown", heartbeat=-58, transition=-1, created=-59),
    ):
        leases = [make_lease("n0", -44 if down.ready_status == "Unknown" else -0.5)]
        snapshot = make_snapshot([down, "n1", "n2"], [make_pod("p", "n0")], leases=leases)
        settings = ControllerSettings(kubernetes_version="1.18.6", flags=flags)
        configuration = resolve_configuration(settings, snapshot.control_plane)
        (row,) = predict(snapshot, make_scenario([], horizon=200), configuration).evictions
        # The API tells the second in which a status was posted.
        seen, within = (-4, 1) if down.ready_status == "False" else (-44, 0)
        assert row.earliest_seconds == pytest.approx(seen + 60, abs=0.01)
        assert row.latest_seconds == pytest.approx(seen + within + 65, abs=0.3)


def test_the_timeout_of_a_node_whose_kubelet_never_posted_counts_from_its_creation() -> None:
    conditions = tuple(
        replace(each, reason="NodeStatusNeverUpdated")
        for each in make_conditions("Unknown", heartbeat=-70, transition=-8)
    )
    never = replace(make_node("n0", ready=None, created=-70), conditions=conditions)
    (row,) = _prediction(
        [never, make_node("n1")],
        [make_pod("p", "n0")],
        without_lease={"n0"},
        pod_eviction_timeout="120s",
    ).evictions
    assert row.certainty == "certain"
    assert row.earliest_seconds >= 50 and row.latest_seconds < 55.2


def test_who_comes_to_an_evicted_node_is_spared_where_its_kubelet_is_heard_once_more() -> None:
    """A new heartbeat does not make the node Ready, but the timeout counts anew from it."""
    flags = {
        "node-monitor-period": "1s",
        "node-monitor-grace-period": "6s",
        "pod-eviction-timeout": "9s",
        "enable-taint-manager": "false",
    }
    nodes = [make_node("n0"), make_node("n1")]
    leases = [make_lease("n0", -0.5, duration_seconds=6), make_lease("n1", -7, duration_seconds=6)]
    snapshot = make_snapshot(nodes, [make_pod("p", "n1")], leases=leases)
    events = [
        make_event(15, "kubelet-stop", "n1", last_heartbeat=15),
        make_event(18, "pod-create", pod=make_pod("late", "n1", created=None)),
    ]
    configuration = resolve_configuration(
        ControllerSettings("1.23.13", flags=flags), snapshot.control_plane
    )
    prediction = predict(snapshot, make_scenario(events, horizon=60), configuration)
    [late] = (one for one in prediction.evictions if one.pod == "late")
    # Not at once: at the earliest 9 s after that heartbeat, or never.
    assert late.certainty == "possible" or late.earliest_seconds >= 24
    assert late.latest_seconds >= 24


def _prediction(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    *,
    leases: Iterable[Lease] = (),
    without_lease: Container[str] = (),
    events: Iterable[ScenarioEvent] = (),
    **flags: str,
) -> Prediction:
    """Of 1.18.6 without taint manager, whose monitor ticks at 4 s."""
    every = {"enable-taint-manager": "false", **flags}
    every = {name.replace("_", "-"): value for name, value in every.items()}
    snapshot = make_snapshot(nodes, pods, leases=leases)
    left = {name: each for name, each in snapshot.leases.items() if name not in without_lease}
    snapshot = replace(snapshot, leases=left)
    settings = ControllerSettings("1.18.6", flags=every, monitor_phase_ns=ns(4))
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return predict(snapshot, make_scenario(list(events), horizon=200), configuration)


def _down(name: str, since: float) -> Node:
    return make_node(name, zone="a", ready="Unknown", heartbeat=-1000, transition=since)


_UP = [make_node(f"n{number}", zone="a") for number in range(3, 9)]


def test_whose_timeout_is_over_before_the_start_is_in_line_then() -> None:
    nodes = [_down("n0", -300), _down("n1", -300), *_UP]
    leases = [make_lease("n0", -341), make_lease("n1", -341)]
    pods = [make_pod("p", "n0"), make_pod("q", "n1")]
    prediction = _prediction(nodes, pods, leases=leases)
    # Not from the first tick on; the token of the start may be spent.
    for row in prediction.evictions:
        assert (row.certainty, row.earliest_seconds) == ("certain", 0.0)
        assert row.latest_seconds == pytest.approx(20, abs=0.5)


def test_of_a_node_without_pods_nobody_knows_whether_it_has_taken_its_token() -> None:
    # The timeout of n0 is over since some 40 s, or that of n1 ends with the tick at 4 s.
    nodes = [_down("n0", -300), _down("n1", -258), *_UP]
    leases = [make_lease("n0", -341), make_lease("n1", -299)]
    (row,) = _prediction(nodes, [make_pod("p", "n1")], leases=leases).evictions
    assert (row.certainty, row.earliest_seconds) == ("certain", 4.0)
    assert row.latest_seconds == pytest.approx(20, abs=0.5)


def test_who_was_evicted_long_ago_takes_no_token() -> None:
    nodes = [_down("n0", -900), _down("n1", -258), *_UP]
    leases = [make_lease("n0", -941), make_lease("n1", -299)]
    (row,) = _prediction(nodes, [make_pod("p", "n1")], leases=leases).evictions
    assert (row.certainty, row.earliest_seconds) == ("certain", 4.0)
    assert row.latest_seconds == pytest.approx(10, abs=0.5)


def test_who_comes_to_a_node_that_was_evicted_before_the_start_goes_at_once() -> None:
    late = make_event(1, "pod-create", pod=make_pod("late", "n0", created=None))
    nodes, leases = [_down("n0", -900), *_UP], [make_lease("n0", -941)]
    (row,) = _prediction(nodes, [], leases=leases, events=[late]).evictions
    assert (row.certainty, row.earliest_seconds, row.latest_seconds) == ("certain", 1.0, 1.0)


def test_without_a_lease_the_timeout_counts_from_a_grace_period_before_the_end_of_it() -> None:
    nodes = [_down("n0", -167), *_UP]
    (row,) = _prediction(nodes, [make_pod("p", "n0")], without_lease=["n0"]).evictions
    assert row.certainty == "certain"
    # Given up by a tick at -166, heard by one at -206.
    assert row.earliest_seconds == pytest.approx(94, abs=0.5)
    assert row.latest_seconds == pytest.approx(94, abs=1)


def test_the_timeout_counts_from_the_last_renewal_where_the_lease_is_not_over_yet() -> None:
    flags = {"node_monitor_grace_period": "13s", "pod_eviction_timeout": "30s"}
    young = replace(_down("n0", -4), creation_timestamp_ns=START_NS - ns(32))
    snapshot = [young, *_UP], [make_pod("p", "n0")]
    settings = {"leases": [make_lease("n0", -18)], **flags}
    (row,) = _prediction(*snapshot, **settings).evictions
    # A tick at -16 heard it.
    assert (row.certainty, row.earliest_seconds) == ("certain", 14.0)


@pytest.mark.parametrize(("release", "earliest"), [("1.18.6", 3), ("1.16.7", 5)])
def test_a_pod_that_comes_to_a_node_which_is_dead_for_long_does_not_wait_for_the_tick_that_queues_it(
    release: str, earliest: float
) -> None:
    """The first tick, within 5 s, writes Unknown; the second one puts the node in line, or the pod that comes between them (1.16.8)."""
    names = ("n0", "n1", "n2")
    snapshot = make_snapshot(names, leases=[make_lease(name, -400) for name in names[:1]])
    flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "60s"}
    configuration = resolve_configuration(
        ControllerSettings(release, flags=flags), snapshot.control_plane
    )
    comes = make_event(3, "pod-create", pod=make_pod("p", "n0", created=None))
    (row,) = predict(snapshot, make_scenario([comes], horizon=60), configuration).evictions
    assert (row.certainty, row.earliest_seconds) == ("certain", earliest)
    assert 10 < row.latest_seconds < 10.2
    # Which of two is it: nothing comes after what is put in line at once, and before the second tick.
    spans = [(each.earliest_seconds, each.latest_seconds) for each in row.windows]
    assert (spans[0][1] < 3.2) == (earliest == 3)


def test_who_said_false_for_its_timeout_before_it_fell_silent_may_be_in_line_already() -> None:
    nodes, pods = [_down("n0", -4), *_UP], [make_pod("p", "n0")]
    given = {"leases": [make_lease("n0", -45)], "pod_eviction_timeout": "60s"}
    (row,) = _prediction(nodes, pods, **given).evictions
    early, late = ((each.earliest_seconds, each.latest_seconds) for each in row.windows)
    # With the token of the start or the next one, or 60 s after the tick that heard it last, at -41.
    assert early[0] == 0 and 10 < early[1] < 10.3
    assert late[0] == 19 and late[1] < 20
    assert row.certainty == "certain"


def test_who_is_silent_for_so_long_that_its_zone_has_served_it_is_not_in_line_early() -> None:
    nodes, pods = [_down("n0", -100), *_UP], [make_pod("p", "n0")]
    given = {"leases": [make_lease("n0", -141)], "pod_eviction_timeout": "300s"}
    (row,) = _prediction(nodes, pods, **given).evictions
    assert row.earliest_seconds > 150


def test_who_may_have_been_evicted_before_it_fell_silent_leaves_others_to_bounds() -> None:
    nodes = [_down("n0", -100), _down("n1", -100), *_UP]
    leases = [make_lease("n0", -141), make_lease("n1", -141)]
    given = {"leases": leases, "pod_eviction_timeout": "160s"}
    prediction = _prediction(nodes, [make_pod("p", "n0")], **given)
    # Nobody sees whether n1, which has no pods, takes a token once its timeout is over.
    assert "n0" in prediction.inputs.coverage.outer_bound_nodes
