"""``--observe`` and ``--observe-from``: a second look at the leases, from the words to the answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building import captured_clusters as captured
from building.command_lines import Answer, Ask, asker
from live.api_server import ApiServer, Fault
from live.clusters import instant, small_cluster

from kubectl_evictplan.commands.observing import look_at, observed
from kubectl_evictplan.errors import AccessError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.reader import read_cluster

NAMES = ("n1", "n2", "n3")


def lease(name: str, second: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "uid": f"l-{name}"},
        "spec": {"renewTime": f"2026-11-20T22:00:{second}Z", "leaseDurationSeconds": 40},
    }


def listed(*objects: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()


def leases(**renewed: str) -> list[Any]:
    return [lease(name, renewed.get(name, "19.5")) for name in NAMES]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    monkeypatch.chdir(tmp_path)
    return asker(capsys, monkeypatch)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = small_cluster(ApiServer())
    with server.serve():
        yield server


@pytest.fixture
def observe(ask: Ask) -> Any:
    nodes = [captured.whole("Node", captured.node(name)) for name in NAMES]
    pods = [captured.whole("Pod", captured.pod("web", "default", name)) for name in NAMES[:1]]
    first = [lease(name, "00.0") for name in NAMES]
    Path("first.json").write_bytes(listed(*nodes, *pods, *first))

    def run(second: bytes | None, *words: str, name: str = "second.json", **how: Any) -> Answer:
        if second is not None:
            Path(name).write_bytes(second)
        command = ("what-if", "fail", "node", "n1", "-f", "first.json", "--observe-from", name)
        return ask(*command, *words, **how)

    return run


def test_the_prediction_starts_at_the_second_look(observe: Any) -> None:
    told = observe(listed(*leases(n2="20.0")), "-o", "json").prediction()
    assert told["inputs"]["start"] == {
        "value": "2026-11-20T22:00:20Z",
        "source": "second look at the leases",
        "origin": "",
    }
    assert told["inputs"]["renewals"] == {
        "apartSeconds": 20.0,
        "kubelets": 3,
        "exactBefore": 0,
        "exactNow": 3,
        "widestBeforeSeconds": 10.0,
        "widestNowSeconds": 0.0,
        "missing": [],
    }


def test_wide_says_what_was_gained(observe: Any) -> None:
    answer = observe(listed(*leases(n2="20.0")), "-o", "wide")
    assert (
        "Renewals: two looks 20s apart: last ones known exactly of 3 of 3 kubelets, 0 by the first look;"
        in " ".join(answer.out.split())
    )


def test_every_report_says_by_how_much_windows_became_narrower(observe: Any) -> None:
    told = " ".join(observe(listed(*leases(n2="20.0"))).out.split())
    assert "Renewals: last ones known to within 0s instead of 10s by two looks 20s apart" in told


@pytest.mark.parametrize("name", ["second.json", "second.json.gz", "second.tar.gz", "-"])
def test_the_second_look_is_any_file_that_is_read(observe: Any, name: str) -> None:
    data = listed(*leases(n2="20.0"))
    if name == "-":
        told = observe(None, "-o", "json", name="-", stdin=data).prediction()
    else:
        packed = captured.tar({"leases.json": data}, "w:gz") if "tar" in name else data
        second = gzip.compress(data) if name.endswith("json.gz") else packed
        told = observe(second, "-o", "json", name=name).prediction()
    assert told["inputs"]["renewals"]["exactNow"] == 3


def test_a_kubelet_that_does_not_renew_is_named(observe: Any) -> None:
    told = observe(listed(*leases(n2="00.0", n3="20.0")), "-o", "json").prediction()
    (warning,) = [w for w in told["warnings"] if w["code"] == "kubelet-not-renewing"]
    assert warning["objects"] == ["n2"]


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (
            listed(*[lease(name, "00.0") for name in NAMES]),
            "the second look at the leases was 0s b",
        ),
        (listed(lease("x", "20.0"), lease("n1", "20.0")), "only 1 of 3 leases are in the second"),
        (
            listed(captured.whole("Node", captured.node("n1"))),
            "second.json: holds no leases of node",
        ),
        (b"{", "second.json:1:2: unexpected end of the file"),
    ],
)
def test_what_is_no_second_look_is_refused(observe: Any, second: bytes, problem: str) -> None:
    assert observe(second).problem().startswith(problem)


def test_a_missing_file_is_missing(observe: Any) -> None:
    answer = observe(None)
    assert answer.problem().startswith("second.json: no such file")
    assert "try: kubectl get leases -n kube-node-lease -o json > second.json && " in answer.err


def test_standard_input_is_one_look_only(observe: Any) -> None:
    answer = observe(None, "-f", "-", name="-", stdin=listed(*leases()))
    assert answer.problem() == "--observe-from: standard input is given twice"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--observe", "20s"), "--observe waits for what --observe-from has: give one of them"),
    ],
)
def test_one_second_look_is_enough(observe: Any, words: tuple[str, ...], problem: str) -> None:
    assert observe(listed(*leases(n2="20.0")), *words).problem() == problem


@pytest.mark.parametrize(
    ("duration", "problem"),
    [
        ("20", "--observe: a unit is missing after 20"),
        ("999ms", "--observe: too short or too long (got '999ms'; expected 1s to 10m)"),
        ("601s", "--observe: too short or too long (got '601s'; expected 1s to 10m)"),
        (
            "20s",
            "--observe looks at a live cluster, not at files: a second file is --observe-from's",
        ),
    ],
)
def test_waiting_is_for_live_clusters(ask: Ask, duration: str, problem: str) -> None:
    Path("c.json").write_bytes(listed(captured.whole("Node", captured.node("n1"))))
    answer = ask("what-if", "cordon", "n1", "-f", "c.json", "--observe", duration)
    assert answer.problem().startswith(problem)


def test_a_snapshot_keeps_what_was_gained(ask: Ask, observe: Any) -> None:
    Path("second.json").write_bytes(listed(*leases(n2="20.0")))
    words = ("snapshot", "-f", "first.json", "--observe-from", "second.json", "-o", "s.json.gz")
    assert ask(*words).code == 0
    from_it = ask("what-if", "fail", "node", "n1", "-f", "s.json.gz", "-o", "json").prediction()
    assert from_it["inputs"]["renewals"]["exactNow"] == 3
    at_once = observe(listed(*leases(n2="20.0")), "-o", "json").prediction()
    assert from_it["evictions"] == at_once["evictions"]
    assert from_it["inputs"]["sourceDigest"] == at_once["inputs"]["sourceDigest"]


class Quiet:
    """Progress that nobody watches."""

    def listing(self, plural: str, done: int, total: int) -> None:
        assert done <= total or not total


def test_a_live_cluster_is_looked_at_again_after_the_wait(api: ApiServer) -> None:
    connection = ConnectionFlags(server=api.url)
    world = api.clock.world(api.read_seconds_max)
    first = read_cluster(connection, {}, world=world)
    for lease in api.objects["leases"]:
        lease["spec"]["renewTime"] = instant(16.5)
    second = observed(first, *look_at(connection, 20 * SECOND_NS, Quiet(), world))  # type: ignore[arg-type]
    assert sum(api.clock.slept) == pytest.approx(20)
    assert second.taken_at_ns - first.taken_at_ns == pytest.approx(20 * SECOND_NS, abs=SECOND_NS)
    assert second.observed is not None and second.observed.exact_now == len(second.leases) > 0
    assert second.digest not in ("", first.digest)


def test_leases_that_may_not_be_listed_are_said(api: ApiServer) -> None:
    connection = ConnectionFlags(server=api.url)
    world = api.clock.world(api.read_seconds_max)
    refused = Fault("leases", lambda handler: handler.forbidden("coordination.k8s.io"), times=None)
    api.faults.append(refused)
    with pytest.raises(AccessError, match="list leases"):
        look_at(connection, SECOND_NS, Quiet(), world)  # type: ignore[arg-type]
