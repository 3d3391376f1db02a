"""What holds for every test: deterministic examples, no network beyond this machine."""

from __future__ import annotations

import atexit
import gc
import ipaddress
import shutil
import socket
import tempfile
from collections.abc import Iterator
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


@pytest.fixture(autouse=True, scope="session")
def _only_this_machine() -> Iterator[None]:
    """Refuse connections to anything but the loopback interface."""
    connect = socket.socket.connect

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            pytest.fail(f"a test tried to reach {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        yield


@pytest.fixture(autouse=True, scope="session")
def _nobodys_kubeconfig(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the clusters and proxies of whoever runs the tests out of them."""
    if any(item.get_closest_marker("live") for item in request.session.items):
        # These make clusters of their own, with tools that live in the home folder.
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", "/nonexistent")
        patch.setenv("XDG_STATE_HOME", str(_STATE))
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
            patch.delenv(name, raising=False)
        for name in ("http_proxy", "https_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        yield


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the thousands of tests: they live to the end."""
    gc.collect()
    gc.freeze()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
