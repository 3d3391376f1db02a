"""What limiters of zones may have been through before a world begins: see ``spent_tokens``."""

from __future__ import annotations

import random

import pytest
from building.builders import (
    epoch_ns,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace
from realities.drawn_realities import World, draw_reality
from realities.spent_tokens import may_be_stopped, zones_that_served

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings

NODES = [
    make_node("down", zone="a", ready="Unknown"),
    make_node("back", zone="b", transition=-4),
    *(make_node(name, zone=zone) for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "c"))),
]


def world(rate: str, leads_since: float | None = None) -> World:
    """One node of each zone falls silent, with a pod."""
    pods = [make_pod(f"p{name}", name) for name in ("n1", "n2", "n3")]
    leader_ns = None if leads_since is None else epoch_ns(leads_since)
    flags = ControlPlaneFlags(leader_acquire_time_ns=leader_ns)
    snapshot = replace(make_snapshot(NODES, pods), control_plane=flags)
    settings = ControllerSettings("1.29.6", flags={"node-eviction-rate": rate})
    scenario = make_scenario([make_event(0.001, "kubelet-stop", ["n1", "n2", "n3"])], horizon=300)
    return World(snapshot, scenario, resolve_configuration(settings, flags))


@pytest.mark.parametrize(("rate", "zones"), [("0.1", ["a", "b"]), ("1", ["a"])])
def test_zones_lack_a_token_only_where_a_node_was_down_since_the_last_one(
    rate: str, zones: list[str]
) -> None:
    which = world(rate)
    found = zones_that_served(which.snapshot, which.scenario.start_ns, which.configuration)
    assert sorted(key[-1] for key in found) == zones


@pytest.mark.parametrize(
    ("rate", "leads_since", "may"),
    [("1", None, True), ("1", -9000, True), ("1", -500, False), ("0.1", None, False)],
)
def test_limiters_are_stopped_only_where_all_nodes_can_have_been_down_and_the_rate_is_one(
    rate: str, leads_since: float | None, may: bool
) -> None:
    which = world(rate, leads_since)
    assert may_be_stopped(which.snapshot, which.configuration) is may


def test_where_all_limiters_are_stopped_nobody_is_tainted() -> None:
    which = world("1")
    numbers = {
        sum(
            isinstance(entry, PodDeleted)
            for entry in draw_reality(
                which, random.Random(seed), lambda *_: Timing(initial_token=False)
            ).entries
        )
        for seed in range(8)
    }
    assert numbers == {0, 3}
