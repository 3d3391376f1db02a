"""The events of a scenario file, resolved one after the other against the cluster they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import parse_bounded_duration_ns
from kubectl_evictplan.kube.objects import Node, Pod, Toleration
from kubectl_evictplan.kube.validation import validate_toleration
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.field_types import TARGET_SCHEMAS, TARGETS, Manifest, file_fields
from kubectl_evictplan.scenarios.fields import FieldReader, ProblemList
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.scenarios.targets import (
    nearest,
    nodes_by_name,
    nodes_by_selector,
    nodes_by_zone,
    unknown_name,
)
from kubectl_evictplan.sources.marked_tree import MarkedList, MarkedMap

EVENTS_MAX = 10_000
_TARGETS_EXPECTED = "one of nodes, selector, zone, allNodes: true"
_TOLERATION_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")

T = TypeVar("T")
# Turns one manifest object and its location into the typed object; raises InputError.
ManifestDecoder = Callable[[dict[str, Any], str], Node | Pod]


def read_events(
    listed: MarkedList,
    problems: ProblemList,
    history: History,
    decode_manifest: ManifestDecoder,
) -> list[ScenarioEvent]:
    """Return the events in the order in which they happen, each entered in the history.

    An event of which anything is wrong is left out, after noting all that is wrong with it.
    """
    if len(listed) > EVENTS_MAX:
        message = f"{len(listed)} events: the limit is {EVENTS_MAX}"
        problems.add(listed.place, message, path="spec.events")
        return []
    events = []
    for draft in sorted(_drafts(listed, problems), key=lambda draft: draft.order):
        fields = _EventFields(draft, problems, history, decode_manifest)
        event = fields.event()
        if event is not None:
            events.append(event)
    return events


@dataclass(frozen=True)
class _Draft:
    """One event before its targets are known; parts are None when they are wrong."""

    at_ns: int | None
    action: type[ScenarioEvent]
    # False when the action is only the nearest known one, which a message proposes.
    known: bool
    written: MarkedMap
    path: str

    @property
    def order(self) -> tuple[bool, int]:
        """Instants first; without one, the event meets everything that ever existed."""
        return self.at_ns is None, self.at_ns or 0


def _drafts(listed: MarkedList, problems: ProblemList) -> Iterator[_Draft]:
    for index, item in enumerate(listed):
        path = f"spec.events[{index}]"
        if not isinstance(item, MarkedMap):
            message = "expected a map with 'at' and 'action'"
            problems.add(listed.marks[index].place, message, path=path)
            continue
        fields = FieldReader(item, problems, path)
        at_ns = fields.duration_ns("at", parse_bounded_duration_ns, required=True)
        name = fields.text("action", required=True)
        if name is not None and name not in ACTIONS:
            message = unknown_name("action", name, ACTIONS)
            fields.problem("action", message, expected=f"one of {', '.join(ACTIONS)}")
        action = ACTIONS.get(nearest(name or "", ACTIONS) if name not in ACTIONS else name)
        if action is not None:
            yield _Draft(at_ns, action, name in ACTIONS, item, path)


class _EventFields(FieldReader):
    """The fields of one event, read against the cluster of its instant."""

    def __init__(
        self,
        draft: _Draft,
        problems: ProblemList,
        history: History,
        decode_manifest: ManifestDecoder,
    ) -> None:
        super().__init__(draft.written, problems, draft.path)
        self._draft = draft
        self._history = history
        self._decode_manifest = decode_manifest
        self._nodes = history.nodes if draft.at_ns is not None else history.nodes_ever

    def event(self) -> ScenarioEvent | None:
        """Return the event and let it happen in the history; None after noting problems."""
        draft = self._draft
        values = self._values()
        if values is None or draft.at_ns is None or not draft.known:
            return None
        origin = f"{self.problems.location}:{self.place.line}"
        event = draft.action(at_ns=draft.at_ns, origin=origin, **values)
        for key, message in event.contradictions(self._history):
            self.problem(key, message)
        return event

    def _values(self) -> dict[str, Any] | None:
        """Return the action's own fields, or None when one of them is wrong."""
        described = file_fields(self._draft.action)
        self.only(["at", "action", *(key for field in described for key in field.keys)])
        values: dict[str, Any] = {}
        complete = True
        for field in described:
            if field.type is not TARGETS and not self.has(field.key):
                if field.required:
                    action = self._draft.action.action
                    message = f"required key {field.key!r} is missing for action {action}"
                    self.problem("", message)
                    complete = False
                continue
            values[field.attribute] = value = field.type.read(self, field.key)
            complete = complete and value is not None
        return values if complete else None

    # -- what the types of fields ask for (field_types.FieldSource) -----------------------------

    def parsed(self, key: str, parse: Callable[[str], T], *, expected: str = "") -> T | None:
        """Return a string's meaning."""
        text = self.text(key)
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            self.problem(key, str(error), expected=expected)
            return None

    def targets(self) -> tuple[str, ...] | None:
        """Return the names of the nodes of the one target given."""
        given = [name for name in TARGET_SCHEMAS if self.has(name)]
        if len(given) != 1:
            which = f"both {given[0]!r} and {given[1]!r}" if given else "none"
            message = f"one target is needed, given: {which}"
            self.problem("", message, expected=_TARGETS_EXPECTED)
            return None
        key = given[0]
        found: list[Node] | None = None
        if key == "nodes":
            found = self._named_nodes()
        elif key == "selector":
            found = self.parsed(key, lambda text: nodes_by_selector(self._nodes, text))
        elif key == "zone":
            found = self.parsed(key, lambda text: nodes_by_zone(self._nodes, text))
        else:
            found = self._all_nodes()
        return None if found is None else tuple(node.name for node in found)

    def _all_nodes(self) -> list[Node] | None:
        everything = self.boolean("allNodes")
        if everything is False:
            self.problem(
                "allNodes", "only 'allNodes: true' selects nodes", expected=_TARGETS_EXPECTED
            )
        elif everything and not self._nodes:
            self.problem("allNodes", "there is no node")
        elif everything:
            return nodes_by_name(self._nodes, list(self._nodes))
        return None

    def _named_nodes(self) -> list[Node] | None:
        names = self.strings("nodes")
        if names is None:
            return None
        missing = [(name, place) for name, place in names if name not in self._nodes]
        for name, place in missing:
            message = unknown_name("node", name, self._nodes)
            if name in self._history.nodes_ever:
                message = f"node {name!r} is deleted at this instant"
            self.problems.add(place, message, path=f"{self.path}.nodes")
        return None if missing else nodes_by_name(self._nodes, [name for name, _ in names])

    def pod_keys(self, key: str) -> tuple[str, ...] | None:
        """Return the keys of pods that exist, or existed."""
        names = self.strings(key)
        if names is None:
            return None
        known = self._history.pods
        missing = [(name, place) for name, place in names if name not in known]
        for name, place in missing:
            message = unknown_name("pod", name, known)
            expected = "" if name.count("/") == 1 else "NAMESPACE/NAME"
            self.problems.add(place, message, path=f"{self.path}.{key}", expected=expected)
        return None if missing else tuple(sorted({name for name, _ in names}))

    def manifest(self, key: str, kind: str) -> Manifest | None:
        """Return the object, decoded as the API server would store it."""
        manifest = self.mapping(key)
        if manifest is None:
            return None
        if (found := manifest.text("kind", required=True)) != kind:
            if found is not None:
                manifest.problem("kind", f"{self._draft.action.action} needs a {kind}")
            return None
        written = manifest.mapping_value
        try:
            return Manifest(self._decode_manifest(written, self.problems.location), written)
        except InputError as error:
            self.problems.extend(manifest.place, error.problems)
            return None

    def tolerations(self, key: str) -> tuple[Toleration, ...] | None:
        """Return the whole list, checked as the API server would; it may be empty."""
        listed = self.sequence(key)
        if listed is None:
            return None
        read = [self._toleration(listed, index) for index in range(len(listed))]
        complete = tuple(toleration for toleration in read if toleration is not None)
        return complete if len(complete) == len(read) else None

    def _toleration(self, listed: MarkedList, index: int) -> Toleration | None:
        path, item = f"{self.path}.tolerations[{index}]", listed[index]
        if not isinstance(item, MarkedMap):
            self.problems.add(listed.marks[index].place, "expected a map", path=path)
            return None
        fields = FieldReader(item, self.problems, path)
        fields.only(_TOLERATION_FIELDS)
        texts = {name: fields.text(name) for name in ("key", "operator", "value", "effect")}
        seconds = fields.integer("tolerationSeconds")
        if any(fields.has(name) and texts[name] is None for name in texts):
            return None
        if fields.has("tolerationSeconds") and seconds is None:
            return None
        words = {name: text or "" for name, text in texts.items()}
        toleration = Toleration(**words, toleration_seconds=seconds)
        # Lt and Gt are judged with the release that is simulated, not here.
        found = validate_toleration(toleration, comparison_operators=True)
        for name, message, _ in found:
            fields.problem(name if fields.has(name) else "", message)
        return None if found else toleration
