"""Successors that are lost once more: on nodes that take pods while the change has not come to them yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.impact.node_lives import REACTION_MAX_NS, STATUS_SYNC_NS
from kubectl_evictplan.impact.node_phases import NodeKind, Refusal
from kubectl_evictplan.impact.stretches import FOREVER_NS, NEVER, Between
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, Toleration
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where, places

# Pod garbage collection takes pods of a deleted node within that (``quarantineTime`` and two periods).
_COLLECTED_MAX_NS = 80 * SECOND_NS
# More are told as one.
_LOSSES_MAX = 8


class Loss(msgspec.Struct, frozen=True):
    """From ``since_ns`` on, at the earliest, pods of a node are not Ready; when they are ``deleted``, if they are.

    ``back_ns``: at the latest they are Ready again by then if nobody deletes them; ``silent``: nobody may confirm
    their end. ``returns_to``: the one node whose taint is there already and is tolerated for a while; else "".
    ``opens_ns``: before it none of these nodes takes the pods.
    """

    since_ns: int
    deleted: Between
    back_ns: int
    silent: bool
    returns_to: str = ""
    opens_ns: int = -FOREVER_NS


class Losses:
    """What becomes of nodes that may take pods while the change has not come to them yet."""

    def __init__(self, kinds: Iterable[NodeKind], names: Sequence[str]) -> None:
        """``names``: of nodes by their places in sets."""
        self._names = names
        self._kinds: list[tuple[NodeKind, NodeSet]] = []
        for kind in kinds:
            of_kind = {node.name for node in kind.nodes}
            self._kinds.append((kind, nodes_where(map(of_kind.__contains__, names))))

    def of(
        self, coming: Iterable[tuple[int, NodeSet]], tolerations: Sequence[Toleration]
    ) -> tuple[Loss, ...]:
        """Of nodes that may take pods with these tolerations: from when on, and which."""
        found: dict[Loss, None] = {}
        seen = 0
        for since_ns, nodes in coming:
            new = nodes & ~seen
            seen |= new
            for kind, of_kind in self._kinds:
                if there := new & of_kind:
                    found |= dict.fromkeys(self._of_kind(kind, there, tolerations, since_ns))
        return tuple(found) if len(found) <= _LOSSES_MAX else (_as_one(found),)

    def _of_kind(
        self, kind: NodeKind, nodes: NodeSet, tolerations: Sequence[Toleration], since_ns: int
    ) -> Iterator[Loss]:
        loss = _loss(kind, tolerations, since_ns)
        if loss is None:
            return
        if not _may_return(kind, loss):
            yield loss
            return
        # Each is told by its name, as long as not all are told as one.
        for place in islice(places(nodes), _LOSSES_MAX + 1):
            yield replace(loss, returns_to=self._names[place])


def _as_one(found: Iterable[Loss]) -> Loss:
    several = list(found)
    return Loss(
        min(one.since_ns for one in several),
        _hull(one.deleted for one in several),
        max(one.back_ns for one in several),
        any(one.silent for one in several),
        opens_ns=min(one.opens_ns for one in several),
    )


def _loss(kind: NodeKind, tolerations: Sequence[Toleration], since_ns: int) -> Loss | None:
    """What these nodes do to pods that come to them from an instant on; None: nothing."""
    life = kind.life
    evicted = list(_evictions(kind.taints, tolerations, since_ns))
    deleted = _hull(evicted) if evicted else NEVER
    silent = False
    begins = [deleted.earliest_ns]
    back_ns = 0
    for one in life.silences:
        if one.until.latest_ns > since_ns:
            begins.append(max(one.since.earliest_ns, since_ns))
            end_ns = one.until.latest_ns
            back_ns = max(back_ns, end_ns if end_ns >= FOREVER_NS else end_ns + STATUS_SYNC_NS)
            silent = True
    if life.deleted.latest_ns > since_ns and not life.deleted.never:
        collected = life.deleted.later(0, _COLLECTED_MAX_NS)
        deleted = collected if deleted.never else _hull((deleted, collected))
        begins.append(life.deleted.earliest_ns)
    if min(begins) >= FOREVER_NS:
        return None
    return Loss(max(min(begins), since_ns), deleted, back_ns, silent, opens_ns=since_ns)


def _may_return(kind: NodeKind, loss: Loss) -> bool:
    """Whether all that takes pods from these nodes is a taint that is there already."""
    return not (loss.silent or not kind.life.deleted.never) and not any(
        loss.opens_ns < low
        for name, times in kind.taints.items()
        if name.endswith(f":{NO_EXECUTE}")
        for low, _ in times.possible
    )


def _evictions(
    taints: Mapping[str, Refusal], tolerations: Sequence[Toleration], since_ns: int
) -> Iterator[Between]:
    """When NoExecute taints evict a pod with these tolerations that is on the node from an instant on."""
    for name, times in taints.items():
        key, _, effect = name.rpartition(":")
        if effect != NO_EXECUTE:
            continue
        delays = [
            FOREVER_NS
            if one.toleration_seconds is None
            else max(one.toleration_seconds, 0) * SECOND_NS
            for one in tolerations
            if one.key in ("", key) and one.effect in ("", effect)
        ]
        # A value that is not the taint's does not tolerate it; values are not told of taints that come.
        exists = any(one.operator == "Exists" for one in tolerations if one.key in ("", key))
        least_ns = min(delays) if exists and delays else 0
        if least_ns >= FOREVER_NS:
            continue
        for low_ns, high_ns in times.possible:
            if high_ns <= since_ns or (low_ns <= since_ns and not delays):
                # Who does not tolerate it does not come while it is there.
                continue
            latest_ns = high_ns if delays else _surely_from(times, low_ns, high_ns)
            # Who tolerates it for a while may come back to it, again and again.
            yield (
                Between(max(low_ns, since_ns), latest_ns)
                .later(least_ns, max(least_ns, 0))
                .later(0, REACTION_MAX_NS)
            )


def _surely_from(times: Refusal, low_ns: int, high_ns: int) -> int:
    return next((sure for sure, _ in times.sure if low_ns <= sure < high_ns), high_ns)


def _hull(some: Iterable[Between]) -> Between:
    several = list(some)
    return Between(min(one.earliest_ns for one in several), max(one.latest_ns for one in several))
