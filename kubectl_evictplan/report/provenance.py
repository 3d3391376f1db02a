"""Where the answer comes from: release, flags, start, what was read, what is assumed."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.prediction.document import Inputs, Prediction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Figures
from kubectl_evictplan.report.clock import Clock


def provenance(prediction: Prediction, clock: Clock) -> Figures:
    """Return the three lines at the end of every report."""
    inputs = prediction.inputs
    by_source: dict[str, list[str]] = {}
    for flag, value in sorted(inputs.flags.items()):
        by_source.setdefault(value.source, []).append(f"{flag}={value.value}")
    # Defaults are known from the release; what deviates is what an operator must check.
    flags = [
        f"{len(found)} at {source}"
        if source.startswith("default")
        else f"{', '.join(found)} ({source})"
        for source, found in sorted(
            by_source.items(), key=lambda item: item[0].startswith("default")
        )
    ]
    release = words.sourced(inputs.release)
    return Figures(
        "",
        (
            ("Read", f"{_read(inputs)}; Kubernetes {release}; -o wide tells all"),
            ("Flags", "; ".join(flags) or words.NONE),
            ("Start", _start(inputs, clock)),
        ),
    )


def whole_provenance(prediction: Prediction, clock: Clock) -> Figures:
    """Return everything that decided the result."""
    return Figures("Inputs", tuple(_facts(prediction.inputs, clock)))


def _facts(inputs: Inputs, clock: Clock) -> Iterator[tuple[str, str]]:
    yield "Kubernetes", words.sourced(inputs.release)
    yield "Read", _read(inputs)
    ignored = [f"{number} {kind}" for kind, number in sorted(inputs.ignored_kinds.items())]
    yield "Ignored", ", ".join(ignored) or words.NONE
    yield "Digest", inputs.source_digest or words.NONE
    yield "Start", f"{words.sourced(inputs.start)}; {clock.start() or words.UNKNOWN}"
    yield "Horizon", words.sourced(inputs.horizon)
    yield "Monitor phase", words.sourced(inputs.monitor_phase)
    for flag, value in sorted(inputs.flags.items()):
        yield "Flag", f"{flag}={words.sourced(value)}"
    for assumption in inputs.assumptions:
        yield "Assumed", assumption
    yield "Made by", f"kubectl-evictplan {inputs.tool_version}"


def _read(inputs: Inputs) -> str:
    nodes, pods = words.count(inputs.nodes, "node"), words.count(inputs.pods, "pod")
    return f"{nodes}, {pods} in {words.count(inputs.namespaces, 'namespace')}"


def _start(inputs: Inputs, clock: Clock) -> str:
    start = clock.start() or str(inputs.start.value)
    return f"{start} ({inputs.start.source}) is +0s; horizon {words.sourced(inputs.horizon)}"
