"""Plans carried out on real control planes, by a user who has the operator's role and nothing else.

One cluster for each release; what happens to it happens in the order of ``test_plans_on_a_real_cluster``.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from operator_stage import (
    BUDGET_SAYS_NO,
    NODES,
    OPERATOR,
    Change,
    await_ready,
    bind_the_operators_role,
    evictions,
    fill,
    pods_on,
    said,
    set_budget,
    spec,
)
from pacing_stories import PACING
from plane import ControlPlane, Start
from restart_stories import RESTARTS

from kubectl_evictplan.apply.cluster import Access
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.mutations import cluster_api

pytestmark = pytest.mark.live


def the_operators_role_allows_no_more(plane: ControlPlane, folder: Path) -> None:
    flags = ConnectionFlags(kubeconfig=str(plane.kubeconfig(OPERATOR)))
    lease = ("leases", "coordination.k8s.io", "", "default")
    with cluster_api(flags, os.environ) as cluster:
        assert cluster.may(Access("update", *lease, "evictplan-apply"))
        for access in (
            Access("update", *lease, "another"),
            Access("delete", "pods", namespace="default"),
            Access("patch", "pods", namespace="default"),
            Access("create", "pods", namespace="default"),
            Access("delete", "nodes"),
            Access("get", "secrets", namespace="default"),
            Access("impersonate", "users"),
        ):
            assert cluster.may(access) is False, access


def a_node_is_tainted_cordoned_and_drained_within_its_budget(
    plane: ControlPlane, folder: Path
) -> None:
    change = Change(plane, folder, ["a1"])
    assert change.carry("run") == 0
    assert spec(plane, "a1") == (["theirs", "maintenance"], True)
    assert pods_on(plane, "a1") == []
    await_ready(plane, 4)
    assert change.carry("rollback") == 0
    assert spec(plane, "a1") == (["theirs"], False)


def killed_at_random_moments_it_goes_on(plane: ControlPlane, folder: Path) -> None:
    chance, died = random.Random(len(plane.release)), 0
    change = Change(plane, folder, ["a2", "b1"])
    for _ in range(6):
        what = "resume" if change.journal.exists() else "run"
        died += change.begin(what).kill_after(chance.uniform(0.05, 0.8))
    assert change.carry("resume" if change.journal.exists() else "run") == 0
    assert died
    assert [spec(plane, name) for name in ("a2", "b1")] == [(["maintenance"], True)] * 2
    assert pods_on(plane, "a2") == []
    await_ready(plane, 4)
    assert change.carry("rollback") == 0
    assert [spec(plane, name) for name in ("a2", "b1")] == [([], False)] * 2
    # Once each; of one whose client died meanwhile the server may not say that it was granted.
    granted = evictions(plane)
    assert max(granted.values()) == 1
    assert len(change.evicted() - granted.keys()) <= died


def a_drain_that_hangs_is_interrupted_and_taken_back(plane: ControlPlane, folder: Path) -> None:
    set_budget(plane, 4)
    change = Change(plane, folder, ["a1"])
    before = {pod["metadata"]["uid"] for pod in pods_on(plane, "a1")}
    carrier = change.begin("run")
    change.await_record(BUDGET_SAYS_NO)
    os.kill(carrier.process.pid or 0, signal.SIGINT)
    assert carrier.finished() == 130
    assert change.ending() == "interrupted"
    assert change.carry("rollback") == 0
    assert spec(plane, "a1") == (["theirs"], False)
    assert {pod["metadata"]["uid"] for pod in pods_on(plane, "a1")} == before


def a_drain_ends_when_its_time_is_over(plane: ControlPlane, folder: Path) -> None:
    change = Change(plane, folder, ["a1"], eviction_timeout_seconds=8.0)
    assert change.carry("run") == 3
    assert change.ending() == "timed-out"
    assert change.carry("rollback") == 0


def of_two_operators_one_has_to_wait(plane: ControlPlane, folder: Path) -> None:
    first = Change(plane, folder, ["a1"])
    second = Change(plane, folder.with_name("second"), ["a2"])
    running = first.begin("run")
    deadline = time.monotonic() + 30
    while spec(plane, "a1")[1] is False:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert second.begin("run", user="joe").finished() == 4
    assert second.ending() == "locked"
    assert spec(plane, "a2") == ([], False)
    os.kill(running.process.pid or 0, signal.SIGTERM)
    assert running.finished() == 130
    assert first.carry("rollback") == 0


def the_commands_themselves_do_it(plane: ControlPlane, folder: Path) -> None:
    folder.mkdir()
    set_budget(plane, 3)

    drain = ("drain", "a2", "--ignore-daemonsets")
    code, told = said(plane, folder, "what-if", *drain, "--out", "plan.json")
    assert code == 0, told
    code, told = said(plane, folder, "apply", "plan.json", "--yes")
    assert code == 0, told
    assert spec(plane, "a2") == ([], True)
    assert pods_on(plane, "a2") == []
    code, told = said(plane, folder, "apply", "--rollback", "plan.journal.jsonl", "--yes")
    assert code == 0, told
    assert spec(plane, "a2") == ([], False)
    await_ready(plane, 4)
    taint = ("taint", "node", "a1", "maintenance=yes:NoSchedule")
    code, told = said(plane, folder, "apply", *taint, "--yes")
    assert code == 0, told
    assert spec(plane, "a1") == (["theirs", "maintenance"], False)
    taint = ("taint", "node", "a1", "maintenance=yes:NoSchedule-")
    assert said(plane, folder, "apply", *taint, "--yes")[0] == 0
    assert spec(plane, "a1") == (["theirs"], False)


def a_node_made_anew_in_the_middle_is_not_touched(plane: ControlPlane, folder: Path) -> None:
    set_budget(plane, 4)
    change = Change(plane, folder, ["a1", "b1"])
    running = change.begin("run")
    change.await_record(BUDGET_SAYS_NO)
    plane.api.call("DELETE", "/api/v1/nodes/a1")
    newer = {"metadata": {"name": "a1"}, "spec": {"providerID": "test:///a/new"}}
    plane.api.call("POST", "/api/v1/nodes", newer)
    set_budget(plane, 3)
    assert running.finished(90) == 4, change.ending()
    assert change.ending() == "drift"
    assert spec(plane, "a1") == ([], False)
    # What is still its own is taken back; of the newcomer nothing is.
    assert change.carry("rollback") == 0
    assert spec(plane, "b1") == ([], False)
    assert spec(plane, "a1") == ([], False)


def a_node_made_anew_is_not_touched(plane: ControlPlane, folder: Path) -> None:
    change = Change(plane, folder, ["b1"])
    plane.api.call("DELETE", "/api/v1/nodes/b1")
    newer = {"metadata": {"name": "b1"}, "spec": {"providerID": "test:///b/new"}}
    plane.api.call("POST", "/api/v1/nodes", newer)
    assert change.carry("run") == 4
    assert change.ending() == "drift"
    assert spec(plane, "b1") == ([], False)


STORIES = (
    the_operators_role_allows_no_more,
    a_node_is_tainted_cordoned_and_drained_within_its_budget,
    killed_at_random_moments_it_goes_on,
    a_drain_that_hangs_is_interrupted_and_taken_back,
    a_drain_ends_when_its_time_is_over,
    of_two_operators_one_has_to_wait,
    the_commands_themselves_do_it,
)
# Afterwards two nodes have no kubelets any more.
LAST = (
    a_node_made_anew_in_the_middle_is_not_touched,
    a_node_made_anew_is_not_touched,
)


def test_plans_on_a_real_cluster(start: Start, tmp_path: Path) -> None:
    with start(NODES, ready_after_seconds=0.5) as (plane, kubelets):
        bind_the_operators_role(plane)
        fill(plane)
        for story in (*STORIES, *RESTARTS):
            with timed(story.__name__):
                story(plane, tmp_path / story.__name__)
        for pacing in PACING:
            with timed(pacing.__name__):
                pacing(plane, tmp_path / pacing.__name__, kubelets)
        for last in LAST:
            with timed(last.__name__):
                last(plane, tmp_path / last.__name__)


@contextmanager
def timed(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - began:.1f} s")
