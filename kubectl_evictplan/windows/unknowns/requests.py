"""What makes requests of the controllers late: bounds, put over everything that is explored without them (``windows/clients/``)."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.unknown import Unknown


class ClientLimits(Unknown[Span]):
    """How long a request waits for a token of its client."""

    name = "client-limits"
    what = "how long the controllers' own clients let requests wait where many are made at once"

    def __init__(self, longest_ns: int) -> None:
        """``longest_ns``: what a request waits at most."""
        self._longest_ns = longest_ns

    def settle(self, part: Span, most: int) -> Iterator[Span]:
        """Later by all that it can wait, and by less."""
        yield part[0], part[1] + self._longest_ns


# A write that meets another one is made again so much later at most (``UpdateTaintBackoff``).
WRITTEN_AGAIN_NS = 200 * MILLISECOND_NS
# A worker puts one taint on and takes another one off, each of which a write may meet.
_CONFLICTS_MAX = 2


class WriteConflicts(Unknown[Span]):
    """Whether a tick's write of taints meets another one of the same node, and when it is made again.

    What a pass writes again is part of its node's wait (``lines.written_late_ns``).
    """

    name = "write-conflicts"
    what = "whether writes of a node's taints meet, and when they are made again"
    longest_ns = _CONFLICTS_MAX * WRITTEN_AGAIN_NS

    def settle(self, part: Span, most: int) -> Iterator[Span]:
        """Later by all that it can take, and by less."""
        yield part[0], part[1] + self.longest_ns
