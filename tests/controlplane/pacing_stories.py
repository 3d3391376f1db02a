"""Between two nodes, with a real ReplicaSet controller and scheduler: replacements, pauses, conditions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kubelets import MERGE_PATCH, Kubelets
from objects import create_pod
from operator_stage import (
    Change,
    await_ready,
    await_record,
    begun,
    evictions,
    pods_on,
    records,
    said,
    set_budget,
    spec,
)
from plane import ControlPlane

from kubectl_evictplan.errors import EXIT_DRIFT, EXIT_PARTLY
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns

READY_AFTER_SECONDS = 4.0
SETTLE_SECONDS = 20.0
PAUSE_SECONDS = 4.0


def at_seconds(instant: str) -> float:
    found = parse_rfc3339_ns(instant)
    assert found is not None
    return found / 1e9


def sent(journal: Path, node: str) -> list[float]:
    """Return when evictions of that node's pods were sent."""
    found = records(journal)
    (begin,) = [one for one in found if one["record"] == "begin"]
    numbers = {one["number"] for one in begin["operations"] if one["node"] == node}
    return [
        at_seconds(one["at"])
        for one in found
        if one["record"] == "intent" and one["kind"] == "evict" and one["number"] in numbers
    ]


def ended(journal: Path, node: str) -> float:
    """Return when the last of that node's pods was found to be gone; 0 before."""
    found = records(journal)
    if not found:
        return 0.0
    numbers = {
        one["number"]
        for one in found[0]["operations"]
        if one["node"] == node and one["action"] == "evict"
    }
    gone = {one["number"]: one["at"] for one in found if one.get("verdict") == "absent"}
    return max(map(at_seconds, gone.values())) if numbers <= gone.keys() else 0.0


def spread(plane: ControlPlane) -> None:
    """Give both nodes that are drained next a pod: else there is nothing between them."""
    for node, others in (("a1", ("a2", "b1")), ("a2", ("a1", "b1"))):
        await_ready(plane, 4)
        if pods_on(plane, node):
            continue
        crowded = max(others, key=lambda one: len(pods_on(plane, one)))
        name = pods_on(plane, crowded)[0]["metadata"]["name"]
        for other in others:
            cordon(plane, other, True)
        plane.api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")
        deadline = time.monotonic() + 60
        while not pods_on(plane, node):
            assert time.monotonic() < deadline, f"no pod comes to {node}"
            time.sleep(0.05)
        for other in others:
            cordon(plane, other, None)
    await_ready(plane, 4)


def cordon(plane: ControlPlane, node: str, wanted: bool | None) -> None:
    spec_of = {"spec": {"unschedulable": wanted}}
    plane.api.call("PATCH", f"/api/v1/nodes/{node}", spec_of, MERGE_PATCH)


def ready_since(pod: dict[str, Any]) -> float:
    (ready,) = [one for one in pod["status"]["conditions"] if one["type"] == "Ready"]
    assert ready["status"] == "True"
    return at_seconds(ready["lastTransitionTime"])


def the_next_node_waits_for_replacements_that_are_ready(
    plane: ControlPlane, folder: Path, kubelets: Kubelets
) -> None:
    """The budget would let the next node's pods go at once."""
    set_budget(plane, 0)
    spread(plane)
    change = Change(plane, folder, ["a1", "a2"], until_ready=True)
    kubelets.ready_after_seconds = READY_AFTER_SECONDS
    assert change.carry("run") == 0
    kubelets.ready_after_seconds = 0.5
    await_ready(plane, 4)
    first, last = min(sent(change.journal, "a1")), max(sent(change.journal, "a1"))
    following = min(sent(change.journal, "a2"))
    replacements = [
        pod
        for pod in pods_on(plane, "b1")
        if first - 1 <= at_seconds(pod["metadata"]["creationTimestamp"]) <= last + 1
    ]
    assert replacements
    # A condition tells whole seconds.
    assert all(ready_since(pod) <= following for pod in replacements)
    assert following - last >= READY_AFTER_SECONDS
    assert change.carry("rollback") == 0


def who_uncordons_a_node_in_the_pause_after_it_wants_no_more(
    plane: ControlPlane, folder: Path, kubelets: Kubelets
) -> None:
    set_budget(plane, 3)
    spread(plane)
    change = Change(plane, folder, ["a1", "a2"], settle_seconds=SETTLE_SECONDS)
    running = change.begin("run", faster=SETTLE_SECONDS / PAUSE_SECONDS)
    deadline = time.monotonic() + 60
    while not (gone := ended(change.journal, "a1")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # The canary is looked at first, at once.
    time.sleep(PAUSE_SECONDS / 4)
    cordon(plane, "a1", None)
    assert running.finished(90) == EXIT_DRIFT
    assert change.ending() == "reverted"
    assert at_seconds(records(change.journal)[-1]["at"]) - gone >= PAUSE_SECONDS
    assert sent(change.journal, "a2") == []
    assert pods_on(plane, "a2")
    assert spec(plane, "a1") == (["theirs", "maintenance"], False)
    assert change.carry("rollback") == 0
    assert spec(plane, "a2") == ([], False)
    await_ready(plane, 4)


def a_canary_that_is_not_empty_is_the_last_node(
    plane: ControlPlane, folder: Path, kubelets: Kubelets
) -> None:
    """A pod that somebody binds to it while it is drained: what is cordoned takes those as well."""
    spread(plane)
    change = Change(plane, folder, ["a1", "a2"])
    create_pod(plane.api, "late", "a1", [])
    assert change.carry("run") == EXIT_PARTLY
    assert change.ending() == "not-empty"
    assert sent(change.journal, "a2") == []
    plane.api.call("DELETE", "/api/v1/namespaces/default/pods/late")
    while pods_on(plane, "a1"):
        time.sleep(0.1)
    assert change.carry("resume") == 0, change.ending()
    assert pods_on(plane, "a2") == []
    await_ready(plane, 4)
    assert change.carry("rollback") == 0


def a_condition_that_becomes_true_in_the_middle_ends_it(
    plane: ControlPlane, folder: Path, kubelets: Kubelets
) -> None:
    """By the commands: a node that is not in the plan dies in the pause after the first one."""
    folder.mkdir()
    spread(plane)
    words = ("drain", "a1", "a2", "--ignore-daemonsets", "--settle", "30s")
    rule = ("--abort-if", "not-ready-nodes > 0")
    code, told = said(plane, folder, "what-if", *words, *rule, "--out", "plan.json")
    assert code == 0, told
    journal = folder / "plan.journal.jsonl"
    running = begun(plane, folder, "apply", "plan.json", "--yes")
    await_record(journal, b'"verdict":"absent"')
    kubelets.fall_silent(["b1"])
    began = time.monotonic()
    told = running.communicate(timeout=120)[0]
    kubelets.speak_again(["b1"])
    assert running.returncode == EXIT_PARTLY, told
    assert "not-ready-nodes > 0" in told
    # Within the pause, as soon as it was known; nothing of the second node was begun.
    assert time.monotonic() - began < 28
    assert sent(journal, "a1")
    assert sent(journal, "a2") == []
    assert [one["ending"]["code"] for one in records(journal) if one["record"] == "end"] == [
        "aborted"
    ]
    await_ready(plane, 4)
    code, told = said(plane, folder, "apply", "--resume", "plan.journal.jsonl", "--yes")
    # Later than predicted, and the code says so.
    assert (code, "everything is done" in told) == (EXIT_PARTLY, True), told
    assert "Reality left the predicted windows" in told
    assert pods_on(plane, "a1") == pods_on(plane, "a2") == []
    assert max(evictions(plane).values()) == 1
    await_ready(plane, 4)
    code, told = said(plane, folder, "apply", "--rollback", "plan.journal.jsonl", "--yes")
    assert code == 0, told


def after_so_many_evictions_no_other_is_begun(
    plane: ControlPlane, folder: Path, kubelets: Kubelets
) -> None:
    spread(plane)
    rules = ("evicted >= 1",)
    change = Change(plane, folder, ["a1", "a2"], abort_if=rules, parallel=1)
    before = set(evictions(plane))
    assert change.carry("run") == EXIT_PARTLY
    assert change.ending() == "aborted"
    assert len(set(evictions(plane)) - before) == 1
    # It holds still: going on begins nothing.
    assert change.carry("resume") == EXIT_PARTLY
    assert len(set(evictions(plane)) - before) == 1
    assert change.carry("rollback") == 0
    await_ready(plane, 4)


PACING = (
    the_next_node_waits_for_replacements_that_are_ready,
    who_uncordons_a_node_in_the_pause_after_it_wants_no_more,
    a_canary_that_is_not_empty_is_the_last_node,
    a_condition_that_becomes_true_in_the_middle_ends_it,
    after_so_many_evictions_no_other_is_begun,
)
