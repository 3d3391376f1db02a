"""Signals, pauses, conditions, sleep of the machine: when nothing new is started any more."""

from __future__ import annotations

import itertools
import json
import os
import signal

import pytest
from apply.clusters import drain_bench, taint_bench, three_nodes
from apply.runs import Bench, add_taint, drain, plan_of
from apply.simulated_cluster import START_NS
from msgspec.structs import replace

from kubectl_evictplan import cli
from kubectl_evictplan.apply.conditions import parse_condition
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.progress import ClockGap, NodeDone, Paused, RequestSent
from kubectl_evictplan.apply.states import Phase
from kubectl_evictplan.apply.stop import Stop, StoppedAtOnce, signals_caught
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import SECOND_NS


def seconds_between_patches(bench: Bench) -> float:
    at = [event.at_ns for event in bench.told if isinstance(event, RequestSent)]
    return (at[1] - at[0]) / SECOND_NS


# -- signals -------------------------------------------------------------------------------------------


def test_a_signal_lets_what_is_under_way_finish_and_starts_nothing_new() -> None:
    bench = taint_bench()
    bench.cluster.before_mutation = lambda _request: bench.stop.request("SIGINT")

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (130, EndCode.INTERRUPTED)
    assert result.state.counts() == {"done": 1, "waiting": 1}
    assert [json.loads(line)["record"] for line in bench.lines[-2:]] == ["interrupted", "end"]
    assert result.resumable
    bench.cluster.before_mutation = lambda _request: None
    assert bench.resume().exit_code == 0


def test_a_signal_between_intent_and_request_keeps_the_request_back() -> None:
    bench = taint_bench()
    answered = itertools.count()
    append = bench.files.killer.step

    def step() -> None:
        append()
        last = (bench.lines or [b""])[-1] if bench.files.stored else b""
        if b'"record":"intent"' in last and not next(answered):
            bench.stop.request("SIGTERM")

    bench.files.killer.step = step  # type: ignore[method-assign]

    result = bench.apply()

    assert result.exit_code == 130
    assert bench.cluster.mutations == []
    assert not result.state.unknown


def test_a_second_signal_stops_at_once_and_the_journal_still_tells() -> None:
    bench = taint_bench()

    def twice(_request: object) -> None:
        bench.stop.request("SIGINT")
        bench.stop.request("SIGINT")

    bench.cluster.before_mutation = twice

    result = bench.apply()

    assert (result.exit_code, result.stopped_at_once) == (130, True)
    assert result.state.operations[1].phase is Phase.UNKNOWN
    assert json.loads(bench.lines[-1])["record"] == "intent"
    bench.cluster.before_mutation = lambda _request: None
    assert bench.resume().exit_code == 0


def test_real_signals_ask_to_stop_and_the_second_one_insists() -> None:
    stop = Stop()
    before = signal.getsignal(signal.SIGTERM)
    with signals_caught(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.requested, stop.signal_name) == (True, "SIGTERM")
        with pytest.raises(StoppedAtOnce):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_two_signals_where_no_run_is_at_work_end_the_program_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(_words: object, _program: object) -> int:
        stop = Stop()
        with signals_caught(stop):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("still alive")

    monkeypatch.setattr(cli, "_invoke", twice)
    assert cli.run(["apply", "plan.json"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_listener_whose_output_is_closed_does_not_stop_the_run() -> None:
    bench = taint_bench()

    class Closed(list):  # type: ignore[type-arg]
        def append(self, _event: object) -> None:
            raise BrokenPipeError

    bench.told = Closed()
    assert bench.apply().exit_code == 0


# -- pauses --------------------------------------------------------------------------------------------


def test_no_operation_begins_before_its_offset() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), add_taint("n2", 42.0)))

    bench.apply()

    assert 42.0 <= seconds_between_patches(bench) < 43.0


def test_offsets_count_from_the_first_mutation_also_after_an_interruption() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), add_taint("n2", 42.0)))
    cluster.after(10.0, lambda: bench.stop.request("SIGINT"))

    assert bench.apply().exit_code == 130
    assert bench.resume().exit_code == 0
    assert 42.0 <= seconds_between_patches(bench) < 43.0


def test_offsets_count_from_the_first_mutation_and_from_no_later_one() -> None:
    cluster = three_nodes()
    operations = [add_taint("n1"), add_taint("n2", 20.0), add_taint("n3", 42.0)]
    bench = Bench(cluster, plan_of(cluster, *operations))
    cluster.after(30.0, lambda: bench.stop.request("SIGINT"))

    assert bench.apply().exit_code == 130
    assert bench.resume().exit_code == 0
    at = [event.at_ns for event in bench.told if isinstance(event, RequestSent)]
    assert 42.0 <= (at[2] - at[0]) / SECOND_NS < 43.0


def test_a_pause_that_is_over_is_not_made_again() -> None:
    cluster = three_nodes()
    plan = plan_of(cluster, add_taint("n1"), add_taint("n2"), add_taint("n3"), settle_seconds=60.0)
    bench = Bench(cluster, plan)
    cluster.after(90.0, lambda: bench.stop.request("SIGINT"))

    assert bench.apply().exit_code == 130
    assert bench.resume().exit_code == 0
    settled = [e.node for e in bench.told if isinstance(e, Paused) and e.why == "settle"]
    assert settled == ["n1", "n2", "n2"]


def test_a_pause_comes_after_each_node_but_the_last() -> None:
    bench = drain_bench(settle_seconds=60.0)

    bench.apply()

    settled = [e for e in bench.told if isinstance(e, Paused) and e.why == "settle"]
    assert [event.node for event in settled] == ["n1"]
    ends = {e.node: e.at_ns / SECOND_NS for e in bench.told if isinstance(e, NodeDone)}
    assert ends["n2"] > ends["n1"]


def test_until_ready_waits_for_the_replacements_of_a_node() -> None:
    bench = drain_bench(until_ready=True)
    bench.cluster.workloads["shop/StatefulSet/db"].ready_seconds = 90.0

    bench.apply()

    waited = next(e for e in bench.told if isinstance(e, Paused) and e.why == "until-ready")
    assert "shop/StatefulSet/db" in waited.objects
    first = next(e for e in bench.told if isinstance(e, NodeDone))
    assert (first.at_ns - waited.at_ns) / SECOND_NS > 80.0


def test_a_new_pod_of_a_daemon_set_is_not_in_the_way() -> None:
    bench = drain_bench()
    bench.cluster.after(
        1.0, lambda: bench.cluster.add_pod("system/agent-2", "n1", "DaemonSet/agent") and None
    )

    assert bench.apply().exit_code == 0


def test_a_canary_that_somebody_undoes_is_the_only_node_touched() -> None:
    bench = taint_bench()
    bench.cluster.after_mutation = lambda _request: bench.cluster.write_taints("n1", [], "other")

    result = bench.apply()

    assert (result.ending.code, len(bench.cluster.mutations)) == (EndCode.REVERTED, 1)


def test_what_is_undone_in_a_pause_ends_the_run_before_the_next_node() -> None:
    bench = taint_bench(settle_seconds=60.0, canary=False)
    bench.cluster.after(30.0, lambda: bench.cluster.write_taints("n1", [], "other"))

    result = bench.apply()

    assert (result.ending.code, len(bench.cluster.mutations)) == (EndCode.REVERTED, 1)


def test_no_more_replacements_are_waited_for_than_are_wanted_by_now() -> None:
    bench = drain_bench(until_ready=True)
    workload = bench.cluster.workloads["shop/ReplicaSet/web"]
    workload.ready_seconds = 10_000.0
    bench.cluster.budgets["web"] = 2
    bench.cluster.after(60.0, lambda: setattr(workload, "wanted", 1))

    assert bench.apply().exit_code == 0


def test_who_goes_on_waits_for_as_many_ready_pods_as_there_were_at_first() -> None:
    bench = drain_bench(until_ready=True)
    database = bench.cluster.workloads["shop/StatefulSet/db"]
    database.ready_seconds = 200.0
    bench.cluster.after(2.0, lambda: bench.stop.request("SIGINT"))

    assert bench.apply().exit_code == 130
    assert bench.cluster.pods["shop/db-0"].deleted_ns is not None
    assert bench.resume().exit_code == 0
    waited = next(e for e in bench.told if isinstance(e, Paused) and e.why == "until-ready")
    assert "shop/StatefulSet/db" in waited.objects


def test_a_canary_that_does_not_end_as_predicted_is_the_only_node_touched() -> None:
    bench = drain_bench()
    bench.cluster.after(1.0, lambda: bench.cluster.add_pod("shop/late", "n1") and None)

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (3, EndCode.NOT_EMPTY)
    assert result.ending.objects == ("shop/late",)
    assert "shop/bare" in bench.cluster.pods


def test_at_most_so_many_evictions_are_under_way() -> None:
    cluster = three_nodes()
    for number in range(6):
        cluster.add_pod(f"shop/many-{number}", "n3", exit_seconds=5.0)
    bench = Bench(cluster, plan_of(cluster, *drain(cluster, "n3"), parallel=2))
    most = []
    cluster.after_mutation = lambda _request: most.append(
        sum(pod.deleted_ns is not None for pod in cluster.pods.values())
    )

    assert bench.apply().exit_code == 0
    assert max(most) == 2


def test_an_eviction_that_takes_too_long_is_left_and_named() -> None:
    bench = drain_bench(eviction_timeout_seconds=20.0)
    bench.cluster.budgets["web"] = 0

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (3, EndCode.TIMED_OUT)
    assert result.ending.objects == ("shop/web-a",)
    assert bench.cluster.evicted == {"uid-6": 1}
    bench.cluster.budgets["web"] = 2
    assert bench.resume().exit_code == 0


def test_a_pod_that_takes_too_long_to_go_is_not_called_given_up() -> None:
    bench = drain_bench(eviction_timeout_seconds=20.0)
    bench.cluster.pods["shop/db-0"].exit_seconds = 100.0

    result = bench.apply()

    assert (result.exit_code, result.ending.objects) == (3, ("shop/db-0",))
    assert result.state.counts()["accepted"] == 1
    assert "left" not in result.state.counts()


def test_no_eviction_begins_before_its_offset() -> None:
    cluster = three_nodes()
    later = [one(number) for number, one in enumerate(drain(cluster, "n1")[1:], start=1)]
    moved = [lambda number, one=one: replace(one, number=number, at_seconds=30.0) for one in later]
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), *moved))

    assert bench.apply().exit_code == 0
    assert 30.0 <= seconds_between_patches(bench) < 31.0


def test_waiting_is_over_when_the_budget_says_yes() -> None:
    bench = drain_bench(abort_if=("waiting > 30s",))
    bench.cluster.budgets["web"] = 0
    bench.cluster.pods["shop/web-a"].exit_seconds = 100.0
    bench.cluster.after(8.0, lambda: bench.cluster.budgets.update(web=2))

    assert bench.apply().exit_code == 0


def test_a_budget_is_asked_every_five_seconds_and_never_passed() -> None:
    bench = drain_bench()
    bench.cluster.budgets["web"] = 0
    bench.cluster.after(61.0, lambda: bench.cluster.budgets.update(web=1))

    assert bench.apply().exit_code == 0
    asked = sum("web-a" in request.path for request in bench.cluster.mutations)
    assert 12 <= asked <= 14


# -- conditions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "evicted"),
    [("evicted > 1", 2), ("evicted >= 1", 1), ("waiting > 30s", 1), ("not-ready-nodes > 2", 0)],
)
def test_a_run_ends_when_its_condition_is_met(rule: str, evicted: int) -> None:
    bench = drain_bench(abort_if=(rule,))
    bench.cluster.budgets["web"] = 0 if "waiting" in rule else 1
    bench.cluster.not_ready_nodes = 3

    result = bench.apply()

    assert (result.ending.code, result.ending.condition) == (EndCode.ABORTED, rule)
    assert result.exit_code == (3 if bench.cluster.mutations else 4)
    assert len(bench.cluster.evicted) == evicted


@pytest.mark.parametrize("workload", ["shop/db", "shop/StatefulSet/db"])
def test_a_workload_that_is_not_ready_ends_the_run(workload: str) -> None:
    bench = drain_bench(abort_if=(f"unready({workload}) > 0",))

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (3, EndCode.ABORTED)


def test_what_cannot_be_told_ends_the_run_as_if_it_were_so() -> None:
    bench = taint_bench(abort_if=("unready(shop/gone) > 1",))

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.ABORTED)
    assert bench.cluster.mutations == []


@pytest.mark.parametrize(
    "rule",
    ["", "evicted >", "evictd > 1", "unready > 1", "evicted(shop/web) > 1", "waiting > 5", "a b"],
)
def test_a_condition_that_makes_no_sense_is_refused(rule: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_condition(rule)
    assert caught.value.problems[0].location == "--abort-if"


def test_conditions_are_joined_as_those_of_gates_are() -> None:
    bench = drain_bench(abort_if=("not (evicted < 1) and not-ready-nodes == 0",))

    result = bench.apply()

    assert result.ending.code is EndCode.ABORTED
    assert sum(bench.cluster.evicted.values()) == 1


# -- the machine sleeps --------------------------------------------------------------------------------


def test_after_the_machine_slept_everything_is_looked_at_again() -> None:
    bench = taint_bench(settle_seconds=60.0)

    def sleeps() -> None:
        bench.cluster.faults.wall_offset_ns = 3600 * SECOND_NS
        bench.cluster.leases.clear()

    bench.cluster.after(20.0, sleeps)

    result = bench.apply()

    assert [round(e.seconds) for e in bench.told if isinstance(e, ClockGap)] == [3600]
    assert result.ending.code is EndCode.LOCK_LOST
    assert len(bench.cluster.mutations) == 1


def test_after_the_machine_slept_a_run_goes_on_when_all_is_as_it_was() -> None:
    bench = taint_bench(settle_seconds=60.0)

    def sleeps() -> None:
        bench.cluster.faults.wall_offset_ns = 3600 * SECOND_NS

    bench.cluster.after(20.0, sleeps)

    assert bench.apply().exit_code == 0
    assert any(isinstance(event, ClockGap) for event in bench.told)


def test_after_the_machine_slept_nodes_that_are_others_by_now_are_not_touched() -> None:
    bench = taint_bench(settle_seconds=60.0)

    def sleeps() -> None:
        bench.cluster.faults.wall_offset_ns = 3600 * SECOND_NS
        bench.cluster.recreate_node("n2")

    bench.cluster.after(20.0, sleeps)

    result = bench.apply()

    assert (result.exit_code, result.ending.node) == (4, "n2")
    assert (bench.cluster.now - START_NS) / SECOND_NS < 22.0
