"""F16: lists of different kinds show different moments; what changed between them is noticed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from live.api_server import ApiServer, Fault, status
from live.clusters import node
from live.reading import outcome, read

Change = Callable[[], None]


def skew(api: ApiServer, **flags: object) -> list[str]:
    """Return what the reading says about its lists' moments."""
    return [one.message for one in read(api, **flags).warnings if one.code == "skewed-snapshot"]


def meanwhile(
    api: ApiServer, change: Change, *, plural: str = "leases", times: int | None = 1
) -> None:
    """Change the cluster when a list is asked for; leases are after the nodes."""

    def act(handler: Any) -> None:
        change()
        handler.respond(handler.path_parts, handler.namespace)

    api.faults.append(Fault(plural, act, times=times))


def coming(api: ApiServer) -> Change:
    """Return what adds one node more at every call: new-1, new-2 and so on."""
    numbers = itertools.count(1)
    return lambda: api.add(node(f"new-{next(numbers)}", "a"))


def remade(api: ApiServer, name: str) -> Change:
    """Return what replaces a node by another one of its name."""

    def act() -> None:
        (old,) = [one for one in api.objects["nodes"] if one["metadata"]["name"] == name]
        old["metadata"]["uid"] += "-again"

    return act


def test_nodes_are_asked_for_once_more_after_everything_else_and_only_their_metadata(
    api: ApiServer,
) -> None:
    assert skew(api) == []
    last = api.seen[-1]
    assert last.plural == "nodes"
    assert last.headers["accept"] == [
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    ]
    assert len(api.lists("leases")) == 1


def test_a_node_that_came_meanwhile_has_everything_read_once_more(api: ApiServer) -> None:
    meanwhile(api, coming(api))

    snapshot = read(api)

    assert "new-1" in {one.name for one in snapshot.nodes}
    assert "skewed-snapshot" not in {one.code for one in snapshot.warnings}
    assert len(api.lists("leases")) == 2
    assert snapshot.reading is not None
    assert len({record.kind for record in snapshot.reading.lists}) == len(snapshot.reading.lists)


def test_a_node_made_anew_under_its_name_is_another_one(api: ApiServer) -> None:
    meanwhile(api, remade(api, "n2"))
    assert skew(api) == []
    assert len(api.lists("leases")) == 2


def test_what_changes_again_is_named_and_not_read_a_third_time(api: ApiServer) -> None:
    one_more, again = coming(api), remade(api, "n4")

    def change() -> None:
        del api.objects["nodes"][0]
        one_more()
        again()

    meanwhile(api, change, times=None)

    assert skew(api) == ["while the cluster was read, nodes changed: n4, new-2 came; n2, n4 went"]
    assert len(api.lists("leases")) == 2


def test_of_many_nodes_the_first_few_are_named(api: ApiServer) -> None:
    one_more = coming(api)

    def change() -> None:
        for _ in range(7):
            one_more()

    meanwhile(api, change, times=None)
    (message,) = skew(api)
    assert message.endswith(": new-10, new-11, new-12, new-13, new-14 and 2 more came")


def test_without_time_for_another_reading_what_changed_is_said_at_once(api: ApiServer) -> None:
    for plural in ("jobs", "services", "namespaces"):
        meanwhile(api, lambda: api.clock.advance(25.0), plural=plural)
    meanwhile(api, coming(api))
    late, changed = skew(api)
    assert late.startswith("reading took 1m15s")
    assert changed == "while the cluster was read, nodes changed: new-1 came"
    assert len(api.lists("leases")) == 1


@pytest.mark.parametrize("chunk_size", [0, 1, 3])
def test_the_size_of_pages_makes_no_skew(api: ApiServer, chunk_size: int) -> None:
    assert skew(api, chunk_size=chunk_size) == []


def test_a_server_that_sends_whole_nodes_all_the_same_is_understood(api: ApiServer) -> None:
    def whole(handler: Any) -> None:
        handler.headers.replace_header("Accept", "application/json")
        handler.respond(handler.path_parts, handler.namespace)

    # The rights, the list, the list once more.
    api.faults.append(Fault("nodes", whole, after=2))
    assert skew(api) == []


def test_nodes_that_may_not_be_read_again_are_not_taken_for_unchanged(api: ApiServer) -> None:
    api.faults.append(Fault("nodes", status(403, "Forbidden", "no more"), after=2, times=None))
    assert skew(api) == ["whether nodes came or went meanwhile is not known: forbidden (no more)"]


def test_a_last_list_that_is_no_list_ends_the_reading(api: ApiServer) -> None:
    api.faults.append(Fault("nodes", status(500, "InternalError", "x"), after=2, times=None))
    assert outcome(api).code == 6
