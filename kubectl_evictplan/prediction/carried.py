"""A prediction on its way to another process, in parts that are as small as what is told of some hundred groups.

What it costs, and how to find out anything more, stays behind. Workloads and warnings come last and are waited for when they
are read, so that all else can be worked on before they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import Prediction, WorkloadReport
from kubectl_evictplan.prediction.grouped_evictions import (
    Chain,
    EvictionGroup,
    Evictions,
    PodNames,
    SharedChain,
)
from kubectl_evictplan.prediction.records import Eviction, RowsLater, plain

# Groups in one part: so much of them is in memory twice.
_GROUPS_AT_ONCE = 500
_encoder = msgspec.msgpack.Encoder(enc_hook=plain)

Receive = Callable[[], bytes]


class _Some(msgspec.Struct, array_like=True, gc=False):
    """Some groups, and as columns the names of all their pods.

    ``own``: of each group the place of its kind, of which it differs in what follows; ``chains``: the place of what leads there, and
    what comes then.
    """

    kinds: Sequence[Eviction]
    own: Sequence[tuple[int, str, float, str]]
    leading: Sequence[Chain]
    chains: Sequence[tuple[int, Chain]]
    numbers: Sequence[int]
    namespaces: Sequence[str]
    pods: Sequence[str]
    uids: Sequence[str]
    owners: Sequence[str]


class _Last(msgspec.Struct, array_like=True, gc=False):
    """What is made last."""

    workloads: tuple[WorkloadReport, ...]
    warnings: tuple[Warning, ...]


def packed(prediction: Prediction) -> Iterator[bytes]:
    """Yield the parts. Raises UnicodeEncodeError where a string has no UTF-8."""
    evictions = prediction.evictions
    without: dict[str, Any] = {"evictions": (), "workloads": (), "warnings": (), "impact": None}
    if not evictions.grouped:
        yield _encoder.encode((replace(prediction, **without), None))
        yield _encoder.encode(evictions)
    else:
        yield _encoder.encode((replace(prediction, **without), len(evictions.groups)))
        groups = iter(evictions.groups)
        while some := list(islice(groups, _GROUPS_AT_ONCE)):
            yield _encoder.encode(_some(some))
    yield _encoder.encode((prediction.workloads, prediction.warnings))


def unpacked(receive: Receive) -> Prediction:
    """The prediction, of which ``receive`` gives the next part."""
    prediction, number = msgspec.msgpack.decode(receive(), type=tuple[Prediction, int | None])
    if number is None:
        evictions = Evictions.of(msgspec.msgpack.decode(receive(), type=tuple[Eviction, ...]))
    else:
        groups: list[EvictionGroup] = []
        decoder, known = msgspec.msgpack.Decoder(_Some), _Known({}, {})
        while len(groups) < number:
            groups += _groups(decoder.decode(receive()), known)
        evictions = Evictions(groups)
    last: list[_Last] = []

    def wait() -> _Last:
        if not last:
            last.append(msgspec.msgpack.decode(receive(), type=_Last))
        return last[0]

    return replace(
        prediction,
        evictions=evictions,
        workloads=RowsLater(lambda: wait().workloads),
        warnings=RowsLater(lambda: wait().warnings),
    )


def _some(groups: Sequence[EvictionGroup]) -> _Some:
    # Pods of one node have the very same beginning of their chains.
    leading: dict[int, tuple[int, Chain]] = {}
    kinds: dict[Hashable, tuple[int, Eviction]] = {}
    own, chains = [], []
    for group in groups:
        row = group.shared
        # Rows of a kind have what is large of them as the same objects.
        looks = (
            id(row.windows),
            id(row.gone),
            id(row.taint),
            id(row.toleration),
            row.certainty,
            row.earliest_seconds,
            row.latest_seconds,
            row.controller,
        )
        place, _ = kinds.setdefault(looks, (len(kinds), row))
        own.append((place, row.node, row.offset_seconds, row.time))
        before, rest = group.find_chain()
        place, _ = leading.setdefault(id(before), (len(leading), before))
        chains.append((place, rest))
    names = [one for group in groups for one in group.pods]
    return _Some(
        [row for _, row in kinds.values()],
        own,
        [before for _, before in leading.values()],
        chains,
        [len(group.pods) for group in groups],
        [one.namespace for one in names],
        [one.pod for one in names],
        [one.uid for one in names],
        [one.owner for one in names],
    )


class _Known(msgspec.Struct):
    """What many groups have, each once."""

    strings: dict[str, str]
    chains: dict[Chain, Chain]


def _groups(some: _Some, known: _Known) -> Iterator[EvictionGroup]:
    once, chain_once = known.strings.setdefault, known.chains.setdefault
    namespaces = map(once, some.namespaces, some.namespaces)
    owners = map(once, some.owners, some.owners)
    names = map(PodNames, namespaces, some.pods, some.uids, owners)
    leading = some.leading
    for (kind, node, offset_seconds, time), (place, rest), number in zip(
        some.own, some.chains, some.numbers, strict=True
    ):
        own = {"node": once(node, node), "time": once(time, time)}
        row = replace(some.kinds[kind], offset_seconds=offset_seconds, **own)
        chain = SharedChain(leading[place], chain_once(rest, rest))
        yield EvictionGroup(row, tuple(islice(names, number)), chain)
