"""Black holes: endpoints that are offered to clients although nobody answers for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.fates import OF_SHARED, Fate, shared_of
from kubectl_evictplan.impact.node_lives import Frozen, thawed
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between, first_of, last_of
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.impact_document import BlackHole, Instant, ServiceImpact, Spell
from kubectl_evictplan.prediction.records import CERTAIN, POSSIBLE, Rows

SILENT, NODE_DELETED = "silent", "node-deleted"

# Why, since when and until when.
_Stretch = tuple[str, Between, Between]
# What they follow from: a node's life, when endpoints leave, and from when on they may be dropped with their node.
_Token = tuple[int, Between, int]


class _Hole(msgspec.Struct, frozen=True, order=True):
    """Endpoints of a node are offered and dead for one reason, with its instants as they are told."""

    stretch: _Stretch
    since: Instant
    until: Instant


class Holes:
    """Finds them for every service. Alike pods have the same, whichever services they are behind."""

    def __init__(self, frozen: Sequence[Frozen]) -> None:
        self._frozen = frozen
        # Equal holes are one object.
        self._known: dict[_Token, Sequence[_Hole]] = {}
        self._equal: dict[_Stretch, _Hole] = {}

    def of(self, fate: Fate, leaves: Between, dropped_ns: int) -> Sequence[_Hole]:
        """Those of one pod that is there at the start, whose endpoint ``leaves``, or is dropped with its node."""
        token = id(fate.life), leaves, dropped_ns
        if (holes := self._known.get(token)) is None:
            leaves = thawed(leaves, self._frozen)
            leaves = leaves._replace(earliest_ns=min(leaves.earliest_ns, dropped_ns))
            holes = [self._equal.get(one) or self._new(one) for one in _stretches(fate, leaves)]
            self._known[token] = holes
        return holes

    def _new(self, stretch: _Stretch) -> _Hole:
        found = _Hole(stretch, telling.instant(stretch[1]), telling.instant(stretch[2]))
        self._equal[stretch] = found
        return found


class BlackHoles(Rows[BlackHole]):
    """Those of one service, sorted. How many pods they have, and when nobody notices them, is told without rows."""

    def __init__(
        self,
        holes: Holes,
        fates: Sequence[Fate],
        dropped: Mapping[str, int],
        leaves_of: Callable[[Fate], Between],
    ) -> None:
        """``fates`` of the pods behind it; ``dropped``: nodes whose pods may leave early."""
        self._fates, self._dropped, self._leaves_of = fates, dropped, leaves_of
        self._holes = holes

    @cached_property
    def _numbers(self) -> Sequence[tuple[_Hole, int]]:
        """Each hole, and how many pods it has."""
        tokens, holes_of = self._alike
        numbers: dict[int, tuple[_Hole, int]] = {}
        for token, number in Counter(tokens).items():
            for hole in holes_of[token]:
                known = numbers.get(id(hole))
                numbers[id(hole)] = hole, number if known is None else known[1] + number
        return list(numbers.values())

    @cached_property
    def _counted(self) -> Sequence[Fate]:
        return [fate for fate in self._fates if fate.shared.counted]

    @cached_property
    def _alike(self) -> tuple[Sequence[Hashable], Mapping[Hashable, Sequence[_Hole]]]:
        """Of each that counts what is equal for those that have the same holes, and by that the holes."""
        fates, dropped, leaves_of = self._counted, self._dropped, self._leaves_of
        if leaves_of in OF_SHARED and not dropped:
            shared: list[Hashable] = list(map(shared_of, fates))
            some = dict(zip(shared, fates, strict=True))
            return shared, {
                one: self._holes.of(fate, leaves_of(fate), FOREVER_NS) for one, fate in some.items()
            }
        leaves = list(map(leaves_of, fates))
        ends = [dropped.get(fate.pod.node_name, FOREVER_NS) for fate in fates]
        tokens: list[Hashable] = [
            (id(fate.life), id(leaves), fate.pod.node_name if dropped else "")
            for fate, leaves in zip(fates, leaves, strict=True)
        ]
        known = zip(fates, leaves, ends, strict=True)
        return tokens, {
            token: self._holes.of(*one)
            for token, one in dict(zip(tokens, known, strict=True)).items()
        }

    @property
    def pods(self) -> int:
        """How many dead endpoints they are."""
        return sum(number for _, number in self._numbers)

    @property
    def undetected(self) -> Spell | None:
        """The time in which nobody notices them."""
        return _undetected([hole.stretch for hole, _ in self._numbers])

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def rows(self) -> tuple[BlackHole, ...]:  # type: ignore[override]
        """By node, reason and instants."""
        return self.passing()

    def passing(self) -> tuple[BlackHole, ...]:
        """``rows``, made anew each time."""
        tokens, holes_of = self._alike
        # Of each hole the names of its pods, by node.
        pods_of: dict[int, tuple[_Hole, dict[str, list[str]]]] = {
            id(hole): (hole, {}) for holes in holes_of.values() for hole in holes
        }
        nodes_of = {
            token: [pods_of[id(hole)][1] for hole in holes] for token, holes in holes_of.items()
        }
        for fate, token in zip(self._counted, tokens, strict=True):
            pod = fate.pod
            for nodes in nodes_of[token]:
                if (names := nodes.get(pod.node_name)) is None:
                    nodes[pod.node_name] = [pod.name]
                else:
                    names.append(pod.name)
        found = sorted(
            (node, hole, tuple(pods if len(pods) == 1 else sorted(pods)))
            for hole, nodes in pods_of.values()
            for node, pods in nodes.items()
        )
        return tuple(
            [
                BlackHole(node, pods, hole.stretch[0], hole.since, hole.until)
                for node, hole, pods in found
            ]
        )


def dead_endpoints(one: ServiceImpact) -> int:
    """How many endpoints are in its black holes."""
    holes = one.black_holes
    if isinstance(holes, BlackHoles):
        return holes.pods
    return sum(len(hole.pods) for hole in holes)


def _stretches(fate: Fate, leaves: Between) -> Iterator[_Stretch]:
    for silence in fate.life.unanswered:
        if silence.since.earliest_ns < leaves.latest_ns:
            # The kubelet may be back before anybody notices.
            earliest_ns = min(leaves.earliest_ns, silence.until.earliest_ns)
            until = Between(earliest_ns, min(leaves.latest_ns, silence.until.latest_ns))
            if until.latest_ns > silence.since.earliest_ns:
                yield SILENT, silence.since, until
    deleted = fate.life.deleted
    if deleted.earliest_ns < leaves.latest_ns:
        yield NODE_DELETED, deleted, leaves


def _undetected(holes: Sequence[_Stretch]) -> Spell | None:
    """From the first silence to the end of the last black hole."""
    if not holes:
        return None
    certain = any(why == SILENT for why, _, _ in holes)
    since = first_of(*(begins for _, begins, _ in holes))
    until = last_of(*(ends for _, _, ends in holes))
    lasts = max(ends.earliest_ns - begins.latest_ns for _, begins, ends in holes)
    return Spell(
        CERTAIN if certain else POSSIBLE,
        telling.instant(since),
        telling.instant(until),
        telling.seconds_or_null(max(lasts, 0)) if certain else 0.0,
        None if until.latest_ns >= FOREVER_NS else seconds(until.latest_ns - since.earliest_ns),
    )
