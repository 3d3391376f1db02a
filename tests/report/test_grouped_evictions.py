"""Evictions are groups of what pods share; whoever reads rows, or JSON, cannot tell."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from building.builders import encoded
from msgspec import Struct
from msgspec.structs import fields, replace
from report.builders import eviction, prediction

from kubectl_evictplan.prediction.document import Because, Eviction, Prediction
from kubectl_evictplan.prediction.evicted_pods import EvictedPods
from kubectl_evictplan.prediction.fingerprint import fingerprint
from kubectl_evictplan.prediction.grouped_evictions import (
    EvictionGroup,
    Evictions,
    PodNames,
    SharedChain,
)
from kubectl_evictplan.prediction.records import Window
from kubectl_evictplan.prediction.stored import decode_prediction
from kubectl_evictplan.report import render

BEFORE = (Because(1.0, 'says "object":"" and %s', "node/n1", "scenario"),)
OWN = (Because(2.0, 'a timer starts: "object": ""', "", "processPodOnNode"),)
CHAIN = SharedChain(BEFORE, OWN)
STAYS = Window(1.0, None, "silence")
PLAIN, QUOTES, WIDE = ("web-0", "web-1"), ('a"b', 'a","b', 'a",', "a\\", "%(x)s"), ("ä", "\u2028")


def group(
    *pods: str,
    at: float = 3.0,
    chain: SharedChain = CHAIN,
    controller: str = "taint-eviction",
) -> EvictionGroup:
    shared = eviction("", at, controller=controller)
    shared = replace(shared, namespace="", uid="", owner="", because=())
    names = [PodNames(f"ns of {pod}", pod, f"uid of {pod}", f"Job/{pod}") for pod in pods]
    return EvictionGroup(shared, names, chain)


def both_ways(*groups: EvictionGroup) -> Iterator[Prediction]:
    """Told by groups, and row by row."""
    for evictions in (Evictions(groups), Evictions.of(list(Evictions(groups)))):
        yield prediction(evictions=evictions)


@pytest.mark.parametrize("pods", [PLAIN, QUOTES, WIDE, ()], ids=ascii)
@pytest.mark.parametrize(
    "chain",
    [CHAIN, SharedChain(BEFORE), SharedChain((), OWN * 2), SharedChain(())],
    ids=("both", "before", "own", "none"),
)
def test_json_of_groups_is_that_of_their_rows(pods: tuple[str, ...], chain: SharedChain) -> None:
    groups = group(*pods, chain=chain), group("other", at=1.0)
    told, by_row = ("".join(render(one, "json")) for one in both_ways(*groups))
    assert told == by_row
    assert len(json.loads(told)["evictions"]) == len(pods) + 1


def test_half_a_character_is_replaced_in_groups_as_in_rows() -> None:
    half = tuple(replace(each, what="\udc00") for each in (*BEFORE, *OWN))
    groups = group("\ud800", chain=SharedChain(half[:1], half[1:])), group("other", at=1.0)
    told, by_row = ("".join(render(one, "json")) for one in both_ways(*groups))
    assert told == by_row
    assert json.loads(told)["evictions"][1]["pod"] == "\ufffd"


@pytest.mark.parametrize("pods", [PLAIN, QUOTES, WIDE, ("\ud800",)], ids=ascii)
def test_a_fingerprint_does_not_tell_groups_from_rows(pods: tuple[str, ...]) -> None:
    told, by_row = map(fingerprint, both_ways(group(*pods)))
    assert told == by_row


NAMING = (Because(1.0, "goes first", "pod/ns of web-0/web-0", "scenario"),)


@pytest.mark.parametrize(
    "chain", [SharedChain(NAMING, OWN), SharedChain((), NAMING + OWN)], ids=("before", "rest")
)
def test_a_fingerprint_does_not_tell_who_says_that_a_link_is_about_the_pod_itself(
    chain: SharedChain,
) -> None:
    told, by_row = map(fingerprint, both_ways(group(*PLAIN, chain=chain)))
    assert told == by_row


def test_a_fingerprint_is_the_same_when_it_is_read_back() -> None:
    value = prediction(evictions=Evictions([group(*PLAIN, *QUOTES, *WIDE)]))
    text = "".join(render(value, "json")).encode()
    assert fingerprint(decode_prediction(text, "prediction.json")) == fingerprint(value)


def _others(row: Eviction) -> Iterator[Eviction]:
    """The row with one fact changed: each of its own and of its links' fields, whom links are about, and their order."""
    for field in fields(row):
        if field.name != "because":
            yield replace(row, **{field.name: _another(getattr(row, field.name))})
    for at, link in enumerate(row.because):
        for each in fields(link):
            changed = replace(link, **{each.name: _another(getattr(link, each.name))})
            yield replace(row, because=(*row.because[:at], changed, *row.because[at + 1 :]))
        for about in ("", f"pod/{row.key}", "pod/", "pod"):
            changed = replace(link, object=about)
            yield replace(row, because=(*row.because[:at], changed, *row.because[at + 1 :]))
    yield replace(row, because=row.because[:-1])
    yield replace(row, because=row.because[::-1])


def _another(value: object) -> object:
    if isinstance(value, Struct):
        return None
    if isinstance(value, tuple):
        return ()
    return f"{value}x" if isinstance(value, str) else value + 1


def test_a_fingerprint_covers_each_fact_of_a_row() -> None:
    row = eviction("web-0")
    others = {other for other in _others(row) if other != row}
    known = {fingerprint(prediction(evictions=(other,))) for other in (row, *others)}
    assert len(known) == len(others) + 1 > 40


def test_a_fingerprint_covers_which_names_stand_where() -> None:
    rows = eviction("web-0"), eviction("web-1", node="n2")
    swapped = [
        tuple(replace(one, **{name: getattr(other, name)}) for one, other in (rows, rows[::-1]))
        for name in ("namespace", "pod", "uid", "owner", "node", "because")
    ]
    different = {rows, rows[::-1], rows[:1], rows * 2, *swapped}
    assert len({fingerprint(prediction(evictions=some)) for some in different}) == len(different)


def test_rows_stand_by_offset_namespace_name_and_who_deletes() -> None:
    late, mixed = group("a", at=9.0), group("c", "b")
    by_another = group("b", controller="pod-gc")
    rows = list(Evictions([late, by_another, mixed]))
    assert [(row.offset_seconds, row.pod, row.controller) for row in rows] == [
        (3.0, "b", "pod-gc"),
        (3.0, "b", "taint-eviction"),
        (3.0, "c", "taint-eviction"),
        (9.0, "a", "taint-eviction"),
    ]


def test_a_link_that_is_the_pods_own_names_each_pod() -> None:
    first, second = Evictions([group(*PLAIN)])
    assert [link.object for link in first.because] == ["node/n1", "pod/ns of web-0/web-0"]
    assert [link.object for link in second.because] == ["node/n1", "pod/ns of web-1/web-1"]


def test_causes_are_looked_for_when_a_row_is_read() -> None:
    asked: list[str] = []

    class Finder:
        def on(self, node: str) -> SharedChain:
            asked.append(node)
            return SharedChain(BEFORE)

    some = EvictionGroup(eviction(), group("a").pods, Finder())
    value = prediction(evictions=Evictions([some]))
    assert (len(value.evictions), value.evicted.every) == (1, {"ns of a/a"})
    assert asked == []
    assert [row.because for row in value.evictions] == [BEFORE]


@pytest.mark.parametrize("somebody", [(), ("ns of b/b",), ("ns of c/c",)])
@pytest.mark.parametrize("again", [(), ("a",)], ids=("once", "twice"))
def test_pods_that_are_evicted_are_counted_as_by_their_names(
    somebody: tuple[str, ...], again: tuple[str, ...]
) -> None:
    unsure = group("b", *again, controller="pod-gc")
    unsure.shared = replace(unsure.shared, certainty="possible", gone=STAYS)
    groups = group("a", "c"), unsure
    named = EvictedPods(Evictions(groups), somebody)
    counted = EvictedPods(Evictions(groups, once=not again), somebody)

    assert named.every == {"ns of a/a", "ns of b/b", "ns of c/c"}
    assert named.certain == {"ns of a/a", "ns of c/c", *somebody}
    assert named.once is not bool(again)
    for evicted in (named, counted):
        numbers = evicted.number, evicted.number_certain, evicted.numbers_stuck
        assert numbers == (3, len(named.certain), {"silence": 1 + len(again)})
        assert evicted.is_all_certain is (named.certain == named.every)
        assert (evicted.once, evicted.by_somebody) == (named.once, named.by_somebody)


def test_rows_that_are_read_back_are_evictions_again() -> None:
    rows: tuple[Eviction, ...] = (eviction("a"), eviction("b"))
    value = prediction(evictions=rows)
    assert value.evictions == rows
    assert [(one.shared.uid, len(one.pods)) for one in value.evictions.groups] == [
        ("uid-a", 1),
        ("uid-b", 1),
    ]
    assert (
        json.loads(encoded(value))["evictions"]
        == json.loads("".join(render(value, "json")))["evictions"]
    )


def test_a_part_of_them_is_taken_from_groups_as_from_rows() -> None:
    for value in both_ways(group(*PLAIN)):
        assert [row.pod for row in value.evictions.of_pod("ns of web-1/web-1")] == ["web-1"]
        assert len(value.evictions.on_nodes({"n1"})) == 2
        assert len(value.evictions.on_nodes({"n2"})) == 0
