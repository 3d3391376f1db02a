"""The flow of every what-if: load, resolve, predict, print.

Each step is one call into the module that knows it; this one only hands values on and tells how far
it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import tzinfo
from functools import partial
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from kubectl_evictplan.commands.connection_options import load_live
from kubectl_evictplan.commands.file_arguments import STDIN, check_files, refuse_existing
from kubectl_evictplan.commands.output import write_chunks
from kubectl_evictplan.commands.planning import (
    check_plan_options,
    plan_file,
    planned,
    to_carry_out,
    write_plan,
)
from kubectl_evictplan.commands.terminal import (
    Progress,
    columns_of_terminal,
    use_color,
    wants_ascii,
)
from kubectl_evictplan.errors import Correction, InputError, Problem, WrongWord, mistake
from kubectl_evictplan.garbage import all_stays, collecting_rarely, keep
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.processes import answer_of_copy, default_jobs

if TYPE_CHECKING:
    from kubectl_evictplan.commands.large_json import Writer
    from kubectl_evictplan.commands.observing import Look
    from kubectl_evictplan.commands.options import Given, WhatIfOptions
    from kubectl_evictplan.controllers.flags import ControllerConfiguration
    from kubectl_evictplan.gates.document import GateResult
    from kubectl_evictplan.gates.judge import Gate
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.kube.objects import Warning as ClusterWarning
    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.plans.document import Plan
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.prediction.predict import Beside
    from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent

    Events = tuple[Sequence[ScenarioEvent], Sequence[ClusterWarning]]
    Planned = tuple[Scenario, ControllerSettings, Sequence[ClusterWarning]]

# The text of so many rows of so large a cluster, and what they cost, are worth two processors.
_MANY_PODS, _MANY_EVICTIONS = 20_000, 5_000
# As large as the smallest file of so many pods: a compressed snapshot.
_MANY_BYTES = 200_000


def what_if_events(options: WhatIfOptions, events_on: Callable[[ClusterSnapshot], Events]) -> None:
    """Predict and print what a command's own events cause; they all happen at the start."""

    def plan(snapshot: ClusterSnapshot, given: Given) -> Planned:
        from kubectl_evictplan.scenarios.scenario import Scenario

        events, warnings = events_on(snapshot)
        start_ns = snapshot.taken_at_ns if given.start_ns is None else given.start_ns
        return Scenario(start_ns, tuple(events), name=options.title), given.settings, warnings

    (options.instead or what_if)(options, plan)


def what_if(options: WhatIfOptions, plan: Callable[[ClusterSnapshot, Given], Planned]) -> None:
    """Predict and print what a plan, made for the loaded cluster, causes."""
    # Little of what is read and found out is left behind before the end.
    with collecting_rarely():
        _what_if(options, plan)


def _what_if(options: WhatIfOptions, plan: Callable[[ClusterSnapshot, Given], Planned]) -> None:
    check_files(options.filenames, recursive=options.recursive)
    look = None
    if options.observe is not None or options.observe_from is not None:
        from kubectl_evictplan.commands.observing import second_look  # rarely asked for

        asked = options.observe, options.observe_from
        look = second_look(*asked, options.filenames, options.connection)
    given = options.given()
    gates: Sequence[Gate] = ()
    if options.fail_on or options.policies:
        from kubectl_evictplan.commands.gates import wanted_gates

        gates = wanted_gates(options.fail_on, options.policies)
    check_plan_options(options)
    if options.save_scenario is not None:
        name, force = options.save_scenario, options.force
        refuse_existing(("--save-scenario",), name, "scenario.yaml", force=force)
    with _writer(options, gates) as writer:
        _answer(options, given, look, plan, gates, writer)


def _answer(
    options: WhatIfOptions,
    given: Given,
    look: Look | None,
    plan: Callable[[ClusterSnapshot, Given], Planned],
    gates: Sequence[Gate],
    writer: Writer | None,
) -> None:
    with Progress(sys.stderr) as progress:
        found = _found(options, given, look, plan, progress, writer, is_judged=bool(gates))
    results: Sequence[GateResult] = ()
    if gates:
        from kubectl_evictplan.commands.gates import judged

        results = judged(gates, found.prediction, found.snapshot)
    if any(one.failed for one in results):
        found = found._replace(made=None)
    # Before the report, of which a pager may read the beginning only.
    if found.made is not None and options.out is not None:
        write_plan(found.made, options.out, options.connection, force=bool(options.force))
    _show(found, options, given.zone, results, writer)
    if results:
        from kubectl_evictplan.commands.gates import refuse_failed

        refuse_failed(results)


class _Found(NamedTuple):
    """All that is told; ``assess``: what finds out what the prediction costs, which is without, while it is written."""

    snapshot: ClusterSnapshot
    prediction: Prediction
    explain: str | None
    made: Plan | None
    assess: Callable[[], Prediction] | None


def _found(
    options: WhatIfOptions,
    given: Given,
    look: Look | None,
    plan: Callable[[ClusterSnapshot, Given], Planned],
    progress: Progress,
    writer: Writer | None,
    *,
    is_judged: bool,
) -> _Found:
    """Read, predict and find out what it costs.

    Not in the body of the ``with`` that shows the progress: where memory ends in a long function, CPython 3.11 asks
    again and again for a little more on the way to its ``with``, and never ends.
    """
    asked = ask(options, given, look, plan, progress)
    all_stays()
    snapshot, scenario, configuration = asked.snapshot, asked.scenario, asked.configuration
    if len(snapshot.pods) <= _MANY_PODS:
        writer = None
    explain = _explained(options.explain, snapshot, scenario)
    if writer is not None:
        writer.begin(explain=explain, ascii_only=wants_ascii(options.output, sys.stdout))
    if options.save_scenario is not None:
        _save(options.save_scenario, scenario, asked.settings, force=bool(options.force))
    _check_quorums(options.quorums, snapshot)
    beside = answer_of_copy if writer is None else writer.beside
    prediction = predicted(asked, given, progress, explain, beside)
    made = None
    if options.out is not None:
        made = planned(options, given, snapshot, scenario, asked.settings, prediction)
        prediction = made.prediction
    from kubectl_evictplan.impact.assess import with_impact
    from kubectl_evictplan.report import WITH_IMPACT

    assess = partial(
        with_impact,
        *(snapshot, scenario, configuration, prediction),
        assume_ready=given.assume_ready_ns,
        quorums=options.quorums,
    )
    if writer is not None and len(prediction.evictions) > _MANY_EVICTIONS:
        keep(asked, prediction)
        return _Found(snapshot, prediction, explain, made, assess)
    if options.output in WITH_IMPACT or is_judged:
        prediction = _assessed(assess, options.output)
    keep(asked, prediction)
    return _Found(snapshot, prediction, explain, made, None)


def _assessed(assess: Callable[[], Prediction], output: str) -> Prediction:
    """All of JSON is made before anything is written: where memory ends meanwhile, nothing was."""
    prediction = assess()
    if output == "json" and prediction.impact is not None:
        from kubectl_evictplan.report.json_text import make_rows

        make_rows(prediction.impact)
    return prediction


# Others load these when they need them.
_ASKED_BY_LARGE_CLUSTERS = (
    "cluster.carried_runs",
    "scenarios.failing_nodes",
    "windows.clients.throttled_ends",
    "windows.entries_in_line",
    "windows.explored",
    "windows.older_countdowns",
    "windows.sampled_plans",
    "windows.wide_bounds",
    "windows.zones_apart",
)


def _load_modules(output: str) -> None:
    """Load what an answer is made with, which takes a while: the snapshot is unpacked meanwhile."""
    told = ["report.content", "report.terminal"]
    if output == "json":
        told = [
            "prediction.fingerprint",
            "report.json_text",
            "impact.claims",
            "impact.findings",
            "prediction.carried",
        ]
    for name in ("prediction.predict", "impact.assess", *told, *_ASKED_BY_LARGE_CLUSTERS):
        import_module(f"kubectl_evictplan.{name}")
    from kubectl_evictplan.sources.snapshot import get_ready

    get_ready()


class Asked(NamedTuple):
    """A question with everything that its answer follows from."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    settings: ControllerSettings
    configuration: ControllerConfiguration


def ask(
    options: WhatIfOptions,
    given: Given,
    look: Look | None,
    plan: Callable[[ClusterSnapshot, Given], Planned],
    progress: Progress,
) -> Asked:
    """Read the cluster and resolve what is asked about it, to be carried out if --out says so."""
    snapshot = read_input(options, given, look, progress)
    # Loaded while a large snapshot is unpacked, which begins the sooner.
    from msgspec.structs import replace

    from kubectl_evictplan.controllers.flags import resolve_configuration
    from kubectl_evictplan.scenarios.outages import OUTAGE_CODES

    scenario, settings, warnings = plan(snapshot, given)
    odd = [warning for warning in warnings if warning.code not in OUTAGE_CODES]
    if options.strict and odd:
        about = [(warning.message, ", ".join(warning.objects[:3])) for warning in odd]
        raise InputError([Problem(message, subject=objects) for message, objects in about])
    if options.out is not None:
        scenario = to_carry_out(scenario)
    if given.horizon_ns is not None:
        scenario = replace(scenario, horizon_ns=given.horizon_ns)
    if warnings:
        snapshot = replace(snapshot, warnings=(*snapshot.warnings, *warnings))
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return Asked(snapshot, scenario, settings, configuration)


def predicted(
    asked: Asked,
    given: Given,
    progress: Progress,
    explain: str | None = None,
    beside: Beside = answer_of_copy,
) -> Prediction:
    """Return the answer, without its impact. ``beside``: see ``predict``."""
    from kubectl_evictplan.prediction.predict import predict

    return predict(
        asked.snapshot,
        asked.scenario,
        asked.configuration,
        explain=explain,
        progress=progress.predicting,
        beside=beside,
        assume_ready=given.assume_ready_ns,
    )


def read_input(
    options: WhatIfOptions, given: Given, look: Look | None, progress: Progress
) -> ClusterSnapshot:
    """Return the cluster that the options name, at the second look if there is one."""
    snapshot = load(
        options.filenames,
        options.recursive,
        options.strict,
        progress,
        options.connection,
        options.kubernetes_version or "",
        meanwhile=partial(_load_modules, options.output),
    )
    if look is not None:
        from kubectl_evictplan.commands.observing import observed

        snapshot = observed(snapshot, *look(progress))
    _check_start(options.start or "", given.start_ns, snapshot)
    return snapshot


def load(
    filenames: Sequence[str],
    recursive: bool,
    strict: bool,
    progress: Progress,
    connection: ConnectionFlags,
    version: str = "",
    *,
    meanwhile: Callable[[], None] | None = None,
) -> ClusterSnapshot:
    """Return the cluster that ``-f`` names, or else the live one; manifests count for that release.

    ``meanwhile``: see ``load_files``.
    """
    if not filenames:
        return load_live(connection, progress, strict=strict)
    from kubectl_evictplan.sources.files import load_files

    return load_files(
        filenames,
        recursive=recursive,
        strict=strict,
        stdin=sys.stdin.buffer if sys.stdin is not None else None,
        progress=progress.reading,
        manifest_version=version,
        jobs=default_jobs(),
        meanwhile=meanwhile,
    )


def _show(
    found: _Found,
    options: WhatIfOptions,
    zone: tzinfo | None,
    gates: Sequence[GateResult],
    writer: Writer | None,
) -> None:
    """Write the report, chunk by chunk."""
    if sys.stdout is None:  # closed by the caller, as by `>&-`
        raise mistake("standard output is closed")
    from kubectl_evictplan.report import chunks

    on_terminal, ascii_only = sys.stdout.isatty(), wants_ascii(options.output, sys.stdout)
    prediction = found.prediction
    if found.assess is not None:
        assert writer is not None, "who writes it while it is found out what it costs"
        if writer.write(prediction, found.assess):
            return
        prediction = _assessed(found.assess, options.output)
    told = chunks(
        prediction,
        options.output,
        by=options.by,
        zone=zone,
        explain=found.explain,
        headers=not options.no_headers,
        columns=columns_of_terminal(100) if on_terminal else None,
        color=use_color(options.color, sys.stdout),
        ascii_only=ascii_only,
        gates=gates,
        plan=plan_file(found.made, options),
    )
    write_chunks(told)


def _writer(options: WhatIfOptions, gates: Sequence[Gate]) -> AbstractContextManager[Writer | None]:
    """Who writes the answer if that is large; None where it cannot be, and where nobody else can write where this process does."""
    if options.output != "json" or gates:
        return nullcontext()
    try:
        sys.stdout.fileno()
        files = [Path(name).stat() for name in options.filenames if name != STDIN]
    except (AttributeError, OSError):
        return nullcontext()
    is_all = files and len(files) == len(options.filenames)
    if is_all and all(S_ISREG(one.st_mode) and one.st_size < _MANY_BYTES for one in files):
        return nullcontext()
    from kubectl_evictplan.commands.large_json import writer

    return writer()


def _check_start(typed: str, start_ns: int | None, snapshot: ClusterSnapshot) -> None:
    """Raise when a scenario cannot start when --start says, or when the snapshot was taken."""
    from kubectl_evictplan.kube.timestamps import format_rfc3339
    from kubectl_evictplan.scenarios.scenario import start_problem

    taken_ns = snapshot.taken_at_ns
    message = start_problem(taken_ns if start_ns is None else start_ns, snapshot)
    if message and start_ns is None:
        raise mistake(message)
    if message:
        # The first whole second that is allowed.
        allowed = format_rfc3339(-(-taken_ns // SECOND_NS) * SECOND_NS)
        known = Correction((typed,), (allowed,), True, ("--start",))
        raise mistake(message, known, location="--start")


def _explained(typed: str | None, snapshot: ClusterSnapshot, scenario: Scenario) -> str | None:
    """Return the key of the pod to explain; a bare name will do while it is unique."""
    if typed is None:
        return None
    from kubectl_evictplan.scenarios.targets import pod_key

    keys = {pod.key for pod in snapshot.pods}
    keys |= {event.pod.key for event in scenario.events if event.pod is not None}
    try:
        return pod_key(keys, typed)
    except WrongWord as error:
        known, message = error.correction("--explain"), str(error)
        if typed in {node.name for node in snapshot.nodes}:
            message = f"{typed!r} is a node; --explain takes a pod"
        if known is None and keys:
            on_node = (pod.key for pod in snapshot.pods if pod.node_name == typed)
            known = Correction((typed,), (next(on_node, min(keys)),), True, ("--explain",))
        raise mistake(message, known, location="--explain", expected="NAMESPACE/NAME") from None


def _check_quorums(names: Sequence[str], snapshot: ClusterSnapshot) -> None:
    """Refuse names that nothing in the input has: nobody would see that they mean nothing."""
    if not names:
        return
    from kubectl_evictplan.impact.quorums import owners_like
    from kubectl_evictplan.scenarios.names import did_you_mean

    problems = []
    for name, like in owners_like(snapshot, dict.fromkeys(names)).items():
        message = f"no owner of pods is called {name!r}{did_you_mean(like)}"
        known = Correction((name,), tuple(like[:1]), len(like) > 1, ("--quorum",))
        if not like:
            known = Correction(("--quorum", name), ())
        problems.append(Problem(message, known, location="--quorum"))
    if problems:
        raise InputError(problems)


def _save(path: str, scenario: Scenario, settings: ControllerSettings, *, force: bool) -> None:
    from kubectl_evictplan.scenarios.writer import write_scenario
    from kubectl_evictplan.sources.private_file import write_private

    # Manifests inside may hold names that are nobody else's business: mode 0600, like snapshots.
    write_private(path, write_scenario(scenario, settings).encode("utf-8"), force=force)
