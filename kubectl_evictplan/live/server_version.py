"""The release of an API server, as it tells anybody."""

from __future__ import annotations

import msgspec

from kubectl_evictplan.live.answers import Answer
from kubectl_evictplan.live.transport import Transport

_VERSION_TEXT_MAX = 60


class _GitVersion(msgspec.Struct, rename="camel"):
    git_version: str | None = None


def server_version(transport: Transport) -> str:
    """Return the API server's gitVersion, as v1.37.0; "" where it is not told."""

    def decode(answer: Answer) -> str:
        try:
            found = msgspec.json.decode(answer.body, type=_GitVersion)
        except (msgspec.DecodeError, RecursionError):
            return ""
        return (found.git_version or "")[:_VERSION_TEXT_MAX]

    return transport.get("/version", decode=decode)
