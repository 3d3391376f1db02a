"""How long loading takes, against ``orjson.loads`` of the same bytes with the collector off.

Each measurement runs in a process of its own, because memory that one leaves behind slows or
helps the next. Generated clusters are kept in ``.bench`` and reused.

    python benchmarks/load.py 100 1000 5000
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from generate_cluster import write_cluster

BENCH = Path(__file__).resolve().parent.parent / ".bench"
SIZES = (100, 1000, 5000)
MIB = 1 << 20


def measured(work: Callable[[], object]) -> dict[str, float]:
    started, cpu = time.perf_counter(), time.process_time()
    result = work()
    report = {
        "wall_seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    del result
    return report


def run_orjson(path: Path) -> dict[str, float]:
    import orjson

    gc.disable()
    return measured(lambda: orjson.loads(path.read_bytes()))


def run_load(path: Path) -> dict[str, float]:
    from kubectl_evictplan.sources.files import load_files

    return measured(lambda: load_files([str(path)]))


def run_write(path: Path) -> dict[str, float]:
    from kubectl_evictplan.sources.files import load_files
    from kubectl_evictplan.sources.snapshot import write_snapshot

    snapshot = load_files([str(path)])
    return measured(lambda: write_snapshot(snapshot, str(snapshot_path(path)), force=True))


RUNS = {"orjson": run_orjson, "load": run_load, "write": run_write}


def snapshot_path(path: Path) -> Path:
    return path.with_suffix(".snapshot.json.gz")


def in_new_process(run: str, path: Path, repetitions: int) -> dict[str, float]:
    """Return the fastest of several runs; others on the machine can only slow one down."""
    results = []
    for _ in range(repetitions):
        command = [sys.executable, __file__, "--run", run, "--path", str(path)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results.append(json.loads(output))
    return min(results, key=lambda result: result["wall_seconds"])


def compare(nodes: int, repetitions: int) -> None:
    path = BENCH / f"cluster-{nodes}.json"
    if not path.exists():
        BENCH.mkdir(exist_ok=True)
        with path.open("wb") as stream:
            write_cluster(stream, nodes)
    size = path.stat().st_size / MIB
    loaded = in_new_process("load", path, repetitions)
    reference = in_new_process("orjson", path, repetitions)
    written = in_new_process("write", path, 1)
    snapshot = in_new_process("load", snapshot_path(path), repetitions)
    ratio = loaded["wall_seconds"] / reference["wall_seconds"]
    print(
        f"{nodes:6d} nodes {size:8.1f} MiB | load {loaded['wall_seconds']:6.2f} s, "
        f"{loaded['peak_mib'] - size:5.0f} MiB above the input | "
        f"orjson {reference['wall_seconds']:6.2f} s | ratio {ratio:4.2f} | "
        f"snapshot {snapshot_path(path).stat().st_size / MIB:5.1f} MiB, "
        f"written in {written['wall_seconds']:4.2f} s, "
        f"loaded in {snapshot['wall_seconds']:4.2f} s, peak {snapshot['peak_mib']:4.0f} MiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES, help="numbers of nodes")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--run", choices=sorted(RUNS), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(RUNS[arguments.run](arguments.path)))
        return
    for nodes in arguments.sizes:
        compare(nodes, arguments.repetitions)


if __name__ == "__main__":
    main()
