"""When kubelets of realities renewed last."""

from __future__ import annotations

import random

from building.builders import make_event, make_node, make_scenario, make_snapshot, ns
from realities.renewals import with_last_heartbeats


def test_a_node_that_is_created_without_a_status_renews_from_its_first_post_on() -> None:
    made = make_event(7, "node-create", node=make_node("a", ready=None))
    posts = make_event(10, "node-ready", "a", status="True")
    scenario = make_scenario([made, posts, make_event(12, "kubelet-stop", "a")])
    for seed in range(20):
        told = with_last_heartbeats(make_snapshot([]), scenario, random.Random(seed))
        assert told.events[-1].last_heartbeat_ns == ns(10)  # type: ignore[attr-defined]
