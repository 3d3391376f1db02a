"""Kubelets without machines: they register nodes, renew leases, start, finish and delete pods."""

from __future__ import annotations

import datetime as dt
import heapq
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import urllib3
from plane import Api

# A quarter of the lease, as kubelets do.
RENEW_EVERY_SECONDS = 1.5
MERGE_PATCH = "application/merge-patch+json"
STATUS_PATCH = "application/strategic-merge-patch+json"


class Kubelets:
    """All kubelets of a test cluster, one thread for what is due and one that watches pods.

    A pod is Ready ``ready_after_seconds`` after its binding and ends ``exit_after_seconds`` after its
    deletion, never later than its grace period. Whoever makes a node or a pod of theirs not Ready, as the
    node lifecycle controller does when the API server was away for long, is contradicted.
    ``stall_seconds`` is the longest time by which anything came late: more than a renewal period spoils
    a recording.
    """

    def __init__(self, api: Api, *, ready_after_seconds: float, exit_after_seconds: float) -> None:
        self._api = api
        self.ready_after_seconds = ready_after_seconds
        self.exit_after_seconds = exit_after_seconds
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._silent: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self._ready: dict[str, dict[str, Any]] = {}
        self.renewals: dict[str, list[float]] = {}
        self.stall_seconds = 0.0
        self._threads = [
            threading.Thread(target=run, args=about, daemon=True)
            for run, *about in (
                (self._work,),
                (self._watch, "/api/v1/pods", self._pod),
                (self._watch, "/api/v1/nodes", self._node),
            )
        ]
        for thread in self._threads:
            thread.start()

    def register(self, name: str, zone: str) -> None:
        """Create the Node and its Lease, Ready, and go on renewing."""
        now = _time()
        node = {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone},
            },
            "spec": {"providerID": f"test:///{zone}/{name}"},
            "status": {
                "capacity": {"cpu": "32", "memory": "64Gi", "pods": "110"},
                "allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"},
                "nodeInfo": {"kubeletVersion": ""},
                "conditions": [_ready_condition()],
            },
        }
        self._api.call("POST", "/api/v1/nodes", node)
        lease = {
            "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 6, "renewTime": now},
        }
        self._api.call("POST", _LEASES, lease)
        self.renewals[name] = [time.time()]
        self._at(time.time() + RENEW_EVERY_SECONDS, lambda: self._renew(name))

    def fall_silent(self, names: Sequence[str]) -> dict[str, float]:
        """Stop the kubelets; returns the last renewal of each, epoch seconds."""
        with self._changed:
            self._silent.update(names)
            return {name: self.renewals[name][-1] for name in names}

    def speak_again(self, names: Sequence[str]) -> None:
        """Let silent kubelets go on: nodes and pods become Ready again."""
        with self._changed:
            self._silent.difference_update(names)
        for name in names:
            self._at(time.time(), partial(self._renew, name))
            self._at(time.time(), partial(self._node_status, name))
        for pod in list(self._ready.values()):
            if pod["spec"]["nodeName"] in names:
                self._at(time.time(), partial(self._status, pod, ready=True))

    def stop(self) -> None:
        """End all threads."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    # -- what is due ----------------------------------------------------------------------------------

    def _at(self, when: float, what: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (when, next(self._order), what))
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                wait = self._due[0][0] - time.time() if self._due else 1.0
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                when, _, what = heapq.heappop(self._due)
            self.stall_seconds = max(self.stall_seconds, time.time() - when)
            try:
                what()
            except Exception:  # noqa: BLE001 - whatever a server that goes away makes of it
                # The API server is away: kubelets go on asking.
                self._at(time.time() + 0.2, what)

    def _renew(self, name: str) -> None:
        with self._changed:
            if name in self._silent:
                return
            now = time.time()
            self.renewals[name].append(now)
        self._ask("PATCH", f"{_LEASES}/{name}", {"spec": {"renewTime": _time()}}, MERGE_PATCH)
        self._at(now + RENEW_EVERY_SECONDS, lambda: self._renew(name))

    # -- what others do -----------------------------------------------------------------------------------

    def _watch(self, path: str, seen: Callable[[dict[str, Any]], None]) -> None:
        while not self._stopped:
            try:
                for line in self._api.watch(path, 300):
                    for event in line.splitlines():
                        seen(json.loads(event)["object"])
            except Exception:  # noqa: BLE001 - whatever a server that goes away makes of it
                time.sleep(0.2)

    def _node(self, node: dict[str, Any]) -> None:
        name = node["metadata"]["name"]
        if name in self.renewals and name not in self._silent and _is_not_ready(node):
            self._at(time.time(), lambda: self._node_status(name))

    def _node_status(self, name: str) -> None:
        if name not in self._silent:
            status = {"status": {"conditions": [_ready_condition()]}}
            self._ask("PATCH", f"/api/v1/nodes/{name}/status", status, STATUS_PATCH)

    def _pod(self, pod: dict[str, Any]) -> None:
        meta, node = pod["metadata"], pod.get("spec", {}).get("nodeName")
        if not node or node not in self.renewals:
            return
        if meta.get("deletionTimestamp") and self._first(meta["uid"], "end"):
            grace = meta.get("deletionGracePeriodSeconds") or 0
            due = time.time() + min(self.exit_after_seconds, grace)
            self._at(due, lambda: self._end(pod))
        elif self._first(meta["uid"], "start"):
            after = self.ready_after_seconds
            self._at(time.time() + min(1.0, after / 2), lambda: self._status(pod, ready=False))
            self._at(time.time() + after, lambda: self._status(pod, ready=True))
        elif meta["uid"] in self._ready and _is_not_ready(pod):
            self._at(time.time(), lambda: self._status(pod, ready=True))

    def _first(self, uid: str, what: str) -> bool:
        new = (uid, what) not in self._seen
        self._seen.add((uid, what))
        return new

    def _status(self, pod: dict[str, Any], *, ready: bool) -> None:
        if pod["spec"]["nodeName"] in self._silent:
            return
        ip = f"10.244.{int(pod['metadata']['uid'][:2], 16)}.{int(pod['metadata']['uid'][2:4], 16)}"
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [
                {"type": each, "status": str(ready), "lastTransitionTime": _time()[:19] + "Z"}
                for each in ("Ready", "ContainersReady")
            ],
        }
        self._ask("PATCH", f"{_path(pod)}/status", {"status": status}, STATUS_PATCH)
        if ready:
            self._ready[pod["metadata"]["uid"]] = pod

    def _end(self, pod: dict[str, Any]) -> None:
        if pod["spec"]["nodeName"] not in self._silent:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            self._ask("DELETE", _path(pod), options)

    def _ask(self, method: str, path: str, body: object, kind: str = "application/json") -> None:
        """Ask for what has to happen in the end; a server that cannot now is asked again."""
        answer = self._api.request(method, path, body, kind)
        if answer.status >= 500 or answer.status in (401, 403, 429):
            raise urllib3.exceptions.HTTPError(f"{method} {path}: {answer.status}")


_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _ready_condition() -> dict[str, str]:
    now = _time()[:19] + "Z"
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def _is_not_ready(one: dict[str, Any]) -> bool:
    conditions = one.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] != "True" for each in conditions)


def _time() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
