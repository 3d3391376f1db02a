"""``--observe-from``: a second look at the leases, from the command line to the printed answer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import captured_clusters as captured
import pytest
from command_lines import Answer, Ask, asker

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
def observe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Any:
    monkeypatch.chdir(tmp_path)
    nodes = [captured.whole("Node", captured.node(name)) for name in NAMES]
    pods = [captured.whole("Pod", captured.pod("web", "default", name)) for name in NAMES[:1]]
    first = [lease(name, "00.0") for name in NAMES]
    Path("first.json").write_bytes(listed(*nodes, *pods, *first))
    ask: Ask = asker(capsys, monkeypatch)

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
    assert observe(None).problem().startswith("second.json: no such file")


def test_standard_input_is_one_look_only(observe: Any) -> None:
    answer = observe(None, "-f", "-", name="-", stdin=listed(*leases()))
    assert answer.problem() == "--observe-from: standard input is given twice"
