"""``what-if ... --out`` and ``apply`` as typed, against a server: what was reviewed, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live.api_server import Fault as Armed
from live.applying import drainable_cluster
from live.changing import TOKEN
from live.mutation_faults import FAULTS
from live.simulated_controllers import taint_cordoned_nodes
from live.test_run_faults import READ_CLASS, Site
from live.writable_server import WritableServer

from kubectl_evictplan import cli
from kubectl_evictplan.live import transport
from kubectl_evictplan.world import World

Evictplan = Callable[..., int]


@pytest.fixture
def api() -> Iterator[WritableServer]:
    """A server whose kubelets and controllers are alive, on a clock that only pauses move."""
    server = drainable_cluster(exit_after_seconds=0.05)
    server.controllers.append(taint_cordoned_nodes)
    server.objects["poddisruptionbudgets"][0]["spec"] |= {"minAvailable": 3}
    server.objects["poddisruptionbudgets"][0]["status"]["expectedPods"] = 6
    server.renew_leases()
    with server.serve():
        yield server


@pytest.fixture
def evictplan(
    api: WritableServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Evictplan]:
    """Run the words in a folder of their own, on the server's clock. Returns the exit code."""
    config = tmp_path / "config"
    entries = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "jane"}}],
        "clusters": [{"name": "test", "cluster": {"server": api.url}}],
        "users": [{"name": "jane", "user": {"token": TOKEN}}],
    }
    config.write_text(json.dumps(entries), "utf-8")
    config.chmod(0o600)
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(World.__new__, "__defaults__", tuple(api.clock.world()))
    yield lambda *words: cli.run(words, program="kubectl-evictplan")


def carried_out(api: WritableServer) -> list[str]:
    return [f"{site} {name}" for site, name, _ in api.executed if "leases" not in site]


def test_what_was_reviewed_is_carried_out_and_taken_back(
    api: WritableServer, evictplan: Evictplan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evictplan("what-if", "drain", "n1", "--out", "plan.json") == 0
    assert carried_out(api) == []
    assert evictplan("apply", "plan.json", "--yes") == 0
    assert carried_out(api) == [
        "patch nodes n1",
        "create pods/eviction shop/web-0",
        "create pods/eviction shop/web-4",
    ]
    assert TOKEN not in Path("plan.json").read_text() + Path("plan.journal.jsonl").read_text()
    assert evictplan("apply", "plan.json", "--yes") == 2
    assert evictplan("apply", "--status", "plan.journal.jsonl") == 0
    assert evictplan("apply", "--rollback", "plan.journal.jsonl", "--yes") == 0
    assert "unschedulable" not in api.node("n1")["spec"]
    assert TOKEN not in "".join(capsys.readouterr())


# -- faults while a plan is compared with the cluster ----------------------------------------------------

SITES = {
    "nodes": Site("list nodes", "nodes and pods", 0, 1),
    "pods, first page": Site("list pods", "nodes and pods", 0, 1),
    "pods, next page": Site("list pods", "nodes and pods", 0, 2),
    "budgets": Site("list poddisruptionbudgets", "budgets", 0),
}
# (exit code when it comes once, when it stays). Whatever is not 0 changes nothing.
CODES: dict[str, dict[str, tuple[int, int]]] = {
    "nodes and pods": {
        "login": (0, 5), "denied": (5, 5), "absent": (6, 6), "no API": (6, 6), "refused": (6, 6),
        "redirected": (6, 6), "strange": (6, 6), "page": (6, 6), "garbled": (0, 6),
        "too large": (2, 2), "again": (0, 6),
    },
    # Unread budgets are no budgets that are not there: the prediction is another.
    "budgets": {
        "login": (0, 5), "denied": (4, 4), "absent": (4, 4), "no API": (4, 4), "refused": (6, 6),
        "redirected": (6, 6), "strange": (6, 6), "page": (6, 6), "garbled": (0, 6),
        "too large": (2, 2), "again": (0, 6),
    },
}  # fmt: skip
# One fault of each class: the reader meets all of them in test_fault_matrix.py.
FAULTS_TRIED = {READ_CLASS[fault]: fault for fault in sorted(FAULTS) if "F33" not in fault}
# In the middle of a list 400 means something else: the list begins anew.
FAULTS_TRIED["refused"] = "F17 invalid"
CELLS = [
    pytest.param(fault, site, stays, id=f"{fault}: {site}, {'stays' if stays else 'once'}")
    for fault in FAULTS_TRIED.values()
    for site in SITES
    for stays in (False, True)
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "site", "stays"), CELLS)
def test_a_fault_while_the_plan_is_checked_changes_nothing(
    fault: str, site: str, stays: bool, api: WritableServer, evictplan: Evictplan
) -> None:
    assert evictplan("what-if", "drain", "n1", "--out", "plan.json") == 0
    place = SITES[site]
    expected = CODES[place.kind][READ_CLASS[fault]][stays]
    armed = Armed(place.place, FAULTS[fault].action, after=place.after, times=None if stays else 1)
    api.faults.append(armed)
    code = evictplan("apply", "plan.json", "--yes", "--chunk-size", "4")
    assert armed.fired
    assert code == expected
    if code:
        assert api.executed == []
        api.faults.clear()
        assert evictplan("apply", "plan.json", "--yes") == 0
    assert len(carried_out(api)) == 3
