"""What a real control plane did is found in it while it happens, and afterwards.

A machine that stalls does things later than a prediction that knows nothing of it: such a story is told again, and
after ``TRIES`` its test is skipped with that reason. On a machine that kept up a failure is one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubelets import Kubelets
from objects import create_budget, create_deployment, create_pod, silence_tolerated, tolerate
from plane import SHORT_FLAGS, ControlPlane, Start
from stalls import Stalls

pytestmark = pytest.mark.live

NODES = {"a1": "a", "b1": "b"}
TAINT = ("taint", "node", "a1", "maintenance=yes:NoExecute")
TRIES = 3
# From its start to its first request, on a machine that keeps up.
KUBECTL_SECONDS = 1.0
Story = Callable[[ControlPlane, Kubelets, Stalls], None]


def hold(start: Start, story: Story) -> None:
    """Let a story hold on a machine that kept up, or skip with the reason why none can be told."""
    why = ""
    for _ in range(TRIES):
        with start(NODES) as (plane, kubelets), Stalls(plane, kubelets) as stalls:
            try:
                story(plane, kubelets, stalls)
            except AssertionError as failed:
                if stalls.is_sound:
                    raise
                why = f"stalled for {stalls.seconds:.2f} s: {str(failed).splitlines()[0][:200]}"
            else:
                return
    pytest.skip(f"the machine kept up in none of {TRIES} tries; {why}")


def evictplan(plane: ControlPlane, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kubectl_evictplan", *words]
    return subprocess.Popen(
        [*command, "--kubeconfig", str(plane.kubeconfig())],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip


def following(plane: ControlPlane, prediction: str) -> tuple[subprocess.Popen[str], int]:
    """Return ``verify --watch`` of something that is to begin now, and when that is: it has looked already."""
    begins = int(time.time()) + 5
    words = ("verify", prediction, "-w", "-o", "json", "--started-at", written(begins))
    watching = evictplan(plane, *words)
    assert watching.stderr is not None
    line = watching.stderr.readline()
    assert line.startswith("following"), line
    time.sleep(max(0.0, begins - time.time()))
    return watching, begins


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
    def story(plane: ControlPlane, kubelets: Kubelets, stalls: Stalls) -> None:
        fill(plane, kubelets)
        prediction = predicted(plane, tmp_path, *TAINT)
        watching, begins = following(plane, prediction)
        plane.kubectl(*TAINT)
        # kubectl takes its time to start, which no window knows either.
        stalls.was_late(time.time() - begins - KUBECTL_SECONDS)
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

    hold(start, story)


def test_pods_of_a_dead_node_tell_when_they_were_given_up(start: Start, tmp_path: Path) -> None:
    def story(plane: ControlPlane, kubelets: Kubelets, _: Stalls) -> None:
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
        assert certain
        assert {node["verdict"] for node in certain} == {"inside"}, certain

    hold(start, story)


def test_a_drain_by_somebody_else_is_followed_pod_by_pod(start: Start, tmp_path: Path) -> None:
    def story(plane: ControlPlane, _: Kubelets, stalls: Stalls) -> None:
        create_deployment(plane.api, "web", 3)
        create_budget(plane.api, "web", maxUnavailable=1)
        plane.settle()
        words = ("drain", "a1", "--ignore-daemonsets", "--force")
        prediction = predicted(plane, tmp_path, *words, "--assume-ready", "1s..5s")
        on_node = json.loads(
            plane.kubectl("get", "pods", "--field-selector=spec.nodeName=a1", "-o", "json")
        )
        watching, begins = following(plane, prediction)
        stalls.was_late(time.time() - begins)
        plane.kubectl(*words)
        ledger = answered(watching)

        pods = {pod["metadata"]["name"] for pod in on_node["items"]}
        assert pods
        assert {pod["pod"] for pod in ledger["pods"]} == pods
        assert set(verdicts(ledger).values()) == {"inside"}, ledger["pods"]
        assert {pod["by"]["controller"] for pod in ledger["pods"]} == {"eviction-api"}
        assert [drain["verdict"] for drain in ledger["drains"]] == ["inside"], ledger["drains"]

    hold(start, story)


def test_what_apply_did_is_in_its_ledger_and_verify_follows_the_rest(
    start: Start, tmp_path: Path
) -> None:
    def story(plane: ControlPlane, _: Kubelets, _stalls: Stalls) -> None:
        folder = tmp_path / f"of-{plane.folder.name}"
        folder.mkdir()
        plan = str(folder / "plan.json")
        create_pod(plane.api, "now", "a1", [])
        create_pod(plane.api, "soon", "a1", [tolerate("maintenance", 6)])
        plane.settle()
        made = evictplan(plane, "what-if", *TAINT, "--out", plan)
        assert "carry it out with" in made.communicate(timeout=120)[1]
        applied = evictplan(plane, "apply", plan, "--yes", "--accept-losses", "2")
        told = applied.communicate(timeout=120)
        assert applied.returncode == 0, told
        ledger = answered(evictplan(plane, "verify", plan, "--watch", "-o", "json"))

        kept = json.loads((folder / "plan.ledger.json").read_text())
        assert kept["fingerprint"] == ledger["fingerprint"]
        assert set(verdicts(kept).values()) <= {"inside", "not-yet-due", "unknown"}
        assert ledger["startSource"] == "journal"
        assert verdicts(ledger) == {"now": "inside", "soon": "inside"}

    hold(start, story)
