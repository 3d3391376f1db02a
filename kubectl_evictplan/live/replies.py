"""What an answer to a mutation means: one table, the first line that fits.

Only what is certain is said. A server that refuses says so with a Status of its own, or with a 4xx of
whoever stands before it; what was refused was not done. An answer that does not tell (5xx, cut, not the
object that was asked for) is UNKNOWN, and the object has to be read back.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from kubectl_evictplan.apply.cluster import LiveLease, LiveNode, Outcome, Reply, Request
from kubectl_evictplan.live.answers import (
    Answer,
    Cause,
    Status,
    Unusable,
    retry_after_seconds,
    status_of,
)
from kubectl_evictplan.live.live_objects import WrongObject, lease_of, node_of

_CAUSES_MAX = 20


class Rule(NamedTuple):
    """A line of the table; what is not said fits everything.

    ``cause`` is the reason of one of the causes, ``says`` part of the message; ``names`` that the
    Status is about the object that was asked for.
    """

    statuses: Container[int]
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    cause: str = ""
    says: str = ""
    names: bool = False

    def fits(self, code: int, status: Status, name: str) -> bool:
        """Tell whether the line is about this answer to a request about that object."""
        details = status.details
        causes = (details.causes if details else None) or ()
        return (
            code in self.statuses
            and (not self.reasons or status.reason in self.reasons)
            and (not self.cause or self.cause in {one.reason for one in causes})
            and self.says.lower() in status.message.lower()
            and (not self.names or (details is not None and details.name == name))
        )


RULES = (
    # The Eviction API, by pkg/registry/core/pod/storage/eviction.go. A budget that is spent or not
    # yet observed; the reason of 500 is left empty.
    Rule({429}, Outcome.BUDGET, cause="DisruptionBudget"),
    Rule({500}, Outcome.SEVERAL_BUDGETS, says="more than one PodDisruptionBudget"),
    # A pod of a namespace that goes away: kubectl drain asks again as well.
    Rule({403}, Outcome.NOT_NOW, reasons=("Forbidden",), cause="NamespaceTerminating"),
    # Priority and fairness, a webhook that says so, and a server that goes down
    # (apiserver/pkg/server/filters): before the request was executed.
    Rule({429}, Outcome.NOT_NOW),
    Rule(
        {503}, Outcome.NOT_NOW, reasons=("ServiceUnavailable",), says="apiserver is shutting down"
    ),
    Rule({404}, Outcome.ABSENT, reasons=("NotFound",), names=True),
    Rule({409}, Outcome.CONFLICT, reasons=("Conflict", "AlreadyExists")),
    Rule({401}, Outcome.UNAUTHENTICATED),
    # Somebody waited too long for somebody.
    Rule({408}, Outcome.UNKNOWN),
    # A redirect is not followed. Everything else of 400 to 499 says no: no right, not valid, too large,
    # no such API.
    Rule(range(300, 500), Outcome.REFUSED),
    Rule(range(500, 600), Outcome.UNKNOWN),
)


def reply_to(request: Request, answer: Answer, explain: Callable[[str], str]) -> Reply:
    """Return what the answer means; ``explain`` bounds a server's words and masks secrets."""
    said = Reply(
        Outcome.UNKNOWN,
        status=answer.status,
        retry_after_seconds=retry_after_seconds(answer),
        audit_id=explain(answer.headers.get("audit-id", "")),
    )
    if 200 <= answer.status < 300:
        return _success(request, answer, said)
    status = status_of(answer)
    if not status.is_failure:
        status = Status(message=_beyond_the_server(answer))
    name = object_name(request)
    fitting = (rule.outcome for rule in RULES if rule.fits(answer.status, status, name))
    causes = (status.details.causes if status.details else None) or ()
    return msgspec.structs.replace(
        said,
        outcome=next(fitting, Outcome.UNKNOWN),
        reason=explain(status.reason),
        message=explain(status.message),
        causes=tuple(explain(_words(one)) for one in causes[:_CAUSES_MAX]),
    )


def object_name(request: Request) -> str:
    """Return the name of the object that a request is about."""
    parts = urlsplit(request.path).path.split("/")
    if request.method == "POST" and parts[-1] != "eviction":
        return str(msgspec.json.decode(request.body)["metadata"]["name"])
    return unquote(parts[-2] if parts[-1] == "eviction" else parts[-1])


def _success(request: Request, answer: Answer, said: Reply) -> Reply:
    """Return whether a 2xx is what was asked for: proxies answer with pages of their own."""
    name, wanted = object_name(request), msgspec.json.decode(request.body)
    replace = msgspec.structs.replace
    try:
        if wanted.get("kind") == "Eviction":
            return _evicted(answer, name, said)
        if wanted.get("kind") == "Lease":
            lease = lease_of(answer, name)
            outcome = Outcome.APPLIED if _is_held(lease, wanted["spec"]) else Outcome.CHANGED
            version = lease.resource_version
            return replace(said, outcome=outcome, resource_version=version, lease=lease)
        node = node_of(answer, name)
    except (WrongObject, Unusable, msgspec.ValidationError):
        message = "the answer is not the object that was asked for"
        return replace(said, message=message)
    outcome = Outcome.APPLIED if _is_as_wanted(node, wanted["spec"]) else Outcome.CHANGED
    return replace(said, outcome=outcome, resource_version=node.resource_version, node=node)


def _evicted(answer: Answer, name: str, said: Reply) -> Reply:
    """Read the Status of a success; the API's description promises the Eviction itself instead."""
    status = status_of(answer)
    if status.kind == "Status" and status.status == "Success":
        return msgspec.structs.replace(said, outcome=Outcome.APPLIED)
    found = answer.decoded(_NAMED)
    if found.kind != "Eviction" or found.metadata.name != name:
        raise WrongObject
    return msgspec.structs.replace(said, outcome=Outcome.APPLIED)


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _Meta = _Meta()


_NAMED = msgspec.json.Decoder(_Named)


def _is_as_wanted(node: LiveNode, spec: dict[str, Any]) -> bool:
    """Tell whether a patched node is what the patch says; the order of taints means nothing."""
    if "taints" in spec and _sorted(spec["taints"]) != _sorted(node.raw_taints):
        return False
    return bool(spec.get("unschedulable", node.unschedulable)) == node.unschedulable


def _sorted(taints: Any) -> list[list[tuple[str, Any]]]:
    """Return taints without their empty fields, which servers leave out."""
    return sorted(sorted((key, value) for key, value in one.items() if value) for one in taints)


def _is_held(lease: LiveLease, spec: dict[str, Any]) -> bool:
    return bool(lease.holder_identity == spec.get("holderIdentity", ""))


def _words(cause: Cause) -> str:
    text = cause.message or cause.reason
    return f"{cause.field}: {text}" if cause.field else text


def _beyond_the_server(answer: Answer) -> str:
    """Return a short plain text as it is; a page of a proxy is not shown."""
    if answer.headers.get("content-type", "").lower().startswith("text/plain"):
        return answer.body[:400].decode("utf-8", "replace")
    return "" if answer.is_json else "the answer is not one of an API server"
