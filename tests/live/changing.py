"""A connection that changes a simulated server, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from live.api_server import ApiServer
from live.clusters import small_cluster
from live.reading import ENVIRONMENT
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import ClusterApi, LiveNode, Request
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.mutations import cluster_api

TOKEN = "a-token-of-jane"
TAINT = {"key": "maintenance", "value": "true", "effect": "NoExecute"}


def small_writable_cluster(**settings: object) -> WritableServer:
    """The small cluster: n1 to n4, web-0 to web-5 in shop, budget web; jane's token is asked for."""
    server = WritableServer(**{"tokens": {TOKEN}, **settings})  # type: ignore[arg-type]
    small_cluster(server)
    return server


@contextmanager
def changing(api: ApiServer, **flags: object) -> Iterator[ClusterApi]:
    """Connect to the server as jane, on its clock."""
    connection = ConnectionFlags(server=api.url, token=TOKEN)._replace(**flags)
    with cluster_api(
        connection, ENVIRONMENT, world=api.clock.world(api.read_seconds_max)
    ) as cluster:
        yield cluster


def node(cluster: ClusterApi, name: str = "n1") -> LiveNode:
    found = cluster.get_node(name)
    assert found is not None
    return found


def taint_request(cluster: ClusterApi, name: str = "n1") -> Request:
    before = node(cluster, name)
    return cluster.taint_request(before, [*before.raw_taints, TAINT])


def evict_request(cluster: ClusterApi, name: str = "web-0") -> Request:
    pod = cluster.get_pod("shop", name)
    assert pod is not None
    return cluster.evict_request("shop", name, pod.uid, None)
