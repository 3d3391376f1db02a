"""``what-if drain`` and ``what-if fail ... --for`` from the words typed to what is printed, nothing faked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building.command_lines import Ask, asker

from kubectl_evictplan.scenarios.files import load_scenario
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.sources.files import load_files


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    return asker(capsys, monkeypatch)


@pytest.fixture
def cluster(fixtures_path: Path) -> str:
    """A node with two pods under one budget that lets one go at a time."""
    return str(fixtures_path / "drains" / "drain-max-unavailable-1.37.0" / "cluster.json")


@pytest.fixture
def refusing(fixtures_path: Path) -> str:
    """A node with a bare pod, emptyDirs, a DaemonSet's pod and finished pods."""
    return str(fixtures_path / "drains" / "drain-refusals-1.37.0" / "cluster.json")


def saved(ask: Ask, cluster: str, tmp_path: Path, *words: str) -> tuple[ScenarioEvent, ...]:
    """The events of what was asked, out of the scenario that is saved."""
    path = tmp_path / "saved.yaml"
    path.unlink(missing_ok=True)
    answer = ask("what-if", *words, "-f", cluster, "--save-scenario", str(path))
    assert answer.code == 0, answer.err
    return load_scenario(path.read_text(), "saved.yaml", load_files((cluster,))).scenario.events


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        ("", ""),
        ("--grace-period=-1 --timeout=0", ""),
        ("--force --ignore-daemonsets", "force ignoreDaemonsets"),
        ("--delete-emptydir-data --disable-eviction", "deleteEmptydirData disableEviction"),
        ("--grace-period 0 --timeout 90s", "gracePeriod 0s timeout 1m30s"),
        ("--skip-wait-for-delete-timeout=5", "skipWaitForDeleteTimeout 5s"),
        ("--pod-selector app!=db", "podSelector app!=db"),
    ],
)
def test_a_drain_is_saved_with_its_flags(
    ask: Ask, cluster: str, tmp_path: Path, words: str, detail: str
) -> None:
    (event,) = saved(ask, cluster, tmp_path, "drain", "a1", *words.split())
    assert (event.action, event.at_ns, event.nodes, event.detail) == ("drain", 0, ("a1",), detail)


def test_nodes_are_drained_in_the_order_in_which_they_are_named(
    ask: Ask, cluster: str, tmp_path: Path
) -> None:
    (named,) = saved(ask, cluster, tmp_path, "drain", "b1", "node/a1", "b1")
    assert named.nodes == ("b1", "a1")
    (chosen,) = saved(ask, cluster, tmp_path, "drain", "-l", "kubernetes.io/os!=plan9")
    assert list(chosen.nodes) == sorted(chosen.nodes)
    assert len(chosen.nodes) == 3


@pytest.mark.parametrize(
    ("words", "assumed"),
    [
        ("", "as long after it is bound as its owner's pods took"),
        ("--assume-ready 2m", "2m0s after"),
        ("--assume-ready=10s..2m", "10s to 2m0s after"),
    ],
)
def test_it_is_said_how_long_replacements_are_assumed_to_take(
    ask: Ask, cluster: str, words: str, assumed: str
) -> None:
    answer = ask("what-if", "drain", "a1", "-f", cluster, "-o", "json", *words.split())
    assert f"is Ready {assumed}" in " ".join(answer.prediction()["inputs"]["assumptions"])


def test_replacements_that_are_ready_sooner_end_the_drain_sooner(ask: Ask, cluster: str) -> None:
    ends = []
    for ready in ("5s", "1m"):
        words = ("what-if", "drain", "a1", "-f", cluster, "-o", "json", "--assume-ready", ready)
        (drain,) = ask(*words).prediction()["drains"]
        assert drain["exitCode"] == 0
        ends.append((drain["endEarliestSeconds"], drain["endLatestSeconds"]))
    assert ends[0][1] < ends[1][0]


def test_a_drain_that_kubectl_refuses_is_an_answer_with_the_flags_that_are_missing(
    ask: Ask, refusing: str
) -> None:
    answer = ask("what-if", "drain", "a1", "-f", refusing)
    assert answer.code == 0
    text = " ".join(answer.out.split())
    assert text.startswith("kubectl refuses to drain a1, exit code 1: 1 pod has no controller")
    for flag in ("--force", "--delete-emptydir-data", "--ignore-daemonsets"):
        assert f"add {flag})" in text
    assert "No pod is evicted." in text


def test_with_the_flags_that_are_missing_the_node_is_drained(ask: Ask, refusing: str) -> None:
    flags = ("--force", "--delete-emptydir-data", "--ignore-daemonsets")
    prediction = ask("what-if", "drain", "a1", "-f", refusing, "-o", "json", *flags).prediction()
    assert prediction["drains"][0]["refused"] == []
    assert {eviction["controller"] for eviction in prediction["evictions"]} == {"eviction-api"}
    assert [kept["code"] for kept in prediction["kept"]] == ["drain-skips", "drain-skips"]


def test_without_the_eviction_api_no_budget_is_asked(ask: Ask, cluster: str) -> None:
    prediction = ask(
        "what-if", "drain", "a1", "--disable-eviction", "-f", cluster, "-o", "json"
    ).prediction()
    assert {eviction["controller"] for eviction in prediction["evictions"]} == {"kubectl-delete"}
    assert prediction["drains"][0]["waiting"] == []


def test_force_of_a_drain_never_replaces_a_file(ask: Ask, cluster: str, tmp_path: Path) -> None:
    path = tmp_path / "saved.yaml"
    path.write_text("mine")
    words = ("what-if", "drain", "a1", "--force", "-f", cluster, "--save-scenario", str(path))
    assert ask(*words).problem() == f"{path}: already exists"
    assert path.read_text() == "mine"


@pytest.mark.parametrize("by", ["node", "workload", "namespace", "zone"])
def test_the_pods_of_a_drain_are_grouped_like_others(ask: Ask, cluster: str, by: str) -> None:
    answer = ask("what-if", "drain", "a1", "-f", cluster, "--by", by)
    assert answer.code == 0
    assert "TOTAL" in answer.out


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "name"])
def test_a_drain_is_told_in_every_format(ask: Ask, cluster: str, output: str) -> None:
    answer = ask("what-if", "drain", "a1", "-f", cluster, "-o", output)
    assert (answer.code, answer.err) == (0, "")
    assert "web-7cdd8f578b-4dkcp" in answer.out


# -- outages --------------------------------------------------------------------------------------


def told(events: tuple[ScenarioEvent, ...]) -> list[tuple[Any, ...]]:
    return [(event.action, event.at_ns // 10**9, len(event.nodes)) for event in events]


def test_nodes_that_fail_for_a_while_come_back(ask: Ask, cluster: str, tmp_path: Path) -> None:
    assert told(saved(ask, cluster, tmp_path, "fail", "node", "a1", "--for", "10m")) == [
        ("kubelet-stop", 0, 1),
        ("kubelet-start", 600, 1),
    ]


@pytest.mark.parametrize("component", ["control-plane", "apiserver", "kube-controller-manager"])
def test_an_outage_of_the_control_plane_is_saved_as_what_can_be_edited(
    ask: Ask, cluster: str, tmp_path: Path, component: str
) -> None:
    events = saved(ask, cluster, tmp_path, "fail", component, "--for", "10m")
    assert told(events) == [("controller-stop", 0, 0), ("controller-start", 600, 0)]
    # No static pod is to be seen: nobody knows how soon, or whether another one waits.
    assert events[1].latest_ns > events[1].at_ns


def test_nobody_is_evicted_where_all_kubelets_come_back(ask: Ask, cluster: str) -> None:
    answer = ask("what-if", "fail", "control-plane", "--for", "10m", "-f", cluster)
    text = " ".join(answer.out.split())
    assert (
        "No pod is evicted. Kube-controller-manager works again between +10m0s and +15m57s" in text
    )
    assert "no node that was ready before becomes Unknown" in text
    assert "endpoints-frozen" in text


@pytest.mark.parametrize(
    ("component", "away", "back"),
    [
        ("apiserver", "the API server is away", "the API server is back"),
        ("control-plane", "the control plane is away", "the control plane is back"),
        ("controller-manager", "kube-controller-manager is away", "can run again"),
    ],
)
def test_an_outage_is_told_as_what_was_typed(
    ask: Ask, cluster: str, component: str, away: str, back: str
) -> None:
    words = ("what-if", "fail", component, "--for", "10m", "-f", cluster)
    text = " ".join(ask(*words).out.split())
    assert f"+0s {away}: no controller acts" in text
    assert f"{back} 21:43:25 +10m0s kube-controller-manager works again" in text
    for output in ("table", "wide", "markdown"):
        assert "controller-st" not in ask(*words, "-o", output).out


def test_what_an_outage_rests_on_is_no_mistake_in_the_input(ask: Ask, cluster: str) -> None:
    words = ("what-if", "fail", "controller-manager", "--for", "10m", "-f", cluster)
    plain, strict = ask(*words, "-o", "json"), ask(*words, "--strict")
    assert {"outage-return", "outage-replicas"} <= plain.codes()
    assert "outage" not in strict.err


@pytest.mark.parametrize(
    ("typed", "meant"), [("default/wbe", "default/web"), ("web", "default/web"), ("x/nobody", "")]
)
def test_a_majority_is_asked_only_of_owners_that_there_are(
    ask: Ask, cluster: str, typed: str, meant: str
) -> None:
    answer = ask("what-if", "drain", "a1", "-f", cluster, "--quorum", typed)
    assert answer.code == 2
    assert f"error: --quorum: no owner of pods is called '{typed}'" in answer.err
    assert (f"did you mean '{meant}'?" in answer.err) is bool(meant)


@pytest.mark.parametrize("name", ["default/web", "default/web-7cdd8f578b"])
def test_a_deployment_may_need_a_majority_as_well_as_its_replica_set(
    ask: Ask, cluster: str, name: str
) -> None:
    answer = ask("what-if", "drain", "a1", "-f", cluster, "--quorum", name, "-o", "json")
    assert answer.code == 0
    (found,) = json.loads(answer.out)["impact"]["quorums"]
    assert (found["name"], found["toldBy"]) == (name, "option")
