"""Time and memory on generated clusters of 30 pods per node, and of starting up.

    python benchmarks/bench.py [NODES ...] [--repetitions N]

Every measurement is made in a process of its own; of several, the fastest counts (start-up: the
median). Clusters and snapshots are kept in ``.bench`` and made again when missing. The zone that
falls silent holds 34 % of the nodes: 1,700 of 5,000. The largest default takes 1.4 GB of disk and
2 GB of memory; ``orjson.loads`` of it takes 13 GB and is left out where those are not free.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import measurements
from generate_cluster import PODS_PER_NODE, write_cluster
from measurements import MIB, best_of, medians_in_turn, program, snapshot_path, sweep, what_if
from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parent.parent
BENCH = REPOSITORY / ".bench"
SMALL_CLUSTER = REPOSITORY / "fixtures" / "clusters" / "kubeadm-15-nodes-1.29.json"
SIZES = (100, 1000, 5000)
RELEASES = ("1.29", "1.35")
START_UP_REPETITIONS = 11
# Python objects of a whole dump take nine times the room of its text, which is held as well.
ORJSON_MEMORY_FACTOR = 11


class Measure(NamedTuple):
    """One measured value; ``unit`` is "s", "MiB", "x" (a ratio) or "" (a number)."""

    what: str
    unit: str
    value: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES, help="numbers of nodes")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each measurement")
    arguments = parser.parse_args()
    sizes: list[int] = sorted(set(arguments.sizes))
    if sizes and (sizes[0] < 3 or arguments.repetitions < 1):
        parser.error("at least 3 nodes, one in each zone, and 1 repetition")
    columns = []
    for nodes in sizes:
        print(f"measuring {nodes} nodes ...", file=sys.stderr, flush=True)
        columns.append(measure(cluster(nodes), arguments.repetitions))
    for line in report(sizes, columns, arguments.repetitions):
        print(line)
    for line in start_up():
        print(line)


def cluster(nodes: int) -> Path:
    """Return the file of the generated cluster, made if missing."""
    path = BENCH / f"cluster-{nodes}.json"
    if not path.exists():
        BENCH.mkdir(exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as stream:
            write_cluster(stream, nodes)
        unfinished.rename(path)
    return path


def measure(path: Path, repetitions: int) -> list[Measure]:
    """Return everything that is measured on one cluster."""
    size_mib = path.stat().st_size / MIB
    reference = {"seconds": math.nan, "peak_mib": math.nan}
    if free_mib() > ORJSON_MEMORY_FACTOR * size_mib:
        reference = best_of("orjson", path, repetitions)
    loaded = best_of("load", path, repetitions)
    written = best_of("write", path, 1)
    snapshot = snapshot_path(path)
    rows = [
        ("input", "MiB", size_mib),
        ("orjson.loads, collector off", "s", reference["seconds"]),
        ("orjson.loads, peak above input", "MiB", reference["peak_mib"] - size_mib),
        ("load dump", "s", loaded["seconds"]),
        ("load dump / orjson.loads", "x", loaded["seconds"] / reference["seconds"]),
        ("load dump, peak above input", "MiB", loaded["peak_mib"] - size_mib),
        ("write snapshot", "s", written["seconds"]),
        ("snapshot", "MiB", snapshot.stat().st_size / MIB),
        ("load snapshot", "s", best_of("load", snapshot, repetitions)["seconds"]),
    ]
    predicted: dict[str, float] = {}
    for release in RELEASES:
        predicted = best_of(f"predict-{release}", snapshot, repetitions)
        grown_mib = predicted["peak_mib"] - predicted["before_mib"]
        rows += [
            (f"silent zone, {release}", "s", predicted["seconds"]),
            (f"silent zone, {release}, peak above loaded", "MiB", grown_mib),
        ]
    rows += [
        ("evictions predicted", "", predicted["evictions"]),
        ("where replacements can run", "s", predicted["fit_seconds"]),
        ("report as table", "s", predicted["table_seconds"]),
        ("report as JSON", "s", predicted["json_seconds"]),
        ("size of that JSON", "MiB", predicted["json_mib"]),
        ("what it costs", "s", predicted["impact_seconds"]),
        ("report as Markdown", "s", predicted["markdown_seconds"]),
        ("report as HTML", "s", predicted["html_seconds"]),
        ("size of that HTML", "MiB", predicted["html_mib"]),
        (
            "HTML and what it costs, on top of silent zone",
            "s",
            predicted["impact_seconds"] + predicted["html_seconds"],
        ),
    ]
    rows += sweeps(snapshot, repetitions)
    for source, file, input_mib in (("dump", path, size_mib), ("snapshot", snapshot, 0.0)):
        whole = [program(*what_if(file)) for _ in range(repetitions)]
        peak = "peak above input" if input_mib else "peak"
        rows += [
            (f"what-if on {source}", "s", min(one["seconds"] for one in whole)),
            (
                f"what-if on {source}, {peak}",
                "MiB",
                max(one["peak_mib"] for one in whole) - input_mib,
            ),
        ]
    return [Measure(*row) for row in rows]


def sweeps(snapshot: Path, repetitions: int) -> list[tuple[str, str, float]]:
    """Return what the failures of all single nodes take, on all processors."""
    found = [program(*sweep(snapshot)) for _ in range(repetitions)]
    return [
        ("sweep of every node", "s", min(one["seconds"] for one in found)),
        ("sweep of every node, processor time", "s", min(one["cpu_seconds"] for one in found)),
        ("sweep of every node, peak of a process", "MiB", max(one["peak_mib"] for one in found)),
    ]


def free_mib() -> float:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB


def report(sizes: list[int], columns: list[list[Measure]], repetitions: int) -> Iterator[str]:
    """Yield the table: a row per measure, a column per size, and how measures grow."""
    if not sizes:
        return
    yield (
        f"Python {platform.python_version()}, {PODS_PER_NODE} pods per node, best of {repetitions} "
        "fresh processes"
    )
    yield ""
    rows = []
    for cells in zip(*columns, strict=True):
        what, unit = cells[0].what, cells[0].unit
        values = [cell.value for cell in cells]
        growth = [] if unit == "x" else [grown(a, b) for a, b in pairwise(values)]
        rows.append([what, *(shown(value, unit) for value in values), " ".join(growth)])
    headers = ["NODES", *(f"{nodes:,}" for nodes in sizes), "GROWTH"]
    align = ("left", *["right"] * (len(sizes) + 1))
    yield tabulate(rows, headers, "plain", colalign=align, disable_numparse=True)
    yield ""


def grown(before: float, after: float) -> str:
    return f"x{after / before:.1f}" if before > 0 else "-"


def shown(value: float, unit: str) -> str:
    if math.isnan(value):
        return "-"
    if unit == "s":
        return f"{value:.2f} s"
    if unit == "MiB":
        return f"{value:,.1f} MiB" if value < 10 else f"{value:,.0f} MiB"
    return f"{value:.2f}" if unit == "x" else f"{value:,.0f}"


def start_up() -> Iterator[str]:
    """Yield what a user waits for who asks for help or about a small cluster."""
    words = (*measurements.PROGRAM, "--help")
    click = (sys.executable, "-c", "import click")
    bare = (sys.executable, "-c", "pass")
    small = (*measurements.PROGRAM, "what-if", "fail", "zone", "eu-1b", "-f", str(SMALL_CLUSTER))
    medians = medians_in_turn([words, click, bare, small], START_UP_REPETITIONS)
    yield f"Start-up, median of {START_UP_REPETITIONS}, in turn:"
    yield (
        f"--help {medians[0] * 1000:.0f} ms, import click {medians[1] * 1000:.0f} ms "
        f"(ratio {medians[0] / medians[1]:.2f}), Python alone {medians[2] * 1000:.0f} ms"
    )
    yield f"what-if fail zone on the recorded 15-node cluster: {medians[3] * 1000:.0f} ms"


if __name__ == "__main__":
    main()
