"""Worked cases of taint eviction: timers, edits, matching, binding.

Every case runs for each of the three behaviours a release can have, unless its name says otherwise.
"""

from __future__ import annotations

import pytest
from building.worked_cases import (
    NOT_READY,
    P0,
    P1,
    P2,
    UNREACHABLE,
    Run,
    add,
    admitted,
    create,
    edit,
    node,
    on_node,
    play,
    pod,
    remove,
    swap,
    taint,
    tol,
)

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

pytestmark = pytest.mark.parametrize("release", [P0, P1, P2])


def test_an_untolerated_taint_deletes_at_once_and_the_pod_takes_its_grace(release: str) -> None:
    run = play(release, pod(), add(10, "A"))

    assert run.story() == "M@10 DEL@10 gone@40"


def test_the_admitted_toleration_waits_five_minutes(release: str) -> None:
    run = play(release, pod(*admitted()), add(0, NOT_READY))

    assert run.story() == "M@300 DEL@300 gone@330"


def test_a_toleration_without_seconds_is_for_ever(release: str) -> None:
    run = play(release, pod(tol("A")), add(0, "A"))

    assert run.story() == ""


@pytest.mark.parametrize("keys", [("A", "B"), ("B", "A")], ids=["A first", "B first"])
def test_two_taints_at_one_instant_take_the_smaller_seconds(
    release: str, keys: tuple[str, str]
) -> None:
    run = play(release, pod(tol("A", 60), tol("B", 120)), *(add(0, key) for key in keys))

    assert run.story() == "M@60 DEL@60 gone@90"


def test_two_taints_that_stand_when_the_pod_comes_take_the_smaller_seconds(
    release: str,
) -> None:
    run = play(
        release,
        [],
        create(0, pod(tol("A", 60), tol("B", 120))),
        nodes=[node("n1", taint("B", added=-5), taint("A", added=-5))],
    )

    assert run.story() == "M@60 DEL@60 gone@90"


def test_a_second_shorter_taint_does_not_shorten_the_wait(release: str) -> None:
    run = play(release, pod(tol("A", 300), tol("B", 10)), add(0, "A"), add(5, "B"))

    assert run.story() == "M@300 DEL@300 gone@330"


def test_a_second_untolerated_taint_ends_the_wait(release: str) -> None:
    run = play(release, pod(tol("A", 300)), add(0, "A"), add(5, "B"))

    assert run.story() == "C@5 M@5 DEL@5 gone@35"


def test_a_second_taint_tolerated_for_ever_changes_nothing(release: str) -> None:
    run = play(release, pod(tol("A", 300), tol("B")), add(0, "A"), add(5, "B"))

    assert run.story() == "M@300 DEL@300 gone@330"


def test_the_wait_ends_when_all_that_is_left_is_tolerated_for_ever(release: str) -> None:
    run = play(
        release,
        pod(tol("A", 300), tol("B")),
        add(0, "A"),
        remove(100, "A"),
        nodes=[node("n1", taint("B", added=-100))],
    )

    # Before pull request 93722 the timer went on although its taint was gone.
    assert run.story() == ("M@300 DEL@300 gone@330" if release == P0 else "C@100")


def test_a_taint_that_comes_back_starts_a_fresh_countdown(release: str) -> None:
    run = play(release, pod(tol("A", 300)), add(0, "A"), remove(100, "A"), add(150, "A"))

    assert run.story() == "C@100 M@450 DEL@450 gone@480"


def test_not_ready_becoming_unreachable_does_not_restart_the_countdown(release: str) -> None:
    run = play(release, pod(*admitted()), add(0, NOT_READY), *swap(100))

    assert run.story() == "M@300 DEL@300 gone@330"


def test_a_gap_between_the_two_taints_restarts_the_countdown(release: str) -> None:
    run = play(
        release,
        pod(*admitted()),
        add(0, NOT_READY),
        remove(100, NOT_READY),
        add(101, UNREACHABLE),
    )

    assert run.story() == "C@100 M@401 DEL@401 gone@431"


def test_one_command_that_swaps_the_taints_leaves_no_gap(release: str) -> None:
    run = play(
        release,
        pod(*admitted()),
        add(0, NOT_READY),
        remove(100, NOT_READY),
        add(100, UNREACHABLE),
    )

    # kubectl writes the whole list at once, whatever the order of its arguments.
    assert run.story() == "M@300 DEL@300 gone@330"


def test_a_swap_to_a_taint_tolerated_for_ever_cancels(release: str) -> None:
    run = play(release, pod(tol(NOT_READY, 300), tol(UNREACHABLE)), add(0, NOT_READY), *swap(100))

    assert run.story() == ("M@300 DEL@300 gone@330" if release == P0 else "C@100.02")


def test_the_countdown_starts_when_the_seconds_first_become_finite(release: str) -> None:
    run = play(release, pod(tol(NOT_READY), tol(UNREACHABLE, 60)), add(0, NOT_READY), *swap(100))

    assert run.story() == "M@160 DEL@160 gone@190"


def test_a_swap_to_an_untolerated_taint_deletes_at_once(release: str) -> None:
    run = play(release, pod(tol(NOT_READY, 300)), add(0, NOT_READY), *swap(100))

    # The second half of the swap is one more evaluation with an untolerated taint.
    assert run.story() == "C@100 M@100 DEL@100 M@100.02 DEL@100.02 gone@130"


@pytest.mark.parametrize(
    ("before", "at", "after"),
    [(300, 100, 60), (300, 100, 0), (60, 30, 3600)],
    ids=["shorter", "zero", "longer"],
)
def test_to_w17_edited_seconds_never_move_a_running_timer(
    release: str, before: int, at: int, after: int
) -> None:
    run = play(release, pod(tol("A", before)), add(0, "A"), edit(at, tol("A", after)))

    assert run.story() == f"M@{before} DEL@{before} gone@{before + 30}"


def test_dropping_the_seconds_cancels(release: str) -> None:
    run = play(release, pod(tol("A", 300)), add(0, "A"), edit(100, tol("A")))

    assert run.story() == ("M@300 DEL@300 gone@330" if release == P0 else "C@100")


def test_seconds_given_to_an_endless_toleration_count_from_the_edit(release: str) -> None:
    run = play(release, pod(tol("A")), add(0, "A"), edit(100, tol("A", 60)))

    assert run.story() == "M@160 DEL@160 gone@190"


def test_a_toleration_inserted_in_front_becomes_the_first_match(release: str) -> None:
    run = play(release, pod(tol("A", 300)), add(0, "A"), edit(100, tol("A"), tol("A", 300)))

    assert run.story() == ("M@300 DEL@300 gone@330" if release == P0 else "C@100")


@pytest.mark.parametrize("toleration_seconds", [0, -5])
def test_zero_and_negative_seconds_delete_at_once(release: str, toleration_seconds: int) -> None:
    run = play(release, pod(tol("A", toleration_seconds)), add(0, "A"))

    assert run.story() == "M@0 DEL@0 gone@30"


@pytest.mark.parametrize("keys", [("A", "B"), ("B", "A")], ids=["A first", "B first"])
def test_zero_seconds_for_one_taint_win_over_an_endless_other(
    release: str, keys: tuple[str, str]
) -> None:
    run = play(release, pod(tol("A"), tol("B", 0)), *(add(0, key) for key in keys))

    assert run.deletes() == "DEL@0 gone@30"


def test_equal_with_another_value_does_not_tolerate(release: str) -> None:
    run = play(release, pod(tol("A", 300, operator="Equal", value="x")), add(0, "A", value="y"))

    assert run.story() == "M@0 DEL@0 gone@30"


def test_a_changed_taint_value_ends_the_wait(release: str) -> None:
    run = play(
        release,
        pod(tol("A", 300, operator="Equal", value="x")),
        add(0, "A", value="x"),
        add(100, "A", value="y"),
    )

    assert run.story() == "C@100 M@100 DEL@100 gone@130"


def test_a_changed_time_added_changes_nothing(release: str) -> None:
    run = play(
        release,
        pod(tol("A", 300, operator="Equal", value="x")),
        add(0, "A", value="x", added=0),
        add(100, "A", value="x", added=100),
    )

    assert run.story() == "M@300 DEL@300 gone@330"


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_other_effects_never_evict(release: str, effect: str) -> None:
    run = play(release, pod(), add(0, "A", effect=effect))

    assert run.story() == ""


def test_a_toleration_without_effect_and_seconds_is_for_ever(release: str) -> None:
    run = play(release, pod(tol("A", effect="")), add(0, "A"))

    assert run.story() == ""


def test_the_first_toleration_that_matches_decides(release: str) -> None:
    run = play(
        release,
        [pod(tol("", 60), tol("A"), name="p1"), pod(tol("A"), tol("", 60), name="p2")],
        add(0, "A"),
    )

    assert run.story("p1") == "M@60 DEL@60 gone@90"
    assert run.story("p2") == ""


def test_a_pod_bound_to_a_tainted_node_counts_from_its_binding(release: str) -> None:
    run = play(
        release,
        [],
        create(50, pod(tol("A", 30))),
        nodes=[node("n1", taint("A", added=-1000))],
    )

    assert run.story() == "M@80 DEL@80 gone@110"


def test_an_intolerant_pod_bound_to_a_tainted_node_is_deleted_at_once(release: str) -> None:
    run = play(release, [], create(50, pod()), nodes=[node("n1", taint("A", added=-1000))])

    # From 1.24 on the kubelet may fail the pod first; then its object goes without grace.
    allowed = {"DEL@50 gone@80"} | (set() if release == P0 else {"DEL@50 gone@50"})
    assert run.deletes() in allowed


def test_the_time_a_taint_says_it_was_added_is_ignored(release: str) -> None:
    run = play(release, pod(tol("A", 300)), add(0, "A", added=-1000))

    assert run.story() == "M@300 DEL@300 gone@330"


def awake(release: str, the_pod: Pod, *events: ScenarioEvent) -> Run:
    """n1 of four healthy nodes, with node lifecycle: it decides when the taints come and go."""
    return play(
        release,
        the_pod,
        *events,
        nodes=[node(f"n{number}") for number in range(1, 5)],
        awake=True,
    )


def test_a_node_that_reports_not_ready_is_tainted_in_the_next_pass(release: str) -> None:
    run = awake(release, pod(*admitted()), on_node(0, "node-ready", status="False"))

    # The monitor ticks at 0 and queues the node; the pass at 0.1 taints it.
    # The kubelet says that its runtime does not work: nobody ends the pod.
    assert run.story() == "M@300.1 DEL@300.1"


def test_a_node_that_falls_silent_after_not_ready_keeps_the_countdown(release: str) -> None:
    run = awake(
        release,
        pod(*admitted()),
        on_node(0, "node-ready", status="False"),
        on_node(100, "kubelet-stop"),
    )

    # Nobody confirms the deletion on a silent node.
    assert run.story() == "M@300.1 DEL@300.1"


def test_a_node_that_recovers_and_fails_again_gets_a_fresh_countdown(release: str) -> None:
    run = awake(
        release,
        pod(*admitted()),
        on_node(0, "node-ready", status="False"),
        on_node(100, "node-ready", status="True"),
        on_node(150, "node-ready", status="False"),
    )

    assert run.story() == "C@100 M@450.1 DEL@450.1"
