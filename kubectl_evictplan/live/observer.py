"""Looking at a live cluster while or after something happens to it: looks, a watch of pods, events.

The watch is asked for in short pieces of a few seconds that the server ends by itself, each from where the
one before ended: so it passes through the one transport with its limits, and nodes can be looked at in
between. Whatever breaks the chain (410, an answer that does not come) leads to a new look; that nothing
was told never counts as that nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Generic, TypeVar

import msgspec

from kubectl_evictplan.errors import AccessError, Correction, InputError, Problem
from kubectl_evictplan.kube.sightings import (
    EVENT_REASONS,
    Interval,
    SeenEvent,
    SeenPod,
)
from kubectl_evictplan.live.answers import Answer, Unusable
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.lists import Listed, Page, read_list
from kubectl_evictplan.live.problems import unreachable
from kubectl_evictplan.live.resources import EVENTS, NODES, PODS, Resource
from kubectl_evictplan.live.transport import Transport
from kubectl_evictplan.plans.sightings import Change, Cover, Look
from kubectl_evictplan.sources.sightings import (
    Identity,
    Unreadable,
    UnreadableObjects,
    seen_event,
    seen_node,
    seen_pod,
)
from kubectl_evictplan.world import World

# How long the server keeps one piece of the watch open: what has no timestamp is known to two of them.
PIECE_SECONDS = 1
_PAUSE_SECONDS_MAX = 5.0
# So many nodes are asked for one by one; more are listed, all of them.
_NODES_ONE_BY_ONE_MAX = 20
EVENTS_MAX = 100_000
Seen = TypeVar("Seen")
_WATCHED = frozenset({"ADDED", "MODIFIED", "DELETED"})


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    code: int = 0


class _Expired(Exception):
    """The server no longer knows what happened since."""


class _NotAllowed(Exception):
    """Lists may be read, and watches not."""


class _Found(Generic[Seen]):
    """What a list showed: the objects, and what can be told of those that could not be read."""

    def __init__(self, decode: Callable[[msgspec.Raw], Seen]) -> None:
        self.decode = decode
        self.objects: list[Seen] = []
        self.unreadable: list[Identity] = []


_LINE = msgspec.json.Decoder(_Line)
_VERSIONED = msgspec.json.Decoder(_Versioned)


class Observer:
    """Looks at pods of ``nodes``, at these nodes, and at events about both.

    ``not_evaluated`` has what may not be read, by kind; ``unreadable`` has objects that no API server
    writes. Raises UnreachableError when no answer comes, AccessError when pods may not be listed.
    """

    def __init__(
        self,
        transport: Transport,
        flags: ConnectionFlags,
        nodes: Collection[str],
        world: World | None = None,
    ) -> None:
        self.not_evaluated: dict[str, str] = {}
        self.unreadable = UnreadableObjects()
        self._transport = transport
        self._flags = flags
        self._nodes = frozenset(nodes)
        self._world = world or World()
        self._version = ""
        self._may_watch = True
        self._since_ns = 0
        self._pods: dict[str, SeenPod] = {}
        # Of the newest list and of the watch since.
        self._unreadable_pods: frozenset[str] = frozenset()
        self._must_list = False
        self._pause_seconds = 0.0
        namespaces = frozenset({flags.namespace}) if flags.namespace else None
        self._cover = Cover(namespaces, self._nodes)

    def now_ns(self) -> int:
        """Return the server's time."""
        return self._transport.server_now_ns()

    def look(self) -> Look:
        """List pods and nodes; a watch goes on from here."""
        self._transport.begin_reading()
        sent_ns = self._world.wall_ns()
        found = _Found(seen_pod)
        listed = self._list(PODS, found, self._on_one_node())
        if listed.not_evaluated:
            raise self._denied(listed)
        self._version = listed.resource_version
        pods = tuple(pod for pod in found.objects if pod.node in self._nodes)
        self._unreadable_pods = frozenset(one.uid for one in found.unreadable)
        self._must_list = False
        if not self._transport.clock.is_known:
            self.not_evaluated["clock of the server"] = "not told: this machine's is used"
        at = self._between(sent_ns)
        self._since_ns = at.earliest_ns
        self._pods = {pod.uid: pod for pod in pods}
        return Look(at, pods, None, self._cover, self._unreadable_pods)

    def now(self) -> Look:
        """Return what the watch has told up to the end of its last piece."""
        at = Interval(self._since_ns, self._between(self._world.wall_ns()).latest_ns)
        pods = tuple(self._pods.values())
        return Look(at, pods, None, self._cover, self._unreadable_pods)

    def confirm(self) -> Look:
        """List pods while the watch goes on from where it was: what it did not tell did not therefore not happen."""
        since_ns, version, must_list = self._since_ns, self._version, self._must_list
        found = self.look()
        # What happened just before this list is still to be told, with its instant.
        self._since_ns, self._version, self._must_list = since_ns, version, must_list
        return found

    def look_at_nodes(self) -> Look:
        """Read the nodes."""
        self._transport.begin_reading()
        sent_ns = self._world.wall_ns()
        found = _Found(seen_node)
        names = sorted(self._nodes)
        selectors = [f"metadata.name={name}" for name in names]
        for selector in selectors if len(names) <= _NODES_ONE_BY_ONE_MAX else [""]:
            listed = self._list(NODES, found, selector)
            if listed.not_evaluated:
                self.not_evaluated["Node"] = listed.not_evaluated
                return Look(self._between(sent_ns))
        nodes = tuple(node for node in found.objects if node.name in self._nodes)
        hidden = frozenset(one.name for one in found.unreadable)
        return Look(self._between(sent_ns), None, nodes, unreadable_nodes=hidden)

    def follow(self) -> tuple[tuple[Change, ...], Look | None]:
        """Wait for what happens to pods in the next seconds.

        Returns the changes, or a new look where the server does not tell changes.
        """
        if not self._may_watch:
            self._world.sleep(PIECE_SECONDS)
            return (), self.look()
        if self._must_list:
            return (), self.look()
        self._transport.begin_reading()
        sent_ns, began = self._world.wall_ns(), self._world.monotonic()
        query = {
            "watch": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(PIECE_SECONDS),
            "allowWatchBookmarks": "true",
        }
        if selector := self._on_one_node():
            query["fieldSelector"] = selector
        path = PODS.path("v1", self._flags.namespace)
        try:
            lines = self._transport.get(path, query, decode=partial(_lines, self._transport, path))
        except _Expired:
            # Not at once: it may happen again.
            self._world.sleep(PIECE_SECONDS)
            return (), self.look()
        except _NotAllowed as error:
            self._may_watch = False
            self.not_evaluated["watch of pods"] = str(error)
            return (), self.look()
        self._pace(began)
        at = Interval(self._since_ns, self._between(sent_ns).latest_ns)
        self._since_ns = self._between(sent_ns).earliest_ns
        changes = [change for line in lines if (change := self._change(line, at)) is not None]
        for change in changes:
            if change.gone:
                self._pods.pop(change.pod.uid, None)
            else:
                self._pods[change.pod.uid] = change.pod
        return tuple(changes), None

    def _pace(self, began: float) -> None:
        """Wait, longer and longer, where something on the way ends the pieces of a watch at once."""
        if self._world.monotonic() - began >= PIECE_SECONDS / 2:
            self._pause_seconds = 0.0
            return
        self._pause_seconds = min(2 * self._pause_seconds or PIECE_SECONDS, _PAUSE_SECONDS_MAX)
        self._world.sleep(self._pause_seconds)

    def events(self, of_pods: Collection[str]) -> tuple[SeenEvent, ...]:
        """Read the events that tell of an end, about the pods "namespace/name" and about the nodes."""
        keys = frozenset(of_pods)
        found: dict[SeenEvent, None] = {}
        for reason in sorted(EVENT_REASONS["Pod"] | EVENT_REASONS["Node"]):
            events = self._events_of(reason)
            if events is None:
                return ()
            found |= dict.fromkeys(one for one in events if self._is_about(one, keys))
            if len(found) > EVENTS_MAX:
                self.not_evaluated["Event"] = f"more than {EVENTS_MAX:,} events"
                return ()
        return tuple(found)

    def _events_of(self, reason: str) -> list[SeenEvent] | None:
        """Read the events of one reason; None when they may not be read."""
        refusals = []
        for resource in EVENTS:
            self._transport.begin_reading()
            events = _Found(seen_event)
            try:
                listed = self._list(resource, events, f"reason={reason}")
            except InputError as error:
                # More of them than anybody reads: they are evidence, and nothing depends on them.
                listed = Listed(not_evaluated=str(error))
            if not listed.not_evaluated:
                return [one for one in events.objects if one is not None]
            refusals.append(listed.not_evaluated)
        self.not_evaluated["Event"] = refusals[0]
        return None

    def _is_about(self, event: SeenEvent, keys: frozenset[str]) -> bool:
        if event.kind == "Node":
            return event.name in self._nodes
        return f"{event.namespace}/{event.name}" in keys

    def _on_one_node(self) -> str:
        return f"spec.nodeName={next(iter(self._nodes))}" if len(self._nodes) == 1 else ""

    def _list(
        self,
        resource: Resource,
        found: _Found[Seen],
        selector: str,
    ) -> Listed:
        before = len(found.objects), len(found.unreadable)

        def begin() -> Callable[[Page], None]:
            del found.objects[before[0] :]
            del found.unreadable[before[1] :]
            return take

        def take(page: Page) -> None:
            for raw in page.items:
                try:
                    found.objects.append(found.decode(raw))
                except Unreadable:
                    found.unreadable.append(self.unreadable.add(resource.kind, raw))

        return read_list(
            self._transport,
            resource,
            namespace=self._flags.namespace,
            chunk_size=self._flags.chunk_size,
            field_selector=selector,
            begin=begin,
        )

    def _change(self, line: _Line, at: Interval) -> Change | None:
        version = _VERSIONED.decode(line.object).metadata.resource_version
        self._version = version or self._version
        if line.type not in _WATCHED:
            return None
        try:
            pod = seen_pod(line.object)
        except Unreadable:
            self._lose_sight(self.unreadable.add(PODS.kind, line.object).uid)
            return None
        return Change(at, pod, line.type == "DELETED") if pod.node in self._nodes else None

    def _lose_sight(self, uid: str) -> None:
        """Know nothing more of a pod, "" of none of them, until the next list, which is asked for soon."""
        self._must_list = True
        self._unreadable_pods |= {uid}
        for hidden in [uid] if uid else list(self._pods):
            self._pods.pop(hidden, None)

    def _between(self, sent_ns: int) -> Interval:
        """Return from when to when an answer that is here now can have been made, by the server."""
        least_ns, most_ns = self._transport.clock.bounds_ns()
        # Clocks that are set meanwhile, or tell little, never make a look end before it began.
        ends = sent_ns + least_ns, self._world.wall_ns() + most_ns
        return Interval(min(ends), max(ends))

    def _denied(self, listed: Listed) -> AccessError:
        problem = Problem(listed.not_evaluated, location=self._transport.where())
        problem.subject = "list pods"
        problem.correction = Correction((), (), first="kubectl auth can-i list pods -A")
        return AccessError(problem)


def _lines(transport: Transport, path: str, answer: Answer) -> list[_Line]:
    """Return the lines of one piece of a watch."""
    if answer.status == 410:
        raise _Expired
    if answer.status == 403:
        raise _NotAllowed("forbidden")
    if answer.status != 200 or not answer.is_json:
        message = f"GET {path}: a watch is answered {answer.status}"
        raise unreachable(message, location=transport.where())
    try:
        lines = [_LINE.decode(line) for line in answer.body.splitlines() if line.strip()]
        errors = [_VERSIONED.decode(line.object) for line in lines if line.type == "ERROR"]
        for line in lines:
            _VERSIONED.decode(line.object)
    except (msgspec.DecodeError, RecursionError):
        raise Unusable("the watch is garbled, or was cut") from None
    if errors:
        # 410 or anything else: what happened since is not told.
        raise _Expired
    return lines
