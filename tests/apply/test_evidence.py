"""What a journal tells a ledger is what happened in the cluster, after crashes as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from apply.clusters import BENCHES
from apply.crashes import NONE, killed_then_resumed
from apply.faults import Fault
from apply.runs import JOURNAL, Bench
from apply.simulated_cluster import SimulatedCluster, SimulatedPod

from kubectl_evictplan.apply.evidence import JournalEvidence, evidence_of
from kubectl_evictplan.apply.journal import read
from kubectl_evictplan.apply.records import Intent
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.document import Evict
from kubectl_evictplan.plans.expectation import (
    DONE,
    GONE_BY_ANOTHER,
    NOT_DONE,
    UNKNOWN_OUTCOME,
)


@pytest.fixture
def deleted_ns(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """When the cluster deletes each pod, as it goes."""
    found: dict[str, int] = {}
    delete = SimulatedCluster.delete

    def noted(cluster: SimulatedCluster, pod: SimulatedPod) -> None:
        found.setdefault(pod.uid, cluster.now)
        delete(cluster, pod)

    monkeypatch.setattr(SimulatedCluster, "delete", noted)
    return found


def evidence(bench: Bench) -> JournalEvidence:
    return evidence_of(read(Path(JOURNAL), bench.files).records)


def check(bench: Bench, deleted_ns: dict[str, int]) -> None:
    told = evidence(bench)
    asked = {one.uid for one in bench.plan.operations if isinstance(one, Evict)}
    assert {one.uid for one in told.deletions if one.at} == asked
    for one in told.deletions:
        assert one.at is not None
        assert one.at.earliest_ns <= deleted_ns[one.uid] <= one.at.latest_ns
        assert one.gone is not None
        assert one.gone.latest_ns >= deleted_ns[one.uid]
    assert {one.outcome for one in told.begun} == {DONE}
    first = next(one for one in read(Path(JOURNAL), bench.files).records if isinstance(one, Intent))
    assert told.start is not None
    assert told.start.at.earliest_ns == parse_rfc3339_ns(first.at)


def test_the_journal_of_a_drain_tells_when_each_pod_was_evicted_and_gone(
    deleted_ns: dict[str, int],
) -> None:
    bench = BENCHES["drain"]()
    assert bench.apply().exit_code == 0
    check(bench, deleted_ns)
    assert evidence(bench).fingerprint == bench.plan.fingerprint


@pytest.mark.parametrize("at", range(3, 60, 7))
def test_a_run_that_was_killed_and_resumed_tells_the_same(
    at: int, deleted_ns: dict[str, int]
) -> None:
    bench, result = killed_then_resumed(BENCHES["drain"], (at,), NONE)
    assert result.exit_code == 0
    check(bench, deleted_ns)


def test_an_operation_that_was_never_sent_is_not_done() -> None:
    bench = BENCHES["taint"]()
    bench.cluster.before_mutation = lambda _: bench.stop.request("SIGINT")
    bench.apply()
    outcomes = [one.outcome for one in evidence(bench).begun]
    assert outcomes == [DONE, NOT_DONE]


def test_a_journal_without_a_mutation_tells_no_beginning() -> None:
    bench = BENCHES["taint"]()
    bench.stop.request("SIGINT")
    bench.apply()
    assert evidence(bench).start is None


@pytest.mark.parametrize("fault", [None, *Fault], ids=lambda fault: getattr(fault, "name", "none"))
@pytest.mark.parametrize("at", [0, 2, 4])
def test_whatever_an_answer_was_nothing_is_told_that_did_not_happen(
    fault: Fault | None, at: int, deleted_ns: dict[str, int]
) -> None:
    bench = BENCHES["drain"]()
    bench.cluster.faults.line.extend([*[None] * at, fault])
    bench.apply()
    told = evidence(bench)
    for one in told.deletions:
        # Somebody else may have deleted it, but never nobody, and never at another time.
        if one.at is not None:
            assert one.at.earliest_ns <= deleted_ns[one.uid] <= one.at.latest_ns
    evicted = {one.uid for one in told.deletions if one.at}
    asked = {one.uid: one.number for one in bench.plan.operations if isinstance(one, Evict)}
    begun = {one.number: one for one in told.begun}
    # What a run never heard of is not claimed: its request counts as begun, no more.
    assert all(uid in evicted or begun[asked[uid]].at is not None for uid in deleted_ns)


@pytest.mark.parametrize("fault", [Fault.LOST_AFTER, Fault.LOST_BEFORE, Fault.LATE])
def test_a_taint_whose_answer_was_lost_was_put_on_between_asking_and_finding_it(
    fault: Fault,
) -> None:
    bench = BENCHES["taint"]()
    bench.cluster.faults.line.append(fault)
    bench.apply()
    told = evidence(bench)
    first = told.begun[0]
    assert told.start is not None
    assert first.outcome in (DONE, UNKNOWN_OUTCOME)
    if first.at is not None:
        assert told.start.at.earliest_ns <= first.at.earliest_ns <= first.at.latest_ns


def test_what_a_rollback_took_back_is_told() -> None:
    bench = BENCHES["taint"]()
    bench.apply()
    applied = evidence(bench).begun
    bench.cluster.sleep(7)
    assert bench.rollback().exit_code == 0
    for before, after in zip(applied, evidence(bench).begun, strict=True):
        assert (before.at, before.undone_ns) == (after.at, None)
        assert before.at is not None
        assert after.undone_ns is not None
        assert after.undone_ns > before.at.latest_ns


def test_an_eviction_that_a_budget_never_allowed_was_begun_and_refused() -> None:
    bench = BENCHES["drain"](eviction_timeout_seconds=30.0)
    bench.cluster.budgets["web"] = 0
    bench.apply()
    told = {one.number: one for one in evidence(bench).begun}
    refused = [number for number, one in told.items() if one.refused]
    assert [bench.plan.operations[number - 1].told for number in refused] == [
        "evict shop/web-a from n1"
    ]
    assert told[refused[0]].at is not None
    assert told[refused[0]].became == NOT_DONE


def test_a_pod_that_was_gone_before_its_turn_is_neither_ours_nor_left_to_do() -> None:
    bench = BENCHES["drain"]()
    operation = next(one for one in bench.plan.operations if isinstance(one, Evict))
    bench.cluster.before_mutation = lambda _: bench.cluster.pods.pop(operation.key, None)
    assert bench.apply().exit_code == 0
    (begun,) = [one for one in evidence(bench).begun if one.number == operation.number]
    assert (begun.at, begun.outcome) == (None, GONE_BY_ANOTHER)
