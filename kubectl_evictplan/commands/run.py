"""The flow of every what-if: ``what_if`` loads, resolves and predicts, ``show`` prints.

Each step is one call into the module that knows it; this one only hands values on and tells how far
it is.
"""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple

from kubectl_evictplan.commands.file_arguments import refuse_existing
from kubectl_evictplan.commands.progress import Progress
from kubectl_evictplan.commands.streams import use_color, wants_ascii
from kubectl_evictplan.errors import Correction, InputError, Problem, WrongWord

if TYPE_CHECKING:
    from kubectl_evictplan.commands.options import Given, WhatIfOptions
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.kube.objects import Warning as ClusterWarning
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent

    Events = tuple[Sequence[ScenarioEvent], Sequence[ClusterWarning]]
    Planned = tuple[Scenario, ControllerSettings, Sequence[ClusterWarning]]


def what_if_events(
    options: WhatIfOptions, name: str, events_on: Callable[[ClusterSnapshot], Events]
) -> None:
    """Predict and print what a command's own events cause; they all happen at the start."""

    def plan(snapshot: ClusterSnapshot, given: Given) -> Planned:
        from kubectl_evictplan.scenarios.scenario import Scenario

        events, warnings = events_on(snapshot)
        options.check_start(given.start_ns, snapshot)
        start_ns = snapshot.taken_at_ns if given.start_ns is None else given.start_ns
        return Scenario(start_ns, tuple(events), name=name), given.settings, warnings

    show(what_if(options, plan), options)


class Answer(NamedTuple):
    """A prediction, the pod to explain ("namespace/name") and the zone to tell times in."""

    prediction: Prediction
    explain: str | None
    zone: tzinfo | None


def what_if(options: WhatIfOptions, plan: Callable[[ClusterSnapshot, Given], Planned]) -> Answer:
    """Predict what a plan, made for the loaded cluster, causes."""
    options.require_files()
    given = options.given()
    if options.save_scenario is not None:
        refuse_existing(
            ("--save-scenario",), options.save_scenario, "scenario.yaml", force=options.force
        )
    import msgspec

    from kubectl_evictplan.scenarios.start import start_problem

    with Progress(sys.stderr) as progress:
        snapshot = load(options, progress)
        scenario, settings, warnings = plan(snapshot, given)
        if message := start_problem(scenario.start_ns, snapshot):
            raise InputError(Problem(message))
        _refuse_warnings(options, warnings)
        if given.horizon_ns is not None:
            scenario = msgspec.structs.replace(scenario, horizon_ns=given.horizon_ns)
        if warnings:
            both = (*snapshot.warnings, *warnings)
            snapshot = msgspec.structs.replace(snapshot, warnings=both)
        explain = _explained(options, snapshot, scenario)
        _save(options, scenario, settings)
        with collecting_rarely():
            prediction = _predict(snapshot, scenario, settings, explain, progress)
    return Answer(prediction, explain, given.zone)


def load(options: WhatIfOptions, progress: Progress) -> ClusterSnapshot:
    """Return the cluster that ``-f`` names."""
    from kubectl_evictplan.sources.files import load_files

    return load_files(
        options.filenames,
        recursive=options.recursive,
        strict=options.strict,
        stdin=sys.stdin.buffer if sys.stdin is not None else None,
        progress=progress.reading,
        manifest_version=options.kubernetes_version or "",
    )


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for garbage in cycles seldom: the cluster lives to the end, runs leave little behind.

    Saves a third of the time on large clusters. Not switched off, so that memory stays bounded
    however many runs a scenario needs.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _predict(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    settings: ControllerSettings,
    explain: str | None,
    progress: Progress,
) -> Prediction:
    from kubectl_evictplan.controllers.flags import resolve_configuration
    from kubectl_evictplan.prediction.predict import predict

    configuration = resolve_configuration(settings, snapshot.control_plane)
    return predict(snapshot, scenario, configuration, explain=explain, progress=progress.predicting)


def show(answer: Answer, options: WhatIfOptions) -> None:
    """Write the report, chunk by chunk."""
    if sys.stdout is None:  # closed by the caller, as by `>&-`
        raise InputError(Problem("standard output is closed"))
    from kubectl_evictplan.report import render

    on_terminal = sys.stdout.isatty()
    chunks = render(
        answer.prediction,
        options.output,
        by=options.by,
        zone=answer.zone,
        explain=answer.explain,
        headers=not options.no_headers,
        columns=shutil.get_terminal_size((100, 24)).columns if on_terminal else None,
        color=use_color(options.color, sys.stdout),
        ascii_only=wants_ascii(options.output, sys.stdout),
    )
    for chunk in chunks:
        sys.stdout.write(chunk)
    sys.stdout.flush()


def _refuse_warnings(options: WhatIfOptions, warnings: Sequence[ClusterWarning]) -> None:
    if options.strict and warnings:
        raise InputError(
            [
                Problem(warning.message, subject=", ".join(warning.objects[:3]))
                for warning in warnings
            ]
        )


def _explained(options: WhatIfOptions, snapshot: ClusterSnapshot, scenario: Scenario) -> str | None:
    """Return the key of the pod to explain; a bare name will do while it is unique."""
    if options.explain is None:
        return None
    from kubectl_evictplan.scenarios.targets import pod_key

    keys = {pod.key for pod in snapshot.pods}
    keys |= {event.pod.key for event in scenario.events if event.pod is not None}
    try:
        return pod_key(keys, options.explain)
    except WrongWord as error:
        known, message = error.correction("--explain"), str(error)
        if options.explain in {node.name for node in snapshot.nodes}:
            message = f"{options.explain!r} is a node; --explain takes a pod"
        if known is None and keys:
            on_node = (pod.key for pod in snapshot.pods if pod.node_name == options.explain)
            known = Correction(
                (options.explain,), (next(on_node, min(keys)),), True, ("--explain",)
            )
        expected = "NAMESPACE/NAME"
        problem = Problem(message, location="--explain", expected=expected, correction=known)
        raise InputError(problem) from None


def _save(options: WhatIfOptions, scenario: Scenario, settings: ControllerSettings) -> None:
    if options.save_scenario is None:
        return
    from kubectl_evictplan.scenarios.writer import write_scenario
    from kubectl_evictplan.sources.private_file import write_private

    # Manifests inside may hold names that are nobody else's business: mode 0600, like snapshots.
    text = write_scenario(scenario, settings)
    write_private(options.save_scenario, text.encode("utf-8"), force=options.force)
