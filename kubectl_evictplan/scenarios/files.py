"""Scenario files as fully resolved ``Scenario`` values.

Rules: every problem of a file is reported at once, each with file, line and column; an unknown key
is an error that names the nearest known one; targets that match nothing are errors; events are
resolved in the order in which they happen, so that a name may be used only while its object
exists. JSON is YAML. Reading bytes is done elsewhere.
"""

from __future__ import annotations

from functools import partial

import msgspec

from kubectl_evictplan.kube.durations import parse_bounded_duration_ns
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.objects import Warning as FileWarning
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.document import Document
from kubectl_evictplan.scenarios.field_types import (
    TARGET_TYPES,
    Encounter,
    ManifestDecoder,
    file_fields,
)
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.names import similar, unknown_name
from kubectl_evictplan.scenarios.scenario import (
    KUBERNETES_VERSION,
    MONITOR_PHASE,
    ControllerSettings,
    Scenario,
    ScenarioEvent,
    start_problem,
)
from kubectl_evictplan.scenarios.schema import EVENTS_MAX, KIND, AnyEvent, ScenarioFile, event_type
from kubectl_evictplan.scenarios.written import check_header, read_document
from kubectl_evictplan.sources.items import decode_manifest_object
from kubectl_evictplan.sources.marked_tree import Path
from kubectl_evictplan.sources.schema import describe_type


class LoadedScenario(msgspec.Struct, frozen=True):
    """What a file says: events resolved against a snapshot, controller settings, warnings."""

    scenario: Scenario
    settings: ControllerSettings
    warnings: tuple[FileWarning, ...] = ()


def load_scenario(
    text: str,
    location: str,
    snapshot: ClusterSnapshot,
    *,
    start_ns: int | None = None,
    kubernetes_version: str = "",
) -> LoadedScenario:
    """Return the scenario in ``text``, resolved against the snapshot.

    ``location`` is the file's name for messages. ``start_ns`` (epoch) and ``kubernetes_version``
    override what the file says; the start's default is the instant the snapshot was taken.
    Manifests are decoded for that version and the snapshot's API server. Raises InputError with all
    problems found.
    """
    document, warnings = read_document(text, location, KIND)
    check_header(document, KIND, "cluster state is given with -f")
    document.check(ScenarioFile)
    if not isinstance(document.tree.get("spec"), dict):
        document.raise_any()
    settings = _settings(document)
    horizon_ns = document.parsed(("spec", "horizon"), _positive_duration_ns)
    if start_ns is None:
        start_ns = document.parsed(("spec", "start"), partial(_start_ns, snapshot))
    version = kubernetes_version or settings.kubernetes_version
    decode_manifest = partial(
        decode_manifest_object,
        control_plane=snapshot.control_plane,
        manifest_version=version or snapshot.control_plane.kubernetes_version,
    )
    history = History(snapshot)
    events = _events(document, history, decode_manifest)
    document.raise_any()
    warnings += [*history.warnings, *_events_after_horizon(events, horizon_ns)]
    if start_ns is None:
        start_ns = snapshot.taken_at_ns
    name = (document.tree.get("metadata") or {}).get("name") or ""
    scenario = Scenario(start_ns, tuple(events), horizon_ns, name)
    return LoadedScenario(scenario, settings, tuple(warnings))


def _settings(document: Document) -> ControllerSettings:
    """Return what ``spec.controller`` says, and where."""
    path: Path = ("spec", "controller")
    controller = document.tree["spec"].get("controller")
    if controller is None or not document.is_sound(path):
        return ControllerSettings()
    flags = controller.get("flags") or {}
    for name, value in flags.items():
        if name.startswith("-"):
            message = "write the flag's own name, without dashes in front"
            document.problem((*path, "flags", name), message)
        elif value is None or isinstance(value, dict | list):
            document.problem((*path, "flags", name), f"must be a value, not {describe_type(value)}")
    paths = {name: (*path, name) for name in (KUBERNETES_VERSION, MONITOR_PHASE)}
    paths = {name: at for name, at in paths.items() if name in controller}
    paths |= {name: (*path, "flags", name) for name in flags}
    return ControllerSettings(
        controller.get(KUBERNETES_VERSION) or "",
        document.parsed((*path, MONITOR_PHASE), parse_bounded_duration_ns),
        {name: document.text(paths[name]) for name in flags},
        {name: f"{document.location}:{document.place(at)}" for name, at in paths.items()},
    )


def _positive_duration_ns(text: str) -> int:
    duration_ns = parse_bounded_duration_ns(text)
    if duration_ns == 0:
        raise ValueError("the horizon must be longer than 0")
    return duration_ns


def _start_ns(snapshot: ClusterSnapshot, text: str) -> int:
    """Return ``spec.start`` in epoch nanoseconds; it must not be before the snapshot."""
    try:
        start_ns = parse_rfc3339_ns(text)
    except ValueError as error:
        raise ValueError(f"not a time: {error}; write it as 2026-11-20T22:00:00Z") from None
    if start_ns is None:
        raise ValueError("the zero time is not a start")
    if message := start_problem(start_ns, snapshot):
        raise ValueError(message)
    return start_ns


def _events_after_horizon(events: list[ScenarioEvent], horizon_ns: int | None) -> list[FileWarning]:
    late = [event.origin for event in events if horizon_ns is not None and event.at_ns > horizon_ns]
    if not late:
        return []
    message = f"{len(late)} event(s) lie after the horizon and do not happen"
    return [FileWarning("event-after-horizon", message, tuple(late))]


def _events(document: Document, history: History, decode: ManifestDecoder) -> list[ScenarioEvent]:
    """Return the events in the order in which they happen, each entered in the history.

    An event of which anything is wrong is left out, after noting all that is wrong with it.
    """
    path, listed = ("spec", "events"), document.tree["spec"].get("events")
    if not isinstance(listed, list):
        return []
    if len(listed) > EVENTS_MAX:
        document.problem(path, f"{len(listed)} events: the limit is {EVENTS_MAX}")
        return []
    read = [_encounter(document, (*path, index), history, decode) for index in range(len(listed))]
    met = [meets for meets in read if meets is not None]
    # What has no instant comes last and meets everything that ever existed.
    met.sort(key=lambda meets: (meets.at_ns is None, meets.at_ns or 0))
    return [event for event in map(_event, met) if event is not None]


def _encounter(
    document: Document, path: Path, history: History, decode: ManifestDecoder
) -> Encounter | None:
    """Return the event as written; a misspelt action is read as the one that a message proposes."""
    written = document.tree["spec"]["events"][path[-1]]
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
    if not likely:
        return None
    return Encounter(document, path, ACTIONS[likely], written, at_ns, history, decode)


def _event(meets: Encounter) -> ScenarioEvent | None:
    """Return the event, entered in the history; None when anything of it is wrong."""
    values = {
        field.attribute: meets.read(field)
        for field in file_fields(meets.action)
        if field.type in TARGET_TYPES or meets.written.get(field.key) is not None
    }
    if meets.at_ns is None or not meets.document.is_sound(meets.path):
        return None
    origin = f"{meets.document.location}:{meets.document.place(meets.path).line}"
    event = meets.action(at_ns=meets.at_ns, origin=origin, **values)
    for key, message in event.contradictions(meets.history):
        meets.problem(message, *([key] if key else []))
    return event
