"""Recorded runs as an observer would have seen them: looks, a watch, and timestamps in whole seconds.

What the API server writes (deletionTimestamp, timeAdded, lastTransitionTime) is cut to seconds, as a real one
cuts it; what a watch tells is known to lie between two of its answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trace_runs import Trace, load_trace

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.sightings import Interval, SeenNode, SeenPod
from kubectl_evictplan.plans.expectation import Start
from kubectl_evictplan.plans.sightings import Change, Look, Sightings

# How late a watch shows a write.
WATCH_LATE_NS = 200_000_000


class Recorded(NamedTuple):
    """What was seen of a recording, and when its scenario began."""

    trace: Trace
    sightings: Sightings
    start: Start


def recorded(folder: Path, *, shifted_seconds: float = 0.0) -> Recorded:
    """Return a recording as seen; ``shifted_seconds`` later everything that happened after the start."""
    trace = load_trace(folder)
    start_ns = trace.scenario.start_ns
    shift_ns = round(shifted_seconds * SECOND_NS)

    def instant(entry: dict[str, Any]) -> int:
        at_ns = start_ns + round(float(entry["t"]) * SECOND_NS)
        return at_ns + shift_ns if entry["t"] >= 0 else at_ns

    pods = {
        pod.uid: SeenPod(pod.namespace, pod.name, pod.uid, pod.node_name, pod.creation_timestamp_ns)
        for pod in trace.snapshot.pods
    }
    nodes = {
        node.name: SeenNode(node.name, node.uid, node.taints, node.ready_status or "")
        for node in trace.snapshot.nodes
    }
    first = Look(Interval(start_ns, start_ns), tuple(pods.values()), tuple(nodes.values()))
    looks, changes = [first], []
    for entry in trace.observed:
        if entry["t"] < 0 or entry["kind"] not in ("pod", "node"):
            continue
        at_ns = instant(entry)
        between = Interval(at_ns - WATCH_LATE_NS, at_ns)
        if entry["kind"] == "pod" and entry.get("uid"):
            changes += _pod_changes(entry, between, pods)
        elif entry["kind"] == "node" and _node_changed(entry, at_ns, nodes):
            looks.append(Look(between, None, tuple(nodes.values())))
    end_ns = start_ns + shift_ns + round(trace.end_seconds * SECOND_NS)
    there = [pod for uid, pod in pods.items() if uid not in {c.pod.uid for c in changes if c.gone}]
    looks.append(Look(Interval(end_ns, end_ns), tuple(there), tuple(nodes.values())))
    sightings = Sightings(tuple(looks), tuple(changes))
    return Recorded(trace, sightings, Start(Interval(start_ns, start_ns), "given"))


def _pod_changes(
    entry: dict[str, Any], between: Interval, pods: dict[str, SeenPod]
) -> Iterator[Change]:
    uid = str(entry.get("uid", ""))
    namespace, _, name = str(entry["pod"]).partition("/")
    pod = pods.get(uid)
    if pod is None:
        pod = SeenPod(namespace, name, uid, str(entry.get("node", "")), _second(between.latest_ns))
    what = entry["what"]
    if what == "scheduled" or entry.get("node"):
        pod = _with(pod, node=str(entry.get("node") or pod.node))
    if what == "disruption-target":
        pod = _with(pod, disruption=str(entry.get("reason", "")))
    if what == "deleting" and pod.deletion_timestamp_ns is None:
        grace = 30
        deleted_ns = _second(between.latest_ns - WATCH_LATE_NS // 2)
        pod = _with(
            pod,
            deletion_timestamp_ns=deleted_ns + grace * SECOND_NS,
            deletion_grace_period_seconds=grace,
        )
    pods[uid] = pod
    yield Change(between, pod, gone=what == "gone")


def _node_changed(entry: dict[str, Any], at_ns: int, nodes: dict[str, SeenNode]) -> bool:
    name = str(entry["node"])
    if entry["what"] == "deleted":
        return nodes.pop(name, None) is not None
    node = nodes.get(name) or SeenNode(name, f"again-{at_ns}")
    if entry["what"] == "taints":
        known = {(taint.key, taint.value, taint.effect): taint for taint in node.taints}
        taints = tuple(
            known.get((key, value, effect))
            or Taint(
                key,
                effect,
                value,
                _second(at_ns) if key.startswith("node.kubernetes.io/") else None,
            )
            for key, value, effect in entry["taints"]
        )
        node = _with(node, taints=taints)
    elif entry["what"] == "ready" and entry.get("ready") != node.ready:
        node = _with(node, ready=str(entry["ready"]), ready_since_ns=_second(at_ns))
    else:
        return False
    nodes[name] = node
    return True


def _second(ns: int) -> int:
    return ns // SECOND_NS * SECOND_NS


def _with(value: Any, **fields: Any) -> Any:
    from msgspec.structs import replace

    return replace(value, **fields)
