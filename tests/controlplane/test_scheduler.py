"""What is said to fit nowhere stays Pending under a real kube-scheduler, for the same reasons.

Nodes without kubelets, and no controllers: nothing but the scheduler changes anything. Each pod is held by a
scheduling gate while its answer is worked out from what the API server tells, then let go.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from drawn.scheduling_worlds import NAMESPACES, csi_node, nodes, pod, storage_classes, volumes
from msgspec.structs import replace
from plane import Api, Start, Unavailable

from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.scheduling.answers import Filter, Fit, Surroundings, Unknown, Verdict
from kubectl_evictplan.kube.scheduling.fit import fits
from kubectl_evictplan.sources.files import load_files

pytestmark = pytest.mark.live

CLUSTERS = 80
PODS_EACH = 6
GATE = "evictplan.dev/hold"
ANSWERS_WITHIN_SECONDS = 20.0
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
FORGOTTEN_WITHIN_SECONDS = 2.5
MERGE = "application/merge-patch+json"
# What the scheduler's events say of a node, and the filter that says it.
TOLD = {
    r"node\(s\) were unschedulable": Filter.NODE_UNSCHEDULABLE,
    r"node\(s\) had untolerated taint": Filter.TAINT_TOLERATION,
    r"node\(s\) didn't match Pod's node affinity": Filter.NODE_AFFINITY,
    r"node\(s\) didn't have free ports": Filter.NODE_PORTS,
    r"Insufficient |Too many pods": Filter.NODE_RESOURCES_FIT,
    # Releases say it in different words.
    r"node(\(s\) unavailable due to| has pod using) PersistentVolumeClaim": Filter.VOLUME_RESTRICTIONS,
    r"node\(s\) exceed max volume count": Filter.NODE_VOLUME_LIMITS,
    r"node\(s\) (had volume node affinity|didn't match PersistentVolume|didn't find available)": Filter.VOLUME_BINDING,
    r"node\(s\) had no available volume zone": Filter.VOLUME_ZONE,
    r"node\(s\) didn't match pod topology spread": Filter.POD_TOPOLOGY_SPREAD,
    r"node\(s\) didn't (match pod (anti-)?affinity|satisfy existing)": Filter.INTER_POD_AFFINITY,
}


def test_what_fits_nowhere_stays_pending_and_what_fits_is_bound_to_one_of_our_nodes(
    start: Start, tmp_path: Path
) -> None:
    verdicts: Counter[str] = Counter()
    filters: Counter[str] = Counter()
    with start({}) as (plane, _):
        plane.stop("kube-controller-manager")
        plane.api.call(
            "POST",
            "/api/v1/namespaces",
            {"metadata": {"name": "team", "labels": NAMESPACES["team"]}},
        )
        for one in storage_classes():
            plane.api.call("POST", "/apis/storage.k8s.io/v1/storageclasses", one)
        for seed in range(CLUSTERS):
            cluster = _Cluster(plane.api, Random(seed), tmp_path / "dump.json")
            for number in range(PODS_EACH):
                fit, told = cluster.try_pod(f"p{number}")
                where = f"seed {seed}, p{number}: {told}, {replace(fit, pods=())}"
                verdicts[fit.verdict] += 1
                if told.node:
                    # Of volumes that are to be made it is not certain that they can be.
                    unknown = fit.unknown == (Unknown.VOLUMES,) and fit.placed
                    assert fit.verdict == Verdict.FITS or unknown, where
                    assert told.node in fit.nodes, where
                else:
                    assert fit.verdict == Verdict.NOWHERE, where
                    found = {refusal.filter: refusal.nodes for refusal in fit.because}
                    assert found == told.reasons, where
                    filters.update(told.reasons.keys())
            cluster.clear()
    # The clusters asked something of every rule.
    assert min(verdicts[Verdict.FITS], verdicts[Verdict.NOWHERE]) > CLUSTERS, verdicts
    assert all(filters[name] >= 5 for name in Filter), filters


class _Told:
    """What the scheduler did with a pod: its node, or how many nodes each filter refused."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.node: str = found["spec"].get("nodeName", "")
        # It has chosen the node, and the volume is not there yet.
        self.waits = False
        conditions = found.get("status", {}).get("conditions") or ()
        reasons = [one for one in conditions if one["type"] == "PodScheduled"]
        self.message = reasons[0].get("message", "") if reasons else ""
        # The scheduler tries again when it has heard of a claim that was created just now.
        self.is_refused = "not found" not in self.message and any(
            one.get("reason") == "Unschedulable" for one in reasons
        )

    def __repr__(self) -> str:
        return self.node or self.message

    @property
    def reasons(self) -> dict[Filter, int]:
        """Nodes by filter; a node that lacks several resources counts once."""
        text = self.message.partition(": ")[2].partition(" preemption:")[0]
        total = int(self.message.partition("/")[2].partition(" ")[0])
        found: Counter[Filter] = Counter()
        for count, reason in re.findall(r"(\d+) ([^,]+?)(?:, |\.|$)", text):
            (name,) = (name for pattern, name in TOLD.items() if re.match(pattern, reason))
            found[name] += int(count)
        if Filter.NODE_RESOURCES_FIT in found:
            others = total - sum(found.values()) + found[Filter.NODE_RESOURCES_FIT]
            found[Filter.NODE_RESOURCES_FIT] = others
        return dict(found)


class _Cluster:
    """One drawn cluster in the API server."""

    def __init__(self, api: Api, draw: Random, dump: Path) -> None:
        self._api, self._draw, self._dump = api, draw, dump
        for node in nodes(draw):
            self._create_node(node)
            self._api.call("POST", CSI_NODES, csi_node(draw, node))
        names = [one["metadata"]["name"] for one in self._list("nodes")]
        self._claims: list[str] = []
        for number in range(draw.randint(0, 5)):
            claim = f"r{number}" if draw.random() < 0.6 else ""
            if claim:
                volume, made = volumes(draw, claim)
                if volume is None:
                    claim = ""
                else:
                    self._create_volume(volume, made)
                    self._claims.append(claim)
            running = pod(draw, f"r{number}", claim=claim)
            running["spec"]["nodeName"] = draw.choice(names)
            self._create_pod(running)

    def try_pod(self, name: str) -> tuple[Fit, _Told]:
        """Return what is said of one more pod, and what the scheduler does with it; then it is bound or gone."""
        claim = name if self._draw.random() < 0.45 else ""
        if claim and self._claims and self._draw.random() < 0.2:
            claim = self._draw.choice(self._claims)
        elif claim:
            self._create_volume(*volumes(self._draw, name))
        new = pod(self._draw, name, claim=claim)
        new["spec"]["schedulingGates"] = [{"name": GATE}]
        path = self._create_pod(new)
        fit = self._predict(self._read(), name)
        self._api.call("PATCH", path, {"spec": {"schedulingGates": None}}, MERGE)
        told = self._await(path, claim)
        if not told.node or told.waits:
            self._api.call("DELETE", f"{path}?gracePeriodSeconds=0")
        if told.waits:
            self._forget(claim)
        return fit, told

    def _forget(self, claim: str) -> None:
        """Until its claim is gone an older scheduler keeps the pod's room; it looks every second."""
        path = f"/api/v1/namespaces/default/persistentvolumeclaims/{claim}"
        self._api.request("DELETE", path)
        self._api.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
        time.sleep(FORGOTTEN_WITHIN_SECONDS)

    def clear(self) -> None:
        """Remove everything."""
        for kind in ("pods", "persistentvolumeclaims"):
            for namespace in NAMESPACES:
                self._api.call(
                    "DELETE", f"/api/v1/namespaces/{namespace}/{kind}?gracePeriodSeconds=0"
                )
        for one in self._api.call("GET", CSI_NODES)["items"]:
            self._api.request("DELETE", f"{CSI_NODES}/{one['metadata']['name']}")
        for kind in ("nodes", "persistentvolumes", "persistentvolumeclaims"):
            for one in self._list(kind):
                meta = one["metadata"]
                space = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
                path = f"/api/v1/{space}{kind}/{meta['name']}"
                # Nobody is there to protect what is in use.
                self._api.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
                self._api.request("DELETE", path)

    def _predict(self, snapshot: ClusterSnapshot, name: str) -> Fit:
        (asked,) = (one for one in snapshot.pods if one.name == name)
        around = Surroundings(
            snapshot.nodes,
            running=[one for one in snapshot.pods if one.node_name],
            infrastructure=snapshot.infrastructure,
            namespaces={one.name: one.labels for one in snapshot.infrastructure.namespaces},
        )
        (fit,) = fits(around, [asked])
        return fit

    def _read(self) -> ClusterSnapshot:
        kinds = {"nodes": "Node", "pods": "Pod", "namespaces": "Namespace",
                 "persistentvolumes": "PersistentVolume",
                 "persistentvolumeclaims": "PersistentVolumeClaim"}  # fmt: skip
        items = [
            {"apiVersion": "v1", "kind": kind, **one}
            for plural, kind in kinds.items()
            for one in self._list(plural)
        ]
        for plural, kind in (("csinodes", "CSINode"), ("storageclasses", "StorageClass")):
            found = self._api.call("GET", f"/apis/storage.k8s.io/v1/{plural}")["items"]
            items += [{"apiVersion": "storage.k8s.io/v1", "kind": kind, **one} for one in found]
        self._dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return load_files([str(self._dump)])

    def _await(self, path: str, claim: str) -> _Told:
        deadline = time.monotonic() + ANSWERS_WITHIN_SECONDS
        claims = "/api/v1/namespaces/default/persistentvolumeclaims"
        while time.monotonic() < deadline:
            told = _Told(self._api.call("GET", path))
            if claim and not told.node:
                # Before it binds the pod the scheduler asks for the volume, and waits; nobody makes it here.
                made = self._api.call("GET", f"{claims}/{claim}")
                notes = made["metadata"].get("annotations", {})
                told.node = notes.get("volume.kubernetes.io/selected-node", "")
                told.waits = bool(told.node)
            if told.node or told.is_refused:
                return told
            time.sleep(0.01)
        raise Unavailable(f"kube-scheduler said nothing of {path}")

    def _list(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.call("GET", f"/api/v1/{kind}")["items"]
        return found

    def _create_node(self, node: dict[str, Any]) -> None:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        self._api.call("POST", "/api/v1/nodes", node)
        self._api.call("PATCH", f"{path}/status", {"status": node["status"]}, MERGE)
        # Admission adds a taint of its own to new nodes.
        self._api.call("PATCH", path, {"spec": {"taints": node["spec"]["taints"]}}, MERGE)

    def _create_pod(self, made: dict[str, Any]) -> str:
        path = f"/api/v1/namespaces/{made['metadata']['namespace']}/pods"
        self._api.call("POST", path, made)
        return f"{path}/{made['metadata']['name']}"

    def _create_volume(self, volume: dict[str, Any] | None, claim: dict[str, Any]) -> None:
        claims = "/api/v1/namespaces/default/persistentvolumeclaims"
        made = self._api.call("POST", claims, claim)
        if volume is None:
            return
        claimed = {
            "namespace": "default",
            "name": made["metadata"]["name"],
            "uid": made["metadata"]["uid"],
        }
        volume["spec"]["claimRef"] = claimed
        self._api.call("POST", "/api/v1/persistentvolumes", volume)
        bound = {"status": {"phase": "Bound"}}
        for path in (
            f"{claims}/{made['metadata']['name']}",
            f"/api/v1/persistentvolumes/{volume['metadata']['name']}",
        ):
            self._api.call("PATCH", f"{path}/status", bound, MERGE)
