"""Worked cases of taint eviction and garbage collection: restarts, names used again, ends, nodes.

Every case runs for each of the three behaviours a release can have, unless its name says otherwise.
"""

from __future__ import annotations

import pytest
from building.worked_cases import (
    NOT_READY,
    OUT_OF_SERVICE,
    P0,
    P1,
    P2,
    SECOND_NS,
    START_NS,
    UNREACHABLE,
    Run,
    add,
    admitted,
    controller,
    create,
    delete,
    node,
    on_node,
    play,
    pod,
    remove,
    seconds,
    taint,
    tol,
)

from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import Lease, OwnerReference, Pod
from kubectl_evictplan.scenarios.field_types import Manifest

EVERY_RELEASE = pytest.mark.parametrize("release", [P0, P1, P2])

DAEMON_SET_TOLERATIONS = (
    tol(NOT_READY),
    tol(UNREACHABLE),
    tol("node.kubernetes.io/disk-pressure", effect="NoSchedule"),
    tol("node.kubernetes.io/memory-pressure", effect="NoSchedule"),
    tol("node.kubernetes.io/pid-pressure", effect="NoSchedule"),
    tol("node.kubernetes.io/unschedulable", effect="NoSchedule"),
)


@EVERY_RELEASE
@pytest.mark.parametrize(
    ("back_at", "deleted_at"),
    [(210, 510), (215, 515)],
    ids=["the same process", "a standby"],
)
def test_a_restarted_controller_counts_from_zero(
    release: str, back_at: int, deleted_at: int
) -> None:
    run = play(
        release,
        pod(tol("A", 300)),
        add(0, "A"),
        controller(200, "stop"),
        controller(back_at, "start"),
    )

    assert run.story() == f"M@{deleted_at} DEL@{deleted_at} gone@{deleted_at + 30}"


@EVERY_RELEASE
def test_a_pod_that_a_user_deletes_cancels_its_timer_when_it_is_gone(release: str) -> None:
    run = play(release, pod(tol("A", 300)), add(0, "A"), delete(100))

    assert run.story() == "gone@130 C@130"


def named_again(release: str, *tolerations_of_the_second: object, timing: Timing) -> Run:
    """Without grace, A(30): deleted at 30; the same name is bound to the tainted node at 40."""
    second = pod(*tolerations_of_the_second, grace=0, uid="uid-2")  # type: ignore[arg-type]
    return play(release, pod(tol("A", 30), grace=0), add(0, "A"), create(40, second), timing=timing)


@EVERY_RELEASE
def test_a_stale_key_shields_the_next_pod_of_that_name_up_to_1_32(release: str) -> None:
    run = named_again(release, tol("A", 30), timing=Timing(stale_nil="grace0"))

    second = " DEL@70 gone@70" if release == P2 else ""
    assert run.deletes() == "DEL@30 gone@30" + second


@EVERY_RELEASE
def test_without_the_race_the_next_pod_is_evicted(release: str) -> None:
    run = named_again(release, tol("A", 30), timing=Timing(stale_nil="never"))

    assert run.deletes() == "DEL@30 gone@30 DEL@70 gone@70"


@EVERY_RELEASE
def test_a_stale_key_does_not_shield_a_pod_that_tolerates_nothing(release: str) -> None:
    run = named_again(release, timing=Timing(stale_nil="grace0"))

    assert run.deletes() == "DEL@30 gone@30 DEL@40 gone@40"


@EVERY_RELEASE
def test_removing_the_taint_clears_the_stale_key(release: str) -> None:
    run = play(
        release,
        pod(tol("A", 30), grace=0),
        add(0, "A"),
        create(40, pod(tol("A", 30), grace=0, uid="uid-2")),
        remove(100, "A"),
        add(110, "A"),
        timing=Timing(stale_nil="grace0"),
    )

    second = 70 if release == P2 else 140
    assert run.deletes() == f"DEL@30 gone@30 DEL@{second} gone@{second}"


@EVERY_RELEASE
def test_a_pod_with_grace_leaves_no_stale_key(release: str) -> None:
    run = play(
        release,
        pod(tol("A", 30)),
        add(0, "A"),
        create(65, pod(tol("A", 30), uid="uid-2")),
    )

    assert run.deletes() == "DEL@30 gone@60 DEL@95 gone@125"


def moved(release: str, *, late: bool) -> Run:
    """p waits on tainted n1, is deleted, and its name reappears on clean n2."""
    late_pod_items = frozenset({"default/p"}) if late else frozenset()
    return play(
        release,
        pod(tol("A", 300), grace=0),
        add(0, "A"),
        delete(100),
        create(100, pod(tol("A", 300), grace=0, uid="uid-2", node_name="n2")),
        nodes=[node("n1"), node("n2")],
        timing=Timing(late_pod_items=late_pod_items),
    )


@EVERY_RELEASE
def test_a_late_delete_item_lets_the_old_timer_hit_the_new_pod(release: str) -> None:
    assert moved(release, late=True).deletes() == "gone@100 DEL@300 gone@300"


@EVERY_RELEASE
def test_a_prompt_delete_item_cancels_the_old_timer(release: str) -> None:
    assert moved(release, late=False).story() == "gone@100 C@100"


@EVERY_RELEASE
def test_another_tolerated_taint_while_terminating(release: str) -> None:
    run = play(release, pod(tol("A", 60), tol("B", 60), grace=300), add(0, "A"), add(70, "B"))

    again = " M@130 DEL@130" if release == P2 else ""
    assert run.story() == f"M@60 DEL@60{again} gone@360"


@EVERY_RELEASE
def test_another_untolerated_taint_while_terminating_deletes_again(release: str) -> None:
    run = play(release, pod(grace=300), add(0, "A"), add(70, "B"))

    assert run.story() == "M@0 DEL@0 M@70 DEL@70 gone@300"


@EVERY_RELEASE
def test_a_pod_that_a_user_deleted_keeps_its_own_end(release: str) -> None:
    run = play(release, pod(grace=600), delete(0), add(10, "A"))

    assert run.story() == "M@10 DEL@10 gone@600"


@EVERY_RELEASE
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_deleted_and_goes_at_once(release: str, phase: str) -> None:
    run = play(release, pod(phase=phase), add(5, "A"))

    assert run.deletes() == "DEL@5 gone@5"


@EVERY_RELEASE
def test_a_finalizer_keeps_the_object(release: str) -> None:
    run = play(release, pod(finalizers=("example.org/keep",)), add(0, "A"))

    assert run.story() == "M@0 DEL@0"


def daemon_pod() -> Pod:
    owner = OwnerReference(
        kind="DaemonSet", name="agent", uid="uid-agent", api_version="apps/v1", controller=True
    )
    return pod(*DAEMON_SET_TOLERATIONS, owner_references=(owner,))


@EVERY_RELEASE
@pytest.mark.parametrize("key", [NOT_READY, UNREACHABLE])
def test_a_daemon_set_pod_stays_on_a_failed_node(release: str, key: str) -> None:
    assert play(release, daemon_pod(), add(0, key)).story() == ""


@EVERY_RELEASE
def test_a_daemon_set_pod_leaves_for_a_custom_taint(release: str) -> None:
    assert play(release, daemon_pod(), add(0, "X")).story() == "M@0 DEL@0 gone@30"


@EVERY_RELEASE
@pytest.mark.parametrize("key", [NOT_READY, "X"])
def test_a_static_pod_stays(release: str, key: str) -> None:
    static = pod(tol(""), config_source="file", mirror=True)

    assert play(release, static, add(0, key)).story() == ""


@EVERY_RELEASE
def test_a_finite_toleration_in_the_manifest_deletes_the_mirror(release: str) -> None:
    static = pod(tol(NOT_READY, 30), tol(""), config_source="file", mirror=True)

    assert play(release, static, add(0, NOT_READY)).story().startswith("M@30 DEL@30")


@EVERY_RELEASE
def test_a_timer_survives_the_deletion_of_its_node(release: str) -> None:
    run = play(
        release,
        pod(tol("A", 300)),
        add(0, "A"),
        on_node(50, "node-delete"),
        flags={"controllers": "*,-podgc"},
    )

    assert run.story().startswith("M@300 DEL@300")


@EVERY_RELEASE
def test_with_garbage_collection_a_timer_still_fires_before_the_quarantine_ends(
    release: str,
) -> None:
    # Looked for every 20 s, first missed at 60, due at 100.
    run = play(release, pod(tol("A", 80)), add(0, "A"), on_node(50, "node-delete"))

    assert run.story().startswith("M@80 DEL@80")


@EVERY_RELEASE
def test_a_node_created_again_without_the_taint_cancels(release: str) -> None:
    run = play(
        release,
        pod(tol("A", 300)),
        add(0, "A"),
        on_node(50, "node-delete"),
        on_node(60, "node-create", manifest=Manifest(node())),
    )

    assert run.story() == "C@60"


@EVERY_RELEASE
def test_pods_of_a_deleted_node_are_collected_after_the_quarantine(release: str) -> None:
    run = play(release, pod(), on_node(7, "node-delete"), timing=Timing(pod_gc_phase_ns=0))

    # First seen missing at 20, due 40 s later.
    assert run.deletes() == "GC@60 gone@60"


@EVERY_RELEASE
def test_a_quarantine_that_ends_just_after_a_loop_waits_for_the_next_one(release: str) -> None:
    timing = Timing(pod_gc_lag_ns=1)
    run = play(release, pod(), on_node(7, "node-delete"), timing=timing)

    # First seen missing at 20; the loop at 60 finds its name still in quarantine.
    assert run.deletes() == "GC@80 gone@80"


@EVERY_RELEASE
def test_loops_that_cost_more_than_the_lag_find_the_quarantine_ended(release: str) -> None:
    timing = Timing(pod_gc_lag_ns=seconds(0.02), pod_gc_cost_ns=seconds(0.01))
    run = play(release, pod(), on_node(7, "node-delete"), timing=timing)

    assert run.deletes() == "GC@60.03 gone@60.03"


@pytest.mark.parametrize(("sightings", "story"), [(0, "GC@43"), (1, "GC@23"), (2, "GC@3")])
def test_a_node_that_never_existed_was_missed_by_loops_before_the_start(
    sightings: int, story: str
) -> None:
    timing = Timing(pod_gc_phase_ns=seconds(3), pod_gc_sightings=sightings)
    run = play(P1, pod(node_name="n0"), timing=timing)

    assert run.deletes() == f"{story} {story.replace('GC', 'gone')}"


@EVERY_RELEASE
def test_a_pod_bound_to_a_missing_node_joins_the_quarantine_of_a_stuck_one(release: str) -> None:
    stuck = pod(
        name="q",
        finalizers=("example.org/f",),
        deletion_timestamp_ns=START_NS - 100 * SECOND_NS,
        deletion_grace_period_seconds=0,
    )
    events = (on_node(7, "node-delete"), create(50, pod()))
    run = play(release, stuck, *events, timing=Timing(pod_gc_phase_ns=0))

    # The name is in quarantine from 20 on, for the sake of the pod that nobody can end.
    assert run.deletes() == "GC@60 gone@60"


def test_pods_of_a_deleted_node_are_collected_at_the_first_look_up_to_1_16() -> None:
    run = play("1.16.15", pod(), on_node(7, "node-delete"), timing=Timing(pod_gc_phase_ns=0))

    assert run.deletes() == "GC@20 gone@20"


def out_of_service(release: str, effect: str, the_pod: Pod) -> Run:
    """n1 went silent long ago and is unreachable since 0; at 100 it is declared out of service."""
    return play(
        release,
        the_pod,
        on_node(0, "kubelet-stop", last_heartbeat_ns=-60 * SECOND_NS),
        add(100, OUT_OF_SERVICE, value="nodeshutdown", effect=effect),
        nodes=[node("n1", taint(UNREACHABLE, added=0), ready="Unknown")],
        leases={"n1": Lease(name="n1", renew_time_ns=START_NS - 60 * SECOND_NS)},
        timing=Timing(pod_gc_phase_ns=0),
        horizon=290,
    )


@pytest.mark.parametrize("release", [P1, P2])
def test_out_of_service_evicts_and_garbage_collection_finishes(release: str) -> None:
    run = out_of_service(release, "NoExecute", pod(*admitted()))

    # Whether the loop at 100 runs before or after the taint is a race.
    assert run.story() in {
        "C@100 M@100 DEL@100 GC@120 gone@120",
        "C@100 M@100 DEL@100 GC@100 gone@100",
    }


def test_before_out_of_service_existed_the_pod_stays_terminating() -> None:
    run = out_of_service(P0, "NoExecute", pod(*admitted()))

    assert run.story() == "C@100 M@100 DEL@100"


@pytest.mark.parametrize("release", [P1, P2])
def test_out_of_service_without_no_execute_collects_only_the_terminating(release: str) -> None:
    terminating = pod(
        *admitted(),
        deletion_timestamp_ns=START_NS - 5 * SECOND_NS,
        deletion_grace_period_seconds=30,
    )

    assert out_of_service(release, "NoSchedule", pod(*admitted())).story() == ""
    assert out_of_service(release, "NoSchedule", terminating).deletes() in {
        "GC@120 gone@120",
        "GC@100 gone@100",
    }


@EVERY_RELEASE
def test_a_denied_delete_is_lost_until_the_next_taint(release: str) -> None:
    run = play(release, pod(), add(0, "A"), add(70, "B"), denied_deletes=frozenset({"default/p"}))

    assert run.story() == "M@0 M@70"


@EVERY_RELEASE
def test_a_denied_delete_is_not_tried_again_for_another_effect(release: str) -> None:
    run = play(
        release,
        pod(),
        add(0, "A"),
        add(70, "B", effect="NoSchedule"),
        denied_deletes=frozenset({"default/p"}),
    )

    assert run.story() == "M@0"


@EVERY_RELEASE
@pytest.mark.parametrize(
    ("toleration_seconds", "story"),
    [(9_223_372_037, ""), (18_446_744_074, "DEL@0.290448384 gone@0.290448384")],
    ids=["to a negative: for ever", "to a small positive"],
)
def test_seconds_overflow_as_in_go(release: str, toleration_seconds: int, story: str) -> None:
    run = play(release, pod(tol("A", toleration_seconds), grace=0), add(0, "A"))

    assert run.deletes() == story


@pytest.mark.parametrize(
    ("case", "operator", "value", "gate", "story"),
    [
        ("99 > 95", "Gt", "99", "true", ""),
        ("the gate is off", "Gt", "99", "false", "M@0 DEL@0 gone@30"),
        ("a leading zero is no number", "Lt", "099", "true", "M@0 DEL@0 gone@30"),
        ("95 is not above 95", "Gt", "95", "true", "M@0 DEL@0 gone@30"),
        ("94 < 95", "Lt", "94", "true", ""),
    ],
)
def test_comparison_operators(case: str, operator: str, value: str, gate: str, story: str) -> None:
    run = play(
        "1.35.0",
        pod(tol("sla", operator=operator, value="95")),
        add(0, "sla", value=value),
        flags={"feature-gates": f"TaintTolerationComparisonOperators={gate}"},
    )

    assert run.story() == story


@EVERY_RELEASE
def test_a_pod_that_admission_gave_nothing_leaves_a_failed_node_at_once(release: str) -> None:
    assert play(release, pod(), add(0, NOT_READY)).story() == "M@0 DEL@0 gone@30"


@EVERY_RELEASE
def test_a_toleration_of_another_value_stops_admission_but_tolerates_nothing(
    release: str,
) -> None:
    # Admission sees a toleration of not-ready and adds only the one of unreachable.
    the_pod = pod(tol(NOT_READY, operator="Equal", value="x"), tol(UNREACHABLE, 300))

    assert play(release, the_pod, add(0, NOT_READY)).story() == "M@0 DEL@0 gone@30"


@EVERY_RELEASE
def test_cordon_alone_never_evicts(release: str) -> None:
    assert play(release, pod(), on_node(0, "cordon")).story() == ""


@EVERY_RELEASE
def test_each_pod_of_the_node_has_its_own_time(release: str) -> None:
    run = play(
        release,
        [pod(name="p1"), pod(tol("A", 5), name="p2"), pod(tol("A"), name="p3")],
        add(0, "A"),
    )

    assert run.story("p1") == "M@0 DEL@0 gone@30"
    assert run.story("p2") == "M@5 DEL@5 gone@35"
    assert run.story("p3") == ""


@EVERY_RELEASE
def test_a_taint_removed_at_the_very_instant_comes_too_late(release: str) -> None:
    run = play(release, pod(tol("A", 30)), add(0, "A"), remove(30, "A"))

    assert run.deletes() == "DEL@30 gone@60"
