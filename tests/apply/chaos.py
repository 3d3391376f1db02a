"""Whole random stories from one seed: a cluster, a plan, other people, faults, crashes.

The same seed is the same story to the last request. ``story`` asserts what must hold in all of them
and returns what happened in it, so that a batch can show that everything that can happen did.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apply.crashes import KEEPS, go_on, killing
from apply.crashing_files import Killed
from apply.faults import Fault
from apply.runs import (
    Bench,
    add_taint,
    cordon,
    drain,
    plan_of,
    remove_taint,
    uncordon,
)
from apply.simulated_cluster import SimulatedCluster, SimulatedWorkload

from kubectl_evictplan.apply.run import RunResult
from kubectl_evictplan.plans.document import AddTaint, AnyOperation, Cordon, Evict, RemoveTaint
from kubectl_evictplan.prediction.document import TaintReference

CYCLES_MAX = 14
OURS = TaintReference("maintenance", "NoExecute", "true")
PLANNED = TaintReference("planned", "NoSchedule", "x")
OUR_KEYS = (OURS.key, PLANNED.key)


@dataclass
class Story:
    """One seed at work. ``foreign``: each node's other taints, as their owners want them."""

    seed: int
    dice: random.Random
    bench: Bench
    disturbed: bool
    foreign: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    # Nodes of which somebody undid or exchanged what the plan is about.
    fought: set[str] = field(default_factory=set)


def begin(seed: int, *, disturbed: bool) -> Story:
    """Draw a cluster and a plan."""
    dice = random.Random(seed)
    cluster = SimulatedCluster(seed)
    cluster.workloads["shop/ReplicaSet/web"] = SimulatedWorkload("ReplicaSet", 3, "spare")
    cluster.workloads["shop/StatefulSet/db"] = SimulatedWorkload(
        "StatefulSet", 1, "spare", same_name=True
    )
    cluster.budgets["web"] = dice.randint(1, 2)
    names = [f"n{number}" for number in range(1, dice.randint(2, 5))]
    for name in names:
        cluster.add_node(name, *_taints(dice), unschedulable=dice.random() < 0.2)
        for number in range(dice.randint(0, 3)):
            _pod(cluster, dice, name, number)
    cluster.add_node("spare")
    plan = plan_of(cluster, *_operations(dice, cluster, names), **_execution(dice))
    story = Story(seed, dice, Bench(cluster, plan), disturbed)
    story.foreign = {name: _others(node.taints) for name, node in cluster.nodes.items()}
    return story


def _taints(dice: random.Random) -> list[dict[str, Any]]:
    taints = [{"key": "zone", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoSchedule"}]
    found: list[dict[str, Any]] = dice.sample(taints, dice.randint(0, 2))
    planned = {"key": PLANNED.key, "value": PLANNED.value, "effect": PLANNED.effect}
    found.insert(dice.randint(0, len(found)), planned)
    return found


def _pod(cluster: SimulatedCluster, dice: random.Random, node: str, number: int) -> None:
    kind = dice.choice(["ReplicaSet/web", "StatefulSet/db", "", "DaemonSet/agent"])
    budgets = ("web",) if kind == "ReplicaSet/web" else ()
    seconds = dice.choice([0.5, 2.0, 30.0])
    name = f"shop/{kind.partition('/')[2] or 'bare'}-{node}-{number}"
    cluster.add_pod(name, node, kind, budgets=budgets, exit_seconds=seconds)


def _operations(dice: random.Random, cluster: SimulatedCluster, names: list[str]) -> list[Any]:
    chosen = dice.sample(names, dice.randint(1, len(names)))
    match dice.randrange(4):
        case 0:
            return [add_taint(name) for name in chosen]
        case 1:
            return [
                *(add_taint(name, 0.0) for name in chosen),
                *(remove_taint(name, 20.0) for name in chosen),
            ]
        case 2:
            return [
                *(remove_taint(name, 0.0, PLANNED) for name in chosen),
                *(uncordon(name, 1.0) for name in chosen),
                cordon(chosen[0], 2.0),
            ]
        case _:
            return drain(cluster, *chosen)


def _execution(dice: random.Random) -> dict[str, Any]:
    return {
        "parallel": dice.choice([0, 1, 2, 10]),
        "settle_seconds": dice.choice([0.0, 0.0, 20.0]),
        "canary": dice.random() < 0.7,
        "until_ready": dice.random() < 0.3,
        "eviction_timeout_seconds": dice.choice([0.0, 0.0, 25.0]),
    }


def _others(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [taint for taint in taints if taint["key"] not in OUR_KEYS]


# -- other people --------------------------------------------------------------------------------------


def disturb(story: Story) -> None:
    """Let nodes be written by their kubelets, and by people when the story is disturbed."""
    cluster, dice = story.bench.cluster, story.dice
    for name in list(cluster.nodes):
        for at in range(dice.randint(0, 10), 400, 10):
            cluster.after(at + 0.003, lambda name=name: _beat(cluster, name))  # type: ignore[misc]
    if not story.disturbed:
        return
    for _ in range(dice.randint(1, 12)):
        happening = dice.choices(_HAPPENINGS, [w for _, w in _WEIGHTS])[0]
        name = dice.choice([one for one in cluster.nodes if one != "spare"])
        cluster.after(dice.uniform(0.0, 90.0), _bound(happening, story, name))


def _bound(happening: Callable[[Story, str], None], story: Story, name: str) -> Callable[[], None]:
    def happen() -> None:
        if name in story.bench.cluster.nodes:
            happening(story, name)
            story.seen.add(f"other:{happening.__name__.strip('_')}")

    return happen


def _beat(cluster: SimulatedCluster, name: str) -> None:
    if name in cluster.nodes:
        cluster.heartbeat(name)


def _adds_taint(story: Story, name: str) -> None:
    taint = {"key": f"other-{story.dice.randrange(1000)}", "effect": "NoSchedule"}
    cluster = story.bench.cluster
    place = story.dice.randint(0, 1) * len(cluster.nodes[name].taints)
    taints = list(cluster.nodes[name].taints)
    taints.insert(place, taint)
    cluster.write_taints(name, taints, "kubectl-taint")
    story.foreign[name] = _others(taints)


def _removes_foreign_taint(story: Story, name: str) -> None:
    others = _others(story.bench.cluster.nodes[name].taints)
    if others:
        gone = story.dice.choice(others)
        taints = [one for one in story.bench.cluster.nodes[name].taints if one != gone]
        story.bench.cluster.write_taints(name, taints, "kubectl-taint")
        story.foreign[name] = _others(taints)


def _removes_our_taint(story: Story, name: str) -> None:
    taints = [t for t in story.bench.cluster.nodes[name].taints if t["key"] != OURS.key]
    story.bench.cluster.write_taints(name, taints, "kubectl-taint")
    story.fought.add(name)


def _puts_our_taint_on(story: Story, name: str) -> None:
    taints = [t for t in story.bench.cluster.nodes[name].taints if t["key"] != OURS.key]
    taints.append({"key": OURS.key, "value": "theirs", "effect": OURS.effect})
    story.bench.cluster.write_taints(name, taints, "kubectl-taint")
    story.fought.add(name)


def _turns_cordon(story: Story, name: str) -> None:
    now = story.bench.cluster.nodes[name].unschedulable
    story.bench.cluster.write_unschedulable(name, not now, "kubectl-cordon")
    story.fought.add(name)


def _recreates_node(story: Story, name: str) -> None:
    story.bench.cluster.recreate_node(name)
    story.foreign[name] = []
    story.fought.add(name)


def _deletes_node(story: Story, name: str) -> None:
    del story.bench.cluster.nodes[name]
    story.foreign.pop(name)
    story.fought.add(name)


def _recreates_pod(story: Story, name: str) -> None:
    for key, pod in list(story.bench.cluster.pods.items()):
        if pod.node == name:
            story.bench.cluster.recreate_pod(key)
            return


def _deletes_pod(story: Story, name: str) -> None:
    for pod in list(story.bench.cluster.pods.values()):
        if pod.node == name and pod.deleted_ns is None:
            story.bench.cluster.delete(pod)
            return


_WEIGHTS = (
    (_adds_taint, 6),
    (_removes_foreign_taint, 4),
    (_removes_our_taint, 1),
    (_puts_our_taint_on, 1),
    (_turns_cordon, 1),
    (_recreates_node, 1),
    (_deletes_node, 1),
    (_recreates_pod, 2),
    (_deletes_pod, 2),
)
_HAPPENINGS = [happening for happening, _ in _WEIGHTS]


# -- the story -----------------------------------------------------------------------------------------


def story(seed: int) -> Story:
    """Play one seed; AssertionError when anything that must hold does not."""
    told = begin(seed, disturbed=seed % 3 != 0)
    originals = {name: _whole(told, name) for name in told.bench.cluster.nodes}
    disturb(told)
    result = _played(told, go_on)
    _check(told, result)
    _check_again(told, result)
    if told.dice.random() < 0.6:
        result = _played(told, lambda bench: bench.rollback())
        _check(told, result, back=True)
        _check_taken_back(told, originals, result)
    return told


def _played(told: Story, act: Callable[[Bench], RunResult]) -> RunResult:
    """Act, with faults and crashes at first and without them later, until that ends for good."""
    bench, dice = told.bench, told.dice
    result = None
    for cycle in range(CYCLES_MAX):
        rough = cycle < 4
        _draw_faults(told, rough=rough)
        killing(bench, dice.randint(0, 120) if rough and dice.random() < 0.6 else None)
        try:
            result = act(bench)
        except Killed:
            kept = dice.choice(list(KEEPS))
            told.seen.add(f"killed:{kept}")
            bench.files.crash(KEEPS[kept])
            bench.cluster.sleep(dice.choice([0.5, 20.0, 100.0]))
            continue
        told.seen |= _seen(told, result)
        if result.exit_code == 0 or (not rough and result.exit_code in (3, 4)):
            break
        bench.cluster.sleep(dice.choice([0.5, 30.0]))
    killing(bench, None)
    bench.cluster.faults.line.clear()
    assert result is not None, told.seed
    return result


def _draw_faults(told: Story, *, rough: bool) -> None:
    faults, dice = told.bench.cluster.faults, told.dice
    faults.line.clear()
    faults.unreachable_reads = 0
    if rough:
        choices = list(Fault)
        faults.line.extend(dice.choice(choices) if dice.random() < 0.2 else None for _ in range(40))
        faults.unreachable_reads = dice.random() < 0.03


def _seen(told: Story, result: RunResult) -> set[str]:
    seen = {f"end:{result.ending.code.value}", f"exit:{result.exit_code}"}
    seen |= {f"fault:{fault.name}" for fault in told.bench.cluster.faults.met}
    for line in told.bench.lines:
        record = json.loads(line)
        if "verdict" in record:
            seen.add(f"{record['record']}:{record['verdict']}")
        if "outcome" in record:
            seen.add(f"{record['record']}:{record['outcome']}")
        if record["record"] == "rollback-left":
            seen.add(f"kept:{record['why']}")
    return seen


def _check(told: Story, result: RunResult, *, back: bool = False) -> None:
    """What holds whatever happened."""
    bench, seed = told.bench, told.seed
    last = json.loads(bench.lines[-1])
    assert last["record"] == ("rollback-end" if back else "end"), seed
    assert last["exitCode"] == result.exit_code, seed
    planned = {getattr(one, "uid", "") for one in bench.plan.operations}
    assert set(bench.cluster.evicted) <= planned, seed
    assert min(bench.cluster.budgets.values()) >= 0, seed
    for name, wanted in told.foreign.items():
        found = [
            t for t in _others(bench.cluster.nodes[name].taints) if t["key"] != "webhook/added"
        ]
        assert found == [t for t in wanted if t["key"] != "webhook/added"], (seed, name)
    if result.exit_code == 0 and not back:
        _check_done(told)
    if not told.disturbed:
        assert result.exit_code == 0 or _excused(told, result), (seed, result.ending)


def _check_done(told: Story) -> None:
    """A run that says it is finished has done all of its plan, where nobody fought it."""
    cluster = told.bench.cluster
    wanted: dict[tuple[str, str], AnyOperation] = {}
    for operation in told.bench.plan.operations:
        if isinstance(operation, Evict):
            pod = cluster.pods.get(operation.key)
            assert pod is None or pod.uid != operation.uid, (told.seed, operation)
        elif operation.node not in told.fought:
            taint = getattr(operation, "taint", None)
            wanted[operation.node, taint.key if taint else ""] = operation
    for (name, _), operation in wanted.items():
        node = cluster.nodes[name]
        match operation:
            case AddTaint(taint=taint):
                found = {(one["key"], one.get("value")) for one in node.taints}
                assert (taint.key, taint.value) in found, (told.seed, operation)
            case RemoveTaint(taint=taint):
                assert taint.key not in {one["key"] for one in node.taints}, told.seed
            case _:
                assert node.unschedulable == isinstance(operation, Cordon), told.seed


def _excused(told: Story, result: RunResult) -> bool:
    """Without other people a story ends well, but for what webhooks, timeouts and lost answers do."""
    return Fault.WEBHOOK_CHANGES in told.bench.cluster.faults.met or result.ending.code.value in (
        "timed-out",
        "changed-since",
        "unsure",
    )


def _check_again(told: Story, result: RunResult) -> None:
    """A finished plan changes nothing when it is gone on with."""
    if result.exit_code == 0:
        before = len(told.bench.cluster.mutations)
        assert told.bench.resume().exit_code == 0, told.seed
        assert len(told.bench.cluster.mutations) == before, told.seed


def _whole(told: Story, name: str) -> tuple[object, ...]:
    node = told.bench.cluster.nodes[name]
    return ([dict(taint) for taint in node.taints], node.unschedulable)


def _check_taken_back(
    told: Story, originals: dict[str, tuple[object, ...]], result: RunResult
) -> None:
    """Undisturbed nodes are exactly as before; of others only ours is gone."""
    if result.exit_code != 0:
        return
    if not told.disturbed and Fault.WEBHOOK_CHANGES not in told.bench.cluster.faults.met:
        for name, original in originals.items():
            assert _whole(told, name) == original, (told.seed, name)
    added = {
        (one.operation.node, one.time_added)
        for one in result.state.operations.values()
        if one.executed and one.time_added
    }
    for name, node in told.bench.cluster.nodes.items():
        for taint in node.taints:
            if taint["key"] == OURS.key:
                assert (name, taint.get("timeAdded")) not in added, (told.seed, name)
