"""Which cluster this is and who asks: what a plan is bound to."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
from live.api_server import ApiServer, Fault, status
from live.certificates import make_certificates
from live.clusters import small_cluster
from live.reading import ENVIRONMENT
from live.writable_server import WritableServer

from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.identity import cluster_identity
from kubectl_evictplan.plans.document import ClusterIdentity

_MADE = make_certificates()
CERTIFICATES = Path(_MADE.name)


def identity(api: ApiServer, **flags: object) -> ClusterIdentity:
    connection = ConnectionFlags(server=api.url)._replace(**flags)
    return cluster_identity(connection, ENVIRONMENT, world=api.clock.world())


def cluster(**settings: object) -> WritableServer:
    server = WritableServer(**settings)
    small_cluster(server)
    return server


def test_the_cluster_is_known_by_its_namespace_and_the_user_by_the_servers_word() -> None:
    with cluster(user="system:serviceaccount:ops:drainer").serve() as api:
        found = identity(api)
    assert found == ClusterIdentity(
        cluster_uid="uid-Namespace-kube-system",
        server=api.url,
        ca_sha256="unverified",
        user="system:serviceaccount:ops:drainer",
        kubernetes_version="1.29.6",
    )


@pytest.mark.parametrize(("served", "asked"), [("v1", 1), ("v1beta1", 2), ("v1alpha1", 3)])
def test_older_servers_are_asked_by_older_names(served: str, asked: int) -> None:
    with cluster(review_version=served).serve() as api:
        assert identity(api).user == "jane"
    assert len(api.lists("selfsubjectreviews")) == asked


def test_before_1_28_the_user_is_the_entry_of_the_kubeconfig(tmp_path: Path) -> None:
    with cluster(review_version="").serve() as api:
        config = {
            "current-context": "dev",
            "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "jane"}}],
            "clusters": [{"name": "dev", "cluster": {"server": api.url}}],
            "users": [{"name": "jane", "user": {"token": "secret-token"}}],
        }
        path = tmp_path / "config"
        path.write_text(json.dumps(config), "utf-8")
        path.chmod(0o600)
        found = identity(api, kubeconfig=str(path), server="")
        acting = identity(api, as_user="ops", kubeconfig=str(path), server="")
        nobody = identity(api)
    assert (found.user, found.context, acting.user) == ("kubeconfig:jane", "dev", "ops")
    assert nobody.user == ""


def test_a_namespace_that_may_not_be_listed_leaves_the_cluster_unknown() -> None:
    api = cluster(rules=[])
    with api.serve():
        found = identity(api)
    assert (found.cluster_uid, found.user) == ("", "jane")


def test_an_overloaded_server_is_asked_again() -> None:
    api = cluster()
    api.faults.append(Fault("create selfsubjectreviews", status(503, "ServiceUnavailable", "no")))
    with api.serve():
        assert identity(api).user == "jane"


def test_the_digest_of_the_authority_is_of_its_certificates_not_of_its_file(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    authority = CERTIFICATES / "authority.pem"
    commented, both = tmp_path / "commented.pem", tmp_path / "both.pem"
    commented.write_text("# ours\n" + authority.read_text(), "utf-8")
    both.write_text(authority.read_text() + (CERTIFICATES / "stranger.pem").read_text(), "utf-8")
    with cluster(tls=context).serve() as api:
        found, same, other = (
            identity(api, certificate_authority=str(path)).ca_sha256
            for path in (authority, commented, both)
        )
        blind = identity(api, insecure_skip_tls_verify=True).ca_sha256
    assert found == same != other
    assert found.startswith("sha256:")
    assert len(found) == 71
    assert blind == "unverified"
