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
from tabulate import tabulate
from trace_runs import (
    CLOCK_SLACK_SECONDS,
    WATCH_SLACK_SECONDS,
    Comparison,
    compare_deletions,
    compare_taints_added,
    compare_taints_removed,
    compare_unknown,
    load_trace,
    predict_trace,
    trace_folders,
)
from upstream_runs import RELEASE, load_cases

from kubectl_evictplan.errors import InputError

REPOSITORY = Path(__file__).resolve().parent.parent
TRACES = REPOSITORY / "fixtures" / "traces"
README = REPOSITORY / "README.md"
BLOCK_BEGIN, BLOCK_END = "<!-- FIDELITY: made by `make fidelity` -->\n", "<!-- END FIDELITY -->\n"
NAME_WIDTH = 28
HEADERS = ("RUN", "DELETED", "INSIDE", "ABSENT", "SPARED", "MEDIAN", "LARGEST", "FITTED")
NODE_FACTS = {
    "nodes became Ready=Unknown": compare_unknown,
    "NoExecute taints added by node lifecycle": compare_taints_added,
    "NoExecute taints removed by node lifecycle": compare_taints_removed,
}


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison; return the process's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="*", default=[TRACES], metavar="FOLDER")
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
        runs = [compare_run(folder) for folder in traces]
    except InputError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return error.exit_code
    failures = [line for run in runs for line in failures_of(run)]
    upstream = ["", *upstream_lines()] if parsed.upstream else []
    failures += upstream[2:]
    for line in (*report(runs), *upstream[:2], *failures):
        print(line)
    if parsed.readme:
        text = README.read_text(encoding="utf-8")
        before, _, rest = text.partition(BLOCK_BEGIN)
        _, _, after = rest.partition(BLOCK_END)
        block = "\n".join(readme_table(runs))
        README.write_text(f"{before}{BLOCK_BEGIN}{block}\n{BLOCK_END}{after}", encoding="utf-8")
    return 1 if failures else 0


def compare_run(folder: Path) -> Run:
    trace = load_trace(folder)
    prediction = predict_trace(trace)
    node_facts = {what: compare(trace, prediction) for what, compare in NODE_FACTS.items()}
    deletions = compare_deletions(trace, prediction)
    return Run(trace.name, deletions, node_facts, fitted_errors(trace))


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
        name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 3]}...",
        str(comparison.facts),
        str(len(comparison.inside)),
        str(len(comparison.absent)),
        str(len(comparison.not_happened)),
        f"{statistics.median(widths):.2f}s" if widths else "-",
        f"{widths[-1]:.2f}s" if widths else "-",
        f"{statistics.median(errors_seconds) * 1000:.0f}ms" if errors_seconds else "-",
    ]


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
            yield (
                f"ABSENT {run.name}: {what}: {expected.subject} certain between "
                f"{expected.earliest_seconds:.3f}s and {expected.latest_seconds:.3f}s"
            )


if __name__ == "__main__":
    sys.exit(main())
