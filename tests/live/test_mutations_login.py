"""Whose mutations they are: never nobody's, and no credential is ever kept or shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import api_server as faults
from live.api_server import Fault
from live.changing import TOKEN, changing, small_writable_cluster, taint_request
from live.reading import ENVIRONMENT
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import ClusterApi, Outcome
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.mutations import cluster_api


@pytest.fixture
def api() -> Iterator[WritableServer]:
    with small_writable_cluster().serve() as server:
        assert isinstance(server, WritableServer)
        yield server


@pytest.fixture
def cluster(api: WritableServer) -> Iterator[ClusterApi]:
    with changing(api) as connected:
        yield connected


def test_nothing_is_changed_without_a_credential(api: WritableServer) -> None:
    api.tokens = None
    with changing(api, token="") as cluster:
        request = taint_request(cluster)
        reply = cluster.send(request)
    assert (reply.outcome, reply.status) == (Outcome.UNAUTHENTICATED, 0)
    assert "patch nodes" not in api.sites


PLUGIN = """#!/bin/sh
token=$(cat {token})
test -n "$token" || exit 7
printf '{{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",'
printf '"status": {{"token": "%s"}}}}' "$token"
"""


@pytest.fixture
def plugin(api: WritableServer, tmp_path: Path) -> tuple[ConnectionFlags, Path]:
    """Options that log in by a plugin, and the file with the token that it gives."""
    token, program, config = tmp_path / "token", tmp_path / "login", tmp_path / "config"
    program.write_text(PLUGIN.format(token=token), "utf-8")
    program.chmod(0o755)
    exec_entry = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "interactiveMode": "Never",
    }
    entries = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"exec": exec_entry}}],
    }
    config.write_text(json.dumps(entries), "utf-8")
    config.chmod(0o600)
    token.write_text(TOKEN, "utf-8")
    return ConnectionFlags(kubeconfig=str(config)), token


@pytest.mark.parametrize(
    ("next_token", "outcome", "patches"),
    [
        ("a-second-token", Outcome.APPLIED, 2),
        ("an-unknown-token", Outcome.UNAUTHENTICATED, 2),
        ("", Outcome.UNAUTHENTICATED, 1),
    ],
)
def test_an_expired_credential_is_renewed_once_and_only_after_a_401(
    api: WritableServer,
    plugin: tuple[ConnectionFlags, Path],
    next_token: str,
    outcome: Outcome,
    patches: int,
) -> None:
    flags, token = plugin
    with cluster_api(flags, ENVIRONMENT, world=api.clock.world()) as cluster:
        request = taint_request(cluster)
        api.tokens = {"a-second-token"}
        token.write_text(next_token, "utf-8")
        reply = cluster.send(request)
    assert reply.outcome is outcome
    assert api.sites.count("patch nodes") == patches
    assert len(api.executed) == (outcome is Outcome.APPLIED)


def test_no_credential_is_in_what_is_kept_of_a_mutation(
    api: WritableServer, cluster: ClusterApi
) -> None:
    request = taint_request(cluster)
    echo = faults.status(403, "Forbidden", f"bearer {TOKEN} may not")
    api.faults.append(Fault("patch nodes", echo))
    reply = cluster.send(request)
    assert TOKEN not in repr(request) + repr(reply)
    assert "<not shown>" in reply.message


def test_long_words_of_a_server_are_cut(api: WritableServer, cluster: ClusterApi) -> None:
    request = taint_request(cluster)
    api.faults.append(Fault("patch nodes", faults.status(422, "Invalid", "x" * 100_000)))
    assert len(cluster.send(request).message) < 300
