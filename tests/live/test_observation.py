"""What is seen of a live cluster while something happens to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from live.api_server import SECOND_NS, START_NS, Fault, reset, status
from live.watched_server import WatchedServer, deleting, gone, time_of

from kubectl_evictplan.errors import AccessError
from kubectl_evictplan.kube.sightings import SeenNode
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.observation import Observation, observing
from kubectl_evictplan.plans.sightings import PodHistories, PodHistory, Sightings

ENVIRONMENT = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}


def pod(name: str, node: str = "n1", uid: str = "") -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    meta["creationTimestamp"] = time_of(-900)
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"nodeName": node}}


def node(name: str = "n1") -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": time_of(-900)}
    return {
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": name},
        "status": {"conditions": [ready]},
    }  # fmt: skip


@pytest.fixture
def server() -> WatchedServer:
    found = WatchedServer()
    found.add(pod("web"), pod("api"), pod("far", node="n2"), node(), node("n2"))
    return found


def observed(
    server: WatchedServer,
    rounds: int,
    *,
    nodes: tuple[str, ...] = ("n1",),
    between: Callable[[Observation], None] = lambda _: None,
    **flags: Any,
) -> Sightings:
    with server.serve():
        connection = ConnectionFlags(server=server.url)._replace(**flags)
        world = server.clock.world(server.read_seconds_max)
        with observing(
            connection, ENVIRONMENT, nodes=nodes, pods=("default/web",), world=world
        ) as observation:
            for _ in range(2 * rounds):
                observation.more()
                between(observation)
            return observation.sightings()


def history(sightings: Sightings, name: str = "web") -> PodHistory:
    (found,) = PodHistories(sightings).named(f"default/{name}")
    return found


def seconds(ns: int) -> float:
    return (ns - START_NS) / SECOND_NS


def test_a_deletion_is_told_by_its_own_timestamp(server: WatchedServer) -> None:
    server.happens = [deleting("web", 3.4, reason="EvictionByEvictionAPI"), gone("web", 5.0)]
    found = history(observed(server, 4))
    assert found.deletion is not None
    assert seconds(found.deletion.sure.earliest_ns) == 3.0
    assert found.disruption == "EvictionByEvictionAPI"
    assert found.gone is not None
    assert seconds(found.gone.latest_ns) < 8


def test_a_pod_whose_end_alone_is_told_was_deleted_in_that_piece_of_the_watch(
    server: WatchedServer,
) -> None:
    server.happens = [gone("web", 5.0)]
    found = history(observed(server, 6))
    assert found.deletion is not None
    earliest, latest = map(seconds, found.deletion.sure)
    assert earliest <= 5.0 <= latest
    assert latest - earliest < 6


def test_pods_of_other_nodes_are_not_kept(server: WatchedServer) -> None:
    server.happens = [gone("far", 1.0)]
    for nodes in (("n1",), ("n1", "n3")):
        seen = PodHistories(observed(server, 2, nodes=nodes)).by_uid
        assert {one.pod.name for one in seen.values()} == {"web", "api"}


def test_after_410_the_pods_are_listed_anew_and_what_vanished_is_not_missed(
    server: WatchedServer,
) -> None:
    went: list[float] = []

    def vanishes(_: Observation) -> None:
        if server.elapsed() > 4 and not went:
            went.append(server.elapsed())
            server.remove("web")
            server.forgets = server.resource_version

    sightings = observed(server, 6, between=vanishes)
    found = history(sightings)
    assert found.deletion is not None
    earliest, latest = map(seconds, found.deletion.sure)
    assert earliest <= went[0] <= latest
    assert found.deletion.told_by == "disappearance"


def test_a_watch_that_tells_bookmarks_alone_hides_nothing(server: WatchedServer) -> None:
    server.is_silent = True
    server.happens = [gone("web", 14.0)]
    found = history(observed(server, 15))
    assert found.deletion is not None
    earliest, latest = map(seconds, found.deletion.sure)
    assert earliest <= 14.0 <= latest
    assert latest - earliest < 15


def test_a_list_beside_the_watch_costs_no_instant_that_the_watch_tells(
    server: WatchedServer,
) -> None:
    server.happens = [gone("web", 14.0)]
    found = history(observed(server, 15))
    assert found.deletion is not None
    earliest, latest = map(seconds, found.deletion.sure)
    assert latest - earliest < 6


def test_a_watch_that_is_cut_is_asked_for_again_from_where_it_was(server: WatchedServer) -> None:
    server.happens = [deleting("web", 3.4)]
    server.faults = [Fault("pods", reset, after=2, times=2)]
    found = history(observed(server, 5))
    assert found.deletion is not None
    assert found.deletion.told_by == "deletion-timestamp"


def test_pods_that_cannot_be_read_are_counted_and_never_count_as_gone(
    server: WatchedServer,
) -> None:
    spoiled = pod("odd")
    spoiled["metadata"]["deletionGracePeriodSeconds"] = -1
    server.add(spoiled)
    sightings = observed(server, 4)
    assert sightings.unreadable == {"Pod": 1}
    assert all(
        look.unreadable_pods == {"uid-odd"} for look in sightings.looks if look.pods is not None
    )


def test_a_change_that_cannot_be_read_leads_to_a_new_list_and_what_was_known_of_the_pod_ends(
    server: WatchedServer,
) -> None:
    def spoils(found: WatchedServer) -> None:
        found.pod("web")["metadata"]["deletionGracePeriodSeconds"] = -1
        found.change("MODIFIED", found.pod("web"))

    server.happens = [(3.4, spoils)]
    sightings = observed(server, 5)
    assert sightings.unreadable == {"Pod": 1}
    last = max(
        (one for one in sightings.looks if one.pods is not None), key=lambda one: one.at.latest_ns
    )
    assert {one.name for one in last.pods or ()} == {"api"}
    assert last.unreadable_pods == {"uid-web"}
    found = history(sightings)
    assert (found.deletion, found.gone) == (None, None)
    assert found.there_ns is not None
    assert seconds(found.there_ns) < 4


def test_a_server_that_does_not_answer_leaves_a_gap_and_nothing_else(
    server: WatchedServer,
) -> None:
    server.faults = [Fault("pods", reset, after=3, times=5)]
    sightings = observed(server, 4)
    (gap,) = sightings.gaps
    assert "connection broke off" in gap.why
    assert history(sightings).deletion is None


def test_who_may_list_and_not_watch_looks_again_and_again(server: WatchedServer) -> None:
    server.may_watch = False
    server.happens = [deleting("web", 3.4)]
    sightings = observed(server, 4)
    assert "watch of pods" in sightings.not_evaluated
    assert history(sightings).deletion is not None


def test_events_that_may_not_be_read_are_not_evaluated(server: WatchedServer) -> None:
    server.allowed = {("", "pods"), ("", "nodes")}
    sightings = observed(server, 1)
    assert "events is forbidden" in sightings.not_evaluated["Event"]
    assert history(sightings).there_ns is not None


def test_pods_that_may_not_be_listed_end_it(server: WatchedServer) -> None:
    server.allowed = {("", "nodes")}
    with pytest.raises(AccessError, match="list pods"):
        observed(server, 1)


def test_only_events_about_these_pods_and_nodes_are_kept_and_no_message(
    server: WatchedServer,
) -> None:
    def event(name: str, reason: str, message: str) -> dict[str, Any]:
        about = {"kind": "Pod", "namespace": "default", "name": name}
        return {
            "kind": "Event", "apiVersion": "v1", "involvedObject": about, "reason": reason,
            "message": message, "firstTimestamp": time_of(1), "lastTimestamp": time_of(1),
            "metadata": {"name": f"{name}.{reason}", "namespace": "default"},
        }  # fmt: skip

    server.add(
        event("web", "TaintManagerEviction", "Marking for deletion Pod default/web"),
        event("web", "Pulled", "secret"),
        event("other", "TaintManagerEviction", "Marking for deletion Pod default/other"),
    )
    (found,) = observed(server, 1).events
    assert (found.name, found.told) == ("web", "marking")


def test_a_node_that_is_gone_is_seen_to_be_gone(server: WatchedServer) -> None:
    def vanish(watched: Any) -> None:
        watched.objects["nodes"] = [node("n2")]

    server.happens = [(15.0, vanish)]
    looks = [look for look in observed(server, 14).looks if look.nodes is not None]
    assert [bool(look.nodes) for look in looks] == [True, True, False]


def test_a_forbidden_node_list_is_told(server: WatchedServer) -> None:
    server.faults = [Fault("nodes", status(403, "Forbidden", "nodes is forbidden"), times=None)]
    assert "Node" in observed(server, 1).not_evaluated


def test_nothing_is_asked_for_but_lists_a_watch_of_pods_and_events(server: WatchedServer) -> None:
    observed(server, 3)
    asked = {(seen.plural, seen.query.get("watch", "")) for seen in server.seen}
    assert asked == {("pods", ""), ("nodes", ""), ("events", ""), ("pods", "true")}
    assert {seen.method for seen in server.seen} == {"GET"}


def test_a_server_that_does_not_tell_its_time_is_said_not_to(server: WatchedServer) -> None:
    assert "clock of the server" not in observed(server, 1).not_evaluated
    server.tells_time = False
    assert "clock of the server" in observed(server, 1).not_evaluated


def test_a_watch_whose_pieces_end_at_once_is_asked_for_more_and_more_seldom(
    server: WatchedServer,
) -> None:
    server.cuts_short = True
    server.happens = [gone("web", 9.0)]
    instants: list[float] = []

    sightings = observed(server, 6, between=lambda _: instants.append(server.elapsed()))

    pauses = [round(after - before) for before, after in itertools.pairwise(instants)]
    assert pauses[:4] == [2, 4, 5, 5]
    assert set(pauses[4:]) == {5}
    found = history(sightings)
    assert found.deletion is not None
    earliest, latest = map(seconds, found.deletion.sure)
    assert earliest <= 9.0 <= latest


def test_the_last_word_is_of_nodes_too(server: WatchedServer) -> None:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    with server.serve():
        world = server.clock.world(server.read_seconds_max)
        flags = ConnectionFlags(server=server.url)
        with observing(flags, ENVIRONMENT, nodes=("n1",), pods=(), world=world) as observation:
            observation.more()
            server.objects["nodes"][0]["spec"] = {"taints": [taint]}
            observation.more()
            assert not last_seen(observation.sightings()).taints
            observation.confirm()
            last = last_seen(observation.sightings())

    assert [one.key for one in last.taints] == ["maintenance"]


def last_seen(sightings: Sightings) -> SeenNode:
    (node,) = [look.nodes for look in sightings.looks if look.nodes is not None][-1]
    return node
