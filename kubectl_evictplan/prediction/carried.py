"""A prediction on its way to another process, in parts that are as small as what is told of some hundred groups.

What it costs, and how to find out anything more, stays behind. The run that is told may go before, as it came from another
process: what led to evictions is found in it where they arrive. Workloads and warnings come last and are waited for when they
are read, so that all else can be worked on before they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.causes import ChainCache, ChainOfKind, EntryInRun
from kubectl_evictplan.prediction.document import Prediction, WorkloadReport
from kubectl_evictplan.prediction.grouped_evictions import (
    Chain,
    ChainFinder,
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

    ``own``: of each group the place of its kind, of which it differs in what follows; ``ends``: where in the run that is told its
    chain ends, and of which pod and node that was found out. Of those that end elsewhere (-1) ``chains`` has the place of what leads
    there, and what comes then.
    """

    kinds: Sequence[Eviction]
    own: Sequence[tuple[int, str, float, str]]
    ends: Sequence[tuple[int, str, str]]
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


def packed(prediction: Prediction, run: bytes | None = None) -> Iterator[bytes]:
    """Yield the parts. Raises UnicodeEncodeError where a string has no UTF-8.

    ``run``: one that came from another process (``Timeline.carried``), and has gone to who reads the parts before these.
    """
    evictions = prediction.evictions
    without: dict[str, Any] = {"evictions": (), "workloads": (), "warnings": (), "impact": None}
    if not evictions.grouped:
        yield _encoder.encode((replace(prediction, **without), None))
        yield _encoder.encode(evictions)
    else:
        yield _encoder.encode((replace(prediction, **without), len(evictions.groups)))
        groups = iter(evictions.groups)
        while some := list(islice(groups, _GROUPS_AT_ONCE)):
            yield _encoder.encode(_some(some, run))
    yield _encoder.encode((prediction.workloads, prediction.warnings))


def unpacked(receive: Receive, chains: ChainCache | None = None) -> Prediction:
    """The prediction, of which ``receive`` gives the next part; ``chains``: those of the run that came before, if one did."""
    prediction, number = msgspec.msgpack.decode(receive(), type=tuple[Prediction, int | None])
    if number is None:
        evictions = Evictions.of(msgspec.msgpack.decode(receive(), type=tuple[Eviction, ...]))
    else:
        groups: list[EvictionGroup] = []
        decoder, known = msgspec.msgpack.Decoder(_Some), _Known(chains)
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


# The end of a chain that is not in the run which is told.
_ELSEWHERE = -1, "", ""
_NAMES = attrgetter("namespace", "pod", "uid", "owner")


def _some(groups: Sequence[EvictionGroup], run: bytes | None) -> _Some:
    # Pods of one node have the very same beginning of their chains.
    leading: dict[int, tuple[int, Chain]] = {}
    kinds: dict[Hashable, tuple[int, Eviction]] = {}
    own, ends, chains = [], [], []
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
        if run is not None and (end := _end_in(run, group.found_by)) is not None:
            ends.append(end)
            continue
        ends.append(_ELSEWHERE)
        before, rest = group.find_chain()
        place, _ = leading.setdefault(id(before), (len(leading), before))
        chains.append((place, rest))
    names = [one for group in groups for one in group.pods]
    namespaces, pods, uids, owners = zip(*map(_NAMES, names), strict=True)
    return _Some(
        [row for _, row in kinds.values()],
        own,
        ends,
        [before for _, before in leading.values()],
        chains,
        [len(group.pods) for group in groups],
        namespaces,
        pods,
        uids,
        owners,
    )


def _end_in(run: bytes, finder: SharedChain | ChainFinder) -> tuple[int, str, str] | None:
    """Where in the run the chain ends, and of which pod and node that was found out."""
    if not isinstance(finder, ChainOfKind) or not isinstance(finder.find_chain, EntryInRun):
        return None
    end = finder.find_chain
    return (end.place, end.pod, finder.node) if end.chains.run.carried is run else None


class _Known(msgspec.Struct):
    """What many groups have, each once; ``in_run``: the chains of the run that is told, by their ends."""

    run: ChainCache | None
    strings: dict[str, str] = {}
    chains: dict[Chain, Chain] = {}
    in_run: dict[tuple[int, str, str], ChainOfKind] = {}

    def chain_in_run(self, end: tuple[int, str, str]) -> ChainOfKind:
        """The chain that ends there in the run."""
        known = self.in_run.get(end)
        if known is None:
            assert self.run is not None, "who tells of ends in a run has sent it"
            place, pod, node = end
            known = self.in_run[end] = ChainOfKind(pod, node, EntryInRun(self.run, place, pod))
        return known


def _groups(some: _Some, known: _Known) -> Iterator[EvictionGroup]:
    once, chain_once = known.strings.setdefault, known.chains.setdefault
    namespaces = map(once, some.namespaces, some.namespaces)
    owners = map(once, some.owners, some.owners)
    names = map(PodNames, namespaces, some.pods, some.uids, owners)
    leading, chains = some.leading, iter(some.chains)
    for (kind, node, offset_seconds, time), end, number in zip(
        some.own, some.ends, some.numbers, strict=True
    ):
        own = {"node": once(node, node), "time": once(time, time)}
        row = replace(some.kinds[kind], offset_seconds=offset_seconds, **own)
        chain: SharedChain | ChainFinder
        if end == _ELSEWHERE:
            place, rest = next(chains)
            chain = SharedChain(leading[place], chain_once(rest, rest))
        else:
            chain = known.chain_in_run(end)
        yield EvictionGroup(row, tuple(islice(names, number)), chain)
