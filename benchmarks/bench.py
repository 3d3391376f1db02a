"""Time and memory as ratios: every figure in one run, against ``python -c "import click"`` in the same run.

    python benchmarks/bench.py [--nodes N] [--repetitions N] [--docs]

Prints one table; ``--docs`` also writes it into docs/benchmarks.md. Every measurement is made in a process of its
own, and the fastest of several counts, because others on the machine can only slow one down. TIME is what a person
waits, CPU the processor time of all processes together, PEAK the memory of the largest, of a whole answer that of all
together (in a run of its own, for looking takes time). Generated clusters (30 pods per node; the zone that falls silent
has 34 % of the nodes) are kept in ``.bench`` and made again when missing: 3 GB of disk for the 5,000 nodes that the
goals are about.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from drained_pool import NODES_OF_A_POOL_NODE
from generate_cluster import PODS_PER_NODE, write_cluster
from measurements import (
    MIB,
    PROGRAM,
    Report,
    best_of,
    fastest,
    memory_of_all_mib,
    program,
    snapshot_path,
)
from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parent.parent
BENCH = REPOSITORY / ".bench"
PAGE = REPOSITORY / "docs" / "benchmarks.md"
BLOCK_BEGIN, BLOCK_END = "<!-- bench: begin -->\n", "<!-- bench: end -->\n"
SMALL_CLUSTER = REPOSITORY / "fixtures" / "clusters" / "kubeadm-15-nodes-1.29.json"
NODES = 5000
START_UP_REPETITIONS = 15
# A page that opens at once; what every tracker of tickets takes (``report/markdown.py``).
TICKETS = {"html": 5_000, "markdown": 32}
HEADERS = ("FIGURE", "TIME", "CPU", "x CLICK", "CPU x CLICK", "PEAK", "GOAL")


class Figure(NamedTuple):
    """One row; ``ratio_max`` and ``mib_max`` are goals, ``input_mib`` what the peak may hold besides."""

    what: str
    report: Report
    ratio_max: float | None = None
    mib_max: float | None = None
    input_mib: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=NODES, help="of the largest cluster")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each measurement")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.nodes < 6 or arguments.repetitions < 1:
        parser.error("at least 6 nodes, so that half of them are in three zones, and 1 repetition")
    compile_program()
    click = fastest((sys.executable, "-c", "import click"), START_UP_REPETITIONS)
    figures = [*start_up(), *of_cluster(arguments.nodes, arguments.repetitions)]
    text = "\n".join(table(click, figures, arguments.nodes, arguments.repetitions))
    print(text)
    if arguments.docs:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BLOCK_BEGIN)
        after = rest.partition(BLOCK_END)[2]
        block = f"{BLOCK_BEGIN}```\n{text}\n```\n{BLOCK_END}"
        PAGE.write_text(f"{before}{block}{after}", encoding="utf-8")


def compile_program() -> None:
    """Compile what changed since it ran last, as an installation does.

    Where ``PYTHONDONTWRITEBYTECODE`` is set each measured process would do it again.
    """
    if not compileall.compile_dir(REPOSITORY / "kubectl_evictplan", quiet=1):
        raise SystemExit("error: the program cannot be compiled")


# -- what is measured -----------------------------------------------------------------------------------


def start_up() -> Iterator[Figure]:
    """Yield what a user waits for who asks for help or about a small cluster."""
    words = {
        "--help": (("--help",), 1.3),
        "what-if fail zone --help": (("what-if", "fail", "zone", "--help"), 1.3),
        # 150 ms where `import click` takes 40 ms.
        "recorded 15-node cluster, zone silent, table": (
            ("what-if", "fail", "zone", "eu-1b", "-f", str(SMALL_CLUSTER)),
            4.0,
        ),
    }
    for what, (typed, goal) in words.items():
        yield Figure(what, fastest((*PROGRAM, *typed), START_UP_REPETITIONS), goal)


def of_cluster(nodes: int, repetitions: int) -> Iterator[Figure]:
    """Yield everything that is measured on the large cluster, and on half of it."""
    path = cluster(nodes)
    size_mib = path.stat().st_size / MIB
    for jobs in ("one process", "all processors"):
        run = "load-1" if jobs == "one process" else "load-all"
        what = f"read the dump of {size_mib:,.0f} MiB, {jobs}"
        yield Figure(what, best_of(run, path, repetitions), mib_max=200, input_mib=size_mib)
    for ending, compress in COMPRESSIONS.items():
        packed = compressed(path, ending, compress)
        if packed is not None:
            packed_mib = packed.stat().st_size / MIB
            what = f"read it as {ending}, {packed_mib:,.0f} MiB, all processors"
            report = best_of("load-all", packed, repetitions)
            yield Figure(what, report, mib_max=200, input_mib=packed_mib)
    yield Figure("write its snapshot", best_of("write", path, 1))
    snapshot = snapshot_path(path)
    yield Figure("read its snapshot", best_of("load-1", snapshot, repetitions))
    # A second where `import click` takes 37 ms, of which 40 times are the 1.5 s for all.
    zone = best_of("predict-zone", snapshot, repetitions)
    yield Figure("zone silent: prediction alone", zone, 27)
    for release, which in (("1.16", "oldest"), ("1.37", "newest")):
        report = best_of(f"predict-zone-{which}", snapshot, repetitions)
        yield Figure(f"... by {release}, the {which} release", report, 27)
    # Three seconds.
    entering = best_of("predict-zone-set-remove", snapshot, repetitions)
    yield Figure("... by 1.19.3, where waiting nodes enter again", entering, 80)
    yield Figure(
        "zone silent: snapshot to JSON on disk", what_if(snapshot, "json", repetitions), 40, 300
    )
    yield Figure("zone silent: snapshot to table", what_if(snapshot, "table", repetitions), 40, 300)
    for output, kb_max in TICKETS.items():
        # Two seconds where `import click` takes 37 ms.
        report = best_of(f"ticket-{output}", snapshot, repetitions)
        told = f"{report['output_bytes'] / 1000:,.0f} kB of {kb_max:,}"
        what = f"... {output} ticket on top of the prediction ({told})"
        yield Figure(what, report, 54)
    tight = best_of("impact-tight", snapshot, repetitions)
    # Five seconds where `import click` takes 37 ms.
    yield Figure("zone silent, no room left elsewhere: impact alone", tight, 135)
    taint = best_of("predict-taint", snapshot, repetitions)
    yield Figure("taint on all nodes: prediction alone", taint, 80)
    half = snapshot_path(cluster(nodes // 2))
    if not half.exists():
        best_of("write", cluster(nodes // 2), 1)
    smaller = best_of("predict-zone", half, repetitions)
    growth = zone["seconds"] / smaller["seconds"]
    yield Figure(
        f"... of half the cluster ({growth:.2f} x its time is the whole; goal 2.2)", smaller
    )
    pool = best_of("predict-drain", snapshot, 1)
    smaller = best_of("predict-drain-half", snapshot, 1)
    growth = pool["cpu_seconds"] / smaller["cpu_seconds"]
    which = f"drain of a pool of {nodes // NODES_OF_A_POOL_NODE:,} nodes, a budget for each owner"
    yield Figure(f"{which}: prediction alone", pool)
    yield Figure(f"... of half the pool ({growth:.2f} x its CPU is the whole; goal 2.2)", smaller)
    sweep = fastest((*PROGRAM, "sweep", "nodes", "-f", str(snapshot)), 1)
    # Twenty seconds on two processors.
    yield Figure("sweep of every node", sweep, 540)


def what_if(snapshot: Path, output: str, repetitions: int) -> Report:
    """Return what a person waits for until the answer is on disk."""
    words = (*PROGRAM, "what-if", "fail", "zone", "eu-1a", "-f", str(snapshot), "-o", output)
    written = BENCH / f"answer.{output}"
    reports = []
    for _ in range(repetitions):
        with written.open("wb") as stream:
            reports.append(program(*words, stdout=stream))
    report = min(reports, key=lambda report: report["seconds"])
    with written.open("wb") as stream:
        report["peak_mib"] = memory_of_all_mib(words, stdout=stream) or report["peak_mib"]
    written.unlink()
    return report


# -- clusters -----------------------------------------------------------------------------------------------


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


def _gzip(path: Path, packed: Path) -> None:
    with path.open("rb") as stream, gzip.open(packed, "wb", 1) as out:
        shutil.copyfileobj(stream, out, MIB)


def _zstd(path: Path, packed: Path) -> None:
    try:
        zstd = import_module("compression.zstd")
    except ImportError:
        zstd = import_module("backports.zstd")
    with path.open("rb") as stream, zstd.open(packed, "wb") as out:
        shutil.copyfileobj(stream, out, MIB)


COMPRESSIONS: dict[str, Callable[[Path, Path], None]] = {"gz": _gzip, "zst": _zstd}


def compressed(path: Path, ending: str, compress: Callable[[Path, Path], None]) -> Path | None:
    """Return the cluster compressed; None without a library for it."""
    packed = path.with_name(f"{path.name}.{ending}")
    if not packed.exists():
        unfinished = path.with_suffix(".unfinished")
        try:
            compress(path, unfinished)
        except ImportError:
            return None
        unfinished.rename(packed)
    return packed


# -- the table ----------------------------------------------------------------------------------------------


def table(click: Report, figures: list[Figure], nodes: int, repetitions: int) -> Iterator[str]:
    yield (
        f"{commit()}, Python {platform.python_version()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; "
        f"{nodes:,} nodes, {nodes * PODS_PER_NODE:,} pods; best of {repetitions} (of {START_UP_REPETITIONS} for small ones)"
    )
    yield ""
    rows = [_row(figure, click) for figure in [Figure("python -c 'import click'", click), *figures]]
    align = ("left", *["right"] * 5, "left")
    yield tabulate(rows, HEADERS, "plain", colalign=align, disable_numparse=True)


def _row(figure: Figure, click: Report) -> list[str]:
    seconds, cpu, peak = (figure.report[name] for name in ("seconds", "cpu_seconds", "peak_mib"))
    ratio = seconds / click["seconds"]
    goals = []
    if figure.ratio_max is not None:
        goals.append(_goal(ratio <= figure.ratio_max, f"{figure.ratio_max:g} x"))
    if figure.mib_max is not None:
        above = " above input" if figure.input_mib else ""
        kept = peak - figure.input_mib <= figure.mib_max
        goals.append(_goal(kept, f"{figure.mib_max:g} MiB{above}"))
    cpu_ratio = cpu / click["cpu_seconds"]
    return [
        figure.what,
        f"{seconds:.3f} s",
        f"{cpu:.3f} s",
        f"{ratio:.2f}",
        f"{cpu_ratio:.2f}",
        f"{peak:,.0f} MiB",
        ", ".join(goals),
    ]


def _goal(is_kept: bool, text: str) -> str:
    return f"{text}: {'kept' if is_kept else 'MISSED'}"


def commit() -> str:
    command = ("git", "-C", str(REPOSITORY), "describe", "--always", "--dirty")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown commit"


if __name__ == "__main__":
    main()
