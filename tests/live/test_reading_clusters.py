"""What a reading of a live cluster gives: the same as a dump, at the server's time, or an honest gap."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from building.command_lines import Ask, asker
from live import api_server as faults
from live.api_server import START_NS, ApiServer, Fault, VirtualWorld
from live.clusters import (
    endpoint_slice,
    namespace,
    pod,
    service,
    small_cluster,
    volumes,
    webhook,
    workload,
)
from live.reading import outcome, read

from kubectl_evictplan.kube.infrastructure import (
    Endpoint,
    EndpointSlice,
    LeaderLease,
    PodClaims,
    Service,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.live import reader
from kubectl_evictplan.live.resources import RESOURCES
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.snapshot import decode_document, encode_snapshot

SECOND_NS = 1_000_000_000
WHAT_IF = ("what-if", "fail", "node", "n1", "-o", "json")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    return asker(capsys, monkeypatch)


@pytest.fixture
def virtual(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """The server, with whole command lines living in its time."""
    monkeypatch.setattr(reader, "World", api.clock.world)
    return api


def full_cluster() -> ApiServer:
    """A cluster with something of every kind that is read."""
    api = small_cluster(ApiServer())
    api.add(namespace("shop"), service("web"), endpoint_slice("web", "web-0", "web-1"))
    api.add(*volumes("data", "n1"), webhook("guard"))
    api.add(pod("db-0", "n1", volumes=["data"]))
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController"):
        api.add(workload(kind, kind.lower()))
    return api


def dumped(api: ApiServer, tmp_path: Path) -> ClusterSnapshot:
    """Return the cluster as `kubectl get -o json` would have it."""
    items = [item for found in api.objects.values() for item in found]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
    return load_files([str(path)])


PARTS = ("nodes", "pods", "leases", "workloads", "budgets", "webhooks", "infrastructure")


def test_a_live_cluster_is_read_to_the_same_values_as_a_dump_of_it(tmp_path: Path) -> None:
    api = full_cluster()
    with api.serve():
        live = read(api)

    dump = dumped(api, tmp_path)

    for part in PARTS:
        assert getattr(live, part) == getattr(dump, part), part
    # A server tells its release; a dump does not.
    assert live.control_plane.kubernetes_version == "1.29.6"
    assert (
        msgspec.structs.replace(live.control_plane, kubernetes_version="", version_told_by=())
        == dump.control_plane
    )
    assert set(live.kinds_seen) >= set(dump.kinds_seen)


@pytest.mark.parametrize("chunk_size", [0, 1, 2, 3, 500])
def test_the_size_of_pages_never_shows(chunk_size: int) -> None:
    api = full_cluster()
    with api.serve():
        assert read(api, chunk_size=chunk_size).digest == read(api).digest


def test_everything_that_is_read_is_in_the_file() -> None:
    with full_cluster().serve() as api:
        live = read(api)
    assert decode_document(encode_snapshot(live, compress=False)) == live


def test_what_surrounds_pods_is_read_to_few_fields() -> None:
    with full_cluster().serve() as api:
        found = read(api).infrastructure

    assert found.leader_leases == (
        LeaderLease(
            "kube-system",
            "kube-controller-manager",
            "control-plane_6f1c",
            START_NS - 7200 * SECOND_NS,
            START_NS - SECOND_NS,
            15,
            3,
        ),
    )
    assert found.services == (Service("shop", "web", {"app": "web"}),)
    assert found.endpoint_slices == (
        EndpointSlice(
            "shop",
            "web-x7d",
            "web",
            "IPv4",
            (
                Endpoint("web-0", "n1", "a", True, True, False),
                Endpoint("web-1", "n2", "a", True, True, False),
            ),
        ),
    )
    (volume,), (claim,) = found.persistent_volumes, found.persistent_volume_claims
    assert (volume.name, volume.claim_name, volume.local) == ("pv-data", "data", True)
    assert volume.node_affinity == ((("kubernetes.io/hostname", "In", ("n1",)),),)
    assert (claim.name, claim.volume_name, claim.phase) == ("data", "pv-data", "Bound")
    (attachment,) = found.volume_attachments
    assert (attachment.volume_name, attachment.node_name, attachment.attached) == (
        *("pv-data", "n1"),
        True,
    )
    assert found.pod_claims == (PodClaims("shop", "db-0", ("data",)),)


def test_a_prediction_of_the_live_cluster_is_that_of_its_snapshot(
    virtual: ApiServer, ask: Ask, tmp_path: Path
) -> None:
    path = str(tmp_path / "cluster.json.gz")

    live = ask(*WHAT_IF, "-s", virtual.url)
    assert ask("snapshot", "-o", path, "-s", virtual.url).code == 0
    stored = ask(*WHAT_IF, "-f", path)

    assert live.code == stored.code == 0
    assert live.out == stored.out
    assert len(json.loads(live.out)["evictions"]) == 2
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_the_same_cluster_gives_the_same_prediction_from_a_dump(
    virtual: ApiServer, ask: Ask, tmp_path: Path
) -> None:
    dumped(virtual, tmp_path)

    live = json.loads(ask(*WHAT_IF, "-s", virtual.url).out)
    dump = json.loads(
        ask(*WHAT_IF, "-f", str(tmp_path / "dump.json"), "--start", "2026-11-20T22:00:00Z").out
    )

    same = ("evictions", "kept", "cancelled", "nodes", "zones", "joint")
    assert [live[part] for part in same] == [dump[part] for part in same]


# Time


@pytest.mark.parametrize("skew", [-7200.0, -3.0, 0.4, 90.0])
def test_the_servers_clock_counts_not_this_machines(skew: float) -> None:
    api = small_cluster(ApiServer(VirtualWorld(skew_seconds=skew)))
    with api.serve():
        snapshot = read(api)

    assert abs(snapshot.taken_at_ns - START_NS) <= SECOND_NS
    assert snapshot.taken_at_source == "clock of the API server"
    assert snapshot.reading is not None
    assert snapshot.reading.clock_offset_ns == (
        0 if skew == 0.4 else snapshot.taken_at_ns - START_NS - round(skew * SECOND_NS)
    )
    said = [warning.message for warning in snapshot.warnings if warning.code == "clock-offset"]
    assert bool(said) == (abs(skew) > 2)


def test_many_answers_bound_the_offset_better_than_one() -> None:
    from kubectl_evictplan.live.server_clock import ServerClock

    clock, apart = ServerClock(), 10 * SECOND_NS
    for step in range(20):
        server_ns = START_NS + step * SECOND_NS * 137 // 100
        local = server_ns - apart
        clock.note(_date(server_ns), local - 1000, local + 1000)
    assert abs(clock.offset_ns() - apart) < SECOND_NS // 10


def _date(ns: int) -> str:
    from email.utils import formatdate

    return formatdate(ns // SECOND_NS, usegmt=True)


def test_a_server_that_does_not_tell_its_time_is_said() -> None:
    api = small_cluster(ApiServer(tells_time=False))
    with api.serve():
        snapshot = read(api)
    assert snapshot.taken_at_source == "clock of this machine"
    assert "clock-offset" in {warning.code for warning in snapshot.warnings}


def test_lists_that_lie_far_apart_are_said() -> None:
    api = small_cluster(ApiServer())
    api.faults.append(Fault("nodes", faults.waiting(45.0), after=1))
    with api.serve():
        codes = {warning.code for warning in read(api, request_timeout_ns=0).warnings}
    assert "skewed-snapshot" in codes


# Patience


def test_pauses_grow_and_retry_after_is_kept_to() -> None:
    api = small_cluster(ApiServer())
    api.faults.append(Fault("services", faults.reset, times=4))
    api.faults.append(Fault("jobs", faults.text(429, "later", Retry_After="7"), times=1))
    with api.serve():
        read(api)
    # Half of 0.25, 0.5, 1, 2 s; 7 s and half of one.
    assert sorted(api.clock.slept) == [0.125, 0.25, 0.5, 1.0, 7.5]


def test_a_server_that_wants_more_than_a_minute_is_not_waited_for() -> None:
    api = small_cluster(ApiServer())
    api.faults.append(Fault("pods", faults.text(429, "later", Retry_After="61"), times=None))
    with api.serve():
        ended = outcome(api, request_timeout_ns=0)
    assert ended.code == 6
    assert "wants to be asked again only after 61 s" in ended.text
    assert api.clock.slept == []


def test_the_whole_reading_has_a_deadline_and_says_how_to_move_it() -> None:
    api = small_cluster(ApiServer())
    api.faults.append(Fault("pods", faults.text(503, "", Retry_After="50"), times=None))
    with api.serve():
        ended = outcome(api)
    assert ended.code == 6
    assert "not done within 120 s, last: answered 503 Service Unavailable" in ended.text
    assert api.clock.slept == [50.5, 50.5]


def test_nothing_but_reads_is_ever_sent() -> None:
    with full_cluster().serve() as api:
        read(api)
    assert {seen.method for seen in api.seen} == {"GET"}


# What may not be read


@pytest.mark.parametrize("missing", [False, True], ids=["forbidden", "no such API"])
@pytest.mark.parametrize(
    "plural", [resource.plural for resource in RESOURCES if not resource.required]
)
def test_a_kind_that_cannot_be_read_is_not_evaluated_and_changes_nothing_else(
    plural: str, missing: bool
) -> None:
    with full_cluster().serve() as api:
        whole = read(api)
        if missing:
            api.missing.add(plural)
        else:
            api.allowed = {(group, name) for name, (group, *_) in faults.KINDS.items()}
            api.allowed.discard((faults.KINDS[plural][0], plural))
        partly = read(api)

    kind = faults.KINDS[plural][1]
    newer = missing and plural == "csistoragecapacities"
    # Servers before 1.21 have none of it: nothing to warn of, and nothing that was seen.
    assert partly.denied == (() if newer else (kind,))
    assert kind not in partly.kinds_seen
    assert set(whole.kinds_seen) - set(partly.kinds_seen) <= {kind}
    assert (partly.nodes, partly.pods) == (whole.nodes, whole.pods)


def test_a_denied_kind_is_told_with_the_prediction(virtual: ApiServer, ask: Ask) -> None:
    virtual.allowed = {
        (group, plural)
        for plural, (group, *_) in faults.KINDS.items()
        if plural != "poddisruptionbudgets"
    }
    warnings = json.loads(ask(*WHAT_IF, "-s", virtual.url).out)["warnings"]
    told = [one["message"] for one in warnings if one["code"] == "kind-not-readable"]
    assert told == [
        "PodDisruptionBudget could not be listed; unknown is: budgets that the evictions break"
    ]


@pytest.mark.parametrize("denied", [("nodes",), ("pods",), ("nodes", "pods")])
def test_without_nodes_or_pods_the_missing_rule_is_printed(
    virtual: ApiServer, ask: Ask, denied: tuple[str, ...]
) -> None:
    virtual.allowed = {
        (group, plural) for plural, (group, *_) in faults.KINDS.items() if plural not in denied
    }

    answer = ask(*WHAT_IF, "-s", virtual.url)

    assert (answer.code, answer.out) == (5, "")
    rule = f'{{apiGroups: [""], resources: [{", ".join(denied)}], verbs: [list]}}'
    assert f"the missing rule of a ClusterRole is {rule}" in answer.err
    resources = ",".join(denied)
    assert f"--verb=list --resource={resources}" in answer.err.splitlines()[-1]
    assert "--clusterrole=evictplan-reader --user=jane" in answer.err
    # It is known before anything large is read.
    assert {seen.plural for seen in virtual.seen} == {"version", "nodes", "pods"}


def test_the_next_command_is_about_the_same_cluster(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "config"
    content = {
        "contexts": [{"name": "a b", "context": {"cluster": "dev"}}],
        "clusters": [{"name": "dev", "cluster": {"server": "http://127.0.0.1:9"}}],
    }
    path.write_text(json.dumps(content), "utf-8")
    path.chmod(0o600)
    words = (*WHAT_IF, "--kubeconfig", str(path), "--context", "a b", "--request-timeout", "0")

    *_, last = ask(*words).err.splitlines()

    assert last == (
        f"try: kubectl cluster-info --kubeconfig {path} --context 'a b' && kubectl evictplan what-if "
        f"fail node n1 -o json --kubeconfig {path} --context 'a b' --request-timeout 0"
    )


def test_one_namespace_can_be_read_alone(virtual: ApiServer, ask: Ask) -> None:
    virtual.add(pod("other-0", "n1", "bank"))

    answer = json.loads(ask(*WHAT_IF, "-s", virtual.url, "-n", "shop").out)

    assert {row["namespace"] for row in answer["evictions"]} == {"shop"}
    assert "single-namespace" in {warning["code"] for warning in answer["warnings"]}
    paths = {seen.path for seen in virtual.seen}
    assert "/api/v1/namespaces/shop/pods" in paths
    assert "/apis/coordination.k8s.io/v1/leases" in paths


def test_all_namespaces_are_read_however_the_option_stands(virtual: ApiServer, ask: Ask) -> None:
    virtual.add(pod("other-0", "n1", "bank"))
    answer = json.loads(ask(*WHAT_IF, "-s", virtual.url, "-n", "shop", "-A").out)
    assert {row["namespace"] for row in answer["evictions"]} == {"shop", "bank"}


# Progress


def test_progress_names_what_is_read_and_how_much_of_it(api: ApiServer) -> None:
    from kubectl_evictplan.live.flags import ConnectionFlags

    told: list[tuple[str, int, int]] = []
    flags = ConnectionFlags(server=api.url, chunk_size=4)
    reader.read_cluster(
        flags,
        {"HOME": "/nonexistent"},
        world=api.clock.world(),
        progress=lambda *state: told.append(state),
    )
    assert told[:2] == [("pods", 4, 6), ("pods", 6, 0)]
    assert told[-1] == ("leases", 5, 0)
