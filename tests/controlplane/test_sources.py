"""A live cluster, a snapshot of it and a dump of it give the same prediction."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from objects import create_budget, create_deployment, create_pod, tolerate
from plane import ControlPlane, Start

from kubectl_evictplan.sources.reading import GET_COMMAND

pytestmark = pytest.mark.live

# What it names and what only a live reading asks for as well.
DUMP_COMMAND = GET_COMMAND.replace(
    " -A",
    ",volumeattachments,namespaces,validatingwebhookconfigurations,mutatingwebhookconfigurations -A",
)
TAINT = ("what-if", "taint", "node", "a1", "maintenance=yes:NoExecute", "-o", "json")


def evictplan(plane: ControlPlane, *words: str, user: str = "admin") -> str:
    """Run the program against the cluster; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "kubectl_evictplan", *words],
        env=os.environ | {"KUBECONFIG": str(plane.kubeconfig(user))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def prediction(text: str) -> dict[str, Any]:
    """What is predicted, without where it was read from."""
    document: dict[str, Any] = json.loads(text)
    # It is over everything, where it was read from included.
    document.pop("fingerprint")
    for varies in ("sourceDigest", "ignoredKinds"):
        document["inputs"].pop(varies, None)
    # Each was read a moment after the one before.
    warnings = [one for one in document["warnings"] if one["code"] != "start-not-at-snapshot"]
    document["warnings"] = warnings
    return document


@pytest.fixture(scope="module")
def plane(start_for_all: Start) -> Iterator[ControlPlane]:
    with start_for_all({"a1": "a", "b1": "b"}) as (plane, _):
        create_deployment(plane.api, "web", 3, [tolerate("maintenance", 30)])
        create_budget(plane.api, "web", minAvailable=1)
        create_pod(plane.api, "bare", "a1", [])
        # A dump does not list namespaces: one alone would make it suspicious.
        plane.kubectl("create", "namespace", "other")
        create_pod(plane.api, "elsewhere", "b1", [], namespace="other")
        plane.settle()
        yield plane


def test_snapshot_dump_and_live_predict_the_same(plane: ControlPlane, tmp_path: Path) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=10)
    given = (*TAINT, "--start", soon.strftime("%Y-%m-%dT%H:%M:%SZ"))
    # Only the server itself tells its release.
    given = (*given, "--kubernetes-version", plane.release)
    snapshot = tmp_path / "cluster.json.gz"
    evictplan(plane, "snapshot", "-o", str(snapshot))
    dump = tmp_path / "dump.json"
    dump.write_text(plane.kubectl(*DUMP_COMMAND.split()[1:]), encoding="utf-8")
    live = prediction(evictplan(plane, *given))
    assert live["evictions"][0]["pod"] == "bare"
    assert prediction(evictplan(plane, *given, "-f", str(snapshot))) == live
    assert prediction(evictplan(plane, *given, "-f", str(dump))) == live


def test_release_is_detected(plane: ControlPlane) -> None:
    inputs = json.loads(evictplan(plane, *TAINT))["inputs"]
    assert inputs["release"] == {
        "value": plane.release,
        "source": "detected",
        "origin": "API server",
    }
