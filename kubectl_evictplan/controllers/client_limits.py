"""What the clients of kube-controller-manager let through: how many requests at once, and how many a second then.

Every controller has a client, and every client a bucket of tokens (``rest.Request.tryThrottle``). What waits for one is served in
the order in which it was asked for. Events of a controller go through its own client, one after the other.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot

# Of a client without limits of its own (``rest.DefaultQPS``, ``rest.DefaultBurst``).
_QPS, _BURST = 5.0, 10
# A new process knows the cluster so long after it leads, and makes its first requests by then.
PROCESS_NS = 5 * SECOND_NS
# To take a taint off, or to put it there: GET and PATCH.
OF_TAINT = 2
# What the tick writes of a node that was ready and is given up: the status, an event and a taint.
GIVEN_UP = 2 + OF_TAINT
# What is written at most of a node whose Ready changes: the status, an event, and taints of two effects exchanged.
OF_CHANGE = 2 + 4 * OF_TAINT
# So many requests of each node may be in line before one of a pass: of an event, the tick, and the workers for the other taint.
AHEAD = 4
# One that waits for nobody takes so long at most. What several take counts where it is more than clocks differ.
_REQUEST_SECONDS, _NOTICED_SECONDS = 0.01, 0.1
# No controller makes more for one pod or one change of a node, events and all.
_REQUESTS_MAX = OF_CHANGE


class ClientLimit(msgspec.Struct, frozen=True):
    """So many requests at once, and so many a second after that."""

    qps: float
    burst: int

    def __str__(self) -> str:
        return f"{self.qps:g} a second after {self.burst} at once"

    def one_by_one_seconds(self, requests: int) -> float:
        """How long so many take at most of which each is made after the one before: as long as these take, or as they are let through."""
        in_a_row = requests * _REQUEST_SECONDS
        by_tokens = max(requests - self.burst, 0) / self.qps
        return max(by_tokens, in_a_row if in_a_row > _NOTICED_SECONDS else 0.0)


def per_marked_pod(configuration: ControllerConfiguration) -> int:
    """How many requests a tick makes of a ready pod that it marks: the status, and perhaps an event."""
    return 2 if configuration.profile.tells_of_marked_pods else 1


def client_limit(configuration: ControllerConfiguration) -> ClientLimit | None:
    """What --kube-api-qps and --kube-api-burst leave each client; None: it is not limited."""
    qps = configuration.kube_api_qps or _QPS
    return None if qps < 0 else ClientLimit(qps, max(configuration.kube_api_burst or _BURST, 1))


def tick_limit(configuration: ControllerConfiguration) -> ClientLimit:
    """What ticks get through, which make one request after the other: the limit of their client, or what that takes where it is more."""
    limit = client_limit(configuration)
    # Events beside them are told by somebody else.
    qps = per_marked_pod(configuration) / _REQUEST_SECONDS
    if limit is not None and limit.qps <= qps:
        return limit
    return ClientLimit(qps, int(qps * _NOTICED_SECONDS))


def never_waits(
    snapshot: ClusterSnapshot, changes: int, configuration: ControllerConfiguration
) -> bool:
    """Whether no client can have to do with more requests than it makes at once: of so few pods, and so few ``changes``."""
    limit, numbers = tick_limit(configuration), snapshot.stand_ins
    pods = len(snapshot.pods) - len(numbers) + sum(numbers.values())
    return _REQUESTS_MAX * (pods + changes) <= limit.burst


def requests_per_eviction(configuration: ControllerConfiguration) -> int:
    """How many requests taint eviction makes for a pod at most, one after the other: GET, PATCH of its status, DELETE, or only that."""
    return 3 if configuration.disruption_condition else 1
