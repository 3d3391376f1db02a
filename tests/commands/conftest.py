"""A simulated server, and somebody who types commands about it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands.typed_commands import Said, Type
from live.applying import drainable_cluster
from live.changing import TOKEN
from live.real_clock import RealClock
from live.writable_server import WritableServer

from kubectl_evictplan import cli


@pytest.fixture
def server() -> Iterator[WritableServer]:
    with drainable_cluster(clock=RealClock(), exit_after_seconds=0).serve() as api:
        assert isinstance(api, WritableServer)
        # Kubelets are alive: a drained cluster of silent ones predicts other things, on a slow machine soon.
        api.before.append(lambda _: api.renew_leases())
        yield api


@pytest.fixture
def type_(
    server: WritableServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Type:
    """Type a command about the server, in a directory of its own, without a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def run(*words: str, stdin: str = "") -> Said:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        connection = ("-s", server.url, "--token", TOKEN)
        code = cli.run([*words, *connection], program="kubectl-evictplan")
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Said(code, said.out, said.err)

    return run
