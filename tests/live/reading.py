"""Reading a simulated server, and what came of it."""

from __future__ import annotations

from typing import NamedTuple

from live.api_server import ApiServer

from kubectl_evictplan.errors import ProblemsError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.reader import read_cluster

ENVIRONMENT = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}


def read(api: ApiServer, **flags: object) -> ClusterSnapshot:
    """Return the cluster as the reader sees it."""
    connection = ConnectionFlags(server=api.url)._replace(**flags)
    return read_cluster(connection, ENVIRONMENT, world=api.clock.world(api.read_seconds_max))


class Outcome(NamedTuple):
    """How a reading ended: exit code 0 with a snapshot, or another with messages."""

    code: int
    snapshot: ClusterSnapshot | None
    messages: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(self.messages)


def outcome(api: ApiServer, **flags: object) -> Outcome:
    """Return how reading ends; anything but a documented error fails the test."""
    try:
        return Outcome(0, read(api, **flags))
    except ProblemsError as error:
        assert all(problem.correction for problem in error.problems), error
        return Outcome(error.exit_code, None, tuple(map(str, error.problems)))
