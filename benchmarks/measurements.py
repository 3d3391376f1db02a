"""What ``bench.py`` measures, each in a process of its own.

A process of its own, because memory that one measurement leaves behind slows or helps the next.
Run as a program this module measures one thing once and prints it as JSON:

    python benchmarks/measurements.py load .bench/cluster-1000.json
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubectl_evictplan.controllers.flags import ControllerConfiguration
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.scenarios.scenario import Scenario

MIB = 1 << 20
KIB_PER_MIB = 1024
ZONE = "eu-1a"
SCENARIO = """
apiVersion: evictplan.dev/v1alpha1
kind: Scenario
spec:
  controller: {kubernetesVersion: "RELEASE"}
  events: [{at: 0s, action: kubelet-stop, zone: ZONE}]
"""
PROGRAM = (sys.executable, "-m", "kubectl_evictplan")

Report = dict[str, float]
Known = tuple["ClusterSnapshot", "Scenario", "ControllerConfiguration"]


def snapshot_path(path: Path) -> Path:
    return path.with_suffix(".snapshot.json.gz")


def measured(work: Callable[[], object]) -> Report:
    started, before_mib = time.perf_counter(), _peak_mib()
    result = work()
    report = {
        "seconds": time.perf_counter() - started,
        "before_mib": before_mib,
        "peak_mib": _peak_mib(),
    }
    del result
    return report


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB


# -- one measurement each -----------------------------------------------------------------------


def run_orjson(path: Path) -> Report:
    import orjson

    gc.disable()
    return measured(lambda: orjson.loads(path.read_bytes()))


def run_load(path: Path) -> Report:
    from kubectl_evictplan.sources.files import load_files

    return measured(lambda: load_files([str(path)]))


def run_write(path: Path) -> Report:
    from kubectl_evictplan.sources.files import load_files
    from kubectl_evictplan.sources.snapshot import write_snapshot

    snapshot = load_files([str(path)])
    return measured(lambda: write_snapshot(snapshot, str(snapshot_path(path)), force=True))


def zone_failure(path: Path, release: str) -> Known:
    """Return what a prediction is made of in which all kubelets of one zone fall silent."""
    from kubectl_evictplan.controllers.flags import resolve_configuration
    from kubectl_evictplan.scenarios.files import load_scenario
    from kubectl_evictplan.sources.files import load_files

    snapshot = load_files([str(path)])
    text = SCENARIO.replace("RELEASE", release).replace("ZONE", ZONE)
    loaded = load_scenario(text, "zone-failure", snapshot)
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    return snapshot, loaded.scenario, configuration


def run_predict(path: Path, release: str) -> Report:
    from kubectl_evictplan.commands.run import collecting_rarely
    from kubectl_evictplan.impact.assess import with_impact
    from kubectl_evictplan.prediction.predict import predict
    from kubectl_evictplan.report import render

    known = zone_failure(path, release)
    predictions: list[Prediction] = []
    with collecting_rarely():
        report = measured(lambda: predictions.append(predict(*known)))
        prediction = predictions[0]
        report["fit_seconds"] = seconds_to_fit(known, prediction)
        started = time.perf_counter()
        told = with_impact(*known, prediction)
        report["impact_seconds"] = time.perf_counter() - started
        report["evictions"] = len(prediction.evictions)
        shown = {"table": prediction, "json": prediction, "markdown": told, "html": told}
        for output, answer in shown.items():
            started = time.perf_counter()
            size = sum(len(chunk.encode()) for chunk in render(answer, output))
            report[f"{output}_seconds"] = time.perf_counter() - started
            report[f"{output}_mib"] = size / MIB
    return report


def seconds_to_fit(known: Known, prediction: Prediction) -> float:
    """Return how long it takes to say where the replacements of all evicted pods can run, and when."""
    from kubectl_evictplan.impact.world import Assumed, World
    from kubectl_evictplan.windows.drain_runs import AssumeReady

    found: list[float] = []
    for part in (True, False):
        started = time.perf_counter()
        World(*known, prediction, Assumed(AssumeReady(), given=False), part=part)
        found.append(time.perf_counter() - started)
    return found[1] - found[0]


RUNS: dict[str, Callable[[Path], Report]] = {
    "orjson": run_orjson,
    "load": run_load,
    "write": run_write,
    "predict-1.29": lambda path: run_predict(path, "1.29"),
    "predict-1.35": lambda path: run_predict(path, "1.35"),
}


# -- in new processes ---------------------------------------------------------------------------


def best_of(run: str, path: Path, repetitions: int) -> Report:
    """Return the fastest of several runs; others on the machine can only slow one down."""
    command = [sys.executable, __file__, run, str(path)]
    reports: list[Report] = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repetitions)
    ]
    return min(reports, key=lambda report: report["seconds"])


def program(*words: str) -> Report:
    """Run a program from its start to its end; its output goes nowhere."""
    started = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"error: {' '.join(words)} exited with {process.returncode}")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / KIB_PER_MIB,
    }


def what_if(path: Path) -> tuple[str, ...]:
    return (*PROGRAM, "what-if", "fail", "zone", ZONE, "-f", str(path))


def sweep(path: Path) -> tuple[str, ...]:
    return (*PROGRAM, "sweep", "nodes", "-f", str(path))


def medians_in_turn(commands: list[tuple[str, ...]], repetitions: int) -> list[float]:
    """Return the median seconds of each command; they take turns, so that noise hits all."""
    seconds: list[list[float]] = [[] for _ in commands]
    for _ in range(repetitions):
        for found, command in zip(seconds, commands, strict=True):
            found.append(program(*command)["seconds"])
    return [statistics.median(found) for found in seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", choices=sorted(RUNS))
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    print(json.dumps(RUNS[arguments.run](arguments.path)))


if __name__ == "__main__":
    main()
