"""A second look at the leases: what it tells of each kubelet, and how much narrower windows get."""

from __future__ import annotations

import random
from typing import Any

import pytest
from building.builders import (
    START_NS,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import Eviction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.second_look import SecondLook, with_second_look

NODES = ("n1", "n2", "n3")


def first_look(renewed: float | dict[str, float]) -> ClusterSnapshot:
    """A cluster at +0s whose kubelets renewed at that offset."""
    by_node = renewed if isinstance(renewed, dict) else dict.fromkeys(NODES, renewed)
    leases = [make_lease(name, at) for name, at in by_node.items()]
    pod = make_pod("web", "n1", tolerations=default_tolerations(30))
    return make_snapshot(NODES, [pod], leases=leases)


def second(at: float, renewed: float | dict[str, float], *names: str) -> SecondLook:
    by_node = renewed if isinstance(renewed, dict) else dict.fromkeys(names or NODES, renewed)
    leases = {name: make_lease(name, offset) for name, offset in by_node.items()}
    return SecondLook(leases, epoch_ns(at))


def warnings_of(snapshot: ClusterSnapshot) -> dict[str, tuple[str, ...]]:
    return {warning.code: warning.objects for warning in snapshot.warnings}


def test_the_second_look_is_the_time_of_the_cluster() -> None:
    snapshot = with_second_look(first_look(-4), second(20, 16.3))
    assert snapshot.taken_at_ns == epoch_ns(20)
    assert snapshot.taken_at_source == "second look at the leases"
    assert {lease.renew_time_ns for lease in snapshot.leases.values()} == {epoch_ns(16.3)}
    assert snapshot.nodes == first_look(-4).nodes


def test_it_says_by_how_much_renewals_are_known_better() -> None:
    observed = with_second_look(first_look(-4), second(20, 16.3)).observed
    assert observed is not None
    # From -4s on: renewals at 6 to 6.4 and 16 to 16.8, and none after that for sure.
    assert (observed.kubelets, observed.exact_before, observed.exact_now) == (3, 0, 3)
    assert (observed.widest_before_ns, observed.widest_now_ns) == (ns(0.8), 0)
    assert observed.apart_ns == ns(20)


def test_a_renewal_that_is_due_is_not_known_exactly() -> None:
    observed = with_second_look(first_look(-4), second(20, 9.9)).observed
    assert observed is not None and observed.exact_now == 0
    assert observed.widest_now_ns == ns(10.1)


def test_an_older_renewal_of_the_second_look_changes_nothing() -> None:
    snapshot = with_second_look(first_look(-4), second(20, {"n1": -14, "n2": 16.2, "n3": 16.2}))
    assert snapshot.leases["n1"].renew_time_ns == epoch_ns(-4)


def test_who_renews_nothing_is_named() -> None:
    snapshot = with_second_look(first_look(-4), second(20, {"n1": -4, "n2": 16.2, "n3": 16.2}))
    assert warnings_of(snapshot) == {"kubelet-not-renewing": ("n1",)}
    assert snapshot.observed is not None
    assert (snapshot.observed.kubelets, snapshot.observed.missing) == (2, ("n1",))


def test_who_had_no_need_to_renew_yet_is_not() -> None:
    snapshot = with_second_look(first_look(-1), second(6, -1))
    assert warnings_of(snapshot) == {}


@pytest.mark.parametrize(
    ("apart", "odd"),
    [(0, False), (3, True), (9.9, True), (10, False), (10.4, False), (11.3, False), (11.5, True),
     (19.9, True), (20, False), (20.8, False), (23, True)],
)  # fmt: skip
def test_kubelets_renew_every_quarter_of_the_duration(apart: float, odd: bool) -> None:
    snapshot = with_second_look(first_look(-1), second(apart + 8, apart - 1))
    assert ("odd-renewals" in warnings_of(snapshot)) == odd


@pytest.mark.parametrize("at", [0, -30])
def test_a_look_that_is_not_later_is_refused(at: float) -> None:
    with pytest.raises(InputError, match=r"second look at the leases was (0s|30s) before"):
        with_second_look(first_look(-4), second(at, -1))


def test_another_clusters_leases_are_refused() -> None:
    with pytest.raises(InputError, match="only 1 of 3 leases are in the second look"):
        with_second_look(first_look(-4), second(20, 16.3, "n1", "x", "y"))
    with pytest.raises(InputError, match="only 0 of 0 leases"):
        with_second_look(make_snapshot(), second(20, 16.3))


# -- what it does to a prediction -----------------------------------------------------------------------


def evicted(snapshot: ClusterSnapshot) -> Eviction:
    """The one pod, when its kubelet falls silent 20 seconds after the first look."""
    at = (START_NS + ns(20) - snapshot.taken_at_ns) / 1e9
    settings = ControllerSettings("1.29.6", ns(3))
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([make_event(at, "kubelet-stop", "n1")], horizon=300)
    moved: Any = type(scenario)(**{**fields_of(scenario), "start_ns": snapshot.taken_at_ns})
    (eviction,) = predict(snapshot, moved, configuration).evictions
    return eviction


def fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def width(eviction: Eviction) -> float:
    return eviction.latest_seconds - eviction.earliest_seconds


def test_windows_of_a_kubelet_that_stops_at_the_look_get_narrower() -> None:
    before = first_look(-4)
    after = with_second_look(before, second(20, 16.3))
    assert width(evicted(after)) < width(evicted(before))


@given(seed=st.integers(0, 2**32), late=st.floats(10.5, 60))
def test_the_true_last_renewal_lies_in_both_windows(seed: int, late: float) -> None:
    """A kubelet of its own, renewal by renewal: the second look never contradicts the first."""
    rng = random.Random(seed)
    renewals = [-rng.random() * 10]
    while renewals[-1] <= late:
        renewals.append(renewals[-1] + rng.choice([10, 10.4, 10 + rng.random() * 0.4]))
    last = renewals[-2]
    snapshot = with_second_look(first_look(renewals[0]), second(late, last))
    observed = snapshot.observed
    assert observed is not None and not warnings_of(snapshot)
    assert observed.exact_now >= observed.exact_before
    assert observed.widest_now_ns <= ns(10.4)
