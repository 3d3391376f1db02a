"""Plausible relations that do *not* hold: each by a counterexample (P5, P8, P10, P12-P14, P19).

Whoever "repairs" the predictor so that one of these laws holds has broken it.
"""

from __future__ import annotations

from building.builders import (
    START_NS,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from drawn.property_worlds import (
    NEVER_NS,
    SECONDS_MAX,
    TOLERATION_LISTS,
    Tolerations,
    configuration_of,
    deletes,
    evicted_at,
    without_taint_times,
)
from hypothesis import find, settings
from hypothesis import strategies as st

from kubectl_evictplan.kube.objects import ClusterSnapshot

SEARCH = settings(max_examples=2000, derandomize=True, database=None, deadline=None)
TAINT_A = make_event(2, "taint", "n0", taint="A:NoExecute")


def test_p5_removing_a_toleration_can_evict_later() -> None:
    """[10, 1000] without its first entry: the first match decides, and only the first."""
    tolerations = (tolerates("A", 10), tolerates("A", 100))
    assert evicted_at(tolerations, [TAINT_A]) == ns(12)
    assert evicted_at(tolerations[1:], [TAINT_A]) == ns(102)


def test_p5_a_search_finds_that_removing_a_toleration_evicts_later() -> None:
    def evicts_later(tolerations: Tolerations) -> bool:
        return evicted_at(tolerations[1:], [TAINT_A]) > evicted_at(tolerations, [TAINT_A])

    found = find(TOLERATION_LISTS.filter(bool), evicts_later, settings=SEARCH)
    assert len(found) >= 2


def test_p4_beyond_the_largest_duration_one_more_unlimited_toleration_evicts_earlier() -> None:
    """The restriction of P4 is needed: the overflow makes two long tolerations "forever"."""
    long, overflowing = tolerates("A", SECONDS_MAX + 1), tolerates("B", 18_446_744_074)
    events = [TAINT_A, make_event(2, "taint", "n0", taint="B:NoExecute")]
    assert evicted_at((long, overflowing), events) == NEVER_NS
    assert evicted_at((tolerates("A"), overflowing), events) < ns(3)


def test_p8_a_shorter_tolerated_taint_does_not_shorten_a_running_timer() -> None:
    tolerations = (tolerates("A", 10), tolerates("B", 1))
    second = make_event(3, "taint", "n0", taint="B:NoExecute")
    assert evicted_at(tolerations, [TAINT_A, second]) == ns(12)
    assert evicted_at(tolerations, [second]) == ns(4)


def test_p8_a_search_finds_a_pod_that_would_go_earlier_with_the_second_taint_alone() -> None:
    second = make_event(3, "taint", "n0", taint="B:NoExecute")

    def keeps_its_timer(tolerations: Tolerations) -> bool:
        alone = evicted_at(tolerations, [second])
        return ns(3) < alone < evicted_at(tolerations, [TAINT_A, second]) < NEVER_NS

    assert find(TOLERATION_LISTS, keeps_its_timer, settings=SEARCH)


def test_p10_removing_the_taint_that_set_the_timer_does_not_move_the_eviction() -> None:
    tolerations = (tolerates("A", 2), tolerates("B", 12))
    events = [
        TAINT_A,
        make_event(2, "taint", "n0", taint="B:NoExecute"),
        make_event(3, "untaint", "n0", taint="A"),
    ]
    assert evicted_at(tolerations, events) == ns(4)


def test_p10_but_it_cancels_the_timer_when_the_rest_is_tolerated_forever() -> None:
    tolerations = (tolerates("A", 2), tolerates("B"))
    events = [
        TAINT_A,
        make_event(2, "taint", "n0", taint="B:NoExecute"),
        make_event(3, "untaint", "n0", taint="A"),
    ]
    assert evicted_at(tolerations, events) == NEVER_NS


def test_p12_deleting_the_node_does_not_cancel_its_timers() -> None:
    events = [TAINT_A, make_event(3, "node-delete", "n0")]
    assert evicted_at((tolerates("A", 5),), events) == ns(7)


def tainted_before_the_start(added_ns: int | None) -> ClusterSnapshot:
    node = make_node("n0", taints=["A:NoExecute"])
    pod = make_pod("p", "n0", tolerations=(tolerates("A", 5),))
    return without_taint_times(make_snapshot([node, "n1"], [pod]), added_ns)


def test_p13_a_new_process_starts_a_full_timer_however_old_the_taint_is() -> None:
    scenario = make_scenario(horizon=60, cold=True)
    for added_ns in (None, START_NS, START_NS - ns(3600), START_NS + ns(3600)):
        assert deletes(tainted_before_the_start(added_ns), scenario) == {"default/p": ns(5)}


def test_p14_a_restart_of_the_controller_starts_every_timer_again() -> None:
    restart = [make_event(4.5, "controller-stop"), make_event(5.3, "controller-start")]
    assert evicted_at((tolerates("A", 8),), [TAINT_A]) == ns(10)
    assert evicted_at((tolerates("A", 8),), [TAINT_A, *restart]) == ns(13.3)


def test_p14_a_restart_does_not_bring_back_what_is_evicted_already() -> None:
    restart = [make_event(4.5, "controller-stop"), make_event(5.3, "controller-start")]
    assert evicted_at((tolerates("A", 1),), [TAINT_A, *restart]) == ns(3)


def outage_of(silent: int, healthy: int) -> int:
    """When the last pod of a zone goes of which ``silent`` nodes stop (zone b stays up)."""
    names = [f"a{index}" for index in range(silent + healthy)]
    nodes = [*(make_node(name, zone="a") for name in names), make_node("b", zone="b")]
    pods = [make_pod(f"p-{n}", n, tolerations=default_tolerations(0)) for n in names[:silent]]
    stop = make_event(2, "kubelet-stop", names[:silent], last_heartbeat=2)
    found = deletes(
        make_snapshot(nodes, pods), make_scenario([stop], horizon=900), configuration_of()
    )
    return max((found.get(pod.key, NEVER_NS) for pod in pods), default=0)


def test_p19_removing_a_healthy_node_of_the_same_zone_can_stop_evictions() -> None:
    """Six of eleven nodes are 54.5 % not ready, six of ten are 60 %: partial disruption."""
    assert outage_of(6, 5) < ns(120)
    assert outage_of(6, 4) == NEVER_NS


def test_p19_a_search_finds_zones_that_a_healthy_node_less_slows_down() -> None:
    sizes = st.tuples(st.integers(3, 8), st.integers(2, 8))
    silent, healthy = find(
        sizes, lambda pair: outage_of(pair[0], pair[1] - 1) > outage_of(*pair), settings=SEARCH
    )
    assert silent / (silent + healthy - 1) >= 0.55
