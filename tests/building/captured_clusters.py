"""One small cluster, written the way each capturing tool writes it: names to texts, nothing on disk."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from typing import Any

import yaml

Files = dict[str, bytes]
Object = dict[str, Any]


def _meta(name: str, namespace: str = "", **more: Any) -> Object:
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": "7", **more}
    return {**meta, "namespace": namespace} if namespace else meta


def node(name: str) -> Object:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T21:59:00Z"}
    return {"metadata": _meta(name), "status": {"conditions": [ready]}}


def pod(name: str, namespace: str, node_name: str, version: str = "7") -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web",
             "controller": True}  # fmt: skip
    container = {"name": "c", "env": [{"name": "TOKEN", "value": "hunter2"}]}
    return {
        "metadata": {
            **_meta(name, namespace, ownerReferences=[owner]),
            "resourceVersion": version,
        },
        "spec": {"nodeName": node_name, "containers": [container]},
        "status": {"phase": "Running"},
    }


def event(name: str, namespace: str) -> Object:
    return {
        "metadata": _meta(name, namespace),
        "reason": "TaintManagerEviction",
        "involvedObject": {"kind": "Pod", "name": "web-1", "namespace": namespace},
        "lastTimestamp": "2026-11-20T21:58:00Z",
    }


NODES = [node("n1"), node("n2")]
PODS = {"default": [pod("web-1", "default", "n1"), pod("web-2", "default", "n2")],
        "kube-system": [pod("dns", "kube-system", "n1")]}  # fmt: skip
SETS = [{"metadata": _meta("web", "default"), "spec": {"replicas": 2}}]
EVENTS = [event("e1", "default"), event("e2", "default")]
SERVICES = [{"metadata": _meta("web", "default"), "spec": {"clusterIP": "10.0.0.1"}}]
VERSIONS = {"ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "Deployment": "apps/v1"}


def whole(kind: str, item: Object) -> Object:
    """Return an object with the kind that its list left out."""
    return {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, **item}


def as_list(kind: str, items: list[Object]) -> Object:
    """Return a typed list as clients print it: its items do not say their kind."""
    version = VERSIONS.get(kind, "v1")
    return {"kind": f"{kind}List", "apiVersion": version, "metadata": {}, "items": items}


def indented(value: Object) -> bytes:
    """Return JSON as kubectl prints it."""
    return json.dumps(value, indent=4).encode() + b"\n"


def yaml_text(value: Object) -> bytes:
    """Return YAML as kubectl prints it."""
    return yaml.safe_dump(value).encode()


def lists() -> dict[str, Object]:
    """Return what `kubectl cluster-info dump` writes, by file name without its ending."""
    written = {"nodes": as_list("Node", NODES)}
    for namespace, pods in PODS.items():
        mine = namespace == "default"
        for name, kind, items in (
            ("events", "Event", EVENTS if mine else []),
            ("replication-controllers", "ReplicationController", []),
            ("services", "Service", SERVICES if mine else []),
            ("daemonsets", "DaemonSet", []),
            ("deployments", "Deployment", []),
            ("replicasets", "ReplicaSet", SETS if mine else []),
            ("pods", "Pod", pods),
        ):
            written[f"{namespace}/{name}"] = as_list(kind, items)
    return written


def log(namespace: str, name: str, text: bytes) -> bytes:
    """Return a container's log between the lines that kubectl puts around it."""
    title = f"logs for container c of pod {namespace}/{name} ====\n".encode()
    return b"==== START " + title + text + b"==== END " + title


# Logs hold anything: JSON, braces alone on a line, no line end, bytes that are no UTF-8.
LOGS = {
    "default/web-1": b'{"kind": "NodeList"}\n}\n{\n',
    "default/web-2": b"no line end \xff",
    "kube-system/dns": b"",
}


def dump_folder(*, as_yaml: bool = False) -> Files:
    """Return what `kubectl cluster-info dump --output-directory` writes."""
    ending, text = ("yaml", yaml_text) if as_yaml else ("json", indented)
    files = {f"{name}.{ending}": text(value) for name, value in lists().items()}
    for key, said in LOGS.items():
        files[f"{key}/logs.txt"] = log(*key.split("/"), said)
    return files


def printed_dump(*, as_yaml: bool = False, logs: dict[str, bytes] = LOGS) -> bytes:
    """Return what `kubectl cluster-info dump` prints: lists, and after a namespace's pods its logs."""
    chunks: list[bytes] = []
    for name, value in lists().items():
        chunks += [b"---\n"] if as_yaml and chunks else []
        chunks.append(yaml_text(value) if as_yaml else indented(value))
        namespace, _, what = name.partition("/")
        if what == "pods":
            mine = (key.split("/") for key in logs if key.startswith(namespace))
            chunks += [
                log(space, pod_name, logs[f"{space}/{pod_name}"]) for space, pod_name in mine
            ]
    return b"".join(chunks)


def must_gather(root: str = "must-gather.local.1/quay-io-sha256-abc") -> Files:
    """Return what `oc adm must-gather` leaves behind: YAML, logs, and files of other tools."""
    files = {
        "must-gather.local.1/must-gather.log": b"[must-gather] OUT",
        "must-gather.local.1/timestamp": b"2026-11-20",
        f"{root}/version": b"openshift/must-gather\n4.19",
        f"{root}/etcd_info/member_list.json": b'{"members": []}',
        f"{root}/etcd_info/endpoint_health.json": b'[{"health": true}]',
        f"{root}/cluster-scoped-resources/core/configs.yaml": b"just: data\n",
        f"{root}/audit_logs/audit.log.gz": gzip.compress(b"not read"),
        f"{root}/namespaces/default/apps/replicasets.yaml": yaml_text(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSetList",
                "items": [whole("ReplicaSet", one) for one in SETS],
            }
        ),
        f"{root}/namespaces/default/core/events.yaml": yaml_text(as_list("Event", EVENTS)),
        f"{root}/namespaces/default/core/configmaps.yaml": yaml_text(
            as_list("ConfigMap", SERVICES)
        ),
        f"{root}/namespaces/default/core/services.yaml": yaml_text(as_list("Service", SERVICES)),
    }
    for one in NODES:
        name = one["metadata"]["name"]
        path = f"{root}/cluster-scoped-resources/core/nodes/{name}.yaml"
        files[path] = b"---\n" + yaml_text(whole("Node", one))
    for namespace, pods in PODS.items():
        listed = as_list("Pod", [whole("Pod", one) for one in pods])
        files[f"{root}/namespaces/{namespace}/core/pods.yaml"] = yaml_text(listed)
        for one in pods:
            name = one["metadata"]["name"]
            folder = f"{root}/namespaces/{namespace}/pods/{name}"
            files[f"{folder}/{name}.yaml"] = yaml_text(whole("Pod", one))
            files[f"{folder}/c/c/logs/current.log"] = LOGS[f"{namespace}/{name}"]
    return files


def one_file_each(*, compressed: bool = False) -> Files:
    """Return a folder of one JSON file for each object."""
    objects = [whole("Node", one) for one in NODES]
    objects += [whole("Pod", one) for pods in PODS.values() for one in pods]
    objects += [whole("ReplicaSet", one) for one in SETS]
    objects += [whole("Event", one) for one in EVENTS] + [whole("Service", one) for one in SERVICES]
    files = {}
    for number, value in enumerate(objects):
        data = json.dumps(value).encode()
        name = f"objects/{value['kind'].lower()}-{number}.json"
        files[f"{name}.gz" if compressed else name] = gzip.compress(data) if compressed else data
    return files


def tar(files: Files, mode: str = "w") -> bytes:
    """Return the files as a tar; ``mode`` w:gz compresses it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def zipped(files: Files) -> bytes:
    """Return the files as a zip."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()
