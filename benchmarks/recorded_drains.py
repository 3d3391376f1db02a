"""Recorded runs of ``kubectl drain``, next to what is predicted for them.

A recording is a trace (see ``trace_runs``) whose ``observed.json`` also has ``commands`` (what kubectl was given, when
it ended and how), ``requests`` (from the API server's audit log) and ``kubelets`` (rules of the fake kubelets).
Rules of the comparison:

* readiness is not unknown here: ``--assume-ready`` is the range of the kubelets' rules for pods that start after the
  action;
* an eviction (201) or delete is inside when the pod is predicted to go in a window that the request lies in, from
  its arrival to its answer; a refusal (429) when the pod is predicted to wait then; a 500 when it is predicted;
* an end is inside when the last node of the command ends in its window with that exit code; a command that the
  recording interrupted says only that it had not ended before;
* pods of which the prediction cannot know are counted apart: replacements, and pods whose kubelet never ends
  them although it is alive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from trace_runs import (
    CLOCK_SLACK_SECONDS,
    Comparison,
    Expected,
    Fact,
    Trace,
    load_trace,
)

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.prediction.document import CERTAIN, DrainReport, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS

_DELETED = ("eviction-api", "kubectl-delete")
FOR_EVER = float("inf")


class DrainRecording(NamedTuple):
    """What kubectl and the API server did, of one trace."""

    trace: Trace
    commands: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    # Readiness of replacements, in nanoseconds; None at the end: some never get ready.
    assume_ready: tuple[int, int | None]
    # Pods whose kubelets break what every prediction assumes: they never end.
    never_exit: frozenset[str]


class DrainComparison(NamedTuple):
    """Evictions, refusals and ends; and the requests about pods that no prediction can know."""

    evictions: Comparison
    refusals: Comparison
    ends: Comparison
    unknowable: list[Fact]


def is_drain_recording(folder: Path) -> bool:
    """Whether kubectl drained something in a recorded trace."""
    recorded = json.loads((folder / "observed.json").read_text(encoding="utf-8"))
    return any("drain" in command["args"] for command in recorded.get("commands", ()))


def load_drain_recording(folder: Path) -> DrainRecording:
    """Load one. Raises InputError when a file is not what it should be."""
    trace = load_trace(folder)
    recorded = json.loads((folder / "observed.json").read_text(encoding="utf-8"))
    commands = [one for one in recorded["commands"] if "drain" in one["args"]]
    return DrainRecording(
        trace,
        commands,
        [one for one in recorded["requests"] if one["client"] == "kubectl"],
        assumed_ready(recorded["kubelets"]),
        _never_exit(trace, recorded["kubelets"]),
    )


def assumed_ready(kubelets: dict[str, Any]) -> tuple[int, int | None]:
    """From when to when replacements get ready, by the rules of the fake kubelets."""
    rules = [
        rule["after"]
        for rule in kubelets["readyAfterSeconds"]
        # What is said of one node concerns pods that were there before.
        if not rule.get("before") and "node" not in rule
    ]
    after = [int(seconds * SECOND_NS) for seconds in rules if seconds is not None]
    if not rules:
        after = [int(kubelets["defaults"]["readyAfterSeconds"] * SECOND_NS)]
    # Never: not within any horizon.
    earliest_ns = min(after, default=HORIZON_DEFAULT_MAX_NS)
    return earliest_ns, None if None in rules else max(after)


def _never_exit(trace: Trace, kubelets: dict[str, Any]) -> frozenset[str]:
    found = set()
    for pod in trace.snapshot.pods:
        for rule in kubelets["exitAfterSeconds"]:
            app, node = rule.get("app"), rule.get("node")
            if app in (None, pod.labels.get("app")) and node in (None, pod.node_name):
                if rule["after"] is None:
                    found.add(pod.key)
                break
    return frozenset(found)


def predict_drains(recording: DrainRecording) -> Prediction:
    """To the very ends of the drains: beyond the end of a recording nothing is told of them."""
    trace = recording.trace
    return predict(
        trace.snapshot,
        replace(trace.scenario, horizon_ns=None),
        trace.configuration,
        assume_ready=recording.assume_ready,
    )


def compare_drains(recording: DrainRecording, prediction: Prediction) -> DrainComparison:
    """Compare every request and every end."""
    known = {pod.key for pod in recording.trace.snapshot.pods}
    evicted: list[_Request] = []
    refused: list[_Request] = []
    unknowable: list[Fact] = []
    for request in _requests(recording):
        if request.pod not in known or request.pod in recording.never_exit:
            unknowable.append(Fact(request.pod, request.received_seconds))
        elif request.code in (200, 201):
            evicted.append(request)
        else:
            refused.append(request)
    return DrainComparison(
        _compare_evictions(recording, evicted, prediction),
        _compare_refusals(refused, prediction),
        _compare_ends(recording, prediction),
        unknowable,
    )


class _Request(NamedTuple):
    pod: str
    code: int
    received_seconds: float
    answered_seconds: float

    def lies_in(self, earliest_seconds: float, latest_seconds: float) -> bool:
        """Whether an instant between its arrival and its answer does."""
        return (
            earliest_seconds - CLOCK_SLACK_SECONDS <= self.answered_seconds
            and self.received_seconds <= latest_seconds + CLOCK_SLACK_SECONDS
        )


def _requests(recording: DrainRecording) -> Iterator[_Request]:
    for one in recording.requests:
        evicts = one["resource"] == "pods/eviction"
        if evicts or (one["resource"] == "pods" and one["verb"] == "delete"):
            yield _Request(str(one["name"]), int(one["code"]), float(one["t"]), float(one["done"]))


def _compare_evictions(
    recording: DrainRecording, requests: list[_Request], prediction: Prediction
) -> Comparison:
    left = [eviction for eviction in prediction.evictions if eviction.controller in _DELETED]
    inside, outside = [], []
    for request in requests:
        fact = Fact(request.pod, request.answered_seconds)
        for eviction in left:
            window = next(
                (
                    window
                    for window in eviction.windows
                    if eviction.key == request.pod
                    and request.lies_in(window.earliest_seconds, window.latest_seconds)
                ),
                None,
            )
            if window is not None:
                expected = Expected(
                    eviction.key, window.earliest_seconds, window.latest_seconds, certain=True
                )
                inside.append((fact, expected))
                left.remove(eviction)
                break
        else:
            outside.append(fact)
    end_seconds = _observed_until(recording)
    expected_left = [
        Expected(e.key, e.earliest_seconds, e.latest_seconds, e.certainty == CERTAIN) for e in left
    ]
    return Comparison(
        inside,
        outside,
        [one for one in expected_left if one.certain and one.latest_seconds <= end_seconds],
        [one for one in expected_left if not one.certain],
    )


def _observed_until(recording: DrainRecording) -> float:
    """Until when kubectl ran undisturbed."""
    interrupted = [
        float(one["interrupted"]) for one in recording.commands if one.get("interrupted")
    ]
    return min([recording.trace.end_seconds, *interrupted])


def _compare_refusals(requests: list[_Request], prediction: Prediction) -> Comparison:
    inside, outside = [], []
    for request in requests:
        fact = Fact(request.pod, request.received_seconds)
        for expected in _refusals(prediction, request):
            inside.append((fact, expected))
            break
        else:
            outside.append(fact)
    return Comparison(inside, outside, [], [])


def _refusals(prediction: Prediction, request: _Request) -> Iterator[Expected]:
    for drain in prediction.drains:
        if request.code != 429:
            for failed in drain.failed:
                start, end = drain.start_seconds, drain.end_latest_seconds
                if failed.pod == request.pod and start is not None:
                    last = FOR_EVER if end is None else end
                    if request.lies_in(start, last):
                        yield Expected(failed.pod, start, last, certain=True)
            continue
        for wait in drain.waiting:
            until = wait.until_latest_seconds
            last = FOR_EVER if until is None else until
            if wait.pod == request.pod and request.lies_in(wait.from_seconds, last):
                yield Expected(wait.pod, wait.from_seconds, last, certain=True)


def _compare_ends(recording: DrainRecording, prediction: Prediction) -> Comparison:
    inside, outside = [], []
    for command, drains in zip(recording.commands, _by_command(recording, prediction), strict=True):
        last = drains[-1]
        end = float(command["end"])
        fact = Fact(f"{last.node} exit {command['exit']}", end)
        earliest = last.end_earliest_seconds
        latest = FOR_EVER if last.end_latest_seconds is None else last.end_latest_seconds
        expected = Expected(fact.subject, earliest or 0.0, latest, certain=True)
        if command.get("interrupted"):
            good = latest >= float(command["interrupted"]) - CLOCK_SLACK_SECONDS
        else:
            # kubectl prints and exits a moment after its last node.
            good = (
                earliest is not None
                and earliest - CLOCK_SLACK_SECONDS <= end <= latest + 2 * CLOCK_SLACK_SECONDS
                and last.exit_code in (None, int(command["exit"]))
            )
        if good:
            inside.append((fact, expected))
        else:
            outside.append(fact)
    return Comparison(inside, outside, [], [])


def _by_command(
    recording: DrainRecording, prediction: Prediction
) -> Iterator[tuple[DrainReport, ...]]:
    at = 0
    for event in recording.trace.scenario.events:
        if isinstance(event, Drain):
            yield prediction.drains[at : at + len(event.nodes)]
            at += len(event.nodes)
