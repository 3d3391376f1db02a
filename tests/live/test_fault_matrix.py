"""Every fault at every place of a reading, each with its outcome: one table, no cell left out.

A fault that passes is got over without a trace in the snapshot; one that stays ends the reading with
the exit code of the table, or leaves a kind that is not evaluated, and never half a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest
from live import api_server as faults
from live.api_server import Action, ApiServer, Fault
from live.clusters import small_cluster
from live.reading import Outcome, outcome

from kubectl_evictplan.live import transport

DONE, INPUT, ACCESS, UNREACHABLE = 0, 2, 5, 6
# Not an exit code: done, but the kind could not be evaluated.
NOT_EVALUATED = -1


class Row(NamedTuple):
    """A fault; how a reading ends when it happens once, and when it stays.

    ``stays_at`` are the call sites where its staying ends otherwise; ``requests`` is how often the
    failing request is sent when it stays (0: not counted).
    """

    action: Action
    once: int
    stays: int
    stays_at: Mapping[str, int] = MappingProxyType({})
    once_at: Mapping[str, int] = MappingProxyType({})
    requests: int = 5


HTML = "<html><body>Sign in</body></html>"
FORBIDDEN = 'nodes is forbidden: User "jane" cannot list resource "nodes"'
# /version answers anything: only a version that is none is then recorded.
ANY_VERSION = {"version": DONE}
OPTIONAL = ("poddisruptionbudgets", "leases", "services")
OPTIONAL_NOT_EVALUATED = dict.fromkeys(OPTIONAL, NOT_EVALUATED)

ROWS = {
    "401, then known again": Row(
        faults.status(401, "Unauthorized", "Unauthorized"), DONE, ACCESS, requests=2
    ),
    "403": Row(
        faults.status(403, "Forbidden", FORBIDDEN),
        ACCESS,
        ACCESS,
        {**ANY_VERSION, **OPTIONAL_NOT_EVALUATED},
        {**ANY_VERSION, **OPTIONAL_NOT_EVALUATED},
        requests=1,
    ),
    "403, impersonation": Row(
        faults.status(403, "Forbidden", 'users "boss" is forbidden: cannot impersonate resource'),
        ACCESS,
        ACCESS,
        ANY_VERSION,
        ANY_VERSION,
        requests=1,
    ),
    "404": Row(
        faults.text(404, "404 page not found\n"),
        UNREACHABLE,
        UNREACHABLE,
        {**ANY_VERSION, **OPTIONAL_NOT_EVALUATED},
        # The other version of the API is asked for as well, and is not there either.
        {**ANY_VERSION, **OPTIONAL_NOT_EVALUATED},
        requests=0,
    ),
    "410 at the beginning": Row(
        faults.status(410, "Expired", "too old resource version"),
        DONE,
        UNREACHABLE,
        ANY_VERSION,
        requests=4,
    ),
    "429 from priority and fairness": Row(
        faults.text(429, "Too many requests, please try again later.\n", Retry_After="1"),
        DONE,
        UNREACHABLE,
    ),
    "429 of a server that shuts down": Row(
        faults.status(429, "TooManyRequests", "shutting down", Retry_After="5", Connection="close"),
        DONE,
        UNREACHABLE,
    ),
    "429, come again in ten minutes": Row(
        faults.text(429, "no", Retry_After="600"), UNREACHABLE, UNREACHABLE, requests=1
    ),
    "500": Row(faults.status(500, "InternalError", "etcd"), DONE, UNREACHABLE),
    "502 from a load balancer": Row(faults.text(502, HTML, "text/html"), DONE, UNREACHABLE),
    "503, come again": Row(
        faults.status(503, "ServiceUnavailable", "apiserver is shutting down", Retry_After="1"),
        DONE,
        UNREACHABLE,
    ),
    "504": Row(faults.status(504, "Timeout", "request did not complete"), DONE, UNREACHABLE),
    "422": Row(
        faults.status(422, "Invalid", "invalid"), UNREACHABLE, UNREACHABLE, ANY_VERSION, ANY_VERSION,
        requests=1,
    ),
    "reset before an answer": Row(faults.reset, DONE, UNREACHABLE),
    "reset within an answer": Row(faults.reset_in_body, DONE, UNREACHABLE),
    "closed without an answer": Row(faults.no_answer, DONE, UNREACHABLE),
    "cut, with Content-Length": Row(faults.cut_with_length, DONE, UNREACHABLE),
    "cut within chunks": Row(faults.cut_in_chunks, DONE, UNREACHABLE),
    "cut, no length": Row(faults.cut_without_length, DONE, UNREACHABLE, ANY_VERSION),
    "cut gzip": Row(faults.cut_gzip, DONE, UNREACHABLE),
    "damaged gzip": Row(faults.damaged_gzip, DONE, UNREACHABLE),
    "gzip bomb": Row(faults.gzip_bomb(2), INPUT, INPUT, requests=1),
    "silence": Row(faults.hang, DONE, UNREACHABLE, requests=0),
    "slow drip": Row(faults.drip(2.0, 6), DONE, UNREACHABLE, requests=0),
    "redirect": Row(
        faults.text(307, "", Location="https://evil.example/steal?token=x"),
        UNREACHABLE,
        UNREACHABLE,
        requests=1,
    ),
    "login page with 200": Row(
        faults.text(200, HTML, "text/html"), UNREACHABLE, UNREACHABLE, ANY_VERSION, ANY_VERSION,
        requests=1,
    ),
    "another kind": Row(
        faults.json_body({"kind": "SecretList", "metadata": {"resourceVersion": "1"}, "items": []}),
        UNREACHABLE,
        UNREACHABLE,
        ANY_VERSION,
        ANY_VERSION,
        requests=1,
    ),
    "Status with 200": Row(
        faults.json_body({"kind": "Status", "status": "Success"}), UNREACHABLE, UNREACHABLE,
        ANY_VERSION, ANY_VERSION, requests=1,
    ),
    "an empty object": Row(
        faults.json_body({}), UNREACHABLE, UNREACHABLE, ANY_VERSION, ANY_VERSION, requests=1
    ),
    "a list without items": Row(
        faults.list_without("items"), UNREACHABLE, UNREACHABLE, ANY_VERSION, ANY_VERSION, requests=1
    ),
    "a list without resourceVersion": Row(
        faults.list_without("resourceVersion"), UNREACHABLE, UNREACHABLE, ANY_VERSION, ANY_VERSION,
        requests=1,
    ),
    "a list, not an object": Row(
        faults.json_body([1, 2]), UNREACHABLE, UNREACHABLE, ANY_VERSION, ANY_VERSION, requests=1
    ),
}  # fmt: skip


class Site(NamedTuple):
    """A request of a reading: which list, and after how many answered ones."""

    plural: str
    after: int = 0


# Nodes and pods are asked for once more, at the start, to see whether they may be read at all.
SITES = {
    "version": Site("version"),
    "right to list nodes": Site("nodes"),
    "right to list pods": Site("pods"),
    "pods, first page": Site("pods", 1),
    "pods, second page": Site("pods", 2),
    "pods, last page": Site("pods", 3),
    "nodes, first page": Site("nodes", 1),
    "nodes, second page": Site("nodes", 2),
    "budgets": Site("poddisruptionbudgets"),
    "services": Site("services"),
    "leases": Site("leases"),
}
# Requests that differ from others of the list in nothing but their number.
LIKE_OTHERS = ("right to list pods", "pods, last page", "nodes, second page", "services")
CELLS = [
    pytest.param(
        fault,
        site,
        stays,
        id=f"{fault}: {site}, {'stays' if stays else 'once'}",
        marks=[pytest.mark.slow] if site in LIKE_OTHERS else [],
    )
    for fault in ROWS
    for site in SITES
    for stays in (False, True)
]


def expected(fault: str, site: Site, *, stays: bool) -> int:
    """Return the cell of the table."""
    row = ROWS[fault]
    special = row.stays_at if stays else row.once_at
    # An expired continue token makes the list begin anew, whatever else 400 or 410 mean.
    return special.get(site.plural, row.stays if stays else row.once)


@pytest.mark.parametrize(("fault", "site", "stays"), CELLS)
def test_every_fault_at_every_place_ends_as_the_table_says(
    fault: str, site: str, stays: bool, undisturbed: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1 << 20)
    row, place = ROWS[fault], SITES[site]
    api = small_cluster(ApiServer())
    if fault == "silence":
        api.read_seconds_max = 0.02
    armed = Fault(place.plural, row.action, after=place.after, times=None if stays else 1)
    api.faults.append(armed)

    with api.serve():
        ended = outcome(api, chunk_size=2, request_timeout_ns=10_000_000_000)

    want = expected(fault, place, stays=stays)
    assert armed.fired
    assert ended.code == max(want, DONE), ended.messages
    if stays and row.requests and want == row.stays:
        assert armed.fired == row.requests
    if want == DONE:
        assert_equal_but_for_the_version(ended, undisturbed)
    elif want == NOT_EVALUATED:
        assert_only_that_kind_is_unknown(ended, undisturbed, place.plural)
    else:
        assert ended.snapshot is None
        assert "<html" not in ended.text.partition("(got")[0]
        assert "steal" not in ended.text


def assert_equal_but_for_the_version(ended: Outcome, undisturbed: Outcome) -> None:
    assert ended.snapshot is not None
    assert undisturbed.snapshot is not None
    assert ended.snapshot.pods == undisturbed.snapshot.pods
    assert ended.snapshot.nodes == undisturbed.snapshot.nodes
    assert ended.snapshot.leases == undisturbed.snapshot.leases
    assert ended.snapshot.budgets == undisturbed.snapshot.budgets
    assert ended.snapshot.denied == ()


KIND_OF = {"poddisruptionbudgets": "PodDisruptionBudget", "leases": "Lease", "services": "Service"}


def assert_only_that_kind_is_unknown(ended: Outcome, undisturbed: Outcome, plural: str) -> None:
    assert ended.snapshot is not None
    assert undisturbed.snapshot is not None
    kind = KIND_OF[plural]
    assert ended.snapshot.denied == (kind,)
    assert kind not in ended.snapshot.kinds_seen
    assert ended.snapshot.pods == undisturbed.snapshot.pods
    assert ended.snapshot.reading is not None
    (record,) = [one for one in ended.snapshot.reading.lists if one.not_evaluated]
    assert record.kind == kind


@pytest.fixture(scope="module")
def undisturbed() -> Outcome:
    """A reading without any fault."""
    with small_cluster(ApiServer()).serve() as api:
        return outcome(api, chunk_size=2)


MID_LIST = {
    "expired": faults.status(410, "Expired", "The provided continue parameter is too old"),
    "garbled": faults.status(400, "BadRequest", "continue key is not valid"),
}


@pytest.mark.parametrize("fault", MID_LIST)
@pytest.mark.parametrize("after", [2, 3])
def test_a_list_whose_token_is_forgotten_begins_anew(
    fault: str, after: int, undisturbed: Outcome
) -> None:
    api = small_cluster(ApiServer())
    api.faults.append(Fault("pods", MID_LIST[fault], after=after))

    with api.serve():
        ended = outcome(api, chunk_size=2)

    assert_equal_but_for_the_version(ended, undisturbed)
    pages = [seen.query for seen in api.lists("pods")[1:]]
    # The failed one included; then all three from the first on.
    assert ["continue" in page for page in pages] == [
        *(index > 0 for index in range(after)),
        False,
        True,
        True,
    ]
