"""Every kind of question about clusters that real controllers made, through the command line."""

from __future__ import annotations

import contextlib
import functools
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from building.builders import encoded

from kubectl_evictplan import cli
from kubectl_evictplan.prediction.document import CERTAIN, Prediction
from kubectl_evictplan.report import render

CLUSTERS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "clusters").glob("*.json"))
QUESTIONS = (
    "taint node {worker} maintenance=true:NoExecute",
    "taint node {worker} {other} maintenance=true:NoSchedule",
    "fail node {worker}",
    "fail node --all",
    "fail zone {zone}",
    "cordon {worker}",
    "delete node {worker}",
)
CASES = [
    pytest.param(path, question, id=f"{path.stem}: {question}")
    for path in CLUSTERS
    for question in QUESTIONS
]
each_question = pytest.mark.parametrize(("path", "question"), CASES)
each_cluster = pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)


@functools.cache
def items(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_bytes())["items"])


def nodes_of_zone(path: Path, zone: str) -> set[str]:
    return {node["metadata"]["name"] for node in _nodes(path) if zone_of(node) == zone}


def zone_of(node: dict[str, Any]) -> str:
    return str(node["metadata"]["labels"]["topology.kubernetes.io/zone"])


def pods_on(path: Path, *nodes: str) -> set[str]:
    return {
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in items(path)
        if item["kind"] == "Pod" and item["spec"].get("nodeName") in nodes
    }


def words(path: Path, question: str) -> list[str]:
    """The question about the node with the most pods, its zone and another node."""
    by_pods = sorted(
        _nodes(path), key=lambda node: -len(pods_on(path, str(node["metadata"]["name"])))
    )
    worker, other = (node["metadata"]["name"] for node in by_pods[:2])
    filled = question.format(worker=worker, other=other, zone=zone_of(by_pods[0]))
    return ["what-if", *filled.split(), "-f", str(path)]


def _nodes(path: Path) -> list[dict[str, Any]]:
    return [item for item in items(path) if item["kind"] == "Node"]


def ask(path: Path, question: str, *options: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run([*words(path, question), *options], program="kubectl-evictplan")
    assert (code, err.getvalue()) == (0, "")
    return out.getvalue()


@functools.cache
def answer(path: Path, question: str) -> str:
    """The JSON document; asked once, because many tests look at it."""
    return ask(path, question, "-o", "json")


def predicted(path: Path, question: str) -> Prediction:
    return msgspec.json.decode(answer(path, question), type=Prediction)


def keys(entries: Any) -> list[str]:
    return [f"{entry.namespace}/{entry.pod}" for entry in entries]


@each_question
def test_the_document_is_a_prediction_and_nothing_more(path: Path, question: str) -> None:
    text = answer(path, question)
    prediction = msgspec.json.decode(text, type=Prediction)
    assert json.loads(encoded(prediction)) == json.loads(text)


@each_question
def test_asking_twice_gives_the_same_bytes(path: Path, question: str) -> None:
    assert ask(path, question, "-o", "json") == answer(path, question)


@each_question
def test_the_table_fits_100_columns(path: Path, question: str) -> None:
    lines = "".join(render(predicted(path, question), "table")).splitlines()
    assert lines
    assert max(map(len, lines)) <= 100


@each_question
def test_every_pod_of_an_affected_node_goes_or_stays(path: Path, question: str) -> None:
    prediction = predicted(path, question)
    affected = {report.node for report in prediction.nodes}
    gone, stays = keys(prediction.evictions), keys(prediction.kept)
    assert set(gone) | set(stays) == pods_on(path, *affected)
    assert not set(gone) & set(stays)
    assert len(stays) == len(set(stays))


@each_question
def test_evictions_come_in_order_and_inside_their_windows(path: Path, question: str) -> None:
    prediction = predicted(path, question)
    found = prediction.evictions
    order = [(entry.offset_seconds, entry.namespace, entry.pod) for entry in found]
    assert order == sorted(order)
    for entry in found:
        assert 0 <= entry.earliest_seconds <= entry.offset_seconds <= entry.latest_seconds
        assert entry.because, "every eviction says why"
        assert entry.because[-1].offset_seconds == entry.offset_seconds


@each_cluster
def test_a_no_execute_taint_evicts_at_once_what_does_not_tolerate_it(path: Path) -> None:
    prediction = predicted(path, QUESTIONS[0])
    assert prediction.evictions
    for entry in prediction.evictions:
        assert entry.certainty == CERTAIN
        assert entry.earliest_seconds == entry.latest_seconds
        assert entry.taint.key == "maintenance"
        assert entry.controller == "taint-eviction"
    reasons = {entry.code for entry in prediction.kept}
    assert "tolerated-forever" in reasons, "daemon pods that tolerate everything stay"


@pytest.mark.parametrize("question", [QUESTIONS[1], QUESTIONS[5]])
@each_cluster
def test_what_only_concerns_the_scheduler_evicts_nothing(path: Path, question: str) -> None:
    assert predicted(path, question).evictions == ()


@each_cluster
def test_pods_of_a_failed_zone_go_after_the_grace_period_and_stay_terminating(path: Path) -> None:
    prediction = predicted(path, QUESTIONS[4])
    assert prediction.evictions
    names = words(path, QUESTIONS[4])
    zone = nodes_of_zone(path, names[names.index("zone") + 1])
    assert {report.node for report in prediction.nodes} == zone
    assert {entry.node for entry in prediction.evictions} <= zone
    for entry in prediction.evictions:
        assert entry.taint.key == "node.kubernetes.io/unreachable"
        assert entry.gone.latest_seconds is None
        assert entry.gone.stuck


@each_cluster
def test_every_node_of_a_failed_zone_becomes_unknown_for_certain(path: Path) -> None:
    prediction = predicted(path, QUESTIONS[4])
    for report in prediction.nodes:
        unknown = [c for c in report.changes if (c.what, c.value) == ("ready", "Unknown")]
        assert [change.certainty for change in unknown] == [CERTAIN]


@each_cluster
def test_nothing_is_evicted_while_every_zone_has_failed(path: Path) -> None:
    prediction = predicted(path, QUESTIONS[3])
    certain = [entry for entry in prediction.evictions if entry.certainty == CERTAIN]
    assert certain == []


@each_cluster
def test_pods_of_a_deleted_node_are_garbage_collected_whatever_they_tolerate(path: Path) -> None:
    prediction = predicted(path, QUESTIONS[6])
    worker = words(path, QUESTIONS[6])[3]
    collected = [entry for entry in prediction.evictions if entry.controller == "pod-gc"]
    assert set(keys(collected)) == pods_on(path, worker)
    # The node has to be seen missing for 40 s before a loop, every 20 s, collects its pods; a
    # quarantine that ends just after a loop waits for the next one, and loops cost time. A loop writes
    # twice for each pod, one after the other.
    writes = 2 * len(collected)
    assert all(entry.earliest_seconds >= 40 for entry in collected)
    assert all(entry.latest_seconds <= 80.2 + 0.01 * writes for entry in collected)
