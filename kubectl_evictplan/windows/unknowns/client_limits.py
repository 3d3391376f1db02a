"""What the controllers' own clients do to their requests: a bound, put over everything that is explored without it."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.unknown import Unknown


class ClientLimits(Unknown[Span]):
    """How long a request waits for a token of its client. No run knows of it: windows reach as much further (``clients.throttled_evictions``, ``clients.slow_ticks``)."""

    name = "client-limits"
    what = "how long the controllers' own clients let requests wait where many are made at once"

    def __init__(self, longest_ns: int) -> None:
        """``longest_ns``: what a request waits at most."""
        self._longest_ns = longest_ns

    def settle(self, part: Span, most: int) -> Iterator[Span]:
        """Later by all that it can wait, and by less."""
        yield part[0], part[1] + self._longest_ns
