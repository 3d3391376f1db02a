"""Requests as a simulated API server understands them, and the Status objects that refuse them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Tree = dict[str, Any]
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_STATUSES = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
    415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests",
}  # fmt: skip


class Result(NamedTuple):
    """An answer before it is sent; a ``tree`` that is a string is sent as plain text."""

    code: int
    tree: Any
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


class Refused(Exception):
    """An answer that says no."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.code)
        self.result = result


def failure(
    code: int,
    message: str,
    *,
    reason: str | None = None,
    details: Tree | None = None,
    causes: Sequence[tuple[str, str]] = (),
    retry_after: int = 0,
) -> Refused:
    """Return the Status of a refusal."""
    tree: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    tree["message"] = message
    if reason := _STATUSES.get(code, "") if reason is None else reason:
        tree["reason"] = reason
    details = dict(details or {})
    if causes:
        details["causes"] = [{"reason": kind, "message": text} for kind, text in causes]
    headers = {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
        headers["Retry-After"] = str(retry_after)
    if details:
        tree["details"] = details
    return Refused(Result(code, {**tree, "code": code}, headers))


def not_found(plural: str, name: str, group: str = "") -> Refused:
    """Return the Status of a missing object."""
    named = f"{plural}.{group}" if group else plural
    details = {"name": name, "kind": plural, **({"group": group} if group else {})}
    return failure(404, f'{named} "{name}" not found', details=details)


class Asked(NamedTuple):
    """One request, understood."""

    verb: str
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str
    query: dict[str, str]
    body: Tree
    token: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural

    @property
    def site(self) -> str:
        """What faults are told by: the verb and the resource, and whether it is a dry run."""
        return f"{self.verb} {self.resource}{' dry-run' if self.is_dry else ''}"

    @property
    def is_dry(self) -> bool:
        return self.query.get("dryRun") == "All"


def understood(method: str, parts: list[str], query: dict[str, str], body: Tree) -> Asked:
    group, namespace, name, subresource = "", "", "", ""
    rest = list(parts)
    if parts[0] == "apis":
        group, rest = parts[1], parts[2:]
    elif parts[0] == "api":
        rest = parts[1:]
    if rest == ["v1"]:
        return Asked("get", group, "v1", "api", "", "", "", query, body)
    version, rest = (rest[0], rest[1:]) if len(rest) > 1 else ("", rest)
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, *more = rest
    if more:
        name = more[0]
        subresource = more[1] if len(more) > 1 else ""
    read = "get" if name or plural == "version" else "list"
    verb = read if method == "GET" else _VERBS[method]
    return Asked(verb, group, version, plural, namespace, name, subresource, query, body)
