"""``--executor dask://HOST:PORT`` on a real scheduler with two workers, all on loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from building.command_lines import Ask, asker

pytest.importorskip("distributed", reason="pip install 'kubectl-evictplan[distributed]'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "fixtures/clusters/kubeadm-15-nodes-1.29.json"
SMALL = ROOT / "fixtures/examples/mini-cluster.yaml"
PROGRAM = (sys.executable, "-m", "kubectl_evictplan")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    return asker(capsys, monkeypatch)


@contextmanager
def running(*words: str, path: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """One of Dask's own programs, which looks for packages in ``path`` first."""
    command = [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]]
    with subprocess.Popen(
        [*command, "--no-dashboard"],
        cwd=path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def scheduler(
    workers: int, path: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler on a free port with so many workers; its address and its process."""
    from distributed import Client

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"

    def answers() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", int(place.rpartition(":")[2]))) == 0

    with running("scheduler", "--host", "127.0.0.1", "--port", place.rpartition(":")[2]) as process:
        wait_for(answers)
        if not workers:
            yield f"dask://{place}", process
            return
        words = ("worker", f"tcp://{place}", "--nworkers", str(workers), "--nthreads", "1")
        with running(*words, "--no-nanny", path=path) if workers == 1 else running(*words):
            with Client(f"tcp://{place}", timeout="30s") as client:
                client.wait_for_workers(workers, timeout=60)
            yield f"dask://{place}", process


def test_a_sweep_has_the_same_rows_wherever_it_is_computed(ask: Ask, tmp_path: Path) -> None:
    for path in (CLUSTER, SMALL):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    questions = [
        ("sweep", "nodes", "-f", str(CLUSTER)),
        ("sweep", "fleet", str(tmp_path)),
    ]
    with scheduler(2) as (address, _):
        for words in questions:
            there = ask(*words, "-o", "json", "--executor", address)
            here = ask(*words, "-o", "json", "--jobs", "1")
            assert (there.code, there.err) == (0, "")
            assert there.out == here.out
        (tmp_path / "bad.json").write_text("nonsense")
        bad = ask("sweep", "fleet", str(tmp_path), "--executor", address)
        assert "bad.json: expected an object" in bad.problem()


def test_a_scheduler_that_does_not_answer_is_one_line(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_evictplan.commands.dask_scheduler._TIMEOUT", "1s")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"dask://127.0.0.1:{closed.getsockname()[1]}"
    said = ask("sweep", "nodes", "-f", str(SMALL), "--executor", address)

    assert (said.code, said.out) == (6, "")
    assert said.err.startswith("error: --executor: no scheduler answers")
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1


def test_workers_of_another_version_are_refused(ask: Ask, tmp_path: Path) -> None:
    """Their answers would stand in one table with ours."""
    folder = tmp_path / "kubectl_evictplan-0.0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: kubectl-evictplan\nVersion: 0.0.1\n"
    )
    with scheduler(1, tmp_path) as (address, _):
        said = ask("sweep", "nodes", "-f", str(SMALL), "--executor", address)

    assert "has 0.0.1 kubectl-evictplan, and its answers may be others" in said.problem()


@contextmanager
def waiting_for_a_worker(address: str) -> Iterator[subprocess.Popen[str]]:
    """A sweep that has begun to wait, because no worker is there."""
    words = ("sweep", "nodes", "-f", str(SMALL), "--executor", address)
    with subprocess.Popen(
        [*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "has no worker yet: waiting for one" in process.stderr.readline()
            yield process
        finally:
            process.kill()


def test_an_interrupt_gives_the_work_up_at_once() -> None:
    with scheduler(0) as (address, _), waiting_for_a_worker(address) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_a_scheduler_that_goes_away_is_one_line() -> None:
    with scheduler(0) as (address, its), waiting_for_a_worker(address) as process:
        its.kill()
        out, err = process.communicate(timeout=90)

    assert (process.returncode, out) == (6, "")
    assert err == "error: --executor: the scheduler went away, or gave the work up\n"
