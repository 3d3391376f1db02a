"""Whether the user may do something, by the server's own word (SelfSubjectAccessReview)."""

from __future__ import annotations

import msgspec

from kubectl_evictplan.apply.cluster import Access
from kubectl_evictplan.live.answers import Answer, Unusable
from kubectl_evictplan.live.transport import Transport

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Status(msgspec.Struct, rename="camel", frozen=True):
    allowed: bool = False
    evaluation_error: str = ""


class _Review(msgspec.Struct, frozen=True):
    kind: str = ""
    status: _Status = _Status()


_REVIEW = msgspec.json.Decoder(_Review)


def is_allowed(transport: Transport, access: Access) -> bool | None:
    """Ask; None when the server does not say, or could not ask everybody who decides.

    A server that has just started says no to everything: it is asked again.
    """
    names = ("namespace", "verb", "group", "resource", "subresource", "name")
    wanted = {name: getattr(access, name) for name in names if getattr(access, name)}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }

    def decode(answer: Answer) -> bool | None:
        allowed = _decision(answer)
        if allowed is False and transport.is_newborn:
            raise Unusable("nothing is allowed, by a server that has just started")
        return allowed

    return transport.get(_PATH, review=msgspec.json.encode(review), decode=decode)


def _decision(answer: Answer) -> bool | None:
    if answer.status not in (200, 201):
        return None
    try:
        found = answer.decoded(_REVIEW)
    except msgspec.ValidationError:
        return None
    if found.kind != "SelfSubjectAccessReview":
        return None
    status = found.status
    return None if status.evaluation_error and not status.allowed else status.allowed
