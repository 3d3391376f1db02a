"""What upstream's own ``kubectl drain``, Eviction API and controllers did in a drawn world, next to what is predicted.

Rules of the comparison, beside those of ``trace_runs``:

* only pods that had a node at the start are compared: neither names nor nodes of others are predicted;
* readiness is not unknown here: ``--assume-ready`` is the range that kubelets drew from;
* an end of an object lies in the ``gone`` of an eviction of that pod;
* kubectl is through with a node, and exits, as is told of its process.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from drawn.upstream_drain_worlds import DrainHappening, UpstreamDrainWorld
from drawn.upstream_worlds import NAMESPACE
from msgspec.structs import replace
from trace_runs import Slack, Trace, compare_deletions

from kubectl_evictplan.prediction.document import DrainReport, Prediction
from kubectl_evictplan.prediction.predict import predict

# What is written down of an instant, and a tick of the monitor more.
SLACK = Slack(0.004, 0.002)
_LISTED = (
    *(("v1", kind) for kind in ("ReplicationController", "Namespace", "Service")),
    *(("apps/v1", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    *(("batch/v1", "Job"), ("policy/v1", "PodDisruptionBudget")),
)
Document = dict[str, Any]
FOR_EVER = float("inf")
# What kubectl says when its --timeout is over.
_LATE = ("global timeout reached", "context deadline exceeded")


def record_drains(world: UpstreamDrainWorld, release: str, program: Path, folder: Path) -> None:
    """Play a world; the folder is a trace then."""
    asked, answer = folder / "world.json", folder / "recording.json"
    asked.write_bytes(msgspec.json.encode(world))
    subprocess.run([program, asked, answer], check=True, capture_output=True, timeout=120)
    recording = json.loads(answer.read_bytes())
    # Lists of kinds of which there is nothing, as the API server answers them too.
    recording["cluster"]["items"] += [
        {"apiVersion": version, "kind": f"{kind}List", "items": []} for version, kind in _LISTED
    ]
    for name, document in (
        ("cluster.json", recording["cluster"]),
        ("scenario.yaml", _scenario_of(world, recording, release)),
        ("observed.json", recording),
    ):
        (folder / name).write_text(json.dumps(document), encoding="utf-8")


def _scenario_of(world: UpstreamDrainWorld, recording: Document, release: str) -> Document:
    spec = {
        "start": recording["start"],
        "horizon": f"{world.end_ns - world.start_ns}ns",
        "controller": {"kubernetesVersion": release},
        "events": list(_events(world, recording)),
    }
    head = {"apiVersion": "evictplan.dev/v1alpha1", "kind": "Scenario"}
    return head | {"metadata": {"name": f"upstream-drain-{world.seed}"}, "spec": spec}


def _drains(world: UpstreamDrainWorld) -> list[DrainHappening]:
    return [one for one in world.events if one.action == "drain"]


def _events(world: UpstreamDrainWorld, recording: Document) -> Iterator[Document]:
    pods = {
        one["metadata"]["name"] for one in recording["cluster"]["items"] if one["kind"] == "Pod"
    }
    for one in world.events:
        if one.at_ns >= world.start_ns and (not one.pod or one.pod in pods):
            nodes = one.nodes or ((one.node,) if one.node else ())
            event = {"at": f"{one.at_ns - world.start_ns}ns", "action": one.action, **one.fields}
            event |= {"nodes": list(nodes)} if nodes else {}
            event |= {"pods": [f"{NAMESPACE}/{one.pod}"]} if one.pod else {}
            if one.taint:
                value = f"={one.taint['value']}" if one.action == "taint" else ""
                event["taint"] = f"{one.taint['key']}{value}:{one.taint['effect']}"
            yield event


def drain_disagreements(world: UpstreamDrainWorld, trace: Trace) -> list[str]:
    """What upstream did outside of its window, and what was certain and did not happen."""
    whole = replace(trace.scenario, horizon_ns=None)
    prediction = predict(trace.snapshot, whole, trace.configuration, assume_ready=world.ready_ns)
    known = {pod.uid for pod in trace.snapshot.pods if pod.node_name}
    observed = [one for one in trace.observed if one["kind"] != "pod" or one["uid"] in known]
    trace = trace._replace(observed=observed, slack=SLACK)
    return [
        *_deletions(trace, prediction),
        *_ends_of_objects(trace, prediction),
        *chain.from_iterable(
            _process(trace, number, reports)
            for number, reports in enumerate(_by_process(world, prediction), 1)
        ),
        *_refusals(trace, prediction),
    ]


def _deletions(trace: Trace, prediction: Prediction) -> Iterator[str]:
    found = compare_deletions(trace, prediction)
    for fact in found.outside:
        yield f"deleted: {fact.subject} at {fact.at_seconds:.6f}"
    for one in found.absent:
        yield f"deleted: {one.subject} is absent, certain by {one.latest_seconds:.6f}"


def _ends_of_objects(trace: Trace, prediction: Prediction) -> Iterator[str]:
    ends: dict[str, list[tuple[float, float]]] = {}
    for eviction in prediction.evictions:
        earliest, latest = eviction.gone.earliest_seconds, eviction.gone.latest_seconds
        if earliest is not None:
            last = FOR_EVER if latest is None else latest
            ends.setdefault(eviction.uid, []).append((earliest, last))
    # Ends of pods that somebody else deletes, or had deleted before, are not told.
    by_hand = {
        key for one in trace.scenario.events if one.action == "pod-delete" for key in one.pods
    }
    ending = {pod.uid for pod in trace.snapshot.pods if pod.deletion_timestamp_ns is not None}
    for entry in trace.observed:
        if entry["kind"] != "pod" or entry["uid"] in ending or entry["pod"] in by_hand:
            continue
        if entry["what"] == "gone" and entry["t"] >= 0:
            told = ends.get(entry["uid"], [])
            if not any(_lies(entry["t"], first, last) for first, last in told):
                yield f"gone: {entry['pod']} at {entry['t']:.6f}, told {told}"


def _lies(at: float, first: float | None, last: float | None) -> bool:
    end = FOR_EVER if last is None else last
    return first is not None and first - SLACK.clock_seconds <= at <= end + SLACK.watch_seconds


def _by_process(
    world: UpstreamDrainWorld, prediction: Prediction
) -> Iterator[tuple[DrainReport, ...]]:
    rest = iter(prediction.drains)
    for one in _drains(world):
        yield tuple(next(rest) for _ in one.nodes)


def _process(trace: Trace, number: int, reports: tuple[DrainReport, ...]) -> Iterator[str]:
    """What one process of kubectl did."""
    own = [one for one in trace.observed if one["kind"] == "drain" and one["drain"] == number]
    ended = {one["node"]: one for one in own if one["what"] in ("drained", "failed")}
    for report in reports:
        first, last = report.end_earliest_seconds, report.end_latest_seconds
        told = f"told {first} to {last}: {report.end_reasons or report.end_reason}"
        end = ended.get(report.node)
        if end is None:
            if last is not None and last < trace.end_seconds - SLACK.watch_seconds:
                yield f"drain {number} goes on with {report.node}, {told}"
        elif not _lies(end["t"], first, last):
            yield f"drain {number} ends with {report.node} at {end['t']:.6f}, {told}"
        elif not _ends_so(end, report):
            yield f"drain {number} ends with {report.node}: {end['line']}, {told}"
    for one in own:
        code = reports[-1].exit_code
        if one["what"] == "exit" and code is not None and code != one["code"]:
            yield f"drain {number} exits with {one['code']}, told {code}"


def _ends_so(end: Document, report: DrainReport) -> bool:
    reasons = report.end_reasons or ((report.end_reason,) if report.end_reason else ())
    if not reasons:
        return True
    if end["what"] == "drained":
        return "drained" in reasons
    why = end["why"]
    if "cannot delete" in why:
        return "refused" in reasons
    # A node with several failures ends in error if one of them is no timeout.
    failures = why.split("error when ")[1:] or [why]
    late = all(any(words in one for words in _LATE) for one in failures)
    return ("timeout" in reasons) if late else ("error" in reasons)


def _refusals(trace: Trace, prediction: Prediction) -> Iterator[str]:
    known = {pod.key for pod in trace.snapshot.pods if pod.node_name}
    for entry in trace.observed:
        refused = entry["kind"] == "request" and entry["code"] not in (201, 404)
        if refused and entry["pod"] in known and not _is_told(entry, prediction):
            yield f"refused: {entry['pod']} at {entry['t']:.6f} with {entry['code']}"


def _is_told(entry: Document, prediction: Prediction) -> bool:
    for drain in prediction.drains:
        if entry["code"] != 429 and any(one.pod == entry["pod"] for one in drain.failed):
            return True
        for wait in drain.waiting:
            if wait.pod == entry["pod"] and entry["t"] >= wait.from_seconds - SLACK.clock_seconds:
                last = wait.until_latest_seconds
                if last is None or entry["arrived"] <= last + SLACK.watch_seconds:
                    return True
    return False
