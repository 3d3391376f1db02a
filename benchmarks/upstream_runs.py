"""What upstream's own node lifecycle controller did to small clusters, next to what is predicted.

``fixtures/upstream/README.md`` says how the facts were won. Each node carries a pod that tolerates
nothing, so a pod goes at the instant of its node's NoExecute taint.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    Lease,
    Node,
    NodeCondition,
    Pod,
    Toleration,
)
from kubectl_evictplan.prediction.document import CERTAIN, Eviction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.actions.nodes import CreateNode
from kubectl_evictplan.scenarios.actions.pods import CreatePod
from kubectl_evictplan.scenarios.field_types import Manifest
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent

UPSTREAM = Path(__file__).resolve().parent.parent / "fixtures" / "upstream"
# The release of ``Case.runs``.
RELEASE = "1.29.6"
START_NS = 1_767_225_600 * SECOND_NS  # 2026-01-01T00:00:00Z
LONG_AGO_NS = START_NS - 86_400 * SECOND_NS
ZONE_LABEL = "topology.kubernetes.io/zone"
EXCLUDE_LABEL = "node.kubernetes.io/exclude-disruption"
TAINT_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# With the phase given, what is left is when the pass comes.
PASS_SECONDS = 0.1
ROUNDING_SECONDS = 0.001
# The oracle stops at the horizon, a pass is up to 0.1 s late and ticks cost time.
HORIZON_SLACK_SECONDS = 0.3

# When each pod went in one run.
Instants = dict[str, int]


class Question(NamedTuple):
    """What a prediction is made of."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration


class Case(NamedTuple):
    """One scenario and what upstream did; ``exact`` by release, with the monitor's phase given.

    ``runs`` have everything that nobody knows drawn at random. ``unclear`` pods stand on nodes that are
    deleted and created again: whether garbage collection was faster is another controller's business.
    """

    name: str
    document: dict[str, Any]
    exact: dict[str, Instants]
    runs: list[Instants]
    unclear: frozenset[str]
    # Releases in which the order of nodes decides the instants of ``exact``.
    order_decides: frozenset[str]

    def question(self, release: str, *, phase_known: bool) -> Question:
        """What to predict."""
        phase_ns = self.document["monitor_phase_ns"] if phase_known else None
        settings = ControllerSettings(release, phase_ns, self.document["flags"])
        snapshot = _snapshot(self.document)
        configuration = resolve_configuration(settings, snapshot.control_plane)
        return Question(snapshot, _scenario(self.document), configuration)

    def evictions(self, release: str, *, phase_known: bool) -> dict[str, list[Eviction]]:
        """What is predicted, by pod."""
        question = self.question(release, phase_known=phase_known)
        found: dict[str, list[Eviction]] = defaultdict(list)
        for eviction in predict(*question).evictions:
            if eviction.controller == TAINT_EVICTION:
                found[eviction.pod].append(eviction)
        return found

    def disagreements(self, release: str) -> Iterator[str]:
        """One line for each contradiction: exact instants, and windows (of ``RELEASE``)."""
        exact = self.evictions(release, phase_known=True)
        yield from self._not_exact(release, exact)
        yield from self._not_contained([self.exact[release]], exact)
        if release == RELEASE:
            yield from self._not_contained(self.runs, self.evictions(release, phase_known=False))

    def _not_exact(self, release: str, found: dict[str, list[Eviction]]) -> Iterator[str]:
        if release in self.order_decides:
            return
        for pod, at_ns in self.exact[release].items():
            at = at_ns / SECOND_NS
            instants = [eviction.offset_seconds for eviction in found.get(pod, [])]
            slack = PASS_SECONDS + ROUNDING_SECONDS
            if not any(abs(instant - at) <= slack for instant in instants):
                if not self._cut_off(at):
                    yield f"{self.name} {release}: {pod} at {at}, predicted at {instants}"

    def _not_contained(
        self, runs: Iterable[Instants], found: dict[str, list[Eviction]]
    ) -> Iterator[str]:
        """What happened outside every window, and what is certain and did not happen."""
        certain = {
            pod
            for pod, evictions in found.items()
            for eviction in evictions
            if eviction.certainty == CERTAIN and not self._cut_off(eviction.latest_seconds)
        } - self.unclear
        for run in runs:
            for pod, at_ns in run.items():
                at = at_ns / SECOND_NS
                if not any(_admits(one, at) for one in found.get(pod, [])) and not self._cut_off(
                    at
                ):
                    windows = [_windows(eviction) for eviction in found.get(pod, [])]
                    yield f"{self.name}: {pod} at {at}, predicted within {windows}"
            for pod in certain - run.keys():
                yield f"{self.name}: {pod} is called certain and stayed"

    def _cut_off(self, at: float) -> bool:
        return at > self.document["horizon_ns"] / SECOND_NS - HORIZON_SLACK_SECONDS


def load_cases() -> list[Case]:
    """All scenarios, by name."""
    lines = (UPSTREAM / "scenarios.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def _case(document: dict[str, Any]) -> Case:
    return Case(
        document["id"],
        document,
        document["exact"],
        document["runs"],
        frozenset(document.get("unclear", ())),
        frozenset(document.get("order_decides", ())),
    )


def _windows(eviction: Eviction) -> list[tuple[float, float]]:
    return [(window.earliest_seconds, window.latest_seconds) for window in eviction.windows]


def _admits(eviction: Eviction, at: float) -> bool:
    return any(
        earliest - ROUNDING_SECONDS <= at <= latest + ROUNDING_SECONDS
        for earliest, latest in _windows(eviction)
    )


def _snapshot(document: dict[str, Any]) -> ClusterSnapshot:
    rows = sorted(document["nodes"], key=lambda row: row["name"])
    seconds = document["lease_duration_seconds"]
    leases = {
        row["name"]: Lease(row["name"], START_NS + row["renewed_ns"], seconds, row["name"])
        for row in rows
        if "renewed_ns" in row
    }
    nodes = [
        _node(row, START_NS + row["created_ns"] if "created_ns" in row else LONG_AGO_NS)
        for row in rows
    ]
    return ClusterSnapshot(
        nodes=tuple(nodes),
        pods=tuple(_pod(f"p-{node.name}", node.name, ()) for node in nodes),
        leases=leases,
    )


def _scenario(document: dict[str, Any]) -> Scenario:
    events = [event for row in document["events"] for event in _events(row)]
    return Scenario(START_NS, tuple(events), document["horizon_ns"], document["id"])


def _events(row: dict[str, Any]) -> Iterator[ScenarioEvent]:
    at_ns, action = row["at_ns"], row["action"]
    if action == CreateNode.action:
        node = _node(row["new"], 0, heartbeat_ns=at_ns)
        yield CreateNode(at_ns=at_ns, manifest=Manifest(node))
        # Admission would let it tolerate both taints for 300 s if it said nothing.
        at_once = tuple(Toleration(key, "Exists", "", "NoExecute", 0) for key in TAINT_KEYS)
        yield CreatePod(at_ns=at_ns, manifest=Manifest(_pod(row["pod"], node.name, at_once)))
        return
    others = {key: value for key, value in row.items() if key not in ("action", "node")}
    if "node" in row:
        others["nodes"] = (row["node"],)
    yield ACTIONS[action](**others)


def _node(row: dict[str, Any], created_ns: int, heartbeat_ns: int = -1000 * SECOND_NS) -> Node:
    labels = {ZONE_LABEL: row["zone"]} if row["zone"] else {}
    if row.get("excluded"):
        labels[EXCLUDE_LABEL] = "true"
    posted_ns = (START_NS + heartbeat_ns) // SECOND_NS * SECOND_NS
    ready = NodeCondition("Ready", row["ready"], posted_ns, posted_ns) if row["ready"] else None
    return Node(
        row["name"],
        labels=labels,
        creation_timestamp_ns=created_ns,
        conditions=() if ready is None else (ready,),
    )


def _pod(name: str, node: str, tolerations: tuple[Toleration, ...]) -> Pod:
    return Pod(
        "default",
        name,
        uid=f"uid-{name}",
        node_name=node,
        tolerations=tolerations,
        termination_grace_period_seconds=1,
        phase="Running",
        ready="True",
    )
