"""The examples that the documentation shows: they load without a warning and do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from building.timeline_runs import facts_of

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.files import LoadedScenario, load_scenario
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.sources.files import load_files

SECOND_NS = 1_000_000_000
TRACES = Path(__file__).resolve().parents[2] / "fixtures" / "traces"
RUNS = sorted(path.parent.name for path in TRACES.glob("*/scenario.yaml"))
RECORDED_CLUSTER = "clusters/kubeadm-15-nodes-1.29.json"


def load(fixtures: Path, cluster: str, scenario: str) -> tuple[ClusterSnapshot, LoadedScenario]:
    snapshot = load_files([str(fixtures / cluster)])
    path = fixtures / scenario
    return snapshot, load_scenario(path.read_text(encoding="utf-8"), path.name, snapshot)


def happened(snapshot: ClusterSnapshot, loaded: LoadedScenario) -> list[tuple[int, str, str, str]]:
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    return facts_of(simulate(snapshot, loaded.scenario, configuration))


def test_the_maintenance_example_evicts_what_does_not_tolerate_it(fixtures_path: Path) -> None:
    snapshot, loaded = load(
        fixtures_path, "examples/mini-cluster.yaml", "examples/maintenance.yaml"
    )
    facts = happened(snapshot, loaded)

    assert snapshot.warnings == ()
    assert loaded.warnings == ()
    assert [fact for fact in facts if fact[1] == "delete"] == [
        (10 * SECOND_NS, "delete", "default/web-1", "taint-eviction"),
        (610 * SECOND_NS, "delete", "default/batch", "taint-eviction"),
    ]


def test_the_zone_outage_example_silences_every_node_of_the_zone(fixtures_path: Path) -> None:
    snapshot, loaded = load(fixtures_path, RECORDED_CLUSTER, "examples/zone-outage.yaml")
    unreachable = "node.kubernetes.io/unreachable:NoExecute"
    tainted = {
        subject
        for _, what, subject, value in happened(snapshot, loaded)
        if what == "taint-added" and value == unreachable
    }

    assert loaded.warnings == ()
    assert {"cp-2", "worker-b1", "worker-b2", "worker-b3", "worker-b4"} == tainted


@pytest.mark.parametrize("run", RUNS)
def test_every_recorded_run_loads(fixtures_path: Path, run: str) -> None:
    _, loaded = load(fixtures_path, f"traces/{run}/cluster.json", f"traces/{run}/scenario.yaml")

    assert loaded.scenario.events
