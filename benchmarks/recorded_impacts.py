"""Recorded node failures and taints with real workload controllers, next to the impact that is predicted for them.

A recording is a trace (see ``trace_runs``) whose ``observed.json`` also tells of endpoints, budgets, workloads and of pods
that are created and get ready. Rules of the comparison:

* readiness is not unknown here: it is taken from the kubelets' rules, as for drains;
* a number (ready endpoints of a Service, healthy pods of a budget, ready replicas of a workload) is inside when
  the curve of the prediction admits it at the instant at which it was seen, or up to ``WATCH_SLACK_SECONDS`` before;
* an endpoint that stops being ready is inside when its pod is predicted to leave the endpoints then;
* a pod that is created or gets ready is inside when a successor of its owner is predicted to do so then; each
  prediction explains one, and successors of successors are counted apart, in the rounds of a pod that returns.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recorded_drains import assumed_ready
from trace_runs import CLOCK_SLACK_SECONDS, WATCH_SLACK_SECONDS, Trace, load_trace, trace_folders

from kubectl_evictplan.engine.drain_timing import AssumeReady
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.stretches import Between
from kubectl_evictplan.impact.successors import Assumed
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.prediction.impact_document import Impact, Step
from kubectl_evictplan.prediction.predict import predict


class Checked(NamedTuple):
    """One recorded fact, and whether the prediction admits it."""

    what: str
    subject: str
    at_seconds: float
    inside: bool


class ImpactRecording(NamedTuple):
    """A trace with its impact."""

    trace: Trace
    observed: list[dict[str, Any]]
    impact: Impact
    world: World


def load_impact_recording(folder: Path) -> ImpactRecording:
    """Load one and predict its impact."""
    trace = load_trace(folder)
    recorded = json.loads((folder / "observed.json").read_text(encoding="utf-8"))
    ready = assumed_ready(recorded["kubelets"])
    known = (trace.snapshot, trace.scenario, trace.configuration)
    prediction = predict(*known, assume_ready=ready)
    impact = assess_impact(*known, prediction, assume_ready=ready)
    world = World(*known, prediction, Assumed(AssumeReady(*ready), True))
    return ImpactRecording(trace, recorded["observed"], impact, world)


def compare_impact(recording: ImpactRecording) -> list[Checked]:
    """Every recorded fact about what something happens to."""
    return [
        *_endpoints(recording),
        *_budgets(recording),
        *_workloads(recording),
        *_leaves(recording),
        *_successors(recording),
    ]


# -- numbers over time ------------------------------------------------------------------------------------


def _admitted(before: int, steps: Sequence[Step], at_seconds: float, number: int) -> bool:
    low, high = at_seconds - WATCH_SLACK_SECONDS, at_seconds + CLOCK_SLACK_SECONDS
    least = most = before
    found = []
    for step in steps:
        if step.at_seconds > high:
            break
        if step.at_seconds <= low:
            found.clear()
        least, most = step.least, step.most
        found.append((least, most))
    first = next((i for i, step in enumerate(steps) if step.at_seconds > low), len(steps))
    if first == 0:
        found.append((before, before))
    else:
        found.append((steps[first - 1].least, steps[first - 1].most))
    return min(one[0] for one in found) <= number <= max(one[1] for one in found)


def _endpoints(recording: ImpactRecording) -> Iterator[Checked]:
    for service in recording.impact.services:
        name = f"{service.namespace}/{service.service}"
        ready = {
            endpoint.pod
            for one in recording.trace.snapshot.infrastructure.endpoint_slices
            if (one.namespace, one.service) == (service.namespace, service.service)
            for endpoint in one.endpoints
            if endpoint.ready is not False
        }
        for event in recording.observed:
            if event["kind"] != "endpoint" or event["service"] != name:
                continue
            there = event["what"] != "removed" and event["ready"]
            (ready.add if there else ready.discard)(event["pod"])
            inside = _admitted(service.endpoints_before, service.steps, event["t"], len(ready))
            yield Checked("ready endpoints", name, event["t"], inside)


def _budgets(recording: ImpactRecording) -> Iterator[Checked]:
    for budget in recording.impact.budgets:
        name = f"{budget.namespace}/{budget.budget}"
        for event in recording.observed:
            if event["kind"] == "pdb" and event["pdb"] == name:
                number = event["currentHealthy"]
                inside = _admitted(budget.healthy_before, budget.steps, event["t"], number)
                yield Checked("healthy pods", name, event["t"], inside)


def _workloads(recording: ImpactRecording) -> Iterator[Checked]:
    for one in recording.impact.workloads:
        kind, _, name = one.workload.partition("/")
        for event in recording.observed:
            if event["kind"] != "workload" or event["workload"] != f"{kind}/{one.namespace}/{name}":
                continue
            number = event.get("readyReplicas", event.get("numberReady", 0))
            inside = _admitted(one.ready_before, one.steps, event["t"], number)
            yield Checked("ready replicas", event["workload"], event["t"], inside)


# -- instants of single pods ------------------------------------------------------------------------------


def _within(when: Between, at_seconds: float) -> bool:
    low, high = (ns / SECOND_NS for ns in when)
    return low - CLOCK_SLACK_SECONDS <= at_seconds <= high + WATCH_SLACK_SECONDS


def _leaves(recording: ImpactRecording) -> Iterator[Checked]:
    seen: set[str] = set()
    for event in recording.observed:
        if event["kind"] != "endpoint" or event.get("ready") or event["what"] == "added":
            continue
        pod = f"{event['service'].partition('/')[0]}/{event['pod']}"
        fate = recording.world.fates.get(pod)
        if pod not in seen and fate is not None and fate.pod.uid == event.get("uid", fate.pod.uid):
            seen.add(pod)
            yield Checked("endpoint leaves", pod, event["t"], _within(fate.leaves, event["t"]))


def _successors(recording: ImpactRecording) -> Iterator[Checked]:
    owners: dict[str, list[Fate]] = {}
    for fate in recording.world.fates.values():
        owner = fate.pod.controller()
        if owner is not None and fate.deletion is not None:
            owners.setdefault(f"{owner.kind}/{owner.name}", []).append(fate)
    created: dict[str, list[dict[str, Any]]] = {}
    ready: dict[str, float] = {}
    for event in recording.observed:
        if event["kind"] == "pod" and event["what"] == "created":
            created.setdefault(event["owner"], []).append(event)
        elif event["kind"] == "pod" and event["what"] == "ready":
            ready.setdefault(event["uid"], event["t"])
    for owner, events in created.items():
        fates = sorted(owners.get(owner, ()), key=lambda fate: fate.successor.created)
        for fate, event in zip(fates, events, strict=False):
            inside = _within(fate.successor.created, event["t"])
            yield Checked("successor created", event["pod"], event["t"], inside)
            if event["uid"] in ready:
                at = ready[event["uid"]]
                yield Checked(
                    "successor ready", event["pod"], at, _within(fate.successor.ready, at)
                )
        for event in events[len(fates) :]:
            returns = any(fate.pod.key in recording.world.returning for fate in fates)
            again = returns or bool(recording.world.prediction.drains)
            yield Checked("successor again", event["pod"], event["t"], again)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    for folder in trace_folders(arguments.folder):
        if not folder.name.startswith("impact-"):
            continue
        checked = compare_impact(load_impact_recording(folder))
        for what in dict.fromkeys(one.what for one in checked):
            some = [one for one in checked if one.what == what]
            print(f"{folder.name}: {what}: {sum(one.inside for one in some)} of {len(some)} inside")
        for one in checked:
            if not one.inside:
                print("  outside:", *one[:3])


if __name__ == "__main__":
    main()
