"""A simulated API server on which things happen while it is watched.

What happens is a list of instants on the virtual clock. A piece of a watch lets its seconds pass at once,
and tells what happened in them; timestamps are in whole seconds, as an API server writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from live.api_server import KINDS, SECOND_NS, START_NS, ApiServer, Handler

from kubectl_evictplan.kube.timestamps import format_rfc3339

KINDS.setdefault("events", ("", "Event", "v1"))


def time_of(seconds: float) -> str:
    """Return an instant of the virtual clock as the server writes it."""
    return format_rfc3339((START_NS + int(seconds * SECOND_NS)) // SECOND_NS * SECOND_NS)


class Told(NamedTuple):
    """A change, as a watch of pods tells it."""

    version: int
    what: str
    pod: dict[str, Any]


@dataclass
class WatchedServer(ApiServer):
    """``happens``: (seconds of the virtual clock, what then happens). ``forgets``: versions before it are gone."""

    happens: list[tuple[float, Callable[[WatchedServer], None]]] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    forgets: int = 0
    may_watch: bool = True
    # Watches tell bookmarks and nothing else.
    is_silent: bool = False
    # Something on the way ends each piece of a watch at once.
    cuts_short: bool = False

    def __post_init__(self) -> None:
        self.handler = _Watched

    def pass_to(self, seconds: float) -> None:
        """Let everything happen until then."""
        due = sorted((one for one in self.happens if one[0] <= seconds), key=lambda one: one[0])
        for one in due:
            self.happens.remove(one)
            one[1](self)

    def elapsed(self) -> float:
        return self.clock.server_seconds() - START_NS / SECOND_NS

    def pod(self, name: str) -> dict[str, Any]:
        return next(one for one in self.objects["pods"] if one["metadata"]["name"] == name)

    def change(self, what: str, pod: dict[str, Any]) -> None:
        self.resource_version += 1
        pod["metadata"]["resourceVersion"] = str(self.resource_version)
        self.told.append(Told(self.resource_version, what, json.loads(json.dumps(pod))))

    def delete(self, name: str, seconds: float, grace: int = 30, reason: str = "") -> None:
        """Set a pod's deletionTimestamp."""
        pod = self.pod(name)
        pod["metadata"] |= {
            "deletionTimestamp": time_of(int(seconds) + grace),
            "deletionGracePeriodSeconds": grace,
        }
        if reason:
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
            pod.setdefault("status", {}).setdefault("conditions", []).append(condition)
        self.change("MODIFIED", pod)

    def remove(self, name: str) -> None:
        """End a pod's object."""
        pod = self.pod(name)
        self.objects["pods"].remove(pod)
        self.change("DELETED", pod)


def deleting(name: str, seconds: float, **more: Any) -> tuple[float, Callable[[Any], None]]:
    """Return that a pod is deleted then."""
    return seconds, lambda server: server.delete(name, seconds, **more)


def gone(name: str, seconds: float) -> tuple[float, Callable[[Any], None]]:
    """Return that a pod's object ends then."""
    return seconds, lambda server: server.remove(name)


class _Watched(Handler):
    """Answers lists of what is now, by field selector, and watches of pods."""

    api: WatchedServer

    def respond(self, parts: Sequence[str], namespace: str) -> None:
        self.api.pass_to(self.api.elapsed())
        if self.query.get("watch") == "true":
            self._watch()
        else:
            super().respond(parts, namespace)

    def page(self, kind: str, api_version: str, items: list[dict[str, Any]]) -> None:
        super().page(kind, api_version, [one for one in items if self._is_selected(one)])

    def _is_selected(self, item: dict[str, Any]) -> bool:
        for wish in filter(None, self.query.get("fieldSelector", "").split(",")):
            path, _, value = wish.partition("=")
            found: Any = item
            for part in path.split("."):
                found = (found or {}).get(part)
            if found != value:
                return False
        return True

    def _watch(self) -> None:
        api = self.api
        if not api.may_watch:
            self.forbidden()
            return
        since = int(self.query["resourceVersion"])
        if since < api.forgets:
            self.raw(200, self._line("ERROR", {"kind": "Status", "code": 410}), _STREAM)
            return
        end = api.elapsed() + (0 if api.cuts_short else int(self.query["timeoutSeconds"]))
        api.pass_to(end)
        api.clock.advance(end - api.elapsed())
        lines = [
            self._line(one.what, one.pod)
            for one in api.told
            if one.version > since and self._is_selected(one.pod) and not api.is_silent
        ]
        mark = {"kind": "Pod", "metadata": {"resourceVersion": str(api.resource_version)}}
        self.raw(200, b"".join([*lines, self._line("BOOKMARK", mark)]), _STREAM)

    def _line(self, what: str, found: dict[str, Any]) -> bytes:
        return json.dumps({"type": what, "object": found}).encode() + b"\n"


_STREAM = {"Content-Type": "application/json"}
