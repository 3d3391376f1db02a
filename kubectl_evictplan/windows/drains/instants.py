"""Instants over the runs of a drain, and the nodes by which they are told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.windows.spans import Span, disjoint_outcomes

# kubectl looks every second and asks every 5 s: what lies closer belongs together.
GAP_NS = 1300 * MILLISECOND_NS
# Runs of one seed differ in latencies only: up to here they show the ends of one outcome.
_SPREAD_NS = 2500 * MILLISECOND_NS

Key = TypeVar("Key")


class NodeDrain(NamedTuple):
    """A node in one process of ``kubectl drain``; ``place`` is its place among the process's nodes."""

    process: int
    place: int
    node: str


class Within(NamedTuple):
    """From when to when something happens; ``latest_ns`` None: in some run it never does."""

    earliest_ns: int
    latest_ns: int | None


class Instants(Generic[Key]):
    """Instants by key, run by run."""

    def __init__(self, gap_of: Callable[[Key], int]) -> None:
        self._gap_of = gap_of
        self.by_seed: dict[Key, dict[int, list[int]]] = {}
        self.runs: dict[Key, int] = {}

    def add(self, key: Key, seed: int, at_ns: int) -> None:
        """Once per run and key."""
        self.by_seed.setdefault(key, {}).setdefault(seed, []).append(at_ns)
        self.runs[key] = self.runs.get(key, 0) + 1

    def spans(self, key: Key) -> tuple[Span, ...]:
        """Disjoint windows; none where it never happens."""
        if key not in self.by_seed:
            return ()
        return disjoint_outcomes(self._pieces(key), self._gap_of(key))

    def within(self, key: Key, runs: int) -> Within | None:
        """The hull; without a latest end if it does not happen in as many as ``runs``."""
        if key not in self.by_seed:
            return None
        spans = self.spans(key)
        return Within(spans[0][0], spans[-1][1] if self.runs[key] >= runs else None)

    def _pieces(self, key: Key) -> Iterator[Span]:
        for instants in self.by_seed[key].values():
            low_ns, high_ns = min(instants), max(instants)
            if high_ns - low_ns <= _SPREAD_NS:
                yield low_ns, high_ns
            else:
                yield from ((at_ns, at_ns) for at_ns in instants)
