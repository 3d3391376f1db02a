"""A pool of nodes that is drained: cost follows its nodes and pods, not how often these could be put side by side."""

from __future__ import annotations

import sys

import pytest
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster, drains, proven

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.impact.assess import with_impact
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.drains.accounts import Account
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.runs import explore_drains


def _calls(nodes: int, kind: str = "ReplicaSet", **budget: int) -> int:
    """How many functions a prediction, and what the change costs, call that drains so many nodes, with a pod of two apps on each; each app has four."""
    pool, others = ([f"{name}{at:04}" for at in range(nodes)] for name in "ab")
    apps = [
        App(f"{name}{at:04}", pool[at : at + 4], kind, parallel=True, **budget)
        for at in range(0, nodes, 4)
        for name in "xy"
    ]
    snapshot = drained_cluster(*apps, nodes=[*pool, *others])
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        asked = snapshot, drains(drain(*pool)), CONFIGURATION
        prediction = with_impact(*asked, predict(*asked))
        assert len(prediction.warnings) >= 0
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("budget", [{}, {"most": 1}, {"most": 0}])
@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_twice_as_many_drained_nodes_take_twice_the_work(kind: str, budget: dict[str, int]) -> None:
    assert _calls(48, kind, **budget) < 2.15 * _calls(24, kind, **budget)


def test_a_budget_that_no_pod_of_a_node_asks_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    moved = Account.wait
    monkeypatch.setattr(Account, "wait", lambda *told: (waits.append(1), moved(*told))[1])
    nodes = [f"n{at:02}" for at in range(40)]
    apps = [App(f"app{at:02}", [name, "other"], most=1) for at, name in enumerate(nodes)]
    proven(drained_cluster(*apps, nodes=[*nodes, "other"]), drain(*nodes))
    # Each is asked on one node.
    assert len(waits) <= len(nodes)


def test_of_many_pods_few_runs_are_played() -> None:
    nodes = [f"n{at:03}" for at in range(40)]
    played = {}
    for pods in (1, 40):
        apps = [App(f"app{at:03}", [name] * pods) for at, name in enumerate(nodes)]
        seen: list[tuple[str, int, int]] = []
        explored = explore_drains(
            drained_cluster(*apps, nodes=[*nodes, "other"]),
            drains(drain(*nodes)),
            CONFIGURATION,
            ReadyTimes(),
            lambda *told, seen=seen: seen.append(told),
        )
        assert explored is not None
        assert len(seen) == explored.answers.runs
        played[pods] = len(seen)
    assert played[40] < played[1] / 2


def _priced(nodes: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often it is found out what a budget costs, where two processes drain so many nodes each and ask the same budgets."""
    ours, theirs = ([f"{name}{at:03}" for at in range(nodes)] for name in "ab")
    apps = [
        App(f"app{at:03}", [ours[at], ours[at + 1], theirs[at], theirs[at + 1]], most=1)
        for at in range(0, nodes, 2)
    ]
    found = []
    asked = Progress._once_ns
    with monkeypatch.context() as patched:
        patched.setattr(Progress, "_once_ns", lambda *told: (found.append(1), asked(*told))[1])
        snapshot = drained_cluster(*apps, nodes=[*ours, *theirs, "other"])
        proven(snapshot, drain(*ours), drain(*theirs))
    return len(found)


def test_a_budget_is_priced_for_the_nodes_that_ask_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not for each node of its process once more, which would be five times as often.
    assert _priced(72, monkeypatch) < 3.5 * _priced(36, monkeypatch)
