"""Worlds for upstream's own controllers, and how recordings of them are held against predictions."""

from __future__ import annotations

import pytest
from drawn.upstream_worlds import UpstreamWorld, draw_upstream_world
from judge import KINDS, _flags_told, scenario_of
from msgspec.structs import replace
from trace_runs import Expected, Fact, Slack, match
from upstream_program import constructors

from kubectl_evictplan.kube.durations import SECOND_NS

SEEDS = range(1, 40)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_tells_all_of_a_world_in_the_order_of_time(seed: int, kind: str) -> None:
    world = KINDS[kind](seed)

    assert world == KINDS[kind](seed)
    assert [one.at_ns for one in world.events] == sorted(one.at_ns for one in world.events)
    assert all(one.at_ns < world.end_ns for one in world.events)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_happens_to_a_node_that_is_not_there(seed: int, kind: str) -> None:
    nodes: set[str] = set()
    for one in KINDS[kind](seed).events:
        if one.action == "node-create":
            assert one.node not in nodes
            nodes.add(one.node)
        elif one.node and one.action != "kubelet-start":
            assert one.node in nodes
        if one.action == "node-delete":
            nodes.remove(one.node)


def test_the_scenario_is_what_comes_after_the_start_and_tells_of_kubelets_that_were_silent() -> (
    None
):
    world = draw_upstream_world(1)
    stops = [one for one in world.events if one.action == "kubelet-stop"]
    renewals = [
        {"atNs": one.at_ns, "node": one.node, "seconds": -1.5, "posted": False} for one in stops
    ]
    recording = {
        "start": "2026-11-20T22:00:00Z",
        "cluster": {"items": []},
        "lastRenewals": renewals,
    }
    spec = scenario_of(world, recording, "1.37.0")["spec"]
    offsets_ns = [
        int(event["at"].removesuffix("ns")) for event in spec["events"] if "ns" in event["at"]
    ]

    assert spec["controller"]["flags"]["node-monitor-period"].endswith("s")
    assert all(0 <= at_ns <= world.end_ns - world.start_ns for at_ns in offsets_ns)
    late = [one for one in stops if one.at_ns >= world.start_ns]
    told = [event for event in spec["events"] if event["action"] == "kubelet-stop"]
    assert len(told) >= len(late)
    assert world.start_ns > 10 * SECOND_NS


def test_a_last_renewal_is_told_only_of_who_posted_nothing_after_it() -> None:
    def is_told(one: UpstreamWorld) -> bool:
        stops = (each for each in one.events if each.action == "kubelet-stop")
        return one.tells_renewals and any(each.at_ns > one.start_ns for each in stops)

    world = next(filter(is_told, map(draw_upstream_world, SEEDS)))
    stops = [one for one in world.events if one.action == "kubelet-stop"]
    for posted in (False, True):
        renewals = [
            {"atNs": one.at_ns, "node": one.node, "seconds": -1.5, "posted": posted}
            for one in stops
        ]
        recording = {
            "start": "2026-11-20T22:00:00Z",
            "cluster": {"items": []},
            "lastRenewals": renewals,
        }
        events = scenario_of(world, recording, "1.37.0")["spec"]["events"]
        late = [one for one in events if one["action"] == "kubelet-stop" and one["at"] != "0s"]
        assert {"lastHeartbeat" in one for one in late} == {not posted}


def test_what_is_certain_explains_a_fact_before_what_is_only_possible() -> None:
    possible = Expected("a/p", 0, 5, certain=False)
    certain = Expected("a/p", 0, 9, certain=True)

    assert match([Fact("a/p", 3)], [possible, certain], Slack()) == [(Fact("a/p", 3), certain)]


def test_what_is_certain_leaves_a_fact_to_what_explains_no_other() -> None:
    possible = Expected("a/p", 0, 5, certain=False)
    certain = Expected("a/p", 0, 9, certain=True)
    facts = [Fact("a/p", 3), Fact("a/p", 7)]

    assert match(facts, [possible, certain], Slack()) == [(facts[0], possible), (facts[1], certain)]


@pytest.mark.parametrize(
    ("release", "since"),
    [("1.16.15", 16), ("1.19.3", 18), ("1.26.15", 23), ("1.28.4", 27), ("1.37.0", 29)],
)
def test_controllers_are_made_as_their_release_wants_it(release: str, since: int) -> None:
    assert constructors(release).name == f"since_1_{since}.go"


def test_only_releases_with_these_flags_are_told_of_them() -> None:
    flags = draw_upstream_world(1).flags

    assert "pod-eviction-timeout" in _flags_told(flags, "1.26.15")
    assert "pod-eviction-timeout" not in _flags_told(flags, "1.27.0")


def test_a_limit_of_requests_is_told_where_it_was_given() -> None:
    flags = draw_upstream_world(1).flags
    limited = _flags_told(replace(flags, kube_api_qps=5.0, kube_api_burst=10), "1.37.0")

    assert "kube-api-qps" not in _flags_told(flags, "1.37.0")
    assert (limited["kube-api-qps"], limited["kube-api-burst"]) == ("5", "10")
