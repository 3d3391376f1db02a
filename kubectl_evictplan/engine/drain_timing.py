"""One choice of everything that nobody can know about a drain: latencies, chance, exits and readiness.

Ranges are what recorded runs of 1.37 show, widened for slower machines. One run draws from them by
hashing its seed with what is asked about, so that a run is the same whatever else happens in it.
"""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS

READY_DEFAULT_NS = 30 * SECOND_NS
# At the least and at most; None: perhaps never.
ReadyRange = tuple[int, int | None]
# What is drawn is one of so many.
_STEPS = 1 << 32

# What kubectl's own client makes of requests of one kind, each second after so many at once; nothing sets it otherwise.
CLIENT_QPS, CLIENT_BURST = 5, 10


class AssumeReady(NamedTuple):
    """How long after it is bound a replacement is Ready; ``latest_ns`` None: perhaps never."""

    earliest_ns: int = READY_DEFAULT_NS
    latest_ns: int | None = READY_DEFAULT_NS


class Latency(Enum):
    """Something that takes time, longer on a slower machine."""

    # kubectl: from the start of the process to the first cordon; to each further one; from the end
    # of the cordons (or of a node) to the first request; from an answer to the first poll.
    KUBECTL_START = "kubectl-start"
    NEXT_CORDON = "next-cordon"
    LIST_PODS = "list-pods"
    NEXT_DELETE = "next-delete"
    FIRST_POLL = "first-poll"
    KUBECTL_END = "kubectl-end"
    # The Eviction API: from reading a budget to writing its status or refusing, and to the DELETE.
    DECIDE = "decide"
    DELETE = "delete"
    # Controllers, scheduler and kubelets: until a change is seen and acted upon.
    SYNC_BUDGET = "sync-budget"
    # A status that disagrees with the pods listed beside it: seen to last for three seconds.
    CATCH_UP = "catch-up"
    REPLACE_POD = "replace-pod"
    BIND_POD = "bind-pod"
    REPORT_READY = "report-ready"
    # Also how long a container takes that ends at once: longer than a budget's sync.
    REPORT_EXIT = "report-exit"
    # The Job controller takes changes of pods together for a second (``SyncJobBatchPeriod``).
    REMOVE_FINALIZER = "remove-finalizer"


# The fastest and the slowest, in milliseconds.
_RANGES_MS = {
    Latency.KUBECTL_START: (25, 250),
    Latency.NEXT_CORDON: (2, 40),
    Latency.LIST_PODS: (4, 150),
    Latency.NEXT_DELETE: (2, 40),
    Latency.FIRST_POLL: (1, 30),
    Latency.KUBECTL_END: (1, 60),
    Latency.DECIDE: (2, 40),
    Latency.DELETE: (2, 80),
    Latency.SYNC_BUDGET: (2, 120),
    Latency.CATCH_UP: (0, 5000),
    Latency.REPLACE_POD: (4, 200),
    Latency.BIND_POD: (2, 150),
    Latency.REPORT_READY: (0, 400),
    Latency.REPORT_EXIT: (150, 600),
    Latency.REMOVE_FINALIZER: (2, 1250),
}


class Jitter(Enum):
    """Chance that no machine is fast or slow at."""

    # How far apart requests arrive that are sent at once.
    ARRIVAL = "arrival"
    # ``EvictionsRetry``: 500 ms and up to a tenth more after a conflict.
    CONFLICT = "conflict"


_JITTERS_MS = {Jitter.ARRIVAL: (0, 25), Jitter.CONFLICT: (500, 550)}
CONFLICT_MAX_NS = _JITTERS_MS[Jitter.CONFLICT][1] * MILLISECOND_NS


class DrainTiming(msgspec.Struct, frozen=True):
    """How drains go in one admissible run.

    ``seed`` decides whatever is drawn. ``latency`` is the place of every latency in its range (0 fastest,
    1 slowest), None draws each. A deleted pod uses between ``exit_low`` and ``exit_high`` of its grace
    period. A replacement is ready between ``ready_low_ns`` and ``ready_high_ns`` after it is bound (None:
    never), or what ``ready_by_owner`` says of its owner (kind, namespace, name); ``ready`` is its place in between, None
    draws it. ``joins_drained_nodes`` is the share of replacements
    that land on nodes that are still to be drained, where they can. ``room`` is how many of those that are not sure of a
    node find one (0 none, 1 as many as may).

    ``luck``: latencies are many, and only few of their combinations are drawn. So what comes shortly after kubectl's
    look is seen by it all the same at 1, and what comes shortly before is missed at -1; 0 takes instants as they
    are, None draws one of the three each time.
    """

    seed: int = 0
    latency: float | None = 0.3
    exit_low: float = 1.0
    exit_high: float = 1.0
    ready_low_ns: int = READY_DEFAULT_NS
    ready_high_ns: int | None = READY_DEFAULT_NS
    ready: float | None = None
    ready_by_owner: tuple[tuple[tuple[str, str, str], ReadyRange], ...] = ()
    joins_drained_nodes: float = 0.0
    room: float = 1.0
    late_views: float = 0.0
    running: float | None = 1.0
    luck: int | None = 0

    def draw(self, *about: object) -> float:
        """A number in [0, 1), always the same for the same seed and ``about``."""
        text = "\0".join(map(str, (self.seed, *about))).encode()
        return int.from_bytes(blake2b(text, digest_size=4).digest()) / _STEPS

    def latency_ns(self, latency: Latency, *about: object) -> int:
        """How long something takes."""
        drawn = self.latency is None or (latency is Latency.DECIDE and self._meets_by_chance)
        place = self.draw(latency.value, *about) if drawn else self.latency or 0.0
        return _within(_RANGES_MS[latency], place)

    @property
    def _meets_by_chance(self) -> bool:
        """Whether two requests need not meet although everything is slow: in half of such runs."""
        return self.luck == -1 and self.seed % 2 == 1

    def delay_ns(self, range_ns: tuple[int, int], *about: object) -> int:
        """Where in a range of its own something lies that is slow where latencies are."""
        place = self.draw("delay", *about) if self.latency is None else self.latency
        return range_ns[0] + int((range_ns[1] - range_ns[0]) * place)

    def jitter_ns(self, jitter: Jitter, *about: object) -> int:
        """What chance adds."""
        return _within(_JITTERS_MS[jitter], self.draw(jitter.value, *about))

    def conflicts(self, *about: object) -> bool:
        """Whether a request meets the write that came just before it."""
        return self.luck_of("conflict", *about) < 0 and not self._meets_by_chance

    def luck_of(self, *about: object) -> int:
        """-1, 0 or 1 for one look."""
        return int(self.draw("luck", *about) * 3) - 1 if self.luck is None else self.luck

    def exit_fraction(self, pod: int) -> float:
        """How much of its grace period a pod uses."""
        return self.exit_low + (self.exit_high - self.exit_low) * self.draw("exit", pod)

    def running_after_ns(self, pod: int, most_ns: int) -> int:
        """How long after it is bound a container of a replacement runs."""
        place = self.draw("running", pod) if self.running is None else self.running
        return int(most_ns * place)

    @property
    def ready_ns(self) -> ReadyRange:
        """How long after it is bound a replacement is ready whose owner is not told apart."""
        return self.ready_low_ns, self.ready_high_ns

    def ready_after_ns(self, pod: int, within_ns: ReadyRange) -> int | None:
        """How long after it is bound a replacement is ready; None: never."""
        place = self.draw("ready", pod) if self.ready is None else self.ready
        low_ns, high_ns = within_ns
        if high_ns is None:
            return None if place >= 0.5 else low_ns + int(low_ns * place)
        return low_ns + int((high_ns - low_ns) * place)


def range_ns(latency: Latency) -> tuple[int, int]:
    """The shortest and the longest."""
    low_ms, high_ms = _RANGES_MS[latency]
    return low_ms * MILLISECOND_NS, high_ms * MILLISECOND_NS


def jitter_range_ns(jitter: Jitter) -> tuple[int, int]:
    """The least and the most that chance adds."""
    low_ms, high_ms = _JITTERS_MS[jitter]
    return low_ms * MILLISECOND_NS, high_ms * MILLISECOND_NS


def _within(range_ms: tuple[int, int], place: float) -> int:
    low_ms, high_ms = range_ms
    return int((low_ms + (high_ms - low_ms) * place) * MILLISECOND_NS)
