"""What static control-plane pods tell: flags, release, leader."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_evictplan.sources.control_plane import newest_version, parse_flags

MANAGER = "kube-controller-manager"
API_SERVER = "kube-apiserver"


def static_pod(
    component: str = MANAGER,
    *args: str,
    name: str = "cp-1",
    image: str = "registry.k8s.io/kube-controller-manager:v1.29.6",
    **meta: Any,
) -> dict[str, Any]:
    metadata = {
        "name": f"{component}-{name}",
        "namespace": "kube-system",
        "uid": f"{component}-{name}",
        "labels": {"component": component},
        **meta,
    }
    container = {"name": component, "image": image, "command": [component, *args]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [container]}}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--node-monitor-period=1s"], {"node-monitor-period": "1s"}),
        (["--node-monitor-period", "1s", "x"], {"node-monitor-period": "1s"}),
        (["--node_monitor_period=1s"], {"node-monitor-period": "1s"}),
        (["--node-monitor-period=1s", "--node-monitor-period=2s"], {"node-monitor-period": "2s"}),
        (["--enable-taint-manager", "false"], {"enable-taint-manager": "true"}),
        (["--enable-taint-manager=false"], {"enable-taint-manager": "false"}),
        (["--feature-gates=A=true", "--feature-gates=B=false"],
         {"feature-gates": "A=true,B=false"}),
        (["--node-monitor-period=$(PERIOD)"], {}),
        (["--unknown=1", "node-monitor-period=1s", "-v=2"], {}),
        (["--node-eviction-rate="], {"node-eviction-rate": ""}),
    ],
)  # fmt: skip
def test_flags_are_read_as_the_component_reads_them(
    words: list[str], flags: dict[str, str]
) -> None:
    assert parse_flags(MANAGER, words) == flags


def test_only_known_flags_are_kept(load: Any) -> None:
    pod = static_pod(
        API_SERVER, "--etcd-password=hunter2", "--default-not-ready-toleration-seconds=5"
    )
    snapshot = load(pod)
    assert snapshot.control_plane.api_server == {"default-not-ready-toleration-seconds": "5"}
    assert "hunter2" not in repr(snapshot)


def test_args_and_shells_are_understood(load: Any) -> None:
    shell = static_pod()
    shell["spec"]["containers"][0]["command"] = [
        "/bin/sh",
        "-c",
        "exec kube-controller-manager --node-monitor-period=1s 1>>/var/log/x 2>&1",
    ]
    shell["spec"]["containers"][0]["args"] = ["--node-eviction-rate", "0.5"]
    flags = load(shell).control_plane.controller_manager
    assert flags == {"node-monitor-period": "1s", "node-eviction-rate": "0.5"}


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.k8s.io/kube-controller-manager:v1.29.6", "1.29.6"),
        ("localhost:5000/kcm:1.23.13", "1.23.13"),
        ("x/kcm:v1.30.1-eks-abc", "1.30.1"),
        ("x/kcm:v1.29.6@sha256:" + "0" * 64, "1.29.6"),
        ("x/kcm@sha256:" + "0" * 64, ""),
        ("x/kcm:latest", ""),
        ("x/kcm", ""),
    ],
)
def test_the_release_comes_from_the_image_tag(load: Any, image: str, version: str) -> None:
    assert load(static_pod(image=image)).control_plane.kubernetes_version == version


def test_mirror_pods_without_labels_are_recognised(load: Any) -> None:
    annotations = {"kubernetes.io/config.mirror": "x"}
    pod = static_pod(MANAGER, "--node-monitor-period=1s", labels={}, annotations=annotations)
    assert load(pod).control_plane.controller_manager == {"node-monitor-period": "1s"}


def test_other_namespaces_do_not_count(load: Any) -> None:
    pod = static_pod(MANAGER, "--node-monitor-period=1s", namespace="default")
    assert load(pod).control_plane.controller_manager == {}


def test_what_replicas_dispute_is_not_used(load: Any) -> None:
    common = "--node-eviction-rate=0.5"
    snapshot = load(
        static_pod(MANAGER, common, "--node-monitor-period=1s"),
        static_pod(MANAGER, common, "--node-monitor-period=2s", name="cp-2"),
        static_pod(MANAGER, common, name="cp-3", image="x/kcm:v1.30.0"),
    )
    assert snapshot.control_plane.controller_manager == {"node-eviction-rate": "0.5"}
    assert snapshot.control_plane.kubernetes_version == ""
    messages = [w.message for w in snapshot.warnings if w.code == "control-plane-conflict"]
    assert "(1s, 2s, unset)" in messages[0]
    assert "(1.29.6, 1.30.0)" in messages[1]


def test_the_api_servers_seconds_reach_manifests(load: Any) -> None:
    server = static_pod(API_SERVER, "--default-not-ready-toleration-seconds=120")
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m", "namespace": "d"}}
    pods = {pod.name: pod for pod in load(manifest, server).pods}
    assert [t.toleration_seconds for t in pods["m"].tolerations] == [120, 300]


def test_the_leader_lease_tells_since_when(load: Any) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": MANAGER, "namespace": "kube-system", "uid": "u"},
        "spec": {"acquireTime": "2026-11-20T22:00:00.000000Z", "renewTime": "2026-11-21T00:00:00Z"},
    }
    other = {**lease, "metadata": {"name": "x", "namespace": "kube-system", "uid": "v"}}
    snapshot = load(lease, other)
    assert snapshot.control_plane.leader_acquire_time_ns == 1_795_212_000_000_000_000
    assert snapshot.leases == {}
    assert snapshot.taken_at_source != "newest lease renewal"


def test_versions_compare_by_number() -> None:
    assert newest_version(["v1.9.10", "v1.29.6-eks-1", "x", ""]) == "1.29.6"
    assert newest_version([]) == ""
