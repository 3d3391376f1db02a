"""Warnings about controllers, rates, limits and nodes that look odd."""

from __future__ import annotations

import pytest
from building.builders import (
    START_NS,
    UNREACHABLE,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    tolerates,
)
from building.warning_runs import TAINT, configured, message, objects, warn, warnings_of
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    ObjectReference,
)
from kubectl_evictplan.scenarios.outages import outage_events
from kubectl_evictplan.scenarios.scenario import Outage


@pytest.mark.parametrize(
    ("release", "flags", "code", "words"),
    [
        (
            "1.29",
            {"controllers": "*,-taint-eviction-controller"},
            "taint-eviction-disabled",
            "no taint evicts",
        ),
        (
            "1.26",
            {"enable-taint-manager": "false"},
            "taint-eviction-disabled",
            "--pod-eviction-timeout=5m0s",
        ),
        (
            "1.29",
            {"controllers": "*,-node-lifecycle-controller"},
            "node-lifecycle-disabled",
            "silent kubelets",
        ),
    ],
)
def test_controllers_that_do_not_run(
    release: str, flags: dict[str, str], code: str, words: str
) -> None:
    pods = [make_pod("p", "n1")]
    warnings = warn(["n1"], pods, [TAINT], configuration=configured(release, flags))
    assert words in message(warnings, code)
    assert objects(warn(["n1"], pods, [TAINT]), code) is None


def test_pod_gc_that_does_not_run_is_named_when_a_node_goes() -> None:
    configuration = configured(flags={"controllers": "*,-pod-garbage-collector-controller"})
    delete = make_event(5, "node-delete", "n1")
    warnings = warn(["n1", "n2"], [make_pod("p", "n1")], [delete], configuration=configuration)
    assert objects(warnings, "pod-gc-disabled") == []
    assert (
        objects(warn(["n1"], [], [TAINT], configuration=configuration), "pod-gc-disabled") is None
    )


def test_a_small_zone_in_partial_disruption_taints_nobody() -> None:
    names = [f"n{i}" for i in range(5)]
    warnings = warn(names, [], [make_event(3, "kubelet-stop", names[:3])])
    assert objects(warnings, "zone-stopped") == names[:3]
    assert "(2 ready, 3 not ready)" in message(warnings, "zone-stopped")
    assert objects(warnings, "queue-order-unknown") is None
    assert objects(warnings, "master-disruption") is None


def test_all_zones_down_is_master_disruption() -> None:
    names = ["n0", "n1"]
    warnings = warn(names, [], [make_event(3, "kubelet-stop", names)])
    assert objects(warnings, "master-disruption") == names


def test_where_all_zones_are_down_at_the_start_another_one_may_have_vanished_last() -> None:
    """Rule 13: where windows do not span it, for nothing of that zone is left."""
    down = [make_node(name, ready="Unknown", transition=-30) for name in ("n0", "n1")]
    tainted = make_node("n2", ready="Unknown", taints=[make_taint(f"{UNREACHABLE}:NoExecute")])
    cordon = [make_event(1, "cordon", "n0")]
    code = "lost-zone-unseen"
    assert objects(warn([*down, tainted], [], cordon), code) == ["n0", "n1"]
    by_timeout = configured("1.26", {"enable-taint-manager": "false"})
    warnings = warn([*down, tainted], [], cordon, configuration=by_timeout)
    assert objects(warnings, code) == ["n0", "n1", "n2"]
    assert objects(warn([*down, "up"], [], cordon), code) is None
    assert objects(warn(down, [make_pod("p", "gone")], cordon), code) is None
    restarted = [make_event(0, "controller-start"), *cordon]
    assert objects(warn(down, [], restarted), code) is None


def test_the_rate_one_bug_needs_a_stop() -> None:
    configuration = configured(flags={"node-eviction-rate": "1"})
    names = [f"n{i}" for i in range(5)]
    stop = make_event(3, "kubelet-stop", names[:3])
    one = make_event(3, "kubelet-stop", names[:1])
    assert objects(warn(names, [], [stop], configuration=configuration), "rate-one-bug") == []
    assert objects(warn(names, [], [one], configuration=configuration), "rate-one-bug") is None


@pytest.mark.parametrize("rate", ["0", "-1"])
def test_a_rate_of_nothing(rate: str) -> None:
    configuration = configured(flags={"node-eviction-rate": rate})
    names = [f"n{i}" for i in range(4)]
    warnings = warn(
        names, [], [make_event(3, "kubelet-stop", names[:2])], configuration=configuration
    )
    assert objects(warnings, "eviction-rate-zero") == names[:2]
    assert f"={rate}:" in message(warnings, "eviction-rate-zero")


def test_the_order_of_waiting_nodes_is_unknown_within_a_zone() -> None:
    nodes = [make_node(f"a{i}", zone="a") for i in range(4)]
    nodes += [make_node(f"b{i}", zone="b") for i in range(4)]
    warnings = warn(nodes, [], [make_event(3, "kubelet-stop", ["a0", "a1", "b0"])])
    assert objects(warnings, "queue-order-unknown") == ["a0", "a1"]
    assert objects(warnings, "queue-duplicates-bug") is None


def test_a_status_after_the_last_renewal_may_come_of_each_kubelet_that_falls_silent() -> None:
    names = [f"n{i}" for i in range(6)]
    stop = make_event(3, "kubelet-stop", names[:2])
    warnings = warn(names, [], [stop], horizon=120)
    assert objects(warnings, "status-may-come-late") == names[:2]
    assert "by up to 15.4s" in message(warnings, "status-may-come-late")
    tainted = warn(names, [], [make_event(3, "taint", names[:1], taint="a:NoExecute")])
    assert objects(tainted, "status-may-come-late") is None
    # What it posted up to the look shows, and who says when it renewed last says that it was silent since.
    for seconds, stated in ((0, None), (3, 1)):
        known = make_event(seconds, "kubelet-stop", names[:2], last_heartbeat=stated)
        assert objects(warn(names, [], [known], horizon=120), "status-may-come-late") is None


@pytest.mark.parametrize(
    ("release", "said"), [("1.16.15", False), ("1.19.9", True), ("1.37.0", True)]
)
def test_a_pass_between_nodes_of_a_tick_wastes_a_token_where_a_name_can_be_queued_again(
    release: str, said: bool
) -> None:
    names = [f"n{i}" for i in range(6)]
    stop = make_event(3, "kubelet-stop", names[:2])
    warnings = warn(names, [], [stop], configuration=configured(release), horizon=120)
    assert objects(warnings, "token-may-be-wasted") == (names[:2] if said else None)
    alone = warn(names, [], [make_event(3, "kubelet-stop", names[:1])], horizon=120)
    assert objects(alone, "token-may-be-wasted") is None


@pytest.mark.parametrize(("release", "said"), [("1.19.8", True), ("1.19.9", False)])
def test_releases_that_queue_duplicates(release: str, said: bool) -> None:
    names = [f"n{i}" for i in range(6)]
    warnings = warn(
        names,
        [],
        [make_event(3, "kubelet-stop", names[:2])],
        configuration=configured(release),
        horizon=120,
    )
    assert objects(warnings, "queue-duplicates-bug") == (names[:2] if said else None)


def test_unknown_phase_and_flags_matter_when_the_monitor_does() -> None:
    stop = make_event(3, "kubelet-stop", "n1")
    warnings = warn(["n1", "n2"], [], [stop])
    assert objects(warnings, "monitor-phase-unknown") == []
    assert "--node-monitor-grace-period=40s" in message(warnings, "flags-assumed")
    known = configured(
        "1.29",
        {
            "node-monitor-period": "5s",
            "node-monitor-grace-period": "40s",
            "node-eviction-rate": "0.1",
        },
        phase=0,
    )
    warnings = warn(["n1", "n2"], [], [stop], configuration=known)
    assert objects(warnings, "monitor-phase-unknown") is None
    assert objects(warnings, "flags-assumed") is None
    quiet = warn(["n1"], [make_pod("p", "n1")], [TAINT])
    assert objects(quiet, "monitor-phase-unknown") is None
    assert objects(quiet, "flags-assumed") is None


def test_the_lease_breaker_of_1_37() -> None:
    stop = make_event(3, "kubelet-stop", "n1")
    for release, expected in (("1.37", []), ("1.36", None)):
        warnings = warn(["n1", "n2"], [], [stop], configuration=configured(release))
        assert objects(warnings, "lease-breaker") == expected


def test_the_lease_breaker_names_the_nodes_that_it_keeps_ready() -> None:
    events = [make_event(3, "kubelet-stop", "n1"), make_event(20, "lease-touch", "n1")]
    warnings = warn(["n1", "n2"], [], events, configuration=configured("1.37"))
    assert objects(warnings, "lease-breaker") == ["n1"]


@pytest.mark.parametrize(
    ("release", "flags", "delay"),
    [
        ("1.29", {}, "13.5s"),
        ("1.25", {}, "3.5s"),
        ("1.29", {"kube-api-qps": "-1"}, None),
        ("1.29", {"kube-api-qps": "1000", "kube-api-burst": "1000"}, None),
        ("1.25", {"kube-api-qps": "0", "kube-api-burst": "0"}, "18s"),
    ],
)
def test_the_controllers_own_client_limit(
    release: str, flags: dict[str, str], delay: str | None
) -> None:
    pods = [make_pod(f"p{i}", "n1") for i in range(100)]
    warnings = warn(["n1"], pods, [TAINT], configuration=configured(release, flags))
    assert objects(warnings, "api-throttling") == (["n1"] if delay else None)
    if delay:
        assert f"about {delay} later" in message(warnings, "api-throttling")


def test_marking_many_pods_not_ready_takes_the_monitor_time() -> None:
    pods = [make_pod(f"p{i}", "n1", tolerations=[tolerates("")]) for i in range(100)]
    warnings = warn(["n1", "n2"], pods, [make_event(3, "kubelet-stop", "n1")])
    assert objects(warnings, "api-throttling") == ["n1"]
    assert "100 pods are marked not ready" in message(warnings, "api-throttling")


def test_kinds_that_could_not_be_listed() -> None:
    pods = [make_pod("p", "n1")]
    snapshot = replace(make_snapshot(["n1"], pods), denied=("PodDisruptionBudget",))
    warnings = warn([], events=[TAINT], snapshot=snapshot)
    assert "PodDisruptionBudget" in message(warnings, "kind-not-readable")


def test_a_horizon_that_cuts_off_timers() -> None:
    pod = make_pod("p", "n1", tolerations=[tolerates("maint", 300)])
    assert objects(warn(["n1"], [pod], [TAINT], horizon=60), "horizon-reached") == []
    assert objects(warn(["n1"], [pod], [TAINT], horizon=600), "horizon-reached") is None


def test_missing_leases_of_affected_nodes_only() -> None:
    snapshot = replace(make_snapshot(["n1", "n2", "n3"]), leases={"n1": make_lease("n1")})
    warnings = warn([], events=[TAINT], snapshot=snapshot, affected=["n1", "n2"])
    assert objects(warnings, "missing-lease") == ["n2"]
    none = replace(snapshot, leases={})
    assert "no Leases at all" in message(warn([], events=[TAINT], snapshot=none), "missing-lease")


@pytest.mark.parametrize(("release", "crashes"), [("1.29", True), ("1.30", False)])
def test_a_node_without_ready(release: str, crashes: bool) -> None:
    nodes = [make_node("n1", ready=None), "n2"]
    warnings = warn(nodes, configuration=configured(release))
    assert objects(warnings, "node-without-ready") == ["n1"]
    assert objects(warnings, "missing-ready-crash") == (["n1"] if crashes else None)


def test_a_ready_condition_that_says_something_odd() -> None:
    odd = make_node("n1")
    conditions = tuple(
        replace(c, status="unknown", last_heartbeat_time_ns=None) if c.type == "Ready" else c
        for c in odd.conditions
    )
    twice = make_node("n2")
    twice = replace(twice, conditions=(*twice.conditions, twice.conditions[-1]))
    snapshot = make_snapshot([replace(odd, conditions=conditions), twice, "n3"])
    timeline = Timeline(START_NS)
    warnings = warnings_of(
        snapshot, make_scenario(), configured(), timeline, {"n1", "n2", "n3"}, {}
    )
    said = {w.message[:28]: w.objects for w in warnings if w.code == "odd-ready-condition"}
    assert said == {
        "Ready has no heartbeat time": ("n1",),
        "several Ready conditions: th": ("n2",),
        "the status of Ready is none ": ("n1",),
    }


def test_times_after_the_snapshot_are_skewed() -> None:
    nodes = [make_node("n1", created=60), make_node("n2", heartbeat=60), "n3", "n4"]
    snapshot = make_snapshot(nodes, leases=[make_lease("n3", 60)])
    timeline = Timeline(START_NS)
    names = {node.name for node in snapshot.nodes}
    warnings = warnings_of(snapshot, make_scenario(), configured(), timeline, names, {})
    assert objects(warnings, "skewed-timestamps") == ["n1", "n2", "n3"]


def test_a_start_far_from_the_snapshot() -> None:
    later = replace(make_snapshot(["n1"]), taken_at_ns=epoch_ns(-3600))
    assert "1h0m0s after" in message(warn([], snapshot=later), "start-not-at-snapshot")
    assert objects(warn(["n1"]), "start-not-at-snapshot") is None


def test_conflicting_zone_labels_name_the_zone_that_counts() -> None:
    beta = {"failure-domain.beta.kubernetes.io/zone": "old"}
    warnings = warn([make_node("n1", zone="new", labels=beta), make_node("n2", zone="new")])
    assert objects(warnings, "conflicting-zone-labels") == ["n1"]
    assert "old" in message(warnings, "conflicting-zone-labels").rpartition("counts in")[2]


def test_pods_on_nodes_that_are_not_in_the_input() -> None:
    warnings = warn(["n1"], [make_pod("p", "ghost"), make_pod("q", "n1")])
    assert objects(warnings, "pod-on-unknown-node") == ["default/p"]


def test_running_timers_are_windows_and_their_leader_may_be_unknown() -> None:
    node = make_node("n1", taints=["maint:NoExecute"])
    pods = [
        make_pod("runs", "n1", tolerations=[tolerates("maint", 3000)]),
        make_pod("stays", "n1", tolerations=[tolerates("maint")]),
        make_pod("fresh", "n2", tolerations=[tolerates("maint", 3000)]),
        make_pod("going", "n1", tolerations=[tolerates("maint", 3000)], deleted=-1),
    ]
    warnings = warn([node, "n2"], pods)
    assert objects(warnings, "running-timer-window") == ["default/runs"]
    assert objects(warnings, "leader-lease-unknown") == []
    known = replace(
        make_snapshot([node, "n2"], pods),
        control_plane=ControlPlaneFlags(leader_acquire_time_ns=epoch_ns(-9999)),
    )
    assert objects(warn([], snapshot=known), "leader-lease-unknown") is None


def test_more_finished_pods_than_garbage_collection_leaves() -> None:
    pods = [make_pod(f"p{i}", "n1", phase="Succeeded", created=-100 + i) for i in range(3)]
    configuration = configured(flags={"terminated-pod-gc-threshold": "2"})
    warnings = warn(["n1"], pods, configuration=configuration)
    assert objects(warnings, "terminated-pod-gc") == ["default/p0"]
    assert objects(warn(["n1"], pods), "terminated-pod-gc") is None


def test_a_pod_eviction_timeout_that_decides_nothing_is_said() -> None:
    """Up to 1.26 it decides only without taint manager; people set it and wait for it in vain."""
    timeout = {"pod-eviction-timeout": "30s"}
    by_timeout = timeout | {"enable-taint-manager": "false"}

    assert "flag-ignored" in [w.code for w in configured("1.26", timeout).warnings]
    assert configured("1.26", by_timeout).warnings == ()
    assert configured("1.26").warnings == ()


def test_nodes_that_a_release_takes_for_masters_by_name_are_named() -> None:
    """Up to 1.20; from then on labels decide."""
    nodes = ["prod-master", "prod-master-abc", "masterful", "n1", "n2"]
    silence = [make_event(1, "kubelet-stop", "n1")]

    warnings = warn(nodes, events=silence, configuration=configured("1.20"), affected=["n1"])
    assert objects(warnings, "master-by-name") == ["prod-master", "prod-master-abc"]
    warnings = warn(nodes, events=silence, configuration=configured("1.21"), affected=["n1"])
    assert objects(warnings, "master-by-name") is None


def test_how_old_the_process_is_counts_where_a_kubelet_is_silent_and_not_given_up_yet() -> None:
    for renewed, expected in ((-30, []), (-5, None)):
        snapshot = make_snapshot(["n1", "n2"], renewed=renewed)
        assert objects(warn([], snapshot=snapshot), "leader-lease-unknown") == expected


def managed(number: int, **flags: str) -> ClusterSnapshot:
    """A cluster with so many static pods of kube-controller-manager, all with these flags."""
    seen = tuple(ObjectReference("Pod", f"manager-{n}", "kube-system") for n in range(number))
    found = {name.replace("_", "-"): value for name, value in flags.items()}
    known = ControlPlaneFlags(controller_manager=found, seen_in={"kube-controller-manager": seen})
    return replace(make_snapshot(["n1", "n2"], [make_pod("p", "n1")]), control_plane=known)


def test_several_managers_that_elect_nobody_all_act() -> None:
    for number, elects, told in ((2, "false", True), (2, "true", False), (1, "false", False)):
        snapshot = managed(number, leader_elect=elects)
        found = objects(warn([], [], [TAINT], snapshot=snapshot), "several-act-at-once")
        managers = ["Pod kube-system/manager-0", "Pod kube-system/manager-1"]
        assert found == (managers if told else None)


@pytest.mark.parametrize("on", [True, False])
def test_what_the_api_server_elects_is_not_predicted(on: bool) -> None:
    gates = f"CoordinatedLeaderElection={on}"
    of_server = ControlPlaneFlags(api_server={"feature-gates": gates})
    for snapshot in (
        managed(1, feature_gates=gates),
        replace(managed(1), control_plane=of_server),
    ):
        events = outage_events(Outage.CONTROLLER_MANAGER, 60 * 10**9, snapshot, 40 * 10**9, "x")
        found = objects(warn([], [], events, snapshot=snapshot), "coordinated-election")
        assert found == ([] if on else None)
        # Who writes when a process begins knows it.
        stated = [make_event(1, "controller-stop"), make_event(9, "controller-start")]
        assert objects(warn([], [], stated, snapshot=snapshot), "coordinated-election") is None
