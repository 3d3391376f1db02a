"""Recorded runs of real control planes, next to what is predicted for them.

A trace is a folder with ``cluster.json``, ``scenario.yaml`` and ``observed.json`` as described in
``fixtures/traces/README.md``. Rules of the comparison:

* a fact lies in a window when it was seen so little after the window's end as a watch shows a write later, and
  so little before its start as clocks differ (``Slack``);
* one prediction explains one fact, and a pod's or node's facts only those of the same name; where
  several fit, as many facts as possible are explained;
* a certain prediction without its fact is *absent*, unless the recording ended before it had to
  show, or the fact cannot be seen: a second DELETE of a pod that is Terminating changes nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kubectl_evictplan.controllers.flags import (
    ControllerConfiguration,
    resolve_configuration,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import CERTAIN, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.files import load_scenario
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.sources.files import load_files

WATCH_SLACK_SECONDS = 0.5
CLOCK_SLACK_SECONDS = 0.05


class Slack(NamedTuple):
    """How much later than its window a watch may show a fact, and how much earlier clocks that differ."""

    watch_seconds: float = WATCH_SLACK_SECONDS
    clock_seconds: float = CLOCK_SLACK_SECONDS


FILES = ("cluster.json", "scenario.yaml", "observed.json")
LIFECYCLE_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Fact(NamedTuple):
    """Something that a watch showed ``at_seconds`` after the start; ``uid`` only of pods."""

    subject: str
    at_seconds: float
    uid: str = ""


class Expected(NamedTuple):
    """A window in which a fact of ``subject`` was predicted; ``uid`` only of recorded pods."""

    subject: str
    earliest_seconds: float
    latest_seconds: float
    certain: bool
    uid: str = ""

    @property
    def width_seconds(self) -> float:
        """From the earliest to the latest instant."""
        return self.latest_seconds - self.earliest_seconds

    def admits(self, fact: Fact, slack: Slack) -> bool:
        """True when this can be the prediction of the fact."""
        early = self.earliest_seconds - slack.clock_seconds
        return (
            self.subject == fact.subject
            and (not self.uid or self.uid == fact.uid)
            and early <= fact.at_seconds <= self.latest_seconds + slack.watch_seconds
        )


class Comparison(NamedTuple):
    """Facts with the prediction that explains each, and what is left over on either side."""

    inside: list[tuple[Fact, Expected]]
    outside: list[Fact]
    absent: list[Expected]
    not_happened: list[Expected]

    @property
    def facts(self) -> int:
        """The number of all facts."""
        return len(self.inside) + len(self.outside)

    @property
    def widths_seconds(self) -> list[float]:
        """The widths of the windows that explain a fact, smallest first."""
        return sorted(expected.width_seconds for _, expected in self.inside)


class Trace(NamedTuple):
    """One recorded run, loaded."""

    name: str
    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration
    observed: list[dict[str, Any]]
    slack: Slack = Slack()

    @property
    def end_seconds(self) -> float:
        """Until when the recording would have shown something."""
        if self.scenario.horizon_ns is not None:
            return self.scenario.horizon_ns / 1e9
        return max((float(entry["t"]) for entry in self.observed), default=0.0)


def trace_folders(folder: Path) -> list[Path]:
    """Return ``folder`` if it is a trace, else the traces in it, by name."""
    return [path for path in (folder, *sorted(folder.iterdir())) if is_trace(path)]


def is_trace(folder: Path) -> bool:
    return all((folder / name).is_file() for name in FILES)


def load_trace(folder: Path) -> Trace:
    """Load a trace. Raises InputError when a file is not what it should be."""
    snapshot = load_files([str(folder / "cluster.json")])
    scenario_file = folder / "scenario.yaml"
    loaded = load_scenario(
        scenario_file.read_text(encoding="utf-8"), f"{folder.name}/scenario.yaml", snapshot
    )
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    recorded = json.loads((folder / "observed.json").read_text(encoding="utf-8"))
    observed = sorted(recorded["observed"], key=lambda entry: float(entry["t"]))
    return Trace(folder.name, snapshot, loaded.scenario, configuration, observed)


def predict_trace(trace: Trace) -> Prediction:
    return predict(trace.snapshot, trace.scenario, trace.configuration)


# -- deletions ----------------------------------------------------------------------------------


def deletions(trace: Trace) -> list[Fact]:
    """Pods in the order in which controllers deleted them.

    A deletion shows as a deletionTimestamp, or, with a grace period of 0, only as the pod's end.
    What the scenario itself deletes is left out, and so are replacements: neither their names nor their
    nodes are predicted.
    """
    known = {pod.key for pod in trace.snapshot.pods}
    replacements = {
        entry["uid"]
        for entry in trace.observed
        if entry["kind"] == "pod"
        and entry["what"] == "created"
        and entry.get("owner")
        and entry["pod"] not in known
    }
    found: dict[str, Fact] = {}
    for entry in trace.observed:
        if entry["kind"] == "pod" and entry["what"] in ("deleting", "gone"):
            uid = str(entry.get("uid", ""))
            if uid in replacements:
                continue
            found.setdefault(uid, Fact(str(entry["pod"]), float(entry["t"]), uid))
    by_hand = [
        Expected(key, event.at_ns / 1e9, event.at_ns / 1e9, certain=True)
        for event in trace.scenario.events
        if event.action == "pod-delete"
        for key in event.pods
    ]
    left_out = {fact for fact, _ in match(list(found.values()), by_hand, trace.slack)}
    return [fact for fact in found.values() if fact.at_seconds >= 0 and fact not in left_out]


def compare_deletions(trace: Trace, prediction: Prediction) -> Comparison:
    """Compare real deletions with predicted evictions, pods taken by name and UID."""
    known = {pod.uid for pod in trace.snapshot.pods if pod.uid}
    facts = deletions(trace)
    expected = [
        Expected(
            f"{eviction.namespace}/{eviction.pod}",
            eviction.earliest_seconds,
            eviction.latest_seconds,
            eviction.certainty == CERTAIN,
            eviction.uid if eviction.uid in known else "",
        )
        for eviction in prediction.evictions
    ]
    return _compare(trace, facts, expected, _Terminating(trace).hides)


class _Terminating:
    """From when to when each pod was Terminating: a further DELETE leaves no mark there."""

    def __init__(self, trace: Trace) -> None:
        self._slack = trace.slack
        self._deleting: dict[str, list[Fact]] = defaultdict(list)
        self._gone: dict[str, float] = {}
        for entry in trace.observed:
            if entry["kind"] != "pod":
                continue
            fact = Fact(str(entry["pod"]), float(entry["t"]), str(entry.get("uid", "")))
            if entry["what"] == "deleting":
                self._deleting[fact.subject].append(fact)
            elif entry["what"] == "gone":
                self._gone[fact.uid] = fact.at_seconds

    def hides(self, expected: Expected) -> bool:
        """True when the pod was Terminating at some point of the window."""
        early = expected.earliest_seconds - self._slack.clock_seconds
        return any(
            fact.at_seconds <= expected.latest_seconds + self._slack.watch_seconds
            and self._gone.get(fact.uid, float("inf")) >= early
            and expected.uid in ("", fact.uid)
            for fact in self._deleting[expected.subject]
        )


# -- nodes --------------------------------------------------------------------------------------


def compare_unknown(trace: Trace, prediction: Prediction) -> Comparison:
    """Compare when nodes became Ready=Unknown."""
    facts = [
        Fact(str(entry["node"]), float(entry["t"]))
        for entry in trace.observed
        if entry["kind"] == "node" and entry.get("ready") == "Unknown" and entry["t"] >= 0
    ]
    return _compare(trace, facts, list(_changes(prediction, "ready", ("Unknown",))))


def compare_taints_added(trace: Trace, prediction: Prediction) -> Comparison:
    """Compare when node lifecycle added NoExecute taints."""
    facts = [fact for what, fact in _taint_changes(trace) if what == "taint-added"]
    return _compare(trace, facts, list(_changes(prediction, "taint-added", _LIFECYCLE_TAINTS)))


def compare_taints_removed(trace: Trace, prediction: Prediction) -> Comparison:
    """Compare when node lifecycle removed its NoExecute taints."""
    facts = [fact for what, fact in _taint_changes(trace) if what == "taint-removed"]
    return _compare(trace, facts, list(_changes(prediction, "taint-removed", _LIFECYCLE_TAINTS)))


_LIFECYCLE_TAINTS = tuple(f"{key}:NoExecute" for key in LIFECYCLE_KEYS)


def _changes(prediction: Prediction, what: str, values: Iterable[str]) -> Iterator[Expected]:
    for report in prediction.nodes:
        for change in report.changes:
            if change.what == what and change.value in values:
                subject = report.node if what == "ready" else f"{report.node} {change.value}"
                certain = change.certainty == CERTAIN
                yield Expected(subject, change.earliest_seconds, change.latest_seconds, certain)


def _taint_changes(trace: Trace) -> Iterator[tuple[str, Fact]]:
    """Yield what happened to node lifecycle's NoExecute taints after the start."""
    before: dict[str, set[str]] = {
        node.name: {f"{taint.key}:{taint.effect}" for taint in node.taints}
        for node in trace.snapshot.nodes
    }
    for entry in trace.observed:
        if entry["kind"] != "node" or entry["what"] not in ("taints", "deleted") or entry["t"] < 0:
            continue
        name = str(entry["node"])
        if entry["what"] == "deleted":
            before.pop(name, None)
            continue
        now = {f"{key}:{effect}" for key, _value, effect in entry["taints"]}
        was = before.get(name, set())
        before[name] = now
        for what, changed in (("taint-added", now - was), ("taint-removed", was - now)):
            for value in sorted(changed.intersection(_LIFECYCLE_TAINTS)):
                yield what, Fact(f"{name} {value}", float(entry["t"]))


# What is compared of nodes, in words.
NODE_FACTS = {
    "nodes became Ready=Unknown": compare_unknown,
    "NoExecute taints added by node lifecycle": compare_taints_added,
    "NoExecute taints removed by node lifecycle": compare_taints_removed,
}


# -- matching -----------------------------------------------------------------------------------


def _compare(
    trace: Trace,
    facts: list[Fact],
    expected: list[Expected],
    hides: Callable[[Expected], bool] | None = None,
) -> Comparison:
    inside = match(facts, expected, trace.slack)
    left = list(expected)
    for _, used in inside:
        left.remove(used)
    explained = [fact for fact, _ in inside]
    outside = list(facts)
    for fact in explained:
        outside.remove(fact)
    due = [one for one in left if hides is None or not hides(one)]
    last_seconds = trace.end_seconds - trace.slack.watch_seconds
    absent = [one for one in due if one.certain and one.latest_seconds <= last_seconds]
    return Comparison(inside, outside, absent, [one for one in due if not one.certain])


def match(facts: list[Fact], expected: list[Expected], slack: Slack) -> list[tuple[Fact, Expected]]:
    """Give facts, in order, each a window of its own, so that as many as possible are explained.

    Of the windows that do so as many as possible are certain, then those that close first, and of a known UID.
    """
    ordered = sorted(facts, key=lambda fact: fact.at_seconds)
    by_subject: dict[str, list[int]] = defaultdict(list)
    for number, fact in enumerate(ordered):
        by_subject[fact.subject].append(number)
    explained: dict[int, Expected] = {}

    def place(one: Expected, tried: set[int]) -> bool:
        """Give the window a fact, and another one to the window that had it (an augmenting path)."""
        for number in by_subject[one.subject]:
            if number not in tried and one.admits(ordered[number], slack):
                tried.add(number)
                if number not in explained or place(explained[number], tried):
                    explained[number] = one
                    return True
        return False

    for one in sorted(expected, key=lambda one: (not one.certain, one.latest_seconds, not one.uid)):
        place(one, set())
    return [(ordered[number], explained[number]) for number in sorted(explained)]
