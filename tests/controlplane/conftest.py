"""Real control planes for the tests of this folder; skipped, visibly, where they cannot be built."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from binaries import BuildError
from kubelets import Kubelets
from plane import SHORT_FLAGS, ControlPlane, Start

RELEASES = os.environ.get("RELEASE", "1.37.0 1.30.14").split()


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(release: str, tmp_path: Path) -> Start:
    """A function that starts a control plane with kubelets on nodes of zones a and b."""
    return starter(release, tmp_path)


@pytest.fixture(scope="module")
def start_for_all(release: str, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """The same for a control plane that several tests look at."""
    return starter(release, tmp_path_factory.mktemp("shared"))


def starter(release: str, folder: Path) -> Start:
    @contextlib.contextmanager
    def started(
        nodes: Mapping[str, str],
        *,
        ready_after_seconds: float = 1.0,
        exit_after_seconds: float = 0.5,
        flags: Mapping[str, str] = SHORT_FLAGS,
    ) -> Iterator[tuple[ControlPlane, Kubelets]]:
        try:
            plane = ControlPlane(release, folder / f"plane{len(list(folder.iterdir()))}", flags)
        except BuildError as error:
            pytest.skip(str(error))
        with plane:
            kubelets = Kubelets(
                plane.api,
                ready_after_seconds=ready_after_seconds,
                exit_after_seconds=exit_after_seconds,
            )
            try:
                for name, zone in nodes.items():
                    kubelets.register(name, zone)
                yield plane, kubelets
            finally:
                kubelets.stop()

    return started
