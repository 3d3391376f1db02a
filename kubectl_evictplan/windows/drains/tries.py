"""At which of its tries kubectl meets a budget that opens: a refused pod is asked for every five seconds, and not in between.

Who reads that nobody may go is refused at once, whoever writes the budget (``checkAndDecrement``).
"""

from __future__ import annotations

from kubectl_evictplan.windows.drains.delays import ARRIVAL, RETRY, Range
from kubectl_evictplan.windows.spans import merge_spans

# Whoever is refused more often asks at any time.
_TRIES_MAX = 40


def first_read(since_ns: int, begin: Range) -> Range:
    """From when to when a pod's budget is read for the first time at or after that offset.

    ``begin``: from when to when kubectl comes to the node, with all of its pods at once. Until that offset the budget is closed.
    """
    low_ns, high_ns = begin[0] + ARRIVAL[0], begin[1] + ARRIVAL[1]
    if since_ns - low_ns > _TRIES_MAX * RETRY[0]:
        return since_ns, max(since_ns + RETRY[1], high_ns)
    found: list[Range] = []
    reads = [(low_ns, high_ns)]
    while reads:
        later: list[Range] = []
        for low_ns, high_ns in reads:
            if high_ns >= since_ns:
                found.append((max(low_ns, since_ns), high_ns))
            if low_ns < since_ns:
                before = low_ns, min(high_ns, since_ns)
                later.append((before[0] + RETRY[0], before[1] + RETRY[1]))
        reads = list(merge_spans(sorted(later), 0))
    return min(low for low, _ in found), max(high for _, high in found)
