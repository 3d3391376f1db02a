"""Replacements of pods that a taint really evicts run, or stay Pending, as the impact of the prediction said."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from objects import add_taint, create_deployment
from plane import STARTS_WITHIN_SECONDS, ControlPlane, Start, Unavailable
from test_sources import evictplan

pytestmark = pytest.mark.live

TAINT = ("what-if", "taint", "node", "a1", "maintenance=yes:NoExecute", "-o", "json")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def selected(app: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}}


def create_workloads(plane: ControlPlane) -> None:
    """Pods of every one run on a1; each of their rules leaves something else to their replacements."""
    apart = {**selected("apart"), "topologyKey": "kubernetes.io/hostname"}
    create_deployment(plane.api, "free", 3)
    create_deployment(plane.api, "apart", 3, affinity={"podAntiAffinity": {REQUIRED: [apart]}})
    create_deployment(plane.api, "pinned", 1, nodeSelector={"kubernetes.io/hostname": "a1"})
    # One of them fills more than half of a node.
    half = {"requests": {"cpu": "17"}}
    container = {"name": "c", "image": "example.invalid/none", "resources": half}
    create_deployment(plane.api, "large", 3, containers=[container])
    # Zone a is left without pods, and counts as long as its node is there: zone b may not be ahead by two.
    zones = {
        **selected("zoned"),
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    create_deployment(plane.api, "zoned", 2, topologySpreadConstraints=[zones])


def settled(plane: ControlPlane) -> dict[str, tuple[int, set[str]]]:
    """Wait for the scheduler; return by app how many pods wait, and what it says of them."""
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline:
        pods = plane.api.call("GET", "/api/v1/pods")["items"]
        waiting = {pod["metadata"]["labels"]["app"]: (0, set[str]()) for pod in pods}
        busy = any("deletionTimestamp" in pod["metadata"] for pod in pods)
        busy |= any(pod["spec"].get("nodeName") == "a1" for pod in pods)
        for pod in pods:
            app = pod["metadata"]["labels"]["app"]
            conditions = pod["status"].get("conditions") or ()
            reasons = [one for one in conditions if one.get("reason") == "Unschedulable"]
            if not pod["spec"].get("nodeName"):
                busy |= not reasons
                waiting[app] = (waiting[app][0] + 1, {one["message"] for one in reasons})
        if not busy and len(pods) == 12:
            return waiting
        time.sleep(0.2)
    raise Unavailable("the scheduler and the controllers did not come to an end")


def test_replacements_run_or_wait_as_was_said(start: Start) -> None:
    with start({"a1": "a", "b1": "b", "b2": "b"}) as (plane, _):
        create_workloads(plane)
        plane.settle()
        impact = json.loads(evictplan(plane, *TAINT))["impact"]
        told = {one["workload"].partition("/")[2]: one for one in impact["replacements"]}
        add_taint(plane.api, "a1", {"key": "maintenance", "value": "yes", "effect": "NoExecute"})
        waiting = settled(plane)
    assert {name: one["verdict"] for name, one in told.items()} == {
        "free": "fits",
        "apart": "nowhere",
        "pinned": "onlyOnLeaving",
        "large": "nowhere",
        "zoned": "nowhere",
    }
    assert {name: one["pods"] - one["placed"] for name, one in told.items()} == {
        name: count for name, (count, _) in waiting.items()
    }
    for name, words in {
        "apart": "2 node(s) didn't match pod anti-affinity rules",
        "pinned": "2 node(s) didn't match Pod's node affinity/selector",
        "large": "2 Insufficient cpu",
        "zoned": "2 node(s) didn't match pod topology spread constraints",
    }.items():
        (message,) = waiting[name][1]
        assert words in message
        assert 2 in {one["nodes"] for one in told[name]["because"]}
