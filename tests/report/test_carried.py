"""Another process writes what this one would write: a prediction is the same when it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace
from prediction.test_runs_beside import CONFIGURATION, SILENCE, SNAPSHOT
from report.builders import eviction, prediction
from report.test_grouped_evictions import CHAIN, QUOTES, WIDE, both_ways, group

from kubectl_evictplan.cluster import carried_runs
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction import carried, predict
from kubectl_evictplan.prediction.causes import ChainCache
from kubectl_evictplan.prediction.document import Prediction, WorkloadReport
from kubectl_evictplan.prediction.fingerprint import fingerprint
from kubectl_evictplan.prediction.grouped_evictions import Evictions, SharedChain
from kubectl_evictplan.prediction.records import RowsLater
from kubectl_evictplan.report import render


def arrived(value: Prediction) -> Prediction:
    parts = carried.packed(value)
    return carried.unpacked(lambda: next(parts))


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_a_prediction_arrives_as_it_was(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "_GROUPS_AT_ONCE", at_once)
    groups = group(*QUOTES), group("web-1", at=1.0, chain=SharedChain((), CHAIN.rest)), group(*WIDE)
    for told in both_ways(*groups):
        found = arrived(told)
        assert "".join(render(found, "json")) == "".join(render(told, "json"))
        assert fingerprint(found) == fingerprint(told)


def test_what_led_to_evictions_is_found_where_they_arrive() -> None:
    """The run that is told arrives as it came from who made it, and chains are found in it there."""

    @contextmanager
    def beside(function: Callable[[], bytes]) -> Iterator[Callable[[], bytes]]:
        text = function()
        yield lambda: text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "_MANY_NODES", 2)
        told = predict.predict(SNAPSHOT, SILENCE, CONFIGURATION, beside=beside)
    chains = next(group.found_by.find_chain.chains for group in told.evictions.groups)
    parts = list(carried.packed(told, chains.run.carried))
    whats = {link.what for row in told.evictions for link in row.because}
    assert whats
    assert not any(what.encode() in part for part in parts for what in whats)
    there = ChainCache(carried_runs.unpacked(chains.run.carried))
    read = iter(parts)
    found = carried.unpacked(lambda: next(read), there)
    assert "".join(render(found, "json")) == "".join(render(told, "json"))
    # Nothing has to go before.
    assert "".join(render(arrived(told), "json")) == "".join(render(told, "json"))


def test_pods_of_a_node_share_what_led_there_when_they_arrive() -> None:
    found = arrived(prediction(evictions=Evictions([group("a"), group("b")])))
    first, second = found.evictions.groups
    assert first.chain.before is second.chain.before


def test_what_comes_last_is_waited_for_when_it_is_read() -> None:
    report = WorkloadReport("shop", "Deployment/web", ("ReplicaSet/web-1",), 3)
    warning = Warning("odd", "something is odd", ("node/n1",))
    value = replace(
        prediction(evictions=(eviction("web-0"),)),
        workloads=RowsLater(lambda: [report]),
        warnings=RowsLater(lambda: [warning]),
    )
    parts, read = list(carried.packed(value)), list[int]()

    def receive() -> bytes:
        read.append(len(read))
        return parts[len(read) - 1]

    found = carried.unpacked(receive)
    assert len(read) == len(parts) - 1
    assert (tuple(found.workloads), tuple(found.warnings)) == ((report,), (warning,))
    assert len(read) == len(parts)


def test_half_a_character_cannot_be_carried() -> None:
    with pytest.raises(UnicodeEncodeError):
        list(carried.packed(prediction(evictions=Evictions([group("\ud800")]))))
