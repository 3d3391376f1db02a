"""What a live cluster tells of its control plane: the release of the server, OpenShift's operators."""

from __future__ import annotations

from live.api_server import ApiServer
from live.clusters import openshift_cluster
from live.reading import read


def test_the_release_is_the_servers(api: ApiServer) -> None:
    api.git_version = "v1.29.6-eks-1552ad0"
    control_plane = read(api).control_plane
    assert control_plane.kubernetes_version == "1.29.6"
    assert [str(told_by) for told_by in control_plane.version_told_by] == ["API server"]


def test_openshifts_operators_tell_flags_and_release() -> None:
    with openshift_cluster(ApiServer(git_version="v1.29.6")).serve() as api:
        snapshot = read(api)
    control_plane = snapshot.control_plane
    assert control_plane.provider == "OpenShift"
    assert control_plane.controller_manager == {"node-monitor-grace-period": "2m0s"}
    assert control_plane.api_server == {"default-not-ready-toleration-seconds": "60"}
    # During an upgrade the API server is newer than the controllers that decide.
    assert control_plane.kubernetes_version == "1.28.5"


def test_since_when_the_leader_leads_is_read(api: ApiServer) -> None:
    snapshot = read(api)
    (lease,) = snapshot.infrastructure.leader_leases
    assert snapshot.control_plane.leader_acquire_time_ns == lease.acquire_time_ns
