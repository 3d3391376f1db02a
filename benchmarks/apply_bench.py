"""What applying a plan costs: its journal, a change of many nodes, and an operation against bare requests.

    python benchmarks/apply_bench.py [--nodes N] [--records N]

The simulated API server of the tests answers from a process of its own on loopback; the client, the
engine and the journal (with its fsync) are the real ones. ``bare`` sends the same reads and patches of
nodes with nothing around them. Pauses are skipped, so that the time is work. Memory is the peak of
the applying process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))
NODES, RECORDS, PODS_OF_A_NODE = 100, 10_000, 3
MILLISECONDS = 1000.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(PARTS[arguments.part](arguments)))
        return
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    rows = []
    for part in PARTS:
        with served(arguments.nodes) as url:
            given = [f"--nodes={arguments.nodes}", f"--records={arguments.records}"]
            command = [sys.executable, __file__, *given, f"--part={part}", f"--url={url}"]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows += json.loads(done.stdout)
    print(tabulate(rows, ["what", "value", "unit"], floatfmt=".2f", tablefmt="github"))


@contextmanager
def served(nodes: int) -> Iterator[str]:
    """Serve a cluster of so many nodes; gives the server's address."""
    ready: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=_serve, args=(nodes, ready), daemon=True)
    process.start()
    try:
        yield ready.get(timeout=60)
    finally:
        process.kill()
        process.join()


def _serve(nodes: int, ready: Any) -> None:
    from live import clusters
    from live.changing import TOKEN
    from live.real_clock import RealClock
    from live.writable_server import WritableServer

    api = WritableServer(clock=RealClock(), tokens={TOKEN}, exit_after_seconds=0.0)  # type: ignore[arg-type]
    for number in range(nodes):
        name = f"n{number:04}"
        api.add(clusters.node(name))
        api.add(*(clusters.pod(f"{name}-{pod}", name) for pod in range(PODS_OF_A_NODE)))
    with api.serve():
        ready.put(api.url)
        time.sleep(3600)


def run_journal(arguments: argparse.Namespace) -> list[tuple[str, float, str]]:
    """Write a journal of many records, each durable before the next, and read it back."""
    from live.applying import Carrying, drain_of, plan_of

    from kubectl_evictplan.apply import journal as journals
    from kubectl_evictplan.apply.cluster import Outcome
    from kubectl_evictplan.apply.files import LocalFiles
    from kubectl_evictplan.apply.records import Begin, Intent, Result
    from kubectl_evictplan.apply.status import status

    with (
        tempfile.TemporaryDirectory(dir=REPOSITORY / ".bench") as folder,
        connected(arguments) as api,
    ):
        plan = plan_of(api, drain_of(api, "n0000")[:1])
        one = Carrying(_Clock(), api, plan, Path(folder))  # type: ignore[arg-type]
        one.apply()
        records = journals.read(one.journal, LocalFiles()).records
        begin = next(record for record in records if isinstance(record, Begin))
        intent = next(record for record in records if isinstance(record, Intent))
        result = next(record for record in records if isinstance(record, Result))
        path, replace = Path(folder) / "long.jsonl", msgspec.structs.replace
        journal, _ = journals.create(path, LocalFiles(), replace(begin, prev=""))
        started = time.perf_counter()
        for attempt in range(1, arguments.records // 2):
            journal.append(replace(intent, attempt=attempt))
            journal.append(replace(result, attempt=attempt, outcome=Outcome.CONFLICT))
        journal.append(replace(intent, attempt=arguments.records // 2))
        written = time.perf_counter() - started
        journal.close()
        size = path.stat().st_size
        started = time.perf_counter()
        status(path, LocalFiles())
        read = time.perf_counter() - started
    count = arguments.records
    return [
        (f"journal: write {count:,} records, durable one by one", written, "s"),
        ("journal: write a record", written / count * MILLISECONDS, "ms"),
        (f"journal: read and check {count:,} records", read, "s"),
        (f"journal: size of {count:,} records", size / (1 << 20), "MiB"),
        ("journal: peak memory", peak_mib(), "MiB"),
    ]


def run_drain(arguments: argparse.Namespace) -> list[tuple[str, float, str]]:
    """Taint, cordon and drain all nodes, one after the other."""
    from live.applying import drain_of

    with connected(arguments) as api:
        operations = drain_of(api, *(f"n{number:04}" for number in range(arguments.nodes)))
        seconds, requests = applied(api, operations)
    count = len(operations)
    return [
        (f"apply: {arguments.nodes} nodes, {count} operations", seconds, "s"),
        ("apply: an operation", seconds / count * MILLISECONDS, "ms"),
        ("apply: requests of an operation", requests / count, ""),
        ("apply: peak memory", peak_mib(), "MiB"),
    ]


def run_patches(arguments: argparse.Namespace) -> list[tuple[str, float, str]]:
    """Taint all nodes; then the same number of bare reads and patches."""
    from live.applying import drain_of

    names = [f"n{number:04}" for number in range(arguments.nodes)]
    with connected(arguments) as api:
        found = [one for one in drain_of(api, *names) if type(one).__name__ == "AddTaint"]
        numbered = [msgspec.structs.replace(one, number=at) for at, one in enumerate(found, 1)]
        seconds, requests = applied(api, numbered)
    each = round(requests / len(names))
    bare = bare_seconds(arguments.url, names, each)
    own = (seconds - bare) / len(names) * MILLISECONDS
    return [
        (f"taint: {len(names)} nodes, {each} requests each", seconds, "s"),
        ("taint: the same requests, bare", bare, "s"),
        ("taint: overhead of an operation, journal and checks", own, "ms"),
    ]


def applied(api: Any, operations: Any) -> tuple[float, int]:
    """Carry the operations out; return the seconds and the number of requests."""
    from live.applying import Carrying, plan_of

    plan = plan_of(api, operations)
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".bench") as folder:
        run = Carrying(_Clock(), api, plan, Path(folder))  # type: ignore[arg-type]
        before, started = api._transport.requests, time.perf_counter()
        result = run.apply()
        seconds = time.perf_counter() - started
    assert result.exit_code == 0, result.ending
    return seconds, api._transport.requests - before


def bare_seconds(url: str, names: list[str], requests: int) -> float:
    """Return how long a patch and so many reads of each node take, less one."""
    import urllib3
    from live.changing import TOKEN

    pool = urllib3.PoolManager(retries=False)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    patch = {**headers, "Content-Type": "application/strategic-merge-patch+json"}
    started = time.perf_counter()
    for name in names:
        path, version = f"{url}/api/v1/nodes/{name}", ""
        for _ in range(requests - 1):
            answer = pool.request("GET", path, headers=headers)
            version = json.loads(answer.data)["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": []}}
        answer = pool.request("PATCH", path, headers=patch, body=json.dumps(body))
        assert answer.status == 200, answer.data
    return time.perf_counter() - started


@contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[Any]:
    from live.apply_driver import ENVIRONMENT
    from live.changing import TOKEN

    from kubectl_evictplan.live.flags import ConnectionFlags
    from kubectl_evictplan.live.mutations import cluster_api

    flags = ConnectionFlags(server=arguments.url, token=TOKEN)
    with cluster_api(flags, ENVIRONMENT) as api:
        yield api


class _Clock:
    """What ``Carrying`` asks a server for: the world to run in; its clock jumps where it would sleep."""

    read_seconds_max = 20.0

    def __init__(self) -> None:
        self.clock = self
        self._slept = 0.0

    def world(self, _read_seconds_max: float) -> Any:
        from kubectl_evictplan.world import World

        return World(monotonic=lambda: time.monotonic() + self._slept, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self._slept += seconds


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


PARTS = {"journal": run_journal, "drain": run_drain, "patches": run_patches}

if __name__ == "__main__":
    main()
