"""What ``bench.py`` measures, each in a process of its own.

A process of its own, because memory that one measurement leaves behind slows or helps the next.
Run as a program this module measures one thing once and prints it as JSON:

    python benchmarks/measurements.py load-1 .bench/cluster-1000.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from kubectl_evictplan.controllers.flags import ControllerConfiguration
    from kubectl_evictplan.kube.objects import ClusterSnapshot
    from kubectl_evictplan.prediction.document import Prediction
    from kubectl_evictplan.scenarios.scenario import Scenario

MIB = 1 << 20
KIB_PER_MIB = 1024
# So often it is looked how much memory all processes take.
MEMORY_SECONDS = 0.01
SCENARIO = """
apiVersion: evictplan.dev/v1alpha1
kind: Scenario
spec:
  controller: {kubernetesVersion: "RELEASE"}
  events:
"""
RELEASE = "1.29"
SILENT_ZONE = "  - {at: 0s, action: kubelet-stop, zone: eu-1a}\n"
TAINTED_NODES = "".join(
    f"  - {{at: 0s, action: taint, zone: {zone}, taint: 'maintenance=true:NoExecute'}}\n"
    for zone in ("eu-1a", "eu-1b", "eu-1c")
)
PROGRAM = (sys.executable, "-m", "kubectl_evictplan")

Report = dict[str, float]

# What a prediction is made of.
Question = tuple["ClusterSnapshot", "Scenario", "ControllerConfiguration"]


def snapshot_path(path: Path) -> Path:
    return path.with_suffix(".snapshot.json.gz")


def measured(work: Callable[[], object]) -> Report:
    """Return what ``work`` takes; a peak is the whole process's, or its largest worker's."""
    before = resource_seconds()
    started = time.perf_counter()
    result = work()
    report = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": resource_seconds() - before,
        "peak_mib": _peak_mib(),
    }
    del result
    return report


def resource_seconds() -> float:
    """Return the processor time of this process and of those that it has begun and that have ended."""
    return sum(os.times()[:4])


def _peak_mib() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(one).ru_maxrss for one in who) / KIB_PER_MIB


# -- one measurement each -----------------------------------------------------------------------


def run_load(path: Path, jobs: int) -> Report:
    from kubectl_evictplan.sources.files import load_files

    return measured(lambda: load_files([str(path)], jobs=jobs))


def run_write(path: Path) -> Report:
    from kubectl_evictplan.processes import default_jobs
    from kubectl_evictplan.sources.files import load_files
    from kubectl_evictplan.sources.snapshot import write_snapshot

    snapshot = load_files([str(path)], jobs=default_jobs())
    return measured(lambda: write_snapshot(snapshot, str(snapshot_path(path)), force=True))


def scenario_text(events: str, release: str = RELEASE) -> str:
    """A scenario file with these events."""
    return SCENARIO.replace("RELEASE", release) + events


def question(path: Path, events: str, release: str = RELEASE) -> Question:
    from kubectl_evictplan.controllers.flags import resolve_configuration
    from kubectl_evictplan.scenarios.files import load_scenario
    from kubectl_evictplan.sources.files import load_files

    snapshot = load_files([str(path)])
    loaded = load_scenario(scenario_text(events, release), "scenario", snapshot)
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    return snapshot, loaded.scenario, configuration


def predicted(asked: Question) -> Prediction:
    """Predict, with all that is found out only when it is read."""
    from kubectl_evictplan.prediction.predict import predict

    prediction = predict(*asked)
    len(prediction.warnings)
    len(prediction.workloads)
    return prediction


def run_predict(path: Path, events: str, release: str = RELEASE) -> Report:
    from kubectl_evictplan.garbage import collecting_rarely

    asked = question(path, events, release)
    with collecting_rarely():
        return measured(lambda: predicted(asked))


def run_ticket(path: Path, output: str) -> Report:
    """What a change ticket takes when its prediction is there: what the change costs, and the text."""
    from kubectl_evictplan.garbage import collecting_rarely
    from kubectl_evictplan.impact.assess import with_impact
    from kubectl_evictplan.report import render

    asked = question(path, SILENT_ZONE)
    sizes: list[int] = []

    def ticket() -> None:
        told = with_impact(*asked, prediction)
        sizes.append(sum(len(chunk.encode()) for chunk in render(told, output)))

    with collecting_rarely():
        prediction = predicted(asked)
        report = measured(ticket)
    report["output_bytes"] = sizes[0]
    return report


def run_impact_of_tight(path: Path) -> Report:
    from tight_cluster import tight

    from kubectl_evictplan.controllers.flags import resolve_configuration
    from kubectl_evictplan.garbage import collecting_rarely
    from kubectl_evictplan.impact.assess import assess_impact
    from kubectl_evictplan.scenarios.files import load_scenario
    from kubectl_evictplan.sources.files import load_files

    snapshot = tight(load_files([str(path)]))
    loaded = load_scenario(scenario_text(SILENT_ZONE), "scenario", snapshot)
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    with collecting_rarely():
        prediction = predicted((snapshot, loaded.scenario, configuration))
        # Findings are found out when they are read, and all else for them.
        known = snapshot, loaded.scenario, configuration, prediction
        return measured(lambda: len(assess_impact(*known).findings))


def run_drain(path: Path, share: float = 1.0) -> Report:
    """A pool of the cluster, or such a share of it, is drained."""
    from drained_pool import drain_of_pool, with_budgets

    from kubectl_evictplan.controllers.flags import resolve_configuration
    from kubectl_evictplan.garbage import collecting_rarely
    from kubectl_evictplan.scenarios.files import load_scenario
    from kubectl_evictplan.sources.files import load_files

    snapshot = with_budgets(load_files([str(path)]))
    events = scenario_text(drain_of_pool(snapshot, share))
    loaded = load_scenario(events, "scenario", snapshot)
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    with collecting_rarely():
        return measured(lambda: predicted((snapshot, loaded.scenario, configuration)))


def _all_jobs() -> int:
    from kubectl_evictplan.processes import default_jobs

    return default_jobs()


RUNS: dict[str, Callable[[Path], Report]] = {
    "load-1": lambda path: run_load(path, 1),
    "load-all": lambda path: run_load(path, _all_jobs()),
    "write": run_write,
    "predict-zone": lambda path: run_predict(path, SILENT_ZONE),
    "predict-zone-newest": lambda path: run_predict(path, SILENT_ZONE, "1.37"),
    "predict-zone-set-remove": lambda path: run_predict(path, SILENT_ZONE, "1.19.3"),
    "predict-zone-oldest": lambda path: run_predict(path, SILENT_ZONE, "1.16"),
    "impact-tight": run_impact_of_tight,
    "predict-taint": lambda path: run_predict(path, TAINTED_NODES),
    "predict-drain": run_drain,
    "predict-drain-half": lambda path: run_drain(path, 0.5),
    "ticket-html": lambda path: run_ticket(path, "html"),
    "ticket-markdown": lambda path: run_ticket(path, "markdown"),
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


def fastest(words: tuple[str, ...], repetitions: int) -> Report:
    """Return the fastest run of a program."""
    return min((program(*words) for _ in range(repetitions)), key=lambda report: report["seconds"])


def program(*words: str, stdout: IO[bytes] | int = subprocess.DEVNULL) -> Report:
    """Run a program from its start to its end."""
    started = time.perf_counter()
    with subprocess.Popen(words, stdout=stdout) as process:
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


def memory_of_all_mib(
    words: tuple[str, ...], stdout: IO[bytes] | int = subprocess.DEVNULL
) -> float:
    """Run a program and return what it and the processes that it begins take together at most, where Linux tells it.

    Pages that several processes share count once (proportional set sizes). Looking takes some of the program's time.
    """
    most = 0
    with subprocess.Popen(words, stdout=stdout) as process:
        while process.poll() is None:
            most = max(most, sum(map(_memory_kib, _with_children(process.pid))))
            time.sleep(MEMORY_SECONDS)
    return most / KIB_PER_MIB


def _with_children(number: int) -> list[int]:
    """A process and those that it has begun, and they."""
    try:
        begun = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii")
    except OSError:
        return [number]
    return [number, *(one for child in begun.split() for one in _with_children(int(child)))]


def _memory_kib(number: int) -> int:
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", choices=sorted(RUNS))
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    print(json.dumps(RUNS[arguments.run](arguments.path)))


if __name__ == "__main__":
    main()
