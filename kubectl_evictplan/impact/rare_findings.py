"""Findings that few changes have: pods that return to their nodes, and replacements with scheduling gates."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from kubectl_evictplan.impact.finding_items import Facts, Item, certainty_of, owned
from kubectl_evictplan.prediction.records import CERTAIN, POSSIBLE


def evicted_again(facts: Facts) -> Iterator[Item]:
    """Pods that come back to their node, and are evicted once more."""
    for name in facts.world.returning:
        fate = facts.world.fates.get(name)
        if fate is None or fate.deletion is None:
            continue
        namespace, workload = facts.world.workload_of(fate.owner)
        kind, _, owner = workload.partition("/")
        seconds = fate.deletion.tolerated_seconds
        again = f" every {seconds}s" if seconds is not None else ""
        whole = owned(facts.world, fate.owner)
        node = fate.pod.node_name
        if kind == "DaemonSet":
            text = f"{workload} in {namespace} returns to {node} and is evicted again{again}"
            command = shlex.join(["kubectl", "-n", namespace, "edit", f"daemonset/{owner}"])
            remedy = f"tolerate the taint without tolerationSeconds: {command}"
            certain = fate.deletion.certain and not fate.deletion.held
            yield Item(whole, text, CERTAIN if certain else POSSIBLE, remedy=remedy)
            continue
        text = f"{workload} in {namespace} may return to {node} and be evicted again{again}"
        yield Item(whole, text, POSSIBLE, remedy=shlex.join(["kubectl", "cordon", node]))


def replacement_gated(facts: Facts) -> Iterator[Item]:
    """Replacements that nobody schedules until somebody takes their gates off."""
    for fate in facts.world.fates.values() if facts.world.has_gates else ():
        gates = facts.world.gates_of(fate.owner)
        if gates and fate.deletion is not None and not fate.successor.created.never:
            namespace, workload = facts.world.workload_of(fate.owner)
            listed = ", ".join(gates)
            text = f"replacements of {workload} in {namespace} wait until somebody takes these gates off: {listed}"
            yield Item(owned(facts.world, fate.owner), text, certainty_of(fate))
