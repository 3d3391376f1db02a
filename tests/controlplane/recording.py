"""Record what a real control plane does, in the format of ``fixtures/traces`` and ``fixtures/drains``.

A recording is *sound* when the machine kept up: the fake kubelets and the watches were never late by
more than ``stalls.STALL_LIMIT_SECONDS``, and in no second the control plane's threads waited together for a
processor for longer. An unsound one says nothing about a prediction and is repeated.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import urllib3
import yaml
from kubelets import Kubelets
from plane import ControlPlane
from stalls import Stalls

# What cluster.json holds, in the order in which it is listed.
LISTS = (
    "/api/v1/nodes",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "/api/v1/pods",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
)


class Unsound(Exception):
    """The machine stalled: the recording was given up, as it can prove nothing any more."""


class Action(NamedTuple):
    """What is done at an offset: the events it stands for in a scenario file, made when it has landed."""

    at_seconds: float
    do: Callable[[Recording], list[dict[str, Any]]]


class Recording:
    """Watches from construction on; ``run`` carries out actions and writes the three files."""

    def __init__(self, plane: ControlPlane, kubelets: Kubelets, folder: Path) -> None:
        self._plane, self._kubelets, self.folder = plane, kubelets, folder
        self._observed: list[dict[str, Any]] = []
        self._commands: list[dict[str, Any]] = []
        self._running: list[threading.Thread] = []
        self._pods: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._ended = False
        self._start = time.time()
        self._stalls = Stalls(plane, kubelets)

    @property
    def offset_seconds(self) -> float:
        """Now, from the start of the recording."""
        return time.time() - self._start

    def run(self, actions: Sequence[Action], horizon_seconds: float) -> Path:
        """Record from now until the horizon; returns the folder. Raises Unsound as soon as it is."""
        self._write_cluster()
        self._start = time.time()
        # What came late before is in the cluster as it was written down.
        self._stalls.begin()
        for target in (self._watch_pods, self._watch_nodes):
            threading.Thread(target=target, args=(int(horizon_seconds) + 60,), daemon=True).start()
        events: list[dict[str, Any]] = []
        for action in sorted(actions, key=lambda each: each.at_seconds):
            self._sleep_until(action.at_seconds)
            at_seconds = self.offset_seconds
            events += [self._landed(at_seconds, event) for event in action.do(self)]
        self._sleep_until(horizon_seconds)
        for thread in self._running:
            thread.join()
        self._ended = True
        self._stalls.end()
        self._heed_stalls()
        self._write(events, self.offset_seconds)
        return self.folder

    def _landed(self, at_seconds: float, event: dict[str, Any]) -> dict[str, Any]:
        """The event with its time; ``at`` and ``renewed`` in it are epoch seconds."""
        made = {key: value for key, value in event.items() if key not in ("at", "renewed")}
        if "at" in event:
            at_seconds = event["at"] - self._start
        if "renewed" in event:
            made["lastHeartbeat"] = f"{event['renewed'] - self._start:.3f}s"
        return {"at": f"{at_seconds:.3f}s", **made}

    def _sleep_until(self, at_seconds: float) -> None:
        while (left := at_seconds - self.offset_seconds) > 0:
            self._heed_stalls()
            time.sleep(min(left, 0.5))

    def _heed_stalls(self) -> None:
        if not self._stalls.is_sound:
            self._ended = True
            self._stalls.end()
            raise Unsound(f"the machine stalled for {self._stalls.seconds:.2f} s")

    def command(self, *arguments: str) -> None:
        """Start kubectl in the background; its start, end, exit code and lines are recorded."""

        def follow() -> None:
            started = self.offset_seconds
            done = subprocess.run(
                [str(self._plane.binaries / "kubectl"), *arguments],
                env={"KUBECONFIG": str(self._plane.kubeconfig()), "HOME": str(self.folder)},
                capture_output=True,
                text=True,
                check=False,
            )
            self._commands.append(
                {
                    "args": ["kubectl", *arguments],
                    "start": round(started, 3),
                    "end": round(self.offset_seconds, 3),
                    "exit": done.returncode,
                    "lines": done.stderr.splitlines() + done.stdout.splitlines(),
                }
            )

        thread = threading.Thread(target=follow, daemon=True)
        self._running.append(thread)
        thread.start()

    # -- watches ------------------------------------------------------------------------------------------

    def _watch(self, path: str, seconds: int, see: Callable[[str, dict[str, Any]], None]) -> None:
        while not self._ended:
            try:
                for line in self._plane.api.watch(path, seconds):
                    for event in line.splitlines():
                        decoded = json.loads(event)
                        see(decoded["type"], decoded["object"])
            except (urllib3.exceptions.HTTPError, json.JSONDecodeError, KeyError):
                time.sleep(0.05)

    def _watch_pods(self, seconds: int) -> None:
        self._watch("/api/v1/pods", seconds, self._see_pod)

    def _watch_nodes(self, seconds: int) -> None:
        self._watch("/api/v1/nodes", seconds, self._see_node)

    def _note(self, kind: str, what: str, **more: Any) -> None:
        self._observed.append(
            {"t": round(self.offset_seconds, 3), "kind": kind, "what": what, **more}
        )

    def _see_pod(self, change: str, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        said = {"pod": f"{meta['namespace']}/{meta['name']}", "uid": meta["uid"]}
        old = self._pods.get(meta["uid"], {})
        deleting = meta.get("deletionTimestamp")
        if deleting and not old.get("metadata", {}).get("deletionTimestamp"):
            self._note("pod", "deleting", **said, node=pod["spec"].get("nodeName"))
        if change == "DELETED":
            self._note("pod", "gone", **said, node=pod["spec"].get("nodeName"))
        self._pods[meta["uid"]] = pod

    def _see_node(self, change: str, node: dict[str, Any]) -> None:
        name = node["metadata"]["name"]
        old = self._nodes.get(name, {})
        if change == "DELETED":
            self._note("node", "deleted", node=name)
            self._nodes.pop(name, None)
            return
        if _taints(node) != _taints(old):
            self._note("node", "taints", node=name, taints=_taints(node))
        if _ready(node) != _ready(old):
            self._note("node", "ready", node=name, ready=_ready(node))
        self._nodes[name] = node

    # -- the three files --------------------------------------------------------------------------------

    def _write_cluster(self) -> None:
        items = []
        for path in LISTS:
            answer = self._plane.api.call("GET", path)
            kind, version = answer["kind"].removesuffix("List"), answer["apiVersion"]
            items += [{"apiVersion": version, "kind": kind, **item} for item in answer["items"]]
        cluster = {"apiVersion": "v1", "kind": "List", "items": items}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "cluster.json").write_text(json.dumps(cluster), encoding="utf-8")

    def _write(self, events: list[dict[str, Any]], horizon_seconds: float) -> None:
        start = dt.datetime.fromtimestamp(self._start, dt.UTC)
        scenario = {
            "apiVersion": "evictplan.dev/v1alpha1",
            "kind": "Scenario",
            "metadata": {"name": self.folder.name},
            "spec": {
                "start": start.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
                "horizon": f"{horizon_seconds:.3f}s",
                "controller": {
                    "kubernetesVersion": self._plane.release,
                    "flags": self._plane.flags,
                },
                "events": events,
            },
        }
        (self.folder / "scenario.yaml").write_text(yaml.safe_dump(scenario, sort_keys=False))
        observed = {
            "case": self.folder.name,
            "kubernetesVersion": self._plane.release,
            "stallSeconds": self._stalls.seconds,
            "kubelets": {
                "readyAfterSeconds": [{"after": self._kubelets.ready_after_seconds}],
                "exitAfterSeconds": [{"after": self._kubelets.exit_after_seconds}],
            },
            "commands": self._commands,
            "requests": self._requests(),
            "observed": [each for each in self._observed if each["t"] >= 0],
        }
        (self.folder / "observed.json").write_text(json.dumps(observed), encoding="utf-8")

    def _requests(self) -> list[dict[str, Any]]:
        """Evictions, and deletions of pods, from the API server's audit log."""
        found = []
        for entry in self._plane.audit():
            at = _epoch(entry["requestReceivedTimestamp"]) - self._start
            target = entry.get("objectRef") or {}
            eviction = target.get("subresource") == "eviction"
            if at < 0 or not (eviction or (entry["verb"] == "delete" and target.get("name"))):
                continue
            found.append(
                {
                    "t": round(at, 3),
                    "done": round(_epoch(entry["stageTimestamp"]) - self._start, 3),
                    "client": entry["userAgent"].partition("/")[0],
                    "verb": entry["verb"],
                    "resource": "pods/eviction" if eviction else target["resource"],
                    "name": f"{target.get('namespace', '')}/{target['name']}",
                    "code": entry["responseStatus"]["code"],
                }
            )
        return found


def _taints(node: Mapping[str, Any]) -> list[list[str]]:
    taints = node.get("spec", {}).get("taints") or ()
    return [[each["key"], each.get("value", ""), each["effect"]] for each in taints]


def _ready(node: Mapping[str, Any]) -> str | None:
    for condition in node.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return str(condition["status"])
    return None


def _epoch(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
