"""A zone whose token was just used before the start: what the snapshot shows of it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from building.builders import (
    UNREACHABLE,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
)
from drawn import begun_worlds
from msgspec.structs import replace
from realities.contradictions import contradictions
from realities.drawn_realities import World

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
# Until the first tick, 5 s after the start at the latest, one that is back may have been in line, and cost the next token.
ONE_IS_BACK = (1.0, pytest.approx(15.1, abs=0.2))
# One that is gone stays there until a token comes.
ONE_IS_GONE = (1.0, pytest.approx(20.1, abs=0.2))


def test_a_zone_whose_nodes_were_ready_for_long_has_its_token() -> None:
    assert window(deleted()) == WITH_TOKEN
    assert window(deleted(since=-20)) == WITH_TOKEN


def test_a_zone_with_a_node_that_just_came_back_may_have_used_its_token_on_it() -> None:
    assert window(deleted(since=-3)) == ONE_IS_BACK


def test_pods_of_a_node_that_is_gone_say_that_any_zone_may_have_used_its_token() -> None:
    assert window(deleted(others=(make_pod("orphan", "gone"),))) == ONE_IS_GONE


def test_a_bucket_without_a_rate_may_have_given_its_only_token_long_ago() -> None:
    assert deleted(rate="0.1").certainty == CERTAIN
    assert deleted(rate="0").certainty != CERTAIN


def test_a_lease_without_its_node_says_that_any_zone_may_have_used_its_token() -> None:
    assert window(deleted(leases=(make_lease("n0"), make_lease("n1")))) == WITH_TOKEN
    assert window(deleted(leases=(make_lease("gone", -60),))) == ONE_IS_GONE


def test_leases_of_nodes_that_are_left_out_of_a_prediction_are_no_such_hint() -> None:
    others = [make_node(f"other-{number}") for number in range(3)]
    assert window(deleted(beside=others)) == WITH_TOKEN
    assert window(deleted(beside=others, leases=(make_lease("gone", -60),))) == ONE_IS_GONE


def mid_outage(
    flags: dict[str, str], *, release: str = "1.33.4", waiting: str = "n2", down: int = 3
) -> list[Eviction]:
    """Pods of a node that waits in line at the start, beside others that are down and tainted since 5 s."""
    taint = make_taint(f"{UNREACHABLE}:NoExecute", added=-5)
    nodes = [
        make_node(
            f"n{number}",
            ready="Unknown" if number < down else "True",
            transition=-20,
            taints=[taint] if number < down and f"n{number}" != waiting else [],
        )
        for number in range(5)
    ]
    leases = [make_lease(f"n{number}", -70) for number in range(down)]
    snapshot = make_snapshot(nodes, [make_pod("p", waiting)], leases=leases)
    configuration = resolve_configuration(
        ControllerSettings(release, flags=flags), snapshot.control_plane
    )
    return list(predict(snapshot, make_scenario([], horizon=300), configuration).evictions)


def test_a_token_comes_at_the_rate_that_the_zone_has_at_the_start() -> None:
    # Three of five are not ready: partially disrupted, one token in 50 s. The last one was spent at any time before.
    flags = {"secondary-node-eviction-rate": "0.02", "large-cluster-size-threshold": "2"}
    (eviction,) = mid_outage(flags)
    (only,) = eviction.windows
    assert (only.earliest_seconds, only.latest_seconds) == (0.0, pytest.approx(50.2, abs=0.2))


def test_a_tick_may_change_the_rate_just_before_the_first_token_is_there() -> None:
    # n0 waits. A tick between 7.95 and 10.05 finds n1 silent, and the zone partially disrupted: from then on there is one token in
    # 2 s. The first one that the zone has at 0.1 a second is there after 9.99999985 s.
    taint = make_taint(f"{UNREACHABLE}:NoExecute", added=-50)
    down = [make_node(f"n{n}", ready="Unknown", transition=-60, taints=[taint]) for n in (3, 5)]
    nodes = [make_node("n0", ready="Unknown", transition=-12), *down]
    nodes += [make_node(name) for name in ("n1", "n2", "n4")]
    since = {"n0": -22, "n3": -70, "n5": -70, "n1": -2.0538, "n2": -0.3, "n4": -0.3}
    leases = [make_lease(name, at, duration_seconds=4) for name, at in since.items()]
    snapshot = make_snapshot(nodes, [make_pod("p", "n0"), make_pod("q", "n1")], leases=leases)
    flags = {"node-monitor-period": "2s", "node-monitor-grace-period": "9s"}
    flags |= {"secondary-node-eviction-rate": "0.5", "large-cluster-size-threshold": "3"}
    settings = ControllerSettings("1.25.16", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario([], horizon=60), configuration)
    latest = {each.pod: each.latest_seconds for each in prediction.evictions}
    assert latest == dict.fromkeys("pq", pytest.approx(14.21, abs=0.01))


def test_a_limiter_of_rate_1_may_stay_stopped_since_before_the_start() -> None:
    assert [each.certainty for each in mid_outage({}, down=1, waiting="n0")] == [CERTAIN]
    stopped = mid_outage({"node-eviction-rate": "1"}, down=1, waiting="n0")
    assert [each.certainty for each in stopped] == ["possible"]


def test_a_limiter_may_stay_stopped_where_it_is_to_get_the_secondary_rate_of_1() -> None:
    flags = {"large-cluster-size-threshold": "3", "secondary-node-eviction-rate": "1"}
    assert [each.certainty for each in mid_outage(flags)] == ["possible"]
    # Two of five do not disrupt the zone.
    assert [each.certainty for each in mid_outage(flags, down=2, waiting="n0")] == [CERTAIN]


@pytest.mark.parametrize(("rate", "latest"), [("1", 12.4), ("2", 10.3)])
def test_a_limiter_that_was_stopped_goes_on_without_a_token_when_its_zone_changes(
    rate: str, latest: float
) -> None:
    nodes = [make_node(f"n{number}") for number in range(5)]
    snapshot = make_snapshot(nodes, [make_pod("p", "n0")])
    flags = {"node-eviction-rate": rate, "secondary-node-eviction-rate": "0.5"}
    settings = ControllerSettings("1.33.4", flags=flags | {"large-cluster-size-threshold": "3"})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    down = [make_event(1, "node-ready", ["n0", "n1", "n2"], status="False")]
    prediction = predict(snapshot, make_scenario(down, horizon=60), configuration)
    assert prediction.inputs.coverage is not None
    assert not prediction.inputs.coverage.outer_bound
    (eviction,) = prediction.evictions
    assert eviction.certainty == CERTAIN
    assert window(eviction) == (1.0, pytest.approx(latest, abs=0.1))


def test_who_is_queued_once_per_outage_may_have_lost_its_taint_before_the_start() -> None:
    once = mid_outage({}, release="1.18.6", down=1, waiting="n0")
    assert [each.certainty for each in once] == ["possible"]


def running(**pod: float) -> tuple[float, float]:
    """When a pod goes whose node is unreachable since 10 s, and perhaps was not ready before."""
    taint = make_taint(f"{UNREACHABLE}:NoExecute", added=-10)
    nodes = [make_node("n0", ready="Unknown", transition=-15, taints=[taint]), make_node("n1")]
    found = make_pod("p", "n0", tolerations=default_tolerations(60), **pod)
    snapshot = make_snapshot(nodes, [found], leases=[make_lease("n0", -60)])
    leader = replace(snapshot.control_plane, leader_acquire_time_ns=epoch_ns(-1000))
    snapshot = replace(snapshot, control_plane=leader)
    configuration = resolve_configuration(ControllerSettings("1.33.4"), snapshot.control_plane)
    (eviction,) = predict(snapshot, make_scenario([], horizon=300), configuration).evictions
    assert eviction.certainty == CERTAIN
    assert eviction.offset_seconds == 50
    return window(eviction)


def test_a_countdown_may_have_begun_for_a_taint_that_is_gone() -> None:
    # Whoever was not ready first, and is unreachable now, has its countdowns from then on.
    assert running() == (0.0, 52.0)


def test_a_countdown_is_no_older_than_its_pod() -> None:
    assert running(created=-14) == (46.0, 52.0)


@pytest.mark.parametrize("release", ["1.29.6", "1.34.4"])
@pytest.mark.parametrize("then", ["kubelet-start", "node-delete"])
def test_no_past_in_which_somebody_leaves_the_line_just_before_the_start_leads_outside(
    release: str, then: str
) -> None:
    """Three nodes wait for taints; one of them is back, or gone, and no tick has seen that before somebody looks."""
    names = [f"n{number}" for number in range(8)]
    pods = [make_pod(f"p{number}", name, tolerations=()) for number, name in enumerate(names[:3])]
    snapshot = make_snapshot(names, pods, leases=[make_lease(name, -0.3) for name in names])
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    left = configuration.node_monitor_grace_period_ns / 1e9 + (23 if release == "1.29.6" else 19)
    events = [
        make_event(10, "kubelet-stop", names[:3], last_heartbeat=10),
        make_event(left, then, "n0"),
    ]
    world = World(snapshot, make_scenario(events, horizon=200), configuration)
    for number in (21, 27, 28):
        rng = random.Random(number)
        past = begun_worlds._past(world, ns(left + 0.3), rng)
        assert past is not None
        met = begun_worlds._as_seen(past, rng)
        assert met is not None
        told = met.world
        prediction = predict(told.snapshot, told.scenario, told.configuration)
        for chance in range(6):
            reality = met.reality(random.Random(f"{number} {chance}"))
            assert not list(contradictions(told.scenario.end_ns, prediction, reality))
