"""What a real control plane did is found in it while it happens, and afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kubelets import Kubelets
from objects import create_budget, create_deployment, create_pod, silence_tolerated, tolerate
from plane import SHORT_FLAGS, ControlPlane, Start

pytestmark = pytest.mark.live

NODES = {"a1": "a", "b1": "b"}
TAINT = ("taint", "node", "a1", "maintenance=yes:NoExecute")


def evictplan(plane: ControlPlane, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kubectl_evictplan", *words]
    return subprocess.Popen(
        [*command, "--kubeconfig", str(plane.kubeconfig())],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip


def following(plane: ControlPlane, prediction: str) -> subprocess.Popen[str]:
    """Return ``verify --watch`` of something that is to begin now: it has looked already."""
    begins = int(time.time()) + 5
    words = ("verify", prediction, "-w", "-o", "json", "--started-at", written(begins))
    watching = evictplan(plane, *words)
    assert watching.stderr is not None
    line = watching.stderr.readline()
    assert line.startswith("following"), line
    time.sleep(max(0.0, begins - time.time()))
    return watching


def answered(process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, (out, err)
    found: dict[str, Any] = json.loads(out)
    return found


def predicted(plane: ControlPlane, tmp_path: Path, *words: str) -> str:
    path = tmp_path / "prediction.json"
    # Nothing in this cluster tells its flags.
    flags = [part for pair in SHORT_FLAGS.items() for part in ("--controller-flag", "=".join(pair))]
    words = ("what-if", *words, *flags, "-o", "json")
    path.write_text(json.dumps(answered(evictplan(plane, *words))))
    return str(path)


def written(epoch_seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch_seconds))


def verdicts(ledger: dict[str, Any]) -> dict[str, str]:
    return {pod["pod"]: pod["verdict"] for pod in ledger["pods"]}


def fill(plane: ControlPlane, kubelets: Kubelets) -> None:
    create_pod(plane.api, "now", "a1", [])
    create_pod(plane.api, "soon", "a1", [tolerate("maintenance", 6)])
    create_pod(plane.api, "stays", "a1", [tolerate("maintenance")])
    plane.settle()


def test_a_taint_is_followed_to_its_last_eviction_and_found_afterwards(
    start: Start, tmp_path: Path
) -> None:
    with start(NODES) as (plane, kubelets):
        fill(plane, kubelets)
        prediction = predicted(plane, tmp_path, *TAINT)
        watching = following(plane, prediction)
        plane.kubectl(*TAINT)
        ledger = answered(watching)
        time.sleep(2)
        after = answered(evictplan(plane, "verify", prediction, "-o", "json"))

    assert verdicts(ledger) == {"now": "inside", "soon": "inside"}
    by = {pod["by"]["controller"] for pod in ledger["pods"]}
    assert by == {"taint-eviction"}
    assert {pod["deleted"]["toldBy"] for pod in ledger["pods"]} == {"deletion-timestamp"}
    # Nobody saw them go, and they are no more: events and the node's own record tell.
    assert after["startSource"] == "nodes"
    assert verdicts(after) == {"now": "inside", "soon": "inside"}
    assert {pod["deleted"]["toldBy"] for pod in after["pods"]} == {"event"}


def test_pods_of_a_dead_node_tell_when_they_were_given_up(start: Start, tmp_path: Path) -> None:
    with start(NODES) as (plane, kubelets):
        create_pod(plane.api, "db", "a1", silence_tolerated(4))
        plane.settle()
        prediction = predicted(plane, tmp_path, "fail", "node", "a1")
        began = written(time.time())
        kubelets.fall_silent(["a1"])
        ledger = answered(
            evictplan(plane, "verify", prediction, "-w", "-o", "json", "--started-at", began)
        )

    assert verdicts(ledger) == {"db": "inside"}
    certain = [node for node in ledger["nodes"] if node["certainty"] == "certain"]
    assert {node["verdict"] for node in certain} == {"inside"}


def test_a_drain_by_somebody_else_is_followed_pod_by_pod(start: Start, tmp_path: Path) -> None:
    with start(NODES) as (plane, _):
        create_deployment(plane.api, "web", 3)
        create_budget(plane.api, "web", maxUnavailable=1)
        plane.settle()
        words = ("drain", "a1", "--ignore-daemonsets", "--force")
        prediction = predicted(plane, tmp_path, *words, "--assume-ready", "1s..5s")
        on_node = json.loads(
            plane.kubectl("get", "pods", "--field-selector=spec.nodeName=a1", "-o", "json")
        )
        watching = following(plane, prediction)
        plane.kubectl(*words)
        ledger = answered(watching)

    pods = {pod["metadata"]["name"] for pod in on_node["items"]}
    assert pods
    assert {pod["pod"] for pod in ledger["pods"]} == pods
    assert set(verdicts(ledger).values()) == {"inside"}
    assert {pod["by"]["controller"] for pod in ledger["pods"]} == {"eviction-api"}
    assert [drain["verdict"] for drain in ledger["drains"]] == ["inside"]


def test_what_apply_did_is_in_its_ledger_and_verify_follows_the_rest(
    start: Start, tmp_path: Path
) -> None:
    plan = str(tmp_path / "plan.json")
    with start(NODES) as (plane, _):
        create_pod(plane.api, "now", "a1", [])
        create_pod(plane.api, "soon", "a1", [tolerate("maintenance", 6)])
        plane.settle()
        made = evictplan(plane, "what-if", *TAINT, "--out", plan)
        assert "carry it out with" in made.communicate(timeout=120)[1]
        applied = evictplan(plane, "apply", plan, "--yes", "--accept-losses", "2")
        following_it = ("verify", plan, "--watch", "-o", "json")
        told = applied.communicate(timeout=120)
        assert applied.returncode == 0, told
        ledger = answered(evictplan(plane, *following_it))

    kept = json.loads((tmp_path / "plan.ledger.json").read_text())
    assert kept["fingerprint"] == ledger["fingerprint"]
    assert set(verdicts(kept).values()) <= {"inside", "not-yet-due", "unknown"}
    assert ledger["startSource"] == "journal"
    assert verdicts(ledger) == {"now": "inside", "soon": "inside"}
