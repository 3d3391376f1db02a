"""Nothing is sent before everything that can be checked has been."""

from __future__ import annotations

import json

import msgspec
import pytest
from apply.clusters import drain_bench, taint_bench, three_nodes
from apply.faults import Fault
from apply.runs import Bench, add_taint, plan_of, remove_taint
from apply.simulated_cluster import IDENTITY

from kubectl_evictplan.apply.endings import EndCode


def verdicts(bench: Bench) -> dict[str, str]:
    preflight = next(
        found for found in map(json.loads, bench.lines) if found["record"] == "preflight"
    )
    return {check["name"]: check["verdict"] for check in preflight["checks"]}


def test_every_check_is_in_the_journal() -> None:
    bench = taint_bench()
    bench.apply()

    told = {"identity": "ok", "access": "ok", "nodes": "ok", "dry-run": "ok"}
    assert verdicts(bench) == {**told, "eviction-api": "skipped"}
    assert bench.cluster.dry_runs == 2


def test_without_the_eviction_api_nothing_is_begun_and_nothing_deleted_instead() -> None:
    bench = drain_bench()
    bench.cluster.evictions_served = False

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.REFUSED)
    assert (bench.cluster.mutations, bench.cluster.leases) == ([], {})
    assert verdicts(bench)["eviction-api"] == "failed"


@pytest.mark.parametrize(
    ("denied", "told"),
    [
        (("create", "pods"), "create pods/eviction in namespace shop"),
        (("patch", "nodes"), "patch nodes n1"),
        (("list", "pods"), "list pods"),
    ],
)
def test_a_missing_right_ends_the_run_with_zero_changes(denied: tuple[str, str], told: str) -> None:
    bench = drain_bench()
    bench.cluster.denied.add(denied)

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (5, EndCode.DENIED)
    assert told in result.ending.objects
    assert (bench.cluster.mutations, bench.cluster.leases) == ([], {})
    assert verdicts(bench)["access"] == "failed"


def test_rights_are_asked_for_what_conditions_and_pauses_read() -> None:
    bench = drain_bench(until_ready=True, abort_if=("not-ready-nodes > 9",))
    bench.cluster.denied |= {("list", "replicasets"), ("list", "nodes")}

    result = bench.apply()

    assert result.ending.objects == (
        "list replicasets.apps in namespace shop",
        "list nodes",
    )


@pytest.mark.parametrize(
    ("cluster_uid", "user", "differs"),
    [
        ("other", "operator", "cluster"),
        ("cluster-1", "somebody", "user"),
        ("", "operator", "cluster"),
    ],
)
def test_another_cluster_or_user_ends_the_run_with_zero_changes(
    cluster_uid: str, user: str, differs: str
) -> None:
    bench = taint_bench()
    bench.cluster.faults.identity = msgspec.structs.replace(
        IDENTITY, cluster_uid=cluster_uid, user=user
    )

    result = bench.apply()

    assert (result.exit_code, result.ending.objects) == (4, (differs,))
    assert (bench.cluster.mutations, bench.cluster.leases) == ([], {})


def test_two_clusters_that_cannot_be_told_are_not_the_same() -> None:
    bench = taint_bench()
    nobody = msgspec.structs.replace(IDENTITY, cluster_uid="")
    bench.plan = msgspec.structs.replace(bench.plan, cluster=nobody)
    bench.cluster.faults.identity = nobody

    assert bench.apply().exit_code == 4
    assert bench.cluster.mutations == []


def test_a_user_that_old_servers_do_not_tell_is_let_through() -> None:
    bench = taint_bench()
    nobody = msgspec.structs.replace(IDENTITY, user="")
    bench.plan = msgspec.structs.replace(bench.plan, cluster=nobody)
    bench.cluster.faults.identity = nobody

    assert bench.apply().exit_code == 0


@pytest.mark.parametrize(
    ("fault", "code", "exit_code"),
    [
        (Fault.FORBIDDEN, EndCode.FORBIDDEN, 5),
        (Fault.INVALID, EndCode.REFUSED, 4),
        (Fault.UNAUTHENTICATED, EndCode.UNAUTHENTICATED, 5),
        (Fault.BUSY, EndCode.UNREACHABLE, 6),
        (Fault.LOST_BEFORE, EndCode.UNREACHABLE, 6),
        (Fault.NOT_SENT, EndCode.UNREACHABLE, 6),
    ],
)
def test_a_patch_that_the_server_would_not_take_ends_the_run_with_zero_changes(
    fault: Fault, code: EndCode, exit_code: int
) -> None:
    bench = taint_bench()
    bench.cluster.faults.dry_run = fault

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (exit_code, code)
    assert bench.cluster.mutations == []
    assert verdicts(bench)["dry-run"] == "failed"


def test_a_webhook_that_knows_no_dry_run_is_a_warning() -> None:
    bench = taint_bench()
    bench.cluster.faults.dry_run = Fault.NO_DRY_RUN

    assert bench.apply().exit_code == 0
    assert verdicts(bench)["dry-run"] == "unknown"


def test_a_node_that_is_not_the_plans_ends_the_run_with_zero_changes() -> None:
    bench = taint_bench()
    bench.cluster.recreate_node("n2")

    result = bench.apply()

    assert (result.exit_code, result.ending.node) == (4, "n2")
    assert bench.cluster.mutations == []


def test_a_server_that_does_not_answer_ends_the_run_with_zero_changes() -> None:
    bench = taint_bench()
    bench.cluster.faults.unreachable_reads = 1

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (6, EndCode.UNREACHABLE)
    assert bench.cluster.mutations == []


def test_a_patch_is_tried_on_what_earlier_ones_will_have_made_of_the_node() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), remove_taint("n1", 5.0)))

    bench.apply()

    assert cluster.dry_runs == 2
    assert len(cluster.mutations) == 2
