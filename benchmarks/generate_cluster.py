"""Write a large cluster as the API server would list it: one `v1 List` in compact JSON.

Deterministic: the same arguments give the same bytes. Pods are about 8 KB each, a third of that
``managedFields``, with env, probes, volumes, five conditions and container statuses, because what
a reader has to skip is what decides how long loading takes.

    python benchmarks/generate_cluster.py --nodes 5000 --output .bench/cluster-5000.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

PODS_PER_NODE = 30
ZONES = ("eu-1a", "eu-1b", "eu-1c")
# 1,700 of 5,000 nodes live in the first zone; the others share the rest.
FIRST_ZONE_SHARE = 0.34
CREATED = "2026-10-01T08:00:00Z"
ARCHETYPES = ("web", "api", "cache", "worker", "agent", "batch", "gateway")

Json = dict[str, Any]


def uid(*parts: object) -> str:
    """Return a stable, random-looking UID."""
    text = hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"


def zone_of(index: int, nodes: int) -> str:
    """Return the zone of node ``index``: 34 %, 33 %, 33 %."""
    first = round(nodes * FIRST_ZONE_SHARE)
    if index < first:
        return ZONES[0]
    return ZONES[1] if index < first + (nodes - first) // 2 else ZONES[2]


def node_name(index: int) -> str:
    return f"node-{index:05d}"


def fields_of(value: Any) -> Any:
    """Return managedFields' ``fieldsV1`` for an object's content."""
    if isinstance(value, dict):
        return {f"f:{key}": fields_of(item) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        return {f'k:{{"name":"{item["name"]}"}}': {".": {}, **fields_of(item)} for item in value}
    return {}


def managed(manager: str, content: Json, subresource: str = "") -> Json:
    entry: Json = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_of(content),
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def node(index: int, nodes: int) -> Json:
    """Return one Node with 25 images, five conditions and its managedFields."""
    name = node_name(index)
    zone = zone_of(index, nodes)
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": "2026-11-20T21:58:30Z",
            "lastTransitionTime": CREATED,
            "reason": f"Kubelet{kind}",
            "message": f"kubelet reports {kind} as it should be",
        }
        for kind in (
            "NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure", "Ready"
        )
    ]  # fmt: skip
    images = [
        {
            "names": [
                f"registry.example/team/app-{image}@sha256:{uid(name, image) * 2}",
                f"registry.example/team/app-{image}:v1.{image}.0",
            ],
            "sizeBytes": 40_000_000 + image,
        }
        for image in range(25)
    ]
    spec = {"podCIDR": f"10.{index // 256}.{index % 256}.0/24", "providerID": f"cloud:///{name}"}
    status = {
        "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
        "allocatable": {"cpu": "15800m", "memory": "62Gi", "pods": "110"},
        "conditions": conditions,
        "addresses": [{"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {"kubeletVersion": "v1.29.6", "operatingSystem": "linux"},
        "images": images,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid("node", name),
            "resourceVersion": str(100_000 + index),
            "creationTimestamp": CREATED,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.4xlarge",
                "topology.kubernetes.io/region": "eu-1",
                "topology.kubernetes.io/zone": zone,
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            "managedFields": [managed("kubelet", status, "status"), managed("cloud", spec)],
        },
        "spec": spec,
        "status": status,
    }


def lease(index: int) -> Json:
    name = node_name(index)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": "kube-node-lease",
            "uid": uid("lease", name),
            "resourceVersion": str(900_000 + index),
            "creationTimestamp": CREATED,
            "managedFields": [
                managed("kubelet", {"spec": {"holderIdentity": "", "renewTime": ""}})
            ],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": f"2026-11-20T21:59:{50 + index % 10:02d}.{index % 1_000_000:06d}Z",
        },
    }


def container(name: str, variables: int) -> Json:
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "initialDelaySeconds": 5,
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    env: list[Json] = [
        {"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(variables)
    ]
    env.append({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    return {
        "name": name,
        "image": f"registry.example/team/{name}:v1.2.3",
        "args": ["--serve", "--port=8080"],
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
        ],
        "envFrom": [{"configMapRef": {"name": f"{name}-config"}}],
        "env": env,
        "resources": {
            "limits": {"cpu": "500m", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "volumeMounts": [
            {"name": "kube-api-access-@short@", "readOnly": True, "mountPath": "/var/run/secrets"},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def pod_spec(archetype: str) -> Json:
    finite = ARCHETYPES.index(archetype) * 60 or 300
    return {
        "volumes": [
            {
                "name": "kube-api-access-@short@",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt"}},
                    ],
                    "defaultMode": 420,
                },
            },
            {"name": "scratch", "emptyDir": {}}
            if archetype in ("cache", "batch")
            else {"name": "scratch", "configMap": {"name": "scratch", "defaultMode": 420}},
        ],
        "containers": [container(archetype, 4), container("sidecar", 1)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": archetype,
        "nodeName": "@node@",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": finite}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def pod_status(archetype: str) -> Json:
    return {
        "phase": "Running",
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-11-@day@T08:00:10Z",
            }
            for kind in (
                "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady",
                "PodScheduled",
            )
        ],
        "hostIP": "192.0.2.1",
        "podIP": "@ip@",
        "startTime": "2026-11-@day@T08:00:00Z",
        "containerStatuses": [
            {
                "name": name,
                "state": {"running": {"startedAt": "2026-11-@day@T08:00:05Z"}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": f"registry.example/team/{name}:v1.2.3",
                "imageID": f"registry.example/team/{name}@sha256:{uid(name) * 2}",
                "containerID": "containerd://@uid@@uid@",
                "started": True,
            }
            for name in (archetype, "sidecar")
        ],
        "qosClass": "Burstable",
    }  # fmt: skip


def pod_template(archetype: str) -> str:
    """Return a pod as compact JSON with @marks@ where pods differ."""
    spec, status = pod_spec(archetype), pod_status(archetype)
    labels = {
        "app": archetype,
        "app.kubernetes.io/instance": "@owner@",
        "pod-template-hash": "@short@",
    }
    metadata = {
        "name": "@name@",
        "generateName": "@owner@-",
        "namespace": "@namespace@",
        "uid": "@uid@",
        "resourceVersion": "@version@",
        "creationTimestamp": "2026-11-@day@T08:00:00Z",
        "labels": labels,
        "annotations": {"checksum/config": "@uid@", "prometheus.io/scrape": "true"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "@owner@",
                "uid": "@owneruid@",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            managed("kube-controller-manager", {"metadata": {"labels": labels}, "spec": spec}),
            managed("kubelet", {"status": status}, "status"),
        ],
    }
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
    return json.dumps(document, separators=(",", ":"))


def pods(nodes: int) -> Iterator[bytes]:
    """Yield every pod; a ReplicaSet owns ten of them, spread over the nodes."""
    templates = [pod_template(archetype) for archetype in ARCHETYPES]
    total = nodes * PODS_PER_NODE
    for index in range(total):
        group = index // 10
        archetype = group % len(ARCHETYPES)
        short = f"{group:06x}"
        owner = f"{ARCHETYPES[archetype]}-{short}"
        marks = {
            "@name@": f"{owner}-{index % 10:05d}",
            "@namespace@": f"team-{group * 200 // max(1, total):03d}",
            "@uid@": uid("pod", index),
            "@version@": str(1_000_000 + index),
            "@owner@": owner,
            "@owneruid@": uid("owner", group),
            "@short@": short,
            "@node@": node_name(index * 7 % nodes),
            "@day@": f"{1 + index % 19:02d}",
            "@ip@": f"10.{index // 65536}.{index // 256 % 256}.{index % 256}",
        }
        text = templates[archetype]
        for mark, value in marks.items():
            text = text.replace(mark, value)
        yield text.encode()


def items(nodes: int) -> Iterator[bytes]:
    for index in range(nodes):
        yield json.dumps(node(index, nodes), separators=(",", ":")).encode()
    yield from pods(nodes)
    for index in range(nodes):
        yield json.dumps(lease(index), separators=(",", ":")).encode()


def write_cluster(stream: BinaryIO, nodes: int) -> None:
    """Write a List of ``nodes`` nodes, 30 pods on each, and their leases, item by item."""
    stream.write(b'{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[')
    for number, item in enumerate(items(nodes)):
        stream.write(b",\n" if number else b"\n")
        stream.write(item)
    stream.write(b"\n]}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--output", type=Path, help="default: standard output")
    arguments = parser.parse_args()
    if arguments.output is None:
        write_cluster(sys.stdout.buffer, arguments.nodes)
        return
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with arguments.output.open("wb") as stream:
        write_cluster(stream, arguments.nodes)


if __name__ == "__main__":
    main()
