"""The whole text of each format for one prediction that fills every section.

After an intended change run the tests with EVICTPLAN_UPDATE_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from report.builders import cancelled, eviction, kept, one_of_each, prediction

from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import (
    Because,
    Prediction,
    TaintReference,
    TolerationReference,
    Window,
)
from kubectl_evictplan.report import render

GOLDEN = Path(__file__).parent / "golden"


def evicted_twice() -> Prediction:
    """A StatefulSet's pod whose timer is cancelled once, that is evicted, returns and goes again."""
    maintenance = TaintReference("maintenance", "NoExecute", "true")
    chain = (
        Because(10.0, "taint maintenance=true:NoExecute is added", "node/n1", "scenario"),
        Because(10.0, "the timer starts: 20s", "pod/default/db-0", "processPodOnNode"),
        Because(None, "the taint stays", "node/n1", ""),
        Because(30.0, "the timer fires", "pod/default/db-0", "deletePodHandler"),
    )
    once = eviction(
        "db-0",
        30.0,
        taint=maintenance,
        toleration=TolerationReference(0, 20),
        owner="StatefulSet/db",
        time="2026-11-20T22:00:30Z",
        because=chain,
    )
    twice = eviction(
        "db-0",
        81.0,
        uid="uid-second",
        taint=maintenance,
        toleration=None,
        owner="StatefulSet/db",
        time="2026-11-20T22:01:21Z",
        gone=Window(81.0, None, "finalizer example.com/hold is not removed"),
        because=(),
    )
    return prediction(
        evictions=(once, twice, eviction("bare", 90.0, owner="", controller="pod-gc", taint=None)),
        cancelled=(
            cancelled("db-0", certainty="certain", started=Window(1, 1), cancelled=Window(5, 5)),
        ),
        kept=(kept("db-1", namespace="default", because=chain[:1]),),
        warnings=(Warning("replacement-may-return", "it may return", ("default/db-0",)),),
    )


CASES = {
    "one-of-each": one_of_each,
    "evicted-twice": evicted_twice,
    "nothing": prediction,
}


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("EVICTPLAN_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "name"])
@pytest.mark.parametrize("case", CASES)
def test_every_format_is_stable_to_the_byte(case: str, output: str) -> None:
    check(f"{case}.{output}.txt", "".join(render(CASES[case](), output)))


@pytest.mark.parametrize("pod", ["default/db-0", "default/db-1", "default/bare"])
def test_the_story_of_a_pod_is_stable_to_the_byte(pod: str) -> None:
    text = "".join(render(evicted_twice(), "table", explain=pod))
    check(f"explain.{pod.replace('/', '.')}.txt", text)


@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_terminal_is_stable_to_the_byte(columns: int) -> None:
    check(f"one-of-each.{columns}.txt", "".join(render(one_of_each(), "table", columns=columns)))


def test_colours_are_stable_to_the_byte() -> None:
    check("colours.table.txt", "".join(render(one_of_each(), "table", color=True)))
