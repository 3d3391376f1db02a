"""One list of a live cluster, page by page, all of it or nothing.

A page is taken only when it is what was asked for: JSON, of the list's kind, with a resourceVersion
and items. Its objects are decoded into the model and its bytes forgotten before the next one is asked
for. When the server has forgotten the list's beginning (410 Expired, or a continue token it does not
know), everything is thrown away and the list begins anew; the token that 410 offers would join two
different moments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kubectl_evictplan.errors import (
    Correction,
    ForbiddenError,
    InputError,
    Problem,
    UnreachableError,
)
from kubectl_evictplan.live.answers import Answer, status_of
from kubectl_evictplan.live.problems import unreachable
from kubectl_evictplan.live.resources import Resource
from kubectl_evictplan.live.transport import Transport

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


class _Expired(Exception):
    """The server has forgotten what the continue token stands for."""


class _Refused(Exception):
    """403 or 404 of a whole list."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_LIST = msgspec.json.Decoder(_List)


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
    lists = _Lists(transport, resource, chunk_size, pages_max, field_selector, begin)
    refusal: _Refused | None = None
    for version in resource.versions:
        try:
            return lists.whole(resource.path(version, namespace), version)
        except _Refused as refused:
            refusal = refused
            if refused.status != 404:
                break
    assert refusal is not None
    reason = "forbidden" if refusal.status == 403 else "this server has no such API"
    said = f" ({refusal})" if str(refusal) else ""
    return Listed(not_evaluated=f"{reason}{said}", denied=refusal.status == 403)


class _Lists(NamedTuple):
    """What ``read_list`` was asked for, of whichever version of the API."""

    transport: Transport
    resource: Resource
    chunk_size: int
    pages_max: int
    field_selector: str
    begin: Callable[[], Callable[[Page], None]]

    def whole(self, path: str, version: str) -> Listed:
        """Read all of it; _Refused where that is not allowed or not served."""
        for _ in range(BEGINNINGS_MAX):
            try:
                resource_version, count = self._pages(path, self.begin())
            except _Expired:
                continue
            return Listed(resource_version, count, version)
        message = f"GET {path}: the list expired {BEGINNINGS_MAX} times before its end"
        correction = Correction((), ("--chunk-size", "5000"))
        problem = Problem(message, location=self.transport.where(), correction=correction)
        raise UnreachableError(problem)

    def _pages(self, path: str, take: Callable[[Page], None]) -> tuple[str, int]:
        query = {"limit": str(self.chunk_size)} if self.chunk_size else {}
        if self.field_selector:
            query["fieldSelector"] = self.field_selector
        resource_version, count, pages = "", 0, 0
        while True:
            found = self._page(path, query)
            assert found.metadata is not None
            version = found.metadata.resource_version or ""
            if resource_version and version != resource_version:
                # Another server, or a proxy's memory: the pages are not of one moment.
                raise _Expired
            resource_version = version
            items = found.items if isinstance(found.items, list) else []
            count += len(items)
            if count > OBJECTS_MAX:
                raise self._too_many()
            remaining = found.metadata.remaining_item_count or 0
            take(Page(items, remaining, found.api_version or ""))
            pages += 1
            token = found.metadata.continue_
            if not token or pages == self.pages_max:
                return resource_version, count
            if not items or token == query.get("continue"):
                raise _Expired
            query = {**query, "continue": token}

    def _page(self, path: str, query: dict[str, str]) -> _List:
        def decode(answer: Answer) -> _List:
            if answer.status != 200:
                raise self._refusal(answer, path, query)
            return self._decoded(answer, path)

        return self.transport.get(path, query, accept=self.resource.accept(), decode=decode)

    def _decoded(self, answer: Answer, path: str) -> _List:
        transport = self.transport
        if not answer.is_json:
            said = answer.headers.get("content-type", "") or "no content type"
            said = f"{said[:40]}: {answer.beginning}"
            raise transport.not_of_an_api_server(path, said)
        try:
            found = answer.decoded(_LIST)
        except msgspec.ValidationError:
            raise transport.not_of_an_api_server(path, answer.beginning) from None
        if (
            found.kind not in self.resource.list_kinds()
            or found.metadata is None
            or found.items is msgspec.UNSET
            or not found.metadata.resource_version
        ):
            raise transport.not_of_an_api_server(path, answer.beginning)
        return found

    def _refusal(self, answer: Answer, path: str, query: dict[str, str]) -> Exception:
        status, where = status_of(answer), self.transport.where()
        # An HTML page of a proxy is not shown.
        message = self.transport.explain(status.message if status.kind == "Status" else "")
        if answer.status == _EXPIRED or ("continue" in query and answer.status == 400):
            return _Expired()
        if answer.status == 403 and "cannot impersonate" in message:
            text = f"impersonation denied: {message}"
            correction = Correction((), (), first="kubectl auth can-i impersonate users")
            return ForbiddenError(Problem(text, location=where, correction=correction))
        if answer.status in (403, 404):
            return _Refused(answer.status, message)
        said = f" ({message})" if message else ""
        return unreachable(f"GET {path}: answered {answer.status}{said}", location=where)

    def _too_many(self) -> InputError:
        message = f"{self.resource.plural}: more than {OBJECTS_MAX:,} objects"
        correction = Correction((), ("-n", "NAMESPACE"), example=True)
        return InputError(Problem(message, location=self.transport.where(), correction=correction))
