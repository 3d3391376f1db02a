"""Small worlds for ledgers: predicted evictions of pods by hand, and looks at those pods."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from plans.recorded_sightings import recorded
from recorded_drains import is_drain_recording, load_drain_recording, predict_drains
from trace_runs import load_trace, predict_trace, trace_folders

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import (
    MARKING,
    TAINT_MANAGER_EVICTION,
    Interval,
    SeenEvent,
    SeenPod,
    whole_second,
)
from kubectl_evictplan.plans.expectation import Expectation, Start, expectation_of
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.ledger_document import Ledger, PodEntry
from kubectl_evictplan.plans.sightings import Look, Sightings
from kubectl_evictplan.prediction.document import (
    Eviction,
    OutcomeWindow,
    Prediction,
    TaintReference,
    Window,
)

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RECORDINGS = {
    folder.name: folder
    for root in ("traces", "drains")
    for folder in trace_folders(FIXTURES / root)
}
QUICK = (
    "taint-basics-1.29.6",
    "recreated-pod-1.33.13",
    "node-fails-1.29.6",
    # It deletes a pod by hand before it drains the pod's node.
    "drain-skip-wait-1.37.0",
)
SLOW = [name for name in RECORDINGS if name not in QUICK]
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@cache
def prediction_of(name: str) -> Prediction:
    folder = RECORDINGS[name]
    if is_drain_recording(folder):
        return predict_drains(load_drain_recording(folder))
    return predict_trace(load_trace(folder))


def ledger_of_recording(name: str, **settings: Any) -> Ledger:
    seen = recorded(RECORDINGS[name], **settings)
    return ledger_of(expectation_of(prediction_of(name)), seen.sightings, seen.start)


START_NS = 1_795_212_000 * SECOND_NS
START = Start(Interval(START_NS, START_NS), "given")
POD = SeenPod("default", "web", "u1", "n1", START_NS - 1000 * SECOND_NS)


def at(seconds: float) -> int:
    return START_NS + round(seconds * SECOND_NS)


def predicted(
    *windows: tuple[float, float],
    certainty: str = "certain",
    uid: str = "u1",
    node: str = "n1",
    pod: str = "web",
    taint: TaintReference | None = None,
    controller: str = "taint-eviction",
) -> Eviction:
    first, last = windows[0][0], windows[-1][1]
    return Eviction(
        "default", pod, uid, node, certainty, first, first, last,
        tuple(OutcomeWindow(*window) for window in windows), "", controller, taint, None,
        Window(None, None),
    )  # fmt: skip


def expectation(*evictions: Eviction, horizon: str = "10m", **fields: Any) -> Expectation:
    prediction = prediction_of("taint-basics-1.29.6")
    inputs = prediction.inputs
    inputs = replace(
        inputs,
        horizon=replace(inputs.horizon, value=horizon),
        start=replace(inputs.start, value="2026-11-20T22:00:00Z"),
    )
    empty = replace(prediction, inputs=inputs, evictions=evictions, kept=(), nodes=(), drains=())
    return replace(expectation_of(replace(empty, **fields)), known_at_ns=START_NS)


def deleted(pod: SeenPod, seconds: float, grace: int = 30) -> SeenPod:
    ns = at(seconds) // SECOND_NS * SECOND_NS + grace * SECOND_NS
    return replace(pod, deletion_timestamp_ns=ns, deletion_grace_period_seconds=grace)


def look(seconds: float, *pods: SeenPod, **fields: Any) -> Look:
    return Look(Interval(at(seconds), at(seconds)), pods, **fields)


def entry_of(expected: Expectation, *looks: Look, **seen: Any) -> PodEntry:
    (entry,) = ledger_of(expected, Sightings(looks, **seen), START).pods
    return entry


def event(first: float, last: float | None = None, count: int = 1, **fields: Any) -> SeenEvent:
    known = {
        "kind": "Pod", "namespace": "default", "name": "web", "uid": "",
        "reason": TAINT_MANAGER_EVICTION, "told": MARKING,
    }  # fmt: skip
    spans = whole_second(at(first)), whole_second(at(first if last is None else last))
    return SeenEvent(**{**known, **fields}, first=spans[0], last=spans[1], count=count)
