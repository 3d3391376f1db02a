"""What static control-plane pods tell: flags, release, leader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_evictplan.sources.component_flags import parse_flags
from kubectl_evictplan.sources.control_plane import newest_version
from kubectl_evictplan.sources.snapshot import encode_snapshot

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


# -- where else flags are visible ---------------------------------------------------------------------


def test_self_hosted_pods_tell_like_static_ones(load: Any) -> None:
    pod = static_pod(
        MANAGER,
        "--node-monitor-period=2s",
        name="5d9c-x7",
        labels={"k8s-app": MANAGER},
        ownerReferences=[{"kind": "ReplicaSet", "name": MANAGER, "controller": True}],
    )
    assert load(pod).control_plane.controller_manager == {"node-monitor-period": "2s"}


def test_kops_runs_it_behind_a_log_runner(load: Any) -> None:
    pod = static_pod(labels={"k8s-app": MANAGER})
    container = pod["spec"]["containers"][0]
    container["command"] = ["/go-runner"]
    container["args"] = ["--log-file=/var/log/kcm.log", "--also-stdout",
                         f"/usr/local/bin/{MANAGER}", "--node-monitor-grace-period=1m0s"]  # fmt: skip
    flags = load(pod).control_plane.controller_manager
    assert flags == {"node-monitor-grace-period": "1m0s"}


def test_finished_pods_and_namesakes_tell_nothing(load: Any) -> None:
    old = static_pod(MANAGER, "--node-monitor-period=1s", name="old")
    old["status"] = {"phase": "Failed"}
    namesake = static_pod(MANAGER, "--node-monitor-period=3s", name="exporter")
    namesake["spec"]["containers"][0] |= {
        "name": "exporter", "image": "x/exporter:v1", "command": ["exporter"],
    }  # fmt: skip
    running = static_pod(MANAGER, "--node-monitor-period=2s")
    control_plane = load(old, namesake, running).control_plane
    assert control_plane.controller_manager == {"node-monitor-period": "2s"}
    assert [str(seen) for seen in control_plane.seen_in[MANAGER]] == [
        "Pod kube-system/kube-controller-manager-cp-1"
    ]


def k3s_node(name: str, *words: str, key: str = "k3s.io/node-args", **more: Any) -> dict[str, Any]:
    annotations = {key: json.dumps(list(words)), "other": "hunter2"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "annotations": annotations},
        "status": {"nodeInfo": {"kubeletVersion": "v1.29.6+k3s2"}, "conditions": []},
        **more,
    }


SECRETS = ("--datastore-endpoint", "postgres://hunter2", "--token", "********")


def test_k3s_tells_by_its_servers_arguments(load: Any) -> None:
    words = ("server", "--kube-controller-manager-arg", "node-monitor-grace-period=20s", *SECRETS,
             "--kube-controller-manager-arg=node-monitor-period=2s", "--disable", "traefik",
             "--kube-apiserver-arg", "default-not-ready-toleration-seconds=30")  # fmt: skip
    agent = ("agent", "--kube-controller-manager-arg=node-monitor-period=9s")
    snapshot = load(k3s_node("s1", *words), k3s_node("s2", *words), k3s_node("a1", *agent))
    control_plane = snapshot.control_plane
    assert control_plane.controller_manager == {
        "node-monitor-grace-period": "20s",
        "node-monitor-period": "2s",
    }
    assert control_plane.api_server == {"default-not-ready-toleration-seconds": "30"}
    assert (control_plane.provider, control_plane.kubernetes_version) == ("k3s", "1.29.6")
    assert [str(seen) for seen in control_plane.origins[MANAGER]["node-monitor-period"]] == [
        "Node s1",
        "Node s2",
    ]
    assert "hunter2" not in repr(snapshot)


def test_k3s_servers_that_differ_are_a_dispute(load: Any) -> None:
    snapshot = load(
        k3s_node("s1", "server", "--kube-controller-manager-arg=node-monitor-period=2s"),
        k3s_node("s2", "server"),
    )
    assert snapshot.control_plane.controller_manager == {}
    (warning,) = [w for w in snapshot.warnings if w.code == "control-plane-conflict"]
    assert "disagree on --node-monitor-period (2s, unset)" in warning.message


@pytest.mark.parametrize("text", ["", "no JSON", "{}", "[]", '["server", 3, null]', "[" * 9999])
def test_odd_arguments_tell_nothing(load: Any, text: str) -> None:
    node = k3s_node("s1")
    node["metadata"]["annotations"]["k3s.io/node-args"] = text
    assert load(node).control_plane.controller_manager == {}


def test_what_runs_counts_more_than_what_configures_it(load: Any) -> None:
    words = ("server", "--kube-controller-manager-arg=node-monitor-period=2s",
             "--kube-controller-manager-arg=node-eviction-rate=0.5")  # fmt: skip
    node = k3s_node("s1", *words, key="rke2.io/node-args")
    node["status"]["nodeInfo"]["kubeletVersion"] = "v1.29.5+rke2r1"
    pod = static_pod(MANAGER, "--node-monitor-period=3s", image="rancher/hardened:v1.29.6-rke2r1")
    control_plane = load(node, pod).control_plane
    assert control_plane.controller_manager == {
        "node-monitor-period": "3s",
        "node-eviction-rate": "0.5",
    }
    assert (control_plane.provider, control_plane.kubernetes_version) == ("RKE2", "1.29.6")


def operator(kind: str, observed: Any, overrides: Any = None) -> dict[str, Any]:
    return {
        "apiVersion": "operator.openshift.io/v1",
        "kind": kind,
        "metadata": {"name": "cluster", "uid": kind},
        "spec": {"observedConfig": observed, "unsupportedConfigOverrides": overrides},
    }


def test_openshift_tells_by_its_operators(load: Any) -> None:
    pod = static_pod(
        MANAGER,
        namespace="openshift-kube-controller-manager",
        labels={"app": MANAGER},
        image="quay.io/openshift@sha256:" + "0" * 64,
    )
    pod["spec"]["containers"][0]["command"] = ["/bin/bash", "-euxo", "pipefail", "-c"]
    pod["spec"]["containers"][0]["args"] = [
        " ".join(
            (
                "if [ -f x ]; then echo; fi\nexec hyperkube kube-controller-manager",
                "--openshift-config=/etc/config.yaml \\\n --node-eviction-rate=0.3 -v=2",
            )
        )
    ]
    operators = [
        operator(
            "KubeControllerManager",
            {"extendedArguments": {
                "node-monitor-grace-period": ["2m0s"],
                "feature-gates": ["A=true", "B=false"],
                "cluster-name": ["hunter2"],
            }, "serviceServingCert": {"certFile": "hunter2"}},
        ),
        operator(
            "KubeAPIServer",
            {"apiServerArguments": {"default-unreachable-toleration-seconds": ["60"]}},
            {"apiServerArguments": {"default-unreachable-toleration-seconds": ["7"]}},
        ),
        {
            "apiVersion": "config.openshift.io/v1",
            "kind": "ClusterOperator",
            "metadata": {"name": MANAGER, "uid": "c"},
            "status": {"versions": [{"name": "operator", "version": "4.16.3"},
                                    {"name": MANAGER, "version": "1.29.6"}]},
        },
    ]  # fmt: skip
    snapshot = load(pod, *operators)
    control_plane = snapshot.control_plane
    assert control_plane.controller_manager == {
        "feature-gates": "A=true,B=false",
        "node-eviction-rate": "0.3",
        "node-monitor-grace-period": "2m0s",
    }
    assert control_plane.api_server == {"default-unreachable-toleration-seconds": "7"}
    assert control_plane.kubernetes_version == "1.29.6"
    assert (
        str(control_plane.origins[MANAGER]["feature-gates"][0]) == "KubeControllerManager cluster"
    )
    assert "hunter2" not in repr(snapshot)
    assert not [w for w in snapshot.warnings if w.code == "control-plane-conflict"]


@pytest.mark.parametrize("observed", [None, {}, {"extendedArguments": 3},
                                      {"extendedArguments": {"node-monitor-period": [1, None]}},
                                      {"extendedArguments": {"node-monitor-period": None}}])  # fmt: skip
def test_odd_operator_configurations_tell_nothing(load: Any, observed: Any) -> None:
    assert load(operator("KubeControllerManager", observed)).control_plane.controller_manager == {}


# -- who leads ------------------------------------------------------------------------------------------


def leader_lease(name: str, acquired: str, renewed: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-system", "uid": name},
        "spec": {"acquireTime": acquired, "renewTime": renewed, "leaseDurationSeconds": 15},
    }


NODE_LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "n1", "namespace": "kube-node-lease", "uid": "l"},
    "spec": {"renewTime": "2026-11-20T22:00:00Z"},
}


@pytest.mark.parametrize(
    ("renewed", "stale"), [("2026-11-20T21:58:00Z", False), ("2026-11-20T21:57:59Z", True)]
)
def test_a_lease_that_nobody_renews_has_no_leader(load: Any, renewed: str, stale: bool) -> None:
    lease = leader_lease(MANAGER, "2026-11-20T20:00:00Z", renewed)
    snapshot = load(lease, NODE_LEASE)
    assert (snapshot.control_plane.leader_acquire_time_ns is None) == stale
    assert ("leader-lease-stale" in {w.code for w in snapshot.warnings}) == stale


def test_who_else_could_run_the_controllers_is_kept(load: Any) -> None:
    times = ("2026-11-20T20:00:00Z", "2026-11-20T21:59:59Z")
    names = (MANAGER, "cloud-controller-manager", "x")
    leases = [leader_lease(name, *times) for name in names]
    kept = load(*leases).infrastructure.leader_leases
    assert [lease.name for lease in kept] == ["cloud-controller-manager", MANAGER]


# -- who runs it ----------------------------------------------------------------------------------------


def marked(name: str, version: str = "", provider_id: str = "", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name,
                     "labels": {key.replace("__", "/"): text for key, text in labels.items()}},
        "spec": {"providerID": provider_id},
        "status": {"nodeInfo": {"kubeletVersion": version}, "conditions": []},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("node", "provider", "mark"),
    [
        (marked("x", "v1.29.6-eks-1552ad0", "aws:///eu-1a/i-0"), "EKS", "kubelet version -eks-"),
        (marked("x", "v1.29.6", "eks-hybrid:///eu/c/mi-0"), "EKS", "providerID eks-hybrid://"),
        (marked("x", **{"eks.amazonaws.com__nodegroup": "g"}), "EKS", "label eks.amazonaws.com/"),
        (marked("x", "v1.29.6-gke.1254000", "gce://p/z/n"), "GKE", "kubelet version -gke."),
        (marked("x", "v1.29.6", **{"cloud.google.com__gke-nodepool": "p"}), "GKE",
         "label cloud.google.com/gke-"),
        (marked("x", "v1.29.6", "azure:///s", **{"kubernetes.azure.com__cluster": "c"}), "AKS",
         "label kubernetes.azure.com/"),
        (marked("x", "v1.29.6+aba1e8d", "aws:///z/i", **{"node.openshift.io__os_id": "rhcos"}),
         "OpenShift", "label node.openshift.io/"),
        (marked("x", "v1.29.6", "aws:///z/i", **{"worker.gardener.cloud__pool": "p"}), "Gardener",
         "label worker.gardener.cloud/"),
        (marked("x", "v1.29.6+k3s1", "k3s://x"), "k3s", "providerID k3s://"),
        (marked("x", "v1.29.6+rke2r1"), "RKE2", "kubelet version +rke2"),
    ],
)  # fmt: skip
def test_providers_are_recognised_by_their_marks(
    load: Any, node: dict[str, Any], provider: str, mark: str
) -> None:
    control_plane = load(node).control_plane
    assert control_plane.provider == provider
    assert control_plane.provider_marks == (f"{mark} (1 node)",)


@pytest.mark.parametrize(
    "node",
    [
        marked("x", "v1.29.6", "aws:///eu-1a/i-0"),
        marked("x", "v1.29.6", "gce://p/z/n"),
        marked("x", "v1.29.6", "azure:///s", **{"topology.kubernetes.io__zone": "z"}),
        marked("x", "v1.29.6-deks-1", "x://k3s://"),
    ],
)
def test_machines_of_a_cloud_are_no_provider(load: Any, node: dict[str, Any]) -> None:
    assert load(node).control_plane.provider == ""


def test_nodes_that_name_several_providers_name_none(load: Any) -> None:
    snapshot = load(marked("x", "v1.29.6+k3s1"), marked("y", "v1.29.6-eks-1"))
    assert snapshot.control_plane.provider == ""
    messages = [w.message for w in snapshot.warnings if w.code == "control-plane-conflict"]
    assert "nodes name several providers (EKS and k3s)" in messages[0]


def test_all_of_it_survives_in_a_snapshot(load: Any) -> None:
    leader = leader_lease(MANAGER, "2026-11-20T20:00:00Z", "2026-11-20T21:59:59Z")
    server = static_pod(API_SERVER, "--default-not-ready-toleration-seconds=5")
    snapshot = load(
        k3s_node("s1", "server"), static_pod(MANAGER, "--node-monitor-period=1s"), server, leader
    )
    assert load(encode_snapshot(snapshot), name="s.json.gz", node=False) == snapshot
    mixed = load(encode_snapshot(snapshot, compress=False)).control_plane
    assert (mixed.controller_manager, mixed.api_server, mixed.provider) == (
        snapshot.control_plane.controller_manager,
        snapshot.control_plane.api_server,
        "k3s",
    )
    assert mixed.leader_acquire_time_ns == snapshot.control_plane.leader_acquire_time_ns
