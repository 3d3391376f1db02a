"""Scenario files (public contract, section 2) as fully resolved ``Scenario`` values.

Rules: every problem of a file is reported at once, each with file, line and column; an unknown key
is an error that names the nearest known one; targets that match nothing are errors; events are
resolved in the order in which they happen, so that a name may be used only while its object
exists. JSON is YAML. Reading bytes and decoding manifests is done elsewhere.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.kube.durations import parse_bounded_duration_ns
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags, Node, Pod
from kubectl_evictplan.kube.objects import Warning as FileWarning
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.scenarios.event_reader import ManifestDecoder, read_events
from kubectl_evictplan.scenarios.fields import FieldReader, ProblemList
from kubectl_evictplan.scenarios.history import History, ties
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.scenarios.start import start_problem
from kubectl_evictplan.sources.marked_tree import MarkedMap, Place
from kubectl_evictplan.sources.yaml_reader import YamlDocument, read_documents

KIND = "Scenario"


class LoadedScenario(msgspec.Struct, frozen=True):
    """What a file says: events resolved against a snapshot, controller settings, warnings."""

    scenario: Scenario
    settings: ControllerSettings
    warnings: tuple[FileWarning, ...] = ()


def load_scenario(
    text: str,
    location: str,
    snapshot: ClusterSnapshot,
    decode_manifest: ManifestDecoder | None = None,
    *,
    start_ns: int | None = None,
    kubernetes_version: str = "",
) -> LoadedScenario:
    """Return the scenario in ``text``, resolved against the snapshot.

    ``location`` is the file's name for messages. ``start_ns`` (epoch) and ``kubernetes_version``
    override what the file says; the start's default is the instant the snapshot was taken.
    ``decode_manifest`` defaults to the one of the sources, for that version and the snapshot's
    API server. Raises InputError with all problems found.
    """
    problems = ProblemList(location)
    read = _the_document(text, problems)
    warnings = [FileWarning(code, f"{location}: {message}") for code, message in read.warnings]
    document = FieldReader(read.tree, problems)
    _refuse_other_kind(document)
    document.only(("apiVersion", "kind", "metadata", "spec"))
    _check_header(document)
    metadata = document.mapping("metadata")
    name = ""
    if metadata is not None:
        metadata.only(("name", "labels", "annotations"))
        name = metadata.text("name") or ""
    spec = document.mapping("spec", required=True)
    if spec is None:
        problems.raise_any()
        raise AssertionError("spec is required")
    spec.only(("start", "horizon", "controller", "events"))
    settings = _settings(spec.mapping("controller"))
    start_ns = _start(spec, snapshot) if start_ns is None else start_ns
    horizon_ns = spec.duration_ns("horizon", parse_bounded_duration_ns)
    if horizon_ns == 0:
        spec.problem("horizon", "the horizon must be longer than 0")
    decode_manifest = decode_manifest or partial(
        _decode_manifest,
        control_plane=snapshot.control_plane,
        version=kubernetes_version
        or settings.kubernetes_version
        or snapshot.control_plane.kubernetes_version,
    )
    events = _events(spec, snapshot, decode_manifest, warnings)
    problems.raise_any()
    warnings += _events_after_horizon(events, horizon_ns)
    scenario = Scenario(start_ns, tuple(events), horizon_ns, name)
    return LoadedScenario(scenario, settings, tuple(warnings))


def _the_document(text: str, problems: ProblemList) -> YamlDocument:
    """Return the one document, which holds a map; empty ones around it are skipped.

    Raises at once for what cannot be parsed; notes duplicate keys and the like.
    """
    documents = [read for read in read_documents(text) if read.problems or read.tree is not None]
    for read in documents:
        for problem in read.problems:
            problems.add(problem.place, problem.message, got=problem.got or None)
    for extra in documents[1:]:
        problems.add(extra.place, "a second document: write one per file")
    if not documents:
        problems.add(Place(1, 1), "the file is empty")
    elif documents[0].tree is None:
        pass
    elif not isinstance(documents[0].tree, MarkedMap):
        message = f"not a {KIND}: expected a map with apiVersion, kind and spec"
        problems.add(documents[0].place, message)
    else:
        return documents[0]
    problems.raise_any()
    raise AssertionError("a problem was just noted")


def _refuse_other_kind(document: FieldReader) -> None:
    """Raise for another kind of document altogether: its fields would only add noise."""
    kind = document.mapping_value.get("kind")
    if isinstance(kind, str) and kind != KIND:
        other = ProblemList(document.problems.location)
        message = f"not a scenario: kind must be {KIND}; cluster state is given with -f"
        FieldReader(document.mapping_value, other).problem("kind", message)
        other.raise_any()


def _check_header(document: FieldReader) -> None:
    """Note a wrong or missing apiVersion and kind."""
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = document.text(key, required=True)
        if found is not None and found != expected:
            document.problem(key, f"not a scenario of this version: {key} must be {expected}")


def _settings(controller: FieldReader | None) -> ControllerSettings:
    """Return what ``spec.controller`` says."""
    if controller is None:
        return ControllerSettings()
    controller.only(("kubernetesVersion", "monitorPhase", "flags"))
    flags: dict[str, str] = {}
    flag_map = controller.mapping("flags")
    for name in flag_map.keys() if flag_map is not None else ():
        assert flag_map is not None
        value = flag_map.flag_text(name)
        if name.startswith("-"):
            flag_map.problem(name, "write the flag's own name, without dashes in front")
        elif value is not None:
            flags[name] = value
    return ControllerSettings(
        kubernetes_version=controller.text("kubernetesVersion") or "",
        monitor_phase_ns=controller.duration_ns("monitorPhase", parse_bounded_duration_ns),
        flags=flags,
    )


def _start(spec: FieldReader, snapshot: ClusterSnapshot) -> int:
    """Return ``spec.start`` in epoch nanoseconds; it must not be before the snapshot."""
    text = spec.text("start")
    if text is None:
        return snapshot.taken_at_ns
    try:
        start_ns = parse_rfc3339_ns(text)
    except ValueError as error:
        spec.problem("start", f"not a time: {error}", expected="such as 2026-11-20T22:00:00Z")
        return snapshot.taken_at_ns
    if message := start_problem(start_ns, snapshot):
        spec.problem("start", message)
    return snapshot.taken_at_ns if start_ns is None else start_ns


def _events(
    spec: FieldReader,
    snapshot: ClusterSnapshot,
    decode_manifest: ManifestDecoder,
    warnings: list[FileWarning],
) -> list[ScenarioEvent]:
    """Return the resolved events, ordered by instant and then by place in the file."""
    listed = spec.sequence("events")
    if listed is None:
        if "events" not in spec.mapping_value:
            spec.problem("", "required key 'events' is missing (it may be an empty list)")
        return []
    history = History(snapshot)
    events = read_events(listed, spec.problems, history, decode_manifest)
    warnings += [*history.warnings, *ties(events)]
    return events


def _events_after_horizon(events: list[ScenarioEvent], horizon_ns: int | None) -> list[FileWarning]:
    late = [event.origin for event in events if horizon_ns is not None and event.at_ns > horizon_ns]
    if not late:
        return []
    message = f"{len(late)} event(s) lie after the horizon and do not happen"
    return [FileWarning("event-after-horizon", message, tuple(late))]


def _decode_manifest(
    manifest: dict[str, Any], location: str, *, control_plane: ControlPlaneFlags, version: str
) -> Node | Pod:
    """Decode one manifest; most scenarios hold none, so the decoder is imported when needed."""
    from kubectl_evictplan.sources.manifests import decode_manifest_object

    return decode_manifest_object(
        manifest, location, control_plane=control_plane, manifest_version=version
    )
