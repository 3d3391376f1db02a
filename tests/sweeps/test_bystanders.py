"""Nodes that only count in their zone are left out of the simulation, and nobody can tell.

The other side of each comparison keeps all nodes: ``_may_leave_out_nodes`` says no.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.prediction.prepared import PreparedCluster
from kubectl_evictplan.scenarios.actions.nodes import CreateNode
from kubectl_evictplan.scenarios.actions.processes import StartKubelet, StopKubelet
from kubectl_evictplan.scenarios.field_types import Manifest
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.scenarios.targets import nodes_by_zone
from kubectl_evictplan.sources.files import load_files

CLUSTER = Path(__file__).parents[2] / "fixtures/clusters/kubeadm-15-nodes-1.29.json"
BACK_NS = 50 * SECOND_NS


@pytest.mark.parametrize(
    ("release", "back_ns"),
    [
        ("1.29.6", None),
        *(
            pytest.param(release, back_ns, marks=pytest.mark.slow)
            for release in ("1.18.0", "1.20.2", "1.20.15", "1.26.1", "1.29.6", "1.35.0")
            for back_ns in (None, BACK_NS)
        ),
    ],
)
def test_a_prediction_is_the_same_with_all_nodes(
    release: str, back_ns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = load_files([str(CLUSTER)])
    configuration = resolve_configuration(
        ControllerSettings(release, None, {}), snapshot.control_plane
    )
    nodes = {node.name: node for node in snapshot.nodes}
    zone = tuple(node.name for node in nodes_by_zone(nodes, "eu-1a"))
    found = []
    for names in (("worker-b1",), ("worker-a1", "worker-b2"), zone):
        events: list[ScenarioEvent] = [StopKubelet(at_ns=0, nodes=names)]
        if back_ns is not None:
            events.append(StartKubelet(at_ns=back_ns, nodes=names))
        scenario = Scenario(snapshot.taken_at_ns, tuple(events), horizon_ns=900 * SECOND_NS)
        found.append((scenario, predict(snapshot, scenario, configuration)))
    monkeypatch.setattr(PreparedCluster, "_may_leave_out_nodes", lambda *_: False)

    for scenario, prediction in found:
        assert predict(snapshot, scenario, configuration) == prediction


def test_most_nodes_are_bystanders_of_one_that_fails() -> None:
    snapshot = load_files([str(CLUSTER)])
    configuration = resolve_configuration(
        ControllerSettings("1.29", None, {}), snapshot.control_plane
    )
    scenario = Scenario(snapshot.taken_at_ns, (StopKubelet(at_ns=0, nodes=("worker-b1",)),))

    prepared = PreparedCluster(snapshot, configuration, snapshot.taken_at_ns)
    relevant = prepared.relevant(scenario, None)

    assert len(relevant.nodes) + sum(relevant.bystanders.values()) == len(snapshot.nodes)
    assert sum(relevant.bystanders.values()) >= 10


@pytest.mark.parametrize("names", [("worker-b1",), ("worker-a1", "worker-b2", "worker-c1")])
def test_pods_that_take_part_are_the_same_with_an_index_or_without(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = load_files([str(CLUSTER)])
    configuration = resolve_configuration(ControllerSettings("1.29", None, {}), whole.control_plane)
    nowhere = Pod("zz", "terminating", deletion_timestamp_ns=whole.taken_at_ns)
    snapshot = replace(whole, nodes=whole.nodes[:-1], pods=(*whole.pods, nowhere))
    gone = whole.nodes[-1].name
    scenario = Scenario(snapshot.taken_at_ns, (StopKubelet(at_ns=0, nodes=names),))

    def taking_part(indexed_max: int) -> list[Pod]:
        monkeypatch.setattr("kubectl_evictplan.prediction.prepared._INDEXED_MAX", indexed_max)
        prepared = PreparedCluster(snapshot, configuration, snapshot.taken_at_ns)
        return list(prepared.relevant(scenario, None).pods)

    expected = [pod for pod in whole.pods if pod.node_name in (*names, gone)]
    assert taking_part(0) == taking_part(100) == [*expected, nowhere]


def test_a_node_that_joins_another_zone_counts_there(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = load_files([str(CLUSTER)])
    configuration = resolve_configuration(
        ControllerSettings("1.31", None, {}), snapshot.control_plane
    )
    old = next(node for node in snapshot.nodes if node.name == "worker-c1")
    events = (
        StopKubelet(at_ns=0, nodes=("worker-b1",)),
        CreateNode(
            at_ns=10 * SECOND_NS, manifest=Manifest(replace(old, name="worker-c9", uid="u-c9"))
        ),
        StopKubelet(at_ns=60 * SECOND_NS, nodes=("worker-c9",)),
    )
    scenario = Scenario(snapshot.taken_at_ns, events, horizon_ns=400 * SECOND_NS)
    found = predict(snapshot, scenario, configuration)

    monkeypatch.setattr(PreparedCluster, "_may_leave_out_nodes", lambda *_: False)

    assert predict(snapshot, scenario, configuration) == found
    assert "worker-c9" in {report.node for report in found.nodes}
