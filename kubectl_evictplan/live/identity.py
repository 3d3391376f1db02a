"""Which cluster this is, and who asks: what a plan is bound to.

Needs no right beyond those of reading: the namespace is listed, and every authenticated user may ask
who they are (``system:basic-user``).
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping

import msgspec

from kubectl_evictplan.kube.objects import NAMESPACE_SYSTEM
from kubectl_evictplan.live.answers import Answer, Kind, Unusable
from kubectl_evictplan.live.connecting import connected
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.server_version import server_version
from kubectl_evictplan.live.transport import Transport
from kubectl_evictplan.plans.document import ClusterIdentity
from kubectl_evictplan.sources.control_plane import newest_version
from kubectl_evictplan.world import World

# The authorities of this machine; which they are is the machine's affair.
TRUSTED_BY_SYSTEM = "system"
# No TLS, or nobody checks the certificate.
TRUSTED_BLINDLY = "unverified"
_KUBE_SYSTEM = {"fieldSelector": f"metadata.name={NAMESPACE_SYSTEM}", "limit": "1"}
_REVIEWS = "/apis/authentication.k8s.io/{version}/selfsubjectreviews"
# Served by default since 1.28; before, only where an administrator switched it on.
_REVIEW_VERSIONS = ("v1", "v1beta1", "v1alpha1")


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Objects(msgspec.Struct, frozen=True):
    kind: str = ""
    items: list[_Object] | None = None


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class _ReviewStatus(msgspec.Struct, rename="camel", frozen=True):
    user_info: _UserInfo = _UserInfo()


class _Review(msgspec.Struct, frozen=True):
    kind: str = ""
    status: _ReviewStatus = _ReviewStatus()


_OBJECTS = msgspec.json.Decoder(_Objects)
_REVIEW = msgspec.json.Decoder(_Review)


def cluster_identity(
    flags: ConnectionFlags, environ: Mapping[str, str], *, world: World | None = None
) -> ClusterIdentity:
    """Connect and ask; raises what ``connected`` and ``read_identity`` raise."""
    with connected(flags, environ, world=world) as transport:
        return read_identity(transport)


def read_identity(transport: Transport) -> ClusterIdentity:
    """Ask for it; what may not be read or is not served is "".

    Raises AccessError when the server does not know the user, UnreachableError when it does not
    answer.
    """
    return ClusterIdentity(
        cluster_uid=kube_system_uid(transport),
        server=transport.server,
        ca_sha256=_authorities(transport),
        user=_user(transport),
        context=transport.target.context,
        kubernetes_version=newest_version([server_version(transport)]),
    )


def kube_system_uid(transport: Transport) -> str:
    """Ask for the UID of namespace kube-system; "" when it may not be read."""

    def decode(answer: Answer) -> str:
        found = _decoded(answer, _OBJECTS, "NamespaceList")
        if found is None:
            return ""
        named = [one.metadata for one in found.items or () if one.metadata.name == NAMESPACE_SYSTEM]
        return named[0].uid if named else ""

    return transport.get("/api/v1/namespaces", _KUBE_SYSTEM, decode=decode)


def _authorities(transport: Transport) -> str:
    """Return "sha256:<hex>" over the certificates that a certificate authority's file names."""
    context = transport.credentials.tls_context
    if context is None or context.verify_mode == ssl.CERT_NONE:
        return TRUSTED_BLINDLY
    if not transport.credentials.has_own_authority:
        return TRUSTED_BY_SYSTEM
    certificates = sorted(context.get_ca_certs(binary_form=True))
    return f"sha256:{hashlib.sha256(b''.join(certificates)).hexdigest()}"


def _user(transport: Transport) -> str:
    """Return what the server calls the user.

    Before 1.28 nobody can ask: then it is the user's entry in the kubeconfig, "kubeconfig:NAME", or
    who is impersonated.
    """

    def decode(answer: Answer) -> str:
        found = _decoded(answer, _REVIEW, "SelfSubjectReview")
        return found.status.user_info.username if found else ""

    for version in _REVIEW_VERSIONS:
        kind = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "SelfSubjectReview"}
        path = _REVIEWS.format(version=version)
        user = transport.get(path, review=msgspec.json.encode(kind), decode=decode)
        if user:
            return user
    target = transport.target
    if target.impersonation.user:
        return target.impersonation.user
    return f"kubeconfig:{target.user_name}" if target.user_name else ""


def _decoded(answer: Answer, decoder: msgspec.json.Decoder[Kind], name: str) -> Kind | None:
    """Return what was asked for; None where it may not be had or is not served."""
    if answer.status in (403, 404):
        return None
    if answer.status not in (200, 201):
        raise Unusable(f"answered {answer.status}")
    return answer.decoded_as(name, decoder)
