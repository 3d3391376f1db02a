"""The Lease keeps two runs apart, is explained when it is stale, and never broken silently."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from apply.clusters import drain_bench, taint_bench
from apply.crashes import KEEPS, killing
from apply.crashing_files import CrashingFiles, Killed, Stored
from apply.runs import AUTHOR, JOURNAL, Bench, add_taint, plan_of
from msgspec import structs

from kubectl_evictplan.apply.cluster import LiveLease, Outcome, Reply, Request
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.lock import (
    BEGUN,
    LOCK_NAME,
    LOCK_SECONDS,
    MACHINE,
    PLAN,
    SAFETY_SECONDS,
)
from kubectl_evictplan.apply.lock import JOURNAL as HEAD
from kubectl_evictplan.apply.resume import resume
from kubectl_evictplan.apply.run import LOCK_NAMESPACE, RunOptions, RunResult, apply_plan
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.timestamps import FIRST_INSTANT_NS, LAST_INSTANT_NS
from kubectl_evictplan.plans.document import ClusterIdentity
from kubectl_evictplan.prediction.document import TaintReference
from kubectl_evictplan.report.run_words import ending_words
from kubectl_evictplan.world import boot_session, machine, process_alive

PLACE = f"{LOCK_NAMESPACE}/{LOCK_NAME}"


def held_by_another(bench: Bench, seconds_ago: float = 0.0) -> LiveLease:
    at = bench.cluster.now - round(seconds_ago * SECOND_NS)
    lease = LiveLease(
        LOCK_NAME, LOCK_NAMESPACE, "uid-l", "1", "other@host/7/run-x", at, at, LOCK_SECONDS
    )
    bench.cluster.leases[PLACE] = lease
    return lease


def test_the_lock_is_held_while_it_runs_and_given_back() -> None:
    bench = taint_bench()
    holders = []
    bench.cluster.before_mutation = lambda _request: holders.append(
        bench.cluster.leases[PLACE].holder_identity
    )

    assert bench.apply().exit_code == 0
    assert holders == ["operator@laptop/1/run-1"] * 2
    assert bench.cluster.leases[PLACE].holder_identity == ""


@pytest.mark.parametrize(("seconds_ago", "message"), [(0.0, ""), (120.0, "expired")])
def test_a_run_beside_another_ends_before_anything_is_sent(
    seconds_ago: float, message: str
) -> None:
    bench = taint_bench()
    lease = held_by_another(bench, seconds_ago)

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.LOCKED)
    assert result.ending.objects[0] == "other@host/7/run-x"
    assert result.ending.message == message
    assert (bench.cluster.mutations, bench.cluster.dry_runs) == ([], 0)
    assert bench.cluster.leases[PLACE] == lease


def test_a_lock_that_is_not_expired_cannot_be_stolen() -> None:
    bench = taint_bench()
    held_by_another(bench, 30.0)

    assert bench.apply(steal_lock=True).exit_code == 4


@pytest.mark.parametrize("at", [LAST_INSTANT_NS, FIRST_INSTANT_NS])
@pytest.mark.parametrize("seconds", [2**31 - 1, -(2**31)])
def test_a_lease_of_any_times_is_told_and_no_mistake_of_ours(at: int, seconds: int) -> None:
    bench = taint_bench()
    lease = held_by_another(bench)
    bench.cluster.leases[PLACE] = structs.replace(
        lease, renew_time_ns=at, lease_duration_seconds=seconds
    )

    assert bench.apply().ending.code is EndCode.LOCKED


def test_a_lease_without_times_says_that_it_never_expires_and_what_to_do() -> None:
    bench = taint_bench()
    lease = held_by_another(bench)
    bench.cluster.leases[PLACE] = structs.replace(lease, renew_time_ns=None)

    words = ending_words(bench.apply(steal_lock=True).ending)

    assert "never expires by itself" in words
    assert f"kubectl get lease {LOCK_NAME} -n {LOCK_NAMESPACE}" in words
    assert "--steal-lock cannot" in words


def test_an_expired_lock_is_taken_over_when_that_is_asked_for() -> None:
    bench = taint_bench()
    held_by_another(bench, 120.0)

    assert bench.apply(steal_lock=True).exit_code == 0


def test_a_run_that_died_is_gone_on_with_at_once() -> None:
    bench = taint_bench()
    killing(bench, 12)
    with pytest.raises(Killed):
        bench.apply()
    killing(bench, None)
    bench.files.crash(KEEPS["all"])
    assert bench.cluster.leases[PLACE].holder_identity

    assert bench.resume().exit_code == 0


def test_without_the_lock_nothing_is_asked_of_leases() -> None:
    bench = taint_bench()
    held_by_another(bench)
    bench.cluster.denied.add(("create", "leases"))

    assert bench.apply(lock_namespace="").exit_code == 0


def test_losing_the_lock_stops_new_mutations() -> None:
    bench = taint_bench(settle_seconds=100.0)
    bench.cluster.after(30.0, lambda: held_by_another(bench) and None)

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.LOCK_LOST)
    assert result.ending.objects[0] == "other@host/7/run-x"
    assert len(bench.cluster.mutations) == 1
    assert bench.cluster.leases[PLACE].holder_identity == "other@host/7/run-x"


def test_no_mutation_is_sent_under_a_lock_that_a_slow_look_outlasted() -> None:
    bench = taint_bench(settle_seconds=40.0)
    identity = bench.cluster.identity
    ages = []

    def slow() -> ClusterIdentity:
        bench.cluster.sleep(50.0)
        return identity()

    def sent(_request: Request) -> None:
        renewed_ns = bench.cluster.leases[PLACE].renew_time_ns
        assert renewed_ns is not None
        ages.append((bench.cluster.now - renewed_ns) / SECOND_NS)

    bench.cluster.before_mutation = sent
    bench.cluster.identity = slow  # type: ignore[method-assign]

    assert bench.apply().exit_code == 0
    assert len(ages) == 2
    assert max(ages) < LOCK_SECONDS - SAFETY_SECONDS


def test_a_lock_that_cannot_be_renewed_ends_the_run_before_it_expires() -> None:
    bench = taint_bench(settle_seconds=600.0)
    bench.cluster.after(5.0, lambda: _unreachable(bench))
    begun = bench.cluster.now

    result = bench.apply()

    assert result.ending.code is EndCode.LOCK_LOST
    assert len(bench.cluster.mutations) == 1
    assert (bench.cluster.now - begun) / SECOND_NS < LOCK_SECONDS + 5.0


def _unreachable(bench: Bench) -> None:
    bench.cluster.faults.lease_outcome = Outcome.NOT_SENT


def test_the_lock_is_kept_through_a_long_drain() -> None:
    bench = drain_bench()
    for pod in bench.cluster.pods.values():
        pod.exit_seconds = 300.0

    assert bench.apply().exit_code == 0


def test_a_lease_that_may_not_be_written_ends_the_run_with_zero_changes() -> None:
    bench = taint_bench()
    bench.cluster.denied.add(("create", "leases"))

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (5, EndCode.DENIED)
    assert result.ending.objects == ("create leases.coordination.k8s.io in namespace default",)
    assert bench.cluster.leases == {}


def second_run(bench: Bench, **parts: object) -> list[RunResult]:
    """Let another operator put another taint on the same nodes, just before our first patch."""
    other = TaintReference("other", "NoSchedule", "")
    plan = plan_of(bench.cluster, add_taint("n1", taint=other), add_taint("n2", taint=other))
    theirs = Bench(bench.cluster, plan)
    results: list[RunResult] = []

    def begins(_request: object) -> None:
        if not results and not theirs.files.stored:
            author = structs.replace(AUTHOR, user="second", pid=2)
            results.append(
                apply_plan(
                    plan,
                    JOURNAL,
                    theirs.outside(theirs.stop),
                    RunOptions(author=author, run_id="run-2", **parts),
                )
            )

    bench.cluster.before_mutation = begins
    return results


def test_of_two_operators_at_once_the_second_ends_before_anything_is_sent() -> None:
    bench = taint_bench()
    results = second_run(bench)

    assert bench.apply().exit_code == 0
    assert [result.ending.code for result in results] == [EndCode.LOCKED]
    assert len(bench.cluster.mutations) == 2
    assert not results[0].state.changed


def test_without_the_lock_two_operators_lose_none_of_each_others_taints() -> None:
    bench = taint_bench()
    results = second_run(bench, lock_namespace="")

    result = bench.apply(lock_namespace="")

    assert (result.exit_code, results[0].exit_code) == (0, 0)
    for name in ("n1", "n2"):
        keys = {taint["key"] for taint in bench.cluster.nodes[name].taints}
        assert keys >= {"gpu", "other", "maintenance"}


def test_a_lock_whose_creation_went_unanswered_is_found_to_be_ours() -> None:
    bench = taint_bench()
    create = bench.cluster.create_lease

    def lost(*words: Any) -> Reply:
        create(*words)
        return Reply(Outcome.UNKNOWN)

    bench.cluster.create_lease = lost  # type: ignore[method-assign]

    assert bench.apply().exit_code == 0


def died_holding_the_lock() -> Bench:
    bench = taint_bench()
    killing(bench, 12)
    with pytest.raises(Killed):
        bench.apply()
    killing(bench, None)
    bench.files.crash(KEEPS["all"])
    return bench


def going_on_as(bench: Bench, **author: object) -> RunResult:
    parts = RunOptions(author=structs.replace(AUTHOR, **author), run_id="run-1")
    return resume(bench.plan, JOURNAL, bench.outside(), parts)


def test_a_copied_journal_does_not_take_the_lock_of_a_run_that_is_at_work() -> None:
    bench = died_holding_the_lock()
    bench.cluster.processes.add(AUTHOR.pid)

    result = going_on_as(bench, pid=2)

    assert (result.exit_code, result.ending.code) == (4, EndCode.LOCKED)
    assert bench.cluster.leases[PLACE].holder_identity == "operator@laptop/1/run-1"


def test_another_machine_of_the_same_name_does_not_take_a_dead_process_for_its_own() -> None:
    bench = died_holding_the_lock()

    for pid in (2, AUTHOR.pid):
        result = going_on_as(bench, machine="boot-2", pid=pid)
        assert (result.exit_code, result.ending.code) == (4, EndCode.LOCKED)
    bench.cluster.sleep(LOCK_SECONDS + 1.0)
    assert going_on_as(bench, machine="boot-2", pid=2).exit_code == 0


def test_an_old_copy_of_a_journal_is_not_gone_on_with_when_the_run_has_gone_further() -> None:
    bench = died_holding_the_lock()
    copy = bench.files.read(JOURNAL)
    assert bench.resume().exit_code == 0
    sent = len(bench.cluster.mutations)
    bench.files.stored[JOURNAL].written = copy

    result = bench.resume()

    assert (result.exit_code, result.ending.code) == (4, EndCode.JOURNAL_BEHIND)
    assert len(bench.cluster.mutations) == sent


def test_without_the_lock_a_copied_journal_is_not_gone_on_with_beside_the_run() -> None:
    bench = taint_bench()
    refused: list[InputError] = []

    def goes_on_elsewhere(_request: object) -> None:
        if refused:
            return
        copies = CrashingFiles()
        copies.stored[JOURNAL] = Stored(bench.files.read(JOURNAL), named=True)
        copies.held = bench.files.held
        with pytest.raises(
            InputError, match="a process works with a copy of this journal"
        ) as caught:
            Bench(bench.cluster, bench.plan, copies).resume(lock_namespace="")
        refused.append(caught.value)
        assert not copies.stored[JOURNAL].locked

    bench.cluster.before_mutation = goes_on_elsewhere

    assert bench.apply(lock_namespace="").exit_code == 0
    assert len(refused) == 1
    assert bench.files.held == set()


def test_without_the_lock_and_without_a_place_for_it_nothing_is_begun() -> None:
    bench = taint_bench()
    bench.files.can_hold = False

    with pytest.raises(InputError, match="Read-only file system; nothing was sent"):
        bench.apply(lock_namespace="")
    assert (bench.cluster.mutations, bench.files.stored) == ([], {})
    assert bench.apply().exit_code == 0


def test_what_others_wrote_on_the_lease_stays() -> None:
    bench = taint_bench()
    lease = held_by_another(bench, 120.0)
    bench.cluster.leases[PLACE] = structs.replace(lease, annotations={"team": "platform"})

    bench.apply(steal_lock=True)

    assert bench.cluster.leases[PLACE].annotations.keys() == {"team", MACHINE, HEAD, PLAN, BEGUN}


def test_nobody_can_tell_from_another_host_that_a_run_is_dead_before_its_lock_is_over() -> None:
    bench = died_holding_the_lock()

    elsewhere = {"host": "elsewhere", "machine": "boot-2", "pid": 2}
    assert going_on_as(bench, **elsewhere).ending.code is EndCode.LOCKED
    bench.cluster.sleep(LOCK_SECONDS + 1.0)
    assert going_on_as(bench, **elsewhere).exit_code == 0


def test_the_lock_of_a_dead_process_of_this_host_and_run_is_taken_at_once() -> None:
    assert going_on_as(died_holding_the_lock(), pid=2).exit_code == 0


def test_processes_that_see_each_other_are_of_one_machine() -> None:
    other = "from kubectl_evictplan.world import machine; print(machine())"
    told = subprocess.check_output([sys.executable, "-c", other], text=True).strip()

    assert told == machine()


def test_a_process_that_has_ended_is_told_from_one_that_is_alive() -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()

    assert process_alive(os.getpid())
    assert not process_alive(ended.pid)
    assert not process_alive(0)


class Mac:
    """What of its C library tells the boot."""

    def __init__(self, answer: int = 0) -> None:
        self.answer = answer

    def sysctlbyname(self, name: bytes, found: Any, _size: Any, *_new: object) -> int:
        assert name == b"kern.bootsessionuuid"
        found.value = b"5E0C1F3A-0000-4000-8000-1234567890AB"
        return self.answer


def test_macos_tells_its_boot_and_others_tell_none() -> None:
    assert boot_session(Mac()) == b"5E0C1F3A-0000-4000-8000-1234567890AB"
    assert boot_session(Mac(-1)) == b""
    assert boot_session(object()) == b""
