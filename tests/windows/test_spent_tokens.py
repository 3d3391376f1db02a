"""A zone whose token was just used before the start: what the snapshot shows of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from builders import make_event, make_lease, make_node, make_pod, make_scenario, make_snapshot
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import Lease, Node, Pod
from kubectl_evictplan.prediction.document import CERTAIN, Eviction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings


def deleted(
    *,
    since: float = -1000,
    others: tuple[Pod, ...] = (),
    rate: str = "0.1",
    leases: Iterable[Lease] = (),
    beside: Iterable[Node] = (),
) -> Eviction:
    """The pod of n0, which posts NotReady at 1 s, next to n1 that is Ready ``since`` then."""
    snapshot = make_snapshot(
        [make_node("n0"), make_node("n1", transition=since), *beside],
        [make_pod("p", "n0"), *others],
        leases=leases,
    )
    scenario = make_scenario([make_event(1, "node-ready", ["n0"], status="False")], horizon=60)
    settings = ControllerSettings("1.33.4", flags={"node-eviction-rate": rate})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    evictions = predict(snapshot, scenario, configuration).evictions
    return next(each for each in evictions if each.pod == "p")


def window(eviction: Eviction) -> tuple[float, float]:
    return eviction.windows[0].earliest_seconds, eviction.windows[-1].latest_seconds


WITH_TOKEN = (1.0, pytest.approx(6.0, abs=0.2))
PERHAPS_WITHOUT = (1.0, pytest.approx(10.1, abs=0.2))


def test_a_zone_whose_nodes_were_ready_for_long_has_its_token() -> None:
    assert window(deleted()) == WITH_TOKEN
    assert window(deleted(since=-20)) == WITH_TOKEN


def test_a_zone_with_a_node_that_just_came_back_may_have_used_its_token_on_it() -> None:
    assert window(deleted(since=-3)) == PERHAPS_WITHOUT


def test_pods_of_a_node_that_is_gone_say_that_any_zone_may_have_used_its_token() -> None:
    assert window(deleted(others=(make_pod("orphan", "gone"),))) == PERHAPS_WITHOUT


def test_a_bucket_without_a_rate_may_have_given_its_only_token_long_ago() -> None:
    assert deleted(rate="0.1").certainty == CERTAIN
    assert deleted(rate="0").certainty != CERTAIN


def test_a_lease_without_its_node_says_that_any_zone_may_have_used_its_token() -> None:
    assert window(deleted(leases=(make_lease("n0"), make_lease("n1")))) == WITH_TOKEN
    assert window(deleted(leases=(make_lease("gone", -60),))) == PERHAPS_WITHOUT


def test_leases_of_nodes_that_are_left_out_of_a_prediction_are_no_such_hint() -> None:
    others = [make_node(f"other-{number}") for number in range(3)]
    assert window(deleted(beside=others)) == WITH_TOKEN
    assert window(deleted(beside=others, leases=(make_lease("gone", -60),))) == PERHAPS_WITHOUT
