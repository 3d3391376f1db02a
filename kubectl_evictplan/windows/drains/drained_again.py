"""Pods that one kubectl may find Terminating because another one evicted them: kubectl evicts these again.

That takes a coincidence of two processes on one node which few drawn runs show; so it is found from the windows: the
later one may come to the node while the object is still there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import controller_of
from kubectl_evictplan.windows.drains.turns import Turns
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction

# From a node's start to its first requests, conflicts left out: a Terminating pod asks no budget.
_AT_ONCE_NS = 300 * MILLISECOND_NS


def deleted_again(
    found: Mapping[EvictionKey, PossibleEviction],
    turns: Turns,
    drains: Sequence[Drain],
    seen: Mapping[str, Collection[NodeDrain]],
) -> Iterator[tuple[EvictionKey, PossibleEviction]]:
    """Further deletions, each possible only. ``seen``: by pod, the turns in which some run deletes it."""
    firsts = {key: one for key, one in found.items() if key.ordinal == 0 and key.uid}
    ordinals: dict[tuple[str, str, str], int] = {}
    for key in found:
        name = (key.pod, key.uid, key.controller)
        ordinals[name] = max(ordinals.get(name, -1), key.ordinal)
    for turn in turns.all():
        event = drains[turn.process]
        if event.pod_selector:
            continue
        starts = turns.started(turn)
        for key, one in firsts.items():
            if one.node != turn.node or turn in seen.get(key.pod, (turn,)):
                continue
            low_ns = max(starts[0][0], one.earliest_ns)
            high_ns = starts[-1][1] + _AT_ONCE_NS
            if one.gone_latest_ns is not None:
                high_ns = min(high_ns, one.gone_latest_ns)
            if low_ns <= high_ns:
                name = (key.pod, key.uid, controller_of(event.options))
                ordinals[name] = ordinals.get(name, -1) + 1
                yield (
                    EvictionKey(*name, ordinals[name]),
                    one._replace(spans=((low_ns, high_ns),), certain=False, sample=None),
                )
