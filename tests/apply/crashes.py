"""Killing runs at any step, and what has to be the same afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from apply.crashing_files import CrashingFiles, Killed, Killer
from apply.runs import JOURNAL, Bench
from apply.simulated_cluster import SimulatedCluster

from kubectl_evictplan.apply.cluster import Request
from kubectl_evictplan.apply.run import RunResult

Make = Callable[[], Bench]
Keep = Callable[[bytes], bytes]

# What a crash leaves of bytes that were written and not synced.
ALL: Keep = lambda lost: lost  # noqa: E731 - SIGKILL: the system writes them later
NONE: Keep = lambda _lost: b""  # noqa: E731 - power loss
TORN: Keep = lambda lost: lost[: len(lost) // 2]  # noqa: E731
BUT_THE_LAST_BYTE: Keep = lambda lost: lost[:-1]  # noqa: E731
KEEPS = {"all": ALL, "none": NONE, "torn": TORN, "no newline": BUT_THE_LAST_BYTE}


class Final(NamedTuple):
    """What is the same after a run and after any number of crashes and resumes."""

    nodes: dict[str, tuple[object, ...]]
    pods: Counter[tuple[str, str, str]]
    budgets: dict[str, int]
    phases: dict[int, str]
    exit_code: int


def final(bench: Bench, result: RunResult) -> Final:
    """Return the cluster when everything has settled, and the journal's summary."""
    cluster = bench.cluster
    cluster.sleep(120.0)
    return Final(
        nodes={name: spec(cluster, name) for name in cluster.nodes},
        pods=Counter((pod.namespace, pod.workload, pod.node) for pod in cluster.pods.values()),
        budgets=dict(cluster.budgets),
        phases={number: one.phase.value for number, one in result.state.operations.items()},
        exit_code=result.exit_code,
    )


def spec(cluster: SimulatedCluster, name: str) -> tuple[object, ...]:
    """Return a node's taints, in order and but for when they were added, and whether it is cordoned."""
    node = cluster.nodes[name]
    return (
        node.uid,
        [(t["key"], t.get("value"), t["effect"], "timeAdded" in t) for t in node.taints],
        node.unschedulable,
    )


def killing(bench: Bench, at: int | None) -> Killer:
    """Kill the bench's process at the given step: around every durable step and every mutation."""
    killer = Killer(at)
    bench.files.killer = killer
    bench.cluster.before_mutation = lambda request: _passes(bench, killer, request)
    bench.cluster.after_mutation = lambda _request: killer.step()
    return killer


def _passes(bench: Bench, killer: Killer, request: Request) -> None:
    killer.step()
    intended(bench.files, request)


def intended(files: CrashingFiles, request: Request) -> None:
    """Assert that the mutation that arrives stands in the journal, durably, as the last word on it."""
    last = json.loads(files.stored[JOURNAL].durable.splitlines()[-1])
    assert last["record"] in ("intent", "rollback-intent"), last
    if last["request"] is not None:
        assert last["request"]["path"] == request.path
        assert last["request"]["body"] == request.body.decode()


def steps_of(make: Make) -> int:
    """Count the points at which a run can be killed."""
    bench = make()
    killer = killing(bench, None)
    bench.apply()
    return killer.steps


def killed_then_resumed(
    make: Make, kills: tuple[int, ...], keep: Keep, *, pause_seconds: float = 1.0
) -> tuple[Bench, RunResult]:
    """Run and kill, go on and kill, and so on; at last let it finish."""
    bench = make()
    for at in (*kills, None):
        killing(bench, at)
        try:
            result = go_on(bench)
        except Killed:
            bench.files.crash(keep)
            bench.cluster.sleep(pause_seconds)
        else:
            return bench, result
    raise AssertionError("a run without a kill ends")


def go_on(bench: Bench) -> RunResult:
    """Do what an operator does after a crash: resume, or apply when nothing was begun."""
    begun = JOURNAL in bench.files.stored and b"\n" in bench.files.read(JOURNAL)
    return bench.resume() if begun else bench.apply()
