"""Servers and command lines for the tests of live clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live.api_server import ApiServer
from live.clusters import small_cluster


@pytest.fixture
def api() -> Iterator[ApiServer]:
    """A running server with a small cluster in it."""
    server = small_cluster(ApiServer())
    with server.serve():
        yield server
