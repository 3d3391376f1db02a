"""What holds for every test: deterministic examples, no network beyond this machine."""

from __future__ import annotations

import atexit
import ipaddress
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,  # the same examples on every machine: a red test is red for everyone
    database=None,
    deadline=None,  # shared machines stall; speed is the benchmarks' business
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("repeatable"), max_examples=1000)
settings.load_profile("repeatable")

_STATE = Path(tempfile.mkdtemp(prefix="evictplan-tests-state-"))
atexit.register(shutil.rmtree, _STATE, ignore_errors=True)
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


@pytest.fixture(scope="session")
def fixtures_path() -> Path:
    """The repository's recorded runs, clusters and examples."""
    return FIXTURES


@pytest.fixture(autouse=True)
def _only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to anything but the loopback interface."""
    connect = socket.socket.connect

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            pytest.fail(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)


@pytest.fixture(autouse=True)
def _nobodys_kubeconfig(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Keep the clusters and proxies of whoever runs the tests out of them."""
    if request.node.get_closest_marker("live"):
        # These make clusters of their own, with tools that live in the home folder.
        return
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("XDG_STATE_HOME", str(_STATE))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
