"""What people type when they are tired, and what they are told: the table is ``mistakes.txt``.

Each row is a command line and everything it writes to standard error. After an intended change run
the tests with EVICTPLAN_UPDATE_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building.command_lines import Answer, Ask, asker

from kubectl_evictplan.prediction import predict as predicting

TABLE = Path(__file__).with_name("mistakes.txt")
PROGRAM = "kubectl evictplan "
NOW_NS = 1_795_213_800 * 1_000_000_000  # 2026-11-20T22:30:00Z, half an hour after the dump
ADVICE = ("try: ", "for example: ")
# As often as that, an answer may lead to the next mistake.
STEPS_MAX = 4


def node(name: str, zone: str, *taints: dict[str, str]) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": zone,
    }
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T21:59:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"u-{name}", "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {"conditions": [ready]},
    }


def pod(key: str, node_name: str) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{key}"},
        "spec": {"nodeName": node_name},
    }


def lease(name: str) -> dict[str, Any]:
    # Where the last renewal is known, far fewer timings have to be explored.
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"leaseDurationSeconds": 40, "renewTime": "2026-11-20T21:59:00.000000Z"},
    }


MASTER = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
NODES = [
    node("cp-1", "eu-1a", MASTER),
    node("worker-a1", "eu-1a"),
    node("worker-b1", "eu-1b"),
    node("worker-b2", "eu-1b"),
    node("worker-c1", "eu-1c"),
]
CLUSTER = [
    *NODES,
    *(lease(each["metadata"]["name"]) for each in NODES),
    pod("shop/web-0", "worker-b1"),
    pod("shop/web-1", "worker-b2"),
    pod("shop/cache", "worker-a1"),
    pod("data/cache", "worker-b1"),
    pod("data/cassandra-0", "worker-c1"),
]
OUTAGE = """\
apiVersion: evictplan.dev/v1alpha1
kind: Scenario
spec: {events: [{at: 1s, action: cordon, nodes: [worker-b1]}]}
"""


def rows() -> list[tuple[str, str]]:
    """Return (command line, what it says) of the table."""
    blocks = [block for block in TABLE.read_text().split("\n\n") if block.startswith("$ ")]
    found = (block.strip().partition("\n") for block in blocks)
    return [(typed.removeprefix("$ "), said) for typed, _, said in found]


ROWS = rows()


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a directory with a cluster's files, at a known time."""
    monkeypatch.chdir(tmp_path)
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER})
    Path("cluster.json").write_text(listed)
    Path("other.json").write_text(listed)
    Path("outage.yaml").write_text(OUTAGE)
    Path("dumps").mkdir()
    Path("dumps/cluster.json").write_text(listed)
    monkeypatch.setattr("time.time_ns", lambda: NOW_NS)


@pytest.fixture(autouse=True, scope="module")
def _each_question_is_answered_once() -> Iterator[None]:
    """Remember predictions: two hundred rows end in the same few questions, and none is about the answer."""
    known: dict[str, Any] = {}

    def once(snapshot: Any, scenario: Any, configuration: Any, **rest: Any) -> Any:
        rest.pop("progress", None)
        question = repr((snapshot, scenario, configuration, rest))
        if question not in known:
            known[question] = predict(snapshot, scenario, configuration, **rest)
        return known[question]

    predict = predicting.predict
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicting, "predict", once)
        yield


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    return asker(capsys, monkeypatch)


def say(ask: Ask, line: str) -> Answer:
    return ask(*shlex.split(line.removeprefix(PROGRAM)))


def told(answer: Answer) -> str:
    """Return what is said, or that the words were accepted."""
    assert answer.code in (0, 2), answer
    return answer.err.strip() if answer.code else "(accepted)"


def test_golden_answers_to_mistakes(ask: Ask) -> None:
    if os.environ.get("EVICTPLAN_UPDATE_GOLDEN"):
        text = TABLE.read_text()
        for typed, said in ROWS:
            answer = told(say(ask, typed))
            text = text.replace(f"$ {typed}\n{said}".rstrip() + "\n\n", f"$ {typed}\n{answer}\n\n")
        TABLE.write_text(text)
    assert len(ROWS) > 200


@pytest.mark.parametrize(("typed", "said"), ROWS, ids=[typed for typed, _ in ROWS])
def test_a_mistake_is_answered_by_what_to_type_instead(ask: Ask, typed: str, said: str) -> None:
    answer = say(ask, typed)
    assert told(answer) == said
    for _ in range(STEPS_MAX):
        if not answer.code:
            return
        assert answer.out == ""
        *_, last = answer.err.splitlines()
        assert last.startswith(ADVICE), last
        # A command to run before is no command of ours.
        answer = say(ask, last.partition(": ")[2].rpartition(" && ")[2])
    assert answer.code == 0, answer.err


def test_apply_without_a_cluster_names_a_kubeconfig_and_never_a_file(ask: Ask) -> None:
    assert told(say(ask, "kubectl evictplan apply cordon worker-b1")) == (
        "error: no cluster is given: there is no kubeconfig\n"
        "for example: kubectl evictplan apply cordon worker-b1 --kubeconfig FILE"
    )


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("cordon worker-b1", "what-if cordon worker-b1 --out 2-p.json"),
        ("scenario outage.yaml", "what-if scenario scenario.yaml --out 2-p.json"),
    ],
)
def test_a_plan_made_from_files_is_made_anew_from_the_live_cluster(
    ask: Ask, words: str, again: str
) -> None:
    assert say(ask, f"{PROGRAM}what-if {words} -f cluster.json --out p.json").code == 0
    said, example = told(say(ask, f"{PROGRAM}apply p.json --dry-run=client")).splitlines()
    assert said.startswith("error: p.json: made from files, so it names no cluster to change")
    assert example == f"for example: {PROGRAM}{again}"


@pytest.mark.parametrize("glued", [" ", "="])
def test_where_nothing_can_be_written_another_place_is_named(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, glued: str
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    elsewhere = Path(tempfile.gettempdir(), "p.json")
    words = f"{PROGRAM}what-if cordon worker-b1 -f cluster.json --out{glued}"
    assert told(say(ask, f"{words}dumps/p.json")).splitlines() == [
        "error: dumps/p.json: its directory cannot be written to",
        f"for example: {words}{elsewhere}",
    ]


@pytest.mark.parametrize("glued", [" ", "="])
def test_a_file_that_could_not_be_written_is_written_elsewhere(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, glued: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    words = f"{PROGRAM}snapshot -f cluster.json --output{glued}"
    assert told(say(ask, f"{words}dumps/new.json")).splitlines() == [
        "error: dumps/new.json: cannot be written: No space left on device",
        f"for example: {words}{Path(tempfile.gettempdir(), 'new.json')}",
    ]


@pytest.mark.parametrize(
    ("words", "said", "instead"),
    [
        ("apply ''", "the plan's file name is empty", "apply plan.json"),
        (
            "snapshot -f cluster.json -o new/",
            "new/: is a directory: name the file in it",
            "snapshot -f cluster.json -o new/cluster.json.gz",
        ),
    ],
)
def test_a_name_of_no_file_is_no_file(ask: Ask, words: str, said: str, instead: str) -> None:
    assert told(say(ask, PROGRAM + words)).splitlines() == [
        f"error: {said}",
        f"for example: {PROGRAM}{instead}",
    ]


@pytest.mark.parametrize(
    "words", ["verify p.json", "what-if cordon worker-b1", "apply drain worker-b1"]
)
def test_kubectl_is_to_be_asked_about_the_cluster_that_was_named(ask: Ask, words: str) -> None:
    assert say(ask, f"{PROGRAM}what-if cordon worker-b1 -f cluster.json --out p.json").code == 0
    Path("config").write_text("{apiVersion: v1, kind: Config, current-context: gone}")
    answer = say(ask, f"{PROGRAM}{words} --kubeconfig config")
    look = "try: kubectl config get-contexts --kubeconfig config && "
    assert answer.err.splitlines()[-1] == f"{look}{PROGRAM}{words} --kubeconfig config"


def test_a_file_of_ours_that_is_no_cluster_says_who_takes_it(ask: Ask) -> None:
    asked = f"{PROGRAM}what-if cordon worker-b1 -f"
    assert say(ask, f"{asked} cluster.json --out p.json").code == 0
    Path("prediction.json").write_text(say(ask, f"{asked} cluster.json -o json").out)
    found = [told(say(ask, f"{asked} {name}.json")).splitlines()[0] for name in ("p", "prediction")]

    assert found == [
        "error: p.json: a plan, not cluster objects: `kubectl evictplan apply` takes it",
        "error: prediction.json: a prediction, not cluster objects: `diff` and `verify` take it",
    ]
