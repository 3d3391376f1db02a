"""The events of a scenario file, resolved one after the other against the cluster they meet."""

from __future__ import annotations

from typing import Any, NamedTuple

from kubectl_evictplan.kube.durations import parse_bounded_duration_ns
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.document import Document
from kubectl_evictplan.scenarios.field_types import (
    TARGETS,
    Encounter,
    ManifestDecoder,
    file_fields,
)
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.names import similar, unknown_name
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.scenarios.schema import EVENTS_MAX, AnyEvent, event_type
from kubectl_evictplan.sources.marked_tree import Path

_EVENTS: Path = ("spec", "events")


def read_events(
    document: Document, history: History, decode_manifest: ManifestDecoder
) -> list[ScenarioEvent]:
    """Return the events in the order in which they happen, each entered in the history.

    An event of which anything is wrong is left out, after noting all that is wrong with it.
    """
    listed = document.tree["spec"].get("events")
    if not isinstance(listed, list):
        return []
    if len(listed) > EVENTS_MAX:
        document.problem(_EVENTS, f"{len(listed)} events: the limit is {EVENTS_MAX}")
        return []
    drafts = (_draft(document, (*_EVENTS, index), item) for index, item in enumerate(listed))
    ordered = sorted((draft for draft in drafts if draft is not None), key=_order)
    events = (_event(document, draft, history, decode_manifest) for draft in ordered)
    return [event for event in events if event is not None]


class _Draft(NamedTuple):
    """One event before its targets are known; without an instant where that is wrong."""

    at_ns: int | None
    action: type[ScenarioEvent]
    path: Path
    written: dict[str, Any]


def _order(draft: _Draft) -> tuple[bool, int]:
    """Order by instant; what has none comes last and meets everything that ever existed."""
    return draft.at_ns is None, draft.at_ns or 0


def _draft(document: Document, path: Path, written: Any) -> _Draft | None:
    """Return the event; a misspelt action is read as the one that a message proposes."""
    if not isinstance(written, dict):
        document.problem(path, "expected a map with 'at' and 'action'")
        return None
    name = written.get("action")
    near = similar(name, ACTIONS) if isinstance(name, str) else []
    likely = name if name in ACTIONS else "".join(near[:1])
    document.check(event_type(ACTIONS[likely]) if likely else AnyEvent, path)
    if isinstance(name, str) and name not in ACTIONS:
        expected = f"one of {', '.join(ACTIONS)}"
        message = unknown_name("action", name, ACTIONS)
        document.problem((*path, "action"), message, expected=expected)
    at_ns = document.parsed((*path, "at"), parse_bounded_duration_ns)
    return _Draft(at_ns, ACTIONS[likely], path, written) if likely else None


def _event(
    document: Document, draft: _Draft, history: History, decode_manifest: ManifestDecoder
) -> ScenarioEvent | None:
    """Return the event, entered in the history; None when anything of it is wrong."""
    at_ns, action, path, written = draft
    nodes = history.nodes if at_ns is not None else history.nodes_ever
    meets = Encounter(document, path, nodes, history.nodes_ever, history.pods, decode_manifest)
    values = {
        field.attribute: meets.read(field, written)
        for field in file_fields(action)
        if field.type is TARGETS or written.get(field.key) is not None
    }
    if at_ns is None or not document.is_sound(path):
        return None
    origin = f"{document.location}:{document.place(path).line}"
    event = action(at_ns=at_ns, origin=origin, **values)
    for key, message in event.contradictions(history):
        meets.problem(message, *([key] if key else []))
    return event
