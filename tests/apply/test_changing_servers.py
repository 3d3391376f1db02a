"""A server that is upgraded, or is another cluster's, in the middle of a run."""

from __future__ import annotations

from typing import Any

import pytest
from apply.clusters import drain_bench, taint_bench
from apply.runs import Bench, add_taint, cordon, plan_of, records
from apply.simulated_cluster import IDENTITY, SimulatedCluster
from msgspec.structs import replace

from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.lock import AWAY_SECONDS
from kubectl_evictplan.apply.looking_again import LOOK_SECONDS
from kubectl_evictplan.apply.progress import ServerAway, ServerChanged
from kubectl_evictplan.errors import NoAnswerError, Problem, UnreachableError
from kubectl_evictplan.kube.durations import SECOND_NS

OLD = replace(IDENTITY, kubernetes_version="1.36.2")
NEW = replace(IDENTITY, kubernetes_version="1.37.0")
AFTER_SECONDS = 40.0
PAUSE_SECONDS = 100.0


def changing_bench(identity: Any, make: Any = taint_bench) -> Bench:
    """Two nodes with a long pause between them, in which the server becomes another."""
    bench = make(settle_seconds=PAUSE_SECONDS)
    assert isinstance(bench, Bench)
    bench.cluster.faults.identity = OLD
    bench.cluster.after(AFTER_SECONDS, lambda: setattr(bench.cluster.faults, "identity", identity))
    return bench


def versions(bench: Bench) -> list[str]:
    return [one["cluster"]["kubernetesVersion"] for one in records(bench, "server")]


def test_the_journal_says_which_server_it_was_and_that_it_was_upgraded() -> None:
    bench = changing_bench(NEW)

    assert bench.apply().exit_code == 0
    assert versions(bench) == ["1.36.2", "1.37.0"]
    (told,) = (event for event in bench.told if isinstance(event, ServerChanged))
    assert (told.before, told.after) == ("1.36.2", "1.37.0")


def test_who_goes_on_writes_down_a_server_only_when_it_is_another() -> None:
    bench = changing_bench(OLD)
    bench.cluster.after(50.0, lambda: bench.stop.request("SIGINT"))
    assert bench.apply().exit_code == 130

    assert bench.resume().exit_code == 0
    assert versions(bench) == ["1.36.2"]


@pytest.mark.parametrize(
    ("vanishes", "code"),
    [
        (lambda cluster: cluster.denied.add(("create", "pods")), EndCode.DENIED),
        (lambda cluster: setattr(cluster, "evictions_served", False), EndCode.REFUSED),
    ],
)
def test_after_an_upgrade_rights_and_apis_are_checked_again(vanishes: Any, code: EndCode) -> None:
    bench = changing_bench(NEW, drain_bench)
    bench.cluster.after(AFTER_SECONDS, lambda: vanishes(bench.cluster))

    result = bench.apply()

    assert result.ending.code is code
    assert result.exit_code == {EndCode.DENIED: 5, EndCode.REFUSED: 3}[code]
    evicted = {path for path in (one.path for one in bench.cluster.mutations) if "/pods/" in path}
    assert evicted, "the first node was drained before"
    assert not any("web-b" in path for path in evicted)


@pytest.mark.parametrize("what", ["cluster_uid", "user"])
def test_another_cluster_or_user_behind_the_same_address_ends_the_run(what: str) -> None:
    bench = changing_bench(replace(OLD, **{what: "other"}))

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.DRIFT)
    assert result.ending.objects == (what.removesuffix("_uid"),)
    assert len(bench.cluster.mutations) == 1


def test_a_server_that_does_not_say_who_it_is_for_a_moment_ends_nothing() -> None:
    bench = changing_bench(OLD)
    asked = 0
    identity = bench.cluster.identity

    def sometimes() -> Any:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise UnreachableError(Problem("no answer"))
        return identity()

    bench.cluster.identity = sometimes  # type: ignore[method-assign]

    assert bench.apply().exit_code == 0
    assert asked == 1 + PAUSE_SECONDS // LOOK_SECONDS


@pytest.mark.parametrize("what", ["cluster_uid", "user", "kubernetes_version"])
def test_what_a_server_does_not_tell_in_the_middle_is_nothing_new(what: str) -> None:
    bench = changing_bench(replace(OLD, **{what: ""}))

    assert bench.apply().exit_code == 0
    assert not any(isinstance(event, ServerChanged) for event in bench.told)


def test_a_clock_that_went_back_makes_nobody_wait_longer_than_the_plan_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = SimulatedCluster()
    cluster.add_node("n1")
    bench = Bench(cluster, plan_of(cluster, cordon("n1"), add_taint("n1", at=15.0)))
    cluster.after_mutation = lambda _: bench.stop.request("SIGINT")
    assert bench.apply().exit_code == 130
    cluster.after_mutation = lambda _: None
    monkeypatch.setattr(SimulatedCluster, "now_ns", lambda self: self.now - 3600 * SECOND_NS)
    before = cluster.now
    assert bench.resume().exit_code == 0
    assert cluster.now - before < 20 * SECOND_NS


@pytest.mark.parametrize("silent", ["get_node", "identity"])
def test_a_signal_ends_a_read_without_an_answer_at_once(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = taint_bench(settle_seconds=PAUSE_SECONDS)
    cluster = bench.cluster
    waited: list[float | None] = []

    def hang(self: SimulatedCluster, *_words: Any, **_parts: Any) -> Any:
        waited.append(self.brief_seconds)
        bench.stop.request("SIGINT")
        raise AssertionError("went on reading")

    cluster.after_mutation = lambda _: monkeypatch.setattr(SimulatedCluster, silent, hang)
    result = bench.apply()
    assert (result.exit_code, result.ending.code) == (130, EndCode.INTERRUPTED)
    assert waited and all(one is not None and one <= 10 for one in waited)


def test_a_lock_is_given_back_in_one_short_attempt_when_the_server_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = taint_bench()
    reads: list[str] = []

    def no_answer(self: SimulatedCluster, *words: Any, **_parts: Any) -> Any:
        reads.append(str(words))
        raise NoAnswerError(Problem("no answer"))

    def goes(_: object) -> None:
        monkeypatch.setattr(SimulatedCluster, "get_node", no_answer)
        monkeypatch.setattr(SimulatedCluster, "get_lease", no_answer)
        bench.cluster.faults.lease_outcome = Outcome.UNKNOWN

    bench.cluster.after_mutation = goes
    assert bench.apply().ending.code is EndCode.UNREACHABLE
    assert any(isinstance(one, ServerAway) for one in bench.told)
    assert bench.cluster.brief_seconds == AWAY_SECONDS
    assert not any("evictplan-apply" in one for one in reads)
