"""One list of a live cluster, page by page, all of it or nothing.

A page is taken only when it is what was asked for: JSON, of the list's kind, with a resourceVersion
and items. Its objects are decoded into the model and its bytes forgotten before the next one is asked
for. When the server has forgotten the list's beginning (410 Expired, or a continue token it does not
know), everything is thrown away and the list begins anew; the token that 410 offers would join two
different moments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from kubectl_evictplan.errors import (
    Correction,
    ForbiddenError,
    InputError,
    Problem,
    UnreachableError,
)
from kubectl_evictplan.live.problems import unreachable
from kubectl_evictplan.live.resources import Resource
from kubectl_evictplan.live.transport import Answer, Transport, Unusable

BEGINNINGS_MAX = 4
OBJECTS_MAX = 300_000
_EXPIRED = 410


class Page(NamedTuple):
    """Some objects of a list, as bytes, and how many are still to come (0 when not told)."""

    items: list[msgspec.Raw]
    remaining: int
    # Said once by the list, where its objects leave it out.
    api_version: str = ""


class Listed(NamedTuple):
    """A whole list, or why there is none (``not_evaluated``: words for people)."""

    resource_version: str = ""
    objects: int = 0
    version: str = ""
    not_evaluated: str = ""
    denied: bool = False


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    metadata: _ListMeta | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _Status(msgspec.Struct):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None


class _Expired(Exception):
    """The server has forgotten what the continue token stands for."""


class _Refused(Exception):
    """403 or 404 of a whole list."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_LIST = msgspec.json.Decoder(_List)
_STATUS = msgspec.json.Decoder(_Status)


def read_list(
    transport: Transport,
    resource: Resource,
    *,
    namespace: str = "",
    chunk_size: int,
    pages_max: int = 0,
    field_selector: str = "",
    begin: Callable[[], Callable[[Page], None]],
) -> Listed:
    """Read a list. ``begin`` is called whenever it begins (anew) and returns who takes its pages.

    ``pages_max`` stops early, to see whether it may be read at all; 0 is all of it.

    Returns why there is none for what is forbidden or unknown to the server. Raises UnreachableError
    for answers that no API server gives, and InputError for lists beyond ``OBJECTS_MAX``.
    """
    refusal: _Refused | None = None
    for version in resource.versions:
        path = resource.path(version, namespace)
        try:
            return _read_whole(
                transport, resource, path, version, chunk_size, pages_max, field_selector, begin
            )
        except _Refused as refused:
            refusal = refused
            if refused.status != 404:
                break
    assert refusal is not None
    reason = "forbidden" if refusal.status == 403 else "this server has no such API"
    said = f" ({refusal})" if str(refusal) else ""
    return Listed(not_evaluated=f"{reason}{said}", denied=refusal.status == 403)


def _read_whole(
    transport: Transport,
    resource: Resource,
    path: str,
    version: str,
    chunk_size: int,
    pages_max: int,
    field_selector: str,
    begin: Callable[[], Callable[[Page], None]],
) -> Listed:
    for _ in range(BEGINNINGS_MAX):
        try:
            resource_version, count = _read_pages(
                transport, resource, path, chunk_size, pages_max, field_selector, begin()
            )
        except _Expired:
            continue
        return Listed(resource_version, count, version)
    message = f"GET {path}: the list expired {BEGINNINGS_MAX} times before its end"
    correction = Correction((), ("--chunk-size", "5000"))
    problem = Problem(message, location=transport.where(), correction=correction)
    raise UnreachableError(problem)


def _read_pages(
    transport: Transport,
    resource: Resource,
    path: str,
    chunk_size: int,
    pages_max: int,
    field_selector: str,
    take: Callable[[Page], None],
) -> tuple[str, int]:
    query = {"limit": str(chunk_size)} if chunk_size else {}
    if field_selector:
        query["fieldSelector"] = field_selector
    resource_version, count, pages = "", 0, 0
    while True:
        decode = partial(_decode, transport=transport, resource=resource, path=path, query=query)
        found = transport.get(path, query, accept=resource.accept(), decode=decode)
        assert found.metadata is not None
        version = found.metadata.resource_version or ""
        if resource_version and version != resource_version:
            # Another server, or a proxy's memory: the pages are not of one moment.
            raise _Expired
        resource_version = version
        items = found.items if isinstance(found.items, list) else []
        count += len(items)
        if count > OBJECTS_MAX:
            message = f"{resource.plural}: more than {OBJECTS_MAX:,} objects"
            correction = Correction((), ("-n", "NAMESPACE"), example=True)
            raise InputError(Problem(message, location=transport.where(), correction=correction))
        remaining = found.metadata.remaining_item_count or 0
        take(Page(items, remaining, found.api_version or ""))
        pages += 1
        token = found.metadata.continue_
        if not token or pages == pages_max:
            return resource_version, count
        if not items or token == query.get("continue"):
            raise _Expired
        query = {**query, "continue": token}


def _decode(
    answer: Answer, transport: Transport, resource: Resource, path: str, query: dict[str, str]
) -> _List:
    if answer.status != 200:
        raise _refusal(answer, transport, path, query)
    if not answer.is_json:
        said = answer.headers.get("content-type", "") or "no content type"
        raise _not_a_list(transport, path, f"{said[:40]}: {_beginning(answer)}")
    try:
        found = _LIST.decode(answer.body)
    except msgspec.ValidationError:
        raise _not_a_list(transport, path, _beginning(answer)) from None
    except (msgspec.DecodeError, RecursionError):
        raise Unusable("the answer is no valid JSON, or was cut") from None
    if found.kind not in resource.list_kinds() or found.metadata is None:
        raise _not_a_list(transport, path, _beginning(answer))
    if found.items is msgspec.UNSET or not found.metadata.resource_version:
        raise _not_a_list(transport, path, _beginning(answer))
    return found


def _refusal(answer: Answer, transport: Transport, path: str, query: dict[str, str]) -> Exception:
    message = transport.explain(_message(answer))
    if "continue" in query and answer.status in (400, _EXPIRED):
        return _Expired()
    if answer.status == _EXPIRED:
        return _Expired()
    if answer.status == 403 and "cannot impersonate" in message:
        text = f"impersonation denied: {message}"
        correction = Correction((), (), first="kubectl auth can-i impersonate users")
        return ForbiddenError(Problem(text, location=transport.where(), correction=correction))
    if answer.status in (403, 404):
        return _Refused(answer.status, message)
    said = f" ({message})" if message else ""
    return unreachable(f"GET {path}: answered {answer.status}{said}", location=transport.where())


def _message(answer: Answer) -> str:
    """Return what a Status says; an HTML page of a proxy is not shown."""
    try:
        status = _STATUS.decode(answer.body)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return (status.message or "") if status.kind == "Status" else ""


def _beginning(answer: Answer) -> str:
    return answer.body[:80].decode("utf-8", "replace")


def _not_a_list(transport: Transport, path: str, found: str) -> Exception:
    message = f"GET {path}: this is no answer of an API server"
    return unreachable(message, location=transport.where(), got=transport.explain(found))
