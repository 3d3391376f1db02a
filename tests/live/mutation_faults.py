"""Everything that can happen to a mutation between here and the store, each as one action of the server.

``FAULTS`` is the one table: the numbers are those of the list of faults that this program is built
against (F1 is an expired credential, F33 a server that drips). Who sends the mutation adds what it
expects of each.
"""

from __future__ import annotations

from typing import NamedTuple

from live import api_server as server
from live.api_server import Action, Handler
from live.requests_answered import Refused, failure
from live.writable_server import WritingHandler, executed

from kubectl_evictplan.apply.cluster import Outcome

HTML = "<!DOCTYPE html><html><title>Sign in</title><script>alert(1)</script></html>"


class Fault(NamedTuple):
    """What happens, what the answer alone tells, and whether the mutation was carried out.

    ``eviction`` is what an eviction's answer tells where that differs.
    """

    action: Action
    outcome: Outcome
    executes: bool = False
    eviction: Outcome | None = None
    retry_after_seconds: float | None = None
    # How often the request comes: twice where a login is renewed in between.
    requests: int = 1


def _named(code: int, **more: str) -> Action:
    """Refuse, about the very object that was asked for."""

    def act(handler: Handler) -> None:
        assert isinstance(handler, WritingHandler)
        asked = handler.asked
        name = asked.name or asked.body.get("metadata", {}).get("name", "")
        refused = failure(code, "no", details={"name": name, "kind": asked.plural}, **more)  # type: ignore[arg-type]
        _send(handler, refused)

    return act


def _said(refused: Refused) -> Action:
    return lambda handler: _send(handler, refused)


def _send(handler: Handler, refused: Refused) -> None:
    handler.answer(refused.result.tree, refused.result.code, dict(refused.result.headers))


_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
_SPENT = "The disruption budget web needs 3 healthy pods and has 3 currently"
_UNOBSERVED = "The disruption budget web is still being processed by the server."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_NO = Outcome.REFUSED
_LATER = Outcome.NOT_NOW
_UNKNOWN = Outcome.UNKNOWN

FAULTS = {
    "F1 credentials expired": Fault(
        _said(failure(401, "Unauthorized")), Outcome.UNAUTHENTICATED, requests=2
    ),
    "F6 forbidden": Fault(_said(failure(403, "exceeded quota")), _NO),
    "F7 namespace terminates": Fault(
        _said(
            failure(403, "no", causes=[("NamespaceTerminating", "namespace is being terminated")])
        ),
        _LATER,
    ),
    "F8 not there": Fault(_named(404), Outcome.ABSENT),
    "F10 no such API": Fault(server.text(404, "404 page not found\n"), _NO),
    "F10 no such resource": Fault(
        _said(failure(404, "the server could not find the requested resource", details={})), _NO
    ),
    "F10 method not allowed": Fault(_said(failure(405, "no", reason="MethodNotAllowed")), _NO),
    "F11 another resourceVersion": Fault(_named(409), Outcome.CONFLICT),
    "F13 exists already": Fault(_named(409, reason="AlreadyExists"), Outcome.CONFLICT),
    "F17 invalid": Fault(
        _said(failure(422, "no", causes=[("FieldValueInvalid", "bad")])), _NO
    ),
    "F19 priority and fairness": Fault(
        server.text(429, "Too many requests, please try again later.\n", Retry_After="7"),
        _LATER,
        retry_after_seconds=7,
    ),
    "F19 proxy limits rates": Fault(server.text(429, HTML, "text/html"), _LATER),
    "F19 webhook asks to wait": Fault(
        _said(failure(429, "admission webhook denied the request: later")), _LATER
    ),
    "F20 budget spent": Fault(
        _said(failure(429, _BUDGET, causes=[("DisruptionBudget", _SPENT)])), Outcome.BUDGET
    ),
    "F21 budget not observed": Fault(
        _said(failure(429, _BUDGET, causes=[("DisruptionBudget", _UNOBSERVED)], retry_after=10)),
        Outcome.BUDGET,
        retry_after_seconds=10,
    ),
    "F22 goes down, 429": Fault(
        server.text(
            429, "The apiserver is shutting down, please try again later.\n",
            Retry_After="5", Connection="close",
        ),
        _LATER,
        retry_after_seconds=5,
    ),
    "F22 goes down, 503": Fault(
        _said(failure(503, "apiserver is shutting down", reason="ServiceUnavailable", retry_after=1)),
        _LATER,
        retry_after_seconds=1,
    ),
    "F23 too large": Fault(_said(failure(413, "no", reason="RequestEntityTooLarge")), _NO),
    "F23 bad request": Fault(_said(failure(400, "no")), _NO),
    "F24 several budgets": Fault(_said(failure(500, _SEVERAL)), Outcome.SEVERAL_BUDGETS),
    "F25 internal error": Fault(
        _said(failure(500, "etcdserver: request timed out", reason="InternalError")), _UNKNOWN
    ),
    "F25 internal error, done": Fault(
        executed(_said(failure(500, "no", reason="InternalError"))), _UNKNOWN, executes=True
    ),
    "F25 timeout": Fault(_said(failure(504, "Timeout: request", reason="Timeout")), _UNKNOWN),
    "F25 timeout, done": Fault(
        executed(_said(failure(504, "Timeout: request", reason="Timeout"))), _UNKNOWN, executes=True
    ),
    "F25 store without leader": Fault(
        _said(failure(503, "etcdserver: leader changed", reason="ServiceUnavailable")), _UNKNOWN
    ),
    "F26 gateway 502": Fault(server.text(502, HTML, "text/html"), _UNKNOWN),
    "F26 gateway 503, done": Fault(
        executed(server.text(503, HTML, "text/html")), _UNKNOWN, executes=True
    ),
    "F26 gateway 504, done": Fault(
        executed(server.text(504, HTML, "text/html")), _UNKNOWN, executes=True
    ),
    "F26 request timeout": Fault(server.text(408, HTML, "text/html"), _UNKNOWN),
    "F26 bad gateway's 400": Fault(server.text(400, HTML, "text/html"), _NO),
    "F28 reset, not done": Fault(server.reset, _UNKNOWN),
    "F28 reset, done": Fault(executed(server.reset), _UNKNOWN, executes=True),
    "F28 closed, not done": Fault(server.no_answer, _UNKNOWN),
    "F28 closed, done": Fault(executed(server.no_answer), _UNKNOWN, executes=True),
    "F28 reset within the answer": Fault(
        executed(server.reset_in_body), _UNKNOWN, executes=True
    ),
    "F29 cut, with Content-Length": Fault(
        executed(server.cut_with_length), _UNKNOWN, executes=True
    ),
    "F29 cut within chunks": Fault(executed(server.cut_in_chunks), _UNKNOWN, executes=True),
    "F29 cut, no length": Fault(executed(server.cut_without_length), _UNKNOWN, executes=True),
    "F29 cut gzip": Fault(executed(server.cut_gzip), _UNKNOWN, executes=True),
    "F29 damaged gzip": Fault(server.damaged_gzip, _UNKNOWN),
    "F30 login page": Fault(server.text(200, HTML, "text/html"), _UNKNOWN),
    "F30 another kind": Fault(
        server.json_body({"kind": "Secret", "metadata": {"name": "n1"}}), _UNKNOWN
    ),
    "F30 another object": Fault(
        server.json_body(
            {"kind": "Node", "metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}}
        ),
        _UNKNOWN,
    ),
    "F30 Failure with 200": Fault(
        server.json_body({"kind": "Status", "status": "Failure"}), _UNKNOWN
    ),
    # Of an eviction, a success has no other form.
    "F30 Status with 200": Fault(
        executed(server.json_body({"kind": "Status", "status": "Success"})),
        _UNKNOWN,
        executes=True,
        eviction=Outcome.APPLIED,
    ),
    "F30 an empty object": Fault(server.json_body({}), _UNKNOWN),
    "F30 a list": Fault(server.json_body([1]), _UNKNOWN),
    "F30 redirect": Fault(
        server.text(307, "", Location="https://evil.example/steal"), _NO
    ),
    "F32 gzip bomb": Fault(executed(server.gzip_bomb(2)), _UNKNOWN, executes=True),
    "F33 silence, not done": Fault(server.hang, _UNKNOWN),
    "F33 silence, done": Fault(executed(server.hang), _UNKNOWN, executes=True),
    "F33 drip": Fault(server.drip(8.0, 6), _UNKNOWN, executes=True),
}  # fmt: skip
