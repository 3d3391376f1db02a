"""Compare predictions with recorded runs of real control planes.

    python benchmarks/fidelity.py [--readme] [--upstream] [FOLDER ...]

A folder is a trace or holds traces (see ``trace_runs``); without one, the repository's traces are
taken. ``--readme`` writes the table by release into the README; ``--upstream`` adds the scenarios that
upstream's own controller went through (``upstream_runs``). Exits 1 when a fact lies outside its window or a certain prediction did not happen, 2 when
there is nothing to compare. The output depends on nothing but the traces.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from phase_fit import fitted_errors
from recorded_drains import (
    DrainComparison,
    compare_drains,
    is_drain_recording,
    load_drain_recording,
    predict_drains,
)
from tabulate import tabulate
from trace_runs import (
    CLOCK_SLACK_SECONDS,
    NODE_FACTS,
    WATCH_SLACK_SECONDS,
    Comparison,
    Expected,
    compare_deletions,
    load_trace,
    predict_trace,
    trace_folders,
)
from upstream_runs import RELEASE, load_cases

from kubectl_evictplan.errors import InputError

REPOSITORY = Path(__file__).resolve().parent.parent
TRACES = REPOSITORY / "fixtures" / "traces"
DRAINS = REPOSITORY / "fixtures" / "drains"
README = REPOSITORY / "README.md"
BLOCK_BEGIN, BLOCK_END = "<!-- FIDELITY: made by `make fidelity` -->\n", "<!-- END FIDELITY -->\n"
NAME_WIDTH = 28
DRAIN_HEADERS = ("DRAIN", "EVICTED", "IN", "429/500", "IN", "ENDS", "IN", "ABSENT", "MEDIAN")
HEADERS = ("RUN", "DELETED", "INSIDE", "ABSENT", "SPARED", "MEDIAN", "LARGEST", "FITTED")


class Run(NamedTuple):
    """The comparison of one recorded run."""

    name: str
    deletions: Comparison
    node_facts: dict[str, Comparison]
    errors_seconds: list[float]

    @property
    def release(self) -> str:
        """The last part of a trace's name."""
        return self.name.rpartition("-")[2]


class DrainRun(NamedTuple):
    """The comparison of one recorded drain."""

    name: str
    compared: DrainComparison


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison; return the process's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="*", default=[TRACES, DRAINS], metavar="FOLDER")
    parser.add_argument("--readme", action="store_true", help="write the README's table")
    parser.add_argument("--upstream", action="store_true", help="add upstream's own controller")
    parsed = parser.parse_args(arguments)
    folders = parsed.folders
    missing = [folder for folder in folders if not folder.is_dir()]
    traces = [] if missing else [path for folder in folders for path in trace_folders(folder)]
    if not traces:
        print(f"error: no traces in {', '.join(map(str, missing or folders))}", file=sys.stderr)
        return 2
    try:
        drained = [folder for folder in traces if is_drain_recording(folder)]
        runs = [compare_run(folder) for folder in traces if folder not in drained]
        drains = [compare_drain(folder) for folder in drained]
    except InputError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return error.exit_code
    failures = [line for run in runs for line in failures_of(run)]
    failures += [line for drain in drains for line in drain_failures_of(drain)]
    upstream = ["", *upstream_lines()] if parsed.upstream else []
    failures += upstream[2:]
    for line in (*report(runs), *drain_report(drains), *upstream[:2], *failures):
        print(line)
    if parsed.readme:
        text = README.read_text(encoding="utf-8")
        before, _, rest = text.partition(BLOCK_BEGIN)
        _, _, after = rest.partition(BLOCK_END)
        block = "\n".join(readme_block(runs, drains))
        README.write_text(f"{before}{BLOCK_BEGIN}{block}\n{BLOCK_END}{after}", encoding="utf-8")
    return 1 if failures else 0


def compare_run(folder: Path) -> Run:
    trace = load_trace(folder)
    prediction = predict_trace(trace)
    node_facts = {what: compare(trace, prediction) for what, compare in NODE_FACTS.items()}
    deletions = compare_deletions(trace, prediction)
    return Run(trace.name, deletions, node_facts, fitted_errors(trace))


def compare_drain(folder: Path) -> DrainRun:
    recording = load_drain_recording(folder)
    return DrainRun(folder.name, compare_drains(recording, predict_drains(recording)))


def readme_block(runs: Sequence[Run], drains: Sequence[DrainRun]) -> list[str]:
    """Both tables, in Markdown."""
    return [*readme_table(runs), "", *readme_drains(drains)]


def readme_drains(drains: Sequence[DrainRun]) -> list[str]:
    """The recorded drains, in Markdown."""
    evictions, refusals, ends = (
        together([getattr(drain.compared, what) for drain in drains])
        for what in ("evictions", "refusals", "ends")
    )
    row = [
        str(len(drains)),
        *(f"{len(one.inside)} of {one.facts}" for one in (evictions, refusals, ends)),
        str(len(evictions.absent)),
        *(f"{statistics.median(one.widths_seconds):.2f} s" for one in (evictions, ends)),
    ]
    headers = (
        "`kubectl drain`, runs",
        "evictions",
        "429 and 500",
        "ends with exit code",
        "absent",
        "median window",
        "of ends",
    )
    return tabulate(
        [row], headers, tablefmt="github", disable_numparse=True, colalign=["right"] * 7
    ).splitlines()


def readme_table(runs: Sequence[Run]) -> list[str]:
    """The comparison by release, in Markdown."""
    releases = sorted(
        {run.release for run in runs}, key=lambda text: tuple(map(int, text.split(".")))
    )
    rows = [
        _release_row(release, [r for r in runs if r.release == release]) for release in releases
    ]
    rows.append(_release_row("all", runs))
    headers = ("release", "runs", "evictions", "Ready=Unknown", "taints", "absent", "median window")
    return tabulate(
        rows, headers, tablefmt="github", disable_numparse=True, colalign=("left", *["right"] * 6)
    ).splitlines()


def _release_row(release: str, runs: Sequence[Run]) -> list[str]:
    """Facts in their windows, of how many, and certain predictions without a fact."""
    unknown, *taints = (together([run.node_facts[what] for run in runs]) for what in NODE_FACTS)
    deletions, tainted = together([run.deletions for run in runs]), together(taints)
    widths = deletions.widths_seconds
    return [
        release,
        str(len(runs)),
        *(f"{len(one.inside)} of {one.facts}" for one in (deletions, unknown, tainted)),
        str(sum(len(one.absent) for one in (deletions, unknown, tainted))),
        f"{statistics.median(widths):.2f} s" if widths else "",
    ]


def report(runs: list[Run]) -> Iterator[str]:
    """Yield the lines of the report, none wider than 100 columns."""
    rows = [row(run.name, run.deletions, run.errors_seconds) for run in runs]
    everything = together([run.deletions for run in runs])
    errors = [error for run in runs for error in run.errors_seconds]
    rows.append(row("all", everything, errors))
    right = ("left", *["right"] * (len(HEADERS) - 1))
    yield tabulate(rows, HEADERS, tablefmt="plain", colalign=right, disable_numparse=True)
    yield ""
    for what in NODE_FACTS:
        facts = together([run.node_facts[what] for run in runs])
        yield f"{what}: {share(facts)}, {len(facts.absent)} absent"
    yield ""
    yield (
        f"INSIDE: seen in the predicted window, with {WATCH_SLACK_SECONDS:g}s for the watch and "
        f"{CLOCK_SLACK_SECONDS:g}s for clocks."
    )
    yield "ABSENT: certain, not recorded. SPARED: possible, not recorded. MEDIAN, LARGEST: windows."
    yield "FITTED: median error of the single run with the best phases; instants of pods that wait"
    yield "alike are compared in order, whichever node came first."


def drain_report(drains: Sequence[DrainRun]) -> Iterator[str]:
    """Yield the lines about recorded drains, none wider than 100 columns."""
    if not drains:
        return
    rows = []
    for name, (evictions, refusals, ends, _) in drains:
        widths = evictions.widths_seconds
        rows.append(
            [
                short(name),
                *(
                    str(n)
                    for one in (evictions, refusals, ends)
                    for n in (one.facts, len(one.inside))
                ),
                str(len(evictions.absent)),
                f"{statistics.median(widths):.2f}s" if widths else "-",
            ]
        )
    right = ("left", *["right"] * (len(DRAIN_HEADERS) - 1))
    yield ""
    yield tabulate(rows, DRAIN_HEADERS, tablefmt="plain", colalign=right, disable_numparse=True)
    unknowable = sum(len(drain.compared.unknowable) for drain in drains)
    yield (
        f"Not compared: {unknowable} requests about replacements, or pods whose live kubelet never ends them."
    )


def drain_failures_of(drain: DrainRun) -> Iterator[str]:
    """Yield one line for everything of a drain that contradicts its prediction."""
    for what in ("evictions", "refusals", "ends"):
        compared: Comparison = getattr(drain.compared, what)
        for fact in compared.outside:
            yield f"OUTSIDE {drain.name}: {what}: {fact.subject} at {fact.at_seconds:.3f}s"
        for expected in compared.absent:
            yield f"ABSENT {drain.name}: {what}: {_certain(expected)}"


def upstream_lines() -> list[str]:
    """How many scenarios upstream's own controller agrees with, and one line for each contradiction."""
    cases = load_cases()
    found = [[f"UPSTREAM {line}" for line in case.disagreements(RELEASE)] for case in cases]
    agree = sum(1 for lines in found if not lines)
    instants = sum(len(run) for case in cases for run in (*case.runs, case.exact[RELEASE]))
    head = (
        f"upstream's own node lifecycle controller, {RELEASE}: {agree} of {len(cases)} scenarios agree "
        f"({instants} taints)"
    )
    return [head, *(line for lines in found for line in lines)]


def row(name: str, comparison: Comparison, errors_seconds: list[float]) -> list[str]:
    widths = comparison.widths_seconds
    return [
        short(name),
        str(comparison.facts),
        str(len(comparison.inside)),
        str(len(comparison.absent)),
        str(len(comparison.not_happened)),
        f"{statistics.median(widths):.2f}s" if widths else "-",
        f"{widths[-1]:.2f}s" if widths else "-",
        f"{statistics.median(errors_seconds) * 1000:.0f}ms" if errors_seconds else "-",
    ]


def short(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 3]}..."


def together(comparisons: list[Comparison]) -> Comparison:
    return Comparison(
        [pair for one in comparisons for pair in one.inside],
        [fact for one in comparisons for fact in one.outside],
        [expected for one in comparisons for expected in one.absent],
        [expected for one in comparisons for expected in one.not_happened],
    )


def share(comparison: Comparison) -> str:
    return f"{len(comparison.inside)} of {comparison.facts} in their windows"


def failures_of(run: Run) -> Iterator[str]:
    """Yield one line for everything that contradicts a prediction."""
    for what, comparison in {"evictions": run.deletions, **run.node_facts}.items():
        for fact in comparison.outside:
            yield f"OUTSIDE {run.name}: {what}: {fact.subject} at {fact.at_seconds:.3f}s"
        for expected in comparison.absent:
            yield f"ABSENT {run.name}: {what}: {_certain(expected)}"


def _certain(expected: Expected) -> str:
    return (
        f"{expected.subject} certain between {expected.earliest_seconds:.3f}s and "
        f"{expected.latest_seconds:.3f}s"
    )


if __name__ == "__main__":
    sys.exit(main())
