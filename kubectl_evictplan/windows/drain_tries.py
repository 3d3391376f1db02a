"""At which of its tries kubectl meets a budget that opens: a refused pod is asked for every five seconds, and not in between.

Only a write of the budget makes a request read it once more before that (``EvictionREST.Create`` begins anew after a conflict).
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.cluster.eviction_api import MEETS_NS
from kubectl_evictplan.windows.drain_delays import ARRIVAL, CONFLICT, REFUSED, RETRY, Range
from kubectl_evictplan.windows.drain_rounds import TRY_NS
from kubectl_evictplan.windows.spans import merge_spans

# Whoever is refused more often asks at any time.
_TRIES_MAX = 40


def first_read(since_ns: int, begin: Range, writes: Sequence[Range]) -> Range:
    """From when to when a pod's budget is read for the first time at or after that offset.

    ``begin``: from when to when kubectl comes to the node, with all of its pods at once. ``writes``: within these the budget may be written
    before that offset.
    """
    low_ns, high_ns = begin[0] + ARRIVAL[0], begin[1] + ARRIVAL[1]
    if since_ns - low_ns > _TRIES_MAX * RETRY[0]:
        return since_ns, max(since_ns + TRY_NS, high_ns)
    found: list[Range] = []
    reads = [(low_ns, high_ns)]
    while reads:
        later: list[Range] = []
        for low_ns, high_ns in reads:
            if high_ns >= since_ns:
                found.append((max(low_ns, since_ns), high_ns))
            if low_ns < since_ns:
                before = low_ns, min(high_ns, since_ns)
                later.append((before[0] + RETRY[0], before[1] + TRY_NS))
                later += _begun_anew(before, writes)
        reads = list(merge_spans(sorted(later), 0))
    return min(low for low, _ in found), max(high for _, high in found)


def _begun_anew(reads: Range, writes: Sequence[Range]) -> list[Range]:
    """When a request of these reads that a write holds up reads once more."""
    anew = []
    for first_ns, last_ns in writes:
        low_ns = max(reads[0], first_ns - REFUSED[1])
        high_ns = min(reads[1], last_ns + MEETS_NS)
        if low_ns <= high_ns:
            anew.append((low_ns + CONFLICT[0], high_ns + CONFLICT[1]))
    return anew
