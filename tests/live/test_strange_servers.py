"""Servers that are old, odd or enormous: what is made of their lists."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from live import api_server as faults
from live.api_server import ApiServer, Fault
from live.clusters import budget, lease, node, small_cluster
from live.reading import outcome, read

from kubectl_evictplan.live import lists, transport

# Old servers


def test_an_old_server_is_asked_for_the_versions_that_it_has() -> None:
    api = small_cluster(ApiServer())
    api.versions = {"poddisruptionbudgets": "v1beta1", "endpointslices": "v1beta1"}
    api.add(budget("everything"))
    api.objects["poddisruptionbudgets"][-1]["spec"]["selector"] = {}
    with api.serve():
        snapshot = read(api)

    assert snapshot.denied == ()
    everything, web = snapshot.budgets
    # In policy/v1beta1 an empty selector selects nothing.
    assert (everything.match_labels, web.match_labels) == (None, {"app": "web"})


# Strange servers


@pytest.mark.parametrize(
    "server", ["http://127.0.0.1:331951", "ftp://x", "https://", "https://[::1"]
)
def test_an_address_that_is_none_is_bad_input(server: str) -> None:
    ended = outcome(ApiServer(url=server))
    assert (ended.code, "the server's address is none" in ended.text) == (2, True), ended.text


def test_pages_of_two_moments_are_never_joined() -> None:
    """Two servers behind one address, of which one lags behind."""
    api = small_cluster(ApiServer())

    def older(handler: Any) -> None:
        handler.api.resource_version -= 5
        handler.query.pop("continue")
        handler.page("Pod", "v1", handler.api.items("pods", ""))
        handler.api.resource_version += 5

    api.faults.append(Fault("pods", older, after=2))
    with api.serve():
        snapshot = read(api, chunk_size=2)
    assert len(snapshot.pods) == 6
    assert len(api.lists("pods")) == 1 + 2 + 3


def test_a_list_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "OBJECTS_MAX", 3)
    with small_cluster(ApiServer()).serve() as api:
        ended = outcome(api)
    assert ended.code == 2
    assert "more than 3 objects" in ended.text


def test_a_token_that_leads_nowhere_is_no_endless_list() -> None:
    api = small_cluster(ApiServer())

    def again(handler: Any) -> None:
        meta = {"resourceVersion": "1", "continue": "x"}
        handler.answer({"kind": "ServiceList", "metadata": meta, "items": []})

    api.faults.append(Fault("services", again, times=None))
    with api.serve():
        ended = outcome(api)
    assert ended.code == 6
    assert "the list expired 4 times before its end" in ended.text


def test_null_items_are_an_empty_list() -> None:
    api = small_cluster(ApiServer())
    body = {"kind": "ServiceList", "metadata": {"resourceVersion": "1"}, "items": None}
    api.faults.append(Fault("services", faults.json_body(body)))
    with api.serve():
        snapshot = read(api)
    assert "Service" in snapshot.kinds_seen
    assert snapshot.denied == ()


def test_objects_that_no_server_stores_are_problems_with_their_place() -> None:
    api = small_cluster(ApiServer())
    api.objects["pods"][3]["spec"]["tolerations"] = "none"
    with api.serve():
        ended = outcome_of_bad_object(api)
    assert "pods" in ended
    assert "items[3]" in ended or "Pod shop/web-3" in ended
    assert "spec.tolerations" in ended


def outcome_of_bad_object(api: ApiServer) -> str:
    from kubectl_evictplan.errors import InputError

    with pytest.raises(InputError) as caught:
        read(api)
    return str(caught.value)


def test_a_cluster_without_nodes_is_no_cluster_to_predict_from() -> None:
    with ApiServer().serve() as api:
        ended = outcome(api)
    assert (ended.code, "has no nodes" in ended.text) == (2, True)


# Size


def test_five_thousand_nodes_are_read_in_pages_of_five_hundred() -> None:
    api = ApiServer()
    for number in range(5000):
        api.add(node(f"n{number:04}"), lease(f"n{number:04}"))
    with api.serve():
        snapshot = read(api)
    assert len(snapshot.nodes) == len(snapshot.leases) == 5000
    # The rights, the list, and once more its metadata.
    assert len(api.lists("nodes")) == 1 + 10 + 10
    assert [int(seen.query["limit"]) for seen in api.lists("nodes")] == [1, *[500] * 20]


@pytest.mark.slow
def test_a_gzip_bomb_is_refused_within_little_memory() -> None:
    api = small_cluster(ApiServer())
    with api.serve():
        # What is imported for the first reading is not the bomb's.
        assert outcome(api).code == 0
        api.faults.append(Fault("pods", faults.gzip_bomb(256)))
        faults.spaces(256)
        tracemalloc.start()
        ended = outcome(api)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert ended.code == 2
    assert "an answer is larger than 64 MiB" in ended.text
    assert peak < 150 << 20


@pytest.mark.parametrize("compress", [True, False])
def test_compressed_and_plain_answers_are_the_same(compress: bool) -> None:
    with small_cluster(ApiServer(compress=compress)).serve() as api:
        assert len(read(api).pods) == 6


def test_the_limit_of_an_answer_is_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 2500)
    with small_cluster(ApiServer()).serve() as api:
        assert outcome(api).code == 2
        assert outcome(api, chunk_size=2).code == 0
